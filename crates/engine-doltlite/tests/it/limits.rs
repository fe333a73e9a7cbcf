//! The limits of user statements and of stored expressions: time, memory and nesting.

use std::ops::ControlFlow;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use branchyard_domain::entities::{Cell, Change};
use branchyard_domain::ports::{
    Arguments, CancellationToken, CollectedRows, Column, Engine as _, EngineError, MergeJob, MergeOutcome, ReadQuery,
    RowPage, RowSink, SessionError, SqlFailure, SqlPower, SqlSession, StatementBounds, ValueRef,
};
use branchyard_domain::values::CommitHash;
use branchyard_domain_testing::Watchdog;
use branchyard_engine_doltlite::EngineOptions;

use crate::support::{EngineHarness, LONG, ada, id, text};

fn nested(depth: usize) -> String {
    format!("select {}1{}", "(".repeat(depth), ")".repeat(depth))
}

fn subqueries(depth: usize) -> String {
    format!("{}select 1{}", "select * from (".repeat(depth), ")".repeat(depth))
}

fn joins(depth: usize) -> String {
    format!("select count(*) from {}t{}", "(".repeat(depth), " join t using (id))".repeat(depth))
}

const NESTED: &str = "query error: parentheses, subqueries and joins are nested more than 100 deep; \
                      take parentheses out, or name the inner parts with WITH or CREATE VIEW";

#[test]
fn parentheses_subqueries_and_joins_nest_a_hundred_deep() {
    let harness = EngineHarness::new();
    let at = harness.write(&harness.base, "create table t(id integer primary key)");
    let reads = |sql: &str| harness.try_read(&at, sql, LONG);
    for make in [nested, subqueries] {
        reads(&make(100)).unwrap();
        assert_eq!(reads(&make(101)).unwrap_err().to_string(), NESTED);
    }
    // The engine allows 64 tables in a join.
    reads(&joins(63)).unwrap();
    for depth in [101, 700] {
        assert_eq!(reads(&joins(depth)).unwrap_err().to_string(), NESTED);
    }
    // Parentheses in texts, comments and names do not count.
    reads(&format!("select '{0}', \"{0}\" from (select 1 as [{0}]) -- {0}", "(".repeat(500))).unwrap();
    for sql in [
        nested(101),
        format!("create view v as {}", subqueries(101)),
        format!("create table x(a check {})", nested(101)),
    ] {
        assert_eq!(harness.write_failure(&at, &sql), (NESTED.to_owned(), 1));
        assert_eq!(harness.write_failure(&at, &format!("select 1; {sql}")), (NESTED.to_owned(), 2));
    }
    let Some(mut session) = session(&harness) else { return };
    let mut run =
        |sql: &str| session.run(sql, &Arguments::None, &bounds(LONG), &mut CollectedRows::default()).map(drop);
    run(&nested(100)).unwrap();
    let refused = run(&nested(101)).unwrap_err();
    assert!(
        matches!(&refused, SessionError::Statement { code: "ERROR", message } if NESTED.ends_with(message)),
        "{refused}"
    );
    assert!(session.describe(&subqueries(700)).is_err());
}

#[test]
fn an_expression_of_nine_hundred_parts_needs_no_parentheses() {
    let harness = EngineHarness::new();
    let at = harness.write(&harness.base, "create table t(id integer primary key); insert into t values (1)");
    for (operator, expected) in [(" + ", 900), (" and ", 1), (" or ", 1), (" - ", -898), (" | ", 1)] {
        let sql = format!("select {}", vec!["1"; 900].join(operator));
        assert_eq!(harness.read(&at, &sql), [[Cell::Integer(expected)]]);
    }
    let sql = format!("select count(*) from t where {}", vec!["id = 1"; 900].join(" and "));
    assert_eq!(harness.read(&at, &sql), [[Cell::Integer(1)]]);
}

#[test]
fn the_time_of_preparing_counts() {
    let _watchdog = Watchdog::start();
    let mut harness = EngineHarness::new();
    // Each view reads the previous one twice.
    let views = (1..60).map(|n| format!("create view v{n} as select a.x from v{} a, v{} b", n - 1, n - 1));
    let views: Vec<String> = ["create view v0 as select 1 as x".to_owned()].into_iter().chain(views).collect();
    let at = harness.write(&harness.base, &views.join("; "));
    let names = (1..60).map(|n| format!("c{n}(x) as (select a.x from c{} a, c{} b)", n - 1, n - 1));
    let names: Vec<String> = ["c0(x) as (select 1)".to_owned()].into_iter().chain(names).collect();
    let soon = Duration::from_millis(300);
    for sql in [
        "select * from v59",
        "select * from pragma_table_info('v59')",
        &format!("with {} select * from c59", names.join(", ")),
    ] {
        harness.try_read(&at, sql, soon).unwrap_err();
    }
    confine(&mut harness, Duration::from_secs(1), 256 << 20);
    // The call ends, either with definitions that leave out the views, or because it takes too long.
    let _ = harness.engine.tables(id(1), &at);
}

