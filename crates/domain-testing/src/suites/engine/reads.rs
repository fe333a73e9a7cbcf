//! Checks of reads, scans, exports and pages of rows.

use std::time::Duration;

use super::builders::{Db, LONG, int, no_commit, sql_failure, text};
use branchyard_domain::entities::Cell;
use branchyard_domain::ports::{
    CancellationToken, CollectedRows, ColumnQuery, ColumnValues, Engine, EngineError, ReadQuery, RowOrder, RowTest,
    Selection, SqlFailure, SqliteExport, TableScan, Test,
};
use branchyard_domain::values::CommitHash;

/// Checks that reads see their commit, describe their columns, stop on request, and reject writes.
pub fn reads(engine: &dyn Engine) {
    let (db, head) = Db::with_rows(engine);
    let found = db.try_read(&head, "SELECT b, a FROM t WHERE id = 2").unwrap();
    assert_eq!(found.rows, vec![vec![int(20), text("two")]]);
    let names: Vec<&str> = found.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["b", "a"]);
    assert_eq!(found.columns[1].declared_type.as_deref(), Some("TEXT"));
    assert_eq!(found.columns[1].source_table, "t");
    assert!(!found.columns[0].is_primary_key);
    let found = db.try_read(&head, "SELECT * FROM t ORDER BY a").unwrap();
    assert_eq!(found.lines(), ["1|one|10", "3|three|30", "2|two|20"]);
    assert!(found.columns[0].is_primary_key);
    let found = db.try_read(&head, "SELECT count(*) FROM t WHERE b = 20").unwrap();
    assert_eq!((found.lines(), found.columns[0].declared_type.clone()), (vec!["1".to_owned()], None));
    let none = db.try_read(&head, "SELECT id FROM t WHERE id = 99").unwrap();
    assert_eq!((none.columns.len(), none.rows.len()), (1, 0));

    let mut one = CollectedRows::stopping_after(1);
    let query = ReadQuery::new("SELECT id FROM t ORDER BY id", LONG);
    let report = engine.read(db.id, &head, &query, &mut one).unwrap();
    assert_eq!((one.lines(), report.deterministic), (vec!["1".to_owned()], true));

    let failure = |sql| sql_failure(db.try_read(&head, sql)).0;
    assert_eq!(failure("SELECT * FROM gone"), SqlFailure::NoSuchTable("gone".to_owned()));
    assert_eq!(failure("SELECT gone FROM t"), SqlFailure::Engine("no such column: gone".to_owned()));
    assert_eq!(failure("DELETE FROM t WHERE id = 1"), SqlFailure::NotARead);
    assert_eq!(failure("SELECT * FROM t; SELECT * FROM t"), SqlFailure::SeveralStatements);
    assert_eq!(failure("SELECT * FRM t"), SqlFailure::Syntax { position: 13, near: "FRM".to_owned() });
    assert!(matches!(db.try_read(&no_commit(), "SELECT * FROM t"), Err(EngineError::NoSuchCommit(_))));
    assert_eq!(db.lines(&head).len(), 3, "refused statements changed nothing");
}

