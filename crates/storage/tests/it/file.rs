//! The SQLite metadata file.

use branchyard_domain::ports::{Durability, Metadata, SavedAnswer, WriteKeys};
use branchyard_domain::values::{AccountId, OwnerName, Timestamp};
use branchyard_domain_testing::suites::metadata;
use branchyard_storage::{OpenError, Store, StoreOptions};

use crate::home::Home;

#[test]
fn the_file_is_standard_sqlite_in_wal_mode_beside_doltlite() {
    let home = Home::sqlite();
    let store = home.ready();
    let path = home.url().trim_start_matches("sqlite://").to_owned();
    assert!(std::fs::read(&path).unwrap().starts_with(b"SQLite format 3\0"));
    assert!(std::path::Path::new(&format!("{path}-wal")).exists());
    assert_eq!(home.lines("SELECT doltlite_engine() AS line"), ["orig"]);
    assert_eq!(home.lines("SELECT journal_mode AS line FROM pragma_journal_mode"), ["wal"]);
    // The linked SQLite is DoltLite's.
    assert_eq!(home.lines("SELECT dolt_version() AS line").len(), 1);
    drop(store);
    assert_eq!(home.lines("SELECT doltlite_engine() AS line"), ["orig"]);
}

#[test]
fn urls() {
    let refused = |url: &str| Store::open(url, &StoreOptions::default()).err().unwrap();
    assert!(matches!(refused("mysql://host/db"), OpenError::Scheme { scheme } if scheme == "mysql"));
    assert!(matches!(refused(""), OpenError::NoPath));
    assert!(matches!(refused("sqlite://"), OpenError::NoPath));
    assert!(matches!(refused(":memory:"), OpenError::InMemory(_)));
    assert!(matches!(refused("/no/such/folder/meta"), OpenError::File { .. }));

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a ?#%b.sqlite");
    let store = Store::open(path.to_str().unwrap(), &StoreOptions::default()).unwrap();
    store.migrate(crate::home::now()).unwrap();
    assert!(path.exists());
    assert!(std::fs::metadata(&path).unwrap().len() > 0);
    drop(store);
    // Data written before is found again.
    let store = Store::open(&format!("sqlite://{}", path.to_str().unwrap()), &StoreOptions::default()).unwrap();
    store.require_current().unwrap();
}

#[test]
fn a_busy_store_is_unavailable_within_the_wait() {
    let home = Home::sqlite();
    home.ready();
    let options = StoreOptions { wait: std::time::Duration::from_millis(200), ..StoreOptions::default() };
    let store = Store::open(&home.url(), &options).unwrap();
    let other = Store::open(&home.url(), &options).unwrap();
    let tx = store.write(&WriteKeys::any()).unwrap();
    let unavailable = |store: &Store| {
        matches!(store.write(&WriteKeys::any()).err(), Some(branchyard_domain::ports::MetadataError::Unavailable(_)))
    };
    assert!(unavailable(&store), "the connection is in use");
    assert!(unavailable(&other), "another process holds the lock");
    other.read().unwrap();
    drop(tx);
    drop(store.write(&WriteKeys::any()).unwrap());
    drop(other.write(&WriteKeys::any()).unwrap());
}

#[test]
fn a_unit_that_reads_cannot_write() {
    for home in Home::each() {
        let store = home.ready();
        let mut tx = store.read().unwrap();
        let before = branchyard_domain::values::Timestamp::from_micros(i64::MAX);
        assert!(tx.events().purge().is_err() || tx.idempotency().purge(before).is_err());
        assert!(tx.commit(Durability::Synced).is_err(), "a failed step spoils the transaction");
        drop(store.read().unwrap());
        drop(store.write(&WriteKeys::any()).unwrap());
    }
}

#[test]
fn two_processes_write_without_interfering() {
    const EACH: usize = 50;
    for home in Home::each() {
        let first = home.ready();
        metadata::accounts(&first);
        let second = home.open();
        let ann = OwnerName::parse("ann").unwrap();
        let add = |store: &Store| {
            for _ in 0..EACH {
                let mut tx = store.write(&WriteKeys::any()).unwrap();
                let owner = tx.accounts().by_name(&ann).unwrap().unwrap().id;
                let n = tx.idempotency().purge(Timestamp::from_micros(i64::MIN)).unwrap();
                assert_eq!(n, 0);
                let seen = tx.idempotency().get(owner, "count", "n", Timestamp::from_micros(0)).unwrap();
                let count = seen.as_ref().map_or(0, |answer| answer.created_at.as_micros());
                tx.idempotency().purge(Timestamp::from_micros(i64::MAX)).unwrap();
                tx.idempotency()
                    .add(&SavedAnswer {
                        caller: owner,
                        scope: "count".to_owned(),
                        key: "n".to_owned(),
                        request_hash: [0; 32],
                        answer: Vec::new(),
                        created_at: Timestamp::from_micros(count + 1),
                    })
                    .unwrap();
                tx.commit(Durability::Synced).unwrap();
            }
        };
        std::thread::scope(|scope| {
            for store in [&first, &second, &first, &second] {
                scope.spawn(move || add(store));
            }
        });
        let mut tx = first.read().unwrap();
        let owner = tx.accounts().by_name(&ann).unwrap().unwrap().id;
        let answer = tx.idempotency().get(owner, "count", "n", Timestamp::from_micros(0)).unwrap().unwrap();
        assert_eq!(usize::try_from(answer.created_at.as_micros()).unwrap(), 4 * EACH);
    }
}

#[test]
fn a_change_by_another_process_changes_the_version() {
    let home = Home::sqlite();
    let (first, second) = (home.ready(), home.open());
    let before = (first.version(), second.version());
    assert!(before.0.is_some() && before.1.is_some());
    metadata::accounts(&second);
    assert_ne!(first.version(), before.0);
    assert_ne!(second.version(), before.1, "one's own changes count too");
}

/// Commits a change that no permission follows from.
fn bump(store: &Store) {
    let mut tx = store.write(&WriteKeys::any()).unwrap();
    let (caller, at) =
        (AccountId::from_uuid(uuid::Uuid::from_u128(1)), Timestamp::from_micros(store.version().unwrap() as i64 / 2));
    let answer = SavedAnswer {
        caller,
        scope: "bump".to_owned(),
        key: at.as_micros().to_string(),
        request_hash: [0; 32],
        answer: Vec::new(),
        created_at: at,
    };
    tx.idempotency().add(&answer).unwrap();
    tx.commit(Durability::Synced).unwrap();
}

#[test]
fn the_version_of_the_rights_follows_changes_of_rights_in_any_process() {
    let home = Home::sqlite();
    let (first, second) = (home.ready(), home.open());
    metadata::rights_kept_by_writes(&first);
    // A process does not know what another one changed.
    let before = first.rights_version();
    bump(&second);
    assert_eq!(first.rights_version(), None, "until its next write");
    bump(&first);
    let after = first.rights_version();
    assert!(after.is_some() && after != before);
    bump(&first);
    assert_eq!(first.rights_version(), after);
}
