//! What the crate uses for synchronization: locks, thread-locals, timeouts, and threads.
//!
//! In tests of this crate, the same names stand for types that a model checker can run (`sync/modeled.rs`). Code of the crate uses
//! these names only, except for channels and notifications of `tokio`, which wake tasks of either kind.

#[cfg(test)]
mod modeled;
mod system;

#[cfg(not(test))]
pub(crate) use std::thread_local;

#[cfg(not(test))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
#[cfg(not(test))]
pub(crate) use tokio::time::timeout;

#[cfg(test)]
pub(crate) use self::modeled::{
    Condvar, LocalKey, Mutex, MutexGuard, OsProcess, OsThread, spawn, thread_local, timeout,
};
#[cfg(all(test, target_os = "linux"))]
pub(crate) use self::system::NICE_INCREMENT;
#[cfg(not(test))]
pub(crate) use self::system::{OsProcess, OsThread, spawn};