/// Checks that scans return whole tables by primary key, or by row id.
pub fn scans(engine: &dyn Engine) {
    let (db, head) = Db::with_rows(engine);
    let head = db.write(
        &head,
        2,
        "CREATE TABLE Keyed(n INTEGER, k TEXT PRIMARY KEY); CREATE TABLE plain(v TEXT); CREATE TABLE none(v TEXT); \
         INSERT INTO Keyed VALUES (1,'c'),(2,'a'),(3,'b'); INSERT INTO plain VALUES ('c'),('a'),('b')",
    );
    let scan = |table: &str, stop_after: usize| {
        let mut rows = CollectedRows::stopping_after(stop_after);
        let wanted = TableScan { table, timeout: LONG, canceled: CancellationToken::default() };
        engine.scan(db.id, &head, &wanted, &mut rows).map(|left| {
            assert!(!left.is_zero() && left <= LONG);
            rows
        })
    };
    assert_eq!(scan("keyed", 0).unwrap().lines(), ["2|a", "3|b", "1|c"]);
    assert_eq!(scan("keyed", 2).unwrap().lines(), ["2|a", "3|b"]);
    assert_eq!(scan("plain", 0).unwrap().lines(), ["c", "a", "b"]);
    let none = scan("none", 0).unwrap();
    assert_eq!((none.columns.len(), none.rows.len()), (1, 0), "an empty table has columns");
    assert!(matches!(scan("gone", 0), Err(EngineError::NoSuchTable(name)) if name == "gone"));
    let wanted = TableScan { table: "t", timeout: LONG, canceled: CancellationToken::default() };
    let lost = engine.scan(db.id, &no_commit(), &wanted, &mut CollectedRows::default());
    assert!(matches!(lost, Err(EngineError::NoSuchCommit(_))));
}

/// Checks conditions, order, pages and counts of selections.
pub fn selections(engine: &dyn Engine) {
    let (db, head) = Db::with_rows(engine);
    let head = db.write(&head, 2, "INSERT INTO t VALUES (4,'it''s \"4\"',20),(5,NULL,NULL)");
    let test =
        |column: &str, test: Test, value: &str| RowTest { column: column.to_owned(), test, value: value.to_owned() };
    let select = |tests: &[RowTest], order: Option<(&str, bool)>, skip: u64, limit: u64| {
        let order = order.map(|(column, descending)| RowOrder { column, descending });
        let canceled = CancellationToken::default();
        let (backwards, after) = (false, None);
        let wanted = Selection { table: "T", tests, order, backwards, after, skip, limit, timeout: LONG, canceled };
        let mut rows = CollectedRows::default();
        let selected = engine.rows(db.id, &head, &wanted, &mut rows).unwrap();
        assert_eq!(selected.first.is_some(), !rows.rows.is_empty());
        assert!(!selected.more || rows.rows.len() as u64 == limit);
        assert_eq!(rows.columns.len(), 3, "also where no row is");
        let ids = rows.lines().iter().map(|line| line.split('|').next().unwrap().to_owned()).collect::<String>();
        if skip == 0 && limit > 5 {
            assert_eq!(engine.count(db.id, &head, "T", tests, LONG).unwrap(), rows.rows.len() as u64);
        }
        ids
    };
    assert_eq!(select(&[], None, 0, 9), "12345");
    assert_eq!(select(&[], None, 1, 2), "23");
    assert_eq!(select(&[], Some(("id", true)), 0, 2), "54");
    assert_eq!(
        select(&[], Some(("b", true)), 0, 9),
        "34215",
        "equals by primary key, in the same direction, NULL least"
    );
    let cases = [
        (test("b", Test::Equals, "20"), "24"),
        (test("B", Test::Differs, "20"), "135"),
        (test("b", Test::Less, "20"), "1"),
        (test("b", Test::More, "10"), "234"),
        (test("a", Test::Contains, "T"), "234"),
        (test("a", Test::Contains, "'S \"4"), "4"),
        (test("a", Test::Contains, "%"), ""),
        (test("a", Test::Equals, "' OR 1=1 --"), ""),
        (test("b", Test::AtMost, "20"), "124"),
        (test("b", Test::AtLeast, "20"), "234"),
        (test("a", Test::StartsWith, "T"), "23"),
        (test("A", Test::StartsWith, "IT'S"), "4"),
        (test("a", Test::StartsWith, "%"), ""),
        (test("b", Test::StartsWith, "2"), "24"),
        (test("a", Test::OneOf, "two"), "2"),
        (test("b", Test::OneOf, "10"), "1"),
        (test("a", Test::IsNull, ""), "5"),
        (test("a", Test::IsNotNull, ""), "1234"),
    ];
    for (wanted, ids) in cases {
        assert_eq!(select(std::slice::from_ref(&wanted), None, 0, 9), ids, "{wanted:?}");
    }
    assert_eq!(select(&[test("b", Test::Equals, "20"), test("id", Test::More, "2")], None, 0, 9), "4");
    let between = [test("b", Test::AtLeast, "10"), test("b", Test::AtMost, "20")];
    assert_eq!(select(&between, None, 0, 9), "124");
    let one_of = [test("b", Test::OneOf, "10"), test("B", Test::OneOf, "30"), test("id", Test::OneOf, "3")];
    assert_eq!(select(&one_of[..2], None, 0, 9), "13", "tests for one of several values are alternatives");
    assert_eq!(select(&one_of, None, 0, 9), "3", "those of another column are not");
    let lost = engine.count(db.id, &head, "gone", &[], LONG);
    assert!(matches!(lost, Err(EngineError::NoSuchTable(name)) if name == "gone"));
}

