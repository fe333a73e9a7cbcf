//! Finds dependencies that no code uses, with cargo-machete.

use crate::cargo_tool::{CargoTool, Missing};
use crate::process;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::process::Command;

pub(crate) const TOOL: CargoTool = CargoTool { name: "cargo-machete", version: "0.9.2", version_args: &["--version"] };

pub(crate) fn run(workspace: &Workspace, missing: Missing) -> Result<()> {
    let program = TOOL.find(workspace, missing)?;
    // The tool looks for the name of each dependency in the sources of its package; it compiles nothing.
    process::run(Command::new(program).current_dir(&workspace.root).args(["--skip-target-dir", "."])).context(
        "fix: remove the dependency; if a feature or a macro needs it, list it under [package.metadata.cargo-machete] with the reason",
    )
}
