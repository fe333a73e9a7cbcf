//! Measures how long each test of `cargo test` takes.
//!
//! On a stable compiler, libtest reports times only if `RUSTC_BOOTSTRAP` is set. Cargo and build scripts must not see the variable, or
//! they compile everything again. Therefore cargo runs each test binary through `xtask run-test`, which sets the variable for that
//! binary alone and lets libtest write a log file. If any of this is impossible, the tests run without it.

use crate::process;
use crate::workspace::cargo;
use anyhow::{Context, Result};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The command of xtask that runs a test binary. Cargo calls it.
pub(crate) const RUN: &str = "run-test";

/// The environment variable that names the folder of the log files.
const VARIABLE: &str = "XTASK_TEST_TIMES";

const FLAGS: [&str; 3] = ["-Z", "unstable-options", "--report-time"];

/// How many tests the list of the slowest ones has.
const SLOWEST: usize = 20;

/// The time that a test took.
#[derive(Debug, Clone, PartialEq)]
struct TestTime {
    seconds: f64,
    package: String,
    test: String,
}

/// Makes a `cargo test` command write log files into the folder, which is emptied. Returns an error if that is impossible here; the
/// command is unchanged then.
pub(crate) fn measure(test: &mut Command, folder: &Path) -> Result<()> {
    let version = process::read(Command::new(cargo()).arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).context("cargo does not name its host")?;
    let runner = format!("CARGO_TARGET_{}_RUNNER", host.to_uppercase().replace(['-', '.'], "_"));
    anyhow::ensure!(std::env::var_os(&runner).is_none(), "{runner} is set already");
    let xtask = std::env::current_exe().context("the path of xtask is unknown")?;
    let xtask = xtask.to_str().filter(|path| !path.contains(char::is_whitespace));
    let xtask = xtask.context("the path of xtask contains a space, which cargo takes for the end of a runner")?;
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    test.env(runner, format!("{xtask} {RUN}")).env(VARIABLE, folder);
    Ok(())
}

/// Replaces this process by a test binary, which writes a log file if it can. Returns only if the binary cannot be run.
pub(crate) fn run(binary: &str, args: &[&str]) -> Result<()> {
    let mut test = Command::new(binary);
    test.args(args);
    let binary = Path::new(binary);
    if let Some(folder) = std::env::var_os(VARIABLE).filter(|_| is_test_binary(binary) && reports_times(binary)) {
        let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
        let stem = binary.file_stem().and_then(OsStr::to_str).unwrap_or_default();
        let log = PathBuf::from(folder).join(format!("{package} {stem}.log"));
        test.args(FLAGS).arg("--logfile").arg(log).env("RUSTC_BOOTSTRAP", "1");
    }
    if !is_test_binary(binary) {
        // rustdoc sets this for merged doc tests only if no runner is configured. Without it, they would share a process.
        test.env("RUSTDOC_DOCTEST_BIN_PATH", binary);
    }
    Err(test.exec()).with_context(|| format!("cannot run {}", binary.display()))
}

/// Returns `true` for test binaries, and `false` for those of doc tests, which have no flags.
fn is_test_binary(binary: &Path) -> bool {
    binary.parent().and_then(Path::file_name) == Some(OsStr::new("deps"))
}

/// Returns `true` if the binary accepts the flags, which may change with the compiler.
fn reports_times(binary: &Path) -> bool {
    let mut list = Command::new(binary);
    list.arg("--list").args(FLAGS).args(["--logfile", "/dev/null"]).env("RUSTC_BOOTSTRAP", "1");
    process::succeeds(&mut list, Duration::from_secs(10))
}

/// Returns the list of the slowest tests in the folder's log files.
pub(crate) fn slowest(folder: &Path) -> Result<String> {
    let mut times = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let package = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
        let package = package.split(' ').next().unwrap_or_default();
        let log = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        times.extend(log.lines().filter_map(|line| parse(package, line)));
    }
    anyhow::ensure!(!times.is_empty(), "no test reported its time");
    Ok(render(times))
}

/// Parses a line of a log file, `ok NAME <1.234s>`. Returns `None` for a test that did not run.
fn parse(package: &str, line: &str) -> Option<TestTime> {
    let (rest, time) = line.strip_suffix("s>")?.rsplit_once(" <")?;
    let (_, test) = rest.split_once(' ')?;
    Some(TestTime { seconds: time.parse().ok()?, package: package.to_owned(), test: test.to_owned() })
}

fn render(mut times: Vec<TestTime>) -> String {
    times.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let (count, sum) = (times.len(), times.iter().map(|time| time.seconds).sum::<f64>());
    let shown = times.iter().take(SLOWEST);
    let lines = shown.map(|TestTime { seconds, package, test }| format!("\n  {seconds:>8.1} s  {package}  {test}"));
    format!("the slowest of {count} tests, which took {sum:.0} s of threads:{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::{SLOWEST, TestTime, is_test_binary, parse, render, slowest};
    use std::path::Path;

    fn time(seconds: f64, test: &str) -> TestTime {
        TestTime { seconds, package: "p".to_owned(), test: test.to_owned() }
    }

    #[test]
    fn a_log_has_a_line_for_each_test() {
        assert_eq!(parse("p", "ok a::b <1.250s>"), Some(time(1.25, "a::b")));
        assert_eq!(parse("p", "failed a::b - should panic <0.000s>"), Some(time(0.0, "a::b - should panic")));
        for other in ["ignored a::b", "", "ok a::b", "ok a::b <xs>", "ok <1.0s>", "running 3 tests"] {
            assert_eq!(parse("p", other), None, "{other}");
        }
    }

    #[test]
    fn the_slowest_come_first() {
        let times: Vec<TestTime> = (0..30_u8).map(|n| time(f64::from(n), &format!("t{n}"))).collect();
        let text = render(times);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "the slowest of 30 tests, which took 435 s of threads:");
        assert_eq!((lines[1], lines.len()), ("      29.0 s  p  t29", SLOWEST + 1));
    }

    #[test]
    fn binaries_of_doc_tests_are_no_test_binaries() {
        assert!(is_test_binary(Path::new("/w/target/debug/deps/it-0123")));
        assert!(!is_test_binary(Path::new("/tmp/rustdoctestXyZ/rust_out")));
    }

    #[test]
    fn a_missing_folder_is_named() {
        assert!(slowest(Path::new("/no/such/folder")).unwrap_err().to_string().contains("/no/such/folder"));
    }

    /// This test runs in a binary of libtest, so that its own log file can be read.
    #[test]
    fn libtest_writes_what_is_parsed() {
        let binary = std::env::current_exe().unwrap();
        let folder = std::env::temp_dir().join(format!("xtask-test-times-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut test = std::process::Command::new(&binary);
        test.args(["test_times::tests::the_slowest_come_first", "--exact"]).args(super::FLAGS);
        test.arg("--logfile").arg(folder.join("p it-0.log")).env("RUSTC_BOOTSTRAP", "1");
        let output = test.output().unwrap();
        let text = slowest(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = text.unwrap();
        assert!(text.starts_with("the slowest of 1 tests"), "{text}");
        assert!(text.ends_with(" s  p  test_times::tests::the_slowest_come_first"), "{text}");
    }
}
