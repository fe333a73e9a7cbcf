//! The clock changes of all time zones: imported, branched, edited, and merged, then compared row by row with stock SQLite after
//! the same statements.

use std::fmt::Write as _;
use std::path::Path;

use branchyard_testkit::Server;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};
use serde_json::json;

/// Folder of the IANA time zone database on Unix systems (Debian: package tzdata). Its files have the TZif format (RFC 9636).
const ZONES: &str = "/usr/share/zoneinfo";
const EDITS: [&str; 4] = [
    "update changes set abbreviation = lower(abbreviation) where zone like 'Europe/%' and id % 3 = 0",
    "delete from changes where at < -2000000000",
    "insert into changes select id + 1000000, zone, at, offset, is_dst, abbreviation from changes where id % 1000 = 7",
    "create index changes_by_zone on changes (zone, at)",
];

#[test]
fn fifty_thousand_rows_come_out_of_a_merge_as_sqlite_has_them() {
    let csv = every_change();
    let rows = csv.lines().count() - 1;
    assert!(rows >= 50_000, "{rows} rows; is the time zone database complete in {ZONES}?");

    let server = Server::start();
    let ada = server.user("ada");
    ada.database("zones");
    let fields = json!({"table_name": "changes", "primary_keys": ["id"], "file_name": "changes.csv"});
    let imported = ada.import("ada/zones", "csv", csv.as_bytes(), 3, &fields);
    assert_eq!(imported["status"], "succeeded", "{imported}");

    ada.post("/databases/ada/zones/branches", &json!({"name": "edits", "from": {"branch": "main"}})).expect(201);
    ada.write("ada/zones", "edits", &EDITS[..2].join(";\n"));
    ada.write("ada/zones", "edits", &EDITS[2..].join(";\n"));
    ada.write("ada/zones", "main", "update changes set is_dst = 1 - is_dst where id = 5");
    let place = |branch| json!({"database": {"owner": "ada", "name": "zones"}, "branch_name": branch});
    let body = json!({"title": "Edits", "from_branch": place("edits"), "to_branch": place("main")});
    ada.post("/databases/ada/zones/pulls", &body).expect(201);
    let merged = ada.finish(&ada.post("/databases/ada/zones/pulls/1/merge", &json!({})));
    assert_eq!(merged["status"], "succeeded", "{merged}");

    let dir = tempfile::tempdir().unwrap();
    let stock = stock_sqlite(dir.path(), &csv);
    let columns = "id, zone, at, offset, is_dst, abbreviation";
    let mut statement = stock.prepare(&format!("select {columns} from changes order by id")).unwrap();
    let mut expected = statement.query([]).unwrap();
    let (mut compared, mut last) = (0, -1_i64);
    loop {
        let body = json!({"q": format!("select {columns} from changes where id > {last} order by id limit 10000"), "limit": 10_000});
        let page = ada.post("/databases/ada/zones/sql", &body).expect(200).data();
        assert_eq!(page["status"], "success", "{}", page["message"]);
        let page = page["rows"].as_array().unwrap().clone();
        for row in &page {
            let other = expected.next().unwrap().expect("stock SQLite has as many rows");
            let other: Vec<_> = (0..6).map(|at| as_cell(other.get(at).unwrap())).collect();
            assert_eq!(row, &json!(other), "row {compared}");
            compared += 1;
        }
        match page.last() {
            Some(row) => last = row[0].as_str().unwrap().parse().unwrap(),
            None => break,
        }
    }
    assert!(expected.next().unwrap().is_none(), "stock SQLite has more rows");
    assert!(compared >= 49_000, "{compared}");
}

fn as_cell(value: Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Integer(number) => json!(number.to_string()),
        Value::Text(text) => json!(text),
        other => panic!("{other:?}"),
    }
}

/// Applies the same rows and statements to a file in stock SQLite format.
fn stock_sqlite(dir: &Path, csv: &str) -> Connection {
    let uri = format!("file:{}?doltlite_engine=sqlite", dir.join("stock.sqlite").display());
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_URI;
    let stock = Connection::open_with_flags(uri, flags).unwrap();
    stock
        .execute_batch(
            "create table changes (id integer not null primary key, zone text, at integer, offset integer, is_dst integer,
             abbreviation text); begin",
        )
        .unwrap();
    let mut insert = stock.prepare("insert into changes values (?, ?, ?, ?, ?, ?)").unwrap();
    for line in csv.lines().skip(1) {
        insert.execute(rusqlite::params_from_iter(line.split(','))).unwrap();
    }
    drop(insert);
    stock.execute_batch("commit").unwrap();
    stock.execute_batch("update changes set is_dst = 1 - is_dst where id = 5").unwrap();
    for edit in EDITS {
        stock.execute_batch(edit).unwrap();
    }
    stock
}

/// Returns a CSV file of all transitions in all zones, in a fixed order: `id,zone,at,offset,is_dst,abbreviation`.
fn every_change() -> String {
    let mut zones = Vec::new();
    collect(Path::new(ZONES), "", &mut zones);
    zones.sort();
    let mut csv = "id,zone,at,offset,is_dst,abbreviation\n".to_owned();
    let mut id = 0;
    for (zone, bytes) in zones {
        for (at, offset, is_dst, abbreviation) in transitions(&bytes).unwrap_or_default() {
            writeln!(csv, "{id},{zone},{at},{offset},{is_dst},{abbreviation}").unwrap();
            id += 1;
        }
    }
    csv
}

fn collect(dir: &Path, prefix: &str, into: &mut Vec<(String, Vec<u8>)>) {
    let entries = std::fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}; install tzdata", dir.display()));
    for entry in entries {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            collect(&path, &format!("{prefix}{name}/"), into);
        } else if let Ok(bytes) = std::fs::read(&path)
            && bytes.starts_with(b"TZif")
        {
            into.push((format!("{prefix}{name}"), bytes));
        }
    }
}

type Transition = (i64, i32, u8, String);

/// Parses the 64-bit data block of a TZif file of version 2 or later (RFC 9636 §3).
fn transitions(file: &[u8]) -> Option<Vec<Transition>> {
    let counts = |at: usize| -> Option<[usize; 6]> {
        let mut counts = [0; 6];
        for (slot, count) in counts.iter_mut().enumerate() {
            *count = u32::from_be_bytes(file.get(at + 20 + slot * 4..)?.get(..4)?.try_into().ok()?) as usize;
        }
        Some(counts)
    };
    let [isut, isstd, leap, time, kind, chars] = counts(0)?;
    let second = 44 + time * 5 + kind * 6 + chars + leap * 8 + isstd + isut;
    let [_, _, _, time, kind, chars] = counts(second)?;
    let times = second + 44;
    let (kinds, infos) = (times + time * 8, times + time * 9);
    let names = file.get(infos + kind * 6..)?.get(..chars)?;
    let one = |number: usize| -> Option<Transition> {
        let at = i64::from_be_bytes(file.get(times + number * 8..)?.get(..8)?.try_into().ok()?);
        let info = file.get(infos + usize::from(*file.get(kinds + number)?) * 6..)?.get(..6)?;
        let name = names.get(usize::from(info[5])..)?;
        let name = &name[..name.iter().position(|byte| *byte == 0)?];
        Some((at, i32::from_be_bytes(info[..4].try_into().ok()?), info[4], String::from_utf8(name.to_vec()).ok()?))
    };
    (0..time).map(one).collect()
}
