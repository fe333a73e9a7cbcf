//! The same calls on identical databases, on an engine in this process and on one over workers: both have to answer
//! alike.
//!
//! A default run takes seconds. `BRANCHYARD_TEST_DIFFERENTIAL=100000` makes that many calls, and
//! `BRANCHYARD_TEST_SEED` chooses others.

mod answers;
mod calls;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use branchyard_domain::ports::Engine;
use branchyard_domain::values::CommitHash;
use branchyard_engine_doltlite::{DoltliteEngine, EngineOptions};
use branchyard_engine_process::ProcessEngine;
use parking_lot::Mutex;

use self::answers::Answer;
use self::calls::{Call, Calls};
use crate::hidden::Heads;
use crate::hostile::grammar::Words;
use crate::support::{Harness, ada, id};

/// The time limit of a call.
const TIME: Duration = Duration::from_millis(150);
/// The time limit of a call that ended in time in one mode only.
const LONGER: Duration = Duration::from_secs(20);
/// Number of calls on one pair of databases.
const ROUND: usize = 2_000;
/// Number of calls of a default run.
const CALLS: usize = 3_000;
/// How often a call whose answers differ is made again. Calls that depend on the clock agree within the same second.
const REPEATS: usize = 4;

/// Returns `true` if two answers differ as they should.
type IsDeliberate = fn(&Answer, &Answer) -> bool;

/// Answers that differ on purpose: the reason, and a check of the answers in the thread and in a worker.
const DELIBERATE: &[(&str, IsDeliberate)] = &[
    (
        // The product of the lengths of pattern and text is the time of a comparison, which only the end of its process
        // ends.
        "patterns of LIKE and GLOB may have 100 bytes in the thread, and 1,000 in a worker",
        |thread, process| {
            let is_refused = |answer: &Answer| answer.text.contains("LIKE or GLOB pattern too complex");
            is_refused(thread) && !is_refused(process)
        },
    ),
    (
        // A worker is ahead of the receiver. It may fail on a row that the receiver does not want, or look up a commit.
        "after the receiver wanted no more rows, a worker may not know that the rows are always the same",
        |thread, process| {
            thread.is_stopped
                && thread.has_equal_rows(process)
                && (thread.deterministic, process.deterministic) == (Some(true), Some(false))
        },
    ),
];

/// What makes a statement depend on more than its commit: chance, the clock, and what its connection did before.
const VOLATILE: &[&str] = &[
    // Shows addresses in memory.
    "explain",
    "random",
    "changes",
    "last_insert_rowid",
    "current_",
    "now",
    "date",
    "time",
    "julianday",
    "strftime",
    "unixepoch",
    "stat",
    // Holds bytes that each connection chooses by chance.
    "fts5_locale",
    "pragma",
    "offset",
];

/// The two engines, with databases that are equal byte by byte.
struct Pair {
    thread: DoltliteEngine,
    process: ProcessEngine,
    heads: Arc<Heads>,
    /// Commits that calls run at.
    commits: Vec<CommitHash>,
    /// Commits that the database does not show.
    hidden: Vec<CommitHash>,
    _folders: [tempfile::TempDir; 2],
}

const TABLES: &str = "
    create table t(id integer primary key, v text); insert into t values (1, 'a'), (2, 'b'), (3, null);
    create table wide(a text primary key, b int); insert into wide values ('x', 1), ('y', 2);
    create view v1 as select v from t; create index i on t(v);
    create table vals(id integer primary key, v, n numeric, r real);
    insert into vals values (1, null, null, null), (2, 9223372036854775807, -9223372036854775808, 9e999),
        (3, -0.0, 1e308, -9e999), (4, '', x'', 5e-324), (5, cast(x'ff00fe' as text), '12x', 0.1), (6, x'00ff', '1e3', 1),
        (7, cast(x'610062' as text), 'é', 3.0), (8, '😀', 2.5, '7');
    create table many(k text, n integer, v real, primary key (k, n)) without rowid;
    insert into many with recursive c(x) as (select 1 union all select x + 1 from c where x < 400)
        select 'k' || (x % 7), x, x / 3.0 from c;
    create table large(id integer primary key, v);
    insert into large values (1, zeroblob(2000000)), (2, hex(zeroblob(300000))), (3, printf('%.*c', 70000, 'é'));
    create table nothing_in(a, b, c);
    create table parent(id integer primary key); create table child(id integer primary key, p references parent(id));
    create table log(v); create trigger keeps after insert on t begin insert into log values (new.v); end;
    create table strict(id integer primary key, n integer check (n > 0), u text unique, g as (n * 2));
    insert into strict(id, n, u) values (1, 1, 'one'), (2, 2, 'two')";

