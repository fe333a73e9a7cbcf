//! Checks of hooks, deliveries and their leases.

use std::collections::BTreeSet;

use super::{at, database, id, reference, scene, trace, write};
use branchyard_domain::entities::{
    Attempt, AttemptError, Database, Delivery, DeliveryStatus, DisabledReason, Event, EventKind, EventName, Hook,
    HookEvent, PreviousSecret, Request, Sealed,
};
use branchyard_domain::ports::{DeliveryBacklog, DeliveryState, DueDelivery, Metadata, Places, Transaction, WriteKeys};
use branchyard_domain::values::{AttemptId, DeliveryId, EventId, HookId};

fn hook_id(n: u128) -> HookId {
    HookId::from_uuid(id(n))
}

fn delivery_id(n: u128) -> DeliveryId {
    DeliveryId::from_uuid(id(n))
}

pub(super) fn sealed(n: u8) -> Sealed {
    Sealed { key_id: format!("k{n}"), bytes: vec![0, n, 255] }
}

pub(super) fn hook(n: u128, on: &Database, events: &[HookEvent]) -> Hook {
    Hook {
        id: hook_id(n),
        database_id: on.id,
        url: format!("https://hook-{n}.test/ü?a=b"),
        events: events.iter().copied().collect(),
        active: true,
        disabled_reason: None,
        secret: sealed(1),
        previous_secret: None,
        failing_since: None,
        exhausted: false,
        created_at: at(0),
        updated_at: at(0),
    }
}

pub(super) fn event(n: u128, on: &Database) -> Event {
    let kind = EventKind::BranchCreated { branch: reference("a") };
    Event {
        id: EventId::from_uuid(id(n)),
        database_id: on.id,
        at: at(0),
        kind,
        body: format!("body {n}"),
        trace: Some(trace(n)),
    }
}

pub(super) fn delivery(n: u128, hook: u128, event: u128, due: i64) -> Delivery {
    Delivery {
        id: delivery_id(n),
        hook_id: hook_id(hook),
        event_id: EventId::from_uuid(id(event)),
        event: EventName::Branch,
        status: DeliveryStatus::Pending { next_attempt_at: at(due) },
        created_at: at(0),
        attempt_count: 0,
        run_attempts: 0,
    }
}

fn finished(delivery: Delivery, when: i64) -> Delivery {
    Delivery {
        status: DeliveryStatus::Delivered { finished_at: at(when) },
        attempt_count: 1,
        run_attempts: 1,
        ..delivery
    }
}

fn ids(deliveries: &[Delivery]) -> Vec<u128> {
    deliveries.iter().map(|delivery| delivery.id.as_uuid().as_u128()).collect()
}

/// Checks hooks: all fields, lists, subscriptions, removal.
pub fn hooks(store: &dyn Metadata) {
    let (_, bob, menu) = scene(store);
    let other = database(11, &bob, "other");
    let both = [HookEvent::Push, HookEvent::Branch];
    write(store, |tx| {
        tx.databases().add(&other).unwrap();
        for n in [1, 3, 2] {
            tx.hooks().add(&hook(n, &menu, &both)).unwrap();
        }
        tx.hooks().add(&hook(4, &other, &[HookEvent::PullRequest])).unwrap();
        assert_eq!(tx.hooks().get(menu.id, hook_id(1)).unwrap(), Some(hook(1, &menu, &both)));
        assert_eq!(tx.hooks().get(other.id, hook_id(1)).unwrap(), None, "of another database");
        assert_eq!(tx.hooks().count(menu.id).unwrap(), 3);
    });
    let mut changed = hook(2, &menu, &[HookEvent::PullRequest]);
    changed.url = "https://elsewhere.test/".to_owned();
    changed.active = false;
    changed.disabled_reason = Some(DisabledReason::Failing);
    changed.secret = sealed(2);
    changed.previous_secret = Some(PreviousSecret { secret: sealed(1), until: at(99) });
    changed.failing_since = Some(at(5));
    changed.exhausted = true;
    changed.updated_at = at(6);
    write(store, |tx| {
        assert!(tx.hooks().update(&changed).unwrap());
        assert!(!tx.hooks().update(&hook(9, &menu, &both)).unwrap());
        assert_eq!(tx.hooks().get(menu.id, changed.id).unwrap(), Some(changed.clone()));
        tx.events().add(&event(1, &menu)).unwrap();
        tx.deliveries().add(&[delivery(7, 1, 1, 0)]).unwrap();
        tx.deliveries().add(&[delivery(8, 1, 1, 0)]).unwrap();
        let listed = tx.hooks().list(menu.id, None, 2).unwrap();
        assert_eq!(listed[0], (hook(1, &menu, &both), Some(delivery(8, 1, 1, 0))));
        assert_eq!(listed[1], (changed.clone(), None));
        assert_eq!(tx.hooks().list(menu.id, Some(changed.id), 9).unwrap(), [(hook(3, &menu, &both), None)]);
        let wanting = |tx: &mut dyn Transaction, event| tx.hooks().list_subscribed(menu.id, event).unwrap();
        assert_eq!(wanting(tx, HookEvent::Push), [(hook_id(1), Some(delivery_id(8))), (hook_id(3), None)]);
        assert_eq!(wanting(tx, HookEvent::Branch).len(), 2);
        assert_eq!(wanting(tx, HookEvent::PullRequest), [], "it is not active");
    });
    write(store, |tx| {
        assert!(tx.hooks().remove(hook_id(1)).unwrap());
        assert!(!tx.hooks().remove(hook_id(1)).unwrap());
        assert_eq!(tx.deliveries().get(hook_id(1), delivery_id(7)).unwrap(), None);
        tx.events().add(&event(2, &other)).unwrap();
        tx.deliveries().add(&[delivery(9, 4, 2, 0)]).unwrap();
        tx.hooks().clear(menu.id).unwrap();
        assert_eq!((tx.hooks().count(menu.id).unwrap(), tx.hooks().count(other.id).unwrap()), (0, 1));
        assert_eq!(tx.events().list(menu.id, None, 9).unwrap(), []);
        assert_eq!(tx.events().list_waiting(9).unwrap(), [event(2, &other)]);
        tx.hooks().clear(other.id).unwrap();
        assert_eq!(tx.events().list_waiting(9).unwrap(), []);
    });
}

