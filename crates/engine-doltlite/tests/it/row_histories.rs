//! The history of rows in real files: keys of all kinds, changed definitions, long histories.

use std::time::{Duration, Instant};

use branchyard_domain::entities::{Cell, Change};
use branchyard_domain::ports::{
    BatchedWrite, Engine as _, EngineError, HistoryChange, HistoryPage, HistoryPosition, HistoryQuery, MergeOutcome,
};
use branchyard_domain::values::CommitHash;

use crate::support::{EngineHarness, LONG, ada, id, text};

type Named = Vec<(String, Cell)>;

fn named(cells: &[(&str, Cell)]) -> Named {
    cells.iter().map(|(name, cell)| ((*name).to_owned(), cell.clone())).collect()
}

fn query<'a>(table: &'a str, key: Option<&'a [(String, Cell)]>) -> HistoryQuery<'a> {
    HistoryQuery { table, key, first_parents: false, limit: 100, bytes: 1 << 20, timeout: LONG }
}

impl EngineHarness {
    fn history(&self, at: &CommitHash, table: &str, key: &[(&str, Cell)]) -> HistoryPage {
        let key = named(key);
        self.engine.row_history(id(1), &at.clone().into(), &query(table, Some(&key))).unwrap()
    }
}

fn commits(changes: &[HistoryChange]) -> Vec<&CommitHash> {
    changes.iter().map(|change| &change.commit.hash).collect()
}