/// Statements with arguments of three megabytes each.
const LARGE: &[&str] = &[
    "select length(unhex(printf('%.*c', 3000000, 'z'), printf('%.*c', 3000000, 'é') || 'z'))",
    "with recursive n(x) as (select 1 union all select x + 1 from n where x < 200000),
        o(j) as (select '{' || group_concat('\"name ' || x || '\":' || x) || '}' from n) select length(json_patch(j, j)) from o",
    "with recursive n(x) as (select 1 union all select x + 1 from n where x < 200000),
        o(j) as (select '{' || group_concat('\"name ' || x || '\":' || x) || '}' from n) select length(jsonb_patch(j, j)) from o",
];

#[test]
fn calls_with_large_arguments_end() {
    let _watchdog = Watchdog::start();
    let harness = EngineHarness::new();
    for sql in LARGE {
        assert!(matches!(harness.read(&harness.base, sql)[0][0], Cell::Integer(n) if n >= 0), "{sql}");
    }
}

fn bounds(timeout: Duration) -> StatementBounds {
    StatementBounds { timeout, canceled: CancellationToken::default(), has_turn: true, commits_transactions: false }
}

/// Begins a session, if the engine serves sessions.
fn session(harness: &EngineHarness) -> Option<Box<dyn SqlSession>> {
    crate::tested::create_served(&harness.engine, id(9));
    crate::tested::session(&harness.engine, id(9), SqlPower::Write)
}

#[test]
fn sessions_have_the_same_limits() {
    let _watchdog = Watchdog::start();
    let harness = EngineHarness::new();
    let Some(mut session) = session(&harness) else { return };
    for sql in LARGE {
        session.run(sql, &Arguments::None, &bounds(LONG), &mut CollectedRows::default()).unwrap();
    }
    let like = "select printf('%.*c', 30000000, 'a') like '%' || printf('%.*c', 900, 'a') || 'b'";
    let ended = session.run(like, &Arguments::None, &bounds(Duration::from_millis(300)), &mut CollectedRows::default());
    assert!(matches!(ended, Err(SessionError::TimedOut(300))), "{ended:?}");
    let mut pattern = |length: usize| {
        let sql = format!("select 'a' like '{}'", "a".repeat(length));
        session.run(&sql, &Arguments::None, &bounds(LONG), &mut CollectedRows::default()).map(drop)
    };
    pattern(1000).unwrap();
    assert!(pattern(1001).unwrap_err().to_string().contains("LIKE or GLOB pattern too complex"));
}

/// Reopens the engine with this time limit and this memory per statement.
pub(crate) fn confine(harness: &mut EngineHarness, time: Duration, memory: usize) {
    let options = EngineOptions {
        statement_memory: memory,
        diff_timeout: time,
        count_timeout: time,
        trial_merge_timeout: time,
        verify_timeout: time,
        ..EngineOptions::default()
    };
    harness.engine = crate::tested::open(&harness.folder.path().join("databases"), options);
}

/// An expression that computes for some milliseconds.
pub(crate) const SLOW: &str = "length(hex(zeroblob(8000000 + abs(a % 2))))";
/// An expression that takes some ten megabytes.
pub(crate) const GREEDY: &str = "length(printf('%.*c', 40000000 + abs(a % 2), 'a'))";
/// Too short for twenty rows of [`SLOW`].
pub(crate) const SHORT: Duration = Duration::from_millis(30);

pub(crate) fn rows(from: u32, to: u32) -> String {
    format!("with recursive n(x) as (select {from} union all select x + 1 from n where x < {to}) select x, x from n")
}

fn page() -> RowPage {
    RowPage { after: None, limit: 10_000, bytes: 64 << 20 }
}

