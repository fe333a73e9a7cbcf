//! Idle connections, a bounded number of each kind with a bounded amount of memory, the least recently used dropped first.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use branchyard_domain::values::DatabaseId;

use crate::connection::Connection;

struct Idle<K> {
    database: DatabaseId,
    key: K,
    connection: Connection,
}

/// A pool of connections that are told apart by `K` within a database.
pub(crate) struct Pool<K> {
    idle: Mutex<VecDeque<Idle<K>>>,
    most: usize,
    most_bytes: i64,
    generation: AtomicU64,
}

impl<K: PartialEq> Pool<K> {
    /// At most so many connections, which hold at most so many bytes together.
    pub(crate) fn new(most: usize, most_bytes: usize) -> Self {
        let most_bytes = i64::try_from(most_bytes).unwrap_or(i64::MAX);
        Self { idle: Mutex::default(), most, most_bytes, generation: AtomicU64::new(0) }
    }

    /// The generation a connection opened from now on belongs to.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// An idle connection, if there is one.
    pub(crate) fn take(&self, database: DatabaseId, key: &K) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let at = idle.iter().rposition(|entry| entry.database == database && entry.key == *key)?;
        idle.remove(at).map(|entry| entry.connection)
    }

    /// How many connections are idle.
    pub(crate) fn idle(&self) -> usize {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Gives a connection back; it is closed when it holds more than all may, or files were exchanged since `generation`.
    pub(crate) fn put(&self, database: DatabaseId, key: K, connection: Connection, generation: u64) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if generation != self.generation() || connection.held() > self.most_bytes {
            drop(idle);
            return;
        }
        idle.push_back(Idle { database, key, connection });
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
        // Closing takes a while: not under the lock.
        drop(surplus);
    }

    /// Closes the connections of a database, also, when they come back, those in use: after its file was exchanged they would go on
    /// answering from the old one.
    pub(crate) fn evict(&self, database: DatabaseId) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        self.generation.fetch_add(1, Ordering::AcqRel);
        let (evicted, kept): (VecDeque<_>, VecDeque<_>) = idle.drain(..).partition(|entry| entry.database == database);
        *idle = kept;
        drop(idle);
        drop(evicted);
    }
}
