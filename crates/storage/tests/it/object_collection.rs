//! Which objects of the store are deleted, and when.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use branchyard_domain::ports::DatabaseStore;
use branchyard_domain::values::{DatabaseId, ObjectKey as StoreKey, Timestamp};
use branchyard_domain_testing::fakes::{MemoryDatabaseStore, StoreCall, StoreFault};
use branchyard_segments::{
    Epoch, Extension, Generation, Nodes as _, ObjectKey, Purpose, Record, Records as _, Saved, Segment, Swap, Switch,
    Switched, run,
};
use branchyard_storage::{CollectError, Collection, Collector, Store, Task, older_records, remove_marks, store_mark};

use crate::durable::{LEASE, add_account, add_database, database, holder, lead};
use crate::home::Home;

const HOUR: Duration = Duration::from_secs(3_600);
const GRACE: Duration = Duration::from_secs(86_400);
const ALWAYS: Task = Task { every: Duration::ZERO, list_every: Duration::ZERO, dry_run: false, force: false };
const HEAD: [u8; 20] = [7; 20];

/// A store with one database, which a node leads.
struct Yard {
    home: Home,
    metadata: Arc<Store>,
    store: MemoryDatabaseStore,
    id: DatabaseId,
    nonce: u128,
}

impl Yard {
    fn on(home: Home) -> Self {
        let metadata = Arc::new(home.ready());
        add_account(&home);
        let id = database(1);
        add_database(&home, id, HEAD);
        run(metadata.nodes().start(&holder("a", 1), LEASE)).unwrap();
        Self { home, metadata, store: MemoryDatabaseStore::default(), id, nonce: 0 }
    }

    fn each() -> impl Iterator<Item = Self> {
        Home::each().into_iter().map(Self::on)
    }

    fn lead(&self) -> Record {
        lead(&self.metadata.records(self.id), &holder("a", 1))
    }

    fn row(&self) -> Record {
        run(self.metadata.records(self.id).load(None)).unwrap()
    }

    /// Stores an object, and returns the segment that would name it.
    fn put(&mut self, id: DatabaseId, generation: u64, purpose: Purpose, start: u64, epoch: Epoch) -> Segment {
        self.nonce += 1;
        let end = start + 10;
        let database = id.to_string();
        let (generation, nonce) = (Generation(generation), self.nonce);
        let key = ObjectKey { database, generation, purpose, start, end, epoch, nonce, data_key: None };
        let object = key.to_string();
        self.store.put(&StoreKey::parse(&format!("segments/{object}")).unwrap(), b"0123456789").unwrap();
        Segment { start, end, object, object_offset: 0, sha256: [1; 32] }
    }

    /// Stores the next ten bytes of the database.
    fn extend(&mut self, row: &Record) -> Record {
        let from = row.durable_length;
        let segment = self.put(self.id, row.generation.0, Purpose::Tail, from, row.epoch);
        let extension = Extension { epoch: row.epoch, generation: row.generation, from, segments: vec![segment] };
        let saved = run(self.metadata.records(self.id).extend(&extension, &())).unwrap();
        assert_eq!(saved, Saved::Saved);
        self.row()
    }

    fn collect_as(&self, name: &str, task: Task) -> Result<Option<Collection>, CollectError> {
        let rows = self.metadata.objects();
        let collector = Collector { store: &self.store, rows: &rows, grace: GRACE, name, goes_on: &|| true };
        collector.run(task, Timestamp::from_seconds(10_000_000))
    }

    fn collect(&self, task: Task) -> Collection {
        self.collect_as("one", task).unwrap().unwrap()
    }

    /// Lets time pass for what is doomed.
    fn pass(&self, time: Duration) {
        self.home.execute(&format!("UPDATE doomed_objects SET since = since - {}", time.as_micros()));
    }

