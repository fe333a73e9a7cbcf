//! The file of one database on one node.

mod bring;
mod compaction;
mod generation;
mod ship;
mod store;

pub use compaction::Compaction;
pub use generation::{NextGeneration, Outcome, ReadyGeneration};
pub use ship::Shipped;

use crate::ports::{Acquired, FileError, LocalFile, Nonces, Objects, ObjectsError, Records, RecordsError};
use crate::record::{Epoch, Held, Holder, Known, Position};
use crate::status::{Access, FileStatus, State};
use ship::boundary;
use std::sync::Arc;

/// Sizes that the protocol keeps to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The largest object, in bytes. A longer tail becomes several objects. It bounds the memory of a transfer, together with `gets`.
    pub object_bytes: u64,
    /// The number of reads from the store under way at once.
    pub gets: usize,
    /// The number of small segments from which on they are compacted.
    pub small_segments: usize,
    /// The sum of bytes of small segments from which on they are compacted.
    pub small_bytes: u64,
}

impl Default for Limits {
    /// Returns objects of up to 8 MiB, 16 reads at once, and compaction beyond 64 small segments or 8 MiB in them.
    fn default() -> Self {
        Self { object_bytes: 8 << 20, gets: 16, small_segments: 64, small_bytes: 8 << 20 }
    }
}

/// What the protocol works with, for one database on one node.
#[derive(Debug)]
pub struct Ports<R, O, F, N> {
    /// The database's name in the object store, without `/`.
    pub database: String,
    /// The row of the database.
    pub records: R,
    /// The object store.
    pub objects: O,
    /// The node's file.
    pub file: F,
    /// Random numbers for names of objects.
    pub nonces: N,
    /// Sizes.
    pub limits: Limits,
}

