//! The contract suites of the ports, run on the fakes.

use branchyard_domain::ports::{DatabaseStore as _, ObjectDigest, StoreError};
use branchyard_domain::values::ObjectKey;
use branchyard_domain_testing::fakes::{
    MemoryBlobs, MemoryDatabaseStore, MemoryEngine, MemoryMetadata, StoreCall, StoreFault,
};
use branchyard_domain_testing::suites;

#[test]
fn the_metadata_in_memory_keeps_every_promise() {
    suites::metadata::run_all(&|| Box::new(MemoryMetadata::default()));
}

#[test]
fn the_engine_in_memory_keeps_every_promise() {
    suites::engine::run_all(&MemoryEngine::default());
}

#[test]
fn the_store_of_databases_in_memory_keeps_every_promise() {
    suites::database_store::run_all(&MemoryDatabaseStore::default());
    suites::database_store::races(&MemoryDatabaseStore::default(), 100);
}

#[test]
fn the_blobs_in_memory_keep_every_promise() {
    suites::blobs::run_all(&MemoryBlobs::default());
}

#[test]
fn the_store_of_databases_in_memory_fails_as_planned() {
    let store = MemoryDatabaseStore::default();
    let key = |text: &str| ObjectKey::parse(text).unwrap();
    store.plan(StoreCall::Put, StoreFault::Unavailable, 2);
    store.plan(StoreCall::Put, StoreFault::LostAnswer, 1);
    store.plan(None, StoreFault::Rejected, 1);
    for _ in 0..2 {
        assert!(store.put(&key("a"), b"1234").unwrap_err().is_temporary());
        assert_eq!(store.keys(), []);
    }
    assert!(store.put(&key("a"), b"1234").unwrap_err().is_temporary());
    assert_eq!(store.keys(), [key("a")]);
    assert!(matches!(store.list(None, None, 1), Err(StoreError::Rejected { .. })));
    assert!(matches!(store.put(&key("a"), b"1234"), Err(StoreError::Exists(_))));
    assert_eq!(store.calls(StoreCall::Put), 4);

    store.plan(StoreCall::Read, StoreFault::Truncated, 1);
    store.plan(StoreCall::Read, StoreFault::WrongBytes, 2);
    let mut half = Vec::new();
    assert!(store.read_into(&key("a"), &mut half).unwrap_err().is_temporary());
    assert_eq!(half, b"12");
    assert_ne!(store.read(&key("a"), 0..4).unwrap(), b"1234");
    // What was damaged on its way only is read again.
    assert_eq!(store.read_verified(&key("a"), 0..4, &ObjectDigest::of(b"1234").sha256).unwrap(), b"1234");
    assert!(store.damage(&key("a"), |bytes| bytes[0] = b'x') && !store.damage(&key("b"), |_| {}));
    let read = store.read_verified(&key("a"), 0..4, &ObjectDigest::of(b"1234").sha256);
    assert!(matches!(read, Err(StoreError::Damaged { .. })), "{read:?}");
    store.plan(None, StoreFault::Unavailable, 9);
    store.heal();
    store.remove(&[key("a")]).unwrap();
}