/// Checks how hooks are found and counted by the keys that their secrets are sealed under.
pub fn hook_secrets(store: &dyn Metadata) {
    let (_, bob, menu) = scene(store);
    let other = database(11, &bob, "other");
    let keyed = |n, on: &Database, key, previous: Option<u8>| Hook {
        secret: sealed(key),
        previous_secret: previous.map(|key| PreviousSecret { secret: sealed(key), until: at(99) }),
        ..hook(n, on, &[HookEvent::Push])
    };
    write(store, |tx| {
        assert_eq!(tx.hooks().count_by_key().unwrap(), []);
        tx.databases().add(&other).unwrap();
        for hook in [keyed(1, &menu, 1, None), keyed(2, &other, 2, Some(1)), keyed(3, &menu, 2, Some(2))] {
            tx.hooks().add(&hook).unwrap();
        }
        tx.hooks().add(&keyed(4, &menu, 2, None)).unwrap();
    });
    let mut tx = store.read().unwrap();
    let counts = |counts: &[(&str, u64)]| counts.iter().map(|(key, n)| ((*key).to_owned(), *n)).collect::<Vec<_>>();
    assert_eq!(tx.hooks().count_by_key().unwrap(), counts(&[("k1", 2), ("k2", 3)]));
    let mut otherwise = |key, after, most| {
        let found = tx.hooks().list_sealed_otherwise(key, after, most).unwrap();
        found.iter().map(|hook| hook.id.as_uuid().as_u128()).collect::<Vec<_>>()
    };
    assert_eq!(otherwise("k2", None, 9), [1, 2], "also for its previous secret");
    assert_eq!(otherwise("k2", Some(hook_id(1)), 9), [2]);
    assert_eq!(otherwise("k1", None, 9), [2, 3, 4]);
    assert_eq!(otherwise("k3", None, 3), [1, 2, 3]);
    let found = tx.hooks().list_sealed_otherwise("k2", Some(hook_id(1)), 9).unwrap();
    assert_eq!(found, [keyed(2, &other, 2, Some(1))]);
}

