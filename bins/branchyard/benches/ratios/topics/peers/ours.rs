//! This server.

use serde_json::json;

use super::http::JsonConnection;
use super::{Peer, Session, values};
use crate::harness::{BenchHarness, NO_RESULTS, ONE_CALLER, finish, write};
use crate::load::encoded;
use crate::slices::millis;
use crate::table::Table;

/// Starts a server with default settings, but for those that a single caller needs. It keeps no results of reads.
pub(super) fn start(table: Table) -> Peer {
    let harness = BenchHarness::new();
    let server = harness.start_with(&[ONE_CALLER, &[NO_RESULTS]].concat());
    let bench = server.actor("bench", &harness.token);
    bench.database("bench");
    let file = table.csv().into_bytes();
    let load_millis = millis(|| {
        let body = bench.upload("bench/bench", "csv", &file, 1, &json!({"primary_keys": ["id"]}));
        finish(&bench, "/databases/bench/bench/imports", &body);
    });
    let (address, process) = (server.address, server.id());
    let head = format!("Authorization: Bearer {}\r\nPrefer: wait=20\r\n", harness.token);
    Peer {
        about: "this server".to_owned(),
        load_millis,
        process,
        open: Box::new(move || Box::new(OurSession { connection: JsonConnection::open(address, &head), table })),
        // The server ends before its folder is removed.
        _held: Box::new((server, harness)),
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
