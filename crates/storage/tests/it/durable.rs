//! The rows of the protocol between nodes, compared with its reference.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use branchyard_domain::values::DatabaseId;
use branchyard_segments::{
    Acquired, Commit, Epoch, Extension, Generation, Held, Holder, Known, NodeRecord, Nodes, Record, Records,
    RecordsError, Renewal, Saved, Segment, Swap, Switch, Switched, run,
};
use branchyard_storage::{SqlNodes, SqlRecords, Store};
use diesel::connection::SimpleConnection as _;
use diesel::{Connection as _, PgConnection};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use uuid::Uuid;

use crate::home::Home;

pub(crate) const LEASE: Duration = Duration::from_secs(1_000);

pub(crate) const ACCOUNT: &str = "0199c3a2-0000-7000-8000-000000000001";

pub(crate) fn holder(node: &str, incarnation: u128) -> Holder {
    Holder { node: node.to_owned(), incarnation }
}

pub(crate) fn database(number: u64) -> DatabaseId {
    DatabaseId::from_uuid(Uuid::from_u128((7 << 76) | (2 << 62) | u128::from(number)))
}

/// Returns adjacent segments of these sizes.
pub(crate) fn segments(from: u64, sizes: &[u64]) -> Vec<Segment> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut start = from;
    let next = |size: &u64| {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let end = start + size;
        let sha256 = [u8::try_from(number % 251).unwrap(); 32];
        let segment = Segment { start, end, object: format!("an/object-{number}"), object_offset: number % 3, sha256 };
        start = end;
        segment
    };
    sizes.iter().map(next).collect()
}

pub(crate) fn extension(row: &Record, sizes: &[u64]) -> Extension {
    Extension {
        epoch: row.epoch,
        generation: row.generation,
        from: row.durable_length,
        segments: segments(row.durable_length, sizes),
    }
}

