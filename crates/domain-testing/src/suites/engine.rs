//! The contract suite of [`Engine`], in the SQL that [`crate::fakes::MemoryEngine`] supports too.
//!
//! Each check creates its own databases. Checks may run in any order, concurrently, and on an engine that holds other
//! databases.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

use uuid::Uuid;

use crate::fakes::Collected;
use branchyard_domain::entities::{
    Cell, Change, ConflictKind, ImportMode, LogPosition, ObjectChange, ObjectKind, RowProblem, Side, Signature,
};
use branchyard_domain::ports::{
    CancellationToken, ChangedRows, Engine, EngineError, FormatError, ImportColumn, ImportJob, ImportTarget, MergeJob,
    MergeOutcome, ReadQuery, RowOrder, RowPage, RowSource, RowTest, ScriptJob, Selection, SqlFailure, TableScan, Test,
    WriteJob,
};
use branchyard_domain::values::{CommitHash, DatabaseId, Timestamp};

const LONG: Duration = Duration::from_secs(60);

/// A check of one part of the contract.
pub type EngineCheck = fn(&dyn Engine);

/// Every check with its name.
pub const ALL: &[(&str, EngineCheck)] = &[
    ("files", files),
    ("writes", writes),
    ("failed_writes", failed_writes),
    ("reads", reads),
    ("scans", scans),
    ("selections", selections),
    ("selections_by_place", selections_by_place),
    ("log_and_ancestry", log_and_ancestry),
    ("diff", diff),
    ("diff_pages", diff_pages),
    ("schemas", schemas),
    ("objects", objects),
    ("merges", merges),
    ("conflicts", conflicts),
    ("resolved_conflicts", resolved_conflicts),
    ("write_then_merge", write_then_merge),
    ("fetch_and_copy", fetch_and_copy),
    ("beside_a_long_write", beside_a_long_write),
    ("imports", imports),
    ("refused_imports", refused_imports),
    ("scripts", scripts),
    ("refused_scripts", refused_scripts),
    ("at_once", at_once),
];

/// Runs every check in sequence on one engine.
pub fn run_all(engine: &dyn Engine) {
    for (_, check) in ALL {
        check(engine);
    }
}

/// A database of a test, removed on drop.
struct Db<'a> {
    engine: &'a dyn Engine,
    id: DatabaseId,
    first: CommitHash,
}

fn author(second: i64) -> Signature {
    let at = Timestamp::from_seconds(1_767_000_000 + second);
    Signature { name: "Ada".to_owned(), email: "ada@example.org".to_owned(), at }
}

/// Returns an id that is unique across calls.
fn fresh_id() -> DatabaseId {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    DatabaseId::from_uuid(Uuid::from_u64_pair(
        0x0190_0000_0000_7000 | u64::from(std::process::id()) << 16,
        1 << 63 | number,
    ))
}

fn no_commit() -> CommitHash {
    CommitHash::parse(&"0123456789".repeat(4)).unwrap()
}

impl<'a> Db<'a> {
    fn new(engine: &'a dyn Engine) -> Self {
        let id = fresh_id();
        let first = engine.create(id, &author(0), "Initialize database").unwrap();
        Self { engine, id, first }
    }

    /// Creates a database with a table `t(id, a, b)` of three rows. Returns the head too.
    fn with_rows(engine: &'a dyn Engine) -> (Self, CommitHash) {
        let db = Self::new(engine);
        let create = "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b INTEGER); \
                      INSERT INTO t VALUES (1,'one',10),(2,'two',20),(3,'three',30)";
        let head = db.write(&db.first, 1, create);
        (db, head)
    }

    fn try_write(&self, base: &CommitHash, second: i64, sql: &str) -> Result<MergeOutcome, EngineError> {
        let author = author(second);
        let job = WriteJob { base, statements: sql, message: sql, then_merge: None, author: &author, timeout: LONG };
        Ok(self.engine.write(self.id, &job)?.outcome)
    }

    fn write(&self, base: &CommitHash, second: i64, sql: &str) -> CommitHash {
        head(self.try_write(base, second, sql).unwrap())
    }

    fn try_read(&self, at: &CommitHash, sql: &str) -> Result<Collected, EngineError> {
        let mut rows = Collected::default();
        self.engine.read(self.id, at, &ReadQuery::new(sql, LONG), &mut rows)?;
        Ok(rows)
    }

    fn lines(&self, at: &CommitHash) -> Vec<String> {
        self.try_read(at, "SELECT * FROM t ORDER BY id").unwrap().lines()
    }

    fn merge(&self, ours: &CommitHash, theirs: &CommitHash, resolve: &BTreeMap<String, Side>) -> MergeOutcome {
        let author = author(100);
        self.engine
            .merge(self.id, &MergeJob { ours, theirs, message: "merge", author: &author, resolve, timeout: LONG })
            .unwrap()
    }

    fn import(
        &self,
        base: &CommitHash,
        target: &ImportTarget,
        names: &[&str],
        rows: &[&[Cell]],
    ) -> Result<CommitHash, EngineError> {
        let columns: Vec<ImportColumn> = names
            .iter()
            .map(|name| ImportColumn {
                name: (*name).to_owned(),
                declared_type: if *name == "a" { "TEXT" } else { "INTEGER" }.to_owned(),
            })
            .collect();
        let author = author(50);
        let job = ImportJob {
            base,
            table: "t",
            target,
            columns: &columns,
            message: "import",
            author: &author,
            timeout: LONG,
        };
        let mut source = Given { rows: rows.iter().map(|row| row.to_vec()).collect(), at: 0, fault: None };
        self.engine.import(self.id, &job, &mut source)
    }
}

