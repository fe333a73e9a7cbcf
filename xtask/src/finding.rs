//! What a check found wrong.

use anyhow::{Result, bail};
use std::fmt;

/// One thing that is wrong, and how to make it right.
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

/// Prints all findings; an error when there is one.
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
