//! Checks that tests notice what they are for: `cargo xtask mutants protocol` removes one rule of the protocol of
//! `crates/segments` after the other, and its simulation must fail each time.
//!
//! The rules are removed in a copy of the crate, so the crate itself has no switches. All changes are made in the one copy, each
//! behind a condition on an environment variable, so that it is compiled once.

mod protocol;

use crate::process;
use crate::workspace::{Workspace, cargo};
use anyhow::{Context, Result, bail};
use protocol::{Edit, MUTANTS, Mutant};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The variable that chooses a mutant in the copy.
const VARIABLE: &str = "PROTOCOL_MUTANT";

/// How many schedules may pass before one must fail.
const SCHEDULES: u64 = 100_000;

/// How many schedules must pass without a mutant. `cargo test` runs as many.
const WITHOUT: u64 = 4_000;

/// What the copy has in addition: the condition of all changes.
const SWITCH: &str = r#"
/// Returns `true` if this rule is removed.
pub fn off(rule: &str) -> bool {
    static REMOVED: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    REMOVED.get_or_init(|| std::env::var("PROTOCOL_MUTANT").unwrap_or_default()) == rule
}
"#;

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let copy = workspace.target.join("mutants/protocol");
    make_copy(&workspace.root, &copy)?;
    let test = build(workspace, &copy)?;
    if let Some(violation) = violation(&test, "", WITHOUT)? {
        bail!("the simulation fails without a mutant: {violation}\n  fix: `cargo test -p branchyard-segments` first");
    }
    let mut survivors = Vec::new();
    for Mutant { name, removes, .. } in MUTANTS {
        match violation(&test, name, SCHEDULES)? {
            Some(violation) => println!("mutants: {name} ({removes}): {violation}"),
            None => survivors.push(format!("{name} ({removes})")),
        }
    }
    if !survivors.is_empty() {
        bail!(
            "the simulation does not notice that these are removed, in {SCHEDULES} schedules each:\n  {}\n  fix: have the simulation \
             reach what the rule is for (crates/segments/tests/it), or drop the rule",
            survivors.join("\n  ")
        );
    }
    println!("mutants: the simulation noticed all {}", MUTANTS.len());
    Ok(())
}

/// Copies the crate into a workspace of its own, with all changes.
fn make_copy(root: &Path, copy: &Path) -> Result<()> {
    if copy.exists() {
        fs::remove_dir_all(copy).with_context(|| format!("cannot remove {}", copy.display()))?;
    }
    copy_folder(&root.join("crates/segments"), &copy.join("crates/segments"))?;
    for edit in MUTANTS.iter().flat_map(|mutant| mutant.edits) {
        change(&copy.join("crates/segments"), edit)?;
    }
    let head = copy.join("crates/segments/src/lib.rs");
    let text = fs::read_to_string(&head)?;
    fs::write(&head, text + SWITCH)?;
    let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
    fs::write(copy.join("Cargo.toml"), alone(&manifest))?;
    fs::copy(root.join("Cargo.lock"), copy.join("Cargo.lock"))?;
    Ok(())
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target).with_context(|| format!("cannot copy {}", entry.path().display()))?;
        }
    }
    Ok(())
}

/// Replaces a text that occurs in a file exactly once.
fn change(folder: &Path, edit: &Edit) -> Result<()> {
    let path = folder.join(edit.file);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let changed = replaced(&text, edit).with_context(|| {
        format!("cannot make a mutant of crates/segments/{}\n  fix: adapt xtask/src/mutants/protocol.rs", edit.file)
    })?;
    fs::write(&path, changed)?;
    Ok(())
}

fn replaced(text: &str, edit: &Edit) -> Result<String> {
    match text.matches(edit.from).count() {
        1 => Ok(text.replacen(edit.from, edit.to, 1)),
        count => bail!("it has this text {count} times instead of once:\n{}", edit.from),
    }
}

/// Returns the workspace's manifest for a workspace with this crate only. What it says of other packages has no effect.
fn alone(manifest: &str) -> String {
    let mut text = String::new();
    for line in manifest.lines() {
        let line = match line.split_once(" = ") {
            Some(("members", _)) => "members = [\"crates/segments\"]",
            Some(("exclude" | "default-members", _)) => continue,
            _ => line,
        };
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// Compiles the simulation of the copy, and returns the program.
fn build(workspace: &Workspace, copy: &Path) -> Result<PathBuf> {
    let mut build = Command::new(cargo());
    build.args(["test", "--quiet", "--offline", "--test", "it", "--no-run", "--message-format", "json"]);
    // The dependencies are those of the workspace, and are compiled already.
    build.current_dir(copy).env("CARGO_TARGET_DIR", &workspace.target).stderr(Stdio::inherit());
    let messages = process::read(&mut build).context("cannot compile the mutants")?;
    let mut programs = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        message.get("executable")?.as_str().map(PathBuf::from)
    });
    programs.next_back().context("cargo names no program of the simulation")
}

/// Runs the simulation with a mutant. Returns what it found.
fn violation(test: &Path, mutant: &str, schedules: u64) -> Result<Option<String>> {
    let output = Command::new(test)
        .args(["simulation::no_schedule_has_a_violation", "--exact", "--nocapture"])
        .env(VARIABLE, mutant)
        .env("SCHEDULES", schedules.to_string())
        .env_remove("SEED")
        .output()
        .with_context(|| format!("cannot run {}", test.display()))?;
    if output.status.success() {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&output.stderr);
    // Anything else, such as an overflow in the copy, shows nothing about the rule.
    let violation = text.lines().find_map(|line| line.strip_prefix("violation in the "));
    violation
        .map(|violation| Some(violation.to_owned()))
        .with_context(|| format!("the simulation failed with the mutant `{mutant}`, but found no violation:\n{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_replaced_if_it_occurs_once() {
        let edit = Edit { file: "", from: "a", to: "b" };
        assert_eq!(replaced("xay", &edit).unwrap(), "xby");
        assert!(replaced("xy", &edit).is_err());
        assert!(replaced("aa", &edit).is_err());
    }

    #[test]
    fn every_change_fits_the_crate() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/segments");
        for edit in MUTANTS.iter().flat_map(|mutant| mutant.edits) {
            let text = fs::read_to_string(folder.join(edit.file)).unwrap();
            assert_eq!(text.matches(edit.from).count(), 1, "{}: {}", edit.file, edit.from);
        }
    }

    #[test]
    fn the_manifest_has_the_crate_alone() {
        let manifest =
            "[workspace]\nmembers = [\"crates/*\"]\nexclude = [\"x\"]\n\n[workspace.package]\nversion = \"1\"\n";
        assert_eq!(
            alone(manifest),
            "[workspace]\nmembers = [\"crates/segments\"]\n\n[workspace.package]\nversion = \"1\"\n"
        );
    }
}
