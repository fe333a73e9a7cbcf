//! Tests with a time budget: fault injection, attacks and fuzzing. `cargo test` runs a little of each; these commands pass a seed
//! and a duration.

use crate::process;
use crate::workspace::{Workspace, cargo};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::Command;

/// Runs the real server, or several nodes, under injected faults.
pub(crate) fn crash(workspace: &Workspace, flags: &[&str]) -> Result<()> {
    let flags = Flags::parse(flags, &["--seed", "--minutes", "--nodes"])?;
    let nodes = flags.number("--nodes")?;
    let (name, seed, minutes) = match nodes {
        None => ("faults::what_was_acknowledged", "CRASH_SEED", "CRASH_MINUTES"),
        Some(_) => ("node_faults::several_nodes", "NODES_SEED", "NODES_MINUTES"),
    };
    let mut test = Command::new(cargo());
    test.args(["test", "-p", "branchyard", "--test", "it", name]).args(["--", "--nocapture"]);
    test.env(seed, flags.number("--seed")?.unwrap_or(1).to_string());
    test.env(minutes, flags.number("--minutes")?.unwrap_or(10).to_string());
    if let Some(nodes) = nodes {
        test.env("NODES", nodes.to_string());
    }
    process::run(test.current_dir(&workspace.root))
}

/// Runs the release binary under attack.
pub(crate) fn outage(workspace: &Workspace, binary: Option<PathBuf>, flags: &[&str]) -> Result<()> {
    let flags = Flags::parse(flags, &["--seconds", "--seed", "--attack"])?;
    let binary = release_binary(workspace, binary)?;
    let mut test = Command::new(cargo());
    test.args(["test", "-p", "branchyard", "--test", "it", "outage::the_worst_callers"]).args(["--", "--nocapture"]);
    test.env("OUTAGE_SECONDS", flags.number("--seconds")?.unwrap_or(60).to_string());
    test.env("OUTAGE_SEED", flags.number("--seed")?.unwrap_or(1).to_string());
    if let Some(name) = flags.get("--attack") {
        test.env("OUTAGE_ATTACK", name);
    }
    process::run(test.env("OUTAGE_BINARY", binary).current_dir(&workspace.root))
}

/// Runs writers and readers with one token against the real binary with default settings.
pub(crate) fn load(workspace: &Workspace, binary: Option<PathBuf>, flags: &[&str]) -> Result<()> {
    let flags = Flags::parse(flags, &["--seconds", "--writers", "--readers"])?;
    let mut test = Command::new(cargo());
    test.args(["test", "-p", "branchyard", "--test", "it", "load::writers_and_readers"]).args(["--", "--nocapture"]);
    test.env("LOAD_SECONDS", flags.number("--seconds")?.unwrap_or(60).to_string());
    test.env("LOAD_WRITERS", flags.number("--writers")?.unwrap_or(16).to_string());
    test.env("LOAD_READERS", flags.number("--readers")?.unwrap_or(64).to_string());
    test.env("LOAD_BINARY", release_binary(workspace, binary)?);
    process::run(test.current_dir(&workspace.root))
}

/// Returns the path of this binary, or builds the release binary.
fn release_binary(workspace: &Workspace, binary: Option<PathBuf>) -> Result<PathBuf> {
    if let Some(binary) = binary {
        return std::path::absolute(&binary).with_context(|| format!("no such file: {}", binary.display()));
    }
    let mut build = Command::new(cargo());
    build.args(["build", "--quiet", "--release", "--package", "branchyard"]);
    process::run(build.current_dir(&workspace.root))?;
    Ok(workspace.target.join("release/branchyard"))
}

/// Runs schedules of the protocol between nodes.
pub(crate) fn protocol(workspace: &Workspace, flags: &[&str]) -> Result<()> {
    let flags = Flags::parse(flags, &["--schedules", "--seed"])?;
    let mut test = Command::new(cargo());
    test.args(["test", "-p", "branchyard-segments", "--release", "--test", "it"]);
    test.args(["simulation::no_schedule_has_a_violation", "--", "--exact", "--nocapture"]);
    test.env("SCHEDULES", flags.number("--schedules")?.unwrap_or(1_000_000).to_string());
    test.env("SEED", flags.number("--seed")?.unwrap_or(1).to_string());
    process::run(test.current_dir(&workspace.root))
}

