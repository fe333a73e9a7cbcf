//! Untrusted SQLite files.

use std::path::Path;
use std::time::Duration;

use branchyard_domain::entities::Cell;
use branchyard_domain::ports::{FormatError, SqliteFileTable};
use rusqlite::{Connection, OpenFlags};

use crate::support::{EngineHarness, LONG, text};
use crate::tested::open_sqlite;

/// Creates a file in SQLite's own format with these statements.
fn stock(sql: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stock.sqlite");
    let uri = format!("file:{}?doltlite_engine=sqlite", path.display());
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(uri, flags).unwrap();
    connection.execute_batch(sql).unwrap();
    connection.close().unwrap();
    std::fs::read(path).unwrap()
}

fn open(harness: &EngineHarness, mut file: &[u8], table: &str) -> Result<Box<dyn SqliteFileTable>, FormatError> {
    open_sqlite(&harness.engine, &mut file, table, LONG)
}

fn rows(table: &dyn SqliteFileTable) -> Vec<Vec<Cell>> {
    let mut rows = table.rows().unwrap();
    let mut found = Vec::new();
    while let Some(row) = rows.next_row().unwrap() {
        found.push(row);
    }
    found
}

fn refusal<T>(result: Result<T, FormatError>) -> String {
    match result.map(drop) {
        Err(FormatError::File(detail)) => detail,
        other => panic!("{other:?}"),
    }
}

fn temporary_files(harness: &EngineHarness) -> usize {
    std::fs::read_dir(harness.folder.path().join("databases/tmp")).unwrap().count()
}

#[test]
fn storage_classes_keys_and_names_are_those_of_the_file() {
    let harness = EngineHarness::new();
    let file = stock(
        "pragma journal_mode = wal;
         create table Mixed(b text, a, \"c d\" int, primary key (a, b)) without rowid;
         insert into Mixed values ('x', 1, '7'), ('y', 1.5, null), ('z', x'00ff', 'word');
         create table other(i integer primary key);
         create view v as select * from other;
         create trigger tr after insert on other begin delete from other; end",
    );
    let table = open(&harness, &file, "mixed").unwrap();
    assert_eq!(
        (table.columns(), table.primary_key()),
        (&["b", "a", "c d"].map(String::from)[..], &["a", "b"].map(String::from)[..])
    );
    let expected = [
        vec![text("x"), Cell::Integer(1), Cell::Integer(7)],
        vec![text("y"), Cell::Real(1.5), Cell::Null],
        vec![text("z"), Cell::Blob(vec![0, 255]), text("word")],
    ];
    assert_eq!(rows(&*table), expected);
    assert_eq!(rows(&*table), expected, "as often as it is read");
    assert_eq!(refusal(open(&harness, &file, "v")), "the file has no table 'v', and 2 other tables instead of one");
    let only =
        stock("create table lonely(i integer primary key); insert into lonely values (5); create view v as select 1");
    assert_eq!(rows(&*open(&harness, &only, "anything").unwrap()), [[Cell::Integer(5)]]);
    drop(table);
    assert_eq!(temporary_files(&harness), 0, "nothing is left behind");
}

#[test]
fn many_rows_come_in_batches() {
    let harness = EngineHarness::new();
    let file = stock(
        "create table t(n integer primary key, v);
         with recursive c(n) as (values (1) union all select n + 1 from c where n < 5000)
         insert into t select n, zeroblob(n % 3000) from c",
    );
    let table = open(&harness, &file, "t").unwrap();
    let found = rows(&*table);
    assert_eq!((found.len(), &found[4_999][0]), (5_000, &Cell::Integer(5_000)));
    let mut begun = table.rows().unwrap();
    begun.next_row().unwrap();
    drop((begun, table));
    assert_eq!(temporary_files(&harness), 0, "reading may stop at any row");
}

#[test]
fn other_files_are_refused() {
    let harness = EngineHarness::new();
    let not = "not a SQLite 3 database file";
    assert_eq!(refusal(open(&harness, b"", "t")), not);
    assert_eq!(refusal(open(&harness, b"id,name\n1,Alice\n", "t")), not);
    harness.write(&harness.base, "create table t(a)");
    let own = std::fs::read(database_file(harness.folder.path())).unwrap();
    assert_eq!(refusal(open(&harness, &own, "t")), not);
    let garbage = [&b"SQLite format 3\0"[..], &[0xa5; 4_000]].concat();
    assert!(refusal(open(&harness, &garbage, "t")).starts_with("the SQLite file"));
    let mut whole = stock(
        "create table t(a, b); create index i on t(b);
         with recursive c(n) as (values (1) union all select n + 1 from c where n < 2000) insert into t select n, n from c",
    );
    open(&harness, &whole, "t").unwrap();
    let middle = whole.len() / 2;
    whole[middle..middle + 200].fill(0xa5);
    assert!(refusal(open(&harness, &whole, "t")).contains("damaged"), "integrity is checked");
    whole.truncate(middle);
    refusal(open(&harness, &whole, "t"));
    assert_eq!(temporary_files(&harness), 0, "nothing is left behind");
}

fn database_file(folder: &Path) -> std::path::PathBuf {
    let shards = std::fs::read_dir(folder.join("databases")).unwrap();
    let mut files = shards.flat_map(|shard| std::fs::read_dir(shard.unwrap().path()).unwrap());
    files
        .find_map(|file| file.ok().map(|file| file.path()).filter(|path| path.extension().is_some_and(|e| e == "db")))
        .unwrap()
}

#[test]
fn what_the_schema_computes_is_bounded() {
    let harness = EngineHarness::new();
    let file = stock("create table t(a, b as (length(a))); insert into t(a) values ('four')");
    assert_eq!(rows(&*open(&harness, &file, "t").unwrap()), [[text("four"), Cell::Integer(4)]]);
    let file = stock(
        "create virtual table f using fts5(x); insert into f values ('word'); create table t(a); insert into t values (1)",
    );
    assert_eq!(rows(&*open(&harness, &file, "t").unwrap()), [[Cell::Integer(1)]]);
    assert_eq!(rows(&*open(&harness, &file, "f").unwrap()), [[Cell::Integer(1)]], "virtual tables are none");
}

#[test]
fn time_is_bounded() {
    let harness = EngineHarness::new();
    let file = stock(
        "create table t(n integer primary key, v);
         with recursive c(n) as (values (1) union all select n + 1 from c where n < 5000) insert into t select n, n from c",
    );
    let late = open_sqlite(&harness.engine, &mut &file[..], "t", Duration::ZERO);
    assert!(matches!(late, Err(FormatError::Io(error)) if error.kind() == std::io::ErrorKind::TimedOut));
    assert_eq!(temporary_files(&harness), 0, "nothing is left behind");
}
