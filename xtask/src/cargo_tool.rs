//! Cargo subcommands that CI installs. Each has one version, so that runs find the same over time.

use crate::process;
use crate::workspace::{Workspace, cargo};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What to do if a tool is not installed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    Fail,
    Install,
}

/// A program of crates.io with the version that is used. `cargo install --locked` checks the checksums of the tool and of all its
/// dependencies: those of the registry's index, and those of the lock file in the tool's package.
pub(crate) struct CargoTool {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// The arguments with which the program prints its version.
    pub(crate) version_args: &'static [&'static str],
}

impl CargoTool {
    /// Returns the program of this version: the installed one, or else the one under `target/tools`, which leaves the home directory
    /// unchanged. A program of another version does not count.
    pub(crate) fn find(&self, workspace: &Workspace, missing: Missing) -> Result<PathBuf> {
        let Self { name, version, .. } = self;
        if let Some(installed) = self.installed(workspace) {
            return Ok(installed);
        }
        if missing == Missing::Fail {
            bail!(
                "{name} {version} is not installed\n  fix: `cargo install {name} --locked --version {version}`, or give --install-tools \
                 to have it under target/tools"
            );
        }
        println!("installing {name} {version}, some minutes");
        process::run(&mut self.install(workspace, Command::new(cargo())))
            .with_context(|| format!("cannot install {name}"))?;
        Ok(self.ours(workspace))
    }

    /// Installs the program if it is not installed, with processor time that nothing else wants. The step that needs the program finds out
    /// whether that worked.
    pub(crate) fn install_gently(&self, workspace: &Workspace) {
        if self.installed(workspace).is_none() {
            let mut nice = Command::new("nice");
            nice.args(["-n", "19"]).arg(cargo());
            // Its output is discarded, because it would mix with that of the tests.
            let _ = self.install(workspace, nice).output();
        }
    }

    fn ours(&self, workspace: &Workspace) -> PathBuf {
        workspace.target.join("tools/bin").join(self.name)
    }

    fn installed(&self, workspace: &Workspace) -> Option<PathBuf> {
        [PathBuf::from(self.name), self.ours(workspace)].into_iter().find(|program| self.is_at(program))
    }

    /// Returns the command that installs the program. `cargo` has how cargo is called.
    fn install(&self, workspace: &Workspace, mut cargo: Command) -> Command {
        cargo
            // Outside the workspace, whose cargo configuration is not meant for tools.
            .current_dir(std::env::temp_dir())
            .args(["install", self.name, "--locked", "--quiet", "--force"])
            // The tool runs for seconds, so an optimized build is not worth its time.
            .args(["--debug", "--version", self.version, "--root"])
            .arg(workspace.target.join("tools"))
            .env("CARGO_PROFILE_DEV_DEBUG", "0");
        cargo
    }

    /// Returns `true` if the program works and has the version.
    fn is_at(&self, program: &Path) -> bool {
        process::read(Command::new(program).args(self.version_args)).is_ok_and(|printed| self.is_version(&printed))
    }

    fn is_version(&self, printed: &str) -> bool {
        printed.split_whitespace().any(|word| word == self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::CargoTool;
    use std::path::Path;

    #[test]
    fn another_version_does_not_count() {
        let tool = CargoTool { name: "cargo-deny", version: "0.20.2", version_args: &["--version"] };
        assert!(tool.is_version("cargo-deny 0.20.2\n"));
        for printed in ["cargo-deny 0.20.20", "cargo-deny 0.20.1", "cargo-deny 0.20.2-rc.1", ""] {
            assert!(!tool.is_version(printed), "{printed}");
        }
        assert!(!tool.is_at(Path::new("no-such-program-of-ours")));
    }
}
