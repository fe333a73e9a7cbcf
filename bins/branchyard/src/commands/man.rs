//! `branchyard man`: the manual pages.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use crate::cli;

/// Writes a page for the program and for each command: `branchyard.1`, `branchyard-user.1`, `branchyard-user-create.1`.
pub(super) fn run(folder: &Path) -> anyhow::Result<()> {
    let failed = || format!("cannot write manual pages to {}", folder.display());
    fs::create_dir_all(folder).with_context(failed)?;
    clap_mangen::generate_to(cli::documented(), folder).with_context(failed)
}
