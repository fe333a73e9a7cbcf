//! What a lost machine, a failing store and a second node do to databases.

use std::collections::HashSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use branchyard_domain::ports::{BatchedWrite, Engine as _, EngineError, PreviewJob, PreviewPlace, Previewed};
use branchyard_domain::values::{CommitHash, DatabaseId};
use branchyard_domain_testing::fakes::{StoreCall, StoreFault};
use branchyard_engine_durable::{HandedOver, Lag};
use branchyard_segments::Known;

use crate::yard::{LONG, Yard, author, id, insert};

const SHORT: Duration = Duration::from_secs(1);

#[test]
fn a_lost_machine_loses_nothing() {
    let yard = Yard::new();
    let database = id(1);
    let first = yard.node("one", LONG);
    let head = first.create_with(database, 20);
    first.engine.release();
    drop(first);
    let second = yard.node("two", LONG);
    assert_eq!(second.rows(database, &head).unwrap(), (0..20).collect::<Vec<_>>());
    let head = second.write(database, &head, &insert(20)).unwrap();
    assert_eq!(second.rows(database, &head).unwrap().len(), 21);
    assert!(second.engine.verify(database, &[head]).unwrap().is_empty());
}

#[test]
fn a_killed_node_is_followed_by_another_once_its_lease_has_ended_and_is_heard_no_more() {
    let yard = Yard::new();
    let database = id(1);
    let first = yard.node("one", SHORT);
    let head = first.create(database);
    // As if it were killed: its lease is not renewed.
    first.lease.stop();
    yard.rows.set_down(false);
    let second = yard.node("two", LONG);
    let theirs = second.write(database, &head, &insert(2)).unwrap();
    assert_eq!(first.rows(database, &theirs).unwrap(), [2], "before it has heard of its successor");
    let late = first.write(database, &head, &insert(1));
    assert!(matches!(late, Err(EngineError::Unavailable(_))), "{late:?}");
    assert_eq!(second.rows(database, &theirs).unwrap(), [2]);
    assert_eq!(first.rows(database, &theirs).unwrap(), [2], "what the other node wrote is followed");
    let third = yard.node("three", LONG);
    assert_eq!(third.rows(database, &theirs).unwrap(), [2]);
}

#[test]
fn a_node_does_not_write_what_another_leads() {
    let yard = Yard::new();
    let database = id(1);
    let (first, second) = (yard.node("one", LONG), yard.node("two", LONG));
    let head = first.create(database);
    assert!(matches!(second.write(database, &head, &insert(1)), Err(EngineError::Unavailable(_))));
    first.engine.release();
    let head = second.write(database, &head, &insert(1)).unwrap();
    assert_eq!(first.rows(database, &head).unwrap(), [1]);
}

/// Previews a write, and returns the number of rows that it would add.
fn previewed(node: &crate::yard::Node, database: DatabaseId, base: &CommitHash) -> Result<u64, EngineError> {
    let statements = "INSERT INTO t WITH RECURSIVE n(x) AS (SELECT 100 UNION ALL SELECT x + 1 FROM n WHERE x < 1099) \
                      SELECT x, hex(randomblob(100)) FROM n";
    let (timeout, place) = (Duration::from_secs(5), PreviewPlace::File);
    let job = PreviewJob { base, statements, timeout, rows: 10, bytes: 1 << 20, place };
    match node.engine.preview_write(database, &job)? {
        Previewed::Changes(preview) => Ok(preview.tables[0].change.rows.unwrap().0),
        refused @ Previewed::Refused(_) => panic!("{refused:?}"),
    }
}

