//! What the protocol needs from outside: rows, objects, a file.
//!
//! The methods are asynchronous so that a test can interleave nodes at each of them. An implementation may as well block and
//! return a future that is ready; [`run`](crate::run) drives both.
#![expect(async_fn_in_trait, reason = "the protocol is driven on one thread, so its futures need not be `Send`")]

use crate::node::Renewal;
use crate::record::{Commit, Epoch, Extension, Held, Holder, Known, Record, Swap, Switch};
use std::ops::Range;
use std::time::Duration;

/// Why a call to the records has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordsError {
    /// Nothing was changed, and nothing will be by this call.
    #[error("the metadata store is unavailable: {0}")]
    Unavailable(String),
    /// The answer was lost. The call was carried out, or not, or will be later.
    #[error("the answer of the metadata store was lost: {0}")]
    Unknown(String),
}

/// Why a call to the object store has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectsError {
    /// The store cannot be reached, or failed, or its answer was lost.
    #[error("the object store is unavailable: {0}")]
    Unavailable(String),
    /// There is no such object, or it is shorter than the range.
    #[error("the object store does not have `{0}`")]
    Absent(String),
}

/// Why a call to the local file has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// The content is not what the engine wrote.
    #[error("the local file is damaged: {0}")]
    Damaged(String),
    /// The file system failed, for example because the disk is full. What was to be written may be there in part.
    #[error("the local file cannot be used: {0}")]
    Failed(String),
}

/// The rows of nodes ([`NodeRecord`](crate::NodeRecord)). Times are those of the metadata store's clock, which all nodes share.
pub trait Nodes {
    /// Begins a run of a node ([`NodeRecord::start`](crate::NodeRecord::start)).
    async fn start(&self, holder: &Holder, lease: Duration) -> Result<Renewal, RecordsError>;

    /// Renews the lease of a run ([`NodeRecord::renew`](crate::NodeRecord::renew)).
    async fn renew(&self, holder: &Holder, lease: Duration) -> Result<Renewal, RecordsError>;

    /// Ends the lease of a run ([`NodeRecord::stop`](crate::NodeRecord::stop)).
    async fn stop(&self, holder: &Holder) -> Result<(), RecordsError>;
}

/// The outcome of [`Records::acquire`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acquired {
    /// The lease belongs to the caller, in the epoch of this record.
    Leading(Record),
    /// Another holder has it.
    Held(Held),
    /// The lease of the caller's own run of the node does not hold.
    Ended,
}

/// The outcome of a unit of work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Saved<R> {
    /// The unit and the change of the row are saved.
    Saved,
    /// Neither is saved: the row's conditions do not hold.
    Fenced,
    /// Neither is saved: the unit's own conditions do not hold, for example because a branch was deleted.
    Refused(R),
}

/// The outcome of [`Records::switch`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Switched {
    /// The next generation is in force.
    Switched,
    /// Nothing is changed: the row's conditions do not hold.
    Fenced,
    /// Nothing is changed: the metadata names these commits too, which were not proved to be in the new file.
    Lacking(Vec<Commit>),
}

/// The row of one database in the metadata.
///
/// Each method is one transaction, with the conditions of the method of [`Record`] that it refers to. If its error is
/// [`RecordsError::Unknown`], the transaction may also take effect after the call returned.
pub trait Records {
    /// Changes of the metadata that are saved in one transaction with a change of the row: refs, operations, events.
    type Unit;
    /// Why a unit was not saved.
    type Refusal;

    /// Takes the lease in the next epoch ([`Record::acquire`]), if the lease of the holder's own run of the node holds. The record
    /// has the segments that [`Record::since`] returns.
    async fn acquire(&self, holder: &Holder, known: Option<Known>) -> Result<Acquired, RecordsError>;

    /// Returns the row without changing it, with the segments that [`Record::since`] returns.
    async fn load(&self, known: Option<Known>) -> Result<Record, RecordsError>;

    /// Makes bytes durable and saves the unit that names commits in them ([`Record::extend`]).
    ///
    /// This transaction is all that keeps an earlier lease holder from being heard: the object store compares nothing.
    async fn extend(&self, extension: &Extension, unit: &Self::Unit) -> Result<Saved<Self::Refusal>, RecordsError>;

    /// Replaces segments by others with the same bytes ([`Record::swap`]). Returns `false` if they are no longer there.
    async fn swap(&self, swap: &Swap) -> Result<bool, RecordsError>;

    /// Returns the commits that the metadata names: branches, tags, pull requests, operations under way, and everything else that is
    /// not garbage. A unit outside the lease that stores a commit's hash calls [`Record::saw`] in its transaction with the
    /// generation in which it saw the commit; otherwise a collection may take the commit away in between.
    async fn heads(&self) -> Result<Vec<Commit>, RecordsError>;

    /// Begins the next generation ([`Record::switch`]) and saves the unit, if all commits that the metadata names at this moment
    /// are among [`Switch::heads`].
    async fn switch(&self, switch: &Switch, unit: &Self::Unit) -> Result<Switched, RecordsError>;

