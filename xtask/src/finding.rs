//! Findings of a check.

use anyhow::{Result, bail};
use std::fmt;

/// A problem that a check found, and how to fix it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    what: String,
    fix: String,
}

impl Finding {
    pub(crate) fn new(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { what: what.into(), fix: fix.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  fix: {}", self.what, self.fix)
    }
}

/// Prints all findings. Returns an error if there are any.
pub(crate) fn settle(check: &str, findings: &[Finding]) -> Result<()> {
    for finding in findings {
        eprintln!("{check}: {finding}");
    }
    match findings.len() {
        0 => Ok(()),
        1 => bail!("{check}: 1 finding"),
        n => bail!("{check}: {n} findings"),
    }
}
