//! Transactions. What they keep from each other is in `write_keys`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use branchyard_domain::ports::{Durability, MetadataError, Transaction, WriteKey, WriteKeys};
use diesel::connection::{SimpleConnection, TransactionManager};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{QueryFragment, QueryId};

use crate::connection::{AnyConnection, ConnectionPool, MultiBackend, OwnNode, PooledConnection, begin};
use crate::deferred::{Deferred, DeferredStatements};
use crate::error::{StoreError, is_read_only, is_server_gone, is_undone};
use crate::store::Versions;
use crate::version::StoreVersion;
use crate::wal_sync::{SeenCommits, WalSync};
use crate::write_keys::postgres_locks;

type Tm = <AnyConnection as Connection>::TransactionManager;

const SAVE: &str = "commit a transaction";

/// How long after its last use a connection is taken to work.
const TRUSTED_FOR: Duration = Duration::from_secs(1);

pub(crate) struct SqlTransaction {
    conn: PooledConnection,
    /// `false` after the end, and in Postgres without a snapshot, where each statement is a transaction.
    open: bool,
    failed: Option<EarlierStepFailed>,
    log: Option<Arc<WalSync>>,
    /// Of a transaction that writes.
    keys: Option<WriteKeys>,
    /// Of a transaction that writes to SQLite: what keeps the version of the rights.
    rights: Option<RightsOfWriter>,
    deferred: DeferredStatements,
    pub(crate) node: Arc<OwnNode>,
    /// The last field, so that it is dropped after the connection has returned to its pool.
    seen: SeenCommits,
}

/// What a writer needs to keep the version of the rights.
struct RightsOfWriter {
    versions: Arc<Versions>,
    before: Option<StoreVersion>,
    may_have_changed: bool,
}

/// An earlier step of the transaction failed.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("an earlier step of this transaction failed")]
struct EarlierStepFailed {
    /// Whether the cause may be gone at a later try.
    is_passing: bool,
}

impl SqlTransaction {
    pub(crate) fn begin(
        pool: &ConnectionPool,
        keys: Option<&WriteKeys>,
        log: Option<&Arc<WalSync>>,
        versions: Option<&Arc<Versions>>,
    ) -> Result<Self, MetadataError> {
        let mut is_retry = false;
        loop {
            let mut conn = pool.get().map_err(|error| MetadataError::Unavailable(Box::new(error)))?;
            let begun = match keys {
                None => begin(&mut conn.any, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "BEGIN"),
                // The keys come with the beginning, in one round trip. Not `READ WRITE`: this would override an administrator, or a
                // provider, that has made the database read-only.
                Some(keys) => begin(
                    &mut conn.any,
                    &format!("BEGIN ISOLATION LEVEL READ COMMITTED{}", postgres_locks(keys)),
                    "BEGIN IMMEDIATE",
                ),
            };
            match begun {
                Ok(()) => {
                    let seen = SeenCommits(log.cloned());
                    let rights = versions.filter(|_| keys.is_some()).map(|versions| RightsOfWriter {
                        before: versions.rights.begin(&versions.store),
                        versions: Arc::clone(versions),
                        may_have_changed: false,
                    });
                    let keys = keys.cloned();
                    let deferred = DeferredStatements::default();
                    let (log, node) = (log.cloned(), Arc::clone(pool.node()));
                    let tx = Self { conn, open: true, failed: None, log, keys, rights, deferred, node, seen };
                    if tx.keys.is_some() {
                        // A transaction that cannot be committed need not begin.
                        tx.log.as_ref().map_or(Ok(()), |log| log.check())?;
                    }
                    return Ok(tx);
                }
                // The server was unreachable since the last use of the connection, or another one has taken over. The connection
                // that comes next is newer than this one.
                Err(error) if !is_retry && matches!(conn.any, AnyConnection::Pg(_)) && is_server_gone(&error) => {
                    tracing::debug!(%error, "closing a stale connection");
                    conn.discard(&error);
                    is_retry = true;
                }
                Err(error) => {
                    conn.discard(&error);
                    return Err(StoreError::Sql(error).into_port("begin a transaction"));
                }
            }
        }
    }

    /// Begins a transaction that only reads. In Postgres, each of its statements is a transaction.
    pub(crate) fn look(pool: &ConnectionPool, log: Option<&Arc<WalSync>>) -> Result<Self, MetadataError> {
        let conn = proved_connection(pool)?;
        if matches!(conn.any, AnyConnection::Sqlite(_)) {
            drop(conn);
            return Self::begin(pool, None, log, None);
        }
        let (rights, deferred, seen) = (None, DeferredStatements::default(), SeenCommits(None));
        let node = Arc::clone(pool.node());
        Ok(Self { conn, open: false, failed: None, log: None, keys: None, rights, deferred, node, seen })
    }