impl Db<'_> {
    fn script(
        &self,
        base: &CommitHash,
        target: Option<(&str, ImportMode)>,
        script: &str,
    ) -> Result<CommitHash, EngineError> {
        let author = author(70);
        let (message, timeout) = ("script", LONG);
        let job = ScriptJob { base, target, statement_bytes: 1_000, message, author: &author, timeout };
        self.engine.run_script(self.id, &job, &mut script.as_bytes())
    }
}

impl Drop for Db<'_> {
    fn drop(&mut self) {
        let removed = self.engine.remove(self.id);
        assert!(removed.is_ok() || std::thread::panicking(), "{removed:?}");
    }
}

fn head(outcome: MergeOutcome) -> CommitHash {
    match outcome {
        MergeOutcome::Head(head) => head,
        MergeOutcome::Conflicts(tables) => panic!("conflicts in {tables:?}"),
    }
}

fn sql_failure<T: std::fmt::Debug>(result: Result<T, EngineError>) -> (SqlFailure, u32) {
    match result {
        Err(EngineError::Sql { failure, statement }) => (failure, statement),
        other => panic!("not a failure of a statement: {other:?}"),
    }
}

/// The rows of an import, followed by an optional error.
struct Given {
    rows: Vec<Vec<Cell>>,
    at: usize,
    fault: Option<FormatError>,
}

impl RowSource for Given {
    fn next(&mut self, row: &mut Vec<Cell>) -> Result<Option<u64>, FormatError> {
        let Some(next) = self.rows.get(self.at) else { return self.fault.take().map_or(Ok(None), Err) };
        row.clone_from(next);
        self.at += 1;
        Ok(Some(u64::try_from(self.at + 1).unwrap()))
    }
}

fn int(number: i64) -> Cell {
    Cell::Integer(number)
}

fn text(text: &str) -> Cell {
    Cell::Text(text.as_bytes().to_vec())
}

fn row(id: i64, a: &str, b: i64) -> Option<Vec<(String, Cell)>> {
    Some(vec![("id".to_owned(), int(id)), ("a".to_owned(), text(a)), ("b".to_owned(), int(b))])
}

fn key(id: i64) -> Vec<(String, Cell)> {
    vec![("id".to_owned(), int(id))]
}

/// Checks that files are created, listed, measured, verified and removed.
pub fn files(engine: &dyn Engine) {
    let id = fresh_id();
    assert!(!engine.list().unwrap().contains(&id));
    engine.remove(id).unwrap();
    let first = engine.create(id, &author(0), "Initialize database").unwrap();
    assert!(engine.list().unwrap().contains(&id));
    assert!(engine.size_bytes(id).unwrap() > 0);
    let commit = engine.commit(id, &first).unwrap().unwrap();
    assert_eq!((commit.hash.clone(), commit.message.as_str()), (first.clone(), "Initialize database"));
    assert_eq!(commit.author, author(0));
    assert_eq!(engine.tables(id, &first).unwrap(), vec![]);
    assert_eq!(engine.commit(id, &no_commit()).unwrap(), None);
    assert_eq!(engine.verify(id, &[first]).unwrap(), Vec::<String>::new());
    assert!(!engine.verify(id, &[no_commit()]).unwrap().is_empty(), "a lost head is told");
    engine.remove(id).unwrap();
    assert!(!engine.list().unwrap().contains(&id));
    assert!(engine.size_bytes(id).is_err());
}

/// Checks that a write creates one commit on its base, and that existing commits never change.
pub fn writes(engine: &dyn Engine) {
    let (db, head) = Db::with_rows(engine);
    let commit = engine.commit(db.id, &head).unwrap().unwrap();
    assert_eq!(commit.parents, vec![db.first.clone()]);
    assert_eq!(commit.author, author(1));
    assert!(commit.message.starts_with("CREATE TABLE t("));

    let next = db.write(
        &head,
        2,
        "UPDATE t SET a = 'zwei' WHERE id = 2; DELETE FROM t WHERE id = 1; INSERT INTO t (id, b) VALUES (4, -1)",
    );
    assert_eq!(db.lines(&next), ["2|zwei|20", "3|three|30", "4|NULL|-1"]);
    assert_eq!(db.lines(&head), ["1|one|10", "2|two|20", "3|three|30"], "a commit never changes");
    assert_eq!(engine.commit(db.id, &next).unwrap().unwrap().parents, vec![head.clone()]);

    let sibling = db.write(&head, 3, "DELETE FROM t WHERE id = 3");
    assert_eq!(db.lines(&sibling), ["1|one|10", "2|two|20"], "writers may go on from any commit");

    let author = author(3);
    let sql = "INSERT INTO t VALUES (7,'x',0),(8,'y',0); UPDATE t SET b = 1 WHERE id = 7; DELETE FROM t WHERE id = 99";
    let job = WriteJob { base: &head, statements: sql, message: sql, then_merge: None, author: &author, timeout: LONG };
    assert_eq!(engine.write(db.id, &job).unwrap().rows_affected, 3);

    let same = db.write(&head, 4, "UPDATE t SET a = 'one' WHERE id = 1");
    assert_eq!(same, head, "nothing changed, so there is no commit");
    assert!(matches!(db.try_write(&no_commit(), 5, "DELETE FROM t WHERE id = 1"), Err(EngineError::NoSuchCommit(_))));
}