/// Checks deliveries: lists by state, giving up, and retention.
pub fn deliveries(store: &dyn Metadata) {
    let (_, _, menu) = scene(store);
    write(store, |tx| {
        for n in [1, 2] {
            tx.hooks().add(&hook(n, &menu, &[HookEvent::Push])).unwrap();
            tx.events().add(&event(n, &menu)).unwrap();
        }
        for n in [3, 5, 4, 6] {
            tx.deliveries().add(&[delivery(n, 1, 1, 0)]).unwrap();
        }
        tx.deliveries().add(&[delivery(7, 2, 2, 0)]).unwrap();
        for n in [1, 2] {
            tx.events().mark_dispatched(EventId::from_uuid(id(n)), at(1)).unwrap();
        }
        assert_eq!(tx.events().list_waiting(9).unwrap(), []);
    });
    let failed = DeliveryStatus::Failed { finished_at: at(20) };
    write(store, |tx| {
        assert!(tx.deliveries().update(&finished(delivery(4, 1, 1, 0), 10)).unwrap());
        assert!(!tx.deliveries().update(&delivery(9, 1, 1, 0)).unwrap());
        assert_eq!(tx.deliveries().get(hook_id(1), delivery_id(4)).unwrap(), Some(finished(delivery(4, 1, 1, 0), 10)));
        assert_eq!(tx.deliveries().get(hook_id(2), delivery_id(4)).unwrap(), None, "of another hook");
        let mut both = tx.deliveries().get_all(&[delivery_id(7), delivery_id(8), delivery_id(4)]).unwrap();
        both.sort_by_key(|delivery| delivery.id);
        assert_eq!(ids(&both), [4, 7], "and no word of one that is not there");
        assert_eq!(tx.deliveries().get_all(&[]).unwrap(), []);
        let list = |tx: &mut dyn Transaction, state, before, limit| {
            ids(&tx.deliveries().list(hook_id(1), state, before, limit).unwrap())
        };
        assert_eq!(list(tx, None, None, 9), [6, 5, 4, 3]);
        assert_eq!(list(tx, None, Some(delivery_id(5)), 1), [4]);
        assert_eq!(list(tx, Some(DeliveryState::Delivered), None, 9), [4]);
        assert_eq!(list(tx, Some(DeliveryState::Pending), None, 2), [6, 5]);
        assert_eq!(tx.deliveries().give_up(hook_id(1), at(20)).unwrap(), 3);
        assert_eq!(tx.deliveries().give_up(hook_id(1), at(21)).unwrap(), 0);
        assert_eq!(list(tx, Some(DeliveryState::Failed), None, 9), [6, 5, 3]);
        assert_eq!(tx.deliveries().get(hook_id(1), delivery_id(3)).unwrap().unwrap().status, failed);
        assert!(tx.deliveries().get(hook_id(2), delivery_id(7)).unwrap().unwrap().is_pending());
    });
    write(store, |tx| {
        assert_eq!(tx.deliveries().purge(at(10), 9).unwrap(), 0, "finished at that moment, it stays");
        assert_eq!(tx.deliveries().purge(at(11), 9).unwrap(), 1);
        assert_eq!(tx.events().purge().unwrap(), 0, "others still need it");
        assert_eq!(tx.deliveries().purge(at(1_000), 2).unwrap(), 2);
        assert_eq!(tx.deliveries().purge(at(1_000), 2).unwrap(), 1, "a pending one is never old");
        assert_eq!(tx.events().purge().unwrap(), 1);
        assert_eq!(tx.events().list(menu.id, None, 9).unwrap(), [event(2, &menu)]);
    });
}

/// Checks the stored request and the retained attempts of deliveries.
pub fn delivery_log(store: &dyn Metadata) {
    let (_, _, menu) = scene(store);
    let request = |n: u32| Request {
        url: "https://hook.test/ü".to_owned(),
        headers: vec![("webhook-id".to_owned(), n.to_string()), ("a".to_owned(), "ü".to_owned())],
    };
    let attempt = |n: u8| Attempt {
        id: AttemptId::from_uuid(id(n.into())),
        started_at: at(n.into()),
        duration_ms: 12,
        response_status: Some(500),
        response_headers: Some(vec![("x".to_owned(), "y, z".to_owned())]),
        response_body: Some("a\u{0}\u{fffd}".to_owned()),
        error: None,
    };
    let errors = [
        AttemptError::Timeout,
        AttemptError::Refused,
        AttemptError::Dns,
        AttemptError::Tls,
        AttemptError::BlockedAddress,
        AttemptError::Redirect,
        AttemptError::Connection,
    ];
    write(store, |tx| {
        tx.hooks().add(&hook(1, &menu, &[HookEvent::Push])).unwrap();
        tx.events().add(&event(1, &menu)).unwrap();
        tx.deliveries().add(&[delivery(1, 1, 1, 0)]).unwrap();
        tx.deliveries().add(&[delivery(2, 1, 1, 0)]).unwrap();
        assert_eq!(tx.deliveries().request(delivery_id(1)).unwrap(), Some((None, "body 1".to_owned())));
        assert_eq!(tx.deliveries().request(delivery_id(9)).unwrap(), None);
        for n in 1..=5 {
            let delivery = Delivery { attempt_count: n.into(), ..finished(delivery(1, 1, 1, 0), 9) };
            tx.attempts().add(&delivery, &attempt(n), &request(n.into()), 3).unwrap();
            assert_eq!(tx.deliveries().get(hook_id(1), delivery_id(1)).unwrap(), Some(delivery));
        }
        for (n, error) in (1..).zip(errors) {
            let delivery = Delivery { attempt_count: n, ..delivery(2, 1, 1, 0) };
            let silent = Attempt {
                response_status: None,
                response_headers: None,
                response_body: None,
                error: Some(error),
                ..attempt(u8::try_from(20 + n).unwrap())
            };
            tx.attempts().add(&delivery, &silent, &request(0), 50).unwrap();
        }
    });
    write(store, |tx| {
        assert_eq!(tx.attempts().list(delivery_id(1)).unwrap(), [attempt(3), attempt(4), attempt(5)]);
        assert_eq!(tx.deliveries().request(delivery_id(1)).unwrap(), Some((Some(request(5)), "body 1".to_owned())));
        let kept = tx.attempts().list(delivery_id(2)).unwrap();
        assert_eq!(kept.iter().filter_map(|attempt| attempt.error).collect::<Vec<_>>(), errors);
        assert_eq!((kept[0].response_status, &kept[0].response_body), (None, &None));
    });
}