    /// Panics if the transaction writes without a key, except in releases: there is a fault in the program then, and tests are to find
    /// it.
    #[track_caller]
    pub(crate) fn needs(&self, key: WriteKey) {
        if cfg!(debug_assertions) {
            self.keys.as_ref().unwrap_or(&WriteKeys::none()).require(key);
        }
    }

    /// Returns the connection, for statements outside the repositories.
    pub(crate) fn connection(&mut self) -> &mut AnyConnection {
        self.may_change_rights();
        &mut self.conn.any
    }

    /// Runs one step. A failed step marks the transaction as failed: Postgres would reject the following statements and
    /// then "commit" nothing.
    pub(crate) fn run<T>(
        &mut self,
        context: &'static str,
        step: impl FnOnce(&mut AnyConnection) -> Result<T, StoreError>,
    ) -> Result<T, MetadataError> {
        self.may_change_rights();
        self.run_apart_from_rights(context, step)
    }

    /// Runs one step that changes nothing that permissions follow from (`Metadata::rights_version`), as
    /// [`SqlTransaction::run`] does.
    pub(crate) fn run_apart_from_rights<T>(
        &mut self,
        context: &'static str,
        step: impl FnOnce(&mut AnyConnection) -> Result<T, StoreError>,
    ) -> Result<T, MetadataError> {
        self.send_deferred()?;
        step(&mut self.conn.any).map_err(|error| self.spoil(error, context))
    }

    /// Runs a statement whose result is not needed. In Postgres, it is sent with others, at the latest before the next statement or the
    /// commit. `table` is the only table that it changes.
    pub(crate) fn run_deferred<S>(
        &mut self,
        context: &'static str,
        table: Deferred,
        statement: S,
    ) -> Result<(), MetadataError>
    where
        S: QueryFragment<Pg> + QueryFragment<MultiBackend> + QueryId + 'static,
    {
        if !matches!(self.conn.any, AnyConnection::Pg(_)) {
            return self.run_apart_from_rights(context, |conn| {
                conn.execute_returning_count(&statement)?;
                Ok(())
            });
        }
        if !self.deferred.takes(table) {
            self.send_deferred()?;
        }
        self.deferred.push(table, Box::new(statement));
        Ok(())
    }

    fn send_deferred(&mut self) -> Result<(), MetadataError> {
        let (false, AnyConnection::Pg(pg)) = (self.deferred.is_empty(), &mut self.conn.any) else { return Ok(()) };
        let sent = std::mem::take(&mut self.deferred).execute(pg);
        sent.map(drop).map_err(|error| self.spoil(error.into(), "send several statements"))
    }

    fn may_change_rights(&mut self) {
        if let Some(rights) = &mut self.rights {
            rights.may_have_changed = true;
        }
    }

    /// Runs a step that may violate a unique constraint, which becomes [`MetadataError::Taken`]. A savepoint keeps the
    /// transaction usable in that case.
    pub(crate) fn run_unless_taken<T>(
        &mut self,
        context: &'static str,
        step: impl FnOnce(&mut AnyConnection) -> Result<T, StoreError>,
    ) -> Result<T, MetadataError> {
        self.may_change_rights();
        self.run_apart_from_rights_unless_taken(context, step)
    }

    /// Runs a step as [`SqlTransaction::run_unless_taken`] does that changes nothing that permissions follow from.
    pub(crate) fn run_apart_from_rights_unless_taken<T>(
        &mut self,
        context: &'static str,
        step: impl FnOnce(&mut AnyConnection) -> Result<T, StoreError>,
    ) -> Result<T, MetadataError> {
        self.send_deferred()?;
        match self.conn.any.transaction(step) {
            Err(error) if error.is_taken() => Err(MetadataError::Taken),
            other => other.map_err(|error| self.spoil(error, context)),
        }
    }

    fn spoil(&mut self, error: StoreError, context: &'static str) -> MetadataError {
        let error = match error {
            // A fault in the program, and not a server that is read-only for a while.
            StoreError::Sql(error) if self.keys.is_none() && is_read_only(&error) => {
                MetadataError::Fault { context, source: Box::new(error) }
            }
            StoreError::Sql(error) if is_server_gone(&error) => {
                self.conn.discard(&error);
                MetadataError::Unavailable(Box::new(error))
            }
            error => error.into_port(context),
        };
        let is_passing = matches!(error, MetadataError::Unavailable(_));
        self.failed.get_or_insert(EarlierStepFailed { is_passing });
        error
    }

