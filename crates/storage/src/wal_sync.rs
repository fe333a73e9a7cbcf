//! Group commit for SQLite's write-ahead log: transactions that wait for durability share syncs.
//!
//! Under `PRAGMA synchronous = NORMAL`, a commit is written to the log without waiting for the disk
//! (<https://sqlite.org/pragma.html#pragma_synchronous>). A transaction that commits as
//! [`Durability::Synced`](branchyard_domain::ports::Durability::Synced) waits for the disk here, after it has freed the
//! only writer connection for the next transaction. The first waiter syncs the log for all transactions that have
//! committed so far; later ones share the next sync. Frames are appended to the log in order, so the disk always holds
//! a prefix of the history.
//!
//! A transaction may see commits that are not on disk yet. It waits for them when it ends, so anything reported to a
//! client survives a power cut. Commits as [`Durability::Unsynced`](branchyard_domain::ports::Durability::Unsynced),
//! such as those of leases, are not waited for. A caller that reports nothing before its next synced commit ends its
//! transaction with [`discard`](branchyard_domain::ports::Transaction::discard), which does not wait, because the later
//! commit waits for all earlier ones.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use branchyard_domain::ports::MetadataError;
use parking_lot::{Condvar, Mutex};

use crate::error::OpenError;

type SyncLog = dyn Fn() -> io::Result<()> + Send + Sync;

/// The commits made, and how many of them are on disk.
pub(crate) struct WalSync {
    path: String,
    sync: Box<SyncLog>,
    state: Mutex<SyncState>,
    changed: Condvar,
}

#[derive(Default)]
struct SyncState {
    /// Number of commits in progress. They may already be visible.
    committing: u32,
    /// Number of commits made. `on_disk` of them are on disk.
    committed: u64,
    on_disk: u64,
    syncing: bool,
    /// The error of a failed sync. Data that was not on disk at that time may never be, even if a later sync succeeds,
    /// because the operating system may drop the failed pages.
    failed: Option<Arc<io::Error>>,
}

