//! A measurement: time and peak memory of writes of many rows.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use branchyard_domain::ports::{CancellationToken, MergeOutcome};
use branchyard_engine_doltlite::{EngineOptions, MemoryLender, MemoryPool};

use crate::large_writes::{DEFINE, insert};
use crate::support::{EngineHarness, id};

/// Time limit of a write, as an operator sets it for ten million rows.
const LIMIT: Duration = Duration::from_secs(1_800);

/// A pool that records the most that was taken from it.
#[derive(Debug)]
struct Recorded {
    pool: MemoryPool,
    taken: AtomicI64,
    peak: AtomicI64,
}

impl MemoryLender for Recorded {
    fn most_for(&self, wanted: i64) -> i64 {
        self.pool.most_for(wanted)
    }

    fn take(&self, bytes: i64, held: i64) -> bool {
        let is_taken = self.pool.take(bytes, held);
        if is_taken {
            let taken = self.taken.fetch_add(bytes, Ordering::Relaxed) + bytes;
            self.peak.fetch_max(taken, Ordering::Relaxed);
        }
        is_taken
    }

    fn give_back(&self, bytes: i64) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
        self.pool.give_back(bytes);
    }

    fn wait_for(&self, bytes: i64, wait: Duration, canceled: &CancellationToken) -> bool {
        self.pool.wait_for(bytes, wait, canceled)
    }
}

/// Prints a line for each statement. `LARGE_WRITES_ROWS` is the number of rows, by default few, so that the test is quick.
#[test]
fn print_time_and_memory_of_large_writes() {
    let rows = std::env::var("LARGE_WRITES_ROWS").map_or(2_000, |rows| rows.parse().unwrap());
    let lender =
        Arc::new(Recorded { pool: MemoryPool::new(Some(1 << 30)), taken: AtomicI64::new(0), peak: AtomicI64::new(0) });
    let options = EngineOptions { lender: Some(Arc::clone(&lender) as _), ..EngineOptions::default() };
    let harness = EngineHarness::with(options);
    let empty = harness.write(&harness.base, DEFINE);
    let mut out = std::io::stdout();
    writeln!(out, "| rows | statement | seconds | peak MiB |").unwrap();
    let mut measure = |base, sql: &str| {
        lender.peak.store(0, Ordering::Relaxed);
        let began = Instant::now();
        let written = harness.try_write(id(1), base, sql, LIMIT);
        let (seconds, peak) = (began.elapsed().as_secs_f64(), lender.peak.load(Ordering::Relaxed) >> 20);
        let name: String = sql.lines().next().unwrap_or_default().chars().take(60).collect();
        writeln!(out, "| {rows} | `{name}` | {seconds:.1} | {peak} |").unwrap();
        match written {
            Ok(MergeOutcome::Head(head)) => head,
            other => panic!("{name}: {other:?}"),
        }
    };
    let full = measure(&empty, &insert(rows));
    for sql in [
        "create index by_both on t(level, name)",
        "update t set level = level + 1",
        "update t set name = name || 'x', level = level + 1",
        "delete from t where id >= 0",
        "delete from t",
        "insert into t(name, level) select name, level from t",
        "create table u as select * from t",
    ] {
        measure(&full, sql);
    }
}