#[test]
fn a_preview_runs_on_any_node_and_reaches_no_store() {
    let yard = Yard::new();
    let database = id(1);
    let (first, second) = (yard.node("one", LONG), yard.node("two", LONG));
    let head = first.create_with(database, 3);
    assert_eq!(second.rows(database, &head).unwrap(), [0, 1, 2]);
    let state = || (yard.store.keys(), yard.rows.row(database), fs::read(first.file(database)).unwrap());
    let (before, others) = (state(), fs::read(second.file(database)).unwrap());
    assert_eq!(previewed(&first, database, &head).unwrap(), 1_000);
    assert_eq!(previewed(&second, database, &head).unwrap(), 1_000, "it needs no lease");
    assert_eq!((state(), fs::read(second.file(database)).unwrap()), (before, others));
    let next = first.write(database, &head, &insert(3)).unwrap();
    assert_eq!(second.rows(database, &next).unwrap(), [0, 1, 2, 3]);
}

#[test]
fn a_preview_of_a_file_that_is_not_copied_runs_at_its_leader() {
    let yard = Yard { copies: false, ..Yard::new() };
    let database = id(1);
    let (first, second) = (yard.node("one", LONG), yard.node("two", LONG));
    let head = first.create_with(database, 3);
    let keys = yard.store.keys();
    assert_eq!(previewed(&first, database, &head).unwrap(), 1_000);
    assert!(matches!(previewed(&second, database, &head), Err(EngineError::Busy)));
    assert_eq!(yard.store.keys(), keys);
    let next = first.write(database, &head, &insert(3)).unwrap();
    assert_eq!(second.rows(database, &next).unwrap(), [0, 1, 2, 3]);
    assert!(second.engine.verify(database, &[next]).unwrap().is_empty());
}

#[test]
fn a_write_that_the_store_does_not_take_did_not_happen() {
    let yard = Yard::new();
    let database = id(1);
    let node = yard.node("one", LONG);
    let head = node.create(database);
    for fault in [StoreFault::Unavailable, StoreFault::LostAnswer] {
        yard.store.plan(StoreCall::Put, fault, 1_000);
        assert!(matches!(node.write(database, &head, &insert(1)), Err(EngineError::Unavailable(_))));
        yard.store.heal();
    }
    yard.rows.set_down(true);
    assert!(matches!(node.write(database, &head, &insert(1)), Err(EngineError::Unavailable(_))));
    yard.rows.set_down(false);
    let head = node.write(database, &head, &insert(2)).unwrap();
    assert_eq!(node.rows(database, &head).unwrap(), [2]);
    let other = yard.node("two", LONG);
    assert_eq!(other.rows(database, &head).unwrap(), [2]);
}

#[test]
fn wrong_bytes_of_the_store_are_not_served() {
    let yard = Yard::new();
    let database = id(1);
    let first = yard.node("one", LONG);
    let head = first.create(database);
    let head = first.write(database, &head, &insert(1)).unwrap();
    let second = yard.node("two", LONG);
    yard.store.plan(StoreCall::Read, StoreFault::WrongBytes, 1_000);
    assert!(matches!(second.rows(database, &head), Err(EngineError::Damaged(_))));
    yard.store.heal();
    assert_eq!(second.rows(database, &head).unwrap(), [1], "and are fetched again");
}

#[test]
fn a_collection_begins_a_generation_that_others_take_over() {
    let yard = Yard::new();
    let database = id(1);
    let (first, second) = (yard.node("one", LONG), yard.node("two", LONG));
    let base = first.create(database);
    let gone = first.write(database, &base, &insert(1)).unwrap();
    let kept = first.write(database, &base, &insert(2)).unwrap();
    assert_eq!(second.rows(database, &gone).unwrap(), [1]);
    first.collect(database, &[&kept]).unwrap();
    assert_eq!(yard.rows.row(database).generation.0, 1);
    assert!(first.rows(database, &gone).is_err());
    let next = first.write(database, &kept, &insert(3)).unwrap();
    assert_eq!(first.rows(database, &next).unwrap(), [2, 3]);
    assert_eq!(second.rows(database, &next).unwrap(), [2, 3], "by a new file");
    assert!(second.rows(database, &gone).is_err());
    let third = yard.node("three", LONG);
    assert_eq!(third.rows(database, &next).unwrap(), [2, 3]);
    // A store that fails leaves the old generation in force.
    yard.store.plan(StoreCall::Put, StoreFault::Unavailable, 1_000);
    assert!(first.collect(database, &[&next]).is_err());
    yard.store.heal();
    assert_eq!(yard.rows.row(database).generation.0, 1);
    let next = first.write(database, &next, &insert(4)).unwrap();
    assert_eq!(second.rows(database, &next).unwrap(), [2, 3, 4]);
}

