//! Creating, reading, writing and copying databases.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use branchyard_domain::entities::{Cell, Signature};
use branchyard_domain::ports::{
    CancellationToken, CollectedRows, Column, Engine, EngineError, ReadQuery, RowSink, ValueRef,
};
use branchyard_domain::values::{CommitHash, Timestamp};
use branchyard_domain_testing::Watchdog;
use branchyard_engine_doltlite::{EngineOptions, Long, WatchedCall, YieldHook};

use crate::support::{EngineHarness, LONG, ada, id, text};

const T: &str = "create table t(id integer primary key, v text); insert into t values (1, 'a'), (2, 'b')";

#[test]
fn a_new_database_has_one_empty_commit() {
    let harness = EngineHarness::new();
    let commit = harness.engine.commit(id(1), &harness.base).unwrap().unwrap();
    assert_eq!(commit.parents, []);
    assert_eq!(commit.message, "Create database");
    assert_eq!(commit.author, ada());
    let log = harness.engine.log(id(1), &harness.base.clone().into(), 10).unwrap();
    assert_eq!(log.into_iter().map(|entry| entry.commit).collect::<Vec<_>>(), [commit]);
    assert_eq!(harness.engine.tables(id(1), &harness.base).unwrap(), []);
    assert_eq!(harness.engine.list().unwrap(), [id(1)]);
    assert!(!harness.engine.is_empty().unwrap());
    assert!(harness.engine.size_bytes(id(1)).unwrap() > 0);
    assert_eq!(harness.engine.verify(id(1), std::slice::from_ref(&harness.base)).unwrap(), [] as [String; 0]);
}

#[test]
fn writes_start_from_any_commit() {
    let harness = EngineHarness::new();
    let first = harness.write(&harness.base, T);
    let left = harness.write(&first, "update t set v = 'l' where id = 1");
    let right = harness.write(&first, "update t set v = 'r' where id = 1");
    assert_eq!(harness.read(&left, "select v from t order by id"), [[text("l")], [text("b")]]);
    assert_eq!(harness.read(&right, "select v from t order by id"), [[text("r")], [text("b")]]);
    assert_eq!(harness.read(&first, "select v from t order by id"), [[text("a")], [text("b")]]);
    assert_eq!(harness.write(&left, "update t set v = v"), left);
    assert_eq!(harness.write(&left, "select 1; insert into t values (9, 'x'); delete from t where id = 9"), left);
    let commit = harness.engine.commit(id(1), &left).unwrap().unwrap();
    assert_eq!(commit.parents.as_slice(), std::slice::from_ref(&first));
    assert_eq!(commit.message, "Run SQL query");
    assert_eq!(commit.author, ada());

    let engine = &harness.engine;
    assert!(engine.is_ancestor(id(1), &first, &left).unwrap());
    assert!(engine.is_ancestor(id(1), &first, &left).unwrap());
    assert!(engine.is_ancestor(id(1), &left, &left).unwrap());
    assert!(!engine.is_ancestor(id(1), &left, &right).unwrap());
    assert!(!engine.is_ancestor(id(1), &left, &first).unwrap());
    assert_eq!(engine.merge_base(id(1), &left, &right).unwrap(), Some(first.clone()));
    let log = engine.log(id(1), &left.clone().into(), 10).unwrap();
    assert_eq!(log.iter().map(|entry| &entry.commit.hash).collect::<Vec<_>>(), [&left, &first, &harness.base]);
    let log = engine.log(id(1), &log[0].next, 1).unwrap();
    assert_eq!(log.iter().map(|entry| &entry.commit.hash).collect::<Vec<_>>(), [&first]);
}

