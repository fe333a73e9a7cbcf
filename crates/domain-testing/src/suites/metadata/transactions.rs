//! Checks of transactions, the version of the store, and concurrent writers.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{at, branch, hash, read, reference, scene, write};
use branchyard_domain::ports::{Durability, Metadata};

/// Checks that transactions are atomic and isolated.
pub fn transactions(store: &dyn Metadata) {
    let (_, _, menu) = scene(store);
    let name = reference("main");
    {
        let mut tx = store.write().unwrap();
        tx.branches().add(menu.id, &branch("main", 1)).unwrap();
        assert!(tx.branches().get(menu.id, &name).unwrap().is_some(), "a transaction sees what it did");
    }
    assert_eq!(read(store, |tx| tx.branches().get(menu.id, &name).unwrap()), None, "dropped is undone");
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut tx = store.write().unwrap();
        tx.branches().add(menu.id, &branch("main", 1)).unwrap();
        std::panic::resume_unwind(Box::new("on purpose"));
    }));
    assert!(panicked.is_err());
    assert_eq!(read(store, |tx| tx.branches().get(menu.id, &name).unwrap()), None, "so is a panic");
    write(store, |tx| tx.branches().add(menu.id, &branch("main", 1)).unwrap());
    assert!(read(store, |tx| tx.branches().get(menu.id, &name).unwrap()).is_some(), "and the store goes on");
    store.read().unwrap().commit(Durability::Synced).unwrap();
}

/// Checks that every change produces a new version. A store without versions always returns `None`.
pub fn versions(store: &dyn Metadata) {
    let (_, _, menu) = scene(store);
    let Some(first) = store.version() else {
        write(store, |tx| tx.branches().add(menu.id, &branch("main", 1)).unwrap());
        assert_eq!(store.version(), None);
        return;
    };
    read(store, |tx| tx.branches().get(menu.id, &reference("main")).unwrap());
    assert_eq!(store.version(), Some(first), "reading changes nothing");
    let mut seen = BTreeSet::from([first]);
    for number in 0..20 {
        write(store, |tx| tx.branches().add(menu.id, &branch(&format!("b{number}"), 1)).unwrap());
        let version = store.version().unwrap();
        assert!(seen.insert(version), "each change has a version of its own");
        assert_eq!(store.version(), Some(version));
    }
}

/// Checks that concurrent write transactions succeed and do not interfere.
pub fn concurrency(store: &dyn Metadata) {
    const THREADS: i64 = 8;
    const EACH: i64 = 25;
    let (_, _, menu) = scene(store);
    let name = reference("main");
    write(store, |tx| tx.branches().add(menu.id, &branch("main", 0)).unwrap());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..EACH {
                    write(store, |tx| {
                        // The read and the write of one transaction must not interleave with those of another.
                        let found = tx.branches().get(menu.id, &name).unwrap().unwrap();
                        let n = u64::from_str_radix(found.head.as_str(), 16).unwrap();
                        assert!(tx.branches().move_head(menu.id, &name, &hash(n), &hash(n + 1), at(1)).unwrap());
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