/// Creates a data folder that later versions have to serve.
pub(crate) fn fixture(workspace: &Workspace, flags: &[&str]) -> Result<()> {
    let flags = Flags::parse(flags, &["--version"])?;
    let Some(version) = flags.get("--version") else {
        bail!("name the version: `cargo xtask fixture --version v0.2.0`")
    };
    let mut test = Command::new(cargo());
    test.args(["test", "-p", "branchyard", "--test", "it", "fixtures::make::make", "--", "--exact", "--nocapture"]);
    process::run(test.env("FIXTURE_VERSION", version).current_dir(&workspace.root))
}

/// Where fuzz targets live: the prefix of their names, the package, the program, the test, and whether coverage guides the
/// mutations.
const PLACES: &[(&str, &str, &[&str], &str, bool)] = &[
    ("engine-push", "branchyard-engine-doltlite", &["--test", "it"], "hostile::pushes::fuzz", false),
    ("engine-", "branchyard-engine-doltlite", &["--test", "it"], "hostile::fuzz", false),
    ("hrana-", "branchyard", &["--test", "it"], "deployments::hostile::fuzz", false),
    ("process-push", "branchyard-engine-process", &["--test", "it"], "hostile::pushes::fuzz", false),
    ("process-", "branchyard-engine-process", &["--test", "it"], "hostile::fuzz", false),
    ("protocol-", "branchyard-engine-process", &["--lib"], "tests::fuzz::fuzz", false),
    ("", "branchyard-testkit", &["--test", "it"], "hostile::fuzz", true),
];

/// Counts each edge of the control flow of all Rust code, as fuzzers do (`crates/testkit/tests/it/hostile/coverage.rs`).
const COUNTED: &str = "--cfg sancov -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters";

/// Fuzzes the parsers with untrusted input. Without `--target`, every target runs for the full `--minutes`.
pub(crate) fn fuzz(workspace: &Workspace, flags: &[&str]) -> Result<()> {
    let flags = Flags::parse(flags, &["--target", "--seed", "--minutes"])?;
    let target = flags.get("--target");
    let seconds = flags.number("--minutes")?.unwrap_or(1) * 60;
    let seed = flags.number("--seed")?.unwrap_or(1);
    let place = target.and_then(|name| PLACES.iter().find(|(start, ..)| name.starts_with(start)));
    let places = place.map_or(PLACES, std::slice::from_ref);
    for &(_, package, program, name, counted) in places {
        let mut test = Command::new(cargo());
        test.args(["test", "-p", package]).args(program);
        if counted {
            // `--target` keeps the flags away from build scripts and procedural macros. A separate target folder keeps this build and the
            // ordinary one from invalidating each other.
            test.args(["--target", "host-tuple", "--target-dir", "target/fuzz"]);
            // The test reads all counters after every input.
            test.args(["--config", "profile.dev.package.branchyard-testkit.opt-level=2"]);
            test.env("RUSTFLAGS", COUNTED).env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
        }
        test.args([name, "--", "--exact", "--nocapture"]);
        test.env("FUZZ_SECONDS", seconds.to_string()).env("FUZZ_SEED", seed.to_string());
        if let Some(target) = target {
            test.env("FUZZ_TARGET", target);
        }
        process::run(test.current_dir(&workspace.root))?;
    }
    Ok(())
}

/// Flags that take a value.
pub(crate) struct Flags<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Flags<'a> {
    pub(crate) fn parse(args: &[&'a str], known: &[&str]) -> Result<Self> {
        let mut flags = Vec::new();
        for pair in args.chunks(2) {
            match *pair {
                [name, value] if known.contains(&name) => flags.push((name, value)),
                [name] if known.contains(&name) => bail!("`{name}` needs a value"),
                [name, ..] => bail!("unknown flag `{name}`; known are {}", known.join(", ")),
                [] => {}
            }
        }
        Ok(Self(flags))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>> {
        let parse = |text: &str| text.parse::<u64>().with_context(|| format!("`{name}` needs a number, not `{text}`"));
        self.get(name).map(parse).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::Flags;

    #[test]
    fn flags_have_values_and_known_names() {
        let known = ["--seed", "--minutes"];
        let flags = Flags::parse(&["--minutes", "5", "--seed", "7"], &known).unwrap();
        assert_eq!((flags.number("--seed").unwrap(), flags.number("--minutes").unwrap()), (Some(7), Some(5)));
        assert_eq!(Flags::parse(&[], &known).unwrap().number("--seed").unwrap(), None);
        for bad in [&["--seed"][..], &["--speed", "1"], &["seed=1"]] {
            assert!(Flags::parse(bad, &known).is_err(), "{bad:?}");
        }
        assert!(Flags::parse(&["--seed", "x"], &known).unwrap().number("--seed").is_err());
    }
}