    /// Returns the objects of databases that are in the store.
    fn objects(&self) -> Vec<String> {
        let keys = self.store.keys();
        keys.iter().filter_map(|key| key.as_str().strip_prefix("segments/")).map(str::to_owned).collect()
    }
}

#[test]
fn objects_in_use_stay_and_replaced_ones_are_deleted_after_the_grace_time() {
    for mut yard in Yard::each() {
        let mut row = yard.lead();
        for _ in 0..3 {
            row = yard.extend(&row);
        }
        let replaced = row.segments[..2].to_vec();
        let by = yard.put(yard.id, 0, Purpose::Part, 0, row.epoch);
        let by = Segment { end: 20, ..by };
        let swap = Swap { epoch: row.epoch, generation: row.generation, replaced: replaced.clone(), by: vec![by] };
        assert!(run(yard.metadata.records(yard.id).swap(&swap)).unwrap());
        // The writer of this epoch is still there, so only what was in use before is doomed.
        let attempt = yard.put(yard.id, 0, Purpose::Tail, 30, row.epoch);
        assert_eq!(yard.collect(ALWAYS), Collection { listed: 5, ..Collection::default() });
        yard.pass(GRACE - HOUR);
        assert_eq!(yard.collect(ALWAYS).deleted, 0);
        yard.pass(HOUR);
        let trial = Task { dry_run: true, ..ALWAYS };
        assert_eq!((yard.collect(trial).deleted, yard.objects().len()), (2, 5));
        assert_eq!(yard.collect(ALWAYS).deleted, 2);
        let named: Vec<String> = yard.row().segments.into_iter().map(|segment| segment.object).collect();
        for object in named.iter().chain([&attempt.object]) {
            assert!(yard.objects().contains(object), "{object}");
        }
        assert_eq!(yard.objects().len(), 3);
        // Once the lease was acquired anew, the attempt has failed for certain.
        let row = yard.lead();
        assert_eq!(yard.collect(ALWAYS).doomed, 1);
        assert_eq!(yard.collect(ALWAYS).doomed, 0, "it is known");
        let late =
            Extension { epoch: Epoch(row.epoch.0 - 1), generation: row.generation, from: 30, segments: vec![attempt] };
        assert_eq!(run(yard.metadata.records(yard.id).extend(&late, &())).unwrap(), Saved::Fenced);
        yard.pass(GRACE);
        assert_eq!(yard.collect(ALWAYS).deleted, 1);
        assert_eq!(BTreeSet::from_iter(yard.objects()), BTreeSet::from_iter(named));
        assert_eq!(yard.metadata.objects().counts().unwrap().doomed, 0);
    }
}

#[test]
fn a_late_swap_cannot_name_an_object_that_was_found_to_be_garbage() {
    for mut yard in Yard::each() {
        let row = yard.lead();
        let row = yard.extend(&row);
        let by = yard.put(yard.id, 0, Purpose::Part, 0, row.epoch);
        let swap = Swap { epoch: row.epoch, generation: row.generation, replaced: row.segments, by: vec![by] };
        yard.lead();
        assert_eq!(yard.collect(ALWAYS).doomed, 1);
        assert!(!run(yard.metadata.records(yard.id).swap(&swap)).unwrap());
    }
}

#[test]
fn what_a_collection_or_a_deletion_leaves_behind_is_deleted() {
    for mut yard in Yard::each() {
        let row = yard.lead();
        let row = yard.extend(&row);
        let next = yard.put(yard.id, 1, Purpose::Part, 0, row.epoch);
        let switch = Switch {
            epoch: row.epoch,
            generation: row.generation,
            from: row.durable_length,
            segments: vec![next.clone()],
            heads: vec![HEAD],
        };
        let records = yard.metadata.records(yard.id);
        assert_eq!(run(records.switch(&switch, &())).unwrap(), Switched::Switched);
        yard.pass(GRACE);
        assert_eq!(yard.collect(ALWAYS).deleted, 1);
        assert_eq!(yard.objects(), [next.object]);
        records.clear().unwrap();
        yard.pass(GRACE);
        assert_eq!(yard.collect(ALWAYS).deleted, 1);
        assert_eq!(yard.objects(), [""; 0]);
    }
}