pub(crate) fn lead(records: &SqlRecords, holder: &Holder) -> Record {
    match run(records.acquire(holder, None)).unwrap() {
        Acquired::Leading(row) => row,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn add_account(home: &Home) {
    home.execute(&format!(
        "INSERT INTO accounts (id, name, name_key, kind, created_at) VALUES ('{ACCOUNT}', 'ann', 'ann', 'user', 1)"
    ));
}

/// Adds a database with a branch.
pub(crate) fn add_database(home: &Home, id: DatabaseId, head: Commit) {
    home.execute(&format!(
        "INSERT INTO databases (id, owner_id, owner_name, owner_key, name, name_key, search_key, visibility, default_branch, network_id,
            created_at, size_bytes, star_count, version)
         VALUES ('{id}', '{ACCOUNT}', 'ann', 'ann', '{id}', '{id}', '', 'public', 'main', '{id}', 1, 1, 0, 1);
         INSERT INTO branches (database_id, name, head, updated_at) VALUES ('{id}', 'main', '{}', 1)",
        hex(head)
    ));
}

fn hex(commit: Commit) -> String {
    commit.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn generation(home: &Home, id: DatabaseId) -> String {
    home.lines(&format!("SELECT '' || generation AS line FROM databases WHERE id = '{id}'")).remove(0)
}

/// A call, with arguments relative to the row: a difference of 0 is what the row has.
#[derive(Debug, Clone)]
enum Step {
    Start(usize, u64),
    Renew(usize, u64),
    Stop(usize),
    Pass(u64),
    Acquire(usize, Option<(u64, u64)>),
    Load(u64, u64),
    Extend { epoch: u64, generation: u64, from: u64, sizes: Vec<u64> },
    Swap { epoch: u64, generation: u64, at: usize, count: usize, is_altered: bool },
    Switch { epoch: u64, generation: u64, from: u64, sizes: Vec<u64>, has_head: bool },
    Release(u64),
    Clear,
}

/// Mostly what the row has.
fn differs() -> impl Strategy<Value = u64> {
    prop_oneof![6 => Just(0_u64), 1 => 1_u64..4]
}

fn sizes() -> impl Strategy<Value = Vec<u64>> {
    proptest::collection::vec(1_u64..50, 0..4)
}

/// No sum of times that pass is near a length of a lease, so that the time that the test takes changes nothing.
fn step() -> impl Strategy<Value = Step> {
    let who = || 0_usize..4;
    let lease = || prop_oneof![Just(1_000_u64), Just(3_000)];
    let known = proptest::option::of((differs(), 0_u64..120));
    prop_oneof![
        2 => (who(), lease()).prop_map(|(who, lease)| Step::Start(who, lease)),
        2 => (who(), lease()).prop_map(|(who, lease)| Step::Renew(who, lease)),
        1 => who().prop_map(Step::Stop),
        2 => prop_oneof![Just(710_u64), Just(1_530), Just(4_070)].prop_map(Step::Pass),
        4 => (who(), known).prop_map(|(who, known)| Step::Acquire(who, known)),
        1 => (differs(), 0_u64..120).prop_map(|(generation, length)| Step::Load(generation, length)),
        6 => (differs(), differs(), differs(), sizes())
            .prop_map(|(epoch, generation, from, sizes)| Step::Extend { epoch, generation, from, sizes }),
        3 => (differs(), differs(), 0_usize..6, 0_usize..4, proptest::bool::weighted(0.1)).prop_map(
            |(epoch, generation, at, count, is_altered)| Step::Swap { epoch, generation, at, count, is_altered }
        ),
        2 => (differs(), differs(), differs(), sizes(), proptest::bool::weighted(0.8)).prop_map(
            |(epoch, generation, from, sizes, has_head)| Step::Switch { epoch, generation, from, sizes, has_head }
        ),
        1 => differs().prop_map(Step::Release),
        1 => Just(Step::Clear),
    ]
}

/// The reference, and the rows that are compared with it.
struct Compared<'a> {
    home: &'a Home,
    records: SqlRecords,
    nodes: SqlNodes,
    id: DatabaseId,
    holders: Vec<Holder>,
    head: Commit,
    row: Record,
    leases: BTreeMap<String, NodeRecord>,
    now: Duration,
    switches: u64,
}

impl Compared<'_> {
    fn remaining(&self, holder: &Holder) -> Option<Duration> {
        self.leases.get(&holder.node)?.remaining(holder.incarnation, self.now)
    }

    fn acquire(&mut self, holder: &Holder, known: Option<Known>) -> Acquired {
        if self.remaining(holder).is_none() {
            return Acquired::Ended;
        }
        let owners = self.row.owner.as_ref().and_then(|owner| self.remaining(owner));
        match self.row.acquire(holder, |_| owners) {
            Ok(()) => Acquired::Leading(self.row.since(known)),
            Err(held) => Acquired::Held(held),
        }
    }

    fn known(&self, generation: u64, length: u64) -> Known {
        Known { generation: Generation(self.row.generation.0 + generation), length }
    }

    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Start(who, lease) => {
                let (holder, lease) = (self.holders[who].clone(), Duration::from_secs(lease));
                let mut row = self.leases.remove(&holder.node);
                let expected = NodeRecord::start(&mut row, holder.incarnation, lease, self.now);
                self.leases.extend(row.map(|row| (holder.node.clone(), row)));
                prop_assert_eq!(run(self.nodes.start(&holder, lease)).unwrap(), expected);
            }
            Step::Renew(who, lease) => {
                let (holder, lease) = (self.holders[who].clone(), Duration::from_secs(lease));
                let renew = |row: &mut NodeRecord| row.renew(holder.incarnation, lease, self.now);
                let expected = self.leases.get_mut(&holder.node).map_or(Renewal::Ended, renew);
                prop_assert_eq!(run(self.nodes.renew(&holder, lease)).unwrap(), expected);
            }
            Step::Stop(who) => {
                let holder = self.holders[who].clone();
                if let Some(row) = self.leases.get_mut(&holder.node) {
                    row.stop(holder.incarnation, self.now);
                }
                run(self.nodes.stop(&holder)).unwrap();
            }
            Step::Pass(seconds) => {
                self.now += Duration::from_secs(seconds);
                // As if the store's clock had gone on.
                let nodes: Vec<String> = self.holders.iter().map(|holder| format!("'{}'", holder.node)).collect();
                self.home.execute(&format!(
                    "UPDATE nodes SET alive_until = alive_until - {} WHERE id IN ({})",
                    seconds * 1_000_000,
                    nodes.join(", ")
                ));
            }
            Step::Acquire(who, known) => {
                let (holder, known) = (self.holders[who].clone(), known.map(|(by, length)| self.known(by, length)));
                let expected = self.acquire(&holder, known);
                let found = run(self.records.acquire(&holder, known)).unwrap();
                match (&found, &expected) {
                    (Acquired::Held(found), Acquired::Held(expected)) => {
                        prop_assert_eq!(&found.owner, &expected.owner);
                        prop_assert!(found.remaining.abs_diff(expected.remaining) < Duration::from_secs(30));
                    }
                    _ => prop_assert_eq!(found, expected),
                }
            }
            Step::Load(generation, length) => {
                let known = Some(self.known(generation, length));
                prop_assert_eq!(run(self.records.load(known)).unwrap(), self.row.since(known));
            }
            Step::Extend { epoch, generation, from, sizes } => {
                let extension = Extension {
                    epoch: Epoch(self.row.epoch.0.saturating_sub(epoch)),
                    generation: Generation(self.row.generation.0 + generation),
                    from: self.row.durable_length + from,
                    segments: segments(self.row.durable_length + from, &sizes),
                };
                let expected = self.row.extend(&extension).map_or(Saved::Fenced, |()| Saved::Saved);
                prop_assert_eq!(run(self.records.extend(&extension, &())).unwrap(), expected);
            }
            Step::Swap { epoch, generation, at, count, is_altered } => {
                let mut replaced: Vec<Segment> = self.row.segments.iter().skip(at).take(count).cloned().collect();
                let (from, to) =
                    (replaced.first().map_or(0, |first| first.start), replaced.last().map_or(0, |last| last.end));
                if let Some(last) = replaced.last_mut().filter(|_| is_altered) {
                    last.sha256 = [0xff; 32];
                }
                let by = if from < to { segments(from, &[to - from]) } else { Vec::new() };
                let swap = Swap {
                    epoch: Epoch(self.row.epoch.0.saturating_sub(epoch)),
                    generation: Generation(self.row.generation.0 + generation),
                    replaced,
                    by,
                };
                let expected = self.row.swap(&swap).is_ok();
                prop_assert_eq!(run(self.records.swap(&swap)).unwrap(), expected);
            }
            Step::Switch { epoch, generation, from, sizes, has_head } => {
                let switch = Switch {
                    epoch: Epoch(self.row.epoch.0.saturating_sub(epoch)),
                    generation: Generation(self.row.generation.0 + generation),
                    from: self.row.durable_length + from,
                    segments: segments(0, &sizes),
                    heads: if has_head { vec![[9; 20], self.head] } else { vec![[9; 20]] },
                };
                let expected = if self.row.is_in_force(switch.epoch, switch.generation, switch.from).is_err() {
                    Switched::Fenced
                } else if !has_head {
                    Switched::Lacking(vec![self.head])
                } else {
                    self.row.switch(&switch).unwrap();
                    self.switches += 1;
                    Switched::Switched
                };
                prop_assert_eq!(run(self.records.switch(&switch, &())).unwrap(), expected);
            }
            Step::Release(epoch) => {
                let epoch = Epoch(self.row.epoch.0.saturating_sub(epoch));
                self.row.release(epoch);
                run(self.records.release(epoch)).unwrap();
            }
            Step::Clear => {
                self.row.clear();
                self.records.clear().unwrap();
            }
        }
        prop_assert_eq!(&run(self.records.load(None)).unwrap(), &self.row);
        Ok(())
    }
}

