//! Checks of garbage collections and of deleted refs that are kept.

use super::{at, database, id, kept_ref, operation, read, scene, write};
use branchyard_domain::entities::{CollectionRecord, RefKind};
use branchyard_domain::ports::{LeaseTurn, Metadata, Transaction};
use branchyard_domain::values::{DatabaseId, KeptRefId};

/// Checks deleted refs: their order, their end, and that each belongs to one database.
pub fn kept_refs(store: &dyn Metadata) {
    let (_, bob, menu) = scene(store);
    let other = database(11, &bob, "other");
    let branches = [(1, 20), (2, 30), (3, 25)].map(|(n, until)| kept_ref(n, RefKind::Branch, 50, until));
    let tag = kept_ref(4, RefKind::Tag, 51, 15);
    write(store, |tx| {
        tx.databases().add(&other).unwrap();
        for kept in branches.iter().chain([&tag]) {
            tx.kept_refs().add(menu.id, kept).unwrap();
        }
        tx.kept_refs().add(other.id, &kept_ref(5, RefKind::Branch, 52, 10)).unwrap();
    });
    read(store, |tx| {
        let ids = |tx: &mut dyn Transaction, kind, now, before: Option<u128>, limit| {
            let before = before.map(|n| KeptRefId::from_uuid(id(n)));
            let found = tx.kept_refs().list(menu.id, kind, at(now), before, limit).unwrap();
            found.iter().map(|kept| kept.id.as_uuid().as_u128()).collect::<Vec<_>>()
        };
        assert_eq!(tx.kept_refs().get(menu.id, branches[0].id).unwrap().as_ref(), Some(&branches[0]));
        assert_eq!(tx.kept_refs().get(other.id, branches[0].id).unwrap(), None);
        assert_eq!(ids(tx, RefKind::Branch, 0, None, 10), [3, 2, 1]);
        assert_eq!(ids(tx, RefKind::Branch, 0, Some(3), 1), [2]);
        assert_eq!(ids(tx, RefKind::Branch, 19, None, 10), [3, 2, 1]);
        assert_eq!(ids(tx, RefKind::Branch, 20, None, 10), [3, 2], "its time ended");
        assert_eq!(ids(tx, RefKind::Tag, 14, None, 10), [4]);
        assert_eq!(tx.kept_refs().first_end(menu.id).unwrap(), Some(at(15)));
    });
    write(store, |tx| {
        assert!(!tx.kept_refs().remove(other.id, branches[2].id).unwrap());
        assert!(tx.kept_refs().remove(menu.id, branches[2].id).unwrap());
        assert!(!tx.kept_refs().remove(menu.id, branches[2].id).unwrap());
        assert_eq!(tx.kept_refs().expire(menu.id, Some(at(20))).unwrap(), 2);
        assert_eq!(tx.kept_refs().first_end(menu.id).unwrap(), Some(at(30)));
        assert_eq!(tx.kept_refs().expire(menu.id, None).unwrap(), 1);
        assert_eq!(tx.kept_refs().first_end(menu.id).unwrap(), None);
        assert_eq!(tx.kept_refs().first_end(other.id).unwrap(), Some(at(10)));
    });
}

/// Checks collections: their order, their leases, and that no operation of a leased database begins.
pub fn collections(store: &dyn Metadata) {
    let (_, bob, menu) = scene(store);
    let [quiet, busy, gone] = [(11, "quiet"), (12, "busy"), (13, "gone")].map(|(n, name)| database(n, &bob, name));
    let record = |due: i64, is_urgent| {
        let mut record = CollectionRecord::default();
        record.request(at(due), is_urgent);
        record
    };
    write(store, |tx| {
        for other in [&quiet, &busy, &gone] {
            tx.databases().add(other).unwrap();
        }
        assert_eq!(tx.collections().get(menu.id).unwrap(), CollectionRecord::default());
        tx.collections().put(menu.id, &record(30, false)).unwrap();
        tx.collections().put(quiet.id, &record(20, false)).unwrap();
        tx.collections().put(busy.id, &record(40, true)).unwrap();
        tx.collections().put(gone.id, &record(10, true)).unwrap();
        let mut deleted = gone.clone();
        deleted.deleted_at = Some(at(9));
        assert!(tx.databases().update(&deleted).unwrap());
        tx.operations().add(&operation(1, &busy, &bob)).unwrap();
        tx.operations().add(&operation(2, &menu, &bob)).unwrap();
    });
    let due = |holder: &str, now| {
        let due = read(store, |tx| tx.collections().due(holder, at(now), 10).unwrap());
        due.into_iter().map(|due| (due.database_id, due.is_busy)).collect::<Vec<_>>()
    };
    let nothing: [(DatabaseId, bool); 0] = [];
    assert_eq!(due("a/1", 19), nothing);
    assert_eq!(due("a/1", 40), [(busy.id, false), (quiet.id, false), (menu.id, false)]);
    assert_eq!(read(store, |tx| tx.collections().due("a/1", at(40), 1).unwrap()).len(), 1);

    let change = |id, change: &dyn Fn(&mut CollectionRecord)| {
        write(store, |tx| {
            let mut record = tx.collections().get(id).unwrap();
            change(&mut record);
            tx.collections().put(id, &record).unwrap();
            assert_eq!(tx.collections().get(id).unwrap(), record);
        });
    };
    change(menu.id, &|record| assert!(record.lease("a/1", at(40), at(50))));
    assert_eq!(due("a/1", 40), [(busy.id, false), (quiet.id, false), (menu.id, false)]);
    assert_eq!(due("b/1", 40), [(busy.id, false), (quiet.id, false)]);
    let lease = |now| {
        let turn = LeaseTurn::default();
        let leased = write(store, |tx| tx.operations().lease("w/1", at(now), at(now + 100), turn).unwrap());
        leased.map(|operation| operation.database_id)
    };
    assert_eq!(lease(40), Some(busy.id));
    assert_eq!(lease(49), None, "the database is being collected");
    assert_eq!(due("b/1", 50), [(busy.id, true), (quiet.id, false), (menu.id, false)]);
    assert_eq!(lease(50), Some(menu.id), "the lease of the collection ended");

    change(quiet.id, &|record| record.fail(at(50)));
    assert_eq!(due("b/1", 59), [(busy.id, true), (menu.id, true)]);
    assert_eq!(due("b/1", 60), [(busy.id, true), (quiet.id, false), (menu.id, true)]);
    change(quiet.id, &|record| assert!(record.lease("ab/1", at(60), at(99))));
    for (now, is_held_up) in [(98, true), (99, false)] {
        assert_eq!(read(store, |tx| tx.operations().is_held_up(quiet.id, at(now)).unwrap()), is_held_up);
    }
    write(store, |tx| assert_eq!(tx.collections().recover("a").unwrap(), 1));
    read(store, |tx| {
        assert_eq!(tx.collections().get(menu.id).unwrap().lease, None);
        assert!(tx.collections().get(quiet.id).unwrap().lease.is_some(), "another node has it");
    });
}
