//! The chunks of pushes in memory.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write as _;

use branchyard_domain::ports::{BlobsError, NextChunk, PushedChunks, PushedChunksLoad, Pusher};
use branchyard_domain::values::{ChunkHash, Timestamp};
use parking_lot::Mutex;

/// An in-memory store for the chunks of pushes.
#[derive(Debug, Default)]
pub struct MemoryPushedChunks(Mutex<HashMap<Pusher, Uploaded>>);

#[derive(Debug, Default)]
struct Uploaded {
    chunks: Vec<(ChunkHash, Vec<u8>)>,
    last_used: Option<Timestamp>,
}

impl Uploaded {
    fn bytes(&self) -> u64 {
        self.chunks.iter().map(|(_, content)| content.len() as u64).sum()
    }

    fn holds(&self, hash: &ChunkHash) -> bool {
        self.chunks.iter().any(|(held, _)| held == hash)
    }
}

fn failed(source: std::io::Error) -> BlobsError {
    BlobsError { context: "keep the chunks of a push".to_owned(), full: false, temporary: false, source }
}

impl PushedChunks for MemoryPushedChunks {
    fn holds(&self, pusher: Pusher, hashes: &[ChunkHash]) -> Vec<bool> {
        let all = self.0.lock();
        let uploaded = all.get(&pusher);
        hashes.iter().map(|hash| uploaded.is_some_and(|uploaded| uploaded.holds(hash))).collect()
    }

    fn add(&self, pusher: Pusher, next: &mut NextChunk<'_>, at_most: u64, now: Timestamp) -> Result<bool, BlobsError> {
        let mut chunks = Vec::new();
        while let Some(chunk) = next().map_err(failed)? {
            chunks.push(chunk);
        }
        let mut all = self.0.lock();
        let uploaded = all.entry(pusher).or_default();
        chunks.retain(|(hash, _)| !uploaded.holds(hash));
        let added: u64 = chunks.iter().map(|(_, content)| content.len() as u64).sum();
        if uploaded.bytes() + added > at_most {
            return Ok(false);
        }
        uploaded.chunks.extend(chunks);
        uploaded.last_used = Some(now);
        Ok(true)
    }

    fn open(&self, pusher: Pusher) -> Result<Option<File>, BlobsError> {
        let all = self.0.lock();
        let Some(uploaded) = all.get(&pusher) else { return Ok(None) };
        let written = tempfile::tempfile().and_then(|mut file| {
            for (hash, content) in &uploaded.chunks {
                file.write_all(hash.as_bytes())?;
                file.write_all(&u32::try_from(content.len()).unwrap_or(u32::MAX).to_le_bytes())?;
                file.write_all(content)?;
            }
            Ok(file)
        });
        written.map(Some).map_err(failed)
    }

    fn remove(&self, pusher: Pusher) {
        self.0.lock().remove(&pusher);
    }

    fn remove_taken(&self, pusher: Pusher, bytes: u64) {
        let of_file = |uploaded: &Uploaded| uploaded.bytes() + 24 * uploaded.chunks.len() as u64;
        let mut all = self.0.lock();
        if all.get(&pusher).is_some_and(|uploaded| of_file(uploaded) == bytes) {
            all.remove(&pusher);
        }
    }

    fn remove_unused(&self, unused_since: Timestamp) -> u64 {
        let mut all = self.0.lock();
        let before = all.len();
        all.retain(|_, uploaded| uploaded.last_used.is_some_and(|at| at > unused_since));
        (before - all.len()) as u64
    }

    fn load(&self) -> PushedChunksLoad {
        let all = self.0.lock();
        PushedChunksLoad { pushers: all.len() as u64, bytes: all.values().map(Uploaded::bytes).sum() }
    }
}
