//! All of CI, as a developer's machine runs it too. Cheap checks run first, and the first failure ends the run.

use crate::workspace::{Workspace, cargo};
use crate::{deny, layers, openapi, process, schemathesis, snapshots, tidy};
use anyhow::{Context, Result, bail};
use std::process::Command;
use std::time::Instant;

const POSTGRES: &str = "BRANCHYARD_TEST_POSTGRES_URL";

pub(crate) fn run(workspace: &Workspace, tools: deny::Missing) -> Result<()> {
    if std::env::var_os(POSTGRES).is_none_or(|url| url.is_empty()) {
        bail!(
            "{POSTGRES} is not set, and CI never skips Postgres\n  fix: `.ci/run` starts one and runs this; or name a server to make \
             databases on: {POSTGRES}=postgres://USER:PASSWORD@127.0.0.1:5432/DATABASE cargo xtask ci"
        );
    }
    let references = snapshots::prepare(workspace)?;
    let cargo = |args: &[&str]| {
        let mut command = Command::new(cargo());
        command.current_dir(&workspace.root).args(args);
        command
    };

    let binary = workspace.target.join(format!("debug/branchyard{}", std::env::consts::EXE_SUFFIX));

    step("lock file", || {
        let args = ["metadata", "--locked", "--format-version", "1"];
        process::read(&mut cargo(&args))
            .map(drop)
            .context("Cargo.lock is out of date\n  fix: `cargo check`, then commit Cargo.lock")
    })?;
    step("fmt", || process::run(&mut cargo(&["fmt", "--all", "--check"])).context("fix: `cargo fmt --all`"))?;
    step("tidy", || tidy::run(workspace))?;
    step("layers", || layers::run(workspace))?;
    step("clippy", || {
        let args = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
        process::run(&mut cargo(&args))
    })?;
    step("doc", || {
        let mut doc = cargo(&["doc", "--workspace", "--no-deps"]);
        process::run(doc.env("RUSTDOCFLAGS", "-D warnings"))
    })?;
    // This is the command of the README. It includes the doc tests.
    step("test", || {
        let mut test = cargo(&["test", "--workspace"]);
        test.env("INSTA_UPDATE", "no")
            .env("INSTA_FORCE_PASS", "0")
            .env(snapshots::VARIABLE, &references)
            .env("BRANCHYARD_TEST_REQUIRE_POSTGRES", "1");
        process::run(&mut test)
    })?;
    step("snapshots", || snapshots::check(workspace, &references))?;
    step("openapi", || {
        // The build covers the same compilation units as the tests, so nothing is compiled twice.
        process::run(&mut cargo(&["build", "--workspace", "--bins", "--tests"]))?;
        openapi::check(workspace, Some(&binary))
    })?;
    step("schemathesis", || schemathesis::run(workspace, Some(&binary), &[]))?;
    step("deny", || deny::run(workspace, tools))?;
    println!("ci: all is well");
    Ok(())
}

fn step(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("ci: {name} …");
    let started = Instant::now();
    let result = work();
    let verdict = if result.is_ok() { "ok" } else { "FAILED" };
    println!("ci: {name} {verdict} ({:.1} s)", started.elapsed().as_secs_f32());
    result.with_context(|| format!("ci stopped at `{name}`"))
}
