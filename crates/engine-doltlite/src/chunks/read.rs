//! Reads single chunks of a database, for clients that copy it.

use branchyard_domain::ports::{Chunk, EngineError, HeldChunk};
use branchyard_domain::values::{ChunkHash, CommitHash, DatabaseId};

use super::copy::damaged;
use super::file::{ChunkContent, ChunkFile};
use crate::engine::{DoltliteEngine, missing};
use crate::sql::errors;
use branchyard_remote_protocol::{Malformed, layout};

/// Number of chunks that are read at once. The last ones may be longer than wanted, and are dropped.
const READ: usize = 32;

pub(crate) fn read(
    engine: &DoltliteEngine,
    database: DatabaseId,
    hashes: &[ChunkHash],
    at_most: usize,
) -> Result<Vec<Option<Chunk>>, EngineError> {
    let fault = |error| errors::fault("read chunks", error);
    let generation = engine.chunk_files.generation();
    let (mut file, mut is_fresh) = match idle(engine, database) {
        Some(file) => (file, false),
        None => (open_anew(engine, database)?, true),
    };
    let (mut chunks, mut bytes) = (Vec::new(), 0_usize);
    'read: for hashes in hashes.chunks(READ) {
        let mut contents = file.get(hashes).map_err(fault)?;
        if !is_fresh && contents.iter().any(Option::is_none) {
            // The engine tells a changed file by its size, and may overlook what took the place of older records of its log.
            (file, is_fresh) = (open_anew(engine, database)?, true);
            contents = file.get(hashes).map_err(fault)?;
        }
        for content in contents {
            bytes = bytes.saturating_add(content.as_ref().map_or(0, |content| content.len()));
            if bytes > at_most && !chunks.is_empty() {
                break 'read;
            }
            chunks.push(content.map(|content| chunk(&content)));
        }
    }
    engine.chunk_files.put(database, (), file, generation);
    Ok(chunks)
}

/// Returns what the file holds of `hashes`.
pub(crate) fn held(
    engine: &DoltliteEngine,
    database: DatabaseId,
    hashes: &[ChunkHash],
) -> Result<Vec<Option<HeldChunk>>, EngineError> {
    let fault = |error| errors::fault("look for chunks", error);
    let generation = engine.chunk_files.generation();
    let file = open(engine, database)?;
    let is_held = file.has(hashes).map_err(fault)?;
    let there: Vec<ChunkHash> =
        hashes.iter().zip(&is_held).filter(|(_, is_held)| **is_held).map(|(hash, _)| *hash).collect();
    let mut found = Vec::with_capacity(there.len());
    for hashes in there.chunks(READ) {
        let contents = file.get(hashes).map_err(fault)?;
        found.extend(contents.iter().map(|content| content.as_ref().map(held_chunk)));
    }
    engine.chunk_files.put(database, (), file, generation);
    let mut found = found.into_iter();
    Ok(is_held.into_iter().map(|is_held| is_held.then(|| found.next().flatten()).flatten()).collect())
}

/// An open file of which a walk reads one chunk after the other.
pub(crate) struct ChunkReader<'a> {
    engine: &'a DoltliteEngine,
    database: DatabaseId,
    file: ChunkFile,
    is_fresh: bool,
    generation: u64,
}

impl<'a> ChunkReader<'a> {
    pub(crate) fn open(engine: &'a DoltliteEngine, database: DatabaseId) -> Result<Self, EngineError> {
        let generation = engine.chunk_files.generation();
        let (file, is_fresh) = match idle(engine, database) {
            Some(file) => (file, false),
            None => (open_anew(engine, database)?, true),
        };
        Ok(Self { engine, database, file, is_fresh, generation })
    }

    /// Returns the content of a chunk that the file holds.
    pub(crate) fn get(&mut self, hash: ChunkHash) -> Result<ChunkContent, EngineError> {
        let fault = |error| errors::fault("read a chunk", error);
        let mut found = self.file.get(&[hash]).map_err(fault)?.pop().flatten();
        if found.is_none() && !self.is_fresh {
            // As in `read`: the engine may have overlooked that the file changed.
            (self.file, self.is_fresh) = (open_anew(self.engine, self.database)?, true);
            found = self.file.get(&[hash]).map_err(fault)?.pop().flatten();
        }
        found.ok_or_else(|| damaged(hash, Malformed("it is missing")))
    }

    /// Keeps the file open for the next call.
    pub(crate) fn close(self) {
        self.engine.chunk_files.put(self.database, (), self.file, self.generation);
    }
}

fn held_chunk(content: &ChunkContent) -> HeldChunk {
    parents(content).map_or(HeldChunk::Content, HeldChunk::Commit)
}

/// Returns an idle file of the database, or opens it.
fn open(engine: &DoltliteEngine, database: DatabaseId) -> Result<ChunkFile, EngineError> {
    idle(engine, database).map_or_else(|| open_anew(engine, database), Ok)
}

fn idle(engine: &DoltliteEngine, database: DatabaseId) -> Option<ChunkFile> {
    engine.chunk_files.take(database, &()).filter(|file| file.refresh().is_ok())
}

pub(super) fn open_anew(engine: &DoltliteEngine, database: DatabaseId) -> Result<ChunkFile, EngineError> {
    engine.check_format(database)?;
    let path = engine.files.path(database);
    if !engine.files.exists(&path) {
        return Err(missing(database));
    }
    ChunkFile::open(&path).map_err(|error| errors::fault("open a database", error))
}

fn chunk(content: &ChunkContent) -> Chunk {
    Chunk { bytes: content.to_vec(), parents: parents(content) }
}

/// Returns the parents of a chunk that is a commit.
fn parents(content: &ChunkContent) -> Option<Vec<CommitHash>> {
    layout::commit(content)
        .ok()
        .map(|commit| commit.parents.into_iter().map(|parent| ChunkHash::from_bytes(parent).as_commit()).collect())
}
