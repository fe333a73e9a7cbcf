//! Pages of rows of tables of every kind.

use std::collections::BTreeSet;
use std::time::Duration;

use branchyard_domain::entities::Cell;
use branchyard_domain::ports::{
    CancellationToken, CollectedRows, Engine as _, EngineError, RowOrder, RowTest, Selected, Selection, SqlFailure,
    Test,
};
use branchyard_domain::values::CommitHash;

use crate::hostile::Computing;
use crate::support::{EngineHarness, LONG, id};

fn whole<'a>(table: &'a str, order: Option<RowOrder<'a>>) -> Selection<'a> {
    let canceled = CancellationToken::default();
    Selection {
        table,
        tests: &[],
        order,
        backwards: false,
        after: None,
        skip: 0,
        limit: 10_000,
        timeout: LONG,
        canceled,
    }
}

fn read(harness: &EngineHarness, at: &CommitHash, wanted: &Selection<'_>) -> (Vec<Vec<Cell>>, Selected) {
    let mut taken = CollectedRows::default();
    let selected =
        harness.engine.rows(id(1), at, wanted, &mut taken).unwrap_or_else(|error| panic!("{wanted:?}: {error:?}"));
    (taken.rows, selected)
}

/// Reads all rows, page by page.
fn walked(harness: &EngineHarness, at: &CommitHash, like: &Selection<'_>) -> Vec<Vec<Cell>> {
    let (mut rows, mut after): (Vec<Vec<Cell>>, Option<Vec<Cell>>) = (Vec::new(), None);
    loop {
        let (found, selected) = read(harness, at, &Selection { after: after.as_deref(), ..like.clone() });
        rows.extend(found);
        if !selected.more {
            return rows;
        }
        assert!(selected.last.is_some(), "{like:?}");
        after = selected.last;
    }
}

/// Tables, and the columns they are sorted by.
const TABLES: &[(&str, &str)] = &[
    ("plain_key", "id name mixed"),
    ("without_row_id", "x y v"),
    ("case_blind_key", "k v"),
    ("case_blind_column", "name id"),
    ("key_blinder_than_column", "name b"),
    ("column_blinder_than_key", "name b"),
    ("no_key", "v w"),
    ("named_like_the_row_id", "rowid v"),
];

const DEFINITIONS: &str = "
    CREATE TABLE plain_key(id INTEGER PRIMARY KEY, name TEXT, mixed);
    CREATE INDEX by_name ON plain_key(name);
    INSERT INTO plain_key WITH RECURSIVE n(i) AS (SELECT -60 UNION ALL SELECT i + 1 FROM n WHERE i < 60)
      SELECT i, CASE i % 5 WHEN 0 THEN NULL ELSE 'name ' || (i % 7) END,
        CASE i % 6 WHEN 0 THEN NULL WHEN 1 THEN i WHEN 2 THEN i / 7.0 WHEN 3 THEN 'text ' || i WHEN 4 THEN CAST('blob' || i AS BLOB) ELSE 9007199254740993 + i END FROM n;
    CREATE TABLE without_row_id(x TEXT COLLATE NOCASE, y, v REAL, PRIMARY KEY(y, x)) WITHOUT ROWID;
    CREATE INDEX by_v ON without_row_id(v);
    INSERT INTO without_row_id SELECT name, id, CASE id % 4 WHEN 0 THEN NULL ELSE id % 3 END FROM plain_key WHERE name IS NOT NULL;
    INSERT INTO without_row_id SELECT name, 'y' || id, 0.5 FROM plain_key WHERE name IS NOT NULL;
    CREATE TABLE case_blind_key(k TEXT COLLATE NOCASE PRIMARY KEY, v);
    INSERT INTO case_blind_key VALUES ('b', 1), ('A', 1), ('a ', 2), ('C', NULL), ('d', NULL), ('', 1), ('E''', 3);
    CREATE TABLE case_blind_column(id INTEGER PRIMARY KEY, name TEXT COLLATE NOCASE);
    CREATE INDEX by_blind_name ON case_blind_column(name);
    INSERT INTO case_blind_column VALUES (1, 'a'), (2, 'B'), (3, 'A'), (4, 'b'), (5, NULL), (6, 'a'), (7, 'C'), (8, NULL);
    CREATE TABLE key_blinder_than_column(name TEXT, b INTEGER, PRIMARY KEY(name COLLATE NOCASE, b));
    INSERT INTO key_blinder_than_column VALUES ('b', 1), ('A', 2), ('a', 1), ('B', 3), ('C', 1), ('a', 3);
    CREATE TABLE column_blinder_than_key(name TEXT COLLATE NOCASE, b INTEGER, PRIMARY KEY(name COLLATE BINARY));
    INSERT INTO column_blinder_than_key VALUES ('b', 1), ('A', 1), ('a', 1), ('B', 2), ('C', 2);
    CREATE TABLE no_key(v, w TEXT);
    INSERT INTO no_key SELECT mixed, name FROM plain_key;
    INSERT INTO no_key SELECT mixed, name FROM plain_key;
    CREATE TABLE named_like_the_row_id(rowid TEXT, oid TEXT, v);
    INSERT INTO named_like_the_row_id SELECT name, name, mixed FROM plain_key;";

