//! The port for databases of other servers, which mirrors follow.

use std::sync::Arc;

use branchyard_auth::RemoteKeyPair;

use super::{AddressError, NextChunk};
use crate::errors::PortError;
use crate::values::{ChunkHash, CommitHash};

/// The branches and tags of a source. Nothing in them was checked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceRefs {
    /// Name of the default branch.
    pub default_branch: String,
    /// Name and newest commit of each branch.
    pub branches: Vec<(String, CommitHash)>,
    /// The tags.
    pub tags: Vec<SourceTag>,
}

/// A tag of a source. Texts are empty if there are none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceTag {
    /// Name of the tag.
    pub name: String,
    /// The tagged commit.
    pub commit: CommitHash,
    /// Name of the person who made the tag.
    pub tagger: String,
    /// Email address of that person.
    pub email: String,
    /// When the tag was made, in seconds since the start of 1970.
    pub seconds: i64,
    /// The message.
    pub message: String,
}

/// Why nothing was read from a source.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The source is to blame, or the way to it. The text is for those who administer the mirror.
    #[error("{0}")]
    Source(String),
    /// [`RemoteSources::abort`] was called.
    #[error("the server is stopping")]
    Aborted,
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Returns for each chunk whether it is there with everything below it.
pub type HeldChunks<'a> = dyn FnMut(&[ChunkHash]) -> Result<Vec<bool>, SourceError> + 'a;

/// Takes chunks, all that there are, of which each has the hash that it comes with.
pub type TakeChunks<'a> = dyn FnMut(&mut NextChunk<'_>) -> Result<(), SourceError> + 'a;

/// A source that is being read.
pub trait SourceConnection {
    /// Returns the branches and tags. Tries it without the key first.
    ///
    /// # Errors
    /// [`SourceError`].
    fn refs(&mut self) -> Result<SourceRefs, SourceError>;

    /// Reads the chunks below commits that are not held, and passes them on in pieces. What they name was followed with a parser
    /// that is safe on any bytes; whether they fit together was not checked.
    ///
    /// # Errors
    /// [`SourceError`]. The pieces that were passed on before are sound.
    fn fetch(
        &mut self,
        tips: &[CommitHash],
        held: &mut HeldChunks<'_>,
        take: &mut TakeChunks<'_>,
    ) -> Result<(), SourceError>;
}

/// Access to databases of other servers, within an address policy and with limits of time.
pub trait RemoteSources: Send + Sync {
    /// Validates the address of a source and returns its normalized form.
    ///
    /// # Errors
    /// [`AddressError::Invalid`]; [`AddressError::Refused`].
    fn check(&self, url: &str) -> Result<String, AddressError>;

    /// Begins to read a source. Its requests are signed with `key`, over TLS only, if the source answers no others.
    ///
    /// # Errors
    /// [`SourceError::Source`] if the address is not accepted any more.
    fn connect(&self, url: &str, key: Arc<RemoteKeyPair>) -> Result<Box<dyn SourceConnection + '_>, SourceError>;

    /// Ends all present and future requests.
    fn abort(&self);
}
