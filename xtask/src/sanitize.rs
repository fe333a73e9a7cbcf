//! The engine's C code under AddressSanitizer and UndefinedBehaviorSanitizer: `cargo xtask sanitize`.
//!
//! Both languages are instrumented: C by the C compiler, Rust by rustc, whose runtime serves both. An error of
//! AddressSanitizer ends the test. UndefinedBehaviorSanitizer writes each place once and continues, so that one run finds
//! all of them; the places that `xtask/sanitize.txt` lists are accepted.

use crate::process;
use crate::soak::Flags;
use crate::workspace::{Workspace, cargo};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The C compiler's flags. The profile's optimization comes first, and is overridden for the sake of useful stacks.
const C_FLAGS: &str = "-fsanitize=address,undefined -fno-omit-frame-pointer -g1 -O1";
/// Not a product of the ordinary build, which would have to be compiled again after each run.
const FOLDER: &str = "target/sanitize";
/// How much longer than usual an input may take.
const SLOWDOWN: &str = "20";

/// The fuzz targets that reach C code, each with its package.
const TARGETS: &[(&str, &str)] = &[
    ("engine-read", ENGINE),
    ("engine-write", ENGINE),
    ("engine-read-session", ENGINE),
    ("engine-write-session", ENGINE),
    (PUSHES, ENGINE),
    ("import-sqlite", TESTKIT),
    ("import-sql", TESTKIT),
    ("parquet", TESTKIT),
    ("sql", TESTKIT),
    ("sql-write", TESTKIT),
];
const PUSHES: &str = "engine-push";
const ENGINE: &str = "branchyard-engine-doltlite";
const TESTKIT: &str = "branchyard-testkit";

/// Tests of the engine that measure time or memory, and are not meaningful on instrumented code.
const MEASURING: &[&str] =
    &["hostile::", "limits::", "guard::greedy_statements_fail", "hidden::the_check_costs_little"];

pub(crate) fn run(workspace: &Workspace, flags: &[&str]) -> Result<()> {
    let flags = Flags::parse(flags, &["--target", "--minutes", "--seed"])?;
    let seconds = flags.number("--minutes")?.unwrap_or(1) * 60;
    let seed = flags.number("--seed")?.unwrap_or(1);
    let only = flags.get("--target");
    if let Some(only) = only.filter(|only| TARGETS.iter().all(|(target, _)| target != only)) {
        let names: Vec<&str> = TARGETS.iter().map(|(target, _)| *target).collect();
        bail!("no target `{only}` reaches C code; there are {}", names.join(", "));
    }
    let sanitizer = Sanitizer::new(workspace)?;
    let mut results = Vec::new();
    if only.is_none() {
        let skipped = MEASURING.iter().flat_map(|name| ["--skip", name]);
        results.push(process::run(sanitizer.test(ENGINE).args(["--"]).args(skipped)));
    }
    for (target, package) in TARGETS.iter().filter(|(target, _)| only.is_none_or(|only| only == *target)) {
        let mut fuzz = sanitizer.test(package);
        let test = if *target == PUSHES { "hostile::pushes::fuzz" } else { "hostile::fuzz" };
        fuzz.args([test, "--", "--exact", "--nocapture"]).env("FUZZ_TARGET", target);
        fuzz.env("FUZZ_SECONDS", seconds.to_string()).env("FUZZ_SEED", seed.to_string()).env("FUZZ_SLOWDOWN", SLOWDOWN);
        results.push(process::run(&mut fuzz));
    }
    let mut problems: Vec<String> =
        results.into_iter().filter_map(Result::err).map(|error| format!("{error:#}")).collect();
    problems.extend(sanitizer.findings()?);
    if problems.is_empty() {
        println!("sanitize: no findings");
        return Ok(());
    }
    bail!("{}\n  fix: the reports are in {}", problems.join("\n"), sanitizer.reports)
}

/// Returns the reason why this machine cannot run the sanitizers, if there is one.
pub(crate) fn unavailable() -> Option<&'static str> {
    let mut probe = Command::new("cc");
    probe.args(["-fsanitize=address,undefined", "-fsyntax-only", "-x", "c", "/dev/null"]);
    match () {
        () if !cfg!(target_os = "linux") => Some("it needs Linux"),
        () if process::read(&mut probe).is_err() => Some("cc does not support -fsanitize=address,undefined"),
        () => None,
    }
}