/// Checks that a failed write names the failed statement and changes nothing.
pub fn failed_writes(engine: &dyn Engine) {
    let (db, head) = Db::with_rows(engine);
    let (failure, statement) =
        sql_failure(db.try_write(&head, 2, "DELETE FROM t WHERE id = 1; DELETE FROM gone WHERE id = 1"));
    assert_eq!((failure, statement), (SqlFailure::NoSuchTable("gone".to_owned()), 2));
    let (failure, statement) = sql_failure(db.try_write(&head, 2, "INSERT INTO t VALUES (1,'again',0)"));
    assert_eq!((failure, statement), (SqlFailure::Engine("UNIQUE constraint failed: t.id".to_owned()), 1));
    let (failure, _) = sql_failure(db.try_write(&head, 2, "INSERT INTO t VALUES (9,'short')"));
    assert_eq!(failure, SqlFailure::Engine("table t has 3 columns but 2 values were supplied".to_owned()));
    let (failure, _) = sql_failure(db.try_write(&head, 2, "CREATE TABLE t(id INTEGER PRIMARY KEY)"));
    assert_eq!(failure, SqlFailure::Engine("table t already exists".to_owned()));
    let (failure, _) = sql_failure(db.try_write(&head, 2, "DELETE FORM t"));
    assert_eq!(failure, SqlFailure::Syntax { position: 12, near: "FORM".to_owned() });
    let (failure, _) = sql_failure(db.try_write(&head, 2, "ATTACH 'x' AS y"));
    assert_eq!(failure, SqlFailure::NotAllowed("ATTACH".to_owned()));
    assert_eq!(db.lines(&head), ["1|one|10", "2|two|20", "3|three|30"]);
    let next = db.write(&head, 3, "DELETE FROM t WHERE id = 3");
    assert_eq!(db.lines(&next), ["1|one|10", "2|two|20"], "the failures left nothing behind");
}

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

    let mut one = Collected::stopping_after(1);
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
        let mut rows = Collected::stopping_after(stop_after);
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
    let lost = engine.scan(db.id, &no_commit(), &wanted, &mut Collected::default());
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
        let mut rows = Collected::default();
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
        (test("a", Test::IsNull, ""), "5"),
        (test("a", Test::IsNotNull, ""), "1234"),
    ];
    for (wanted, ids) in cases {
        assert_eq!(select(std::slice::from_ref(&wanted), None, 0, 9), ids, "{wanted:?}");
    }
    assert_eq!(select(&[test("b", Test::Equals, "20"), test("id", Test::More, "2")], None, 0, 9), "4");
    let lost = engine.count(db.id, &head, "gone", &[], LONG);
    assert!(matches!(lost, Err(EngineError::NoSuchTable(name)) if name == "gone"));
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
    let lost = engine.rows(db.id, &head, &wanted, &mut Collected::default());
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
        let mut rows = Collected::default();
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

/// Checks the log, ancestors and merge bases.
pub fn log_and_ancestry(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    let left = db.write(&base, 2, "UPDATE t SET a = 'left' WHERE id = 1");
    let right = db.write(&base, 3, "UPDATE t SET a = 'right' WHERE id = 2");
    let merged = head(db.merge(&left, &right, &BTreeMap::new()));
    let hashes = |after: Option<&CommitHash>, limit| -> Vec<CommitHash> {
        let at = LogPosition { from: merged.clone(), after: after.cloned() };
        engine.log(db.id, &at, limit).unwrap().into_iter().map(|entry| entry.commit.hash).collect()
    };
    let all = [merged.clone(), right.clone(), left.clone(), base.clone(), db.first.clone()];
    assert!(hashes(None, 10).starts_with(&all), "children before parents, then newest first");
    assert_eq!(hashes(None, 2), all[..2]);
    assert_eq!(hashes(Some(&right), 2), all[2..4]);
    let whole = engine.log(db.id, &merged.clone().into(), 10).unwrap();
    for (n, entry) in whole.iter().enumerate() {
        assert_eq!(engine.log(db.id, &entry.next, 10).unwrap(), whole[n + 1..], "after {n}");
    }
    assert_eq!(whole[2].next, base.clone().into(), "one way on: nothing is passed again");
    assert_eq!(engine.commit(db.id, &merged).unwrap().unwrap().parents, vec![left.clone(), right.clone()]);
    assert!(matches!(engine.log(db.id, &no_commit().into(), 1), Err(EngineError::NoSuchCommit(_))));

    let is = |ancestor, descendant| engine.is_ancestor(db.id, ancestor, descendant).unwrap();
    assert!(is(&base, &merged) && is(&right, &merged) && is(&base, &base));
    assert!(!is(&merged, &base) && !is(&left, &right) && !is(&no_commit(), &base));
    assert!(engine.is_ancestor(db.id, &base, &no_commit()).is_err());
    let parted = |a, b| engine.merge_base(db.id, a, b).unwrap();
    assert_eq!(parted(&left, &right), Some(base.clone()));
    assert_eq!(parted(&right, &merged), Some(right.clone()));
    assert_eq!(parted(&merged, &merged), Some(merged.clone()));
}