    fn commit_connection(&mut self) -> Result<(), MetadataError> {
        match self.failed {
            Some(earlier) if earlier.is_passing => return Err(MetadataError::Unavailable(Box::new(earlier))),
            Some(earlier) => return Err(MetadataError::Fault { context: SAVE, source: Box::new(earlier) }),
            None => self.send_deferred()?,
        }
        if let Some(rights) = self.rights.as_ref().filter(|rights| rights.may_have_changed) {
            rights.versions.rights.change();
        }
        let result = Tm::commit_transaction(&mut self.conn.any);
        if let (Ok(()), Some(rights)) = (&result, &self.rights) {
            rights.versions.rights.committed(&rights.versions.store, rights.before);
        }
        // Whether the transaction is still open after an error depends on the error. The connection is discarded
        // instead.
        self.open = false;
        result.map_err(|error| {
            self.conn.discard(&error);
            if is_undone(&error) {
                MetadataError::Fault { context: SAVE, source: Box::new(error) }
            } else {
                MetadataError::Unavailable(Box::new(error))
            }
        })
    }

    fn roll_back(&mut self) {
        self.open = false;
        // Closing the connection rolls back for certain.
        if self.conn.broken {
            return;
        }
        if let Err(error) = Tm::rollback_transaction(&mut self.conn.any) {
            if is_server_gone(&error) {
                tracing::debug!(%error, "rollback failed; closing the connection");
            } else {
                tracing::error!(%error, "rollback failed; closing the connection");
            }
            self.conn.discard(&error);
        }
    }
}

/// Returns a connection for statements without a `BEGIN`, which would show whether the connection works.
pub(crate) fn proved_connection(pool: &ConnectionPool) -> Result<PooledConnection, MetadataError> {
    let mut is_retry = false;
    loop {
        let mut conn = pool.get().map_err(|error| MetadataError::Unavailable(Box::new(error)))?;
        if matches!(conn.any, AnyConnection::Sqlite(_)) || conn.used_at.elapsed() < TRUSTED_FOR {
            return Ok(conn);
        }
        match conn.any.batch_execute("SELECT 1") {
            Ok(()) => return Ok(conn),
            Err(error) => {
                conn.discard(&error);
                if std::mem::replace(&mut is_retry, true) {
                    return Err(StoreError::Sql(error).into_port("begin to read"));
                }
            }
        }
    }
}

impl Transaction for SqlTransaction {
    fn hold(&mut self, keys: &[WriteKey]) -> Result<(), MetadataError> {
        let Some(held) = &mut self.keys else { return Ok(()) };
        let locks = postgres_locks(&held.take_further(keys));
        self.run_apart_from_rights("take further keys", |conn| match conn {
            AnyConnection::Pg(conn) if !locks.is_empty() => Ok(conn.batch_execute(&locks)?),
            _ => Ok(()),
        })
    }

    fn commit(mut self: Box<Self>, durability: Durability) -> Result<(), MetadataError> {
        if durability == Durability::Relaxed {
            self.seen.0 = None;
        }
        match (durability, &self.conn.any) {
            (Durability::Unsynced | Durability::Relaxed, AnyConnection::Sqlite(_)) => self.commit_connection(),
            // A Postgres server can lose an unsynced commit while this process lives on and relies on it.
            (Durability::Synced, _) | (_, AnyConnection::Pg(_)) => self.commit_notifying(&mut || ()),
        }
    }

    fn commit_notifying(mut self: Box<Self>, on_visible: &mut dyn FnMut()) -> Result<(), MetadataError> {
        let Some(log) = self.log.clone() else { return self.commit_connection().map(|()| on_visible()) };
        log.begin()?;
        let result = self.commit_connection();
        let committed = log.end();
        // Waiting for this commit includes waiting for all earlier ones. The next writer does not have to wait for the
        // sync.
        self.seen.0 = None;
        drop(self);
        result?;
        on_visible();
        log.wait_for(committed)
    }

    fn discard(mut self: Box<Self>) {
        self.seen.0 = None;
    }
}