struct Sanitizer<'a> {
    workspace: &'a Workspace,
    /// The target of this machine.
    host: String,
    /// The folder of the reports.
    reports: String,
}

impl<'a> Sanitizer<'a> {
    fn new(workspace: &'a Workspace) -> Result<Self> {
        if let Some(reason) = unavailable() {
            bail!("{reason}");
        }
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let host = process::read(Command::new(rustc).args(["--print", "host-tuple"]))?.trim().to_owned();
        let reports = workspace.root.join(FOLDER).join("reports");
        if reports.exists() {
            fs::remove_dir_all(&reports).with_context(|| format!("cannot remove {}", reports.display()))?;
        }
        fs::create_dir_all(&reports).with_context(|| format!("cannot create {}", reports.display()))?;
        let reports = reports.to_str().context("the path of the workspace is not UTF-8")?.to_owned();
        Ok(Self { workspace, host, reports })
    }

    /// Returns the command for the tests of a package.
    fn test(&self, package: &str) -> Command {
        let mut test = Command::new(cargo());
        test.current_dir(&self.workspace.root).args(["test", "--package", package, "--test", "it"]);
        // `--target` keeps the flags of Rust away from build scripts and procedural macros.
        test.args(["--target", &self.host, "--target-dir", FOLDER]);
        // `-Zsanitizer` is not stable. Its runtime comes with every toolchain.
        test.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", "-Zsanitizer=address");
        // Without the hardening flags, some of which hide errors from the sanitizers.
        test.env(format!("CC_{}", self.host), "cc").env(format!("CFLAGS_{}", self.host), C_FLAGS);
        // The tests end threads, and with them memory, by ending the process.
        test.env("ASAN_OPTIONS", format!("detect_leaks=0:handle_abort=1:log_path={}/report", self.reports));
        test.env("UBSAN_OPTIONS", format!("print_stacktrace=1:log_path={}/report", self.reports));
        test
    }

    /// Returns what the reports contain and the list of accepted places does not.
    fn findings(&self) -> Result<Vec<String>> {
        let list = self.workspace.root.join("xtask/sanitize.txt");
        let accepted = fs::read_to_string(&list).with_context(|| format!("cannot read {}", list.display()))?;
        let accepted: Vec<&str> = accepted.lines().filter_map(accepted_place).collect();
        let mut found = BTreeSet::new();
        for file in fs::read_dir(&self.reports)? {
            let report = fs::read(file?.path())?;
            found.extend(places(&String::from_utf8_lossy(&report)));
        }
        Ok(found.into_iter().filter(|place| !accepted.iter().any(|accepted| place.starts_with(accepted))).collect())
    }
}

/// Returns the place that a line of the list accepts: what is before the reason.
fn accepted_place(line: &str) -> Option<&str> {
    if line.starts_with('#') { None } else { line.split_once(" # ").map(|(place, _)| place.trim()) }
}

/// Returns the errors of a report, each with its place: `doltlite.c:12:3: runtime error: …`, or an error of
/// AddressSanitizer.
fn places(report: &str) -> impl Iterator<Item = String> {
    report.lines().filter_map(|line| {
        let (head, error) = line.split_once(": runtime error: ").unzip();
        if let (Some(head), Some(error)) = (head, error) {
            let file = Path::new(head).file_name()?.to_string_lossy().into_owned();
            return Some(format!("{file}: {error}"));
        }
        line.split_once("ERROR: AddressSanitizer: ").map(|(_, error)| format!("AddressSanitizer: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::{accepted_place, places};

    #[test]
    fn reports_are_reduced_to_places() {
        let report = "/a/vendor/doltlite.c:12:3: runtime error: signed integer overflow: 1 + 2\n    #0 0x1 in f\n\
                      ==7==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x1\nREAD of size 4\n";
        let found: Vec<String> = places(report).collect();
        let wanted = [
            "doltlite.c:12:3: signed integer overflow: 1 + 2",
            "AddressSanitizer: heap-buffer-overflow on address 0x1",
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_place_is_accepted_with_a_reason_only() {
        assert_eq!(accepted_place("doltlite.c:12:3: signed # it wraps"), Some("doltlite.c:12:3: signed"));
        assert_eq!(accepted_place("doltlite.c:12:3: signed"), None);
        assert_eq!(accepted_place("# a comment # of two parts"), None);
    }
}