#[test]
fn missing_commits_and_databases() {
    let harness = EngineHarness::new();
    let missing = CommitHash::parse(&"1".repeat(40)).unwrap();
    assert_eq!(harness.engine.commit(id(1), &missing).unwrap(), None);
    let is_missing = |error: EngineError| matches!(error, EngineError::NoSuchCommit(hash) if hash == missing);
    assert!(is_missing(harness.engine.log(id(1), &missing.clone().into(), 1).unwrap_err()));
    assert!(is_missing(harness.engine.tables(id(1), &missing).unwrap_err()));
    assert!(is_missing(harness.try_write(id(1), &missing, "select 1", LONG).unwrap_err()));
    assert!(is_missing(harness.engine.merge_base(id(1), &missing, &harness.base).unwrap_err()));
    assert!(is_missing(harness.engine.merge_base(id(1), &harness.base, &missing).unwrap_err()));
    assert!(is_missing(harness.engine.is_ancestor(id(1), &harness.base, &missing).unwrap_err()));
    assert!(!harness.engine.is_ancestor(id(1), &missing, &harness.base).unwrap());
    let query = ReadQuery::new("select 1", LONG);
    assert!(is_missing(harness.engine.read(id(1), &missing, &query, &mut CollectedRows::default()).unwrap_err()));
    assert!(matches!(harness.engine.commit(id(7), &missing), Err(EngineError::Damaged(_))));
    // The failed calls created nothing.
    assert_eq!(harness.engine.list().unwrap(), [id(1)]);
    assert_eq!(harness.engine.verify(id(1), &[missing]).unwrap().len(), 1);
}

#[test]
fn copies_go_their_own_way_and_are_removed() {
    let harness = EngineHarness::new();
    let first = harness.write(&harness.base, T);
    harness.engine.copy(id(1), id(2)).unwrap();
    let fork = harness.write_to(id(2), &first, "insert into t values (3, 'fork')");
    assert_eq!(harness.engine.commit(id(1), &fork).unwrap(), None);
    let own = harness.write(&first, "insert into t values (4, 'own')");

    harness.engine.fetch(id(1), id(2), &fork).unwrap();
    harness.engine.fetch(id(1), id(2), &fork).unwrap();
    assert_eq!(harness.read(&fork, "select v from t where id = 3"), [[text("fork")]]);
    assert_eq!(harness.engine.merge_base(id(1), &own, &fork).unwrap(), Some(first.clone()));
    assert!(harness.read_failure(&fork, "select * from dolt_remotes").contains("not allowed"));
    let nowhere = CommitHash::parse(&"2".repeat(40)).unwrap();
    assert!(matches!(harness.engine.fetch(id(1), id(2), &nowhere), Err(EngineError::NoSuchCommit(_))));

    // A commit older than the head of the source's branch.
    let more = harness.write_to(id(2), &fork, "insert into t values (5, 'x')");
    let other = harness.write_to(id(2), &first, "insert into t values (6, 'y')");
    harness.engine.fetch(id(1), id(2), &more).unwrap();
    harness.engine.fetch(id(1), id(2), &other).unwrap();
    assert_eq!(harness.engine.verify(id(1), &[more, other, own, fork]).unwrap(), [] as [String; 0]);

    harness.engine.remove(id(2)).unwrap();
    harness.engine.remove(id(2)).unwrap();
    assert_eq!(harness.engine.list().unwrap(), [id(1)]);
    assert!(harness.engine.commit(id(2), &first).is_err());
    // A second copy replaces the first.
    harness.engine.copy(id(1), id(2)).unwrap();
    harness.engine.copy(id(1), id(2)).unwrap();
    assert!(harness.engine.commit(id(2), &first).unwrap().is_some());
    let created = harness.engine.create(id(2), &ada(), "Again").unwrap();
    assert!(harness.engine.commit(id(2), &first).unwrap().is_none());
    assert!(harness.engine.commit(id(2), &created).unwrap().is_some());
}

