//! The files of databases: what is recorded about them.

use std::sync::Arc;

use super::Inner;
use crate::call_context;
use crate::entities::FileState;
use crate::errors::PortError;
use crate::ports::{EngineError, Metadata, MetadataError, RecordedFormats};
use crate::values::DatabaseId;

/// Returns what the engine reports about the file of a database.
pub(super) fn file_state(inner: &Inner, database: DatabaseId) -> Result<FileState, PortError> {
    let engine = &inner.ports.engine;
    let size_bytes = i64::try_from(engine.size_bytes(database)?).unwrap_or(i64::MAX);
    Ok(FileState { size_bytes, engine_format: engine.format(database)? })
}

/// The formats in the metadata store.
pub(super) struct StoredFormats(pub(super) Arc<dyn Metadata>);

impl RecordedFormats for StoredFormats {
    fn recorded(&self, database: DatabaseId) -> Result<Option<u32>, EngineError> {
        let foreseen = call_context::take_foreseen(|foreseen| foreseen.format.take_if(|(id, _)| *id == database));
        if let Some((_, format)) = foreseen {
            return Ok(Some(format));
        }
        let found = self.0.look().and_then(|mut tx| tx.databases().get(database));
        Ok(found.map_err(failed)?.map(|database| database.engine_format))
    }
}

fn failed(error: MetadataError) -> EngineError {
    match error {
        MetadataError::Unavailable(cause) => EngineError::Unavailable(format!("look up the format: {cause}")),
        other => EngineError::Fault { context: "look up the format".into(), source: Box::new(other) },
    }
}