/// Checks the leases of hooks: one attempt at a time per hook, in the order of events; expiry; limits for failing
/// hooks.
pub fn delivery_leases(store: &dyn Metadata) {
    let (_, _, menu) = scene(store);
    let places = |hooks, held_back| Places { hooks, held_back, run: 2, slow: &[] };
    let any = places(1, 1);
    let lease = |tx: &mut dyn Transaction, holder: &str, now: i64, hooks, failing| {
        let found = tx.deliveries().lease(holder, at(now), at(now + 30), places(hooks, failing)).unwrap();
        let firsts = found.iter().map(|lease| lease.deliveries[0].delivery.id.as_uuid().as_u128());
        firsts.collect::<Vec<_>>()
    };
    let held = |tx: &mut dyn Transaction, holder: &str, until: i64| {
        let of_two = [(hook_id(1), at(until)), (hook_id(9), at(until))];
        let mut held = tx.deliveries().held(holder, &of_two).unwrap();
        assert!(held.iter().all(|(_, end)| *end == at(until)));
        let first = held.pop().map(|(hook, _)| hook);
        assert!(held.is_empty());
        first
    };
    write(store, |tx| {
        for n in 1..=3 {
            tx.hooks().add(&hook(n, &menu, &[HookEvent::Push])).unwrap();
        }
        tx.events().add(&event(1, &menu)).unwrap();
        assert!(!tx.deliveries().is_due(at(1_000), any).unwrap());
        // In hook 1, the oldest event waits for its next attempt and does not delay newer ones.
        tx.deliveries().add(&[delivery(10, 1, 1, 50), delivery(12, 1, 1, 8), delivery(11, 1, 1, 9)]).unwrap();
        tx.deliveries().add(&[delivery(13, 1, 1, 7), delivery(20, 2, 1, 5), delivery(30, 3, 1, 6)]).unwrap();
        tx.deliveries().add(&[]).unwrap();
        assert!(!tx.deliveries().is_due(at(4), any).unwrap());
        assert!(tx.deliveries().is_due(at(5), any).unwrap());
        assert_eq!(lease(tx, "a", 4, 9, 9), [0_u128; 0]);
        assert_eq!(lease(tx, "a", 10, 2, 9), [20, 30], "hooks are leased in the order of their due times");
        let leased = tx.deliveries().lease("b", at(10), at(40), places(9, 9)).unwrap();
        assert_eq!(leased.len(), 1);
        assert_eq!(leased[0].hook, hook(1, &menu, &[HookEvent::Push]));
        let due = |delivery| DueDelivery { delivery, body: "body 1".to_owned(), trace: Some(trace(1)) };
        let run = [due(delivery(11, 1, 1, 9)), due(delivery(12, 1, 1, 8))];
        assert_eq!(leased[0].database, menu.locator);
        assert_eq!(leased[0].deliveries, run, "the first by event, not by time, and no more than asked for");
        assert_eq!(leased[0].until, at(40));
        let backlog = DeliveryBacklog { events: 1, due: 5, oldest_due_at: Some(at(5)) };
        assert_eq!(tx.deliveries().backlog(at(10)).unwrap(), backlog, "with what is being attempted");
        assert_eq!(tx.deliveries().backlog(at(5)).unwrap().due, 1);
        assert_eq!(tx.deliveries().backlog(at(4)).unwrap(), DeliveryBacklog { due: 0, oldest_due_at: None, ..backlog });
        assert!(!tx.deliveries().is_due(at(39), any).unwrap(), "all are held");
        assert!(tx.deliveries().is_due(at(40), any).unwrap(), "leases end");
    });
    write(store, |tx| {
        assert_eq!(held(tx, "a", 40), None, "it is b's");
        assert_eq!(held(tx, "b", 41), None, "another lease");
        assert_eq!(held(tx, "b", 40), Some(hook(1, &menu, &[HookEvent::Push])));
        for n in [11, 12, 13] {
            let attempted = Delivery { attempt_count: 1, ..finished(delivery(n, 1, 1, 9), 11) };
            let attempt = Attempt {
                id: AttemptId::from_uuid(id(n)),
                started_at: at(10),
                duration_ms: 1,
                response_status: Some(204),
                response_headers: None,
                response_body: None,
                error: None,
            };
            let request = Request { url: "https://hook.test/".to_owned(), headers: Vec::new() };
            tx.attempts().add(&attempted, &attempt, &request, 9).unwrap();
        }
        tx.deliveries().release(&[hook_id(1), hook_id(9)]).unwrap();
        assert_eq!(held(tx, "b", 40), None);
        assert!(!tx.deliveries().is_due(at(39), any).unwrap(), "nothing of hook 1 is due before 50");
        assert_eq!(tx.deliveries().recover("a").unwrap(), 2);
        assert_eq!(tx.deliveries().recover("a").unwrap(), 0);
        let mut failing = hook(2, &menu, &[HookEvent::Push]);
        failing.failing_since = Some(at(1));
        assert!(tx.hooks().update(&failing).unwrap());
        assert_eq!(lease(tx, "c", 12, 9, 0), [30]);
        tx.deliveries().add(&[delivery(21, 2, 1, 5)]).unwrap();
        let alone = tx.deliveries().lease("c", at(12), at(42), places(1, 1)).unwrap();
        let ids: Vec<_> = alone[0].deliveries.iter().map(|due| due.delivery.id).collect();
        assert_eq!(ids, [delivery_id(20)], "a hook that fails is tried with one");
        // All leases have expired, and the oldest event of hook 1 is due.
        assert_eq!(lease(tx, "d", 60, 9, 9).into_iter().collect::<BTreeSet<_>>(), BTreeSet::from([10, 20, 30]));
        assert_eq!(tx.deliveries().give_up(hook_id(3), at(61)).unwrap(), 1);
        assert_eq!(tx.deliveries().recover("d").unwrap(), 3);
        assert_eq!(lease(tx, "d", 61, 9, 9).len(), 2, "what was given up is not due");
        tx.deliveries().add(&[delivery(31, 3, 1, 61)]).unwrap();
        assert_eq!(lease(tx, "d", 61, 9, 9), [31], "and what is added is");
        assert!(tx.hooks().remove(hook_id(1)).unwrap(), "also while it is held");
        assert_eq!(held(tx, "d", 91), None);
    });
    slow_hooks(store, &menu);
}