#[test]
fn bytes_of_a_database_that_was_never_added_are_given_up_after_the_grace_time() {
    for mut yard in Yard::each() {
        let unused = database(2);
        let records = yard.metadata.records(unused);
        let row = lead(&records, &holder("a", 1));
        yard.store.set_time(Timestamp::from_seconds(10_000_000 - 86_399));
        let segment = yard.put(unused, 0, Purpose::Tail, 0, row.epoch);
        let extension = Extension { epoch: row.epoch, generation: row.generation, from: 0, segments: vec![segment] };
        run(records.extend(&extension, &())).unwrap();
        let first = yard.lead();
        yard.store.set_time(Timestamp::from_seconds(0));
        yard.extend(&first);
        assert_eq!(yard.collect(ALWAYS).cleared, 0, "it may be about to be added");
        // A later look.
        let rows = yard.metadata.objects();
        let later = Collector { store: &yard.store, rows: &rows, grace: GRACE, name: "one", goes_on: &|| true };
        let now = Timestamp::from_seconds(10_000_010);
        assert_eq!(later.run(ALWAYS, now).unwrap().unwrap().cleared, 1);
        assert_eq!(run(records.load(None)).unwrap().durable_length, 0);
        yard.pass(GRACE);
        assert_eq!(yard.collect(ALWAYS).deleted, 1);
        assert_eq!(yard.row().durable_length, 10, "the database that exists stays");
        assert!(!rows.clear_unused(&yard.id.to_string()).unwrap());
    }
}

#[test]
fn a_collection_deletes_so_many_objects_and_no_more() {
    for mut yard in Yard::each() {
        let row = yard.lead();
        for _ in 0..1_002 {
            yard.put(yard.id, 0, Purpose::Part, 0, row.epoch);
        }
        yard.lead();
        assert_eq!(yard.collect(ALWAYS).doomed, 1_002);
        yard.pass(GRACE);
        let Collection { deleted, left, .. } = yard.collect(ALWAYS);
        assert_eq!((deleted, left), (1_000, 1));
        for _ in 0..1_001 {
            yard.put(yard.id, 0, Purpose::Part, 0, row.epoch);
        }
        assert_eq!(yard.collect(ALWAYS).deleted, 2);
        yard.pass(GRACE);
        let Collection { deleted, left, .. } = yard.collect(Task { force: true, ..ALWAYS });
        assert_eq!((deleted, left, yard.objects().len()), (1_001, 0, 0));
    }
}

#[test]
fn names_of_others_stay() {
    for yard in Yard::each() {
        yard.store.put(&StoreKey::parse("segments/photo.jpg").unwrap(), b"x").unwrap();
        assert_eq!(yard.collect(ALWAYS), Collection { listed: 1, foreign: 1, ..Collection::default() });
    }
}