#[test]
fn a_damaged_cache_is_replaced_when_the_node_starts() {
    let yard = Yard::new();
    let database = id(1);
    let node = yard.node("one", LONG);
    let head = node.create_with(database, 5);
    node.engine.release();
    node.lease.stop();
    let path = node.file(database);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    let again = yard.node_on("one", LONG, node.folder);
    assert_eq!(again.rows(database, &head).unwrap(), [0, 1, 2, 3, 4]);
}

#[test]
fn a_cache_that_a_read_finds_damaged_is_replaced() {
    let yard = Yard::new();
    let database = id(1);
    let node = yard.node("one", LONG);
    let heads: Vec<_> = (0..5)
        .scan(node.create(database), |head, value| {
            *head = node.write(database, head, &insert(value)).unwrap();
            Some(head.clone())
        })
        .collect();
    for reader in [&node, &yard.node("two", LONG)] {
        let reads = |at: usize| reader.rows(database, &heads[at]);
        assert_eq!(reads(4).unwrap(), [0, 1, 2, 3, 4]);
        let path = reader.file(database);
        let damage = || {
            let mut bytes = fs::read(&path).unwrap();
            let (from, to) = (bytes.len() / 4, bytes.len() / 2);
            bytes[from..to].iter_mut().for_each(|byte| *byte ^= 0x55);
            fs::write(&path, &bytes).unwrap();
        };
        damage();
        assert_eq!(reads(0).unwrap(), [0]);
        damage();
        assert!(reads(1).is_err(), "the whole file is not compared each time");
    }
}

#[test]
fn many_small_segments_become_few() {
    let yard = Yard::new();
    let database = id(1);
    let node = yard.node("one", LONG);
    let head = node.create_with(database, 80);
    assert!(yard.rows.row(database).segments.len() > 64);
    assert_eq!(node.engine.compact(), 1);
    assert!(yard.rows.row(database).segments.len() < 8);
    assert_eq!(node.engine.compact(), 0);
    let head = node.write(database, &head, &insert(80)).unwrap();
    let other = yard.node("two", LONG);
    assert_eq!(other.rows(database, &head).unwrap().len(), 81);
}

#[test]
fn a_database_that_is_made_anew_is_another_generation() {
    let yard = Yard::new();
    let (source, copy) = (id(1), id(2));
    let node = yard.node("one", LONG);
    let head = node.create(source);
    let head = node.write(source, &head, &insert(1)).unwrap();
    // As a fork that ran twice.
    node.engine.copy(source, copy).unwrap();
    let later = node.write(source, &head, &insert(2)).unwrap();
    node.engine.copy(source, copy).unwrap();
    let other = yard.node("two", LONG);
    assert_eq!(other.rows(copy, &later).unwrap(), [1, 2]);
    let before = yard.rows.row(copy);
    node.engine.remove(copy).unwrap();
    assert!(node.rows(copy, &later).is_err());
    node.engine.create(copy, &author(), "again").unwrap();
    let after = yard.rows.row(copy);
    assert!(after.epoch > before.epoch && after.generation > before.generation, "no epoch and no generation recurs");
    assert!(node.rows(copy, &later).is_err());
}

