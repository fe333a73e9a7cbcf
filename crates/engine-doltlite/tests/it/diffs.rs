//! Differences between commits.

use branchyard_domain::entities::{Cell, Change, RowChange, TableChange};
use branchyard_domain::ports::{Engine, EngineError, RowPage};
use branchyard_domain::values::CommitHash;

use crate::support::{EngineHarness, id, text};

fn rows(harness: &EngineHarness, from: &CommitHash, to: &CommitHash, table: &str) -> Vec<RowChange> {
    let all = harness
        .engine
        .changed_rows(id(1), from, to, table, &RowPage { after: None, limit: 1000, bytes: 1 << 20 })
        .unwrap()
        .rows;
    // Paging returns the same rows, whether pages are limited by rows or by bytes.
    for (limit, bytes) in [(1, 1 << 20), (1000, 1), (1000, 40)] {
        assert_eq!(paged(harness, (from, to), table, limit, bytes), all);
    }
    all
}

fn paged(
    harness: &EngineHarness,
    (from, to): (&CommitHash, &CommitHash),
    table: &str,
    limit: usize,
    bytes: usize,
) -> Vec<RowChange> {
    let mut paged = Vec::new();
    loop {
        let after = paged.last().map(|row: &RowChange| row.primary_key.iter().map(|cell| cell.1.clone()).collect());
        let page = harness.engine.changed_rows(id(1), from, to, table, &RowPage { after, limit, bytes }).unwrap();
        assert!(!page.rows.is_empty() || !page.more, "a page without a row leads nowhere");
        paged.extend(page.rows);
        if !page.more {
            return paged;
        }
    }
}

type Short = (String, Change, bool, Option<(u64, u64, u64)>);

fn tables(harness: &EngineHarness, from: &CommitHash, to: &CommitHash) -> Vec<Short> {
    let changes = harness.engine.changed_tables(id(1), from, to).unwrap();
    changes
        .into_iter()
        .map(|TableChange { table, change, schema_changed, rows, .. }| (table, change, schema_changed, rows))
        .collect()
}

#[test]
fn changes_of_rows() {
    let harness = EngineHarness::new();
    let a = harness.write(
        &harness.base,
        "create table t(id integer primary key, v text); insert into t values (1, 'a'), (2, 'b'), (3, 'c')",
    );
    let b = harness.write(
        &a,
        "update t set v = 'B' where id = 2; delete from t where id = 1; insert into t values (-5, 'n'), (9, null)",
    );
    let row = |n: i64, v: Cell| Some(vec![("id".to_owned(), Cell::Integer(n)), ("v".to_owned(), v)]);
    let change = |n: i64, change, from, to| RowChange {
        table: "t".into(),
        change,
        primary_key: vec![("id".into(), Cell::Integer(n))],
        from,
        to,
    };
    assert_eq!(
        rows(&harness, &a, &b, "T"),
        [
            change(-5, Change::Added, None, row(-5, text("n"))),
            change(1, Change::Removed, row(1, text("a")), None),
            change(2, Change::Modified, row(2, text("b")), row(2, text("B"))),
            change(9, Change::Added, None, row(9, Cell::Null)),
        ]
    );
    assert_eq!(rows(&harness, &b, &b, "t"), []);
    assert_eq!(rows(&harness, &b, &a, "t").len(), 4);
    assert_eq!(tables(&harness, &a, &b), [("t".into(), Change::Modified, false, Some((2, 1, 1)))]);
    assert_eq!(tables(&harness, &a, &a), []);
    let missing = harness.engine.changed_rows(id(1), &a, &b, "nope", &RowPage { after: None, limit: 1, bytes: 1 });
    assert!(matches!(missing, Err(EngineError::NoSuchTable(_))));
    let nowhere = CommitHash::parse(&"3".repeat(40)).unwrap();
    assert!(matches!(harness.engine.changed_tables(id(1), &a, &nowhere), Err(EngineError::NoSuchCommit(_))));
    assert!(matches!(harness.engine.changed_tables(id(1), &nowhere, &a), Err(EngineError::NoSuchCommit(_))));
}