#[test]
fn every_row_of_every_table_comes_once_in_order_whichever_way() {
    let harness = EngineHarness::new();
    let head = harness.write(&harness.base, DEFINITIONS);
    for (table, columns) in TABLES {
        let orders = columns.split(' ').flat_map(|column| [(column, false), (column, true)]);
        let orders = orders.map(|(column, descending)| Some(RowOrder { column, descending }));
        for order in orders.chain([None]) {
            let (all, _) = read(&harness, &head, &whole(table, order));
            if let Some(by) = order {
                // The order according to the engine itself.
                let direction = if by.descending { "DESC" } else { "" };
                let values = format!("SELECT \"{}\" FROM {table} ORDER BY 1 {direction}", by.column);
                let at = harness
                    .read(&head, &format!("SELECT cid FROM pragma_table_info('{table}') WHERE name = '{}'", by.column));
                let Cell::Integer(at) = at[0][0] else { panic!("a number") };
                let got: Vec<Cell> = all.iter().map(|row| row[usize::try_from(at).unwrap()].clone()).collect();
                let expected: Vec<Cell> =
                    harness.read(&head, &values).into_iter().map(|mut row| row.remove(0)).collect();
                if !table.contains("blind") {
                    assert_eq!(got, expected, "{table} by {by:?}");
                }
            }
            let count = harness.read(&head, &format!("SELECT count(*) FROM {table}"));
            assert_eq!(count[0][0], Cell::Integer(i64::try_from(all.len()).unwrap()), "{table}");
            for limit in [1, 4, 50] {
                let forwards = Selection { limit, ..whole(table, order) };
                assert_eq!(walked(&harness, &head, &forwards), all, "{table} by {order:?}, {limit} at a time");
                let mut back = walked(&harness, &head, &Selection { backwards: true, ..forwards });
                back.reverse();
                assert_eq!(back, all, "{table} by {order:?}, {limit} at a time, backwards");
            }
        }
    }
}

#[test]
fn rows_of_a_view_and_of_a_table_that_hides_the_row_id_are_counted() {
    let harness = EngineHarness::new();
    let sql = "CREATE TABLE t(rowid, _rowid_, oid); INSERT INTO t VALUES (2, 1, 1), (1, 1, 1), (2, 1, 1);
               CREATE VIEW v AS SELECT rowid AS n FROM t";
    let head = harness.write(&harness.base, sql);
    for (table, column) in [("t", "rowid"), ("v", "n")] {
        let order = Some(RowOrder { column, descending: false });
        let wanted = Selection { limit: 1, skip: 1, ..whole(table, order) };
        let (rows, selected) = read(&harness, &head, &wanted);
        assert_eq!((&rows[0][0], rows.len()), (&Cell::Integer(2), 1));
        assert_eq!(selected, Selected { first: None, last: None, more: true });
        let place = [Cell::Integer(1)];
        let lost = harness.engine.rows(
            id(1),
            &head,
            &Selection { after: Some(&place), ..wanted },
            &mut CollectedRows::default(),
        );
        assert!(matches!(lost, Err(EngineError::Sql { failure: SqlFailure::Engine(_), .. })), "{lost:?}");
    }
}

#[test]
fn tests_hold_behind_a_place() {
    let harness = EngineHarness::new();
    let head = harness.write(&harness.base, DEFINITIONS);
    let tests = [RowTest { column: "id".to_owned(), test: Test::More, value: "0".to_owned() }];
    let order = Some(RowOrder { column: "name", descending: true });
    let wanted = Selection { tests: &tests, limit: 7, ..whole("plain_key", order) };
    let rows = walked(&harness, &head, &wanted);
    let ids: BTreeSet<String> = rows.iter().map(|row| format!("{:?}", row[0])).collect();
    assert_eq!((rows.len(), ids.len()), (60, 60));
    assert_eq!(rows, read(&harness, &head, &Selection { limit: 100, ..wanted }).0);
}

/// An index finds a position deep in a table, even among many rows with an equal sort value. Reading there costs no
/// more than at the start, which a bound far below the cost of a scan shows.
#[test]
fn a_place_deep_in_a_large_table_is_found_by_an_index() {
    let harness = EngineHarness::new();
    let head = harness.write(
        &harness.base,
        "CREATE TABLE t(id INTEGER PRIMARY KEY, kind TEXT, v INTEGER); CREATE INDEX by_kind ON t(kind);
         INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
           SELECT i, CASE WHEN i % 2 = 0 THEN NULL ELSE 'same' END, i FROM n",
    );
    let time = |wanted: &Selection<'_>| {
        let times = (0..9).map(|_| {
            let computing = Computing::now();
            assert_eq!(read(&harness, &head, wanted).0.len(), 50);
            computing.elapsed()
        });
        times.min().unwrap()
    };
    let scanned = time(&Selection { limit: 50, ..whole("t", Some(RowOrder { column: "v", descending: true })) });
    let kind = Some(RowOrder { column: "kind", descending: false });
    let deep = [Cell::Text(b"same".to_vec()), Cell::Integer(150_001)];
    let deep_null = [Cell::Null, Cell::Integer(150_000)];
    for (order, after) in [(None, &[Cell::Integer(150_000)][..]), (kind, &deep), (kind, &deep_null)] {
        for backwards in [false, true] {
            let taken = time(&Selection { after: Some(after), backwards, limit: 50, ..whole("t", order) });
            assert!(taken * 5 < scanned, "{order:?} after {after:?}: {taken:?}, a scan: {scanned:?}");
        }
    }
}

#[test]
fn sorting_for_too_long_is_ended() {
    let harness = EngineHarness::new();
    let head = harness.write(
        &harness.base,
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v INTEGER);
         INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000) SELECT i, -i FROM n",
    );
    let order = Some(RowOrder { column: "v", descending: false });
    let wanted = Selection { timeout: Duration::from_millis(2), limit: 50, ..whole("t", order) };
    let ended = harness.engine.rows(id(1), &head, &wanted, &mut CollectedRows::default());
    assert!(matches!(ended, Err(EngineError::Sql { failure: SqlFailure::TimedOut(_), .. })), "{ended:?}");
}