#[test]
fn writes_of_many_threads_are_all_durable() {
    let yard = Yard::new();
    let node = yard.node("one", LONG);
    let heads: Vec<_> = thread::scope(|scope| {
        let node = &node;
        let write = |n: u128| move || node.create_with(id(n), 20);
        let threads: Vec<_> = (1..5).map(|n| scope.spawn(write(n))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let other = yard.node("two", LONG);
    for (n, head) in (1..).zip(&heads) {
        assert_eq!(other.rows(id(n), head).unwrap().len(), 20);
    }
}

#[test]
fn files_that_were_not_used_for_long_make_room_and_come_back() {
    let yard = Yard::new();
    let node = yard.node("one", LONG);
    let heads: Vec<_> = (1..5).map(|n| node.create(id(n))).collect();
    let size = node.engine.size_bytes(id(1)).unwrap();
    node.rows(id(1), &heads[0]).unwrap();
    assert_eq!(node.engine.evict(u64::MAX).unwrap(), 0);
    assert_eq!(node.engine.evict(size * 2 + size / 2).unwrap(), 2);
    assert_eq!(node.engine.list().unwrap(), [id(1), id(4)], "those that were used last");
    assert_eq!(node.engine.evict(0).unwrap(), 2, "also if it was one that is too large");
    for (n, head) in (1..5).zip(&heads) {
        assert!(node.rows(id(n), head).unwrap().is_empty());
        node.write(id(n), head, &insert(1)).unwrap();
    }
}

#[test]
fn a_file_in_use_stays() {
    let yard = Yard::new();
    let node = yard.node("one", LONG);
    let mut head = node.create(id(1));
    let (engine, stop) = (Arc::clone(&node.engine), Arc::new(AtomicBool::new(false)));
    let stopped = Arc::clone(&stop);
    let evicting = thread::spawn(move || {
        let mut removed = 0;
        while !stopped.load(Ordering::Relaxed) {
            removed += engine.evict(0).unwrap();
        }
        removed
    });
    for value in 0..30 {
        head = node.write(id(1), &head, &insert(value)).unwrap();
        assert_eq!(node.rows(id(1), &head).unwrap(), (0..=value).collect::<Vec<_>>());
    }
    stop.store(true, Ordering::Relaxed);
    assert!(evicting.join().unwrap() > 0);
}

#[test]
fn what_is_no_node_brings_the_durable_file_and_writes_nothing() {
    let yard = Yard::new();
    let node = yard.node("one", LONG);
    let head = node.create_with(id(1), 10);
    let backup = yard.reader();
    backup.engine.bring_here(id(1)).unwrap();
    let copy = fs::read(backup.file(id(1))).unwrap();
    assert_eq!(copy.len() as u64, yard.rows.row(id(1)).durable_length);
    assert_eq!(copy, fs::read(node.file(id(1))).unwrap()[..copy.len()]);
    let written = backup.write(id(1), &head, &insert(10));
    assert!(matches!(written, Err(EngineError::Unavailable(_))), "{written:?}");
    assert!(backup.engine.create(id(2), &author(), "x").is_err());
    assert_eq!(yard.rows.row(id(2)).durable_length, 0);
    assert_eq!(backup.engine.evict(0).unwrap(), 1);
    assert!(backup.engine.bring_here(id(2)).is_err(), "there is no such database");
}

#[test]
fn a_file_stays_while_its_garbage_is_collected() {
    let yard = Yard::new();
    let node = yard.node("one", LONG);
    let head = node.create_with(id(1), 20);
    // The new file is stored slowly, and the turn is free meanwhile.
    yard.store.plan(StoreCall::Put, StoreFault::Delay(Duration::from_millis(300)), 1);
    let engine = Arc::clone(&node.engine);
    thread::scope(|scope| {
        let collecting = scope.spawn(|| node.collect(id(1), &[&head]));
        while !collecting.is_finished() {
            engine.evict(0).unwrap();
            thread::sleep(Duration::from_millis(10));
        }
        collecting.join().unwrap().unwrap();
    });
    assert_eq!(node.rows(id(1), &head).unwrap().len(), 20);
}

#[test]
fn a_node_asks_for_the_age_of_the_rows_before_it_writes_and_reads_meanwhile() {
    let yard = Yard::new();
    let database = id(1);
    let first = yard.node("one", LONG);
    let head = first.create_with(database, 2);
    assert_eq!(yard.age.asked.load(Ordering::Relaxed), 1, "once for a run of the node");
    first.engine.release();
    drop(first);
    yard.age.is_older.store(true, Ordering::Relaxed);
    let second = yard.node("two", LONG);
    let refused = second.write(database, &head, &insert(2));
    assert!(matches!(&refused, Err(EngineError::Unavailable(why)) if why == "the rows are older"), "{refused:?}");
    assert_eq!(second.rows(database, &head).unwrap(), [0, 1]);
    yard.age.is_older.store(false, Ordering::Relaxed);
    second.write(database, &head, &insert(2)).unwrap();
}

#[test]
fn copies_of_what_was_deleted_or_collected_elsewhere_are_removed() {
    let yard = Yard::new();
    let (first, second) = (yard.node("one", LONG), yard.node("two", LONG));
    let [kept, gone, collected] = [id(1), id(2), id(3)];
    let heads = [kept, gone, collected].map(|database| {
        let head = first.create_with(database, 3);
        assert_eq!(second.rows(database, &head).unwrap(), [0, 1, 2]);
        head
    });
    let outdated = |node: &crate::yard::Node| {
        let known = |database| {
            let row = yard.rows.row(database);
            (database, Known { generation: row.generation, length: row.durable_length })
        };
        node.engine.remove_outdated(&[kept, gone, collected].into_iter().map(known).collect()).unwrap()
    };
    assert_eq!(outdated(&second), 0);
    branchyard_domain::ports::Engine::remove(&*first.engine, gone).unwrap();
    first.collect(collected, &[&heads[2]]).unwrap();
    assert_eq!((outdated(&second), outdated(&first)), (2, 0));
    assert!(second.file(kept).exists() && !second.file(gone).exists() && !second.file(collected).exists());
    assert_eq!(second.rows(collected, &heads[2]).unwrap(), [0, 1, 2]);
    assert_eq!(outdated(&second), 0);
}

#[test]
fn copies_that_lack_what_others_have_written_are_behind() {
    let yard = Yard::new();
    let (first, second) = (yard.node("one", LONG), yard.node("two", LONG));
    let (followed, left, collected) = (id(1), id(2), id(3));
    let heads = [followed, left, collected].map(|database| {
        let head = first.create_with(database, 3);
        assert_eq!(second.rows(database, &head).unwrap(), [0, 1, 2]);
        head
    });
    let rows = || {
        let known = |database| {
            let row = yard.rows.row(database);
            (database, Known { generation: row.generation, length: row.durable_length })
        };
        [followed, left, collected].map(known).into_iter().collect::<std::collections::HashMap<_, _>>()
    };
    let before = rows();
    assert_eq!(second.engine.lag(&before), Lag::default());
    let head = first.write(followed, &heads[0], &insert(3)).unwrap();
    first.write(left, &heads[1], &insert(3)).unwrap();
    first.collect(collected, &[&heads[2]]).unwrap();
    let after = rows();
    let grown = |database: &_| after[database].length - before[database].length;
    let behind = grown(&followed) + grown(&left) + after[&collected].length;
    assert_eq!(second.engine.lag(&after), Lag { copies: 3, bytes: behind });
    assert_eq!(first.engine.lag(&after), Lag::default());
    second.rows(followed, &head).unwrap();
    assert_eq!(second.engine.lag(&after), Lag { copies: 2, bytes: behind - grown(&followed) });
    second.rows(collected, &heads[2]).unwrap();
    second.engine.remove_outdated(&after).unwrap();
    assert_eq!(second.rows(collected, &heads[2]).unwrap(), [0, 1, 2]);
    assert_eq!(second.engine.lag(&before), Lag::default(), "the rows were read before the copies were followed");
}

#[test]
fn a_drained_node_hands_over_what_is_not_in_use() {
    let yard = Yard::new();
    let (first, second) = (yard.node("one", LONG), yard.node("two", LONG));
    let head = first.create(id(1));
    first.create(id(2));
    first.engine.set_drained(true);
    let short = BatchedWrite { statements: &insert(1), message: "m", author: &author(), timeout: LONG };
    let refused = first.engine.write_batch(id(1), &head, std::slice::from_ref(&short), LONG);
    assert!(matches!(refused.as_slice(), [Err(EngineError::Unavailable(_))]), "it can be queued");
    let busy = HashSet::from([id(2)]);
    assert_eq!(first.engine.hand_over(&busy, None), HandedOver { released: 1, left: 1 });
    assert_eq!(first.engine.figures().led, 1);
    let theirs = second.write(id(1), &head, &insert(1)).unwrap();
    assert_eq!(first.rows(id(1), &theirs).unwrap(), [1], "reads go on");
    assert_eq!(first.engine.hand_over(&HashSet::new(), None), HandedOver { released: 1, left: 0 });
    // What cannot be queued is done where it arrives.
    let head = first.create(id(3));
    assert_eq!(first.engine.hand_over(&HashSet::new(), None), HandedOver { released: 1, left: 0 });
    second.write(id(3), &head, &insert(3)).unwrap();
    second.engine.release();
    first.engine.set_drained(false);
    let written = first.engine.write_batch(id(1), &theirs, std::slice::from_ref(&short), LONG);
    assert!(written[0].is_err(), "the row is there: {written:?}");
    first.write(id(1), &theirs, &insert(2)).unwrap();
}

#[test]
fn a_lease_that_is_withdrawn_from_a_call_fences_it() {
    let yard = Yard::new();
    let database = id(1);
    let (first, second) = (yard.node("one", LONG), yard.node("two", LONG));
    let head = first.create(database);
    let mut theirs = None;
    let fenced = first.engine.replace(database, || {
        assert_eq!(first.engine.hand_over(&HashSet::new(), None), HandedOver { released: 0, left: 1 });
        assert_eq!(first.engine.hand_over(&HashSet::new(), Some(LONG)), HandedOver { released: 0, left: 1 });
        yard.rows.set_down(true);
        assert_eq!(first.engine.hand_over(&HashSet::new(), Some(Duration::ZERO)), HandedOver { released: 0, left: 1 });
        yard.rows.set_down(false);
        assert_eq!(first.engine.hand_over(&HashSet::new(), Some(Duration::ZERO)), HandedOver { released: 1, left: 0 });
        assert_eq!(first.engine.figures().led, 0);
        theirs = Some(second.write(database, &head, &insert(1)).unwrap());
        Ok(())
    });
    assert!(matches!(fenced, Err(EngineError::Unavailable(_))), "{fenced:?}");
    let theirs = theirs.unwrap();
    assert_eq!(first.rows(database, &theirs).unwrap(), [1]);
    assert!(first.write(database, &theirs, &insert(2)).is_err(), "the other node leads");
    second.engine.release();
    let next = first.write(database, &theirs, &insert(2)).unwrap();
    assert_eq!(first.engine.figures().led, 1);
    assert_eq!(second.rows(database, &next).unwrap(), [1, 2]);
}

#[test]
fn a_withdrawn_lease_that_is_free_is_acquired_anew() {
    let yard = Yard::new();
    let database = id(1);
    let first = yard.node("one", LONG);
    let head = first.create(database);
    let fenced = first.engine.replace(database, || {
        first.engine.hand_over(&HashSet::new(), Some(Duration::ZERO));
        Err(EngineError::Unavailable("a test wants it".to_owned()))
    });
    assert!(fenced.is_err());
    let epoch = yard.rows.row(database).epoch;
    let head = first.write(database, &head, &insert(1)).unwrap();
    assert!(yard.rows.row(database).epoch > epoch);
    assert_eq!(first.rows(database, &head).unwrap(), [1]);
}
