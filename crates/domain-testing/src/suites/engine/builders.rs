//! Databases, values and sources that the checks share.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

use uuid::Uuid;

use branchyard_domain::entities::{Cell, ImportMode, RowResolution, Side, Signature};
use branchyard_domain::ports::{
    CollectedRows, Engine, EngineError, FormatError, ImportColumn, ImportJob, ImportTarget, MergeJob, MergeOutcome,
    ReadQuery, RowSource, ScriptJob, SqlFailure, WriteJob,
};
use branchyard_domain::values::{CommitHash, DatabaseId, Timestamp};

pub(super) const LONG: Duration = Duration::from_secs(60);

/// A database of a test, removed on drop.
pub(super) struct Db<'a> {
    pub(super) engine: &'a dyn Engine,
    pub(super) id: DatabaseId,
    pub(super) first: CommitHash,
}

impl<'a> Db<'a> {
    pub(super) fn new(engine: &'a dyn Engine) -> Self {
        let id = fresh_id();
        let first = engine.create(id, &author(0), "Initialize database").unwrap();
        Self { engine, id, first }
    }

    /// Creates a database with a table `t(id, a, b)` of three rows. Returns the head too.
    pub(super) fn with_rows(engine: &'a dyn Engine) -> (Self, CommitHash) {
        let db = Self::new(engine);
        let create = "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b INTEGER); \
                      INSERT INTO t VALUES (1,'one',10),(2,'two',20),(3,'three',30)";
        let head = db.write(&db.first, 1, create);
        (db, head)
    }

    pub(super) fn try_write(&self, base: &CommitHash, second: i64, sql: &str) -> Result<MergeOutcome, EngineError> {
        let author = author(second);
        let job = WriteJob { base, statements: sql, message: sql, then_merge: None, author: &author, timeout: LONG };
        Ok(self.engine.write(self.id, &job)?.outcome)
    }

    pub(super) fn write(&self, base: &CommitHash, second: i64, sql: &str) -> CommitHash {
        head(self.try_write(base, second, sql).unwrap())
    }

    pub(super) fn try_read(&self, at: &CommitHash, sql: &str) -> Result<CollectedRows, EngineError> {
        let mut rows = CollectedRows::default();
        self.engine.read(self.id, at, &ReadQuery::new(sql, LONG), &mut rows)?;
        Ok(rows)
    }

    pub(super) fn lines(&self, at: &CommitHash) -> Vec<String> {
        self.try_read(at, "SELECT * FROM t ORDER BY id").unwrap().lines()
    }

    pub(super) fn merge(
        &self,
        ours: &CommitHash,
        theirs: &CommitHash,
        resolve: &BTreeMap<String, Side>,
    ) -> MergeOutcome {
        self.merge_rows(ours, theirs, resolve, &[]).unwrap()
    }

    /// Merges with decisions about rows.
    pub(super) fn merge_rows(
        &self,
        ours: &CommitHash,
        theirs: &CommitHash,
        resolve: &BTreeMap<String, Side>,
        rows: &[RowResolution],
    ) -> Result<MergeOutcome, EngineError> {
        let (author, message, timeout) = (author(100), "merge", LONG);
        let (author, fast_forward) = (&author, true);
        let job = MergeJob { ours, theirs, message, author, resolve, rows, fast_forward, timeout };
        self.engine.merge(self.id, &job)
    }

    /// Merges with a commit in any case.
    pub(super) fn merge_with_commit(&self, ours: &CommitHash, theirs: &CommitHash) -> CommitHash {
        let (author, resolve) = (author(101), BTreeMap::new());
        let (message, author, resolve, timeout) = ("join", &author, &resolve, LONG);
        let job = MergeJob { ours, theirs, message, author, resolve, rows: &[], fast_forward: false, timeout };
        head(self.engine.merge(self.id, &job).unwrap())
    }

    pub(super) fn import(
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
    pub(super) fn script(
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

impl Db<'_> {
    /// Runs `work` while a script blocks the write queue of this database.
    pub(super) fn while_written(&self, base: &CommitHash, work: impl FnOnce()) {
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

impl Drop for Db<'_> {
    fn drop(&mut self) {
        let removed = self.engine.remove(self.id);
        assert!(removed.is_ok() || std::thread::panicking(), "{removed:?}");
    }
}

/// A script that reports when the engine has begun to read it, and ends when the test releases it.
pub(super) struct HeldScript {
    pub(super) begun: Option<mpsc::Sender<()>>,
    pub(super) let_go: mpsc::Receiver<()>,
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

pub(super) fn author(second: i64) -> Signature {
    let at = Timestamp::from_seconds(1_767_000_000 + second);
    Signature { name: "Ada".to_owned(), email: "ada@example.org".to_owned(), at }
}

/// Returns an id that is unique across calls.
pub(super) fn fresh_id() -> DatabaseId {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    DatabaseId::from_uuid(Uuid::from_u64_pair(
        0x0190_0000_0000_7000 | u64::from(std::process::id()) << 16,
        1 << 63 | number,
    ))
}

pub(super) fn no_commit() -> CommitHash {
    CommitHash::parse(&"0123456789".repeat(4)).unwrap()
}

pub(super) fn head(outcome: MergeOutcome) -> CommitHash {
    match outcome {
        MergeOutcome::Head(head) => head,
        MergeOutcome::Conflicts(tables) => panic!("conflicts in {tables:?}"),
    }
}

pub(super) fn sql_failure<T: std::fmt::Debug>(result: Result<T, EngineError>) -> (SqlFailure, u32) {
    match result {
        Err(EngineError::Sql { failure, statement }) => (failure, statement),
        other => panic!("not a failure of a statement: {other:?}"),
    }
}

/// The rows of an import, followed by an optional error.
pub(super) struct Given {
    pub(super) rows: Vec<Vec<Cell>>,
    pub(super) at: usize,
    pub(super) fault: Option<FormatError>,
}

impl RowSource for Given {
    fn next(&mut self, row: &mut Vec<Cell>) -> Result<Option<u64>, FormatError> {
        let Some(next) = self.rows.get(self.at) else { return self.fault.take().map_or(Ok(None), Err) };
        row.clone_from(next);
        self.at += 1;
        Ok(Some(u64::try_from(self.at + 1).unwrap()))
    }
}

pub(super) fn int(number: i64) -> Cell {
    Cell::Integer(number)
}

pub(super) fn text(text: &str) -> Cell {
    Cell::Text(text.as_bytes().to_vec())
}

pub(super) fn row(id: i64, a: &str, b: i64) -> Option<Vec<(String, Cell)>> {
    Some(vec![("id".to_owned(), int(id)), ("a".to_owned(), text(a)), ("b".to_owned(), int(b))])
}

pub(super) fn key(id: i64) -> Vec<(String, Cell)> {
    vec![("id".to_owned(), int(id))]
}
