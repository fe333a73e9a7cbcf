#![doc = include_str!("../README.md")]
//!
//! What a process that runs users' SQL may ask of the kernel. The process restricts itself, before it reads anything that a
//! user wrote: system calls (seccomp), files, network and signals (Landlock), and resources.
//!
//! The crate never decides which process is confined, nor what happens if the kernel cannot confine it. Both belong to its
//! callers. Except for [`limit_resource`], it works on Linux; elsewhere [`kernel_support`] reports that there is nothing, and
//! the restrictions fail with [`ConfinementError::Unsupported`].

#[cfg(target_os = "linux")]
mod files;
mod resources;
#[cfg(target_os = "linux")]
mod support;
#[cfg(target_os = "linux")]
mod system_calls;
#[cfg(not(target_os = "linux"))]
mod unsupported;

use std::io;
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
pub use files::restrict_files;
pub use resources::limit_resource;
pub use rustix::process::Resource;
#[cfg(target_os = "linux")]
pub use rustix::thread::CapabilitySet;
#[cfg(target_os = "linux")]
pub use support::{drop_capabilities, hide_memory, kernel_support};
#[cfg(target_os = "linux")]
pub use system_calls::restrict_system_calls;
#[cfg(not(target_os = "linux"))]
pub use unsupported::{hide_memory, kernel_support, restrict_files, restrict_system_calls};

/// The means of confinement that the running kernel offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelSupport {
    /// `true` if the kernel filters system calls, and this crate knows their numbers on this architecture.
    pub seccomp: bool,
    /// The newest version of Landlock's interface that the kernel and this crate have in common. `None` without Landlock.
    pub landlock_abi: Option<u32>,
}

impl KernelSupport {
    /// Returns `true` if both system calls and files can be restricted.
    #[must_use]
    pub fn is_complete(self) -> bool {
        self.seccomp && self.landlock_abi.is_some()
    }
}

/// What happens at a system call that a list does not contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The call fails with `EPERM`.
    Error,
    /// The kernel kills the process (`SIGSYS`).
    Kill,
}

/// The system calls that a kind of process may make. Everything else is refused, and a call under the numbers of another
/// architecture or of the x32 interface kills the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyscallList {
    /// A process whose threads are running, which works only on descriptors that it has or receives over a socket: no path,
    /// no new socket, no new thread, no other process.
    ///
    /// glibc before 2.39 implements `fstat` with `newfstatat`, and Rust's standard library with `statx`. A filter cannot see
    /// whether their path is empty. So the process can still read the metadata (never the contents) of a file whose path it
    /// knows, as far as its user may.
    SqlWorker,
    /// A process that starts threads and serves HTTP and a control socket from files below its folder, which
    /// [`restrict_files`] names: no connection to other processes, no other program, no other process.
    Deployment,
}

/// A path that a process may use after [`restrict_files`], with everything below it.
#[derive(Debug, Clone, Copy)]
pub struct AllowedPath<'a> {
    /// The path of a file or folder that exists.
    pub path: &'a Path,
    /// What the process may do with it.
    pub access: PathAccess,
}

/// What a process may do with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathAccess {
    /// Read files and list folders.
    Read,
    /// Also write, create, rename and remove files, folders, sockets and links. Nothing can be executed.
    ReadWrite,
}

/// The state after [`restrict_files`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileRestriction {
    /// The kernel enforces the rules that its version of Landlock's interface has.
    Enforced {
        /// The version. TCP is restricted from version 4 on, signals and abstract Unix sockets from version 6 on.
        landlock_abi: u32,
    },
    /// The kernel has no Landlock; nothing is restricted.
    NotEnforced,
}

/// An error that leaves a process unconfined. The process must not continue.
#[derive(Debug, thiserror::Error)]
pub enum ConfinementError {
    /// There is no such restriction on this system or architecture.
    #[error("this system cannot restrict {0}")]
    Unsupported(&'static str),
    /// The kernel did not accept the filter of system calls.
    #[cfg(target_os = "linux")]
    #[error("cannot restrict system calls")]
    SystemCalls(#[from] seccompiler::Error),
    /// The kernel did not accept the rules for files and network.
    #[cfg(target_os = "linux")]
    #[error("cannot restrict files and network")]
    Files(#[from] landlock::RulesetError),
    /// A path to allow cannot be opened.
    #[error("cannot allow {path}")]
    Path {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A limit could not be set.
    #[error("cannot limit {resource:?} to {value}")]
    Limit {
        /// The limited resource.
        resource: Resource,
        /// The limit.
        value: u64,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The capabilities of the process cannot be dropped.
    #[error("cannot drop capabilities")]
    Capabilities(#[source] io::Error),
    /// The memory of the process cannot be hidden from other processes.
    #[error("cannot hide the memory of this process")]
    Memory(#[source] io::Error),
}