#[test]
fn metadata_that_are_older_than_the_store_keep_everything() {
    for mut yard in Yard::each() {
        let row = yard.lead();
        let row = yard.extend(&row);
        run(yard.metadata.records(yard.id).swap(&Swap {
            epoch: row.epoch,
            generation: row.generation,
            replaced: row.segments.clone(),
            by: vec![yard.put(yard.id, 0, Purpose::Part, 0, row.epoch)],
        }))
        .unwrap();
        yard.pass(GRACE);
        let refuses = |yard: &Yard, text: &str| {
            let error = yard.collect_as("one", ALWAYS).unwrap_err();
            assert!(matches!(error, CollectError::Older(_)) && error.to_string().contains(text), "{error}");
            assert_eq!(
                yard.objects().len(),
                yard.store.keys().iter().filter(|key| key.as_str().starts_with("seg")).count()
            );
        };
        let counter = yard.metadata.write_counter().unwrap();
        store_mark(&yard.store, "b", counter).unwrap();
        assert_eq!(older_records(&yard.store, &yard.metadata.objects()).unwrap(), None);
        store_mark(&yard.store, "b", counter + 1).unwrap();
        refuses(&yard, "node `b` saved write unit");
        remove_marks(&yard.store).unwrap();
        // A write that the row does not have, and one of an epoch or a database that it does not have.
        let before = yard.objects();
        for (id, start, epoch) in [(yard.id, 20, row.epoch.0), (yard.id, 10, row.epoch.0 + 1), (database(3), 0, 1)] {
            let lost = yard.put(id, 0, Purpose::Tail, start, Epoch(epoch));
            refuses(&yard, &lost.object);
            yard.store.remove(&[StoreKey::parse(&format!("segments/{}", lost.object)).unwrap()]).unwrap();
        }
        assert_eq!(yard.objects(), before);
        // Accepted: the objects are kept for as long as was said, and show nothing any more.
        let lost = yard.put(yard.id, 0, Purpose::Tail, 20, row.epoch);
        let other = yard.put(database(3), 0, Purpose::Tail, 0, Epoch(4));
        let rows = yard.metadata.objects();
        rows.doom(&[lost.object.clone(), other.object.clone()], 30 * GRACE).unwrap();
        rows.raise_epochs(&BTreeMap::from([(yard.id, row.epoch.0), (database(3), 4)])).unwrap();
        assert_eq!(yard.row().epoch, Epoch(row.epoch.0 + 1));
        assert_eq!(yard.row().owner, None);
        assert_eq!(yard.collect(ALWAYS).deleted, 1);
        assert!(yard.objects().contains(&lost.object) && yard.objects().contains(&other.object));
        yard.home.execute("UPDATE doomed_objects SET kept_until = 1, since = 1");
        assert_eq!(yard.collect(ALWAYS).deleted, 2);
        assert_eq!(yard.objects().len(), 1);
    }
}

#[test]
fn one_collector_is_at_work_and_the_next_one_waits() {
    for yard in Yard::each() {
        let rows = yard.metadata.objects();
        assert!(rows.begin("one", HOUR, HOUR).unwrap().is_some());
        assert!(rows.begin("one", HOUR, HOUR).unwrap().is_some(), "it goes on");
        assert!(rows.begin("two", HOUR, Duration::ZERO).unwrap().is_none());
        assert!(yard.collect_as("two", ALWAYS).unwrap().is_none());
        rows.end("one", true).unwrap();
        assert!(rows.begin("two", HOUR, HOUR).unwrap().is_none(), "it is not due");
        let since = rows.begin("two", HOUR, Duration::ZERO).unwrap().unwrap();
        assert!(since < HOUR, "{since:?}");
        // Its node was lost.
        yard.home.execute("UPDATE store_state SET collector_until = 1");
        assert!(rows.begin("three", HOUR, Duration::ZERO).unwrap().is_some());
        rows.end("two", true).unwrap();
        assert!(rows.begin("two", HOUR, Duration::ZERO).unwrap().is_none(), "the end of another's turn is none");
    }
}

#[test]
fn a_store_that_fails_leaves_what_is_due_for_the_next_collection() {
    for mut yard in Yard::each() {
        let row = yard.lead();
        yard.put(yard.id, 0, Purpose::Part, 0, row.epoch);
        yard.lead();
        yard.collect(ALWAYS);
        yard.pass(GRACE);
        for fault in [StoreFault::Unavailable, StoreFault::LostAnswer] {
            yard.store.plan(StoreCall::Remove, fault, 1);
            assert!(matches!(yard.collect_as("one", ALWAYS), Err(CollectError::Store(_))));
        }
        assert_eq!(yard.collect(ALWAYS).deleted, 1);
        assert_eq!(yard.metadata.objects().counts().unwrap().doomed, 0);
    }
}