    /// Ends the lease, if it still has this epoch ([`Record::release`]).
    async fn release(&self, epoch: Epoch) -> Result<(), RecordsError>;
}

/// The object store.
///
/// It must return what was put as soon as the put has succeeded. Nothing else is asked of it: no names are used twice, so it need
/// not compare.
pub trait Objects {
    /// A read under way. Dropping it gives the read up.
    type Get;

    /// Stores an object durably. The request carries a checksum, so that a store does not accept other bytes. An object that is
    /// stored although the call failed, or later, does no harm.
    async fn put(&self, object: &str, bytes: Vec<u8>) -> Result<(), ObjectsError>;

    /// Begins to read a range of an object. The protocol begins up to [`Limits::gets`](crate::Limits::gets) reads before it
    /// finishes the first of them, so they should make progress at the same time.
    fn get(&self, object: &str, range: Range<u64>) -> Self::Get;

    /// Waits for the bytes of a read. The protocol compares their length and hash. Bytes that the store finds damaged itself are
    /// returned as none.
    async fn finish(&self, get: Self::Get) -> Result<Vec<u8>, ObjectsError>;

    /// Returns the id of the data key under which new objects are sealed, which their names have in them; `None` if they are stored as
    /// they are. To the protocol, a sealed object has the bytes that are sealed in it.
    async fn data_key(&self) -> Result<Option<u128>, ObjectsError> {
        Ok(None)
    }
}

/// A node's file of a database, with the engine's connections to it.
///
/// The engine writes a sequence of records, each at an absolute position. A commit ends in a root, and the length after a commit is
/// the end of a record. What the protocol relies on:
///
/// - Below a committed length, bytes never change. A large transaction that is not committed yet appends bytes, and truncates them
///   if it fails; so only the length after a commit, taken while no other writer runs, ends in a root.
/// - Any prefix can be read. Only a prefix that ends with a record can be continued: elsewhere the next writer would write below the
///   end.
/// - Readers may be open while bytes are appended in order. Bytes that follow a gap make the file malformed for them.
/// - A connection that was opened for writing appends a root when it is closed, even if it wrote nothing.
/// - If the file is truncated and other bytes are appended while connections are open, these go on with what they remember of the
///   old bytes, and a writer among them makes the file malformed.
pub trait LocalFile {
    /// A new file that is not in place yet.
    type Draft: Draft;

    /// Returns the length of the file, or `None` if there is no file.
    async fn length(&self) -> Result<Option<u64>, FileError>;

    /// Returns the bytes of a range.
    async fn read(&self, range: Range<u64>) -> Result<Vec<u8>, FileError>;

    /// Writes bytes at this offset, which is where the file ended before. Connections for reading may be open, and none for writing
    /// is.
    async fn append(&self, at: u64, bytes: &[u8]) -> Result<(), FileError>;

    /// Closes all connections to the file, of all processes of this node. This may append to the file.
    async fn close_all(&self) -> Result<(), FileError>;

    /// Returns `true` if a record ends at this offset, so that a writer may continue from there.
    async fn ends_record(&self, at: u64) -> Result<bool, FileError>;

    /// Proves what a commit has appended: the record before the tail still ends where the tail begins, the tail is a sequence of
    /// whole records that ends in a root, and each of the commits can be read on a connection that was opened afterwards.
    ///
    /// # Errors
    ///
    /// [`FileError::Damaged`] if one of these does not hold.
    async fn prove(&self, tail: Range<u64>, heads: &[Commit]) -> Result<(), FileError>;

    /// Creates a new file with the first bytes of this one, as many as `keep`. It shares no link with this file: the engine opens
    /// files with several links read-only.
    async fn draft(&self, keep: u64) -> Result<Self::Draft, FileError>;

    /// Creates a new file with what the commits reach and nothing else, from a copy of this file up to a record's end. Writers
    /// and readers of this file go on meanwhile.
    async fn collect(&self, heads: &[Commit]) -> Result<Self::Draft, FileError>;

    /// Puts a new file in the place of this one: makes it durable, renames it, and evicts all connections to the old one. Calls
    /// under way may end on the old one; no call begins on it afterwards.
    async fn install(&self, draft: Self::Draft) -> Result<(), FileError>;
}

/// A new file that is not in place yet. Dropping it removes the file.
pub trait Draft {
    /// Appends bytes.
    async fn append(&mut self, bytes: &[u8]) -> Result<(), FileError>;

    /// Returns the length.
    async fn length(&self) -> Result<u64, FileError>;

    /// Returns the bytes of a range.
    async fn read(&self, range: Range<u64>) -> Result<Vec<u8>, FileError>;

    /// Copies what the commits reach and this file lacks from the file that is in place.
    async fn bring_over(&mut self, heads: &[Commit]) -> Result<(), FileError>;

    /// Proves that each of the commits can be read, with its history, and that the length is the end of a record.
    ///
    /// # Errors
    ///
    /// [`FileError::Damaged`] if one of these does not hold.
    async fn prove(&self, heads: &[Commit]) -> Result<(), FileError>;
}

/// A source of random numbers for the names of objects.
pub trait Nonces {
    /// Returns a number that no other call on any node returns.
    fn next(&self) -> u128;
}