/// Checks which tables and rows differ between commits.
pub fn diff(engine: &dyn Engine) {
    let (db, from) = Db::with_rows(engine);
    let to = db.write(
        &from,
        2,
        "UPDATE t SET a = 'uno' WHERE id = 1; DELETE FROM t WHERE id = 2; INSERT INTO t VALUES (4,'four',40); \
         CREATE TABLE u(id INTEGER PRIMARY KEY); INSERT INTO u VALUES (1),(2)",
    );
    let changes = engine.changed_tables(db.id, &from, &to).unwrap();
    let told: Vec<_> = changes.iter().map(|c| (c.table.as_str(), c.change, c.schema_changed, c.rows)).collect();
    assert_eq!(told, [("t", Change::Modified, false, Some((1, 1, 1))), ("u", Change::Added, true, Some((2, 0, 0)))]);
    let back = engine.changed_tables(db.id, &to, &from).unwrap();
    assert_eq!((back[1].change, back[1].rows), (Change::Removed, Some((0, 2, 0))));
    assert_eq!(engine.changed_tables(db.id, &to, &to).unwrap(), vec![]);

    let page = RowPage { after: None, limit: 10, bytes: 1 << 20 };
    let found = engine.changed_rows(db.id, &from, &to, "t", &page).unwrap();
    assert!(!found.more);
    let told: Vec<_> = found.rows.into_iter().map(|r| (r.change, r.primary_key, r.from, r.to)).collect();
    assert_eq!(
        told,
        vec![
            (Change::Modified, key(1), row(1, "one", 10), row(1, "uno", 10)),
            (Change::Removed, key(2), row(2, "two", 20), None),
            (Change::Added, key(4), None, row(4, "four", 40)),
        ]
    );
    assert_eq!(engine.changed_rows(db.id, &to, &to, "t", &page).unwrap(), ChangedRows::default());
    let gone = engine.changed_rows(db.id, &from, &to, "gone", &page);
    assert!(matches!(gone, Err(EngineError::NoSuchTable(_))), "{gone:?}");
    assert!(matches!(engine.changed_tables(db.id, &no_commit(), &to), Err(EngineError::NoSuchCommit(_))));
}

/// Checks the pages of changed rows.
pub fn diff_pages(engine: &dyn Engine) {
    let (db, from) = Db::with_rows(engine);
    let to = db.write(&from, 2, "INSERT INTO t VALUES (7,'g',1),(5,'e',1),(6,'f',1); DELETE FROM t WHERE id = 2");
    // Limited by rows, by bytes (every row has more than one), and not at all.
    for (limit, bytes, expected) in [(2, 1 << 20, vec![2, 2]), (10, 1, vec![1, 1, 1, 1]), (10, 1 << 20, vec![4])] {
        let mut keys = Vec::new();
        let mut sizes = Vec::new();
        let mut page = RowPage { after: None, limit, bytes };
        loop {
            let found = engine.changed_rows(db.id, &from, &to, "t", &page).unwrap();
            let Some(last) = found.rows.last() else { break };
            sizes.push(found.rows.len());
            page.after = Some(last.primary_key.iter().map(|(_, cell)| cell.clone()).collect());
            keys.extend(found.rows.into_iter().map(|row| row.primary_key));
            if !found.more {
                break;
            }
        }
        assert_eq!(keys, [2, 5, 6, 7].map(key));
        assert_eq!(sizes, expected);
    }
}

/// Checks the definitions of tables at a commit.
pub fn schemas(engine: &dyn Engine) {
    let (db, from) = Db::with_rows(engine);
    let to = db.write(&from, 2, "CREATE TABLE a(id INTEGER PRIMARY KEY, name TEXT NOT NULL, size REAL)");
    let tables = engine.tables(db.id, &to).unwrap();
    assert_eq!(tables.iter().map(|table| table.name.as_str()).collect::<Vec<_>>(), ["a", "t"]);
    let table = &tables[0];
    assert_eq!(table.primary_key, ["id"]);
    let columns: Vec<_> =
        table.columns.iter().map(|c| (c.name.as_str(), c.declared_type.as_str(), c.in_primary_key)).collect();
    assert_eq!(columns, [("id", "INTEGER", true), ("name", "TEXT", false), ("size", "REAL", false)]);
    assert_eq!((table.columns[1].nullable, table.columns[2].nullable), (false, true));
    assert!(table.create_statement.to_ascii_uppercase().starts_with("CREATE TABLE "));
    assert_eq!(engine.tables(db.id, &from).unwrap().len(), 1);
    assert!(matches!(engine.tables(db.id, &no_commit()), Err(EngineError::NoSuchCommit(_))));
}

