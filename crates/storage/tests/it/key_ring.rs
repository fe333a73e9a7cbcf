//! The sealed key ring.

use std::thread;

use branchyard_domain::ports::{Metadata as _, WriteKeys};
use branchyard_storage::{KeyRingError, SealedKeyRing, Store, StoreOptions};

use crate::home::{Home, now};

fn ring(byte: u8) -> SealedKeyRing {
    SealedKeyRing { master_id: format!("master-{byte}"), bytes: vec![byte; 100] }
}

#[test]
fn the_first_ring_stays_and_each_change_has_a_higher_version() {
    for home in Home::each() {
        let store = home.ready();
        assert_eq!((store.key_ring().unwrap(), store.key_ring_version().unwrap()), (None, None));
        let adopted: Vec<_> = thread::scope(|scope| {
            let adopt = |byte| store.adopt_key_ring(&ring(byte), now()).unwrap();
            let rivals: Vec<_> = [1, 2, 3].map(|byte| scope.spawn(move || adopt(byte))).into();
            rivals.into_iter().map(|rival| rival.join().unwrap()).collect()
        });
        let first = store.key_ring().unwrap().unwrap();
        assert!(adopted.iter().all(|found| *found == first), "{adopted:?}");
        assert_eq!(first.version, 1);
        // Of another process.
        assert_eq!(home.ready().adopt_key_ring(&ring(4), now()).unwrap(), first);

        let refused = store.change_key_ring(now(), |_, found| {
            assert_eq!(found, Some(&first.ring));
            Err("not now")
        });
        assert!(matches!(refused, Err(KeyRingError::Refused("not now"))), "{refused:?}");
        assert_eq!(store.key_ring().unwrap().unwrap(), first);
        store.change_key_ring(now(), |_, _| Ok::<_, ()>(ring(5))).unwrap();
        let changed = store.key_ring().unwrap().unwrap();
        assert_eq!((changed.version, changed.ring), (2, ring(5)));
        assert_eq!(store.key_ring_version().unwrap(), Some(2));
    }
}

/// Secrets are sealed within transactions that hold the key of the server.
#[test]
fn a_ring_changes_while_no_secret_is_sealed() {
    for home in Home::each() {
        let store = home.ready();
        store.adopt_key_ring(&ring(1), now()).unwrap();
        let options = StoreOptions { wait: std::time::Duration::from_millis(300), ..StoreOptions::default() };
        let other = Store::open(&home.url(), &options).unwrap();
        let sealing = store.write(&WriteKeys::server()).unwrap();
        // The version can be read from within such a transaction.
        assert_eq!(store.key_ring_version().unwrap(), Some(1));
        let waited = other.change_key_ring(now(), |_, _| Ok::<_, ()>(ring(2)));
        assert!(matches!(waited, Err(KeyRingError::Store(_))), "{waited:?}");
        drop(sealing);
        other
            .change_key_ring(now(), |tx, _| {
                tx.hooks().count_by_key().unwrap();
                assert!(store.key_ring_version().unwrap() == Some(1), "not yet in force");
                Ok::<_, ()>(ring(2))
            })
            .unwrap();
        assert_eq!(store.key_ring_version().unwrap(), Some(2));
    }
}

/// A backup may be restored under another master key.
#[test]
fn a_dump_leaves_the_ring_out_and_is_loaded_with_another() {
    for (from, to) in Home::each().into_iter().zip(Home::each()) {
        let (from, to) = (from.ready(), to.ready());
        from.installation("it").unwrap();
        from.adopt_key_ring(&ring(1), now()).unwrap();
        to.adopt_key_ring(&ring(2), now()).unwrap();
        let mut dump = Vec::new();
        from.dump(&mut dump).unwrap();
        assert!(!String::from_utf8_lossy(&dump).contains("master-1"));
        to.load_with_key_ring(&mut dump.as_slice(), &ring(3), now()).unwrap();
        assert_eq!(to.key_ring().unwrap().unwrap().ring, ring(3));
        assert!(to.load_with_key_ring(&mut dump.as_slice(), &ring(4), now()).is_err(), "it is not empty");
        assert_eq!(to.key_ring().unwrap().unwrap().ring, ring(3));
    }
}
