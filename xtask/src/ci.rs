//! All of CI, as a developer's machine runs it too. Cheap checks run first, and the first failure ends the run. At the end, a table
//! has the time of each step.

use crate::cargo_tool::Missing;
use crate::packages::{self, Extent};
use crate::timetable::Timetable;
use crate::workspace::{Workspace, cargo};
use crate::{
    deny, layers, machete, mutants, openapi, process, python, sbom, schemathesis, snapshots, test_failures, test_times,
    tidy, typos,
};
use anyhow::{Context, Result, bail};
use std::process::Command;
use std::thread;

/// The packages of Python that the recipes of the pages need.
const RECIPES: &str = "xtask/recipes/requirements.txt";
const POSTGRES: &str = "BRANCHYARD_TEST_POSTGRES_URL";
const VERSITYGW: &str = "BRANCHYARD_TEST_VERSITYGW";

pub(crate) fn run(workspace: &Workspace, tools: Missing) -> Result<()> {
    if std::env::var_os(POSTGRES).is_none_or(|url| url.is_empty()) {
        bail!(
            "{POSTGRES} is not set, and CI never skips Postgres\n  fix: `.ci/run` starts one and runs this; or name a server to make \
             databases on: {POSTGRES}=postgres://USER:PASSWORD@127.0.0.1:5432/DATABASE cargo xtask ci"
        );
    }
    if std::env::var_os(VERSITYGW).is_none_or(|path| path.is_empty()) {
        println!(
            "ci: NOTICE: {VERSITYGW} is not set, so the object store is NOT tested on a server with the protocol of S3 (`.ci/run` \
             builds one where Go is installed)"
        );
    }
    let mut steps = Timetable::new("ci");
    let result = run_steps(&mut steps, workspace, tools);
    println!("{steps}");
    match steps.failed()[..] {
        [step, ..] => result.with_context(|| format!("ci stopped at `{step}`")),
        [] => result.inspect(|()| println!("ci: all is well")),
    }
}

fn run_steps(steps: &mut Timetable, workspace: &Workspace, tools: Missing) -> Result<()> {
    let references = snapshots::prepare(workspace)?;
    let cargo = |args: &[&str]| {
        let mut command = Command::new(cargo());
        command.current_dir(&workspace.root).args(args);
        command
    };

    let binary = workspace.target.join(format!("debug/branchyard{}", std::env::consts::EXE_SUFFIX));

    steps.run("lock file", || {
        let args = ["metadata", "--locked", "--format-version", "1"];
        process::read(&mut cargo(&args))
            .map(drop)
            .context("Cargo.lock is out of date\n  fix: `cargo check`, then commit Cargo.lock")
    })?;
    steps.run("fmt", || process::run(&mut cargo(&["fmt", "--all", "--check"])).context("fix: `cargo fmt --all`"))?;
    steps.run("tidy", || tidy::run(workspace))?;
    steps.run("typos", || typos::run(workspace))?;
    steps.run("layers", || layers::run(workspace))?;
    steps.run("clippy", || {
        let args = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
        process::run(&mut cargo(&args))
    })?;
    steps.run("doc", || {
        let mut doc = cargo(&["doc", "--workspace", "--no-deps"]);
        process::run(doc.env("RUSTDOCFLAGS", "-D warnings"))
    })?;
    // Programs that the pages have recipes for. R comes with `.ci/run`.
    let mut recipes = None;
    steps.run("recipes", || {
        let python = python::tool(workspace, "recipes", "python", RECIPES).context(
            "fix: it needs Python 3.11 with venv (Debian: python3-venv) and PyPI, or a mirror named by PIP_INDEX_URL",
        )?;
        recipes = Some(python);
        Ok(())
    })?;
    // This is the command of the README. It includes the doc tests.
    steps.run("test", || {
        let mut test = cargo(&["test", "--workspace"]);
        let times = workspace.target.join("xtask/test-times");
        let measured = test_times::measure(&mut test, &times);
        test.env("INSTA_UPDATE", "no")
            .env("INSTA_FORCE_PASS", "0")
            .env(snapshots::VARIABLE, &references)
            .env("BRANCHYARD_TEST_REQUIRE_POSTGRES", "1")
            .envs(recipes.iter().map(|python| ("BRANCHYARD_TEST_RECIPES_PYTHON", python)));
        // The tests leave the processor idle for much of their time. The end of the scope waits for the tools.
        let result = thread::scope(|scope| {
            if tools == Missing::Install {
                let needed = [machete::TOOL, sbom::TOOL, deny::TOOL];
                scope.spawn(move || needed.iter().for_each(|tool| tool.install_gently(workspace)));
            }
            test_failures::run(&mut test)
        });
        match measured.and_then(|()| test_times::slowest(&times)) {
            Ok(slowest) => println!("ci: {slowest}"),
            Err(error) => println!("ci: NOTICE: the tests were not timed: {error:#}"),
        }
        result
    })?;
    steps.run("mutants", || mutants::run(workspace))?;
    steps.run("examples", || {
        let mut test = cargo(&["test", "--locked"]);
        test.current_dir(workspace.root.join("examples/snapshot-ci"))
            .env("BRANCHYARD", &binary)
            .env("INSTA_UPDATE", "no")
            .env(snapshots::VARIABLE, &references);
        process::run(&mut test)
    })?;
    steps.run("snapshots", || snapshots::check(workspace, &references))?;
    steps.run("openapi", || {
        // The build covers the same compilation units as the tests, so nothing is compiled twice.
        process::run(&mut cargo(&["build", "--workspace", "--bins", "--tests"]))?;
        openapi::check(workspace, Some(&binary))
    })?;
    steps.run("packages", || packages::run(workspace, tools, Some(binary.clone()), Extent::Quick))?;
    steps.run("schemathesis", || schemathesis::run(workspace, Some(&binary), &[]))?;
    // Last of the steps that compile: the server is linked once more, with the feature. `--workspace` keeps the features of all
    // other crates, so that these are not built again.
    steps.run("otlp", || {
        let args = ["test", "--workspace", "--features", "branchyard/otlp", "--test", "it", "--", "otlp::"];
        process::run(&mut cargo(&args))
    })?;
    steps.run("machete", || machete::run(workspace, tools))?;
    steps.run("sbom", || sbom::run(workspace, tools, None))?;
    steps.run("deny", || deny::run(workspace, tools))
}
