//! A server with databases that callers write to: what the topics about writes share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::flags::Flags;
use crate::harness::{BenchHarness, Caller, NO_RESULTS, ONE_CALLER, Server, write};
use crate::table::Table;

/// How a caller waits for its write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Requests {
    /// In the request that writes, with `Prefer: wait`.
    One,
    /// In a second request, which reads the operation.
    Two,
}

/// A server with databases to write to.
pub(crate) struct Writers {
    harness: BenchHarness,
    pub(crate) server: Server,
    names: Vec<String>,
    /// Every insert uses its own row id.
    next: AtomicU64,
    /// Number of writes so far.
    done: AtomicU64,
    seconds: f64,
}

impl Writers {
    /// Starts a server with `--databases` databases that hold the table.
    pub(crate) fn start(harness: BenchHarness, settings: &[(&str, &str)], table: Table, flags: &Flags) -> Self {
        let writers = Self::serve(harness, settings, table.rows + 1, flags);
        writers.names.iter().for_each(|name| writers.server.database(&writers.harness.token, name, table));
        writers
    }

    fn serve(harness: BenchHarness, settings: &[(&str, &str)], next: u64, flags: &Flags) -> Self {
        let server = harness.start_with(&[ONE_CALLER, &[NO_RESULTS], settings].concat());
        Self {
            harness,
            server,
            names: (0..flags.count("--databases")).map(|number| format!("bench{number}")).collect(),
            next: AtomicU64::new(next),
            done: AtomicU64::new(0),
            seconds: flags.number("--seconds"),
        }
    }

    /// Starts the server anew, with another address of its metadata store.
    pub(crate) fn moved_to(self, metadata: &str, flags: &Flags) -> Self {
        let Self { harness, server, next, .. } = self;
        drop(server);
        Self::serve(harness.moved_to(metadata), &[], next.into_inner(), flags)
    }

    /// Returns the number of databases.
    pub(crate) fn databases(&self) -> usize {
        self.names.len()
    }

    /// Returns the number of writes so far.
    pub(crate) fn done(&self) -> f64 {
        as_float(self.done.load(Ordering::Relaxed))
    }

    /// Returns an insert of a row that no other one has.
    pub(crate) fn insert(&self) -> String {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        format!("insert into t (id, name, value) values ({id}, 'row number {id}', {id} / 7.0)")
    }

    /// Returns whether a slice that began then still goes on.
    pub(crate) fn goes_on(&self, began: Instant) -> bool {
        began.elapsed() < Duration::from_secs_f64(self.seconds)
    }

    /// Returns the number of completed writes per second, with `callers` callers, each of which writes to one database.
    pub(crate) fn rate(&self, callers: usize, databases: usize, requests: Requests) -> f64 {
        let done = AtomicU64::new(0);
        let began = Instant::now();
        thread::scope(|scope| {
            for database in self.names[..databases].iter().cycle().take(callers) {
                let done = &done;
                scope.spawn(move || {
                    let mut caller = Caller::new(self.server.address, &self.harness.token);
                    let path = format!("/databases/bench/{database}/sql-writes");
                    while self.goes_on(began) {
                        let body = write(&self.insert()).to_string();
                        match requests {
                            Requests::One => caller.finish_in_one(&path, &body),
                            Requests::Two => caller.finish(&path, &body),
                        }
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        let done = done.into_inner();
        self.done.fetch_add(done, Ordering::Relaxed);
        as_float(done) / began.elapsed().as_secs_f64()
    }
}

#[expect(clippy::cast_precision_loss, reason = "a count of writes is far below 2^53")]
pub(crate) fn as_float(count: u64) -> f64 {
    count as f64
}
