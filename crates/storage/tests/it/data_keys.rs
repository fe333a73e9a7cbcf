//! The wrapped data keys, and how long they stay.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use branchyard_domain::ports::{DataKeys as _, WrappedDataKey};
use branchyard_domain::values::{DataKeyId, DataKeyScope, DatabaseId};
use branchyard_segments::{Extension, Nodes as _, Records as _, Saved, Segment, run};
use branchyard_storage::SqlDataKeys;

use crate::durable::{LEASE, add_account, add_database, database, holder, lead};
use crate::home::Home;

const HEAD: [u8; 20] = [7; 20];

fn key(byte: u8, scope: DataKeyScope) -> WrappedDataKey {
    WrappedDataKey {
        id: DataKeyId::from_bytes([byte; 16]),
        scope,
        master_id: "one".to_owned(),
        wrapped: vec![byte, 0, 255],
    }
}

fn of(id: DatabaseId) -> DataKeyScope {
    DataKeyScope::Database(id)
}

fn keys(home: &Home) -> SqlDataKeys {
    Arc::new(home.ready()).data_keys(Duration::ZERO)
}

#[test]
fn each_scope_has_one_key_and_each_key_is_wrapped_anew_once() {
    for home in Home::each() {
        let keys = keys(&home);
        assert_eq!((keys.all().unwrap(), keys.of_scope(DataKeyScope::Uploads).unwrap()), (Vec::new(), None));
        let added: Vec<_> = thread::scope(|scope| {
            let rivals: Vec<_> = [3, 2, 1]
                .map(|byte| {
                    scope.spawn({
                        let keys = &keys;
                        move || keys.add(&key(byte, DataKeyScope::Uploads)).unwrap()
                    })
                })
                .into();
            rivals.into_iter().map(|rival| rival.join().unwrap()).collect()
        });
        let first = keys.of_scope(DataKeyScope::Uploads).unwrap().unwrap();
        assert!(added.iter().all(|found| *found == first), "{added:?}");
        assert_eq!(keys.find(first.id).unwrap(), Some(first.clone()));
        assert_eq!(keys.find(DataKeyId::from_bytes([9; 16])).unwrap(), None);
        let second = keys.add(&key(4, of(database(1)))).unwrap();
        assert_eq!(second, key(4, of(database(1))));
        assert_eq!(keys.all().unwrap(), [first.clone(), second.clone()]);

        assert!(keys.rewrap(&second, "two", &[8]).unwrap());
        assert!(!keys.rewrap(&second, "three", &[9]).unwrap(), "it is wrapped in another way now");
        let anew = WrappedDataKey { master_id: "two".to_owned(), wrapped: vec![8], ..second };
        assert_eq!(keys.all().unwrap(), [first, anew]);
    }
}

#[test]
fn a_key_goes_when_no_row_names_it() {
    for home in Home::each() {
        let metadata = Arc::new(home.ready());
        let keys = metadata.data_keys(Duration::ZERO);
        add_account(&home);
        let (id, fork) = (database(1), database(2));
        add_database(&home, id, HEAD);
        add_database(&home, fork, HEAD);
        run(metadata.nodes().start(&holder("a", 1), LEASE)).unwrap();
        let (used, absent) = (key(1, of(id)), key(2, of(fork)));
        keys.add(&used).unwrap();
        let records = metadata.records(id);
        let row = lead(&records, &holder("a", 1));
        let sealed = |key: &WrappedDataKey, start: u64| Segment {
            start,
            end: start + 10,
            object: format!("{id}/0/{start}-{}.{}-{:032x}.sealed-10-{}", start + 10, row.epoch.0, start, key.id),
            object_offset: 0,
            sha256: [1; 32],
        };
        let extension =
            |segment| Extension { epoch: row.epoch, generation: row.generation, from: 0, segments: vec![segment] };
        // A key that is not there cannot be named.
        let refused = run(records.extend(&extension(sealed(&absent, 0)), &()));
        assert!(refused.is_err(), "{refused:?}");
        let first = sealed(&used, 0);
        assert_eq!(run(records.extend(&extension(first.clone()), &())).unwrap(), Saved::Saved);
        // A fork names the key of its source.
        let other = metadata.records(fork);
        let fork_row = lead(&other, &holder("a", 1));
        let inherited =
            Extension { epoch: fork_row.epoch, generation: fork_row.generation, from: 0, segments: vec![first] };
        assert_eq!(run(other.extend(&inherited, &())).unwrap(), Saved::Saved);

        let unused = |is_sealing| keys.unused(is_sealing).unwrap();
        assert!(unused(true).is_empty() && unused(false).is_empty());
        assert!(!keys.remove(used.id).unwrap(), "it is named");
        home.execute(&format!(
            "DELETE FROM branches WHERE database_id = '{id}'; DELETE FROM databases WHERE id = '{id}'"
        ));
        records.clear().unwrap();
        home.execute("DELETE FROM doomed_objects");
        assert!(unused(true).is_empty(), "the fork names it");
        other.clear().unwrap();
        assert!(unused(true).is_empty(), "an object that was sealed under it can still be read");
        home.execute("DELETE FROM doomed_objects");
        assert_eq!(unused(true), [used.id]);
        assert!(metadata.data_keys(Duration::from_secs(3_600)).unused(true).unwrap().is_empty(), "it was just added");
        // A database that exists keeps its key, unless nothing is sealed any more. Those of uploads and backups are not looked at.
        keys.add(&absent).unwrap();
        keys.add(&key(3, DataKeyScope::Uploads)).unwrap();
        assert_eq!((unused(true), unused(false)), (vec![used.id], vec![used.id, absent.id]));
        assert!(keys.remove(used.id).unwrap() && !keys.remove(used.id).unwrap());
        assert_eq!(keys.all().unwrap().len(), 2);
    }
}
