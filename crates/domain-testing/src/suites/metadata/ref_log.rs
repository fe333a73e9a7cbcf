//! Checks of the log of changes of refs.

use super::{at, branch, change, database, hash, id, read, reference, scene, tag, write};
use branchyard_domain::entities::{RefKind, RefLogEntry};
use branchyard_domain::ports::{Metadata, Transaction};
use branchyard_domain::values::{DatabaseId, RefLogId, Timestamp};

const EVER: Timestamp = Timestamp::from_micros(i64::MIN);

fn numbers(entries: &[RefLogEntry]) -> Vec<u128> {
    entries.iter().map(|entry| entry.id.as_uuid().as_u128()).collect()
}

/// Returns the head that a branch had at a time, and whether it was erased since.
fn then(tx: &mut dyn Transaction, of: DatabaseId, name: &str, when: i64) -> Option<(Option<u64>, bool)> {
    let next = tx.ref_log().next_change(of, RefKind::Branch, &reference(name), at(when)).unwrap()?;
    let number = |entry: &RefLogEntry| (0..100).find(|n| entry.old.as_ref() == Some(&hash(*n)));
    Some((number(&next), next.is_erased))
}

/// Checks that each change of a ref is recorded, that the record has an order, and that it ends.
pub fn ref_log(store: &dyn Metadata) {
    let (ann, bob, menu) = scene(store);
    let other = database(11, &bob, "other");
    let main = reference("main");
    write(store, |tx| {
        tx.databases().add(&other).unwrap();
        tx.branches().add(menu.id, &branch("main", 1), change(1, 10, false)).unwrap();
        tx.branches().add(menu.id, &branch("quiet", 1), None).unwrap();
        tx.branches().add(other.id, &branch("main", 1), change(2, 10, false)).unwrap();
    });
    write(store, |tx| {
        assert!(tx.branches().move_head(menu.id, &main, &hash(1), &hash(2), at(3), change(3, 20, false)).unwrap());
        assert!(!tx.branches().move_head(menu.id, &main, &hash(1), &hash(3), at(3), change(4, 21, false)).unwrap());
        assert!(tx.branches().move_head(menu.id, &main, &hash(2), &hash(5), at(3), change(5, 30, true)).unwrap());
        assert!(!tx.branches().remove(menu.id, &main, &hash(2), change(6, 31, true)).unwrap());
        assert!(tx.branches().remove(menu.id, &main, &hash(5), change(7, 40, true)).unwrap());
        tx.branches().add(menu.id, &branch("main", 7), change(8, 40, false)).unwrap();
        assert!(tx.branches().remove(menu.id, &reference("quiet"), &hash(1), change(9, 50, true)).unwrap());
        tx.tags().add(menu.id, &tag("v1", 9), change(10, 50, false)).unwrap();
        assert!(tx.tags().remove(menu.id, &reference("v1"), change(11, 60, true)).unwrap());
        assert!(!tx.tags().remove(menu.id, &reference("v1"), change(12, 61, true)).unwrap());
        assert!(tx.branches().remove(other.id, &main, &hash(1), change(13, 15, true)).unwrap());
    });
    read(store, |tx| {
        let heads: Vec<_> = [9, 10, 19, 20, 30, 39, 40].iter().map(|when| then(tx, menu.id, "main", *when)).collect();
        let was = |head| Some((head, false));
        assert_eq!(heads, [was(None), was(Some(1)), was(Some(1)), was(Some(2)), was(Some(5)), was(Some(5)), None]);
        assert_eq!(then(tx, other.id, "main", 10), was(Some(1)));
        assert_eq!(then(tx, menu.id, "none", 0), None);
        let moved = tx.ref_log().next_change(menu.id, RefKind::Branch, &main, at(20)).unwrap().unwrap();
        let expected = RefLogEntry {
            id: RefLogId::from_uuid(id(5)),
            kind: RefKind::Branch,
            name: main.clone(),
            old: Some(hash(2)),
            new: Some(hash(5)),
            at: at(30),
            by: Some(ann.id),
            is_left_behind: true,
            is_erased: false,
        };
        assert_eq!(moved, expected);
        let before = tx.ref_log().previous_change(menu.id, &moved).unwrap().unwrap();
        assert_eq!(numbers(std::slice::from_ref(&before)), [3]);
        let first = tx.ref_log().previous_change(menu.id, &before).unwrap().unwrap();
        assert_eq!(tx.ref_log().previous_change(menu.id, &first).unwrap(), None);
        assert_eq!(tx.ref_log().left_behind(menu.id, moved.id).unwrap(), Some(moved.clone()));
        assert_eq!(tx.ref_log().left_behind(menu.id, before.id).unwrap(), None);
        assert_eq!(tx.ref_log().left_behind(other.id, moved.id).unwrap(), None);
        let left = |tx: &mut dyn Transaction, since, before: Option<u128>, limit| {
            let before = before.map(|n| RefLogId::from_uuid(id(n)));
            numbers(&tx.ref_log().list_left_behind(menu.id, since, before, limit).unwrap())
        };
        assert_eq!(left(tx, EVER, None, 10), [11, 9, 7, 5]);
        assert_eq!(left(tx, at(40), None, 10), [11, 9]);
        assert_eq!(left(tx, EVER, Some(9), 1), [7]);
        let deleted = tx.ref_log().list_deleted_branches(menu.id, EVER, None, 10).unwrap();
        assert_eq!(numbers(&deleted), [9], "there is a branch named main again");
        assert_eq!(tx.ref_log().list_deleted_branches(menu.id, at(50), None, 10).unwrap(), []);
        assert_eq!(tx.ref_log().first_left_behind(menu.id).unwrap(), Some(at(30)));
        let kept: Vec<_> = [2, 5, 7, 9].into_iter().map(hash).collect();
        assert!(
            kept.iter()
                .all(|commit| { tx.refs().kept_commits(menu.id, Some(EVER), None, 100).unwrap().contains(commit) })
        );
    });
    write(store, |tx| {
        // The row of the move from 2 to 5 loses its commit, and the one before gains what it has to keep.
        let mut moved = tx.ref_log().left_behind(menu.id, RefLogId::from_uuid(id(5))).unwrap().unwrap();
        let mut before = tx.ref_log().previous_change(menu.id, &moved).unwrap().unwrap();
        moved.erase();
        before.is_left_behind = true;
        tx.ref_log().update(menu.id, &moved).unwrap();
        tx.ref_log().update(menu.id, &before).unwrap();
        assert_eq!(then(tx, menu.id, "main", 20), Some((None, true)));
        let kept = tx.refs().kept_commits(menu.id, Some(EVER), None, 100).unwrap();
        assert!(kept.contains(&hash(1)) && !kept.contains(&hash(2)));
        assert_eq!(tx.ref_log().first_left_behind(menu.id).unwrap(), Some(at(20)));
    });
    write(store, |tx| {
        assert_eq!(tx.ref_log().expire(menu.id, Some(at(20))).unwrap(), 2);
        assert_eq!(tx.ref_log().purge(at(15)).unwrap(), 2, "those of the other database");
        assert_eq!(tx.ref_log().expire(menu.id, None).unwrap(), 6);
        assert_eq!(tx.ref_log().first_left_behind(menu.id).unwrap(), None);
        assert_eq!(tx.ref_log().complete_from().unwrap(), None);
        tx.ref_log().set_complete_from(at(5)).unwrap();
        tx.ref_log().set_complete_from(at(6)).unwrap();
        assert_eq!(tx.ref_log().complete_from().unwrap(), Some(at(6)));
    });
}