#[test]
fn odd_authors_and_messages_are_kept_as_far_as_the_engine_can() {
    let harness = EngineHarness::new();
    for (n, (name, email, at, message)) in [
        ("O'Brien <x>\n", "", -1, "two\nlines"),
        ("", "a@b", 0, ""),
        ("名前", "@", 253_402_300_799, "nul \0 in it"),
        ("--amend", "--amend", 1, "--amend"),
    ]
    .into_iter()
    .enumerate()
    {
        let author = Signature { name: name.into(), email: email.into(), at: Timestamp::from_seconds(at) };
        let hash = harness.engine.create(id(n as u8 + 10), &author, message).unwrap();
        let commit = harness.engine.commit(id(n as u8 + 10), &hash).unwrap().unwrap();
        assert_eq!(commit.author.email, email);
        assert_eq!(commit.author.at.as_seconds(), at);
    }
    let long = "é".repeat(40_000);
    let hash = harness.engine.create(id(20), &ada(), &long).unwrap();
    assert_eq!(harness.engine.commit(id(20), &hash).unwrap().unwrap().message.len(), 65_534);
}

#[test]
fn columns_are_described() {
    let harness = EngineHarness::new();
    let at = harness.write(
        &harness.base,
        "create table t(id integer primary key, v varchar(9), n); create view w as select v as x from t",
    );
    let taken = harness.try_read(&at, "select id, v as other, n, id + 1, rowid from t", LONG).unwrap();
    let columns: Vec<_> = taken
        .columns
        .iter()
        .map(|c| (c.name.as_str(), c.declared_type.as_deref(), c.is_primary_key, c.source_table.as_str()))
        .collect();
    assert_eq!(
        columns,
        [
            ("id", Some("INTEGER"), true, "t"),
            ("other", Some("VARCHAR(9)"), false, "t"),
            ("n", None, false, "t"),
            ("id + 1", None, false, ""),
            ("id", Some("INTEGER"), true, "t"),
        ]
    );
    let taken = harness.try_read(&at, "select x, (select max(id) from t) as m from w", LONG).unwrap();
    assert_eq!(taken.columns[0].source_table, "t");
    assert_eq!(taken.columns[1].source_table, "");
    assert!(harness.try_read(&at, "select * from dolt_log", LONG).unwrap().rows.len() == 2);
    assert!(harness.try_read(&at, "select value from json_each('[1]')", LONG).unwrap().rows.len() == 1);
    assert!(harness.read(&at, "select dolt_version() is not null") == [[Cell::Integer(1)]]);
    assert!(harness.try_read(&at, "explain query plan select * from t", LONG).is_ok());
    assert!(harness.try_read(&at, "pragma table_info(t)", LONG).unwrap().rows.len() == 3);
}

#[test]
fn determinism() {
    let harness = EngineHarness::new();
    let at = harness.write(&harness.base, T);
    let deterministic = |sql: &str| {
        harness
            .engine
            .read(id(1), &at, &ReadQuery::new(sql, LONG), &mut CollectedRows::default())
            .unwrap()
            .deterministic
    };
    assert!(deterministic("select *, upper(v) from t"));
    assert!(deterministic("select * from dolt_log"));
    assert!(!deterministic("select random()"));
    assert!(!deterministic("select current_timestamp"));
    assert!(!deterministic("select date('now')"));
    assert!(deterministic("select dolt_hashof('HE' || 'AD'), dolt_hashof_db()"));
}

struct FirstOnly(u32);

impl RowSink for FirstOnly {
    fn columns(&mut self, _: &[branchyard_domain::ports::Column]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn row(&mut self, _: &[ValueRef<'_>]) -> ControlFlow<()> {
        self.0 += 1;
        thread::sleep(std::time::Duration::from_millis(600));
        if self.0 == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[test]
fn a_slow_sink_costs_no_time_and_can_stop() {
    let harness = EngineHarness::new();
    let mut sink = FirstOnly(0);
    let sql = "with recursive n(x) as (select 1 union all select x + 1 from n) select x from n";
    let query = ReadQuery::new(sql, std::time::Duration::from_secs(1));
    harness.engine.read(id(1), &harness.base, &query, &mut sink).unwrap();
    assert_eq!(sink.0, 2);
}

#[test]
fn a_read_that_nobody_waits_for_ends() {
    let _watchdog = Watchdog::start();
    let harness = EngineHarness::new();
    let endless = "with recursive n(x) as (select 1 union all select x + 1 from n) select sum(x) from n";
    let query = ReadQuery::new(endless, LONG);
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(std::time::Duration::from_millis(100));
            query.canceled.cancel();
        });
        harness.engine.read(id(1), &harness.base, &query, &mut CollectedRows::default()).unwrap_err();
    });
}

