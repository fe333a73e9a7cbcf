//! What an engine holds and has moved, as numbers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use branchyard_domain::values::DatabaseId;
use branchyard_segments::Known;

use super::{DurableEngine, RecordSource};

/// What an engine holds, and what it has moved since it was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Whether the lease of the node holds.
    pub has_lease: bool,
    /// Whether other nodes are to write the databases.
    pub is_drained: bool,
    /// Databases that this node writes.
    pub led: usize,
    /// Databases whose files are here.
    pub copies: usize,
    /// Bytes of these files that are durable.
    pub copy_bytes: u64,
    /// Segments stored.
    pub puts: u64,
    /// Their bytes.
    pub put_bytes: u64,
    /// Ranges of objects read.
    pub gets: u64,
    /// Their bytes.
    pub get_bytes: u64,
}

/// Copies that lack durable bytes of their databases, which others have written. The next read of each brings these.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lag {
    /// The number of these copies.
    pub copies: usize,
    /// The bytes that they lack.
    pub bytes: u64,
}

impl<S: RecordSource> DurableEngine<S> {
    /// Returns what it holds and has moved.
    pub fn figures(&self) -> Figures {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let traffic = &self.traffic;
        let mut figures = Figures {
            has_lease: self.ports.node.as_ref().is_some_and(|node| node.holds()),
            is_drained: self.is_drained.load(Ordering::Relaxed),
            puts: count(&traffic.puts),
            put_bytes: count(&traffic.put_bytes),
            gets: count(&traffic.gets),
            get_bytes: count(&traffic.get_bytes),
            ..Figures::default()
        };
        for entry in self.databases.lock().values() {
            let Some(known) = entry.status.state().known() else { continue };
            figures.copies += 1;
            figures.copy_bytes += known.length;
            figures.led += usize::from(entry.is_leading());
        }
        figures
    }

    /// Returns how far the copies here are behind the rows, which hold what is durable.
    pub fn lag(&self, rows: &HashMap<DatabaseId, Known>) -> Lag {
        let mut lag = Lag::default();
        for (database, entry) in self.databases.lock().iter() {
            let (Some(known), Some(row)) = (entry.status.state().known(), rows.get(database)) else { continue };
            // The rows may have been read before the last write of this node.
            let lacks = match known.generation.cmp(&row.generation) {
                std::cmp::Ordering::Less => row.length,
                std::cmp::Ordering::Equal => row.length.saturating_sub(known.length),
                std::cmp::Ordering::Greater => 0,
            };
            if lacks > 0 && !entry.is_leading() {
                lag.copies += 1;
                lag.bytes += lacks;
            }
        }
        lag
    }
}
