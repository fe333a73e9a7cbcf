//! Repeats at the end of a run what failed tests printed: readers of a long log look there first.

use crate::process::show;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// Bytes of a report that are kept. Of a longer one, the end is kept, because it has the last panics and the list of names.
const MOST: usize = 24_000;

/// Runs a `cargo test` command with inherited output. If it fails, prints the reports of failed tests once more, then returns an error.
pub(crate) fn run(test: &mut Command) -> Result<()> {
    run_into(test, &mut std::io::stdout())
}

fn run_into(test: &mut Command, output: &mut dyn Write) -> Result<()> {
    let shown = show(test);
    let mut child =
        test.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().with_context(|| format!("cannot run `{shown}`"))?;
    let mut report = FailureReport::default();
    if let Some(stdout) = child.stdout.take() {
        let mut lines = BufReader::new(stdout);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).with_context(|| format!("cannot read from `{shown}`"))? > 0 {
            output.write_all(&line)?;
            report.take(&String::from_utf8_lossy(&line));
            line.clear();
        }
    }
    // A binary that was killed has no result.
    report.text.push_str(&report.part.take().unwrap_or_default());
    let status = child.wait().with_context(|| format!("cannot run `{shown}`"))?;
    if status.success() {
        return Ok(());
    }
    if !report.text.is_empty() {
        writeln!(output, "ci: what the failed tests printed:\n{}", report.text)?;
    }
    bail!("`{shown}` failed ({status})");
}

/// The parts of the output between `failures:` and `test result: FAILED`.
#[derive(Default)]
struct FailureReport {
    text: String,
    /// The part since `failures:`, until its `test result:` shows whether the binary failed: a passing test may print `failures:` too.
    part: Option<String>,
}

impl FailureReport {
    fn take(&mut self, line: &str) {
        let end = line.trim_end();
        if end.starts_with("test result:") {
            let part = self.part.take().filter(|_| end.contains("FAILED"));
            self.text.push_str(&part.unwrap_or_default());
            shorten(&mut self.text);
            return;
        }
        if end == "failures:" {
            self.part.get_or_insert_default();
        }
        if let Some(part) = &mut self.part {
            part.push_str(line);
            shorten(part);
        }
    }
}

/// Keeps the last [`MOST`] bytes of a text that is twice as long.
fn shorten(text: &mut String) {
    if text.len() > 2 * MOST {
        let from = text.len() - MOST;
        let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(from);
        text.drain(..from);
    }
}

#[cfg(test)]
mod tests {
    use super::{FailureReport, MOST, run_into};
    use std::process::Command;

    fn report_of(output: &str) -> String {
        let mut report = FailureReport::default();
        for line in output.split_inclusive('\n') {
            report.take(line);
        }
        report.text
    }

    #[test]
    fn reports_of_failed_tests_are_kept() {
        let failed = "failures:\n\n---- b stdout ----\npanicked\n\nfailures:\n    b\n\n";
        let output = format!("test a ... ok\n\n{failed}test result: FAILED. 1 passed\nmore\n");
        assert_eq!(report_of(&output), failed);
        let long = format!("failures:\n{}the end\ntest result: FAILED. 1 passed\n", "äöü\n".repeat(MOST));
        let long = report_of(&long);
        assert!(long.len() <= 2 * MOST && long.ends_with("the end\n"));
    }

    #[test]
    fn a_passing_binary_that_prints_failures_is_not_reported() {
        let passed =
            "running 2 tests\nfailures:\ntest a ... ok\ntest b ... ok\n\ntest result: ok. 2 passed; 0 failed\n";
        let failed = "failures:\n    c\n\n";
        let output = format!("{passed}{failed}test result: FAILED. 0 passed\n{passed}");
        assert_eq!(report_of(&output), failed);
    }

    #[test]
    fn the_status_of_the_command_decides() {
        let output_of = |test: &mut Command| {
            let mut output = Vec::new();
            let is_ok = run_into(test, &mut output).is_ok();
            (is_ok, String::from_utf8(output).unwrap())
        };
        assert_eq!(output_of(&mut Command::new("true")), (true, String::new()));
        let killed = output_of(Command::new("sh").args(["-c", "echo failures:; echo '    c'; kill -9 $$"]));
        assert!(
            !killed.0 && killed.1.ends_with("ci: what the failed tests printed:\nfailures:\n    c\n\n"),
            "{}",
            killed.1
        );
        let script = "echo failures:; echo '    c'; echo 'test result: FAILED.'; exit 3";
        let (is_ok, output) = output_of(Command::new("sh").args(["-c", script]));
        assert!(!is_ok);
        let (printed, repeated) = output.split_once("ci: what the failed tests printed:\n").unwrap();
        assert_eq!(printed, "failures:\n    c\ntest result: FAILED.\n");
        assert_eq!(repeated, "failures:\n    c\n\n");
    }
}