/// Checks the most frequent values of a column, its range, and its NULLs.
pub fn column_values(engine: &dyn Engine) {
    let (db, head) = Db::with_rows(engine);
    let long = "x".repeat(usize::try_from(ColumnValues::MAX_CHARACTERS).unwrap_or_default());
    let head = db.write(
        &head,
        2,
        &format!("INSERT INTO t VALUES (4,'two',20),(5,NULL,NULL),(6,'two',7),(7,'{long}',7),(8,'{long}y',20)"),
    );
    let ask = |table: &str, column: &str, tests: &[RowTest], (rows, limit): (u64, u64)| {
        let query = ColumnQuery { table, column, tests, rows, limit, timeout: LONG };
        engine.column_values(db.id, &head, &query)
    };
    let found = ask("T", "b", &[], (1_000, 10)).unwrap();
    let counted = |values: &[(i64, u64)]| values.iter().map(|(value, count)| (int(*value), *count)).collect::<Vec<_>>();
    assert_eq!(found.values, counted(&[(20, 3), (7, 2), (10, 1), (30, 1)]));
    assert_eq!((found.more, found.rows, found.nulls), (false, 8, 1));
    assert_eq!(found.range, Some((int(7), int(30))));
    let found = ask("t", "a", &[], (1_000, 2)).unwrap();
    assert_eq!(found.values, [(text("two"), 3), (text("one"), 1)]);
    assert_eq!((found.more, found.nulls), (true, 1));
    assert_eq!(found.range, Some((text("one"), text(&long))), "a longer text is left out");
    let first = ask("t", "b", &[], (2, 10)).unwrap();
    assert_eq!((first.rows, first.values.len()), (2, 2), "no more rows are read");
    let tests = [RowTest { column: "b".to_owned(), test: Test::More, value: "1000".to_owned() }];
    assert_eq!(ask("t", "a", &tests, (1_000, 10)).unwrap(), ColumnValues::default());
    assert!(matches!(ask("gone", "a", &[], (9, 9)), Err(EngineError::NoSuchTable(name)) if name == "gone"));
}

/// Checks that paging by cursors returns every row once, forwards and backwards.
pub fn selections_by_place(engine: &dyn Engine) {
    let (db, head) = Db::with_rows(engine);
    let head = db.write(
        &head,
        2,
        "CREATE TABLE named(a TEXT PRIMARY KEY, b INTEGER, v TEXT); \
         INSERT INTO named VALUES ('x',2,NULL),('y',1,'p'),('a',2,NULL),('b',1,'q'),('m',5,'p'),('z',0,NULL),('Z',0,'p'); \
         CREATE TABLE plain(v INTEGER, w TEXT); \
         INSERT INTO plain VALUES (3,'c'),(1,'a'),(NULL,'n'),(3,'c'),(1,'z'),(NULL,NULL),(2,'b'); CREATE TABLE none(v TEXT)",
    );
    for (table, columns) in [("t", "id b"), ("named", "a b v"), ("plain", "v w"), ("none", "v")] {
        let orders = columns.split(' ').flat_map(|column| [false, true].map(|descending| Some((column, descending))));
        for order in orders.chain([None]) {
            let order = order.map(|(column, descending)| RowOrder { column, descending });
            walk_by_place(&db, &head, table, order);
        }
    }
    let place = [Cell::Integer(1), Cell::Integer(1), Cell::Integer(1)];
    let mut wanted = whole("named", None);
    wanted.after = Some(&place);
    let lost = engine.rows(db.id, &head, &wanted, &mut CollectedRows::default());
    assert!(matches!(lost, Err(EngineError::Sql { .. })), "a place of another order");
}

