//! Forks whose files are made later, before their first use: what they keep, and what is done about them in the background.

use std::sync::Arc;

use parking_lot::Mutex;

use super::Inner;
use super::collections::{kept_commits, record_file, unavailable};
use crate::access::visibility::find_live;
use crate::errors::PortError;
use crate::ports::{Clock, Durability, EngineError, KeptCommits, Metadata, SizeChange, WriteKeys};
use crate::values::{CommitHash, DatabaseId};

/// Number of databases read at a time.
const PAGE: usize = 1_000;

/// The databases whose files were made since this was looked at last.
pub(super) type MadeCopies = Arc<Mutex<Vec<DatabaseId>>>;

/// What databases keep, in the metadata store.
pub(super) struct StoredKeptCommits {
    pub(super) metadata: Arc<dyn Metadata>,
    pub(super) clock: Arc<dyn Clock>,
    /// For how long commits stay that a ref left behind.
    pub(super) kept_seconds: i64,
    pub(super) made: MadeCopies,
}

impl KeptCommits for StoredKeptCommits {
    fn kept(&self, database: DatabaseId) -> Result<Vec<CommitHash>, EngineError> {
        let left_since = self.clock.now().plus_seconds(-self.kept_seconds);
        let kept = self.metadata.read().and_then(|mut tx| kept_commits(tx.as_mut(), database, Some(left_since)));
        kept.map_err(unavailable)
    }

    fn made(&self, database: DatabaseId) {
        // The caller may be in the middle of a transaction.
        self.made.lock().push(database);
    }
}

/// Records the sizes of the files that were made since the last call.
pub(super) fn record_made(inner: &Inner) -> Result<(), PortError> {
    let made = std::mem::take(&mut *inner.made_copies.lock());
    for database in made {
        let mut tx = inner.ports.metadata.write(&WriteKeys::database(database))?;
        // The next write of a database that is gone, or cannot be looked at now, records its size.
        if record_file(inner, tx.as_mut(), database, SizeChange::Collected, inner.now()).unwrap_or(false) {
            tx.commit(Durability::Relaxed)?;
        }
    }
    Ok(())
}

/// Makes the forks that alone keep the former file of a database, which would stay for them. Returns their number. A fork that cannot be
/// made now is made by a later call, or before its first use.
pub(super) fn make_outlived(inner: &Inner) -> Result<usize, PortError> {
    let mut made = 0;
    for database in inner.ports.engine.outlived_sources()? {
        // One that fails is tried again.
        made += usize::from(inner.ports.engine.make_copy(database).is_ok());
    }
    Ok(made)
}

/// Makes the forks of a database that share its file, so that what they keep of it is in files of their own.
pub(super) fn make_forks_of(inner: &Inner, database: DatabaseId) -> Result<(), PortError> {
    let network = match find_live(inner.ports.metadata.read()?.as_mut(), database)? {
        Some(database) => database.network_id,
        None => return Ok(()),
    };
    let mut after = None;
    loop {
        let page = inner.ports.metadata.read()?.databases().list_network(network, after, PAGE)?;
        for fork in page.iter().filter(|fork| fork.parent_id == Some(database)) {
            inner.ports.engine.make_copy(fork.id)?;
        }
        match page.last() {
            Some(last) if page.len() == PAGE => after = Some(last.id),
            _ => return Ok(()),
        }
    }
}
