//! Checks the spelling of the tree, with typos. `typos.toml` lists the words that it does not know.

use crate::process;
use crate::python;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::process::Command;

/// The program as a Python package, which holds it compiled: its source takes minutes and a newer Rust than this workspace.
const REQUIREMENTS: &str = "xtask/typos/requirements.txt";

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let program = python::tool(workspace, "typos", "typos", REQUIREMENTS)?;
    process::run(Command::new(program).current_dir(&workspace.root).args(["--config", "typos.toml"]))
        .context("fix: correct the word, or list it in typos.toml with the reason")
}
