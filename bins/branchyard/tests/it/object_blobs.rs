//! Uploads and backups in a store that is a folder, and in one that the environment names.

use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use branchyard_domain::ports::DatabaseStore;
use branchyard_domain::values::Timestamp;
use branchyard_domain_testing::fakes::{FixedClock, SeededIds};
use branchyard_domain_testing::suites;
use branchyard_object_store::{StoreOptions, StoreUrl, open};
use branchyard_storage::ObjectBlobs;

fn check(store: &Arc<dyn DatabaseStore>, spool: &Path) {
    // Far ahead, so that no upload is too new to be listed.
    let clock = Arc::new(FixedClock::at(Timestamp::from_seconds(4_000_000_000)));
    let ids = Arc::new(SeededIds::new(1));
    let blobs = ObjectBlobs::open(Arc::clone(store), spool.to_owned(), 86_400, clock, ids).unwrap();
    suites::blobs::run_all(&blobs);
    assert_eq!(std::fs::read_dir(spool).unwrap().count(), 0, "temporary files are gone");
}

#[test]
fn objects_in_a_folder_keep_every_promise() {
    let dir = tempfile::tempdir().unwrap();
    let url = StoreUrl::parse(&format!("file://{}", dir.path().join("store").display())).unwrap();
    check(&open(&url, &StoreOptions::default()).unwrap(), &dir.path().join("spool"));
    assert_eq!(std::fs::read_dir(dir.path().join("store/.incoming")).unwrap().count(), 0);
}

/// The variables are those of the contract suite of stores.
#[test]
fn objects_in_a_store_of_the_environment_keep_every_promise() {
    let Ok(url) = std::env::var("BRANCHYARD_TEST_STORE_URL") else {
        eprintln!("skipped: BRANCHYARD_TEST_STORE_URL is not set");
        return;
    };
    let endpoint = std::env::var("BRANCHYARD_TEST_STORE_ENDPOINT").ok();
    let options = StoreOptions { endpoint, allow_http: true, ..StoreOptions::default() };
    let dir = tempfile::tempdir().unwrap();
    // The time of a new folder is later than that of any earlier run.
    let now = dir.path().metadata().unwrap().modified().unwrap().duration_since(UNIX_EPOCH).unwrap();
    let fresh = format!("{}/blobs-{}", url.trim_end_matches('/'), now.as_micros());
    let store = open(&StoreUrl::parse(&fresh).unwrap(), &options).unwrap();
    check(&store, &dir.path().join("spool"));
    loop {
        let left = store.list(None, None, 1_000).unwrap();
        if left.is_empty() {
            break;
        }
        store.remove(&left.into_iter().map(|info| info.key).collect::<Vec<_>>()).unwrap();
    }
}