/// Checks that slow hooks count against the limit for failing hooks.
fn slow_hooks(store: &dyn Metadata, menu: &Database) {
    write(store, |tx| {
        tx.deliveries().recover("d").unwrap();
        for n in 4..=6 {
            tx.hooks().add(&hook(n, menu, &[HookEvent::Push])).unwrap();
            tx.deliveries().add(&[delivery(n * 10, n, 1, 100), delivery(n * 10 + 1, n, 1, 100)]).unwrap();
        }
    });
    let slow = [hook_id(4), hook_id(5)];
    // Returns each hook that would be leased with its number of deliveries, and rolls back.
    let leased = |hooks, held_back| {
        let mut tx = store.write(&WriteKeys::any()).unwrap();
        let places = Places { hooks, held_back, run: 2, slow: &slow };
        let is_due = tx.deliveries().is_due(at(200), places).unwrap();
        let found = tx.deliveries().lease("e", at(200), at(230), places).unwrap();
        assert_eq!(is_due, !found.is_empty());
        let each = found.iter().map(|lease| (lease.hook.id, lease.deliveries.len()));
        each.filter(|(hook, _)| *hook >= hook_id(3)).collect::<Vec<_>>()
    };
    assert_eq!(leased(9, 0), [(hook_id(3), 1), (hook_id(6), 2)]);
    assert_eq!(leased(0, 0), []);
    // Hook 2 is failing and has waited longer.
    assert_eq!(leased(9, 2), [(hook_id(3), 1), (hook_id(4), 1), (hook_id(6), 2)]);
    assert_eq!(leased(9, 3), [(hook_id(3), 1), (hook_id(4), 1), (hook_id(5), 1), (hook_id(6), 2)]);
}
