//! Trial merges and fetches while a writer holds its turn for long.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use branchyard_domain::entities::{Cell, Conflict};
use branchyard_domain::ports::{Engine, EngineError, ScriptJob};
use branchyard_domain::values::{CommitHash, DatabaseId};
use branchyard_engine_doltlite::EngineOptions;

use crate::support::{EngineHarness, LONG, ada, id, text};

const T: &str = "create table t(id integer primary key, v text);
    insert into t values (1, 'a'), (2, 'b'), (3, 'c')";

/// Far longer than anything in these tests takes.
const NEVER: Duration = Duration::from_secs(300);

/// A script that reports when it has begun, and ends when it is released.
struct Held {
    begun: Option<Sender<()>>,
    let_go: Receiver<()>,
}

impl std::io::Read for Held {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let Some(begun) = self.begun.take() else {
            // Dropping the other end releases the script.
            let _ = self.let_go.recv();
            return Ok(0);
        };
        begun.send(()).unwrap();
        let script = b"select 1;";
        buffer[..script.len()].copy_from_slice(script);
        Ok(script.len())
    }
}

/// Runs `work` while a script holds the write turn of a database.
fn while_held<T>(harness: &EngineHarness, database: DatabaseId, base: &CommitHash, work: impl FnOnce() -> T) -> T {
    let ((begun, has_begun), (let_go, wait)) = (channel(), channel());
    thread::scope(|scope| {
        scope.spawn(move || {
            let author = ada();
            let (message, timeout) = ("Held", LONG);
            let job = ScriptJob { base, target: None, statement_bytes: 1 << 20, message, author: &author, timeout };
            let mut script = Held { begun: Some(begun), let_go: wait };
            harness.engine.run_script(database, &job, &mut script).unwrap();
        });
        has_begun.recv().unwrap();
        let done = work();
        drop(let_go);
        done
    })
}

/// Runs `work` on a thread of its own, and fails the test if it hangs.
fn in_time<T: Send>(work: impl FnOnce() -> T + Send, then: impl FnOnce()) -> T {
    let (sender, receiver) = channel();
    thread::scope(|scope| {
        scope.spawn(move || sender.send(work()).unwrap());
        let done = receiver.recv_timeout(NEVER / 2);
        then();
        done.unwrap_or_else(|error| panic!("it waits for a turn: {error}"))
    })
}

fn conflicts(harness: &EngineHarness, ours: &CommitHash, theirs: &CommitHash) -> Result<Vec<Conflict>, EngineError> {
    harness.engine.conflicts(id(1), ours, theirs, None, 0, 100)
}

