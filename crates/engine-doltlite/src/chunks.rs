//! Chunks: the pieces of content of which a database file consists, each named by the hash of its bytes.
//!
//! A commit names its parents and a catalog, a catalog names the roots of the tables and indexes, and a node of a tree
//! names the nodes below it. A file is *closed*: with a chunk it holds all chunks below it. That is why a copy between
//! two files may end at chunks that the target holds, and why it brings children before the chunks that name them.

mod copy;
mod file;
mod pushed;
mod read;
mod take_over;

pub(crate) use copy::{copy_history, damaged};
pub(crate) use file::ChunkFile;
pub(crate) use read::{ChunkReader, held, read};
pub(crate) use take_over::{examine, take_over};