/// Checks that triggers belong to the schema of their table, and that a changed trigger counts as a change of the
/// table.
pub fn objects(engine: &dyn Engine) {
    let (db, from) = Db::with_rows(engine);
    assert_eq!(engine.objects(db.id, &from).unwrap(), []);
    let create = |b| format!("CREATE TRIGGER zero AFTER INSERT ON t BEGIN UPDATE t SET b = {b} WHERE id = 1; END");
    let to = db.write(&from, 2, &create(0));
    let found = engine.objects(db.id, &to).unwrap();
    let [object] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((object.kind, object.name.as_str(), object.owner.as_str()), (ObjectKind::Trigger, "zero", "t"));
    let triggers = &engine.tables(db.id, &to).unwrap()[0].triggers;
    let [trigger] = triggers.as_slice() else { panic!("{triggers:?}") };
    assert_eq!((&trigger.name, &trigger.create_statement), (&object.name, &object.create_statement));
    assert!(trigger.create_statement.contains("SET b = 0"), "{trigger:?}");

    let changes = |from: &CommitHash, to: &CommitHash| -> Vec<(Change, Option<String>, Option<String>)> {
        let changed = engine.changed_tables(db.id, from, to).unwrap();
        let [table] = changed.as_slice() else { panic!("{changed:?}") };
        assert_eq!((table.table.as_str(), table.change, table.rows), ("t", Change::Modified, Some((0, 0, 0))));
        assert!(table.schema_changed);
        let told = |change: &ObjectChange| {
            assert_eq!((change.kind, change.name.as_str()), (ObjectKind::Trigger, "zero"));
            (change.change, change.from.clone(), change.to.clone())
        };
        table.objects.iter().map(told).collect()
    };
    let statement = Some(trigger.create_statement.clone());
    assert_eq!(changes(&from, &to), [(Change::Added, None, statement.clone())]);
    assert_eq!(changes(&to, &from), [(Change::Removed, statement.clone(), None)]);
    let other = db.write(&to, 3, &format!("DROP TRIGGER zero; {}", create(1)));
    let modified = changes(&to, &other);
    assert!(
        matches!(modified.as_slice(), [(Change::Modified, Some(old), Some(new))]
        if Some(old) == statement.as_ref() && new.contains("SET b = 1")),
        "{modified:?}"
    );
    let same = db.write(&to, 4, &format!("DROP TRIGGER zero; {}", create(0)));
    assert_eq!(engine.changed_tables(db.id, &to, &same).unwrap(), []);
    assert!(matches!(engine.objects(db.id, &no_commit()), Err(EngineError::NoSuchCommit(_))));
}

/// Checks merges without conflicts.
pub fn merges(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    let ours = db.write(&base, 2, "UPDATE t SET a = 'ours' WHERE id = 1; INSERT INTO t VALUES (4,'four',40)");
    let theirs = db.write(
        &base,
        3,
        "UPDATE t SET b = 11 WHERE id = 1; DELETE FROM t WHERE id = 2; INSERT INTO t VALUES (5,'five',50)",
    );
    let none = BTreeMap::new();
    assert_eq!(engine.conflicts(db.id, &ours, &theirs, None, 0, 10).unwrap(), vec![]);
    let merged = head(db.merge(&ours, &theirs, &none));
    assert_eq!(db.lines(&merged), ["1|ours|11", "3|three|30", "4|four|40", "5|five|50"], "also inside one row");
    let commit = engine.commit(db.id, &merged).unwrap().unwrap();
    assert_eq!((commit.message.as_str(), commit.author.at), ("merge", author(100).at));
    assert_eq!(head(db.merge(&merged, &theirs, &none)), merged, "what is contained is not merged again");
    assert_eq!(head(db.merge(&merged, &merged, &none)), merged);
    let ahead = head(db.merge(&base, &theirs, &none));
    assert!(engine.is_ancestor(db.id, &theirs, &ahead).unwrap());
    assert_eq!(db.lines(&ahead), db.lines(&theirs));
}

/// Checks that a merge with conflicts changes nothing and reports the conflicts.
pub fn conflicts(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    let create = "CREATE TABLE u(id INTEGER PRIMARY KEY, a TEXT, b INTEGER); INSERT INTO u VALUES (1,'x',1)";
    let base = db.write(&base, 2, create);
    let ours = db.write(
        &base,
        3,
        "UPDATE t SET a = 'ours' WHERE id = 1; DELETE FROM t WHERE id = 2; UPDATE u SET b = 2 WHERE id = 1",
    );
    let theirs = db.write(
        &base,
        4,
        "UPDATE t SET a = 'theirs' WHERE id = 1; UPDATE t SET b = 21 WHERE id = 2; UPDATE u SET b = 3 WHERE id = 1",
    );
    let outcome = db.merge(&ours, &theirs, &BTreeMap::new());
    assert_eq!(outcome, MergeOutcome::Conflicts(vec![("t".to_owned(), 2), ("u".to_owned(), 1)]));

    engine.prepare_conflicts(db.id, &ours, &theirs).unwrap();
    let all = engine.conflicts(db.id, &ours, &theirs, None, 0, 10).unwrap();
    assert!(all.iter().all(|conflict| conflict.kind == ConflictKind::Row));
    let told: Vec<_> = all
        .iter()
        .map(|c| (c.table.as_str(), c.primary_key.clone(), c.base.clone(), c.ours.clone(), c.theirs.clone()))
        .collect();
    assert_eq!(
        told,
        vec![
            ("t", key(1), row(1, "one", 10), row(1, "ours", 10), row(1, "theirs", 10)),
            ("t", key(2), row(2, "two", 20), None, row(2, "two", 21)),
            ("u", key(1), row(1, "x", 1), row(1, "x", 2), row(1, "x", 3)),
        ]
    );
    assert_eq!(engine.conflicts(db.id, &ours, &theirs, None, 1, 1).unwrap(), all[1..2]);
    assert_eq!(engine.conflicts(db.id, &ours, &theirs, Some("u"), 0, 10).unwrap(), all[2..]);
    assert_eq!(engine.conflicts(db.id, &ours, &theirs, Some("T"), 1, 10).unwrap(), all[1..2]);
    assert_eq!(engine.conflicts(db.id, &ours, &theirs, None, 3, 10).unwrap(), vec![]);
    engine.prepare_conflicts(db.id, &base, &theirs).unwrap();
    assert_eq!(engine.conflicts(db.id, &base, &theirs, None, 0, 10).unwrap(), vec![], "one contains the other");
    let missing = engine.prepare_conflicts(db.id, &no_commit(), &theirs);
    assert!(matches!(missing, Err(EngineError::NoSuchCommit(_))), "{missing:?}");
    let next = db.write(&ours, 5, "DELETE FROM t WHERE id = 3");
    assert_eq!(db.lines(&next), ["1|ours|10"], "the attempt left nothing behind");
}