#[test]
fn changes_of_definitions() {
    let harness = EngineHarness::new();
    let a = harness.write(
        &harness.base,
        "create table t(id integer primary key, v text, w text); insert into t values (1, 'a', 'b'), (2, 'c', 'd');
         create table gone(a text primary key); insert into gone values ('x'), ('y');
         create table rekeyed(a int, b int, primary key (a)); insert into rekeyed values (1, 2);
         create table kept(a); create table renamed(id integer primary key, q); insert into renamed values (1, 1), (2, 2);
         create view w as select 1",
    );
    let b = harness.write(
        &a,
        "alter table t drop column v; alter table t add column k int; update t set k = 7 where id = 2;
         drop table gone; create table fresh(b int, a text, primary key (a, b)); insert into fresh values (2, 'z'), (1, 'z');
         drop table rekeyed; create table rekeyed(a int, b int, primary key (b)); insert into rekeyed values (1, 2);
         alter table renamed rename to other; drop view w; create view x as select 2; create index i on kept(a)",
    );
    assert_eq!(
        tables(&harness, &a, &b),
        [
            ("fresh".into(), Change::Added, true, Some((2, 0, 0))),
            ("gone".into(), Change::Removed, true, Some((0, 2, 0))),
            ("kept".into(), Change::Modified, true, Some((0, 0, 0))),
            ("other".into(), Change::Added, true, Some((2, 0, 0))),
            ("rekeyed".into(), Change::Modified, true, Some((1, 1, 0))),
            ("renamed".into(), Change::Removed, true, Some((0, 2, 0))),
            ("t".into(), Change::Modified, true, Some((0, 0, 2))),
            ("w".into(), Change::Removed, true, Some((0, 0, 0))),
            ("x".into(), Change::Added, true, Some((0, 0, 0))),
        ]
    );
    let t = rows(&harness, &a, &b, "t");
    let names =
        |row: &Option<Vec<(String, Cell)>>| row.as_ref().unwrap().iter().map(|cell| cell.0.clone()).collect::<Vec<_>>();
    assert_eq!(names(&t[1].from), ["id", "v", "w"]);
    assert_eq!(names(&t[1].to), ["id", "w", "k"]);
    assert_eq!(t[1].to.as_ref().unwrap()[2].1, Cell::Integer(7));
    assert_eq!(t[1].from.as_ref().unwrap()[1].1, text("c"));
    assert_eq!(rows(&harness, &a, &b, "gone").len(), 2);
    let fresh = rows(&harness, &a, &b, "fresh");
    assert_eq!(fresh[0].primary_key, [("a".into(), text("z")), ("b".into(), Cell::Integer(1))]);
    assert_eq!(fresh.len(), 2);
    assert_eq!(
        rows(&harness, &a, &b, "rekeyed").iter().map(|row| row.change).collect::<Vec<_>>(),
        [Change::Removed, Change::Added]
    );
    assert_eq!(rows(&harness, &a, &b, "kept"), []);
    assert_eq!(rows(&harness, &a, &b, "other").len(), 2);
    assert_eq!(rows(&harness, &a, &b, "x"), []);
}

#[test]
fn tables_without_a_key_go_by_row_id() {
    let harness = EngineHarness::new();
    let a = harness.write(&harness.base, "create table n(a); insert into n values ('p'), ('q'), ('q'), ('r')");
    let b = harness
        .write(&a, "update n set a = 'Q' where rowid = 3; delete from n where a = 'r'; insert into n values ('s')");
    let changed = rows(&harness, &a, &b, "n");
    let short: Vec<_> =
        changed.iter().map(|row| (row.change, row.primary_key[0].0.as_str(), row.primary_key[0].1.clone())).collect();
    assert_eq!(
        short,
        [
            (Change::Modified, "rowid", Cell::Integer(3)),
            (Change::Removed, "rowid", Cell::Integer(4)),
            (Change::Added, "rowid", Cell::Integer(5)),
        ]
    );
}

#[test]
fn odd_names_wide_tables_and_mixed_keys() {
    let harness = EngineHarness::new();
    let columns: Vec<String> = (0..1200).map(|n| format!("c{n} int")).collect();
    let a = harness.write(
        &harness.base,
        &format!(
            "create table \"it's \"\"a\"\" -- table\"(\"sel ect\" text collate nocase primary key, \"diff_type\" int);
             insert into \"it's \"\"a\"\" -- table\" values ('a', 1), ('B', 2), ('c', 3);
             create table wide(id integer primary key, {}); insert into wide(id, c7) values (1, 1), (2, 2)",
            columns.join(", ")
        ),
    );
    let b = harness.write(
        &a,
        "update \"it's \"\"a\"\" -- table\" set diff_type = 9; insert into \"it's \"\"a\"\" -- table\" values ('D', 4);
         update wide set c7 = 3 where id = 2",
    );
    assert_eq!(rows(&harness, &a, &b, "it's \"a\" -- table").len(), 4);
    assert_eq!(rows(&harness, &a, &b, "wide").len(), 1);
    assert_eq!(tables(&harness, &a, &b).len(), 2);
}
