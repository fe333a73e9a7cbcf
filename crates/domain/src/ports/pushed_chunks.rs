//! The port for chunks that clients have uploaded and that no push has taken over yet: the quarantine of pushes.

use std::fs::File;
use std::io;

use super::BlobsError;
use crate::values::{AccountId, ChunkHash, DatabaseId, Timestamp};

/// Whose chunks are meant: only the user who uploaded them makes use of them, and only in this database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pusher {
    /// The database that the chunks were uploaded for.
    pub database: DatabaseId,
    /// The user who uploaded them.
    pub user: AccountId,
}

/// The number and size of all uploads that no push has taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PushedChunksLoad {
    /// Number of databases and users with chunks.
    pub pushers: u64,
    /// Their chunks, in bytes.
    pub bytes: u64,
}

/// Returns an uploaded chunk with its hash, or `None` if there are no more.
pub type NextChunk<'a> = dyn FnMut() -> io::Result<Option<(ChunkHash, Vec<u8>)>> + 'a;

/// A store for the chunks of pushes. A restart of the process may empty it: clients upload again what they are not known to have
/// uploaded.
pub trait PushedChunks: Send + Sync {
    /// Returns whether each chunk was uploaded.
    fn holds(&self, pusher: Pusher, hashes: &[ChunkHash]) -> Vec<bool>;

    /// Adds the chunks that `next` returns until it returns `None`, all or none of them, and notes `now` as the time of their last
    /// use. Returns `false` if the chunks of the pusher would be longer than `at_most` bytes together. `next` may wait for a client
    /// while other calls for the same pusher run.
    ///
    /// # Errors
    /// [`BlobsError`], also if `next` fails.
    fn add(&self, pusher: Pusher, next: &mut NextChunk<'_>, at_most: u64, now: Timestamp) -> Result<bool, BlobsError>;

    /// Opens the chunks that were uploaded so far as a file: for each chunk its hash, its length as a little-endian `u32`, and its
    /// content. Chunks that are added later follow at its end. Returns `None` if there are none.
    ///
    /// # Errors
    /// [`BlobsError`].
    fn open(&self, pusher: Pusher) -> Result<Option<File>, BlobsError>;

    /// Removes the chunks of a pusher. Open files of them can still be read.
    fn remove(&self, pusher: Pusher);

    /// Removes the chunks of a pusher, unless some were added since the file of them had this many bytes: those are of another push.
    fn remove_taken(&self, pusher: Pusher, bytes: u64);

    /// Removes the chunks of all who added none after `unused_since`. Returns the number of pushers.
    fn remove_unused(&self, unused_since: Timestamp) -> u64;

    /// Returns how much is stored.
    fn load(&self) -> PushedChunksLoad;
}