/// Each key is found in the tree of its table, among neighbors that differ little.
#[test]
fn rows_are_found_by_keys_of_every_kind() {
    let harness = EngineHarness::new();
    let int = Cell::Integer;
    let blob = |bytes: &[u8]| Cell::Blob(bytes.to_vec());
    let cases: &[(&str, &[&str], &[Cell])] = &[
        ("id INTEGER PRIMARY KEY", &["id"], &[int(0), int(-1), int(i64::MIN), int(i64::MAX), int(1 << 53)]),
        ("id INTEGER PRIMARY KEY DESC", &["id"], &[int(5), int(-5), int(i64::MAX), int(i64::MIN), Cell::Real(2.5)]),
        ("id INT PRIMARY KEY", &["id"], &[int(7), int(-7), int((1 << 53) + 1), int(-(1 << 60) - 1), int(i64::MAX - 1)]),
        ("id REAL PRIMARY KEY", &["id"], &[Cell::Real(1.5), Cell::Real(-1.5), Cell::Real(0.0), Cell::Real(1e300)]),
        ("id TEXT PRIMARY KEY", &["id"], &[text("a"), text(""), text("a\u{1}b"), text("ä"), text("aa")]),
        ("id TEXT PRIMARY KEY COLLATE NOCASE", &["id"], &[text("Abc"), text("abd"), text("ABCD")]),
        ("id TEXT COLLATE RTRIM PRIMARY KEY", &["id"], &[text("a  "), text("b"), text(" ")]),
        ("id BLOB PRIMARY KEY", &["id"], &[blob(&[]), blob(&[0]), blob(&[0, 0, 1]), blob(&[255, 0])]),
        ("id PRIMARY KEY", &["id"], &[int(3), text("3"), blob(b"3"), Cell::Real(3.5)]),
        ("id INTEGER PRIMARY KEY NOT NULL) WITHOUT ROWID --", &["id"], &[int(9), int(-9)]),
        ("a TEXT, b INTEGER, PRIMARY KEY (b DESC, a)", &["a", "b"], &[text("x"), int(4)]),
    ];
    for (columns, names, values) in cases {
        let (definition, end) =
            columns.split_once(") WITHOUT").map_or((*columns, ""), |(columns, _)| (columns, " WITHOUT ROWID"));
        let create = format!("CREATE TABLE t(v, {definition}){end}");
        let mut at = harness.write(&harness.base, &create);
        let literal = |cell: &Cell| match cell {
            Cell::Integer(number) if *number == i64::MIN => "-9223372036854775808".to_owned(),
            Cell::Integer(number) => number.to_string(),
            Cell::Real(number) => format!("{number:?}"),
            Cell::Text(text) => format!("CAST(x'{}' AS TEXT)", hex(text)),
            Cell::Blob(bytes) => format!("x'{}'", hex(bytes)),
            Cell::Null => "NULL".to_owned(),
        };
        let keys: Vec<Named> = match names {
            [name] => values.iter().map(|value| named(&[(name, value.clone())])).collect(),
            names => vec![names.iter().zip(*values).map(|(name, value)| ((*name).to_owned(), value.clone())).collect()],
        };
        let mut expected: Vec<Vec<CommitHash>> = vec![Vec::new(); keys.len()];
        for round in 0..2 {
            for (key, expected) in keys.iter().zip(&mut expected) {
                let (names, values): (Vec<_>, Vec<_>) =
                    key.iter().map(|(name, cell)| (name.clone(), literal(cell))).unzip();
                let same: Vec<_> = names.iter().zip(&values).map(|(name, value)| format!("{name} = {value}")).collect();
                let sql = match round {
                    0 => format!("INSERT INTO t({}, v) VALUES ({}, 0)", names.join(", "), values.join(", ")),
                    _ => format!("UPDATE t SET v = 1 WHERE {}", same.join(" AND ")),
                };
                at = harness.write(&at, &sql);
                expected.insert(0, at.clone());
            }
        }
        for (key, expected) in keys.iter().zip(&expected) {
            let page = harness.engine.row_history(id(1), &at.clone().into(), &query("t", Some(key))).unwrap();
            assert_eq!(commits(&page.changes), expected.iter().collect::<Vec<_>>(), "{columns}: {key:?}");
            let read = page.changes[0].row.to.clone().unwrap();
            assert_eq!(read.iter().find(|(name, _)| name == "v").unwrap().1, Cell::Integer(1));
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn changed_definitions_leave_the_history_as_it_is() {
    let harness = EngineHarness::new();
    let key = [("id", Cell::Integer(1))];
    let created = harness.write(
        &harness.base,
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b); INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 2)",
    );
    let added = harness.write(&created, "ALTER TABLE t ADD COLUMN c DEFAULT 7");
    let empty = harness.write(&added, "ALTER TABLE t ADD COLUMN d");
    let renamed = harness.write(&empty, "ALTER TABLE t RENAME COLUMN a TO name");
    let indexed = harness.write(&renamed, "CREATE INDEX i ON t(name)");
    let set = harness.write(&indexed, "UPDATE t SET c = 8 WHERE id = 1");
    let dropped = harness.write(&set, "ALTER TABLE t DROP COLUMN b");
    let page = harness.history(&dropped, "t", &key);
    assert_eq!(commits(&page.changes), [&dropped, &set, &added, &created], "only a default is written into rows");
    let row = |at: usize| (page.changes[at].row.from.clone(), page.changes[at].row.to.clone());
    let with = |b: bool, c: i64| {
        let mut row =
            named(&[("id", Cell::Integer(1)), ("name", text("x")), ("c", Cell::Integer(c)), ("d", Cell::Null)]);
        if b {
            row.insert(2, ("b".to_owned(), Cell::Integer(1)));
        }
        Some(row)
    };
    assert_eq!(row(0), (with(true, 8), with(false, 8)));
    assert_eq!(row(1), (with(true, 7), with(true, 8)));

    let again =
        harness.write(&dropped, "DROP TABLE t; CREATE TABLE t(id INTEGER PRIMARY KEY, z); INSERT INTO t VALUES (1, 0)");
    assert_eq!(harness.history(&again, "t", &key).changes[0].row.change, Change::Modified);
    let gone = harness.write(&again, "DROP TABLE t");
    let back = harness.write(&gone, "CREATE TABLE t(id INTEGER PRIMARY KEY, z); INSERT INTO t VALUES (1, 0)");
    let page = harness.history(&back, "t", &key);
    let changes: Vec<_> = page.changes.iter().map(|change| change.row.change).collect();
    assert_eq!(changes[..3], [Change::Added, Change::Removed, Change::Modified]);

    let other_key = "CREATE TABLE u AS SELECT * FROM t; DROP TABLE t; CREATE TABLE t(id INTEGER, z, PRIMARY KEY (id, z)); INSERT INTO t SELECT * FROM u";
    let rekeyed = harness.write(&back, other_key);
    let both = [("z", Cell::Integer(0)), ("ID", Cell::Integer(1))];
    let page = harness.history(&rekeyed, "t", &both);
    assert_eq!((page.changes.len(), page.key_changed_by, page.next), (0, Some(rekeyed.clone()), None));
    let retyped =
        "ALTER TABLE t RENAME TO v; CREATE TABLE t(id TEXT, z, PRIMARY KEY (id, z)); INSERT INTO t VALUES (1, 0)";
    let retyped = harness.write(&rekeyed, retyped);
    let page = harness.history(&retyped, "t", &[("z", Cell::Integer(0)), ("id", text("1"))]);
    assert_eq!(page.changes.len(), 1, "the key is looked for as a text: {page:?}");
    let refused = harness.engine.row_history(id(1), &rekeyed.into(), &query("t", Some(&named(&key))));
    assert!(matches!(refused, Err(EngineError::NoSuchTable(_))), "{refused:?}");
}

#[test]
fn tables_without_a_key_and_generated_columns_have_a_history() {
    let harness = EngineHarness::new();
    let created = harness.write(&harness.base, "CREATE TABLE t(a, b AS (a * 2)); INSERT INTO t VALUES (1), (2)");
    let changed = harness.write(&created, "UPDATE t SET a = 5 WHERE a = 2; CREATE VIEW w AS SELECT * FROM t");
    let page = harness.engine.row_history(id(1), &changed.clone().into(), &query("t", None)).unwrap();
    assert_eq!(commits(&page.changes), [&changed, &created, &created]);
    assert_eq!(page.changes[0].row.to, Some(named(&[("a", Cell::Integer(5)), ("b", Cell::Integer(10))])));
    let view = harness.engine.row_history(id(1), &changed.into(), &query("w", None)).unwrap();
    assert_eq!(view.changes, []);
}

/// Writes a history in which each commit changes one of 500 rows, and row 7 every 500 commits.
fn long_history(harness: &EngineHarness, length: usize) -> CommitHash {
    let author = ada();
    let create = "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, n INTEGER); \
                  INSERT INTO t WITH RECURSIVE s(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM s WHERE i < 4999) SELECT i, 'row ' || i, 0 FROM s";
    let mut at = harness.write(&harness.base, create);
    let statements: Vec<String> =
        (0..length).map(|n| format!("UPDATE t SET n = n + 1 WHERE id = {}", n % 500)).collect();
    let mut left = &statements[..];
    while !left.is_empty() {
        let writes: Vec<BatchedWrite<'_>> = left
            .iter()
            .take(500)
            .map(|statements| BatchedWrite { statements, message: "Count", author: &author, timeout: LONG })
            .collect();
        let written = harness.engine.write_batch(id(1), &at, &writes, LONG);
        left = &left[written.len()..];
        let MergeOutcome::Head(head) = written.into_iter().last().unwrap().unwrap().outcome else { panic!() };
        at = head;
    }
    at
}

/// The time of an unoptimized build is not that of a release: this prints it, and holds the limit of the walk.
#[test]
fn ten_thousand_commits_are_looked_through_in_time() {
    let length: usize = std::env::var("HISTORY_COMMITS").map_or(10_000, |length| length.parse().unwrap());
    let harness = EngineHarness::new();
    let began = Instant::now();
    let at = long_history(&harness, length);
    eprintln!("{length} commits in {:?}", began.elapsed());
    let key = named(&[("id", Cell::Integer(7))]);
    for (what, key, limit) in [("row", Some(&key), 20), ("row, all", Some(&key), 1_000), ("table", None, 20)] {
        for _ in 0..2 {
            let began = Instant::now();
            let wanted = HistoryQuery { limit, ..query("t", key.map(Vec::as_slice)) };
            let page = harness.engine.row_history(id(1), &at.clone().into(), &wanted).unwrap();
            eprintln!("{what}: {} changes in {} commits: {:?}", page.changes.len(), page.commits, began.elapsed());
        }
    }
    let absent = named(&[("id", Cell::Integer(4_999_999))]);
    let began = Instant::now();
    let page = harness.engine.row_history(id(1), &at.clone().into(), &query("t", Some(&absent))).unwrap();
    eprintln!("no such row, {} commits: {:?}", page.commits, began.elapsed());
    assert_eq!((page.changes.len(), page.next), (0, None));

    // However long it takes, a page ends soon after its time, and the pages together are everything.
    let limit = Duration::from_millis(20);
    let wanted = HistoryQuery { timeout: limit, ..query("t", Some(&key)) };
    let (mut position, mut changes, mut looked, mut pages) = (HistoryPosition::from(at.clone()), 0, 0, 0);
    loop {
        let began = Instant::now();
        let page = harness.engine.row_history(id(1), &position, &wanted).unwrap();
        assert!(began.elapsed() < limit + Duration::from_secs(2), "{:?}", began.elapsed());
        (changes, looked, pages) = (changes + page.changes.len(), looked + page.commits, pages + 1);
        let Some(next) = page.next else { break };
        position = next;
    }
    eprintln!("{pages} pages of {limit:?}");
    assert_eq!(changes, length.div_ceil(500) + 1);
    assert_eq!(looked, u64::try_from(length).unwrap() + 2);
}
