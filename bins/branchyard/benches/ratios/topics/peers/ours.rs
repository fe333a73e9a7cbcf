//! This server.

use serde_json::json;

use super::http::JsonConnection;
use super::{Peer, Session, values};
use crate::harness::{BenchHarness, NO_RESULTS, ONE_CALLER, Server, finish, write};
use crate::load::encoded;
use crate::memory;
use crate::slices::millis;
use crate::table::Table;

struct Ours {
    harness: BenchHarness,
    server: Server,
    table: Table,
    load_millis: f64,
}

/// Starts a server with default settings, but for those that a single caller needs. It keeps no results of reads.
pub(super) fn start(table: Table) -> Box<dyn Peer> {
    let harness = BenchHarness::new();
    let server = harness.start_with(&[ONE_CALLER, &[NO_RESULTS]].concat());
    let bench = server.actor("bench", &harness.token);
    bench.database("bench");
    let file = table.csv().into_bytes();
    let load_millis = millis(|| {
        let body = bench.upload("bench/bench", "csv", &file, 1, &json!({"primary_keys": ["id"]}));
        finish(&bench, "/databases/bench/bench/imports", &body);
    });
    Box::new(Ours { harness, server, table, load_millis })
}

impl Peer for Ours {
    fn about(&self) -> String {
        "this server".to_owned()
    }

    fn session(&self) -> Box<dyn Session> {
        let head = format!("Authorization: Bearer {}\r\nPrefer: wait=20\r\n", self.harness.token);
        Box::new(OurSession { connection: JsonConnection::open(self.server.address, &head), table: self.table })
    }

    fn memory(&self) -> f64 {
        memory::of_all(self.server.id())
    }

    fn load_millis(&self) -> f64 {
        self.load_millis
    }
}

struct OurSession {
    connection: JsonConnection,
    table: Table,
}

impl Session for OurSession {
    fn read(&mut self, id: u64) {
        let statement = encoded(&format!("select * from t where id = {id}"));
        let path = format!("/api/v2/databases/bench/bench/sql?q={statement}");
        self.connection.get(&path, &format!("row number {id}"));
    }

    fn write(&mut self, id: u64) {
        let body = write(&format!("insert into t values ({})", values(self.table, id))).to_string();
        let ended = self.connection.send("POST", "/api/v2/databases/bench/bench/sql-writes", &body);
        assert_eq!(ended["data"]["status"], "succeeded", "{ended}");
    }
}