impl Pair {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let Harness { folder: second, engine: process } = Harness::new();
        let options = EngineOptions { pattern_bytes: 100, ..EngineOptions::default() };
        let thread = DoltliteEngine::open(folder.path().join("databases"), options).unwrap();
        let base = thread.create(id(1), &ada(), "Create database").unwrap();
        let columns: Vec<String> = (0..300).map(|n| format!("c{n}")).collect();
        let sql =
            format!("{TABLES}; create table columns({0}); insert into columns(c0) values (1)", columns.join(", "));
        let write =
            |at: &CommitHash, sql: &str| match (Call::Write { at: at.clone(), sql: sql.to_owned(), merge: None })
                .run(&thread, LONGER)
            {
                Answer { head: Some(head), .. } => head,
                Answer { text, .. } => panic!("{sql}: {text}"),
            };
        let first = write(&base, &sql);
        let at = write(&first, "insert into t values (4, 'd'); update vals set v = v || 'x' where id < 3");
        let ours = write(&at, "update t set v = 'ours'; delete from wide where a = 'x'; alter table wide add column o");
        let theirs = write(&at, "update t set v = 'theirs' where id < 3; insert into many values ('z', 0, 0.5)");
        let hidden = write(&first, "insert into t values (7, 'SECRET'); create table secret(field)");
        let below = write(&hidden, "update t set v = 'SECRET 2' where id = 7");
        let copy = folder.path().join("copy.db");
        thread.back_up(id(1), &copy).unwrap();
        thread.restore(id(1), &copy).unwrap();
        process.restore(id(1), &copy).unwrap();
        let heads = Arc::new(Heads(Mutex::new(vec![ours.clone(), theirs.clone()])));
        let reachability = Arc::clone(&heads);
        thread.limit_history(reachability);
        let reachability = Arc::clone(&heads);
        process.limit_history(reachability);
        let commits = vec![base, first, at, ours, theirs];
        Self { thread, process, heads, commits, hidden: vec![hidden, below], _folders: [folder, second] }
    }

    /// Makes a call in both modes. Returns how its answers compare.
    fn compare(&self, call: &Call) -> Result<(&'static str, Answer), String> {
        let mut time = TIME;
        let mut before: Option<Answer> = None;
        let mut last = String::new();
        for _ in 0..REPEATS {
            let (thread, process) = (call.run(&self.thread, time), call.run(&self.process, time));
            if thread.is_equal(&process) {
                let how = if thread.is_late {
                    "late"
                } else if thread.is_error {
                    "errors"
                } else {
                    "equal"
                };
                return Ok((how, thread));
            }
            if thread.is_late != process.is_late {
                time = LONGER;
            }
            if let Some((reason, _)) = DELIBERATE.iter().find(|(_, holds)| holds(&thread, &process)) {
                return Ok((reason, process));
            }
            let is_repeatable = before.as_ref().is_none_or(|before| before.is_equal(&thread) || before.is_late);
            if !is_repeatable || (thread.is_alike(&process) && call.depends_on(VOLATILE)) {
                return Ok(("volatile", thread));
            }
            last = format!("in the thread:\n{}\nin a worker:\n{}", thread.shown(), process.shown());
            before = Some(thread);
        }
        Err(last)
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

#[test]
fn both_modes_answer_alike() {
    let count = number("BRANCHYARD_TEST_DIFFERENTIAL").map_or(CALLS, |count| usize::try_from(count).unwrap());
    let seed = number("BRANCHYARD_TEST_SEED").unwrap_or(1);
    println!("seed {seed}");
    let words = Words::of_the_engine(vec!["/etc/passwd".into(), "out.db".into(), ":memory:".into()]);
    let mut calls = Calls::new(seed, &words);
    let mut seen = BTreeMap::<(&str, &str), usize>::new();
    let mut differences = Vec::new();
    let mut pair = Pair::new();
    for n in 0..count {
        if n % ROUND == ROUND - 1 {
            pair = Pair::new();
        }
        let call = calls.next(&pair.commits, &pair.hidden);
        match pair.compare(&call) {
            Ok((how, answer)) => {
                *seen.entry((call.kind(), how)).or_default() += 1;
                if let Some(head) = answer.head.filter(|_| how == "equal") {
                    pair.commits.push(head.clone());
                    if n % 3 == 0 {
                        pair.heads.0.lock().push(head);
                    }
                    if pair.commits.len() > 40 {
                        // The first five stay.
                        pair.commits.remove(5);
                    }
                }
                calls.keep(answer.cursor);
            }
            Err(difference) => {
                let difference = format!("seed {seed}, call {n}: {call:.2000}\n{difference}");
                println!("{difference}\n");
                differences.push(difference);
                if differences.len() > 20 {
                    break;
                }
            }
        }
        if n % 5_000 == 4_999 {
            println!("{n}: {seen:?}");
        }
    }
    println!("{count} calls: {seen:#?}");
    assert!(differences.is_empty(), "{} differences, the first: {}", differences.len(), differences[0]);
    for kind in ["read", "write", "rows", "merge", "import", "script"] {
        for how in ["equal", "errors"] {
            assert!(seen.contains_key(&(kind, how)), "no {kind} had this result: {how}");
        }
    }
}

#[test]
fn what_differs_on_purpose_is_what_the_table_says() {
    let pair = Pair::new();
    let at = pair.commits[2].clone();
    for (length, equal) in [(100, true), (101, false), (1000, false), (1001, true)] {
        for operator in ["like", "glob"] {
            let sql = format!("select 'a' {operator} '{}'", "a".repeat(length));
            let call = Call::Read { at: at.clone(), sql, most: usize::MAX };
            let (how, _) = pair.compare(&call).unwrap();
            let is_deliberate = DELIBERATE.iter().any(|(reason, _)| *reason == how);
            assert_eq!(is_deliberate, !equal, "{operator}, {length} bytes: {how}");
        }
    }
}
