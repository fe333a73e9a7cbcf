//! Previews of writes on real files.

use std::time::{Duration, Instant};

use branchyard_domain::entities::{Change, TableKind, TableSchema};
use branchyard_domain::ports::{
    Engine, EngineError, PreviewJob, PreviewPlace, PreviewRefusal, Previewed, RowPage, SqlFailure, WritePreview,
};
use branchyard_domain::values::CommitHash;

use crate::support::{EngineHarness, id};

const TABLES: &str =
    "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT); INSERT INTO t VALUES (1,'one'),(2,'two'),(3,'three');
    CREATE TABLE keyless(v TEXT); INSERT INTO keyless VALUES ('x'),('y'),('y');
    CREATE TABLE named(name TEXT PRIMARY KEY, n INTEGER); INSERT INTO named VALUES ('a',1),('b',2)";

fn job<'a>(base: &'a CommitHash, statements: &'a str) -> PreviewJob<'a> {
    let (timeout, place) = (Duration::from_secs(5), PreviewPlace::File);
    PreviewJob { base, statements, timeout, rows: 1_000, bytes: 1 << 24, place }
}

fn previewed(harness: &EngineHarness, base: &CommitHash, sql: &str) -> Result<Previewed, EngineError> {
    harness.engine.preview_write(id(1), &job(base, sql))
}

fn changes(harness: &EngineHarness, base: &CommitHash, sql: &str) -> WritePreview {
    match previewed(harness, base, sql) {
        Ok(Previewed::Changes(preview)) => preview,
        other => panic!("{sql}: {other:?}"),
    }
}

fn refusal(harness: &EngineHarness, base: &CommitHash, sql: &str) -> PreviewRefusal {
    match previewed(harness, base, sql) {
        Ok(Previewed::Refused(refusal)) => refusal,
        other => panic!("{sql}: {other:?}"),
    }
}

/// A preview shows what the commit of the same statements changes, whatever they change.
#[test]
fn a_preview_is_what_a_write_then_changes() {
    let harness = EngineHarness::new();
    let base = harness.write(&harness.base, TABLES);
    for sql in [
        "UPDATE t SET a = upper(a) WHERE id > 1; INSERT INTO t VALUES (9, x'00ff'); DELETE FROM t WHERE id = 1",
        "INSERT INTO keyless VALUES ('z'); DELETE FROM keyless WHERE v = 'y'",
        "UPDATE named SET name = name || '!' WHERE n = 2; INSERT INTO named VALUES ('0', NULL)",
        "ALTER TABLE t ADD COLUMN b INTEGER DEFAULT 7",
        "ALTER TABLE t ADD COLUMN b INTEGER; ALTER TABLE t ADD COLUMN c; UPDATE t SET b = id, c = a WHERE id = 2",
        "ALTER TABLE t DROP COLUMN a; DELETE FROM t WHERE id = 3",
        "ALTER TABLE t RENAME COLUMN a TO z; UPDATE t SET z = '' WHERE id = 1",
        "ALTER TABLE t RENAME TO u; INSERT INTO u VALUES (4, 'four')",
        "DROP TABLE t; CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT); INSERT INTO t VALUES (1, 'one'), (5, 'five')",
        "DROP TABLE t; CREATE TABLE t(a TEXT PRIMARY KEY, id INTEGER); INSERT INTO t VALUES ('x', 1)",
        "CREATE TABLE u(x INTEGER PRIMARY KEY AUTOINCREMENT, y BLOB); INSERT INTO u(y) VALUES (zeroblob(10)), (NULL)",
        "CREATE VIEW v AS SELECT a FROM t; CREATE INDEX by_a ON t(a)",
        "CREATE TRIGGER copy AFTER INSERT ON t BEGIN INSERT INTO keyless VALUES (new.a); END; INSERT INTO t VALUES (7, 'seven')",
        "DROP TABLE keyless; DELETE FROM named",
        "UPDATE t SET a = a",
    ] {
        let preview = changes(&harness, &base, sql);
        let again = changes(&harness, &base, sql);
        assert_eq!(preview, again, "{sql}: the first preview left something");
        let written = harness.write(&base, sql);
        let tables = harness.engine.changed_tables(id(1), &base, &written).unwrap();
        assert_eq!(preview.tables.iter().map(|table| table.change.clone()).collect::<Vec<_>>(), tables, "{sql}");
        let schemas = [&base, &written].map(|at| harness.engine.tables(id(1), at).unwrap());
        for table in &preview.tables {
            let name = &table.change.table;
            let page = RowPage { after: None, limit: 1_000, bytes: 1 << 24 };
            let rows = harness.engine.changed_rows(id(1), &base, &written, name, &page).unwrap();
            assert_eq!(table.rows, rows, "{sql}: {name}");
            let schema = |at: usize| {
                schemas[at].iter().find(|schema| table.change.schema_changed && schema.name == *name).cloned()
            };
            let (before, after) = table.definitions.clone();
            assert_eq!(before, schema(0), "{sql}: {name}");
            // The commit of a renamed table drops the quotes of its name.
            let unquoted = |schema: Option<TableSchema>| {
                schema.map(|mut schema| {
                    schema.create_statement = schema.create_statement.replace('"', "");
                    schema
                })
            };
            assert_eq!(unquoted(after), unquoted(schema(1)), "{sql}: {name}");
        }
        assert_eq!(harness.write(&base, "UPDATE t SET a = a"), base, "nothing of {sql} is left");
    }
}