/// Each call has the outcome and the effect that the reference has, whatever was called before.
#[test]
fn calls_do_what_the_reference_does() {
    for home in Home::each() {
        let store = Arc::new(home.ready());
        add_account(&home);
        let count = AtomicU64::new(0);
        let steps = proptest::collection::vec(step(), 1..40);
        let config = Config { failure_persistence: None, ..Config::with_cases(48) };
        let outcome = TestRunner::new(config).run(&steps, |steps| {
            let number = count.fetch_add(1, Ordering::Relaxed);
            let (id, head) = (database(number), [7; 20]);
            add_database(&home, id, head);
            let nodes = [format!("{number}-a"), format!("{number}-b")];
            let mut compared = Compared {
                home: &home,
                records: store.records(id),
                nodes: store.nodes(),
                id,
                holders: nodes.iter().flat_map(|node| [holder(node, 1), holder(node, u128::MAX)]).collect(),
                head,
                row: Record::default(),
                leases: BTreeMap::new(),
                now: Duration::from_secs(1_000_000),
                switches: 0,
            };
            prop_assert_eq!(&run(compared.records.load(None)).unwrap(), &Record::default());
            // The row exists from the first acquisition on.
            let first = [Step::Start(0, 1_000), Step::Acquire(0, None)];
            first.into_iter().chain(steps).try_for_each(|step| compared.take(step))?;
            prop_assert_eq!(generation(&home, compared.id), compared.switches.to_string());
            Ok(())
        });
        outcome.unwrap();
    }
}

