//! Uploads and backups in a store that is a folder, and in one that the environment names.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use branchyard_deployments::ports::{BackupFile, BackupFiles as _};
use branchyard_deployments::values::{BackupId, DeploymentId, ServedName};
use branchyard_domain::ports::{Blobs, DatabaseStore};
use branchyard_domain::values::{Timestamp, UploadId};
use branchyard_domain_testing::fakes::{FixedClock, SeededIds};
use branchyard_domain_testing::suites;
use branchyard_object_store::{StoreOptions, StoreUrl, open};
use branchyard_sealed_store::{DataKeyRing, MasterKey, MasterKeys, SealedStore};
use branchyard_storage::{ObjectBlobs, Store, StoreOptions as MetadataOptions};

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

/// Sealed parts and backups keep every promise too, and nothing of them is in the store in clear.
#[test]
fn sealed_objects_in_a_folder_keep_every_promise() {
    let dir = tempfile::tempdir().unwrap();
    let url = StoreUrl::parse(&format!("file://{}", dir.path().join("store").display())).unwrap();
    let metadata = Store::open(dir.path().join("m.sqlite").to_str().unwrap(), &MetadataOptions::default()).unwrap();
    metadata.migrate(Timestamp::from_seconds(1)).unwrap();
    let rows = Arc::new(Arc::new(metadata).data_keys(Duration::ZERO));
    let inner = open(&url, &StoreOptions::default()).unwrap();
    let masters = MasterKeys { current: Some(MasterKey::from_secret(&[7; 32])), previous: None };
    let keys = DataKeyRing::new(rows, Arc::clone(&inner), masters, Arc::new(SeededIds::new(2)));
    let store: Arc<dyn DatabaseStore> = Arc::new(SealedStore::new(inner, Arc::new(keys)));
    check(&store, &dir.path().join("spool"));

    let (clock, ids) = (Arc::new(FixedClock::at(Timestamp::from_seconds(1))), Arc::new(SeededIds::new(3)));
    let blobs = ObjectBlobs::open(Arc::clone(&store), dir.path().join("spool"), 86_400, clock, ids).unwrap();
    let text = b"what a user uploads";
    let content = text.repeat(20_000);
    let upload = UploadId::parse("00000000-0000-7000-8000-000000000001").unwrap();
    blobs.put_part(upload, 1, &mut content.as_slice()).unwrap();
    let backup = BackupFile {
        deployment: DeploymentId::parse("00000000-0000-7000-8000-000000000002").unwrap(),
        backup: BackupId::parse("20260101T000000.000").unwrap(),
        database: ServedName::parse("main").unwrap(),
    };
    blobs.put_backup(&backup, &mut content.as_slice()).unwrap();
    let stored = branchyard_testkit::files_below(&dir.path().join("store"));
    assert!(stored.len() >= 4, "{stored:?}");
    for file in stored {
        let bytes = std::fs::read(&file).unwrap();
        assert!(!bytes.windows(text.len()).any(|part| part == text), "{} is in clear", file.display());
    }
    let mut read = Vec::new();
    blobs.open_backup(&backup).unwrap().read_to_end(&mut read).unwrap();
    assert!(read == content);
    Blobs::open(&blobs, upload, 1).unwrap().read_exact(&mut read).unwrap();
    assert!(read == content);
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
