//! Reads single chunks of a database, for clients that copy it.

use branchyard_domain::ports::{Chunk, EngineError};
use branchyard_domain::values::{ChunkHash, DatabaseId};

use super::file::{ChunkContent, ChunkFile};
use super::layout;
use crate::engine::{DoltliteEngine, missing};
use crate::sql::errors;

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
    let file = open(engine, database)?;
    let (mut chunks, mut bytes) = (Vec::new(), 0_usize);
    'read: for hashes in hashes.chunks(READ) {
        for content in file.get(hashes).map_err(fault)? {
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

/// Returns an idle file of the database, or opens it.
fn open(engine: &DoltliteEngine, database: DatabaseId) -> Result<ChunkFile, EngineError> {
    if let Some(file) = engine.chunk_files.take(database, &())
        && file.refresh().is_ok()
    {
        return Ok(file);
    }
    engine.check_format(database)?;
    let path = engine.files.path(database);
    if !engine.files.exists(&path) {
        return Err(missing(database));
    }
    ChunkFile::open(&path).map_err(|error| errors::fault("open a database", error))
}

fn chunk(content: &ChunkContent) -> Chunk {
    let parents = layout::commit(content).ok().map(|commit| commit.parents.iter().map(ChunkHash::as_commit).collect());
    Chunk { bytes: content.to_vec(), parents }
}
