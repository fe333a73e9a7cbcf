//! Checks `deny.toml`: licenses, banned crates, sources and, if the advisory database can be fetched, advisories.

use crate::process;
use crate::workspace::{Workspace, cargo};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const VERSION: &str = "0.20.2";

/// How long fetching the advisory database may take.
const FETCH_LIMIT: Duration = Duration::from_secs(90);

/// What to do if cargo-deny is not installed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    Fail,
    Install,
}

pub(crate) fn run(workspace: &Workspace, missing: Missing) -> Result<()> {
    let program = find(workspace, missing)?;
    process::run(
        deny(&program, workspace).args(["check", "--hide-inclusion-graph"]).args(["licenses", "bans", "sources"]),
    )?;
    if process::succeeds(deny(&program, workspace).args(["fetch", "db"]), FETCH_LIMIT) {
        process::run(deny(&program, workspace).args(["check", "--disable-fetch", "advisories"]))
    } else {
        println!("deny: NOTICE: the advisory database cannot be fetched from here; advisories are NOT checked");
        Ok(())
    }
}

/// Returns the installed cargo-deny, or else the one under `target/tools`, which leaves the home directory unchanged.
fn find(workspace: &Workspace, missing: Missing) -> Result<PathBuf> {
    let tools = workspace.target.join("tools");
    let ours = tools.join("bin/cargo-deny");
    for candidate in [PathBuf::from("cargo-deny"), ours.clone()] {
        if works(&candidate) {
            return Ok(candidate);
        }
    }
    if missing == Missing::Fail {
        bail!(
            "cargo-deny is not installed\n  fix: `cargo install cargo-deny --locked --version {VERSION}`, or give --install-tools to \
             have it under target/tools"
        );
    }
    println!("installing cargo-deny {VERSION}, some minutes");
    process::run(
        Command::new(cargo())
            // Outside the workspace, whose cargo configuration is not meant for tools.
            .current_dir(std::env::temp_dir())
            .args(["install", "cargo-deny", "--locked", "--quiet"])
            // The tool runs for seconds, so an optimized build is not worth its time.
            .args(["--debug", "--version", VERSION, "--root"])
            .arg(&tools),
    )
    .context("cannot install cargo-deny")?;
    Ok(ours)
}

fn works(program: &Path) -> bool {
    process::succeeds(Command::new(program).arg("--version"), Duration::from_secs(10))
}

fn deny(program: &Path, workspace: &Workspace) -> Command {
    let mut command = Command::new(program);
    command.current_dir(&workspace.root).args(["--log-level", "error"]);
    command
}