/// Refuses the third call of `go_on`, and then every read of the refused shape.
#[derive(Default)]
struct Strict {
    asked: AtomicU32,
    shape: AtomicU64,
    refused: AtomicU64,
}

impl YieldHook for Strict {
    fn begin(&self, shape: u64, _: &CancellationToken) -> ControlFlow<()> {
        self.shape.store(shape, Ordering::Relaxed);
        if self.refused.load(Ordering::Relaxed) == shape { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn go_on(&self, _: &CancellationToken) -> ControlFlow<()> {
        // Waiting in the hook does not count against the time limit.
        thread::sleep(Duration::from_millis(1_000));
        if self.asked.fetch_add(1, Ordering::Relaxed) < 2 {
            return ControlFlow::Continue(());
        }
        self.refused.store(self.shape.load(Ordering::Relaxed), Ordering::Relaxed);
        ControlFlow::Break(())
    }

    fn pause(&self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn call(&self) -> Option<Arc<dyn WatchedCall>> {
        None
    }
}

#[test]
fn a_call_that_computes_for_long_asks_whether_it_may() {
    let strict = Arc::new(Strict::default());
    let asked = &strict.asked;
    let long = Long { every: Duration::from_millis(30), turns: strict.clone() };
    let harness = EngineHarness::with(EngineOptions { long: Some(long), ..EngineOptions::default() });

    harness
        .engine
        .read(id(1), &harness.base, &ReadQuery::new("select 1", LONG), &mut CollectedRows::default())
        .unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 0);

    let endless = "with recursive n(x) as (select 1 union all select x + 1 from n) select sum(x) from n";
    let query = ReadQuery::new(endless, Duration::from_millis(1_900));
    let ended = harness.engine.read(id(1), &harness.base, &query, &mut CollectedRows::default());
    assert!(matches!(ended, Err(EngineError::Busy)), "{ended:?}");
    assert_eq!(asked.load(Ordering::Relaxed), 3);

    let again =
        ReadQuery::new("with recursive n(x) as (select 2 union all select x + 3 from n)\nselect sum(x) from n", LONG);
    let ended = harness.engine.read(id(1), &harness.base, &again, &mut CollectedRows::default());
    assert!(matches!(ended, Err(EngineError::Busy)), "{ended:?}");
    assert_eq!(asked.load(Ordering::Relaxed), 3, "it did not begin");
    harness
        .engine
        .read(id(1), &harness.base, &ReadQuery::new("select 1", LONG), &mut CollectedRows::default())
        .unwrap();
}

/// Lets every call continue but none wait for memory, and counts pauses and silences.
#[derive(Debug, Default)]
struct Counting {
    pauses: AtomicU32,
    silences: Arc<Silences>,
}

#[derive(Debug, Default)]
struct Silences(AtomicU32);

impl WatchedCall for Silences {
    fn is_silent(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl YieldHook for Counting {
    fn begin(&self, _: u64, _: &CancellationToken) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn go_on(&self, _: &CancellationToken) -> ControlFlow<()> {
        // Waiting in the hook is not silence.
        thread::sleep(Duration::from_millis(100));
        ControlFlow::Continue(())
    }

    fn pause(&self) -> ControlFlow<()> {
        self.pauses.fetch_add(1, Ordering::Relaxed);
        ControlFlow::Break(())
    }

    fn call(&self) -> Option<Arc<dyn WatchedCall>> {
        Some(self.silences.clone())
    }
}

#[test]
fn a_call_within_something_that_cannot_be_stopped_is_told_of() {
    let counting = Arc::new(Counting::default());
    let long = Long { every: Duration::from_millis(5), turns: counting.clone() };
    let harness = EngineHarness::with(EngineOptions { long: Some(long), ..EngineOptions::default() });
    let read = |sql: &str| {
        harness.engine.read(id(1), &harness.base, &ReadQuery::new(sql, LONG), &mut CollectedRows::default())
    };
    // Each call of a function is longer than the previous one, up to far beyond the reporting threshold on any machine.
    let is_told = (18..=26).any(|power| {
        let bytes = 1 << power;
        read(&format!("select length(replace(hex(zeroblob({bytes})), '0', '1'))")).unwrap();
        counting.silences.0.load(Ordering::Relaxed) > 0
    });
    assert!(is_told);
    assert_eq!(counting.pauses.load(Ordering::Relaxed), 0);
}

#[test]
fn a_call_that_waits_for_memory_says_so_and_may_be_refused() {
    let counting = Arc::new(Counting::default());
    let long = Long { every: Duration::from_millis(5), turns: counting.clone() };
    let options = EngineOptions { long: Some(long), total_memory: Some(64 << 20), ..EngineOptions::default() };
    let harness = EngineHarness::with(options);
    let large = |rows: u32| {
        let q = format!(
            "with recursive n(x) as (select 1 union all select x + 1 from n where x < {rows})
             select x, y from (select x, printf('%.*c%d', 1000000, 'a', x) as y from n) order by y"
        );
        let mut inner = None;
        let mut during = OnRow(|| {
            inner.get_or_insert_with(|| {
                let q = q.as_str();
                thread::scope(|scope| {
                    let read = || {
                        harness.engine.read(
                            id(1),
                            &harness.base,
                            &ReadQuery::new(q, LONG),
                            &mut CollectedRows::default(),
                        )
                    };
                    scope.spawn(read).join().unwrap().map(drop)
                })
            });
        });
        let outer = harness.engine.read(id(1), &harness.base, &ReadQuery::new(&q, LONG), &mut during);
        (outer.map(drop), inner.unwrap())
    };
    let (outer, inner) = large(40);
    outer.unwrap();
    assert!(matches!(inner, Err(EngineError::Busy)), "{inner:?}");
    assert_eq!(counting.pauses.load(Ordering::Relaxed), 1);
}

/// Calls a closure for each row.
struct OnRow<F>(F);

impl<F: FnMut()> RowSink for OnRow<F> {
    fn columns(&mut self, _: &[Column]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn row(&mut self, _: &[ValueRef<'_>]) -> ControlFlow<()> {
        (self.0)();
        ControlFlow::Continue(())
    }
}

#[test]
fn eight_writers_and_readers_get_along() {
    let harness = EngineHarness::new();
    let first = harness.write(&harness.base, T);
    thread::scope(|scope| {
        for writer in 0..8 {
            let (harness, first) = (&harness, &first);
            scope.spawn(move || {
                let mut head = first.clone();
                for n in 0..20 {
                    head = harness.write(&head, &format!("insert into t values ({}, 'w')", 100 + n));
                }
                assert_eq!(harness.read(&head, "select count(*) from t"), [[Cell::Integer(22)]], "{writer}");
            });
        }
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    assert_eq!(harness.read(&first, "select count(*), max(v) from t"), [[Cell::Integer(2), text("b")]]);
                }
            });
        }
    });
    assert_eq!(harness.engine.verify(id(1), &[first]).unwrap(), [] as [String; 0]);
}

#[test]
fn tables_are_described() {
    let harness = EngineHarness::new();
    let at = harness.write(
        &harness.base,
        "create table a(x text, y int not null default 7, primary key (y, x));
         create unique index ax on a(x);
         create table \"odd \"\" name\"(id integer primary key, ax text, ay int, z references a, foreign key (ay, ax) references a(y, x));
         create view v as select * from a;",
    );
    let tables = harness.engine.tables(id(1), &at).unwrap();
    assert_eq!(tables.iter().map(|table| table.name.as_str()).collect::<Vec<_>>(), ["a", "odd \" name", "v"]);
    assert_eq!(tables[0].primary_key, ["y", "x"]);
    assert!(tables[0].columns.iter().all(|column| !column.nullable && column.in_primary_key));
    assert_eq!(tables[0].columns[1].default.as_deref(), Some("7"));
    assert!(tables[0].indexes.iter().any(|index| index.name == "ax" && index.unique && index.columns == ["x"]));
    assert_eq!(tables[1].foreign_keys.len(), 2);
    assert_eq!(tables[1].foreign_keys[1].columns, ["ay", "ax"]);
    assert_eq!(tables[1].foreign_keys[1].references_columns, ["y", "x"]);
    assert_eq!(tables[1].foreign_keys[0].references_columns, [] as [String; 0]);
    assert_eq!(tables[2].create_statement, "CREATE VIEW v as select * from a");
    assert_eq!(tables[2].columns.len(), 2);
}

#[test]
fn altering_after_changes_loses_nothing() {
    let harness = EngineHarness::new();
    let at = harness.write(
        &harness.base,
        "CREATE TABLE t(a TEXT PRIMARY KEY, b); INSERT INTO t VALUES('x', 1); DELETE FROM t WHERE a = 'x';
         ALTER TABLE t ADD COLUMN c DEFAULT 5; INSERT INTO t VALUES('x', 1, NULL)",
    );
    assert_eq!(harness.read(&at, "select c from t"), [[Cell::Null]]);
}

#[test]
fn big_writes_leave_nothing_when_they_fail() {
    let harness = EngineHarness::new();
    let at = harness.write(&harness.base, T);
    let rows = |from: u32| {
        format!(
            "with recursive n(x) as (select {from} union all select x + 1 from n where x < {from} + 149999)
             insert into t select x, 'some text for row number ' || x from n;"
        )
    };
    let many = format!("{}{}{}", rows(1_000), rows(1_000_000), rows(2_000_000));
    let (failure, statement) = harness.write_failure(&at, &format!("{many} alter table t add column z; nonsense"));
    assert!(failure.contains("syntax error"), "{failure}");
    assert_eq!(statement, 5);
    assert_eq!(harness.write(&at, "select 1"), at);
    let head = harness.write(&at, &format!("{many} create index i on t(v); create table u as select * from t"));
    assert_eq!(harness.read(&head, "select count(*) from u"), [[Cell::Integer(450_002)]]);
    assert_eq!(harness.engine.commit(id(1), &head).unwrap().unwrap().parents, [at]);
}

#[test]
fn the_engine_keeps_every_promise_of_the_port() {
    let folder = tempfile::tempdir().unwrap();
    let engine = crate::tested::open(&folder.path().join("databases"), EngineOptions::default());
    branchyard_domain_testing::suites::engine::run_all(&*engine);
}

#[test]
fn a_file_is_backed_up_under_writes_and_put_back() {
    let harness = EngineHarness::new();
    let base = harness.write(&harness.base, T);
    let to = harness.folder.path().join("copy.db");
    thread::scope(|scope| {
        scope.spawn(|| (0..20).fold(base.clone(), |at, n| harness.write(&at, &format!("update t set v = {n}"))));
        harness.engine.back_up(id(1), &to).unwrap();
    });
    harness.engine.remove(id(1)).unwrap();
    assert!(matches!(harness.engine.back_up(id(1), &to.with_extension("2")), Err(EngineError::Damaged(_))));
    harness.engine.restore(id(1), &to).unwrap();
    assert_eq!(harness.read(&base, "select v from t order by id"), [[text("a")], [text("b")]]);
    assert_eq!(harness.engine.verify(id(1), &[base]).unwrap(), [] as [String; 0]);
    std::fs::write(&to, "something else").unwrap();
    assert!(harness.engine.restore(id(2), &to).is_err());
    assert_eq!(harness.engine.list().unwrap(), [id(1)]);
}

#[test]
fn what_a_killed_process_left_is_removed_when_asked() {
    let harness = EngineHarness::new();
    let folder = harness.folder.path().join("databases");
    let left = folder.join("tmp/1-0.db");
    std::fs::write(&left, "half").unwrap();
    // A command opens the folder too while a server runs.
    let second = crate::tested::open(&folder, EngineOptions::default());
    assert!(left.exists());
    second.clear_temporary().unwrap();
    assert!(!left.exists());
    harness.engine.copy(id(1), id(2)).unwrap();
}
