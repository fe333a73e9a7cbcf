//! rqlite: one node, its HTTP interface. A write is in the synced log of Raft when it is answered.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::http::JsonConnection;
use super::{Peer, PeerStart, Session, values};
use crate::load::encoded;
use crate::programs::{RunningProgram, free, version};
use crate::slices::millis;
use crate::table::Table;

/// Statements of one request while the table is loaded.
const BATCH: u64 = 5_000;

pub(super) fn start(program: &Path, table: Table) -> PeerStart {
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (address, raft) = (free(), free());
    let mut command = Command::new(program);
    command.args(["-http-addr", &address.to_string(), "-raft-addr", &raft.to_string()]).arg(dir.path().join("data"));
    let process = RunningProgram::start(&mut command, address)?;
    let mut connection = JsonConnection::open(address, "");
    // It elects itself before it accepts writes.
    std::thread::sleep(std::time::Duration::from_secs(3));
    let mut execute = |statements: &[String]| {
        let answer = connection.send("POST", "/db/execute?transaction", &json!(statements).to_string());
        assert!(
            answer["results"].as_array().is_some_and(|all| all.iter().all(|one| one["error"].is_null())),
            "{answer}"
        );
    };
    execute(&table.script()[..1]);
    let load_millis = millis(|| {
        for first in (1..=table.rows).step_by(usize::try_from(BATCH).unwrap_or(1)) {
            let ids = first..=table.rows.min(first + BATCH - 1);
            let statements: Vec<String> =
                ids.map(|id| format!("insert into t values ({})", values(table, id))).collect();
            execute(&statements);
        }
    });
    Ok(Peer {
        about: format!("rqlite {}, one node, HTTP, level none, writes are synced", version(program, "-version")),
        load_millis,
        process: process.id(),
        open: Box::new(move || Box::new(RqliteSession { connection: JsonConnection::open(address, ""), table })),
        _held: Box::new((process, dir)),
    })
}

struct RqliteSession {
    connection: JsonConnection,
    table: Table,
}

impl Session for RqliteSession {
    fn read(&mut self, id: u64) {
        let statement = encoded(&format!("select * from t where id = {id}"));
        self.connection.get(&format!("/db/query?level=none&q={statement}"), &format!("row number {id}\""));
    }

    fn write(&mut self, id: u64) {
        let statement = json!([format!("insert into t values ({})", values(self.table, id))]);
        let answer = self.connection.send("POST", "/db/execute", &statement.to_string());
        assert_eq!(answer["results"][0]["rows_affected"], 1, "{answer}");
    }
}
