#![doc = include_str!("../README.md")]
//!
//! The engine port over worker processes.
//!
//! [`ProcessEngine`] runs every statement in a worker process: a program that was given to it, which opens one database
//! with `branchyard-engine-doltlite`, and reads or writes it for its whole life. A worker has no path, no network, no
//! secret and no other database. It holds the descriptors that the server passed to it, and may only make the system
//! calls that work on them needs. What the engine does not stop in time is killed.
//!
//! The program that runs workers calls [`run_command`]. `docs/ARCHITECTURE.md` describes how a call passes through a
//! worker, and `docs/threat-model.md` what a compromised worker can and cannot do.
//!
//! # Embedding
//!
//! A program that embeds the domain chooses between `DoltliteEngine` in its own process and a [`ProcessEngine`]. The
//! workers of the latter run a program that is named by a [`WorkerCommand`]: `branchyard sql-worker`, this crate's
//! `branchyard-sql-worker`, or the embedding program itself, which then passes its arguments on as its first act:
//!
//! ```no_run
//! use std::process::ExitCode;
//! use std::sync::Arc;
//!
//! use branchyard_domain::ports::{Engine, EngineError};
//! use branchyard_engine_process::{ProcessEngine, ProcessOptions, WorkerCommand, run_command};
//!
//! fn start() -> Result<ExitCode, EngineError> {
//!     let arguments: Vec<_> = std::env::args_os().skip(1).collect();
//!     if arguments.first().is_some_and(|first| first == "sql-worker") {
//!         return Ok(run_command(arguments));
//!     }
//!     let program = std::env::current_exe().unwrap_or_default();
//!     let command = WorkerCommand { program, arguments: vec!["sql-worker".into()] };
//!     let options = ProcessOptions { workers: 8, ..ProcessOptions::new(command) };
//!     // Before the program opens anything that workers should not have.
//!     let engine: Arc<dyn Engine> = Arc::new(ProcessEngine::open("databases".into(), options)?);
//!     // Pass `engine` to `branchyard_domain::Hub` with the other ports, and serve.
//!     drop(engine);
//!     Ok(ExitCode::SUCCESS)
//! }
//! # start().unwrap();
//! ```
//!
//! [`ProcessOptions::engine`] limits time and memory as for `DoltliteEngine`. The program needs no privilege. On a kernel
//! without seccomp or Landlock, [`ProcessEngine::open`] fails unless [`ProcessOptions::requires_confinement`] is `false`.
#![cfg(target_os = "linux")]

mod call;
mod channel;
mod engine;
mod history;
mod inherited;
mod launcher;
mod messages;
mod options;
mod pool;
mod process;
mod sqlite;
#[cfg(test)]
mod tests;
mod wire;
mod worker;

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::process::ExitCode;

pub use engine::ProcessEngine;
pub use options::{MOST_WORKERS, ProcessOptions, WorkerCommand};
pub use pool::WorkerLoad;
pub use sqlite::ProcessSqliteFiles;

/// Runs this process as the launcher or as a worker, as the last of its arguments says. `arguments` are all of its
/// arguments, without the name of the program. Returns when the server has ended.
///
/// Call this before the program starts a thread or opens a file.
#[must_use]
pub fn run_command(arguments: Vec<OsString>) -> ExitCode {
    let mut arguments = arguments;
    let role = arguments.pop();
    let standard = |descriptor: std::io::Result<OwnedFd>| descriptor.ok();
    let (Some(input), Some(output)) = (standard(duplicate(&std::io::stdin())), standard(duplicate(&std::io::stdout())))
    else {
        return ExitCode::FAILURE;
    };
    match role.as_deref().and_then(std::ffi::OsStr::to_str) {
        Some(launcher::LAUNCHER) => launcher::run(input, arguments),
        Some(launcher::WORKER) => worker::run(input, output),
        _ => ExitCode::FAILURE,
    }
}

fn duplicate(standard: &impl std::os::fd::AsFd) -> std::io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(standard, 3)?)
}
