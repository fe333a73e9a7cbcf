//! What is slow and rarely fails: `cargo xtask nightly`. A failed step does not stop the later ones.

use crate::cargo_tool::Missing;
use crate::deny;
use crate::process;
use crate::sanitize;
use crate::soak::{self, Flags};
use crate::timetable::Timetable;
use crate::workspace::{Package, Workspace, cargo};
use anyhow::{Result, bail};
use std::process::Command;
use std::time::Duration;

/// All steps, in their order.
const STEPS: [&str; 8] = ["advisories", "features", "packages", "semver", "sanitizer", "fuzz", "crash", "outage"];

pub(crate) fn run(workspace: &Workspace, flags: &[&str]) -> Result<()> {
    let flags = Flags::parse(flags, &["--minutes", "--step"])?;
    let minutes = flags.number("--minutes")?.unwrap_or(10).max(1);
    let only = flags.get("--step");
    if let Some(step) = only.filter(|step| !STEPS.contains(step)) {
        bail!("no step `{step}`; there are {}", STEPS.join(", "));
    }
    let mut nightly = Nightly { steps: Timetable::new("nightly"), only };
    // New advisories appear without a change of the tree.
    nightly.attempt("advisories", || deny::advisories(workspace, Missing::Install));
    nightly.attempt("features", || features(workspace));
    nightly.packages(workspace);
    // There are about thirty targets, each of which runs for this time.
    let per_target = (minutes / 10).max(1).to_string();
    match sanitize::unavailable() {
        Some(reason) => nightly.not_run("sanitizer", reason),
        None => nightly.attempt("sanitizer", || sanitize::run(workspace, &["--minutes", &per_target])),
    }
    nightly.attempt("fuzz", || soak::fuzz(workspace, &["--minutes", &per_target]));
    let (seconds, minutes) = ((minutes * 60).to_string(), minutes.to_string());
    nightly.attempt("crash", || soak::crash(workspace, &["--minutes", &minutes]));
    nightly.attempt("outage", || soak::outage(workspace, None, &["--seconds", &seconds]));
    println!("{}", nightly.steps);
    match &nightly.steps.failed()[..] {
        [] => Ok(()),
        failed => bail!("these steps failed: {}\n  fix: their output is above", failed.join(", ")),
    }
}

/// The steps so far.
struct Nightly<'a> {
    steps: Timetable,
    /// The only step to run.
    only: Option<&'a str>,
}

impl Nightly<'_> {
    fn is_wanted(&self, step: &str) -> bool {
        self.only.is_none_or(|only| only == step)
    }

    /// Runs a step. Prints why it failed; the table counts it.
    fn attempt(&mut self, step: &str, work: impl FnOnce() -> Result<()>) {
        if self.is_wanted(step)
            && let Err(error) = self.steps.run(step, work)
        {
            eprintln!("nightly: {step}: {error:#}");
        }
    }

    fn not_run(&mut self, step: &str, reason: &str) {
        if self.is_wanted(step) {
            self.steps.not_run(step, reason);
        }
    }

    /// Packs each published package, and compares its public interface with the published one.
    fn packages(&mut self, workspace: &Workspace) {
        let published: Vec<&Package> = workspace.packages.iter().filter(|package| package.is_published).collect();
        if published.is_empty() {
            for step in ["packages", "semver"] {
                self.not_run(step, "every package has `publish = false`");
            }
            return;
        }
        let names = published.iter().flat_map(|package| ["--package", package.name.as_str()]);
        let names: Vec<&str> = names.collect();
        self.attempt("packages", || {
            let mut package = Command::new(cargo());
            process::run(package.current_dir(&workspace.root).args(["package", "--no-verify"]).args(&names))
        });
        if !is_installed(Command::new("cargo-semver-checks").arg("--version")) {
            return self.not_run("semver", "cargo-semver-checks is not installed");
        }
        self.attempt("semver", || {
            let mut check = Command::new("cargo-semver-checks");
            process::run(check.current_dir(&workspace.root).arg("semver-checks").args(&names))
        });
    }
}

/// Checks each package alone, without features and with each of its features. In a build of the workspace, a package also has the
/// features of its dependencies that other packages need.
fn features(workspace: &Workspace) -> Result<()> {
    let mut failed = Vec::new();
    for args in workspace.packages.iter().flat_map(feature_sets) {
        println!("nightly: cargo {}", args.join(" "));
        if let Err(error) = process::run(Command::new(cargo()).current_dir(&workspace.root).args(&args)) {
            failed.push(format!("{error:#}"));
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("{}", failed.join("\n")) }
}

/// Returns the arguments of cargo for each set of features.
fn feature_sets(package: &Package) -> Vec<Vec<String>> {
    let alone = ["check", "--quiet", "--package", &package.name, "--no-default-features"].map(str::to_owned);
    let with = |feature: &String| [&alone[..], &["--features".to_owned(), feature.clone()]].concat();
    std::iter::once(alone.to_vec()).chain(package.features.iter().map(with)).collect()
}

fn is_installed(version: &mut Command) -> bool {
    process::succeeds(version, Duration::from_secs(30))
}

#[cfg(test)]
mod tests {
    use super::feature_sets;
    use crate::workspace::Workspace;
    use serde_json::json;

    #[test]
    fn each_feature_is_checked_alone() {
        let metadata = json!({
            "workspace_root": ".",
            "target_directory": "target",
            "packages": [{
                "name": "p", "version": "0.1.0", "manifest_path": "Cargo.toml", "targets": [], "dependencies": [], "publish": [],
                "features": {"default": ["a"], "a": [], "b": []},
            }],
        });
        let workspace = Workspace::parse(&metadata.to_string()).unwrap();
        let package = &workspace.packages[0];
        assert!(!package.is_published);
        let sets: Vec<String> = feature_sets(package).iter().map(|args| args.join(" ")).collect();
        let alone = "check --quiet --package p --no-default-features";
        assert_eq!(sets, [alone.to_owned(), format!("{alone} --features a"), format!("{alone} --features b")]);
    }
}