fn whole<'a>(table: &'a str, order: Option<RowOrder<'a>>) -> Selection<'a> {
    let canceled = CancellationToken::default();
    Selection {
        table,
        tests: &[],
        order,
        backwards: false,
        after: None,
        skip: 0,
        limit: 1_000,
        timeout: LONG,
        canceled,
    }
}

fn walk_by_place(db: &Db<'_>, head: &CommitHash, table: &str, order: Option<RowOrder<'_>>) {
    let told = format!("{table} by {order:?}");
    let read = |wanted: &Selection<'_>| {
        let mut rows = CollectedRows::default();
        let selected = db.engine.rows(db.id, head, wanted, &mut rows).unwrap();
        (rows.lines(), selected)
    };
    let (all, _) = read(&whole(table, order));
    for (backwards, limit) in [(false, 1), (false, 2), (false, 3), (true, 1), (true, 2), (true, 3)] {
        let (mut walked, mut after): (Vec<String>, Option<Vec<Cell>>) = (Vec::new(), None);
        loop {
            let wanted = Selection { backwards, after: after.as_deref(), limit, ..whole(table, order) };
            let (rows, selected) = read(&wanted);
            // The cursor of the first row leads back to the rows before it.
            if let Some(first) = &selected.first {
                let back = Selection { backwards: !backwards, after: Some(first), ..whole(table, order) };
                let (mut back, found) = read(&back);
                back.reverse();
                assert_eq!((back, found.more), (walked.clone(), false), "back in {told}");
            }
            if let Some(second) = rows.get(1) {
                assert_eq!(read(&Selection { skip: 1, ..wanted }).0.first(), Some(second), "{told}");
            }
            walked.extend(rows);
            if !selected.more {
                break;
            }
            after = selected.last;
        }
        if backwards {
            walked.reverse();
        }
        assert_eq!(walked, all, "{told}, {limit} at a time, backwards: {backwards}");
    }
}

/// Checks that an export as a SQLite file begins like one, and ends at its limits.
pub fn sqlite_exports(engine: &dyn Engine) {
    use std::io::{Read as _, Seek as _};

    let (db, head) = Db::with_rows(engine);
    let export = |at: &CommitHash, max_bytes: u64, timeout| {
        let mut into = tempfile::tempfile().unwrap();
        let job = SqliteExport { max_bytes, timeout, canceled: CancellationToken::default() };
        engine.export_sqlite(db.id, at, &into, &job).map(|()| {
            let mut bytes = Vec::new();
            into.rewind().unwrap();
            into.read_to_end(&mut bytes).unwrap();
            bytes
        })
    };
    let bytes = export(&head, 1 << 20, LONG).unwrap();
    assert!(bytes.starts_with(b"SQLite format 3\0"));
    assert_eq!(export(&head, 1 << 20, LONG).unwrap(), bytes, "the same commit makes the same bytes");
    assert!(export(&db.first, 1 << 20, LONG).unwrap().starts_with(b"SQLite format 3\0"), "without tables");
    assert!(matches!(export(&head, 8, LONG), Err(EngineError::Sql { .. })), "the file would be larger");
    assert!(matches!(export(&head, 1 << 20, Duration::ZERO), Err(EngineError::TimedOut(_))));
    assert!(matches!(export(&no_commit(), 1 << 20, LONG), Err(EngineError::NoSuchCommit(_))));
    assert_eq!(db.lines(&head).len(), 3, "the database is as it was");
    assert!(engine.scratch_folder().is_dir());
}