#[test]
fn what_a_diff_computes_has_the_time_of_a_statement() {
    let _watchdog = Watchdog::start();
    let mut harness = EngineHarness::new();
    // With a key on both sides the engine compares the rows itself, and computes no generated column.
    let define = |name: &str, key: &str| format!("create table {name}(id integer {key}, a, slow as ({SLOW}))");
    let base = harness.write(&harness.base, &format!("{}; {}", define("t", "primary key"), define("u", "")));
    let both = format!("insert into t(id, a) {0}; insert into u(id, a) {0}", rows(1, 20));
    let ours = harness.write(&base, &both);
    confine(&mut harness, SHORT, 256 << 20);
    for (table, from, to) in [
        ("u", &base, &ours),
        ("u", &ours, &base),
        ("u", &harness.base, &ours),
        ("t", &harness.base, &ours),
        ("t", &ours, &harness.base),
    ] {
        let ended = harness.engine.changed_rows(id(1), from, to, table, &page()).map(|changed| changed.more);
        assert!(matches!(ended, Err(EngineError::TimedOut(30))), "{table}: {ended:?}");
    }
    confine(&mut harness, LONG, 256 << 20);
    assert_eq!(harness.engine.changed_tables(id(1), &base, &ours).unwrap()[0].change, Change::Modified);
}

#[test]
fn what_a_merge_computes_has_the_limits_of_the_merge() {
    let _watchdog = Watchdog::start();
    let mut harness = EngineHarness::new();
    let define = format!(
        "create table t(id integer primary key, a, slow as ({SLOW}), check ({GREEDY} > 0)); create index i on t({SLOW})"
    );
    let base = harness.write(&harness.base, &define);
    let ours = harness.write(&base, "insert into t(id, a) values (1, 1)");
    let theirs = harness.write(&base, &format!("insert into t(id, a) {}", rows(10, 30)));
    let merge = |harness: &EngineHarness, timeout: Duration| {
        let resolve = std::collections::BTreeMap::new();
        let author = ada();
        let job = MergeJob {
            ours: &ours,
            theirs: &theirs,
            message: "Merge",
            author: &author,
            resolve: &resolve,
            rows: &[],
            fast_forward: true,
            timeout,
        };
        harness.engine.merge(id(1), &job)
    };
    let merged = merge(&harness, SHORT);
    assert!(matches!(merged, Err(EngineError::TimedOut(30))), "{merged:?}");
    confine(&mut harness, LONG, 24 << 20);
    let merged = merge(&harness, LONG);
    let greedy = |reason: &str| reason.starts_with("the merge takes more memory than the 24 MiB of a statement; ");
    assert!(matches!(&merged, Err(EngineError::CannotMerge(reason)) if greedy(reason)), "{merged:?}");
    // The trial returns the same error, the second time from the cache.
    for _ in 0..2 {
        let found = harness.engine.conflicts(id(1), &ours, &theirs, None, 0, 10);
        assert!(matches!(&found, Err(EngineError::CannotMerge(reason)) if greedy(reason)), "{found:?}");
    }
    confine(&mut harness, LONG, 256 << 20);
    assert!(matches!(merge(&harness, LONG), Ok(MergeOutcome::Head(_))));
}

#[test]
fn what_a_schema_computes_has_the_memory_of_a_statement() {
    let mut harness = EngineHarness::new();
    let define = |name: &str, key: &str| format!("create table {name}(id integer {key}, a, large as ({GREEDY}))");
    let base = harness.write(&harness.base, &format!("{}; {}", define("t", "primary key"), define("u", "")));
    let ours = harness.write(&base, "insert into t(id, a) values (1, 1), (2, 2); insert into u(id, a) values (1, 1)");
    harness.engine.changed_rows(id(1), &base, &ours, "t", &page()).unwrap();
    confine(&mut harness, LONG, 24 << 20);
    for (table, from) in [("u", &base), ("u", &harness.base), ("t", &harness.base)] {
        let ended = harness.engine.changed_rows(id(1), from, &ours, table, &page()).map(|changed| changed.more);
        assert!(matches!(&ended, Err(EngineError::Unavailable(text)) if text.contains("out of memory")), "{ended:?}");
    }
    assert_eq!(harness.read_failure(&ours, "select large from t"), "query error: out of memory");
    assert_eq!(harness.engine.changed_tables(id(1), &base, &ours).unwrap()[0].rows, Some((2, 0, 0)));
}

#[test]
fn counts_that_take_too_much_memory_are_left_out() {
    let mut harness = EngineHarness::new();
    let base = harness
        .write(&harness.base, "create table t(id integer primary key, v); insert into t values (1, zeroblob(9000000))");
    let ours = harness.write(&base, "update t set v = zeroblob(9000001)");
    assert_eq!(harness.engine.changed_tables(id(1), &base, &ours).unwrap()[0].rows, Some((0, 0, 1)));
    confine(&mut harness, LONG, 4 << 20);
    assert_eq!(harness.engine.changed_tables(id(1), &base, &ours).unwrap()[0].rows, None);
}

