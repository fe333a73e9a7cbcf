//! Checks of garbage collections.

use super::{at, database, operation, read, scene, write};
use branchyard_domain::entities::CollectionRecord;
use branchyard_domain::ports::{LeaseTurn, Metadata};
use branchyard_domain::values::DatabaseId;

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
