//! The engine port over files whose bytes are durable elsewhere.
//!
//! [`DurableEngine`] wraps an engine. A call that writes returns once what it appended to the file is in the object store and named by the
//! database's row in the metadata store; before the first one, the node takes the database's lease. A call that reads brings a file
//! that is not there, or lacks the commit that is asked for, first. The files of the wrapped engine are a cache.
//!
//! A call's bytes become durable in a transaction of their own, right before the transaction of the use case that names the commit. If
//! that one is not saved, the commit is garbage, as without a store.

mod collection;
mod engine;
mod lease;
mod local_file;
mod objects;
mod port;
mod previews;
mod put_off;

pub use engine::{DurableEngine, DurablePorts, Figures, HandedOver, Lag, Leaders, RecordAge, RecordSource};
pub use lease::{LeaseEnd, NodeKeeper};
