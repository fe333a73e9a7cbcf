//! Reads that compute elsewhere while their caller holds no thread.

#[cfg(unix)]
use std::os::fd::BorrowedFd;

use super::{EngineError, ReadReport, RowSink};

/// A read that has begun to compute outside this process. Dropping it ends the read.
pub trait StartedRead: Send {
    /// Returns a descriptor that becomes readable once there is something to read of the result.
    #[cfg(unix)]
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Takes what has arrived of the result. Returns `true` if [`StartedRead::finish`] will neither wait nor take long. Never blocks.
    fn is_at_hand(&mut self) -> bool;

    /// Waits for the rest of the result, and sends its rows to `sink`.
    ///
    /// # Errors
    /// As [`Engine::read`](super::Engine::read).
    fn finish(self: Box<Self>, sink: &mut dyn RowSink) -> Result<ReadReport, EngineError>;
}
