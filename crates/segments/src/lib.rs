//! How the bytes of a database move between the nodes of a cluster.
//!
//! A database is one file of the engine, to which commits only append. Its bytes are durable when they are in an object store as
//! *segments* that the row of the database in the metadata names. Each node has the file, or the first part of it, as a cache. One
//! node at a time holds the *lease* of the database and writes: it commits to its file, stores what the commit appended, and names
//! it in the row, in the transaction that also moves the refs. Others follow: they append the segments that they lack.
//!
//! This crate is that protocol: [`DatabaseFile`] is the file of one database on one node, and [`NodeLease`] is the lease of the
//! node. It contains no engine, no SQL and no input or output. These come through the traits [`Records`], [`Nodes`], [`Objects`] and
//! [`LocalFile`].
//!
//! Nothing is correct because of a lease alone. What keeps an earlier holder from being heard is the transaction that adds segments,
//! which compares epoch, generation and durable length. The lease decides who tries, and by [`FileStatus::leads`] for how long a
//! holder may answer from memory.

mod file;
mod garbage;
mod key;
mod lost;
mod node;
mod ports;
mod record;
mod restored;
mod run;
mod status;

pub use file::{
    Compaction, DatabaseFile, Error, Lead, Limits, NextGeneration, Outcome, Ports, ReadyGeneration, Shipped,
};
pub use garbage::{DoomedObject, Examined};
pub use key::{ForeignKey, ObjectKey, Purpose, SEGMENTS};
pub use lost::{AcceptedLoss, LostFile, lost_files};
pub use node::{NodeLease, NodeRecord, Renewal};
pub use ports::{
    Acquired, Draft, FileError, LocalFile, Nodes, Nonces, Objects, ObjectsError, Records, RecordsError, Saved, Switched,
};
pub use record::{
    Commit, Epoch, Extension, Fenced, Generation, Held, Holder, Known, Position, Record, Segment, Sha256, Swap, Switch,
};
pub use restored::{Evidence, Mark};
pub use run::run;
pub use status::{Access, FileStatus, State, Term};
