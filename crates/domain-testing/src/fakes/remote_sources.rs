//! A fake of the sources of mirrors, without network.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use branchyard_auth::RemoteKeyPair;
use branchyard_domain::ports::{
    AddressError, HeldChunks, RemoteSources, SourceConnection, SourceError, SourceRefs, TakeChunks,
};
use branchyard_domain::values::{ChunkHash, CommitHash};
use parking_lot::Mutex;

/// What a source has: its branches and tags, and chunks.
type Content = (SourceRefs, Vec<(ChunkHash, Vec<u8>)>);

/// Sources whose content a test sets. Others do not answer.
#[derive(Debug, Default)]
pub struct MemorySources {
    contents: Mutex<BTreeMap<String, Content>>,
    aborted: AtomicBool,
}

impl MemorySources {
    /// Sets what the source with this address has.
    pub fn set(&self, url: &str, refs: SourceRefs, chunks: Vec<(ChunkHash, Vec<u8>)>) {
        self.contents.lock().insert(url.to_owned(), (refs, chunks));
    }
}

impl RemoteSources for MemorySources {
    /// Rejects URLs that begin with `https://127.` or not with `https://`. Accepts all others unchanged.
    fn check(&self, url: &str) -> Result<String, AddressError> {
        match url {
            _ if url.starts_with("https://127.") => Err(AddressError::Refused("is a private address".to_owned())),
            _ if url.starts_with("https://") => Ok(url.to_owned()),
            _ => Err(AddressError::Invalid("must begin with https://".to_owned())),
        }
    }

    fn connect(&self, url: &str, _key: Arc<RemoteKeyPair>) -> Result<Box<dyn SourceConnection + '_>, SourceError> {
        if self.aborted.load(Ordering::Relaxed) {
            return Err(SourceError::Aborted);
        }
        let content = self.contents.lock().get(url).cloned();
        let content = content.ok_or_else(|| SourceError::Source("the remote did not answer".to_owned()))?;
        Ok(Box::new(MemorySource(content)))
    }

    fn abort(&self) {
        self.aborted.store(true, Ordering::Relaxed);
    }
}

struct MemorySource(Content);

impl SourceConnection for MemorySource {
    fn refs(&mut self) -> Result<SourceRefs, SourceError> {
        Ok(self.0.0.clone())
    }

    fn fetch(
        &mut self,
        _tips: &[CommitHash],
        held: &mut HeldChunks<'_>,
        take: &mut TakeChunks<'_>,
    ) -> Result<(), SourceError> {
        let hashes: Vec<ChunkHash> = self.0.1.iter().map(|(hash, _)| *hash).collect();
        let is_held = held(&hashes)?;
        let mut lacking = self.0.1.iter().zip(is_held).filter(|(_, held)| !held).map(|(chunk, _)| chunk.clone());
        take(&mut || Ok(lacking.next()))
    }
}
