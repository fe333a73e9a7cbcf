//! `branchyard completions`: completions of commands and flags for a shell.

use clap_complete::Shell;

use super::print;
use crate::cli::{self, CompletionShell};

/// Prints the completions on standard output.
pub(super) fn run(shell: CompletionShell) -> anyhow::Result<()> {
    let shell = match shell {
        CompletionShell::Bash => Shell::Bash,
        CompletionShell::Zsh => Shell::Zsh,
        CompletionShell::Fish => Shell::Fish,
    };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut cli::documented(), "branchyard", &mut text);
    print(String::from_utf8(text)?.trim_end())
}
