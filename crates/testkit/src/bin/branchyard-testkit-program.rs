//! The server's program, built together with the tests of this package: servers inside a test run their workers with it.

use branchyard::cli::Cli;
use clap::Parser as _;

fn main() -> std::process::ExitCode {
    match branchyard::commands::run(Cli::parse()) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(_) => std::process::ExitCode::FAILURE,
    }
}
