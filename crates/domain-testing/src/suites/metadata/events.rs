//! Checks of events and saved answers.

use super::{at, database, hash, id, reference, scene, taken, trace, write};
use branchyard_domain::entities::{Database, Event, EventKind, PullAction};
use branchyard_domain::ports::{Metadata, SavedAnswer};
use branchyard_domain::values::{EventId, PullNumber};

/// Checks that the outbox keeps the order in which events were appended.
pub fn events(store: &dyn Metadata) {
    let (ann, bob, menu) = scene(store);
    let other = database(11, &bob, "other");
    let event = |n: u128, on: &Database, kind| Event {
        id: EventId::from_uuid(id(n)),
        database_id: on.id,
        at: at(i64::try_from(n).unwrap()),
        kind,
        body: format!("{{\"ü\":{n}}}"),
        trace: (n % 2 == 0).then(|| trace(n)),
    };
    let list = [
        event(1, &menu, EventKind::BranchCreated { branch: reference("a") }),
        event(2, &menu, EventKind::Push { branch: reference("a"), head: hash(2), previous: hash(1) }),
        event(
            4,
            &menu,
            EventKind::Pull {
                number: PullNumber::FIRST,
                action: PullAction::Reopened,
                from: menu.locator.clone(),
                from_branch: reference("a"),
                to_branch: reference("main"),
                author: ann.name.clone(),
                sender: bob.name.clone(),
            },
        ),
        event(5, &menu, EventKind::BranchDeleted { branch: reference("a") }),
    ];
    write(store, |tx| {
        tx.databases().add(&other).unwrap();
        tx.events().add(&list[0]).unwrap();
        tx.events().add(&list[1]).unwrap();
        tx.events().add(&event(3, &other, EventKind::BranchCreated { branch: reference("b") })).unwrap();
        tx.events().add(&list[2]).unwrap();
        tx.events().add(&list[3]).unwrap();
    });
    write(store, |tx| {
        assert_eq!(tx.events().list(menu.id, None, 10).unwrap(), list);
        assert_eq!(tx.events().list(menu.id, None, 2).unwrap(), list[..2]);
        assert_eq!(tx.events().list(menu.id, Some(list[1].id), 10).unwrap(), list[2..]);
        let waiting: Vec<u128> =
            tx.events().list_waiting(4).unwrap().iter().map(|e| e.id.as_uuid().as_u128()).collect();
        assert_eq!(waiting, [1, 2, 3, 4], "of all databases, in order");
        tx.events().mark_dispatched(list[0].id, at(9)).unwrap();
        tx.events().mark_dispatched(list[1].id, at(9)).unwrap();
        assert_eq!(
            tx.events().list(menu.id, None, 10).unwrap(),
            list[2..],
            "a dispatched event without deliveries is removed"
        );
        assert_eq!(tx.events().list(menu.id, Some(list[1].id), 10).unwrap(), list[2..], "also after one that is gone");
        assert_eq!(tx.events().list(other.id, None, 10).unwrap().len(), 1);
        assert_eq!(tx.events().list_waiting(1).unwrap()[0].body, "{\"ü\":3}");
    });
}

/// Checks saved answers of idempotency keys.
pub fn answers(store: &dyn Metadata) {
    let (ann, bob, _) = scene(store);
    let answer = |caller, scope: &str, key: &str, when| SavedAnswer {
        caller,
        scope: scope.to_owned(),
        key: key.to_owned(),
        request_hash: [3; 32],
        answer: vec![0, 255, 1],
        created_at: when,
    };
    write(store, |tx| {
        tx.idempotency().add(&answer(ann.id, "POST /a", "k", at(1))).unwrap();
        taken(tx.idempotency().add(&answer(ann.id, "POST /a", "k", at(2))));
        tx.idempotency().add(&answer(bob.id, "POST /a", "k", at(2))).unwrap();
        tx.idempotency().add(&answer(ann.id, "POST /b", "k", at(3))).unwrap();
        tx.idempotency().add(&answer(ann.id, "POST /a", "K", at(4))).unwrap();
    });
    write(store, |tx| {
        let found = tx.idempotency().get(ann.id, "POST /a", "k", at(1)).unwrap().unwrap();
        assert_eq!(found, answer(ann.id, "POST /a", "k", at(1)));
        assert_eq!(tx.idempotency().get(ann.id, "POST /a", "k", at(2)).unwrap(), None, "too old");
        assert_eq!(tx.idempotency().get(ann.id, "POST /c", "k", at(0)).unwrap(), None);
        assert_eq!(tx.idempotency().purge(at(3)).unwrap(), 2);
        assert_eq!(tx.idempotency().purge(at(3)).unwrap(), 0);
        assert!(tx.idempotency().get(ann.id, "POST /b", "k", at(0)).unwrap().is_some());
        tx.idempotency().add(&answer(ann.id, "POST /a", "k", at(9))).unwrap();
    });
}
