//! Collections: what the engine keeps when it removes the garbage of a database.

use std::collections::BTreeSet;
use std::path::Path;

use super::EngineError;
use crate::values::CommitHash;

/// Decides what a collection keeps. The owner of the refs implements it.
pub trait KeptHeads {
    /// Returns the commits that the database has to keep now; everything they reach stays too. Those that are not in
    /// the file are ignored.
    ///
    /// # Errors
    /// [`EngineError`] if the collection has to end.
    fn heads(&mut self) -> Result<Vec<CommitHash>, EngineError>;

    /// Returns the commits to keep that are not among `covered`. If there are none, the collection takes effect, and
    /// the implementation must have recorded that: hashes that were read from the database before this call may be
    /// gone after it. Called once or more, in the write turn of the database.
    ///
    /// # Errors
    /// [`EngineError`] if the collection has to end.
    fn approve(&mut self, covered: &BTreeSet<CommitHash>) -> Result<Vec<CommitHash>, EngineError>;

    /// Called with the new file once it is written, before the write turn is taken. More may be added to the file afterwards.
    ///
    /// # Errors
    /// [`EngineError`] if the collection has to end.
    fn written(&mut self, new: &Path) -> Result<(), EngineError> {
        let _ = new;
        Ok(())
    }

    /// Called with the new file after [`KeptHeads::approve`], in the write turn, before the file takes the place of the old one.
    ///
    /// # Errors
    /// [`EngineError`] if the old file has to stay.
    fn install(&mut self, new: &Path) -> Result<(), EngineError> {
        let _ = new;
        Ok(())
    }
}

/// The size of a database before and after a collection, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Collected {
    /// Size of the file that was replaced.
    pub before: u64,
    /// Size of the file that took its place.
    pub after: u64,
}