/// Checks merges in which one side wins the conflicts of a table.
pub fn resolved_conflicts(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    let ours = db.write(&base, 2, "UPDATE t SET a = 'ours' WHERE id = 1; INSERT INTO t VALUES (4,'four',40)");
    let theirs = db.write(&base, 3, "UPDATE t SET a = 'theirs' WHERE id = 1; UPDATE t SET b = 31 WHERE id = 3");
    let won = |side| head(db.merge(&ours, &theirs, &BTreeMap::from([("t".to_owned(), side)])));
    assert_eq!(db.lines(&won(Side::Ours)), ["1|ours|10", "2|two|20", "3|three|31", "4|four|40"]);
    assert_eq!(db.lines(&won(Side::Theirs)), ["1|theirs|10", "2|two|20", "3|three|31", "4|four|40"]);
    let elsewhere = db.merge(&ours, &theirs, &BTreeMap::from([("u".to_owned(), Side::Ours)]));
    assert_eq!(elsewhere, MergeOutcome::Conflicts(vec![("t".to_owned(), 1)]));
}

/// Checks that statements and a subsequent merge are atomic.
pub fn write_then_merge(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    let theirs = db.write(&base, 2, "UPDATE t SET a = 'theirs' WHERE id = 1");
    let author = author(3);
    let run = |base: &CommitHash, statements: &str, theirs: &CommitHash| {
        let then_merge = Some((theirs, "merge"));
        let job = WriteJob { base, statements, message: "write", then_merge, author: &author, timeout: LONG };
        engine.write(db.id, &job).unwrap().outcome
    };
    let merged = head(run(&base, "INSERT INTO t VALUES (4,'four',40)", &theirs));
    assert_eq!(db.lines(&merged), ["1|theirs|10", "2|two|20", "3|three|30", "4|four|40"]);
    let commit = engine.commit(db.id, &merged).unwrap().unwrap();
    assert_eq!((commit.message.as_str(), commit.parents.len(), &commit.parents[1]), ("merge", 2, &theirs));
    let written = engine.commit(db.id, &commit.parents[0]).unwrap().unwrap();
    assert_eq!((written.message.as_str(), written.parents), ("write", vec![base.clone()]));

    let contained = head(run(&merged, "DELETE FROM t WHERE id = 4", &theirs));
    assert_eq!(engine.commit(db.id, &contained).unwrap().unwrap().parents, vec![merged.clone()]);
    assert_eq!(head(run(&merged, "DELETE FROM t WHERE id = 99", &theirs)), merged);
    let clash = run(&base, "UPDATE t SET a = 'ours' WHERE id = 1", &theirs);
    assert_eq!(clash, MergeOutcome::Conflicts(vec![("t".to_owned(), 1)]));
}

/// Checks that commits are copied and fetched between databases.
pub fn fetch_and_copy(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    let fork = Db { engine, id: fresh_id(), first: db.first.clone() };
    engine.copy(db.id, fork.id).unwrap();
    assert_eq!(fork.lines(&base), db.lines(&base), "a copy holds the same commits under the same names");
    let theirs = fork.write(&base, 2, "UPDATE t SET b = 0 WHERE id = 3");
    let tip = fork.write(&theirs, 3, "DELETE FROM t WHERE id = 2");
    let ours = db.write(&base, 4, "DELETE FROM t WHERE id = 1");
    assert_eq!(engine.commit(db.id, &tip).unwrap(), None);
    for _ in 0..2 {
        engine.fetch(db.id, fork.id, &tip).unwrap();
    }
    assert_eq!(db.lines(&tip), ["1|one|10", "3|three|0"]);
    assert!(engine.commit(db.id, &theirs).unwrap().is_some(), "with its history");
    assert_eq!(engine.merge_base(db.id, &ours, &tip).unwrap(), Some(base.clone()));
    assert_eq!(db.lines(&head(db.merge(&ours, &tip, &BTreeMap::new()))), ["3|three|0"]);
    assert_eq!(engine.commit(fork.id, &ours).unwrap(), None, "nothing came back");
    assert!(matches!(engine.fetch(db.id, fork.id, &no_commit()), Err(EngineError::NoSuchCommit(_))));
    engine.copy(db.id, fork.id).unwrap();
    assert_eq!(fork.lines(&ours), ["2|two|20", "3|three|30"], "copying again replaces the copy");
}