/// Threads that take the lease from each other all the time, as runs of a node do that do not know of each other's epochs.
#[test]
fn no_two_extensions_begin_at_one_length() {
    const THREADS: usize = 4;
    const EACH: usize = 30;
    for home in Home::each() {
        let stores: Vec<Arc<Store>> = (0..2).map(|_| Arc::new(home.ready())).collect();
        let (id, owner) = (database(1), holder("a", 1));
        run(stores[0].nodes().start(&owner, LEASE)).unwrap();
        let begin = Barrier::new(THREADS);
        let saved: Vec<Extension> = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|number| {
                    let (records, owner, begin) = (stores[number % 2].records(id), &owner, &begin);
                    scope.spawn(move || {
                        begin.wait();
                        let mut saved = Vec::new();
                        while saved.len() < EACH {
                            let mut row = lead(&records, owner);
                            let extension = extension(&row, &[3, 4]);
                            if run(records.extend(&extension, &())).unwrap() == Saved::Saved {
                                row.extend(&extension).unwrap();
                                saved.push(extension);
                            }
                        }
                        saved
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let row = run(stores[0].records(id).load(None)).unwrap();
        assert_eq!(row.durable_length, (THREADS * EACH * 7) as u64);
        let begins: BTreeSet<u64> = saved.iter().map(|extension| extension.from).collect();
        assert_eq!(begins.len(), saved.len());
        let mut named: Vec<Segment> = saved.into_iter().flat_map(|extension| extension.segments).collect();
        named.sort_by_key(|segment| segment.start);
        assert_eq!(row.segments, named);
        let own = stores.iter().map(|store| store.own_write_counter()).max();
        assert_eq!(own, Some(stores[0].write_counter().unwrap()));
        assert!(own >= Some((THREADS * EACH) as u64));
    }
}

#[test]
fn one_of_equal_extensions_is_saved() {
    const THREADS: usize = 6;
    for home in Home::each() {
        let store = Arc::new(home.ready());
        let (records, owner) = (store.records(database(1)), holder("a", 1));
        run(store.nodes().start(&owner, LEASE)).unwrap();
        for _ in 0..10 {
            let extension = extension(&lead(&records, &owner), &[5]);
            let begin = Barrier::new(THREADS);
            let saved = thread::scope(|scope| {
                let extend = || {
                    begin.wait();
                    run(records.extend(&extension, &())).unwrap() == Saved::Saved
                };
                let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(extend)).collect();
                threads.into_iter().filter_map(|thread| thread.join().unwrap().then_some(())).count()
            });
            assert_eq!(saved, 1);
        }
        assert_eq!(run(records.load(None)).unwrap().durable_length, 50);
    }
}

#[test]
fn one_of_several_runs_gets_the_id_of_a_node() {
    const THREADS: u128 = 6;
    for home in Home::each() {
        let store = Arc::new(home.ready());
        for _ in 0..10 {
            let begin = Barrier::new(usize::try_from(THREADS).unwrap());
            let held = thread::scope(|scope| {
                let threads: Vec<_> = (1..=THREADS)
                    .map(|number| {
                        let (begin, nodes) = (&begin, store.nodes());
                        scope.spawn(move || {
                            begin.wait();
                            run(nodes.start(&holder("a", number), LEASE)).unwrap() == Renewal::Held
                        })
                    })
                    .collect();
                threads.into_iter().filter_map(|thread| thread.join().unwrap().then_some(())).count()
            });
            assert_eq!(held, 1);
            home.execute("UPDATE nodes SET alive_until = 1");
        }
    }
}

/// A request that waits while the lease ends looks at the clock afterwards.
#[test]
fn a_renewal_that_waited_past_the_end_of_the_lease_does_not_hold() {
    let Some(home) = Home::postgres() else { return };
    let store = Arc::new(home.ready());
    let (nodes, owner) = (store.nodes(), holder("a", 1));
    let short = Duration::from_millis(500);
    for (lock, change) in [
        ("SELECT 1 FROM nodes FOR SHARE", ""),
        ("SELECT 1 FROM nodes FOR SHARE", "UPDATE nodes SET version = 'x'"),
        ("UPDATE nodes SET alive_until = 1", ""),
    ] {
        for is_start in [false, true] {
            home.execute("DELETE FROM nodes");
            assert_eq!(run(nodes.start(&owner, short)).unwrap(), Renewal::Held);
            let mut other = PgConnection::establish(&home.url()).unwrap();
            other.batch_execute(&format!("BEGIN; {lock}")).unwrap();
            let renewal = thread::scope(|scope| {
                let renewing = scope.spawn(|| match is_start {
                    true => run(nodes.start(&owner, LEASE)),
                    false => run(nodes.renew(&owner, LEASE)),
                });
                thread::sleep(short + Duration::from_millis(100));
                other.batch_execute(&format!("{change}; COMMIT")).unwrap();
                renewing.join().unwrap()
            });
            assert_eq!(renewal.unwrap(), Renewal::Ended, "{lock}, {change}, {is_start}");
        }
    }
}

/// A renewal under way may still take effect, so a successor waits for its end.
#[test]
fn a_takeover_waits_for_a_renewal_under_way() {
    let Some(home) = Home::postgres() else { return };
    let store = Arc::new(home.ready());
    let (records, owner, other) = (store.records(database(1)), holder("a", 1), holder("b", 1));
    for name in [&owner, &other] {
        run(store.nodes().start(name, LEASE)).unwrap();
    }
    lead(&records, &owner);
    home.execute("UPDATE nodes SET alive_until = 1 WHERE id = 'a'");
    let mut renewing = PgConnection::establish(&home.url()).unwrap();
    renewing.batch_execute("BEGIN; UPDATE nodes SET alive_until = 4000000000000000 WHERE id = 'a'").unwrap();
    let acquired = thread::scope(|scope| {
        let acquiring = scope.spawn(|| run(records.acquire(&other, None)).unwrap());
        thread::sleep(Duration::from_millis(200));
        assert!(!acquiring.is_finished());
        renewing.batch_execute("COMMIT").unwrap();
        acquiring.join().unwrap()
    });
    assert!(matches!(acquired, Acquired::Held(Held { owner: found, .. }) if found == owner));
}

#[test]
fn heads_are_what_a_collection_keeps() {
    for home in Home::each() {
        let store = Arc::new(home.ready());
        add_account(&home);
        let (id, other) = (database(1), database(2));
        add_database(&home, id, [1; 20]);
        add_database(&home, other, [2; 20]);
        for (number, byte, is_left_behind) in [(3, 3, true), (4, 4, false)] {
            home.execute(&format!(
                "INSERT INTO ref_log (id, database_id, kind, name, old_commit, changed_at, is_left_behind)
                 VALUES ('{}', '{id}', 'tag', 'v1', '{}', 1, {is_left_behind})",
                database(number),
                hex([byte; 20])
            ));
        }
        assert_eq!(run(store.records(id).heads()).unwrap(), [[1; 20], [3; 20]], "what a tag left behind is kept");
        assert_eq!(run(store.records(database(9)).heads()).unwrap(), [[0; 20]; 0]);
    }
}

/// A database is added once its first bytes are durable.
#[test]
fn a_file_needs_no_database() {
    for home in Home::each() {
        let store = Arc::new(home.ready());
        let (records, owner) = (store.records(database(1)), holder("a", 1));
        run(store.nodes().start(&owner, LEASE)).unwrap();
        let extension = extension(&lead(&records, &owner), &[5]);
        assert_eq!(run(records.extend(&extension, &())).unwrap(), Saved::Saved);
        assert_eq!(store.write_counter().unwrap(), store.own_write_counter());
    }
}

#[test]
fn a_change_that_the_store_refuses_is_unavailable_and_leaves_nothing() {
    for home in Home::each() {
        let store = Arc::new(home.ready());
        let (records, owner) = (store.records(database(1)), holder("a", 1));
        run(store.nodes().start(&owner, LEASE)).unwrap();
        let row = lead(&records, &owner);
        let mut twice = extension(&row, &[5]);
        twice.segments.push(twice.segments[0].clone());
        let refused = run(records.extend(&twice, &()));
        assert!(matches!(refused, Err(RecordsError::Unavailable(_))), "{refused:?}");
        assert_eq!(run(records.load(None)).unwrap(), row);
        assert_eq!((store.write_counter().unwrap(), store.own_write_counter()), (0, 0));
    }
}
