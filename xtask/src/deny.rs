//! Checks `deny.toml`: licenses, banned crates, sources and, if the advisory database can be fetched, advisories.

use crate::cargo_tool::{CargoTool, Missing};
use crate::process;
use crate::workspace::Workspace;
use anyhow::{Result, bail};
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub(crate) const TOOL: CargoTool = CargoTool { name: "cargo-deny", version: "0.20.2", version_args: &["--version"] };

/// The environment variable that says whether the check of advisories may be left out.
const VARIABLE: &str = "BRANCHYARD_CI_ADVISORIES";

/// How long fetching the advisory database may take.
const FETCH_LIMIT: Duration = Duration::from_secs(90);

/// What to do if the advisory database cannot be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Advisories {
    /// The check fails.
    Required,
    /// The check is left out, with a notice.
    IfReachable,
}

impl Advisories {
    /// Parses the value of the environment variable. An unknown value is an error, so that a misspelled one does not switch the check
    /// off.
    fn parse(value: Option<&OsStr>) -> Result<Self> {
        match value.map(|value| value.to_string_lossy()).as_deref() {
            Some("required") => Ok(Self::Required),
            None | Some("") => Ok(Self::IfReachable),
            Some(other) => bail!("{VARIABLE} is `{other}`\n  fix: set it to `required`, or unset it"),
        }
    }

    /// Returns `true` if advisories are to be checked, `false` if the check is left out.
    ///
    /// # Errors
    /// The database is required and was not fetched.
    fn are_checked(self, fetched: bool) -> Result<bool> {
        if !fetched && self == Self::Required {
            bail!(
                "the advisory database cannot be fetched (limit: {} s), and {VARIABLE}=required does not allow leaving out the check\n  \
                 fix: run again where https://github.com/rustsec/advisory-db can be reached, or unset {VARIABLE}",
                FETCH_LIMIT.as_secs()
            );
        }
        Ok(fetched)
    }
}

pub(crate) fn run(workspace: &Workspace, missing: Missing) -> Result<()> {
    let program = TOOL.find(workspace, missing)?;
    // An unknown value fails before the checks have run.
    let policy = Advisories::parse(std::env::var_os(VARIABLE).as_deref())?;
    process::run(
        deny(&program, workspace).args(["check", "--hide-inclusion-graph"]).args(["licenses", "bans", "sources"]),
    )?;
    check_advisories(&program, workspace, policy)
}

/// Checks advisories only: new ones appear without a change of the tree.
pub(crate) fn advisories(workspace: &Workspace, missing: Missing) -> Result<()> {
    let program = TOOL.find(workspace, missing)?;
    check_advisories(&program, workspace, Advisories::parse(std::env::var_os(VARIABLE).as_deref())?)
}

fn check_advisories(program: &Path, workspace: &Workspace, policy: Advisories) -> Result<()> {
    let fetched = process::succeeds(deny(program, workspace).args(["fetch", "db"]), FETCH_LIMIT);
    if policy.are_checked(fetched)? {
        return process::run(deny(program, workspace).args(["check", "--disable-fetch", "advisories"]));
    }
    println!(
        "deny: NOTICE: the advisory database cannot be fetched from here; advisories are NOT checked ({VARIABLE}=required makes this a \
         failure)"
    );
    Ok(())
}

fn deny(program: &Path, workspace: &Workspace) -> Command {
    let mut command = Command::new(program);
    command.current_dir(&workspace.root).args(["--log-level", "error"]);
    command
}

#[cfg(test)]
mod tests {
    use super::Advisories;
    use std::ffi::OsStr;

    fn parse(value: &str) -> Advisories {
        Advisories::parse(Some(OsStr::new(value))).unwrap()
    }

    #[test]
    fn an_absent_advisory_database_fails_only_if_it_is_required() {
        let required = parse("required");
        let optional = Advisories::parse(None).unwrap();
        assert_eq!(parse(""), optional);
        // A fetched database is checked in any case.
        assert!(required.are_checked(true).unwrap() && optional.are_checked(true).unwrap());
        assert!(!optional.are_checked(false).unwrap());
        let error = required.are_checked(false).unwrap_err().to_string();
        assert!(error.contains("cannot be fetched (limit: 90 s)") && error.contains("\n  fix: "), "{error}");
    }

    #[test]
    fn a_misspelled_value_is_an_error() {
        for value in ["Required", "require", "1", "true"] {
            let error = Advisories::parse(Some(OsStr::new(value))).unwrap_err().to_string();
            assert!(error.starts_with(&format!("BRANCHYARD_CI_ADVISORIES is `{value}`\n  fix: ")), "{error}");
        }
    }
}