/// A script that reports when the engine has begun to read it, and ends when the test releases it.
struct HeldScript {
    begun: Option<mpsc::Sender<()>>,
    let_go: mpsc::Receiver<()>,
}

impl std::io::Read for HeldScript {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let Some(begun) = self.begun.take() else {
            // Returns an error once the sender is dropped, which is the release.
            let _ = self.let_go.recv();
            return Ok(0);
        };
        begun.send(()).unwrap();
        let script = b"DELETE FROM t WHERE id = 99;";
        buffer[..script.len()].copy_from_slice(script);
        Ok(script.len())
    }
}

impl Db<'_> {
    /// Runs `work` while a script blocks the write queue of this database.
    fn while_written(&self, base: &CommitHash, work: impl FnOnce()) {
        let ((begun, has_begun), (let_go, wait)) = (mpsc::channel(), mpsc::channel());
        std::thread::scope(|scope| {
            let (engine, id) = (self.engine, self.id);
            scope.spawn(move || {
                let (author, message, timeout) = (author(80), "held", LONG);
                let job = ScriptJob { base, target: None, statement_bytes: 1_000, message, author: &author, timeout };
                let mut script = HeldScript { begun: Some(begun), let_go: wait };
                engine.run_script(id, &job, &mut script).unwrap();
            });
            has_begun.recv().unwrap();
            work();
            drop(let_go);
        });
    }
}

/// Checks that trial merges do not wait for writers, and that fetches do not wait for writers of the source.
pub fn beside_a_long_write(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    let ours = db.write(&base, 2, "UPDATE t SET a = 'ours' WHERE id = 1");
    let theirs = db.write(&base, 3, "UPDATE t SET a = 'theirs' WHERE id = 1");
    let fork = Db { engine, id: fresh_id(), first: db.first.clone() };
    engine.copy(db.id, fork.id).unwrap();
    let tip = fork.write(&base, 4, "UPDATE t SET b = 0 WHERE id = 3");
    fork.while_written(&base, || engine.fetch(db.id, fork.id, &tip).unwrap());
    db.while_written(&base, || {
        assert_eq!(engine.conflicts(db.id, &ours, &theirs, None, 0, 10).unwrap().len(), 1);
        engine.prepare_conflicts(db.id, &ours, &tip).unwrap();
        assert_eq!(engine.conflicts(db.id, &ours, &tip, None, 0, 10).unwrap(), vec![]);
        engine.fetch(db.id, fork.id, &tip).unwrap();
    });
    assert_eq!(db.lines(&tip), ["1|one|10", "2|two|20", "3|three|0"]);
}

/// Checks every mode of imports.
pub fn imports(engine: &dyn Engine) {
    let db = Db::new(engine);
    let all = ["id", "a", "b"];
    let new = |overwrite| ImportTarget::New { primary_key: vec!["id".to_owned()], overwrite };
    let rows: [&[Cell]; 2] = [&[int(2), text("two"), int(20)], &[int(1), text("one"), Cell::Null]];
    let made = db.import(&db.first, &new(false), &all, &rows).unwrap();
    assert_eq!(db.lines(&made), ["1|one|NULL", "2|two|20"]);
    let table = &engine.tables(db.id, &made).unwrap()[0];
    assert_eq!((table.primary_key.clone(), table.columns[0].nullable), (vec!["id".to_owned()], false));
    let commit = engine.commit(db.id, &made).unwrap().unwrap();
    assert_eq!((commit.message.as_str(), commit.parents), ("import", vec![db.first.clone()]));
    assert!(matches!(db.import(&made, &new(false), &all, &rows), Err(EngineError::TableExists(_))));

    let updated =
        db.import(&made, &ImportTarget::Update, &["id", "b"], &[&[int(2), int(21)], &[int(3), int(31)]]).unwrap();
    assert_eq!(db.lines(&updated), ["1|one|NULL", "2|two|21", "3|NULL|31"], "other columns stay");
    let same = db.import(&updated, &ImportTarget::Update, &["id", "b"], &[&[int(2), int(21)]]).unwrap();
    assert_eq!(same, updated, "nothing changed, so there is no commit");
    let replaced = db.import(&updated, &ImportTarget::Replace, &all, &[&[int(9), text("nine"), int(90)]]).unwrap();
    assert_eq!(db.lines(&replaced), ["9|nine|90"]);
    let again = db.import(&replaced, &new(true), &["id", "b"], &[&[int(1), int(10)]]).unwrap();
    assert_eq!(db.lines(&again), ["1|10"]);
}

