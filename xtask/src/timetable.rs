//! Runs the steps of a command, and prints how long each took.

use anyhow::Result;
use std::fmt;
use std::time::{Duration, Instant};

/// The steps of a command so far.
pub(crate) struct Timetable {
    command: &'static str,
    steps: Vec<Step>,
}

struct Step {
    name: String,
    outcome: Outcome,
    time: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    NotRun(String),
}

impl Timetable {
    pub(crate) fn new(command: &'static str) -> Self {
        Self { command, steps: Vec::new() }
    }

    /// Runs a step, and prints its name before and its time after it.
    pub(crate) fn run(&mut self, name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let command = self.command;
        println!("{command}: {name} …");
        let started = Instant::now();
        let result = work();
        let time = started.elapsed();
        let outcome = if result.is_ok() { Outcome::Passed } else { Outcome::Failed };
        println!("{command}: {name} {outcome} ({:.1} s)", time.as_secs_f64());
        self.steps.push(Step { name: name.to_owned(), outcome, time });
        result
    }

    /// Records a step that cannot run here.
    pub(crate) fn not_run(&mut self, name: &str, reason: &str) {
        println!("{}: {name} not run: {reason}", self.command);
        let outcome = Outcome::NotRun(reason.to_owned());
        self.steps.push(Step { name: name.to_owned(), outcome, time: Duration::ZERO });
    }

    /// Returns the names of the steps that failed.
    pub(crate) fn failed(&self) -> Vec<&str> {
        let failed = self.steps.iter().filter(|step| step.outcome == Outcome::Failed);
        failed.map(|step| step.name.as_str()).collect()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("ok"),
            Self::Failed => f.write_str("FAILED"),
            Self::NotRun(reason) => write!(f, "not run: {reason}"),
        }
    }
}

/// Prints a line for each step and their sum.
impl fmt::Display for Timetable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.steps.iter().map(|step| step.name.chars().count()).max().unwrap_or_default().max(5);
        writeln!(f, "{}: time of each step", self.command)?;
        for Step { name, outcome, time } in &self.steps {
            writeln!(f, "  {name:width$} {:>8.1} s  {outcome}", time.as_secs_f64())?;
        }
        let sum: Duration = self.steps.iter().map(|step| step.time).sum();
        write!(f, "  {:width$} {:>8.1} s", "total", sum.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::Timetable;
    use anyhow::bail;

    #[test]
    fn every_step_has_a_line_and_failures_are_named() {
        let mut table = Timetable::new("ci");
        table.run("fmt", || Ok(())).unwrap();
        table.run("clippy", || bail!("no")).unwrap_err();
        table.not_run("semver", "no package is published");
        let text = table.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "ci: time of each step");
        assert!(lines[1].starts_with("  fmt ") && lines[1].ends_with(" s  ok"), "{text}");
        assert!(lines[2].starts_with("  clippy ") && lines[2].ends_with(" s  FAILED"), "{text}");
        assert!(lines[3].ends_with(" 0.0 s  not run: no package is published"), "{text}");
        assert!(lines[4].starts_with("  total ") && lines.len() == 5, "{text}");
        assert_eq!(table.failed(), ["clippy"]);
    }
}
