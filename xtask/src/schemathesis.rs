//! schemathesis against the real server: requests made from the OpenAPI document, every check, nothing may fail.
//!
//! The server is the debug binary with a data folder of its own, on a free port of the loopback interface, without rate limits. What
//! the tool is told besides the document is in `xtask/schemathesis`.

mod scene;
mod server;

use crate::process;
use crate::workspace::{Workspace, cargo};
use anyhow::{Context, Result, bail};
use server::Server;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const REQUIREMENTS: &str = "xtask/schemathesis/requirements.txt";
const CONFIGURATION: &str = "xtask/schemathesis/schemathesis.toml";
const HOOKS: &str = "xtask/schemathesis/hooks.py";

/// Asks this program instead of the one that is installed here.
const VARIABLE: &str = "XTASK_SCHEMATHESIS";

/// `binary`: test this server instead of building one; `more` goes to schemathesis as it is.
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
    let server = Server::start(&binary, &folder)?;
    let scene = scene::prepare(&server)?;
    let mut command = Command::new(program);
    command
        .current_dir(&folder)
        .arg("--config-file")
        .arg(workspace.root.join(CONFIGURATION))
        .args(["run", &format!("{}/api/v2/openapi.json", server.origin), "--url", &server.origin])
        .args(["--checks", "all", "--no-color", "--output-sanitize", "true"])
        .args(more)
        .env("SCENE_HOOKS", workspace.root.join(HOOKS))
        .envs(scene);
    process::run(&mut command).with_context(|| {
        format!("the answers are not as the OpenAPI document says; the server's log is {}", server.log.display())
    })?;
    server.stop()
}

/// schemathesis in a virtual environment under `target`, so that nobody's home is changed.
fn program(workspace: &Workspace) -> Result<PathBuf> {
    if let Some(given) = std::env::var_os(VARIABLE) {
        return Ok(given.into());
    }
    let requirements = workspace.root.join(REQUIREMENTS);
    let environment = workspace.target.join("tools/schemathesis");
    let (ours, installed) = (environment.join("bin/st"), environment.join("requirements.txt"));
    let wanted = std::fs::read(&requirements).with_context(|| format!("cannot read {REQUIREMENTS}"))?;
    let works = || process::succeeds(Command::new(&ours).arg("--version"), Duration::from_secs(30));
    if std::fs::read(&installed).is_ok_and(|there| there == wanted) && works() {
        return Ok(ours);
    }
    println!("installing schemathesis below {}", environment.display());
    let install = || -> Result<()> {
        process::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
        process::run(
            Command::new(environment.join("bin/pip"))
                .args(["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--requirement"])
                .arg(&requirements),
        )
    };
    if let Err(error) = install() {
        bail!(
            "schemathesis cannot be installed: {error:#}\n  fix: it needs Python 3.10 with venv (Debian: python3-venv) and PyPI, or a \
             mirror named by PIP_INDEX_URL. Without either: install {REQUIREMENTS} elsewhere, and give its `st` as {VARIABLE}=<file>"
        );
    }
    std::fs::write(&installed, wanted)?;
    Ok(ours)
}
