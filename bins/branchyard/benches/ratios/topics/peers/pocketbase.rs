//! PocketBase: a collection with public rules, over its REST interface. SQLite in WAL mode with `synchronous = NORMAL`: a write is not
//! on disk when it is answered.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::http::JsonConnection;
use super::{Peer, PeerStart, Session};
use crate::programs::{RunningProgram, free, output, version};
use crate::slices::millis;
use crate::table::Table;

/// Records of one request while the table is loaded.
const BATCH: u64 = 1_000;
const EMAIL: &str = "bench@example.test";
const PASSWORD: &str = "a long password";

pub(super) fn start(program: &Path, table: Table) -> PeerStart {
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let command = |arguments: &[&str]| {
        let mut command = Command::new(program);
        command.current_dir(dir.path()).args(arguments).arg("--dev=false").arg("--dir").arg(dir.path().join("data"));
        command
    };
    output(&mut command(&["superuser", "upsert", EMAIL, PASSWORD]))?;
    let address = free();
    let process = RunningProgram::start(&mut command(&["serve", "--http", &address.to_string()]), address)?;
    let signed_in = JsonConnection::open(address, "").send(
        "POST",
        "/api/collections/_superusers/auth-with-password",
        &json!({"identity": EMAIL, "password": PASSWORD}).to_string(),
    );
    let head = format!("Authorization: {}\r\n", signed_in["token"].as_str().unwrap_or_default());
    let mut admin = JsonConnection::open(address, &head);
    let batch = json!({"batch": {"enabled": true, "maxRequests": BATCH, "timeout": 60}});
    admin.send("PATCH", "/api/settings", &batch.to_string());
    let texts = (4..=table.columns).map(|number| json!({"name": format!("text{number}"), "type": "text"}));
    let fields = [json!({"name": "name", "type": "text"}), json!({"name": "value", "type": "number"})];
    let fields: Vec<Value> = fields.into_iter().chain(texts).collect();
    let collection =
        json!({"name": "t", "type": "base", "fields": fields, "viewRule": "", "listRule": "", "createRule": ""});
    admin.send("POST", "/api/collections", &collection.to_string());
    let load_millis = millis(|| {
        for first in (1..=table.rows).step_by(usize::try_from(BATCH).unwrap_or(1)) {
            let ids = first..=table.rows.min(first + BATCH - 1);
            let path = "/api/collections/t/records";
            let requests: Vec<Value> =
                ids.map(|id| json!({"method": "POST", "url": path, "body": record(table, id)})).collect();
            admin.send("POST", "/api/batch", &json!({"requests": requests}).to_string());
        }
    });
    Ok(Peer {
        about: format!("PocketBase {}, REST, writes are not synced", version(program, "--version")),
        load_millis,
        process: process.id(),
        open: Box::new(move || Box::new(PocketBaseSession { connection: JsonConnection::open(address, ""), table })),
        _held: Box::new((process, dir)),
    })
}

/// Returns the key of a record: 15 characters, as its own keys have.
fn key(id: u64) -> String {
    format!("r{id:014}")
}

fn record(table: Table, id: u64) -> Value {
    let mut record = json!({"id": key(id), "name": format!("row number {id}"), "value": crate::table::value(id)});
    for number in 4..=table.columns {
        record[format!("text{number}")] = json!(format!("text {number} of {id}"));
    }
    record
}

struct PocketBaseSession {
    connection: JsonConnection,
    table: Table,
}

impl Session for PocketBaseSession {
    fn read(&mut self, id: u64) {
        self.connection.get(&format!("/api/collections/t/records/{}", key(id)), &format!("row number {id}\""));
    }

    fn write(&mut self, id: u64) {
        let written = self.connection.send("POST", "/api/collections/t/records", &record(self.table, id).to_string());
        assert_eq!(written["id"], key(id));
    }
}