/// Checks that failed imports name the invalid rows and change nothing.
pub fn refused_imports(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    let twice: [&[Cell]; 2] = [&[int(7), int(1)], &[int(7), int(2)]];
    let refused = db.import(&base, &ImportTarget::Replace, &["id", "b"], &twice);
    let Err(EngineError::Import(FormatError::Rows(problems))) = refused else { panic!("{refused:?}") };
    assert_eq!(problems.iter().map(|problem| problem.line).collect::<Vec<_>>(), [3]);

    let columns = [ImportColumn { name: "id".to_owned(), declared_type: "INTEGER".to_owned() }];
    let author = author(60);
    let target = ImportTarget::Update;
    let job = ImportJob {
        base: &base,
        table: "t",
        target: &target,
        columns: &columns,
        message: "m",
        author: &author,
        timeout: LONG,
    };
    let problem = RowProblem { line: 3, column: Some("id".to_owned()), detail: "no number".to_owned() };
    let mut rows = Given { rows: vec![vec![int(8)]], at: 0, fault: Some(FormatError::Rows(vec![problem.clone()])) };
    let refused = engine.import(db.id, &job, &mut rows);
    let Err(EngineError::Import(FormatError::Rows(problems))) = refused else { panic!("{refused:?}") };
    assert_eq!(problems, [problem]);
    assert_eq!(db.lines(&base).len(), 3);
    let next = db.write(&base, 61, "DELETE FROM t WHERE id = 3");
    assert_eq!(db.lines(&next), ["1|one|10", "2|two|20"], "the failures left nothing behind");
}

/// Checks that a script runs as one commit on a table prepared for its mode.
pub fn scripts(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    let run = |mode, script: &str| db.script(&base, Some(("T", mode)), script).unwrap();
    let updated = run(ImportMode::Update, "\nINSERT INTO t VALUES (4,'four',40);\nDELETE FROM t WHERE id = 1");
    assert_eq!(db.lines(&updated), ["2|two|20", "3|three|30", "4|four|40"]);
    let commit = engine.commit(db.id, &updated).unwrap().unwrap();
    assert_eq!((commit.message.as_str(), commit.parents), ("script", vec![base.clone()]));
    assert_eq!(db.lines(&run(ImportMode::Replace, "INSERT INTO t VALUES (1,'only',1);")), ["1|only|1"]);
    let again = "CREATE TABLE t(id INTEGER PRIMARY KEY, x TEXT); INSERT INTO t VALUES (1,'new')";
    assert_eq!(db.lines(&run(ImportMode::Overwrite, again)), ["1|new"]);
    let made = db.script(&db.first, Some(("t", ImportMode::Create)), again).unwrap();
    assert_eq!(db.lines(&made), ["1|new"]);
    let made = db.script(&db.first, Some(("t", ImportMode::Overwrite)), again).unwrap();
    assert_eq!(db.lines(&made), ["1|new"]);
    let any = db.script(&base, None, "DELETE FROM t WHERE id = 1; CREATE TABLE u(a TEXT)").unwrap();
    assert_eq!((db.lines(&any).len(), engine.tables(db.id, &any).unwrap().len()), (2, 2));
    assert_eq!(db.script(&base, None, "UPDATE t SET a = 'one' WHERE id = 1").unwrap(), base, "nothing changed");
}

/// Checks that a failed script names the line of the failed statement and changes nothing.
pub fn refused_scripts(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    let told = |script: &str| match db.script(&base, Some(("t", ImportMode::Update)), script) {
        Err(EngineError::Import(FormatError::Rows(problems))) => {
            problems.into_iter().map(|problem| (problem.line, problem.detail)).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    let gone = "query error: table not found: gone".to_owned();
    assert_eq!(told("DELETE FROM t WHERE id = 1;\n\n  DELETE FROM gone\nWHERE id = 1;"), [(3, gone)]);
    let word = "query error: statement not allowed: COMMIT".to_owned();
    assert_eq!(told("DELETE FROM t WHERE id = 1;\nCOMMIT;"), [(2, word)]);
    let taken = "query error: UNIQUE constraint failed: t.id".to_owned();
    assert_eq!(told("INSERT INTO t VALUES (1,'again',0)"), [(1, taken)]);

    let script = "DELETE FROM t WHERE id = 1";
    assert!(matches!(db.script(&base, Some(("t", ImportMode::Create)), script), Err(EngineError::TableExists(_))));
    for mode in [ImportMode::Update, ImportMode::Replace] {
        assert!(matches!(db.script(&base, Some(("u", mode)), script), Err(EngineError::NoSuchTable(_))));
    }
    let left = db.script(&base, Some(("u", ImportMode::Create)), script);
    assert!(matches!(left, Err(EngineError::Import(FormatError::File(_)))), "{left:?}");
    assert_eq!(db.lines(&base).len(), 3);
    let next = db.write(&base, 61, "DELETE FROM t WHERE id = 3");
    assert_eq!(db.lines(&next), ["1|one|10", "2|two|20"], "the failures left nothing behind");
}

/// Checks that writers of one database are queued and do not block readers.
pub fn at_once(engine: &dyn Engine) {
    let (db, base) = Db::with_rows(engine);
    std::thread::scope(|scope| {
        let (db, base) = (&db, &base);
        let writers: Vec<_> = (10..14)
            .map(|id| scope.spawn(move || (id, db.write(base, id, &format!("INSERT INTO t VALUES ({id},'new',0)")))))
            .collect();
        for _ in 0..10 {
            assert_eq!(db.lines(base).len(), 3);
        }
        for writer in writers {
            let (id, head) = writer.join().unwrap();
            assert_eq!(db.lines(&head).last(), Some(&format!("{id}|new|0")));
            assert_eq!(db.lines(&head).len(), 4);
        }
    });
}