impl Drop for SqlTransaction {
    fn drop(&mut self) {
        self.conn.used_at = Instant::now();
        // After a panic, the pool discards the connection together with its transaction.
        if self.open && !std::thread::panicking() {
            self.roll_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use branchyard_domain::ports::{Durability, Metadata as _, MetadataError, Transaction as _, WriteKeys};
    use branchyard_domain::values::Timestamp;

    use crate::wal_sync::WalSync;
    use crate::{Store, StoreOptions};

    /// Opens a store whose log syncs are counted, and fail from the sync with number `fails_from` on.
    fn store(folder: &tempfile::TempDir, fails_from: u32) -> (Store, Arc<AtomicU32>) {
        let path = folder.path().join("metadata.sqlite");
        let mut store = Store::open(path.to_str().unwrap(), &StoreOptions::default()).unwrap();
        store.migrate(Timestamp::from_micros(1)).unwrap();
        assert!(store.log.is_some(), "SQLite writes a log ahead");
        let syncs = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&syncs);
        let sync = move || match counted.fetch_add(1, Ordering::SeqCst) + 1 {
            number if number >= fails_from => Err(io::Error::other("a test wants it")),
            _ => Ok(()),
        };
        store.log = Some(Arc::new(WalSync::with("a test", sync)));
        (store, syncs)
    }

    #[test]
    fn who_saves_waits_for_the_disk_and_leases_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let (store, syncs) = store(&folder, u32::MAX);
        let count = || syncs.load(Ordering::SeqCst);
        store.write(&WriteKeys::none()).unwrap().commit(Durability::Synced).unwrap();
        assert_eq!(count(), 1);
        store.write(&WriteKeys::none()).unwrap().commit(Durability::Unsynced).unwrap();
        drop(store.read().unwrap());
        drop(store.write(&WriteKeys::none()).unwrap());
        assert_eq!(count(), 1, "nothing is waited for");
    }

    #[test]
    fn whoever_has_seen_a_commit_waits_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let (store, syncs) = store(&folder, u32::MAX);
        // As in the middle of another transaction's commit.
        let log = store.log.as_ref().unwrap();
        let ends: [fn(&Store); 3] = [
            |store| drop(store.read().unwrap()),
            |store| drop(store.write(&WriteKeys::none()).unwrap()),
            |store| store.write(&WriteKeys::none()).unwrap().commit(Durability::Unsynced).unwrap(),
        ];
        for (number, end) in (1..).zip(ends) {
            log.begin().unwrap();
            log.end();
            end(&store);
            assert_eq!(syncs.load(Ordering::SeqCst), number);
        }
    }

    #[test]
    fn who_leaves_waits_for_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (store, syncs) = store(&folder, u32::MAX);
        let log = store.log.as_ref().unwrap();
        log.begin().unwrap();
        log.end();
        store.read().unwrap().discard();
        store.write(&WriteKeys::none()).unwrap().discard();
        store.write(&WriteKeys::none()).unwrap().commit(Durability::Relaxed).unwrap();
        assert_eq!(syncs.load(Ordering::SeqCst), 0);
        store.write(&WriteKeys::none()).unwrap().commit(Durability::Synced).unwrap();
        assert_eq!(syncs.load(Ordering::SeqCst), 1, "a synced commit waits for all commits before it");
    }

    #[test]
    fn a_commit_notifies_when_it_is_visible_and_before_the_disk_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let (store, syncs) = store(&folder, 2);
        let mut syncs_when_visible = Vec::new();
        let mut commit_one = |store: &Store| {
            let mut tx = store.write(&WriteKeys::none()).unwrap();
            tx.idempotency().purge(Timestamp::from_micros(1)).unwrap();
            tx.commit_notifying(&mut || {
                // The writer's connection is already free.
                store.write(&WriteKeys::none()).unwrap().discard();
                syncs_when_visible.push(syncs.load(Ordering::SeqCst));
            })
        };
        commit_one(&store).unwrap();
        assert!(commit_one(&store).is_err(), "the disk failed");
        assert_eq!(syncs_when_visible, [0, 1]);
        // `on_visible` is not called for a transaction that could not be committed.
        let mut tx = store.transaction(None).unwrap();
        tx.run("fail", |_| Err::<(), _>(crate::error::StoreError::Sql(diesel::result::Error::NotFound))).unwrap_err();
        Box::new(tx).commit_notifying(&mut || panic!("it was not saved")).unwrap_err();
    }

    #[test]
    fn after_a_failed_sync_units_read_and_nothing_is_saved() {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = store(&folder, 2);
        store.write(&WriteKeys::none()).unwrap().commit(Durability::Synced).unwrap();
        assert!(matches!(
            store.write(&WriteKeys::none()).unwrap().commit(Durability::Synced),
            Err(MetadataError::Unavailable(_))
        ));
        assert!(
            matches!(store.write(&WriteKeys::none()).err(), Some(MetadataError::Unavailable(_))),
            "it need not begin"
        );
        store.read().unwrap().databases().ids(None, 1).unwrap();
    }

    #[test]
    fn a_link_to_the_file_is_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("metadata.sqlite"), folder.path().join("link"));
        drop(Store::open(file.to_str().unwrap(), &StoreOptions::default()).unwrap());
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let store = Store::open(link.to_str().unwrap(), &StoreOptions::default()).unwrap();
        store.migrate(Timestamp::from_micros(1)).unwrap();
        assert!(store.log.is_some() && store.version().is_some());
    }
}
