//! Statements that no interrupt ends, and statements that take all memory, with the functions as SQLite has them. The
//! end of their worker ends them, and other databases do not notice.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use branchyard_domain::ports::{CollectedRows, Engine as _, EngineError, MergeJob, ReadQuery, SqlFailure};
use branchyard_domain::values::CommitHash;

use crate::support::{Harness, LONG, ada, id};

/// The time limit of a statement.
const LIMIT: Duration = Duration::from_millis(300);
/// How much longer than its limit a statement may run.
const GRACE: Duration = Duration::from_millis(700);
/// Longest time of 99 of 100 short reads of another database.
const SHORT: Duration = Duration::from_millis(100);

/// Statements that take far longer than their limit with the functions of SQLite.
const ENDLESS: &[&str] = &[
    "select instr(printf('%.*c', 1000000, 'a'), printf('%.*c', 500000, 'a') || 'b')",
    "select printf('%.*c', 1000000, 'a') like '%' || printf('%.*c', 49000, 'a') || 'b'",
    "select printf('%.*c', 1000000, 'a') glob '*' || printf('%.*c', 49000, 'a') || 'b'",
    "select length(ltrim(printf('%.*c', 200000, 'a'), printf('%.*c', 199999, 'b') || 'a'))",
    "select length(replace(printf('%.*c', 1000000, 'a'), printf('%.*c', 500000, 'a') || 'b', 'x'))",
    "with recursive n(x) as (select 1 union all select x + 1 from n where x < 10000)
        select count(dolt_merge_base('HEAD', 'HEAD~1')) from n, n b",
    "with recursive n(x) as (select 1 union all select x + 1 from n) select count(*) from n",
    "select count(*) from r a, r b where a.v || b.v = ''",
];

/// Statements that ask for far more memory than a statement may have.
const GREEDY: &[&str] = &[
    "with recursive n(x) as (select 1 union all select x + 1 from n where x < 3000000)
        select length(group_concat(printf('%.*c', 1000, 'x'))) from n",
    "with recursive n(x) as (select 1 union all select x + 1 from n where x < 3000000)
        select count(distinct printf('%.*c%d', 1000, 'x', x)) from n",
    "with recursive n(x) as (select 1 union all select x + 1 from n where x < 3000000)
        select length(json_group_array(printf('%.*c', 1000, 'x'))) from n",
    "select length(hex(zeroblob(400000000)))",
];

/// The engine with two databases: 1 has hostile users, 2 has others.
struct Neighbors {
    harness: Harness,
    /// Heads of database 1: a commit, and two to merge.
    heads: [CommitHash; 3],
    other: CommitHash,
}

/// Ends the reads, also when a test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn write(harness: &Harness, database: u8, base: &CommitHash, sql: &str) -> CommitHash {
    let author = ada();
    let job = branchyard_domain::ports::WriteJob {
        base,
        statements: sql,
        message: "Run",
        then_merge: None,
        author: &author,
        timeout: LONG,
    };
    match harness.engine.write(id(database), &job).unwrap().outcome {
        branchyard_domain::ports::MergeOutcome::Head(head) => head,
        other => panic!("{other:?}"),
    }
}

impl Neighbors {
    fn new(rows: u32) -> Self {
        let harness = Harness::with(|options| {
            options.engine.bounded_functions = false;
            options.pattern_bytes = 1_000_000;
            options.engine.total_memory = Some(1 << 30);
        });
        let base = harness.engine.create(id(1), &ada(), "Create database").unwrap();
        let numbers = |from: u32| {
            format!("with recursive n(x) as (select {from} union all select x + 1 from n where x < {})", from + rows)
        };
        let sql = format!(
            "create table r(id integer primary key, v text); insert into r {} select x, 'v' || x from n",
            numbers(1)
        );
        let first = write(&harness, 1, &base, &sql);
        let ours = write(&harness, 1, &first, "update r set v = v || 'o' where id % 2 = 0");
        let theirs = write(&harness, 1, &first, "update r set v = v || 't' where id % 2 = 1");
        let other = harness.engine.create(id(2), &ada(), "Create database").unwrap();
        let sql = "create table t(id integer primary key, v text); insert into t values (1, 'a'), (2, 'b')";
        let other = write(&harness, 2, &other, sql);
        Self { harness, heads: [first, ours, theirs], other }
    }

