//! Runs schemathesis against the real server: requests are generated from the OpenAPI document, with every check on. Any failure fails
//! the run.
//!
//! The server is the debug binary with its own data folder, on a free port of the loopback interface, without rate limits. The
//! configuration of the tool is in `xtask/schemathesis`.

mod scene;
mod server;

use crate::workspace::{Workspace, cargo};
use crate::{process, python};
use anyhow::{Context, Result, anyhow};
use server::ServerProcess;
use std::path::{Path, PathBuf};
use std::process::Command;

const REQUIREMENTS: &str = "xtask/schemathesis/requirements.txt";
const CONFIGURATION: &str = "xtask/schemathesis/schemathesis.toml";
const HOOKS: &str = "xtask/schemathesis/hooks.py";

/// The environment variable that names a schemathesis to run instead of the one that is installed below `target`.
const VARIABLE: &str = "XTASK_SCHEMATHESIS";

/// Tests the server `binary`, or a fresh build. `more` is passed on to schemathesis unchanged.
pub(crate) fn run(workspace: &Workspace, binary: Option<&Path>, more: &[&str]) -> Result<()> {
    let program = program(workspace)?;
    let binary = match binary {
        Some(binary) => binary.to_owned(),
        None => {
            process::run(Command::new(cargo()).current_dir(&workspace.root).args([
                "build",
                "--package",
                "branchyard",
            ]))?;
            workspace.target.join(format!("debug/branchyard{}", std::env::consts::EXE_SUFFIX))
        }
    };
    let folder = workspace.target.join("xtask/schemathesis");
    let server = ServerProcess::start(&binary, &folder)?;
    let scene = scene::prepare(&server)?;
    let mut command = Command::new(program);
    command
        .current_dir(&folder)
        .arg("--config-file")
        .arg(workspace.root.join(CONFIGURATION))
        .args(["run", &format!("{}/api/v2/openapi.json", server.origin), "--url", &server.origin])
        // All checks run by default. To name them here would run those, too, that the configuration disables for an operation.
        .args(["--no-color", "--output-sanitize", "true"])
        .args(more)
        .env("SCENE_HOOKS", workspace.root.join(HOOKS))
        .envs(scene);
    process::run(&mut command).with_context(|| {
        format!("the answers are not as the OpenAPI document says; the server's log is {}", server.log.display())
    })?;
    server.stop()
}

fn program(workspace: &Workspace) -> Result<PathBuf> {
    if let Some(given) = std::env::var_os(VARIABLE) {
        return Ok(given.into());
    }
    python::tool(workspace, "schemathesis", "st", REQUIREMENTS).map_err(|error| {
        anyhow!(
            "schemathesis cannot be installed: {error:#}\n  fix: it needs Python 3.10 with venv (Debian: python3-venv) and PyPI, or a \
             mirror named by PIP_INDEX_URL. Without either: install {REQUIREMENTS} elsewhere, and give its `st` as {VARIABLE}=<file>"
        )
    })
}
