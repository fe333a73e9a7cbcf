//! Checks of transactions, the version of the store, and concurrent writers.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{at, branch, hash, operation, read, reference, scene, user, write};
use branchyard_domain::entities::{Database, FileState, Role, User, Visibility};
use branchyard_domain::ports::{Durability, Metadata, Transaction, WriteKeys};

/// Checks that transactions are atomic and isolated.
pub fn transactions(store: &dyn Metadata) {
    let (_, _, menu) = scene(store);
    let name = reference("main");
    {
        let mut tx = store.write(&WriteKeys::any()).unwrap();
        tx.branches().add(menu.id, &branch("main", 1), None).unwrap();
        assert!(tx.branches().get(menu.id, &name).unwrap().is_some(), "a transaction sees what it did");
    }
    assert_eq!(read(store, |tx| tx.branches().get(menu.id, &name).unwrap()), None, "dropped is undone");
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut tx = store.write(&WriteKeys::any()).unwrap();
        tx.branches().add(menu.id, &branch("main", 1), None).unwrap();
        std::panic::resume_unwind(Box::new("on purpose"));
    }));
    assert!(panicked.is_err());
    assert_eq!(read(store, |tx| tx.branches().get(menu.id, &name).unwrap()), None, "so is a panic");
    write(store, |tx| tx.branches().add(menu.id, &branch("main", 1), None).unwrap());
    assert!(read(store, |tx| tx.branches().get(menu.id, &name).unwrap()).is_some(), "and the store goes on");
    store.read().unwrap().commit(Durability::Synced).unwrap();
}

/// Checks that every change produces a new version. A store without versions always returns `None`.
pub fn versions(store: &dyn Metadata) {
    let (_, _, menu) = scene(store);
    let Some(first) = store.version() else {
        write(store, |tx| tx.branches().add(menu.id, &branch("main", 1), None).unwrap());
        assert_eq!(store.version(), None);
        return;
    };
    read(store, |tx| tx.branches().get(menu.id, &reference("main")).unwrap());
    assert_eq!(store.version(), Some(first), "reading changes nothing");
    let mut seen = BTreeSet::from([first]);
    for number in 0..20 {
        write(store, |tx| tx.branches().add(menu.id, &branch(&format!("b{number}"), 1), None).unwrap());
        let version = store.version().unwrap();
        assert!(seen.insert(version), "each change has a version of its own");
        assert_eq!(store.version(), Some(version));
    }
}

/// Checks that every change of what permissions follow from produces a new version of the rights.
pub fn rights_versions(store: &dyn Metadata) {
    let (ann, bob, menu) = scene(store);
    let mut seen = BTreeSet::new();
    let mut changed = |what: &str, change: &dyn Fn(&mut dyn Transaction)| {
        write(store, |tx| change(tx));
        if let Some(version) = store.rights_version() {
            assert!(seen.insert(version), "{what}");
            assert_eq!(store.rights_version(), Some(version));
        }
    };
    changed("a user", &|tx| tx.users().add(&user(70, "gus")).unwrap());
    changed("a collaborator", &|tx| {
        tx.collaborators().put(menu.id, bob.id, Role::Write, at(1)).unwrap();
    });
    changed("a role", &|tx| {
        tx.collaborators().put(menu.id, bob.id, Role::Read, at(1)).unwrap();
    });
    changed("a collaborator less", &|tx| {
        tx.collaborators().remove(menu.id, bob.id).unwrap();
    });
    changed("an administrator", &|tx| {
        let user = tx.users().get(ann.id).unwrap().unwrap();
        assert!(tx.users().update(&User { is_admin: !user.is_admin, ..user }).is_ok());
    });
    changed("a visibility", &|tx| {
        let database = tx.databases().get(menu.id).unwrap().unwrap();
        let visibility = Visibility::Private;
        assert!(tx.databases().update(&Database { visibility, ..database }).unwrap());
    });
}

/// Checks that the version of the rights stays the same through what writes record, on a store with versions.
pub fn rights_kept_by_writes(store: &dyn Metadata) {
    let (_, bob, menu) = scene(store);
    write(store, |tx| tx.branches().add(menu.id, &branch("main", 1), None).unwrap());
    let (version, rights) = (store.version(), store.rights_version());
    assert!(rights.is_some());
    for number in 1..20 {
        write(store, |tx| {
            tx.users().get(bob.id).unwrap();
            tx.operations().add(&operation(u128::from(number), &menu, &bob)).unwrap();
            let moved =
                tx.branches().move_head(menu.id, &reference("main"), &hash(number), &hash(number + 1), at(1), None);
            assert!(moved.unwrap());
            tx.pulls().record_source_move(menu.id, &reference("main"), &hash(number + 1), at(1)).unwrap();
            tx.databases().record_write(menu.id, at(1), FileState { size_bytes: 1, engine_format: 1 }).unwrap();
            tx.idempotency().purge(at(0)).unwrap();
        });
    }
    assert_ne!(store.version(), version);
    assert_eq!(store.rights_version(), rights);
}

/// Checks that concurrent write transactions succeed and do not interfere.
pub fn concurrency(store: &dyn Metadata) {
    const THREADS: i64 = 8;
    const EACH: i64 = 25;
    let (_, _, menu) = scene(store);
    let name = reference("main");
    write(store, |tx| tx.branches().add(menu.id, &branch("main", 0), None).unwrap());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..EACH {
                    write(store, |tx| {
                        // The read and the write of one transaction must not interleave with those of another.
                        let found = tx.branches().get(menu.id, &name).unwrap().unwrap();
                        let n = u64::from_str_radix(found.head.as_str(), 16).unwrap();
                        assert!(tx.branches().move_head(menu.id, &name, &hash(n), &hash(n + 1), at(1), None).unwrap());
                        assert_eq!(tx.pulls().next_number(menu.id).unwrap().get(), i64::try_from(n).unwrap() + 1);
                    });
                    read(store, |tx| {
                        let before = tx.branches().get(menu.id, &name).unwrap().unwrap();
                        std::thread::yield_now();
                        assert_eq!(tx.branches().get(menu.id, &name).unwrap().unwrap(), before, "one state");
                    });
                }
            });
        }
    });
    let head = read(store, |tx| tx.branches().get(menu.id, &name).unwrap().unwrap().head);
    assert_eq!(head, hash(u64::try_from(THREADS * EACH).unwrap()));
}
