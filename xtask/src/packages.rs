//! Checks what `contrib` and the Debian package promise, with the real programs: the rating of the systemd unit, the steps of the
//! Dockerfile, the proxies, and the package installed and started by systemd. The checks are scripts in `xtask/packages`.

use crate::cargo_tool::Missing;
use crate::deb::{self, Compression};
use crate::process;
use crate::timetable::Timetable;
use crate::workspace::{Workspace, cargo};
use anyhow::{Context, Result};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The worst rating of the unit by `systemd-analyze security`, in tenths.
const EXPOSURE: &str = "30";
/// The size of the file that is uploaded through a proxy, in MiB.
const UPLOAD: &str = "64";
/// The largest file that the server accepts by default, in MiB.
const LARGEST_UPLOAD: &str = "1024";

/// What the run covers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The unit and the proxies, which need neither root nor another build.
    Quick,
    Usual,
    /// Also the largest upload, for some minutes.
    Full,
}

/// Runs all checks with `binary`, or else with one of the dev profile that is built first.
pub(crate) fn run(workspace: &Workspace, missing: Missing, binary: Option<PathBuf>, extent: Extent) -> Result<()> {
    let binary = match binary {
        Some(binary) => binary,
        None => {
            let args = ["build", "--locked", "--package", "branchyard"];
            process::run(Command::new(cargo()).current_dir(&workspace.root).args(args))?;
            workspace.target.join("debug/branchyard")
        }
    };
    let mut steps = Timetable::new("packages");
    let result = checks(&mut steps, workspace, missing, &binary, extent);
    println!("{steps}");
    result
}

fn checks(steps: &mut Timetable, workspace: &Workspace, missing: Missing, binary: &Path, extent: Extent) -> Result<()> {
    let root = &workspace.root;
    steps.run("unit", || unit(root))?;
    let size = if extent == Extent::Full { LARGEST_UPLOAD } else { UPLOAD };
    steps.run("proxies", || script(root, Rights::User, "proxies.py", &[binary.as_os_str(), size.as_ref()]))?;
    if extent == Extent::Quick {
        return Ok(());
    }
    steps.run("dockerfile", || script(root, Rights::Root, "dockerfile.py", &["dev".as_ref()]))?;
    steps.run("deb", || {
        let out = workspace.target.join("deb/check");
        let package = deb::pack(workspace, missing, binary, &out, Compression::Fast)?;
        script(root, Rights::Root, "system.py", &[package.as_os_str()])
    })
}

/// Rates the systemd unit. The script `system.py` starts it.
fn unit(root: &Path) -> Result<()> {
    let rated = process::read(
        Command::new("systemd-analyze")
            .args(["security", "--offline=true", "--no-pager", &format!("--threshold={EXPOSURE}")])
            .arg(root.join("contrib/branchyard.service")),
    )
    .context("fix: install the package systemd, or harden the unit: the lines with ✗ are what counts")?;
    println!("{}", rated.lines().last().unwrap_or_default());
    Ok(())
}

/// Whether a script mounts file systems and changes owners.
#[derive(PartialEq, Eq)]
enum Rights {
    User,
    Root,
}

fn script(root: &Path, rights: Rights, name: &str, args: &[&OsStr]) -> Result<()> {
    let mut command = if rights == Rights::User || is_root()? {
        Command::new("python3")
    } else {
        let mut command = Command::new("sudo");
        // The build inside needs this user's toolchain.
        command.args(["--non-interactive", "--preserve-env", "env"]);
        command.arg(format!("PATH={}", std::env::var("PATH").unwrap_or_default())).arg("python3");
        command
    };
    process::run(command.current_dir(root).arg("-B").arg(root.join("xtask/packages").join(name)).args(args))
}

/// Returns whether this process is root's.
fn is_root() -> Result<bool> {
    Ok(process::read(Command::new("id").arg("-u"))?.trim() == "0")
}