/// A sink that reports the first row, and blocks until it may continue.
struct Paused {
    begun: mpsc::Sender<()>,
    go_on: mpsc::Receiver<()>,
}

impl RowSink for Paused {
    fn columns(&mut self, _: &[Column]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn row(&mut self, _: &[ValueRef<'_>]) -> ControlFlow<()> {
        self.begun.send(()).unwrap();
        self.go_on.recv().unwrap();
        ControlFlow::Break(())
    }
}

/// A statement that holds 40 MB while its rows are taken.
const HOLDS: &str = "with recursive n(x) as (select 1 union all select x + 1 from n where x < 40)
    select x, y from (select x, printf('%.*c%d', 1000000, 'a', x) as y from n) order by y";

fn read(harness: &EngineHarness, at: &CommitHash, sql: &str) -> Result<CollectedRows, EngineError> {
    let mut taken = CollectedRows::default();
    harness.engine.read(id(1), at, &ReadQuery::new(sql, LONG), &mut taken).map(|_| taken)
}

#[test]
fn statements_share_their_memory_and_wait_for_it() {
    let harness = EngineHarness::with(EngineOptions { total_memory: Some(64 << 20), ..EngineOptions::default() });
    let at = harness.write(&harness.base, "create table t(id integer primary key, v text)");
    assert_eq!(read(&harness, &at, HOLDS).unwrap().rows.len(), 40);
    let ((begun, has_begun), (goes, go_on)) = (mpsc::channel(), mpsc::channel());
    thread::scope(|scope| {
        let holder = scope.spawn(|| {
            let mut sink = Paused { begun, go_on };
            harness.engine.read(id(1), &at, &ReadQuery::new(HOLDS, LONG), &mut sink).map(drop)
        });
        has_begun.recv().unwrap();
        // There is room for small statements.
        read(&harness, &at, "select 1").unwrap();
        harness.write(&at, "insert into t values (1, 'a')");
        // Large statements find no room, even after they have waited.
        let began = Instant::now();
        let refused = read(&harness, &at, HOLDS);
        assert!(matches!(refused, Err(EngineError::Busy)), "{refused:?}");
        // No load on the machine makes this shorter.
        assert!(began.elapsed() >= Duration::from_secs(5), "{:?}", began.elapsed());
        let write = format!("insert into t select x, y from ({HOLDS})");
        let refused = harness.try_write(id(1), &at, &write, LONG);
        assert!(matches!(refused, Err(EngineError::Busy)), "{refused:?}");
        // The memory that one statement returns goes to the next.
        let waiting = scope.spawn(|| read(&harness, &at, HOLDS).map(|taken| taken.rows.len()));
        thread::sleep(Duration::from_millis(300));
        goes.send(()).unwrap();
        holder.join().unwrap().unwrap();
        assert!(matches!(waiting.join().unwrap(), Ok(40)));
    });
    // A single statement cannot have more than the pool.
    let sql = HOLDS.replace("< 40", "< 100");
    assert!(
        matches!(read(&harness, &at, &sql), Err(EngineError::Sql { failure: SqlFailure::Engine(text), .. }) if text == "out of memory")
    );
    harness.write(&at, "insert into t values (2, 'b')");
}

/// A connection that was refused memory, or whose time was over, is not reused, because the engine may have lost its
/// list of branches.
#[test]
fn after_a_write_that_found_no_memory_or_time_the_next_one_works() {
    let insert = |rows: usize| {
        format!(
            "insert into t (v) with recursive n(x) as (select 1 union all select x + 1 from n where x < {rows})
             select hex(randomblob(400)) from n;"
        )
    };
    let mut failed = 0;
    for (kib, millis) in [200, 700, 1_500, 3_000].into_iter().flat_map(|kib| [3, 6, 12, 25, 60_000].map(|ms| (kib, ms)))
    {
        let harness = EngineHarness::with(EngineOptions { statement_memory: kib << 10, ..EngineOptions::default() });
        let mut at = harness.write(&harness.base, "create table t(id integer primary key, v text)");
        for round in 0..3 {
            let script: String = (0..12).map(|n| insert(kib / 8 + n * 37)).collect();
            let ended = harness.try_write(id(1), &at, &script, Duration::from_millis(millis));
            failed += u32::from(ended.is_err());
            let _ =
                read(&harness, &at, "select max(a.v || b.v) from t a, (select * from t order by v) b where a.id < 3");
            at = harness.write(&at, &format!("insert into t values ({}, 'a')", 1_000_000 + round));
            assert_eq!(harness.read(&at, "select max(v) from t"), [[text("a")]], "{kib} KiB, {millis} ms");
        }
    }
    assert!(failed > 0);
}
