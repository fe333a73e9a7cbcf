//! Repeats at the end of a run what failed tests printed: readers of a long log look there first.

use crate::process::show;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Command, Stdio};

/// Bytes of a report that are kept. Of a longer one, the end is kept, because it has the last panics and the list of names.
const MOST: usize = 24_000;

/// Runs a `cargo test` command with inherited output. If it fails, prints the reports of failed tests once more, then returns an error.
pub(crate) fn run(test: &mut Command) -> Result<()> {
    let shown = show(test);
    let mut child =
        test.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().with_context(|| format!("cannot run `{shown}`"))?;
    let mut report = FailureReport::default();
    if let Some(stdout) = child.stdout.take() {
        let mut lines = BufReader::new(stdout);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).with_context(|| format!("cannot read from `{shown}`"))? > 0 {
            std::io::stdout().write_all(&line)?;
            report.take(&String::from_utf8_lossy(&line));
            line.clear();
        }
    }
    let status = child.wait().with_context(|| format!("cannot run `{shown}`"))?;
    if status.success() {
        return Ok(());
    }
    if !report.text.is_empty() {
        println!("ci: what the failed tests printed:\n{}", report.text);
    }
    bail!("`{shown}` failed ({status})");
}

/// The parts of the output between `failures:` and `test result:`.
#[derive(Default)]
struct FailureReport {
    text: String,
    is_open: bool,
}

impl FailureReport {
    fn take(&mut self, line: &str) {
        let end = line.trim_end();
        if end == "failures:" {
            self.is_open = true;
        }
        if end.starts_with("test result:") {
            self.is_open = false;
        }
        if self.is_open {
            self.text.push_str(line);
        }
        if self.text.len() > 2 * MOST {
            self.shorten();
        }
    }

    fn shorten(&mut self) {
        let from = self.text.len() - MOST;
        let from = (from..=self.text.len()).find(|at| self.text.is_char_boundary(*at)).unwrap_or(from);
        self.text.drain(..from);
    }
}

#[cfg(test)]
mod tests {
    use super::{FailureReport, MOST, run};
    use std::process::Command;

    #[test]
    fn reports_of_failed_tests_are_kept() {
        let mut report = FailureReport::default();
        let output = "test a ... ok\n\nfailures:\n\n---- b stdout ----\npanicked\n\nfailures:\n    b\n\ntest result: FAILED. 1 passed\nmore\n";
        for line in output.split_inclusive('\n') {
            report.take(line);
        }
        assert_eq!(report.text, "failures:\n\n---- b stdout ----\npanicked\n\nfailures:\n    b\n\n");
        report.take("failures:\n");
        for _ in 0..MOST {
            report.take("äöü\n");
        }
        report.take("the end\n");
        assert!(report.text.len() <= 2 * MOST && report.text.ends_with("the end\n"));
    }

    #[test]
    fn the_status_of_the_command_decides() {
        assert!(run(&mut Command::new("true")).is_ok());
        assert!(run(Command::new("sh").args(["-c", "echo failures:; exit 3"])).is_err());
    }
}