fn temporary_files(harness: &EngineHarness) -> Vec<PathBuf> {
    let folder = harness.folder.path().join("databases/tmp");
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn file(harness: &EngineHarness, database: DatabaseId) -> PathBuf {
    let name = database.to_string();
    harness.folder.path().join("databases").join(&name[name.len() - 2..]).join(format!("{name}.db"))
}

/// Returns base, ours and theirs in database 1. Ours and theirs differ in every row.
fn sides(harness: &EngineHarness) -> [CommitHash; 3] {
    let base = harness.write(&harness.base, T);
    let ours = harness.write(&base, "update t set v = 'o'");
    let theirs = harness.write(&base, "update t set v = 't'");
    [base, ours, theirs]
}

#[test]
fn trial_merges_do_not_wait_for_writers() {
    let harness = EngineHarness::new();
    let [base, ours, theirs] = sides(&harness);
    let found = while_held(&harness, id(1), &base, || conflicts(&harness, &ours, &theirs).unwrap());
    assert_eq!(found.len(), 3);
    assert_eq!(temporary_files(&harness), [] as [PathBuf; 0]);
    // A new file in the same place is another database.
    harness.engine.create(id(1), &ada(), "Again").unwrap();
    assert!(conflicts(&harness, &ours, &theirs).is_err());
}

#[test]
fn pages_of_a_trial_merge_need_no_other_one() {
    let harness = EngineHarness::new();
    let base = harness.write(&harness.base, &format!("{T}; create table u as select * from t"));
    let ours = harness.write(&base, "update t set v = 'o'; update u set v = 'o' where id < 3");
    let theirs = harness.write(&base, "update t set v = 't'; update u set v = 't' where id < 3");
    let first = harness.engine.conflicts(id(1), &ours, &theirs, None, 0, 1).unwrap();
    // No merge is possible without the file.
    std::fs::remove_file(file(&harness, id(1))).unwrap();
    assert!(!harness.engine.needs_preparing(id(1)), "it is short");
    let found = conflicts(&harness, &ours, &theirs).unwrap();
    assert_eq!((found.len(), &found[..1]), (5, &first[..]));
    let page = |table, skip, limit| harness.engine.conflicts(id(1), &ours, &theirs, table, skip, limit).unwrap();
    assert_eq!(page(None, 2, 2), found[2..4]);
    assert_eq!(page(None, 5, 2), []);
    assert_eq!(page(Some("T"), 1, 9), found[1..3]);
    assert_eq!(page(Some("u"), 0, 1), found[3..4]);
    assert_eq!(page(Some("other"), 0, 9), []);
}

#[test]
fn long_files_are_merged_in_the_background() {
    let harness =
        EngineHarness::with(EngineOptions { trial_copy_bytes: 1, share_blocks: false, ..EngineOptions::default() });
    // More conflicts than are cached beyond the requested ones.
    let base = harness.write(
        &harness.base,
        "create table t(id integer primary key, v text);
         with recursive n(x) as (select 1 union all select x + 1 from n where x < 60) insert into t select x, '' from n",
    );
    let ours = harness.write(&base, "update t set v = replace(hex(zeroblob(25000)), '0', 'ooo')");
    let theirs = harness.write(&base, "update t set v = replace(hex(zeroblob(25000)), '0', 'ttt')");
    let page = |skip, limit| harness.engine.conflicts(id(1), &ours, &theirs, None, skip, limit);
    let prepare = || harness.engine.prepare_conflicts(id(1), &ours, &theirs).unwrap();
    assert!(harness.engine.needs_preparing(id(1)));
    assert!(matches!(page(0, 2), Err(EngineError::Busy)));
    assert!(harness.engine.needs_preparing(id(1)), "nothing shares blocks");
    prepare();
    assert_eq!(page(0, 2).unwrap().len(), 2);
    assert!(matches!(page(58, 10), Err(EngineError::Busy)), "far behind");
    prepare();
    let last = page(58, 10).unwrap();
    assert_eq!(last.iter().map(|c| c.primary_key[0].1.clone()).collect::<Vec<_>>(), [59, 60].map(Cell::Integer));
    assert_eq!(last[1].theirs.as_ref().unwrap()[1].1, text(&"t".repeat(150_000)));
    assert_eq!(temporary_files(&harness), [] as [PathBuf; 0]);

    // A pair that needs no merge needs no preparation, and an impossible merge is cached.
    assert_eq!(conflicts(&harness, &base, &theirs).unwrap(), []);
    harness.engine.prepare_conflicts(id(1), &base, &theirs).unwrap();
    let dropped = harness.write(&base, "alter table t drop column v");
    assert!(matches!(conflicts(&harness, &dropped, &theirs), Err(EngineError::Busy)));
    harness.engine.prepare_conflicts(id(1), &dropped, &theirs).unwrap();
    assert!(matches!(conflicts(&harness, &dropped, &theirs), Err(EngineError::CannotMerge(_))));
    let missing = CommitHash::parse(&"2".repeat(40)).unwrap();
    let refused = harness.engine.prepare_conflicts(id(1), &missing, &theirs);
    assert!(matches!(refused, Err(EngineError::NoSuchCommit(_))), "{refused:?}");
}

#[test]
fn a_trial_merge_that_takes_too_long_is_not_made_again_and_again() {
    let harness =
        EngineHarness::with(EngineOptions { trial_merge_timeout: Duration::ZERO, ..EngineOptions::default() });
    // Enough conflicts for the deadline to be checked while they are listed.
    let base = harness.write(
        &harness.base,
        "create table t(id integer primary key, v text);
         with recursive n(x) as (select 1 union all select x + 1 from n where x < 2000) insert into t select x, '' from n",
    );
    let ours = harness.write(&base, "update t set v = 'o'");
    let theirs = harness.write(&base, "update t set v = 't'");
    let slow = conflicts(&harness, &ours, &theirs);
    assert!(matches!(slow, Err(EngineError::TimedOut(0))), "{slow:?}");
    std::fs::remove_file(file(&harness, id(1))).unwrap();
    assert!(matches!(conflicts(&harness, &ours, &theirs), Err(EngineError::TimedOut(0))));
    assert_eq!(temporary_files(&harness), [] as [PathBuf; 0]);
}

/// Creates database 1 with a table, database 2 as its fork, and a commit that only the fork has. Returns the head of
/// database 1 and that commit.
fn fork(harness: &EngineHarness) -> [CommitHash; 2] {
    let base = harness.write(&harness.base, T);
    harness.engine.copy(id(1), id(2)).unwrap();
    let head = harness.write_to(id(2), &base, "update t set v = 'fork' where id = 1");
    [base, head]
}

#[test]
fn a_fetch_does_not_wait_for_writers_of_the_source_nor_hold_up_those_of_the_target() {
    let harness = EngineHarness::new();
    let [base, head] = fork(&harness);
    while_held(&harness, id(2), &base, || {
        harness.engine.fetch(id(1), id(2), &head).unwrap();
        harness.write(&base, "update t set v = 'own'");
    });
    assert_eq!(harness.read(&head, "select v from t where id = 1"), [[text("fork")]]);
    assert_eq!(harness.engine.verify(id(1), &[base, head]).unwrap(), [] as [String; 0]);
    assert_eq!(temporary_files(&harness), [] as [PathBuf; 0]);
}

#[test]
fn a_fetch_that_waits_for_writers_of_the_target_does_not_hold_up_those_of_the_source() {
    let harness = EngineHarness::new();
    let base = harness.write(&harness.base, T);
    harness.engine.copy(id(1), id(2)).unwrap();
    // Write turns used to be taken in the order of ids, so that this direction held the source's turn first.
    let head = harness.write(&base, "update t set v = 'source'");
    harness.engine.copy(id(2), id(3)).unwrap();
    let ((let_go, wait), (begun, has_begun)) = (channel::<()>(), channel());
    thread::scope(|scope| {
        let (harness, base, head) = (&harness, &base, &head);
        scope.spawn(move || {
            while_held(harness, id(2), base, || {
                begun.send(()).unwrap();
                let _ = wait.recv_timeout(NEVER);
            });
        });
        has_begun.recv().unwrap();
        let fetch = scope.spawn(|| harness.engine.fetch(id(2), id(1), head).unwrap());
        // Until the fetch has its copy, it waits only for the turn. Each write leaves a gap in which the fetch could
        // take the source's turn.
        let mut head = head.clone();
        in_time(
            || {
                for n in 0..20 {
                    head = harness.write(&head, &format!("update t set v = '{n}'"));
                }
                while temporary_files(harness).is_empty() {
                    head = harness.write(&head, "update t set v = v || '.'");
                }
                harness.write(&head, "update t set v = 'after'");
            },
            || drop(let_go),
        );
        fetch.join().unwrap();
    });
    assert!(harness.engine.commit(id(2), &head).unwrap().is_some());
}

#[test]
fn nothing_is_copied_for_a_commit_that_is_there() {
    let harness = EngineHarness::new();
    let [base, head] = fork(&harness);
    harness.engine.fetch(id(1), id(2), &head).unwrap();
    std::fs::remove_file(file(&harness, id(2))).unwrap();
    while_held(&harness, id(1), &base, || harness.engine.fetch(id(1), id(2), &head).unwrap());
    let nowhere = CommitHash::parse(&"2".repeat(40)).unwrap();
    assert!(matches!(harness.engine.fetch(id(1), id(1), &nowhere), Err(EngineError::NoSuchCommit(_))));
}

#[test]
fn a_long_history_is_fetched_in_steps_that_let_writers_in() {
    // Steps shrink to one commit.
    let harness = EngineHarness::with(EngineOptions { fetch_step: Duration::ZERO, ..EngineOptions::default() });
    let [base, first] = fork(&harness);
    let mut log = vec![first];
    for n in 0..200 {
        let next = harness.write_to(id(2), &log[n], &format!("update t set v = '{n}' where id = 2"));
        log.push(next);
    }
    let tip = log.last().unwrap();
    let mut own = base.clone();
    let mut seen_between = false;
    thread::scope(|scope| {
        let fetch = scope.spawn(|| harness.engine.fetch(id(1), id(2), tip).unwrap());
        while !fetch.is_finished() {
            own = harness.write(&own, "update t set v = v || '.' where id = 3");
            let has = |commit| harness.engine.commit(id(1), commit).unwrap().is_some();
            seen_between |= has(&log[0]) && !has(tip);
        }
        fetch.join().unwrap();
    });
    assert!(seen_between, "a write was done between two steps");
    assert_eq!(harness.read(tip, "select v from t where id = 2"), [[text("199")]]);
    assert_eq!(harness.engine.merge_base(id(1), &own, tip).unwrap(), Some(base));
    let heads = [own, tip.clone(), log[100].clone(), log[0].clone()];
    assert_eq!(harness.engine.verify(id(1), &heads).unwrap(), [] as [String; 0]);
    assert_eq!(temporary_files(&harness), [] as [PathBuf; 0]);
}

#[test]
fn histories_that_part_and_join_are_fetched_whole() {
    let harness = EngineHarness::with(EngineOptions { fetch_step: Duration::ZERO, ..EngineOptions::default() });
    let [base, first] = fork(&harness);
    let author = ada();
    let mut tip = first;
    let mut sides = Vec::new();
    for n in 0..40 {
        let side = harness.write_to(id(2), &base, &format!("insert into t values ({}, 'side')", 100 + n));
        let resolve = std::collections::BTreeMap::new();
        let job = branchyard_domain::ports::MergeJob {
            ours: &tip,
            theirs: &side,
            message: "Join",
            author: &author,
            resolve: &resolve,
            rows: &[],
            fast_forward: true,
            timeout: LONG,
        };
        let merged = harness.engine.merge(id(2), &job).unwrap();
        let branchyard_domain::ports::MergeOutcome::Head(merged) = merged else { panic!("{merged:?}") };
        tip = merged;
        sides.push(side);
    }
    // Some of the commits are present already.
    harness.engine.fetch(id(1), id(2), &sides[20]).unwrap();
    harness.engine.fetch(id(1), id(2), &tip).unwrap();
    sides.push(tip.clone());
    assert_eq!(harness.engine.verify(id(1), &sides).unwrap(), [] as [String; 0]);
    assert_eq!(harness.read(&tip, "select count(*) from t"), [[Cell::Integer(43)]]);
}