/// Why a step of the protocol failed. Nothing was saved by it, unless the step says otherwise; it may be tried again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The metadata store has no answer.
    #[error(transparent)]
    Records(#[from] RecordsError),
    /// The object store has no answer.
    #[error(transparent)]
    Objects(#[from] ObjectsError),
    /// The local file failed. If it is damaged, it is compared with the segments before its next use.
    #[error(transparent)]
    File(#[from] FileError),
    /// The node does not lead the database.
    #[error("the node does not lead the database")]
    NotLeading,
    /// The store has other bytes than the row says, each time they were read. If the file already had some of the segment's bytes, these
    /// may be the wrong ones; then the next attempt succeeds.
    #[error("object `{0}` does not have the bytes that its segment names")]
    Corrupt(String),
    /// The segments of the row do not make up the durable bytes.
    #[error("the segments of the database do not make up its {durable_length} durable bytes")]
    Incomplete {
        /// The durable length in the row.
        durable_length: u64,
    },
    /// The row has fewer durable bytes than this node knows to be durable. The metadata are older than they were.
    #[error("{known} bytes of the database were durable, and the metadata have {durable_length} only")]
    RecordsOlder {
        /// What the node knows to be durable.
        known: u64,
        /// The durable length in the row.
        durable_length: u64,
    },
}

/// The outcome of [`DatabaseFile::lead`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lead {
    /// The node leads the database, and its file is exactly the durable bytes. If there are none, there is no file, and the caller
    /// creates it before it ships.
    Leading(Epoch),
    /// Another node leads it, at least for the time that the lease still holds.
    Held(Held),
    /// The lease of this run of the node does not hold.
    Ended,
}

/// The file of one database on one node: its state, and the steps that change it.
///
/// Methods that take `&mut self` are for the holder of the database's turn on this node, which also is the one caller that writes
/// with the engine. Readers need no turn: they ask the [`FileStatus`], and take the turn only to [`follow`](Self::follow).
///
/// If a future of these methods is dropped before its end, the process must end as well, or the file be
/// [distrusted](Self::distrust).
#[derive(Debug)]
pub struct DatabaseFile<R, O, F, N> {
    ports: Arc<Ports<R, O, F, N>>,
    status: FileStatus,
    /// What precedes the durable length of a leader, as it was when the bytes became durable.
    last: Vec<u8>,
}

impl<R: Records, O: Objects, F: LocalFile, N: Nonces> DatabaseFile<R, O, F, N> {
    /// Creates the value for a file of which nothing is known: that of a node that starts. The first use compares its content with
    /// the segments, and keeps what is right.
    #[must_use]
    pub fn new(ports: Ports<R, O, F, N>) -> Self {
        Self::with_known(ports, None)
    }

    /// Creates the value for a file that the last run of the node closed in the state [`State::Prefix`], if `known` is what it
    /// noted durably afterwards. It must have removed the note before it changed the file.
    #[must_use]
    pub fn with_known(ports: Ports<R, O, F, N>, known: Option<Known>) -> Self {
        let state = known.map_or(State::Unknown, State::Prefix);
        Self { ports: Arc::new(ports), status: FileStatus::new(state), last: Vec::new() }
    }

    /// Returns a handle to the state, for readers.
    #[must_use]
    pub fn status(&self) -> FileStatus {
        self.status.clone()
    }

    /// Returns the ports.
    #[must_use]
    pub fn ports(&self) -> &Arc<Ports<R, O, F, N>> {
        &self.ports
    }

    /// Returns `true` if this run of the node acquired the lease, and has not learned of a successor since.
    #[must_use]
    pub fn is_leading(&self, holder: &Holder) -> bool {
        matches!(self.status.state(), State::Leading(..)) && self.status.holder().as_ref() == Some(holder)
    }

    /// Returns how connections to the file may be opened while the turn is held. All calls without the turn open it read-only.
    ///
    /// A connection that is open for writing appends to the file when it is closed, even if it was for reading. A follower's file
    /// would then differ from the durable bytes.
    #[must_use]
    pub fn access(&self) -> Access {
        match self.status.state() {
            State::Leading(..) => Access::ReadWrite,
            _ => Access::ReadOnly,
        }
    }

    /// Takes the lease, and brings the file to exactly the durable bytes. Bytes behind them, for example of a commit whose unit was
    /// not saved, are thrown away.
    ///
    /// # Errors
    ///
    /// The lease may have been taken, but the node does not lead. The caller tries again, or leaves the lease to end with the
    /// node's.
    pub async fn lead(&mut self, holder: &Holder) -> Result<Lead, Error> {
        let record = match self.ports.records.acquire(holder, self.status.state().known()).await? {
            Acquired::Leading(record) => record,
            Acquired::Held(held) => {
                if let State::Leading(known, _) = self.status.state() {
                    self.status.set(State::Dirty(known));
                }
                return Ok(Lead::Held(held));
            }
            Acquired::Ended => return Ok(Lead::Ended),
        };
        self.bring(&record).await?;
        let known = Known { generation: record.generation, length: record.durable_length };
        self.last = match known.length {
            0 => Vec::new(),
            length => self.ports.file.read(boundary(length)).await?,
        };
        self.status.lead(known, record.epoch, holder);
        Ok(Lead::Leading(record.epoch))
    }

    /// Brings the file to a position that a reader saw, or further. A leader that learns by the position that it has a successor
    /// leads no longer.
    ///
    /// # Errors
    ///
    /// The file is not there yet; the caller tries again. [`Error::RecordsOlder`] needs an administrator.
    pub async fn follow(&mut self, position: &Position) -> Result<(), Error> {
        if self.status.covers(position) {
            return Ok(());
        }
        let record = self.ports.records.load(self.status.state().known()).await?;
        self.bring(&record).await
    }

    /// Releases the lease, so that another node need not wait until it ends. Commits that were not shipped are lost.
    ///
    /// # Errors
    ///
    /// The node no longer leads, and the lease may or may not have been released. It ends with the node's.
    pub async fn release(&mut self) -> Result<(), Error> {
        let State::Leading(known, epoch) = self.status.state() else {
            return Ok(());
        };
        // From here on this node relies on nothing that a successor could change.
        self.status.set(State::Dirty(known));
        let closed = self.close(known).await;
        self.ports.records.release(epoch).await?;
        closed?;
        Ok(())
    }

    /// Records that the content of the file is not to be trusted, for example because a reader found damage. The file is compared
    /// with the segments before its next use, and replaced from the first difference on. A leader leads no longer.
    pub fn distrust(&mut self) {
        self.status.set(State::Unknown);
    }

    /// Closes all connections, and notes whether the file is then a prefix of the durable bytes.
    async fn close(&mut self, known: Known) -> Result<(), FileError> {
        self.ports.file.close_all().await?;
        let is_exact = self.ports.file.length().await? == Some(known.length);
        self.status.set(if is_exact { State::Prefix(known) } else { State::Dirty(known) });
        Ok(())
    }

    fn leading(&self) -> Result<(Known, Epoch), Error> {
        match self.status.state() {
            State::Leading(known, epoch) => Ok((known, epoch)),
            _ => Err(Error::NotLeading),
        }
    }

    /// Passes an error of the file on. A damaged file is not used until it was compared.
    fn file_error(&mut self, error: FileError) -> Error {
        if matches!(error, FileError::Damaged(_)) {
            self.distrust();
        }
        error.into()
    }
}