/// The log could not be synced.
#[derive(Debug, thiserror::Error)]
#[error("cannot sync the write-ahead log of the metadata store; no changes are saved until the server is restarted")]
struct NotOnDisk(#[source] Arc<io::Error>);

impl SyncState {
    fn check(&self) -> Result<(), MetadataError> {
        match &self.failed {
            None => Ok(()),
            Some(error) => Err(MetadataError::Unavailable(Box::new(NotOnDisk(Arc::clone(error))))),
        }
    }
}

impl WalSync {
    /// Opens the log of a metadata file. The log exists while there is a connection.
    pub(crate) fn open(path: &str) -> Result<Self, OpenError> {
        let open = || {
            // SQLite makes the name of the log durable only when it first syncs, which may be long after the first
            // commit.
            let folder = Path::new(path).parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
            File::open(format!("{path}-wal"))
        };
        let log = open().map_err(|source| OpenError::File { path: path.to_owned(), source })?;
        Ok(Self::with(path, move || log.sync_data()))
    }

    pub(crate) fn with(path: &str, sync: impl Fn() -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self { path: path.to_owned(), sync: Box::new(sync), state: Mutex::default(), changed: Condvar::new() }
    }

    /// Syncs the log, including frames written by other processes.
    pub(crate) fn sync(&self) -> Result<(), OpenError> {
        (self.sync)().map_err(|source| OpenError::File { path: self.path.clone(), source })
    }

    /// Fails if a sync has failed, after which nothing can be committed.
    pub(crate) fn check(&self) -> Result<(), MetadataError> {
        self.state.lock().check()
    }

    /// Announces a commit that will be waited for.
    pub(crate) fn begin(&self) -> Result<(), MetadataError> {
        let mut state = self.state.lock();
        state.check()?;
        state.committing += 1;
        Ok(())
    }

    /// Records the end of an announced commit. Returns the number to pass to [`WalSync::wait_for`].
    pub(crate) fn end(&self) -> u64 {
        let mut state = self.state.lock();
        state.committing -= 1;
        state.committed += 1;
        state.committed
    }

    /// Waits until a commit is on disk.
    pub(crate) fn wait_for(&self, commit: u64) -> Result<(), MetadataError> {
        let mut state = self.state.lock();
        while state.on_disk < commit {
            state.check()?;
            if state.syncing {
                self.changed.wait(&mut state);
                continue;
            }
            state.syncing = true;
            let until = state.committed;
            drop(state);
            let result = (self.sync)();
            state = self.state.lock();
            state.syncing = false;
            match result {
                Ok(()) => state.on_disk = until,
                Err(error) => {
                    tracing::error!(%error, "cannot sync the write-ahead log of the metadata store");
                    state.failed = Some(Arc::new(error));
                }
            }
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Waits until all visible commits are on disk.
    fn wait_for_all(&self) -> Result<(), MetadataError> {
        let mut state = self.state.lock();
        if state.committing > 0 {
            // The commit in progress may be visible already. Counting one more commit makes this call wait for a new
            // sync.
            state.committed += 1;
        }
        let last = state.committed;
        drop(state);
        self.wait_for(last)
    }
}

/// The commits that a transaction has seen. Dropped after the transaction's connection, so that other transactions can
/// use the connection meanwhile.
pub(crate) struct SeenCommits(pub(crate) Option<Arc<WalSync>>);

impl Drop for SeenCommits {
    fn drop(&mut self) {
        if let Some(log) = &self.0 {
            // A failed sync is reported to transactions that commit. Reading goes on.
            let _ = log.wait_for_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, Barrier, mpsc};
    use std::thread;
    use std::time::Duration;

    use branchyard_domain::ports::MetadataError;

    use super::{SeenCommits, WalSync};

    fn commit(log: &WalSync) -> u64 {
        log.begin().unwrap();
        log.end()
    }

    #[test]
    fn who_comes_while_the_log_is_synced_shares_the_next_sync() {
        const MANY: usize = 8;
        let (entered, was_entered) = mpsc::channel();
        let (go_on, may_go_on) = mpsc::channel::<()>();
        let (entered, may_go_on) = (entered, parking_lot::Mutex::new(may_go_on));
        let log = WalSync::with("a test", move || {
            entered.send(()).unwrap();
            may_go_on.lock().recv_timeout(Duration::from_secs(10)).unwrap();
            Ok(())
        });
        let committed = Barrier::new(MANY + 1);
        thread::scope(|scope| {
            let first = commit(&log);
            scope.spawn({
                let log = &log;
                move || log.wait_for(first).unwrap()
            });
            was_entered.recv().unwrap();
            for _ in 0..MANY {
                scope.spawn(|| {
                    let mine = commit(&log);
                    committed.wait();
                    log.wait_for(mine).unwrap();
                });
            }
            committed.wait();
            go_on.send(()).unwrap();
            go_on.send(()).unwrap();
        });
        assert_eq!(was_entered.try_iter().count(), 1, "one more for all of them");
        assert_eq!(log.state.lock().on_disk, 1 + MANY as u64);
    }

    #[test]
    fn who_has_read_waits_for_what_may_have_been_seen() {
        let syncs = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&syncs);
        let log = Arc::new(WalSync::with("a test", move || {
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }));
        let read = || drop(SeenCommits(Some(Arc::clone(&log))));
        read();
        assert_eq!(syncs.load(Ordering::SeqCst), 0, "nothing was committed");
        log.begin().unwrap();
        read();
        assert_eq!(syncs.load(Ordering::SeqCst), 1, "it may be visible");
        let mine = log.end();
        read();
        read();
        assert_eq!(syncs.load(Ordering::SeqCst), 2);
        log.wait_for(mine).unwrap();
        assert_eq!(syncs.load(Ordering::SeqCst), 2, "the reader saw to it");
    }

    #[test]
    fn after_a_failed_sync_nothing_is_saved() {
        let tries = AtomicU32::new(0);
        let log = WalSync::with("a test", move || match tries.fetch_add(1, Ordering::SeqCst) {
            0 => Ok(()),
            1 => Err(io::Error::from(io::ErrorKind::StorageFull)),
            _ => panic!("what a later sync says means nothing"),
        });
        log.wait_for(commit(&log)).unwrap();
        let lost = commit(&log);
        for _ in 0..2 {
            assert!(matches!(log.wait_for(lost), Err(MetadataError::Unavailable(_))));
        }
        assert!(log.begin().is_err());
        drop(SeenCommits(Some(Arc::new(log))));
    }
}