    /// Runs `work` while short reads of the other database are measured. Returns the time of `work`, and that of 99 of
    /// 100 reads.
    fn beside<T>(&self, work: impl FnOnce() -> T) -> (T, Duration, Duration) {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut times = Vec::new();
                while !is_over.load(Ordering::Relaxed) || times.len() < 20 {
                    let began = Instant::now();
                    let query = ReadQuery::new("select v from t where id = 2", LONG);
                    self.harness.engine.read(id(2), &self.other, &query, &mut CollectedRows::default()).unwrap();
                    times.push(began.elapsed());
                    thread::sleep(Duration::from_millis(2));
                }
                times.sort();
                times[times.len() * 99 / 100]
            });
            let ends = Ends(&is_over);
            let began = Instant::now();
            let result = work();
            let took = began.elapsed();
            drop(ends);
            (result, took, reader.join().unwrap())
        })
    }

    fn read(&self, sql: &str, timeout: Duration) -> Result<(), EngineError> {
        let query = ReadQuery::new(sql, timeout);
        self.harness.engine.read(id(1), &self.heads[0], &query, &mut CollectedRows::default()).map(drop)
    }

    /// Checks a time, four times at most: other work on the machine takes time too.
    fn within(&self, what: &str, limit: Duration, mut work: impl FnMut(&Self)) {
        let mut last = String::new();
        for _ in 0..4 {
            let ((), took, short) = self.beside(|| work(self));
            if took <= limit && short <= SHORT {
                return;
            }
            last = format!("{what}: it took {took:?}, and short reads beside it {short:?}");
        }
        panic!("{last}");
    }
}

#[test]
fn nothing_outlives_its_limit() {
    let neighbors = Neighbors::new(20_000);
    for sql in ENDLESS {
        neighbors.within(sql, LIMIT + GRACE, |neighbors| {
            let ended = neighbors.read(sql, LIMIT);
            let is_late = matches!(&ended, Err(EngineError::Sql { failure: SqlFailure::TimedOut(300), .. }));
            assert!(is_late, "{sql}: {ended:?}");
        });
        let sql = format!("create table kept as {sql}");
        neighbors.within(&sql, LIMIT + GRACE, |neighbors| {
            let author = ada();
            let job = branchyard_domain::ports::WriteJob {
                base: &neighbors.heads[0],
                statements: &sql,
                message: "Run",
                then_merge: None,
                author: &author,
                timeout: LIMIT,
            };
            let ended = neighbors.harness.engine.write(id(1), &job);
            let is_late = matches!(&ended, Err(EngineError::Sql { failure: SqlFailure::TimedOut(300), .. }));
            assert!(is_late, "{sql}: {ended:?}");
        });
    }
    println!("{:?}", neighbors.harness.engine.workers());
    // The database is as before.
    neighbors.read("select count(*) from r", LONG).unwrap();
    write(&neighbors.harness, 1, &neighbors.heads[0], "insert into r(v) values ('after')");
}

#[test]
fn a_long_merge_ends_with_its_limit() {
    let rows = std::env::var("BRANCHYARD_TEST_MERGED_ROWS").map_or(333_000, |rows| rows.parse().unwrap());
    let neighbors = Neighbors::new(rows);
    let [_, ours, theirs] = neighbors.heads.clone();
    let (author, resolve) = (ada(), BTreeMap::new());
    let merge = |neighbors: &Neighbors, timeout: Duration| {
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
        neighbors.harness.engine.merge(id(1), &job)
    };
    neighbors.within("a merge", LIMIT / 3 + GRACE, |neighbors| {
        let ended = merge(neighbors, LIMIT / 3);
        assert!(matches!(ended, Err(EngineError::TimedOut(100))), "{ended:?}");
    });
    merge(&neighbors, LONG).unwrap();
}

#[test]
fn memory_hogs_end_by_themselves() {
    let neighbors = Neighbors::new(100);
    for sql in GREEDY {
        // The time has no bound here: filling the memory takes as long as the machine needs.
        neighbors.within(sql, LONG, |neighbors| {
            let ended = neighbors.read(sql, LONG);
            let is_refused = matches!(
                &ended,
                Err(EngineError::Sql { failure: SqlFailure::Engine(text), .. })
                    if text == "out of memory" || text == "string or blob too big"
            );
            assert!(is_refused, "{sql}: {ended:?}");
        });
    }
    neighbors.read("select count(*) from r", LONG).unwrap();
}
