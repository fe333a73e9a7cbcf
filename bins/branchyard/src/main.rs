//! The `branchyard` command.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    match branchyard::commands::run(branchyard::cli::Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The whole chain in one line: what failed, then why.
            let _ = writeln!(std::io::stderr(), "branchyard: {error:#}");
            ExitCode::FAILURE
        }
    }
}
