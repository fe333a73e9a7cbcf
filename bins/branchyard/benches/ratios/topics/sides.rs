//! Two servers that do the same work in turns: what the topics that compare a server with another server share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::harness::{BenchHarness, Caller, NO_RESULTS, ONE_CALLER, Server, write};
use crate::load::{Question, encoded, get, rate};
use crate::slices::millis;
use crate::table::Table;
use crate::topics::reads::{PATH, with_id};

/// Statement that reads a page of 1,000 rows.
pub(crate) const PAGE: &str = "select * from t where id > {id} % 1000 limit 1000";

/// One of the servers, with its own data folder. It keeps no results.
pub(crate) struct Side {
    pub(crate) harness: BenchHarness,
    pub(crate) server: Server,
    /// The id of the next row to write.
    next: AtomicU64,
}

impl Side {
    /// Starts a server on the folder, with additional settings.
    pub(crate) fn start(harness: BenchHarness, settings: &[(&'static str, &'static str)]) -> Self {
        let server = harness.start_with(&[ONE_CALLER, &[NO_RESULTS], settings].concat());
        Self { harness, server, next: AtomicU64::new(10_000) }
    }

    /// Creates the database `bench`, which is read, and the database `written`.
    pub(crate) fn fill(&self, table: Table) {
        self.server.database(&self.harness.token, "bench", table);
        self.server.database(&self.harness.token, "written", Table::new(1_000, 3));
    }

    /// Returns the rate of a read, whose statement holds `{id}`.
    pub(crate) fn reads(&self, statement: &str, proof: &str, connections: u64, seconds: f64, ids: u64) -> f64 {
        let path = format!("{PATH}{}", encoded(statement));
        let head = format!("Authorization: Bearer {}\r\n", self.harness.token);
        let request = |id: u64, into: &mut Vec<u8>| get(into, &path.replace("{id}", &id.to_string()), &head);
        let question = Question { address: self.server.address, request: &request, proof: &with_id(proof) };
        rate(&question, connections, seconds, ids)
    }

    /// Returns the rate of reading a whole table as CSV.
    pub(crate) fn streams(&self) -> f64 {
        let took = millis(|| {
            let body = serde_json::json!({"q": "select * from t", "timeout_ms": 60_000});
            let actor = self.server.actor("bench", &self.harness.token);
            let request = actor.request(reqwest::Method::POST, "/databases/bench/bench/sql");
            let answer = request.header("Accept", "text/csv").json(&body).send().unwrap().error_for_status().unwrap();
            assert!(answer.bytes().unwrap().len() > 1_000);
        });
        1000.0 / took
    }

    /// Returns the rate of sql-writes of one caller, until they have succeeded.
    pub(crate) fn writes(&self, seconds: f64) -> f64 {
        let mut caller = Caller::new(self.server.address, &self.harness.token);
        let began = Instant::now();
        let mut done = 0_u32;
        while began.elapsed() < Duration::from_secs_f64(seconds) {
            let id = self.next.fetch_add(1, Ordering::Relaxed);
            let statement = format!("insert into t (id, name, value) values ({id}, 'row number {id}', {id} / 7.0)");
            caller.finish_in_one("/databases/bench/written/sql-writes", &write(&statement).to_string());
            done += 1;
        }
        f64::from(done) / began.elapsed().as_secs_f64()
    }
}
