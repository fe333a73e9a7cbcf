//! Pools of idle connections, bounded in number and in memory. The least recently used connection is dropped first.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use branchyard_domain::values::DatabaseId;
use parking_lot::Mutex;

use crate::connection::Connection;

/// A connection to a file that may wait for its next use.
pub(crate) trait Idle {
    /// Returns the memory that the connection holds, in bytes.
    fn held(&self) -> i64;
}

struct Entry<K, C> {
    database: DatabaseId,
    key: K,
    connection: C,
}

/// A pool of connections that are distinguished by `K` within a database.
pub(crate) struct IdleConnections<K, C = Connection> {
    idle: Mutex<VecDeque<Entry<K, C>>>,
    most: usize,
    most_bytes: i64,
    generation: AtomicU64,
}

impl<K: PartialEq, C: Idle> IdleConnections<K, C> {
    /// Creates a pool of at most `most` connections that hold at most `most_bytes` bytes together.
    pub(crate) fn new(most: usize, most_bytes: usize) -> Self {
        let most_bytes = i64::try_from(most_bytes).unwrap_or(i64::MAX);
        Self { idle: Mutex::default(), most, most_bytes, generation: AtomicU64::new(0) }
    }

    /// Returns the generation of connections that are opened from now on.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Takes an idle connection out of the pool. Returns `None` if there is none for `database` and `key`.
    pub(crate) fn take(&self, database: DatabaseId, key: &K) -> Option<C> {
        let mut idle = self.idle.lock();
        let at = idle.iter().rposition(|entry| entry.database == database && entry.key == *key)?;
        idle.remove(at).map(|entry| entry.connection)
    }

    /// Returns the number of idle connections.
    pub(crate) fn idle(&self) -> usize {
        self.idle.lock().len()
    }

    /// Returns a connection to the pool. The connection is closed instead if it alone exceeds the memory limit of the
    /// pool, or if a file was replaced since `generation`.
    pub(crate) fn put(&self, database: DatabaseId, key: K, connection: C, generation: u64) {
        let mut idle = self.idle.lock();
        if generation != self.generation() || connection.held() > self.most_bytes {
            drop(idle);
            return;
        }
        idle.push_back(Entry { database, key, connection });
        let (mut count, mut bytes) = (idle.len(), idle.iter().map(|entry| entry.connection.held()).sum::<i64>());
        let surplus: Vec<_> = std::iter::from_fn(|| {
            if count <= self.most && bytes <= self.most_bytes {
                return None;
            }
            let oldest = idle.pop_front()?;
            count -= 1;
            bytes -= oldest.connection.held();
            Some(oldest)
        })
        .collect();
        drop(idle);
        // Closing takes a while, so it happens outside the lock.
        drop(surplus);
    }

    /// Closes the idle connections of a database. Connections in use, of all databases, are closed when they are
    /// returned: after a file was replaced, its connections would still answer from the old one.
    pub(crate) fn evict(&self, database: DatabaseId) {
        let mut idle = self.idle.lock();
        self.generation.fetch_add(1, Ordering::AcqRel);
        let (evicted, kept): (VecDeque<_>, VecDeque<_>) = idle.drain(..).partition(|entry| entry.database == database);
        *idle = kept;
        drop(idle);
        drop(evicted);
    }
}
