//! Imports of a large CSV file, from the start of the upload until the operation has succeeded, compared with the engine's bulk
//! insert of already parsed rows.

use std::collections::BTreeMap;
use std::time::Duration;

use branchyard_domain::entities::Cell;
use branchyard_domain::ports::{Engine as _, FormatError, ImportColumn, ImportJob, ImportTarget, RowSource};
use serde_json::json;

use crate::flags::Flags;
use crate::harness::{BenchHarness, finish};
use crate::raw::Raw;
use crate::report::{Aim, Row};
use crate::slices::{alternate, millis};
use crate::table::{Table, value};

const PARTS: usize = 4;

pub(crate) fn run(flags: &Flags) -> Vec<Row> {
    let table = Table::new(flags.count("--rows"), flags.count("--columns"));
    let file = table.csv().into_bytes();
    let harness = BenchHarness::new();
    let server = harness.start();
    let bench = server.actor("bench", &harness.token);
    let mut number = 0;
    let product = || {
        number += 1;
        let name = format!("import{number}");
        bench.database(&name);
        millis(|| {
            let fields = json!({"primary_keys": ["id"]});
            let body = bench.upload(&format!("bench/{name}"), "csv", &file, PARTS, &fields);
            finish(&bench, &format!("/databases/bench/{name}/imports"), &body);
        })
    };
    let baseline = || {
        let raw = Raw::new();
        millis(|| insert(&raw, table))
    };
    let done = alternate(flags.count("--repeats"), product, baseline);
    let what = format!("CSV of {} rows, {} MiB, upload to succeeded", table.rows, file.len() >> 20);
    vec![done.row("import", what, "engine's bulk insert of parsed rows", "ms", Aim::AtMost(0.9))]
}

fn insert(raw: &Raw, table: Table) {
    let types = BTreeMap::from([("id", "INTEGER"), ("value", "REAL")]);
    let column = |name: String| {
        let declared_type = (*types.get(name.as_str()).unwrap_or(&"TEXT")).to_owned();
        ImportColumn { name, declared_type }
    };
    let columns: Vec<ImportColumn> = table.names().into_iter().map(column).collect();
    let target = ImportTarget::New { primary_key: vec!["id".to_owned()], overwrite: false };
    let job = ImportJob {
        base: &raw.head,
        table: "t",
        target: &target,
        columns: &columns,
        message: "Import",
        author: &raw.author,
        timeout: Duration::from_secs(600),
    };
    raw.engine.import(raw.database, &job, &mut Parsed { table, id: 0 }).unwrap();
}

/// A source of the file's rows that needs no parsing.
struct Parsed {
    table: Table,
    id: u64,
}

impl RowSource for Parsed {
    fn next(&mut self, row: &mut Vec<Cell>) -> Result<Option<u64>, FormatError> {
        if self.id == self.table.rows {
            return Ok(None);
        }
        self.id += 1;
        let id = self.id;
        row.clear();
        row.push(Cell::Integer(id.cast_signed()));
        row.push(Cell::Text(format!("row number {id}").into_bytes()));
        row.push(Cell::Real(value(id)));
        row.extend((4..=self.table.columns).map(|number| Cell::Text(format!("text {number} of {id}").into_bytes())));
        Ok(Some(id))
    }
}
