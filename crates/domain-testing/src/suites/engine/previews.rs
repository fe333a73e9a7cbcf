//! Checks of previews of writes.

use std::time::Duration;

use super::builders::{Db, LONG, key, no_commit, row, sql_failure};
use branchyard_domain::entities::Change;
use branchyard_domain::ports::{
    Engine, EngineError, PreviewJob, PreviewPlace, PreviewRefusal, Previewed, RowPage, SqlFailure, WritePreview,
};
use branchyard_domain::values::CommitHash;

const CHANGES: &str = "UPDATE t SET a = 'zwei' WHERE id = 2; DELETE FROM t WHERE id = 1; \
                       INSERT INTO t (id, b) VALUES (4, -1); CREATE TABLE u(x INTEGER)";

fn job<'a>(base: &'a CommitHash, statements: &'a str) -> PreviewJob<'a> {
    PreviewJob { base, statements, timeout: LONG, rows: 100, bytes: 1 << 20, place: PreviewPlace::File }
}

fn changes(previewed: Result<Previewed, EngineError>) -> WritePreview {
    match previewed {
        Ok(Previewed::Changes(preview)) => preview,
        other => panic!("not a preview: {other:?}"),
    }
}

/// Checks that a preview shows what the same write then changes, and that nothing of it stays.
pub fn previews(engine: &dyn Engine) {
    let (db, head) = Db::with_rows(engine);
    let other = db.write(&head, 2, "DELETE FROM t WHERE id = 3");
    let preview = changes(engine.preview_write(db.id, &job(&head, CHANGES)));
    assert_eq!(preview.rows_affected, 3);
    assert_eq!(db.lines(&head), ["1|one|10", "2|two|20", "3|three|30"], "a preview changes nothing");
    assert_eq!(db.lines(&other), ["1|one|10", "2|two|20"]);

    let written = db.write(&head, 3, CHANGES);
    let tables = engine.changed_tables(db.id, &head, &written).unwrap();
    assert_eq!(preview.tables.iter().map(|table| table.change.clone()).collect::<Vec<_>>(), tables);
    for table in &preview.tables {
        let page = RowPage { after: None, limit: 100, bytes: 1 << 20 };
        let rows = engine.changed_rows(db.id, &head, &written, &table.change.table, &page).unwrap();
        assert_eq!(table.rows, rows);
        let schema = |at: &CommitHash| {
            let tables = engine.tables(db.id, at).unwrap();
            tables.into_iter().find(|schema| table.change.schema_changed && schema.name == table.change.table)
        };
        assert_eq!(table.definitions, (schema(&head), schema(&written)));
    }
    assert_eq!(db.lines(&written), ["2|zwei|20", "3|three|30", "4|NULL|-1"]);

    let nothing = changes(engine.preview_write(db.id, &job(&head, "UPDATE t SET a = 'one' WHERE id = 1")));
    assert_eq!(nothing, WritePreview { rows_affected: 1, tables: Vec::new() });
    let next = db.write(&head, 4, "INSERT INTO t VALUES (9,'nine',90)");
    assert_eq!(db.lines(&next), ["1|one|10", "2|two|20", "3|three|30", "9|nine|90"], "the preview left nothing");
}

/// Checks that a preview holds a page of each table, and the numbers of all changed rows.
pub fn preview_pages(engine: &dyn Engine) {
    let (db, head) = Db::with_rows(engine);
    let sql = "INSERT INTO t VALUES (4,'four',40),(5,'five',50); CREATE TABLE u(x INTEGER PRIMARY KEY); INSERT INTO u VALUES (1)";
    let preview = changes(engine.preview_write(db.id, &PreviewJob { rows: 1, ..job(&head, sql) }));
    let (t, u) = (&preview.tables[0], &preview.tables[1]);
    assert_eq!((t.change.rows, t.rows.rows.len(), t.rows.more), (Some((2, 0, 0)), 1, true));
    let first = &t.rows.rows[0];
    assert_eq!((first.change, &first.primary_key, &first.to), (Change::Added, &key(4), &row(4, "four", 40)));
    assert_eq!((u.change.change, u.change.rows, u.rows.rows.len()), (Change::Added, Some((1, 0, 0)), 1));
    let preview = changes(engine.preview_write(db.id, &PreviewJob { bytes: 1, ..job(&head, sql) }));
    assert_eq!(preview.tables.iter().map(|table| table.rows.rows.len()).collect::<Vec<_>>(), [1, 0]);
    assert!(preview.tables[1].rows.more, "the bytes are those of all tables together");
}

/// Checks that a preview in a private copy shows the same, also while the database is written to.
pub fn previews_in_copies(engine: &dyn Engine) {
    let (db, head) = Db::with_rows(engine);
    let in_file = changes(engine.preview_write(db.id, &job(&head, CHANGES)));
    let on_copy = PreviewJob { place: PreviewPlace::Copy, ..job(&head, CHANGES) };
    assert_eq!(changes(engine.preview_write(db.id, &on_copy)), in_file);
    let size = engine.size_bytes(db.id).unwrap();
    engine.preview_write(db.id, &on_copy).unwrap();
    assert_eq!(engine.size_bytes(db.id).unwrap(), size, "the file of the database stays as it is");
}

/// Checks that a failed preview names the failed statement, and that one without time is refused.
pub fn refused_previews(engine: &dyn Engine) {
    let (db, head) = Db::with_rows(engine);
    let try_on = |sql: &str| engine.preview_write(db.id, &job(&head, sql));
    let (failure, statement) = sql_failure(try_on("DELETE FROM t WHERE id = 1; DELETE FROM gone WHERE id = 1"));
    assert_eq!((failure, statement), (SqlFailure::NoSuchTable("gone".to_owned()), 2));
    let (failure, _) = sql_failure(try_on("ATTACH 'x' AS y"));
    assert_eq!(failure, SqlFailure::NotAllowed("ATTACH".to_owned()));
    assert!(matches!(
        engine.preview_write(db.id, &job(&no_commit(), "DELETE FROM t WHERE id = 1")),
        Err(EngineError::NoSuchCommit(_))
    ));
    let timeless = PreviewJob { timeout: Duration::ZERO, ..job(&head, CHANGES) };
    let previewed = engine.preview_write(db.id, &timeless);
    assert!(
        matches!(previewed, Ok(Previewed::Refused(PreviewRefusal::TooLong)) | Err(EngineError::Busy)),
        "{previewed:?}"
    );
    let next = db.write(&head, 3, "DELETE FROM t WHERE id = 3");
    assert_eq!(db.lines(&next), ["1|one|10", "2|two|20"], "the failures left nothing behind");
}
