//! Uploads and backups in a store of objects.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::sync::Arc;

use branchyard_domain::ports::{Blobs, Clock as _, DatabaseStore as _};
use branchyard_domain::values::{ObjectKey, Timestamp, UploadId};
use branchyard_domain_testing::fakes::{FixedClock, MemoryDatabaseStore, SeededIds, StoreCall, StoreFault};
use branchyard_domain_testing::suites;
use branchyard_storage::ObjectBlobs;
use uuid::Uuid;

const GRACE_SECONDS: i64 = 3_600;

struct Scene {
    store: Arc<MemoryDatabaseStore>,
    clock: Arc<FixedClock>,
    dir: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let clock = Arc::new(FixedClock::at(Timestamp::from_seconds(1_800_000_000)));
        Self { store: Arc::default(), clock, dir: tempfile::tempdir().unwrap() }
    }

    /// Returns the ports as a server with this number has them.
    fn server(&self, number: u64) -> ObjectBlobs {
        let ids = Arc::new(SeededIds::new(number));
        let spool = self.dir.path().join(format!("spool-{number}"));
        ObjectBlobs::open(Arc::clone(&self.store) as _, spool, GRACE_SECONDS, Arc::clone(&self.clock) as _, ids)
            .unwrap()
    }

    fn keys(&self) -> Vec<String> {
        self.store.keys().iter().map(ToString::to_string).collect()
    }
}

fn upload(number: u128) -> UploadId {
    UploadId::from_uuid(Uuid::from_u128(number))
}

fn text(blobs: &ObjectBlobs, id: UploadId, parts: u32) -> String {
    let mut text = String::new();
    blobs.open(id, parts).unwrap().read_to_string(&mut text).unwrap();
    text
}

#[test]
fn objects_in_memory_keep_every_promise() {
    let scene = Scene::new();
    suites::blobs::run_all(&scene.server(1));
    let left = std::fs::read_dir(scene.dir.path().join("spool-1")).unwrap().count();
    assert_eq!(left, 0, "temporary files are gone");
}

#[test]
fn a_part_of_one_server_is_read_and_replaced_by_others() {
    let scene = Scene::new();
    let (one, other) = (scene.server(1), scene.server(2));
    one.put_part(upload(1), 1, &mut &b"one"[..]).unwrap();
    assert_eq!(text(&other, upload(1), 1), "one");
    // The clock of the second server may be behind.
    scene.clock.set(Timestamp::from_seconds(1_700_000_000));
    other.put_part(upload(1), 1, &mut &b"other"[..]).unwrap();
    assert_eq!(text(&one, upload(1), 1), "other");
    assert_eq!(scene.keys().len(), 1, "the earlier version is removed: {:?}", scene.keys());
}

#[test]
fn a_version_that_could_not_be_removed_is_not_in_force() {
    let scene = Scene::new();
    let blobs = scene.server(1);
    for round in 1..=30 {
        scene.store.plan(StoreCall::Remove, StoreFault::Unavailable, 1);
        blobs.put_part(upload(1), 1, &mut format!("round {round}").as_bytes()).unwrap();
        assert_eq!((text(&blobs, upload(1), 1), scene.keys().len()), (format!("round {round}"), round));
        scene.store.heal();
    }
    blobs.put_part(upload(1), 1, &mut &b"last"[..]).unwrap();
    assert_eq!((text(&blobs, upload(1), 1), scene.keys().len()), ("last".to_owned(), 1));
}

#[test]
fn a_part_whose_answer_is_lost_is_reported_and_changes_nothing() {
    let scene = Scene::new();
    let blobs = scene.server(1);
    blobs.put_part(upload(1), 1, &mut &b"first"[..]).unwrap();
    for fault in [StoreFault::Unavailable, StoreFault::LostAnswer] {
        scene.store.plan(StoreCall::Put, fault, 1);
        let error = blobs.put_part(upload(1), 1, &mut &b"second"[..]).unwrap_err();
        assert!(error.temporary && !error.full, "{error:?}");
        assert_eq!(text(&blobs, upload(1), 1), "first");
    }
    scene.store.plan(StoreCall::List, StoreFault::Rejected, 1);
    let error = blobs.put_part(upload(1), 1, &mut &b"second"[..]).unwrap_err();
    assert!(!error.temporary, "{error:?}");
}

#[test]
fn an_upload_that_is_just_being_stored_is_not_listed() {
    let scene = Scene::new();
    let blobs = scene.server(1);
    let now = scene.clock.now();
    scene.store.set_time(now);
    blobs.put_part(upload(1), 1, &mut &b"one"[..]).unwrap();
    blobs.put_part(upload(2), 1, &mut &b"one"[..]).unwrap();
    scene.clock.advance_seconds(GRACE_SECONDS);
    assert_eq!(blobs.list().unwrap(), []);
    scene.store.set_time(now.plus_seconds(GRACE_SECONDS));
    blobs.put_part(upload(2), 2, &mut &b"two"[..]).unwrap();
    scene.clock.advance_seconds(1);
    assert_eq!(blobs.list().unwrap(), [upload(1)]);
    scene.clock.advance_seconds(GRACE_SECONDS);
    assert_eq!(blobs.list().unwrap(), [upload(1), upload(2)]);
}

#[test]
fn uploads_of_many_objects_are_listed_and_removed_whole() {
    let scene = Scene::new();
    let blobs = scene.server(1);
    for number in 1..=2_100_u32 {
        blobs.put_part(upload(1), number, &mut &b"x"[..]).unwrap();
    }
    let foreign = ObjectKey::parse("uploads/notes.txt").unwrap();
    scene.store.put(&foreign, b"of an operator").unwrap();
    assert_eq!(text(&blobs, upload(1), 2_100).len(), 2_100);
    assert_eq!(blobs.list().unwrap(), [upload(1)]);
    blobs.remove(upload(1)).unwrap();
    assert_eq!(scene.keys(), ["uploads/notes.txt"]);
}

#[test]
fn short_reads_far_apart_fetch_little_and_long_ones_fetch_much() {
    let scene = Scene::new();
    let blobs = scene.server(1);
    blobs.put_part(upload(1), 1, &mut vec![7; 40 << 20].as_slice()).unwrap();
    let count = || scene.store.calls(StoreCall::Read);
    let mut file = blobs.open(upload(1), 1).unwrap();
    let before = count();
    file.read_to_end(&mut Vec::new()).unwrap();
    assert!(count() - before < 20, "{}", count() - before);
    let before = count();
    for start in [30 << 20, 10 << 20, (10 << 20) + 20_000] {
        file.seek(SeekFrom::Start(start)).unwrap();
        file.read_exact(&mut [0; 1_000]).unwrap();
    }
    assert_eq!(count() - before, 2);
    scene.store.plan(StoreCall::Read, StoreFault::Unavailable, 1);
    file.rewind().unwrap();
    assert!(file.read(&mut [0; 10]).is_err());
    assert_eq!(file.read(&mut [0; 10]).unwrap(), 10, "the same place is read once the store answers");
}
