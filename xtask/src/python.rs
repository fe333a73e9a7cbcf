//! Python tools in virtual environments below `target`, which leaves the home directory unchanged.

use crate::process;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Returns the path of a tool's program. Installs the packages that are pinned in `requirements`, unless exactly these are installed.
/// A package without a checksum, or with another one, is refused.
pub(crate) fn tool(workspace: &Workspace, name: &str, program: &str, requirements: &str) -> Result<PathBuf> {
    let pinned = workspace.root.join(requirements);
    let environment = workspace.target.join("tools").join(name);
    let (ours, installed) = (environment.join("bin").join(program), environment.join("requirements.txt"));
    let wanted = std::fs::read(&pinned).with_context(|| format!("cannot read {requirements}"))?;
    let works = || process::succeeds(Command::new(&ours).arg("--version"), Duration::from_secs(30));
    if std::fs::read(&installed).is_ok_and(|there| there == wanted) && works() {
        return Ok(ours);
    }
    println!("installing {name} below {}", environment.display());
    process::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
    process::run(
        Command::new(environment.join("bin/pip"))
            .args(["install", "--quiet", "--disable-pip-version-check"])
            .args(["--no-deps", "--require-hashes", "--requirement"])
            .arg(&pinned),
    )?;
    std::fs::write(&installed, wanted)?;
    Ok(ours)
}