#[test]
fn nothing_of_a_preview_stays_in_the_file() {
    let harness = EngineHarness::new();
    let base = harness.write(&harness.base, TABLES);
    let before = harness.engine.size_bytes(id(1)).unwrap();
    let many = "INSERT INTO t WITH RECURSIVE n(x) AS (SELECT 10 UNION ALL SELECT x + 1 FROM n WHERE x < 20000) \
                SELECT x, 'MARK' || hex(randomblob(2000)) FROM n";
    let preview = changes(&harness, &base, many);
    assert_eq!(preview.tables[0].change.rows, Some((19_991, 0, 0)));
    assert_eq!((preview.tables[0].rows.rows.len(), preview.tables[0].rows.more), (1_000, true));
    let after = harness.engine.size_bytes(id(1)).unwrap();
    assert!(after < before + 1_024, "{before} {after}");
    let name = id(1).to_string();
    let file = harness.folder.path().join("databases").join(&name[name.len() - 2..]).join(format!("{name}.db"));
    let content = std::fs::read(file).unwrap();
    assert!(content.windows(3).any(|part| part == b"one") && !content.windows(4).any(|part| part == b"MARK"));
    let [log, branches] = ["dolt_log", "t"].map(|table| harness.read(&base, &format!("SELECT count(*) FROM {table}")));
    assert_eq!(format!("{log:?}{branches:?}"), "[[Integer(2)]][[Integer(3)]]");
}

#[test]
fn what_takes_too_long_is_stopped_and_refused() {
    let harness = EngineHarness::new();
    let base = harness.write(&harness.base, TABLES);
    let endless = "INSERT INTO t WITH RECURSIVE n(x) AS (SELECT 10 UNION ALL SELECT x + 1 FROM n) SELECT x, 'a' FROM n WHERE x < 0";
    let began = Instant::now();
    let short = PreviewJob { timeout: Duration::from_millis(300), ..job(&base, endless) };
    let refused = harness.engine.preview_write(id(1), &short);
    assert!(matches!(refused, Ok(Previewed::Refused(PreviewRefusal::TooLong))), "{refused:?}");
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    let on_copy = PreviewJob { place: PreviewPlace::Copy, ..short };
    let refused = harness.engine.preview_write(id(1), &on_copy);
    assert!(matches!(refused, Ok(Previewed::Refused(PreviewRefusal::TooLong))), "{refused:?}");
    assert_eq!(changes(&harness, &base, "DELETE FROM t").tables[0].change.rows, Some((0, 3, 0)));
}

#[test]
fn what_a_transaction_cannot_do_is_refused() {
    let harness = EngineHarness::new();
    let base = harness.write(&harness.base, TABLES);
    let altered = "DELETE FROM named WHERE name = 'a'; ALTER TABLE named ADD COLUMN c DEFAULT 5";
    assert_eq!(refusal(&harness, &base, altered), PreviewRefusal::AltersAfterChanges);
    let history = "INSERT INTO t SELECT 100 + rowid, commit_hash FROM dolt_log";
    let read = previewed(&harness, &base, history);
    assert!(matches!(read, Ok(Previewed::Changes(_) | Previewed::Refused(PreviewRefusal::ReadsHistory))), "{read:?}");
    assert_eq!(changes(&harness, &base, "DELETE FROM t").tables[0].change.rows, Some((0, 3, 0)));
}

/// A write fails at its commit if it breaks deferred references.
#[test]
fn broken_references_fail_as_they_do_in_a_write() {
    let harness = EngineHarness::new();
    let tables = "CREATE TABLE a(id INTEGER PRIMARY KEY); \
                  CREATE TABLE b(a INTEGER REFERENCES a(id) DEFERRABLE INITIALLY DEFERRED)";
    let base = harness.write(&harness.base, tables);
    let failed = |result: Result<(), EngineError>| match result {
        Err(EngineError::Sql { failure: SqlFailure::Engine(text), .. }) => text,
        other => panic!("{other:?}"),
    };
    let broken = "INSERT INTO b VALUES (1)";
    let text = failed(previewed(&harness, &base, broken).map(drop));
    let written = harness.try_write(id(1), &base, broken, crate::support::LONG).map(drop);
    assert_eq!(text, failed(written));
    let whole = changes(&harness, &base, "INSERT INTO b VALUES (1); INSERT INTO a VALUES (1)");
    assert_eq!(whole.tables.len(), 2);
}

#[test]
fn new_views_and_triggers_are_shown() {
    let harness = EngineHarness::new();
    let base = harness.write(&harness.base, TABLES);
    let preview = changes(&harness, &base, "CREATE VIEW v AS SELECT a FROM t");
    let view = &preview.tables[0];
    assert_eq!((view.change.table.as_str(), view.change.change), ("v", Change::Added));
    assert_eq!(view.definitions.1.as_ref().map(|schema| schema.kind), Some(TableKind::View));
}
