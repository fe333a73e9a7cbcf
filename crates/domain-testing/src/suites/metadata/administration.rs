//! Checks of suspended users and quarantined databases.

use std::collections::BTreeSet;

use branchyard_auth::HashedToken;

use super::{at, branch, database, hash, id, operation, operation_id, pull, read, reference, scene, user, write};
use branchyard_domain::entities::{
    Delivery, DeliveryStatus, Event, EventKind, EventName, Hook, HookEvent, LastUse, PullHeads, Sealed, Session, Token,
    User, Visibility,
};
use branchyard_domain::ports::{DatabaseFilter, LeaseTurn, Metadata, Places, Ranking, Transaction, UserFilter};
use branchyard_domain::values::{DeliveryId, EventId, HookId, SessionId, TokenId};

/// Checks lists of users, their suspension, and look-ups of credentials by id.
pub fn user_lists(store: &dyn Metadata) {
    let (ann, bob, _) = scene(store);
    let zoe = User { is_admin: true, ..user(30, "Zoe-1") };
    let last_use = |seconds| LastUse { at: at(seconds), address: "192.0.2.1".to_owned(), user_agent: String::new() };
    let token = Token {
        id: TokenId::from_uuid(id(50)),
        user_id: bob.id,
        name: "ci".to_owned(),
        hash: HashedToken::from_bytes([5; 32]),
        created_at: at(0),
        expires_at: at(900),
        last_use: None,
    };
    let session = |n: u8, of: &User, used: i64| Session {
        id: SessionId::from_uuid(id(n.into())),
        user_id: of.id,
        hash: HashedToken::from_bytes([n; 32]),
        created_at: at(0),
        expires_at: at(900),
        confirmed_at: at(0),
        last_use: last_use(used),
    };
    write(store, |tx| {
        tx.users().add(&zoe).unwrap();
        tx.tokens().add(&token).unwrap();
        tx.sessions().add(&session(60, &bob, 40)).unwrap();
        tx.sessions().add(&session(61, &zoe, 70)).unwrap();
        assert_eq!(tx.users().last_seen(ann.id).unwrap(), None);
        assert_eq!(tx.users().last_seen(bob.id).unwrap(), Some(at(40)), "the token was never used");
        tx.tokens().touch(token.id, &last_use(41)).unwrap();
        assert_eq!(tx.users().last_seen(bob.id).unwrap(), Some(at(41)));
        assert_eq!(tx.users().last_seen(zoe.id).unwrap(), Some(at(70)));
        let found = tx.tokens().get(token.id).unwrap().unwrap();
        assert_eq!((found.user_id, found.last_use), (bob.id, Some(last_use(41))));
        assert!(tx.tokens().get(TokenId::from_uuid(id(51))).unwrap().is_none());
        assert_eq!(tx.sessions().get(SessionId::from_uuid(id(61))).unwrap(), Some(session(61, &zoe, 70)));
        assert_eq!(tx.sessions().get(SessionId::from_uuid(id(62))).unwrap(), None);
    });
    let suspended = User { suspended_at: Some(at(80)), ..zoe.clone() };
    let listed = |filter: &UserFilter, after: Option<&str>, limit: usize| {
        let mut names = Vec::new();
        read(store, |tx| {
            let found = tx.users().list(filter, after, limit).unwrap();
            names = found.into_iter().map(|user| user.name.to_string()).collect();
        });
        names
    };
    let all = UserFilter::default();
    let names = [ann.name.to_string(), bob.name.to_string(), zoe.name.to_string()];
    assert_eq!(listed(&all, None, 10), names);
    assert_eq!(listed(&all, None, 2), names[..2]);
    assert_eq!(listed(&all, Some(&bob.name.key()), 10), names[2..]);
    let containing = |text: &str| UserFilter { contains: Some(text.to_owned()), ..UserFilter::default() };
    assert_eq!(listed(&containing("OE-"), None, 10), names[2..]);
    assert!(listed(&containing("o_-"), None, 10).is_empty(), "an underscore is no wildcard");
    assert!(listed(&containing(&"x".repeat(UserFilter::MAX_CONTAINS)), None, 10).is_empty());
    assert!(listed(&containing(&"x".repeat(UserFilter::MAX_CONTAINS + 1)), None, 10).is_empty());
    let admins = UserFilter { is_admin: Some(true), ..UserFilter::default() };
    let expected = [&ann, &bob, &zoe].iter().filter(|user| user.is_admin).count();
    assert_eq!(listed(&admins, None, 10).len(), expected);
    write(store, |tx| {
        let before = tx.users().count_active_admins().unwrap();
        assert!(tx.users().update(&suspended).unwrap());
        assert_eq!(tx.users().get(zoe.id).unwrap(), Some(suspended.clone()));
        assert_eq!(tx.users().count_active_admins().unwrap(), before - 1);
        let (_, of_session) = tx.sessions().by_hash(&HashedToken::from_bytes([61; 32])).unwrap().unwrap();
        assert_eq!(of_session.suspended_at, Some(at(80)));
    });
    assert_eq!(listed(&UserFilter { is_suspended: Some(true), ..all.clone() }, None, 10), names[2..]);
    assert_eq!(listed(&UserFilter { is_suspended: Some(false), ..all }, None, 10), names[..2]);
    assert_eq!(listed(&admins, None, 10).len(), expected, "a suspended administrator is listed");
}

/// Checks that a quarantined database is in the lists of administrators only, and that its work waits.
pub fn quarantine(store: &dyn Metadata) {
    let (ann, bob, menu) = scene(store);
    let (admin, other) = if ann.is_admin { (&ann, &bob) } else { (&bob, &ann) };
    assert!(!other.is_admin);
    let mut fork = database(11, other, "copy");
    fork.parent_id = Some(menu.id);
    fork.network_id = menu.id;
    let mut hidden = database(12, other, "hidden");
    hidden.visibility = Visibility::Private;
    let places = Places { hooks: 10, held_back: 10, run: 10, slow: &[] };
    let hook_id = HookId::from_uuid(id(70));
    let event_id = EventId::from_uuid(id(71));
    let mut across = pull(1, &menu, &fork, "topic", other);
    across.content.heads = Some(PullHeads { from: hash(21), to: hash(22) });
    let mut due = pull(2, &menu, &fork, "more", other);
    due.content.heads = Some(PullHeads { from: hash(23), to: hash(22) });
    due.content.fetch_due_at = Some(at(1));
    write(store, |tx| {
        tx.databases().add(&fork).unwrap();
        tx.databases().add(&hidden).unwrap();
        tx.branches().add(menu.id, &branch("trunk", 20), None).unwrap();
        tx.operations().add(&operation(1, &fork, other)).unwrap();
        tx.hooks()
            .add(&Hook {
                id: hook_id,
                database_id: fork.id,
                url: "https://hook.test/".to_owned(),
                events: BTreeSet::from([HookEvent::Branch]),
                active: true,
                disabled_reason: None,
                secret: Sealed { key_id: "k".to_owned(), bytes: vec![1] },
                previous_secret: None,
                failing_since: None,
                exhausted: false,
                created_at: at(0),
                updated_at: at(0),
            })
            .unwrap();
        let kind = EventKind::BranchCreated { branch: reference("a") };
        tx.events()
            .add(&Event { id: event_id, database_id: fork.id, at: at(0), kind, body: "b".to_owned(), trace: None })
            .unwrap();
        tx.deliveries()
            .add(&[Delivery {
                id: DeliveryId::from_uuid(id(72)),
                hook_id,
                event_id,
                event: EventName::Branch,
                status: DeliveryStatus::Pending { next_attempt_at: at(1) },
                created_at: at(0),
                attempt_count: 0,
                run_attempts: 0,
            }])
            .unwrap();
        tx.pulls().add(&across).unwrap();
        tx.pulls().add(&due).unwrap();
    });
    let seen = |viewer: Option<&User>| {
        let viewer = viewer.map(|user| user.id);
        let mut found = Vec::new();
        read(store, |tx| {
            let all = DatabaseFilter::default();
            let listed = tx.databases().list(viewer, &all, None, 10).unwrap();
            let mut ranked = tx.databases().list_ranked(viewer, &all, Ranking::Creation, None, 10).unwrap();
            found = listed.iter().map(|database| database.id).collect::<Vec<_>>();
            ranked.sort_by_key(|database| database.id);
            found.sort_unstable();
            assert_eq!(ranked.iter().map(|database| database.id).collect::<Vec<_>>(), found);
            let forks = tx.databases().list_forks(viewer, menu.id, None, 10).unwrap().len();
            assert_eq!(forks, usize::from(found.contains(&fork.id)));
            let counted = tx.databases().count_forks(viewer, &[menu.id]).unwrap();
            assert_eq!(counted.contains_key(&menu.id), found.contains(&fork.id));
        });
        found
    };
    let own = |tx: &mut dyn Transaction, user: &User| {
        let mut own: Vec<_> = tx.databases().list_of_user(user.id, 10).unwrap().iter().map(|found| found.id).collect();
        own.sort_unstable();
        own
    };
    let named = |tx: &mut dyn Transaction| tx.refs().named_commits(menu.id, None, 10).unwrap();
    read(store, |tx| {
        assert_eq!(named(tx), [hash(20), hash(21), hash(22)]);
        assert_eq!(tx.pull_fetches().due(at(5), 5, 5).unwrap().len(), 1);
        assert!(tx.deliveries().is_due(at(5), places).unwrap());
    });
    for mut database in [fork.clone(), hidden.clone()] {
        database.quarantined_at = Some(at(3));
        write(store, |tx| {
            assert!(tx.databases().update(&database).unwrap());
            let found = tx.databases().get(database.id).unwrap().unwrap();
            assert_eq!((found.quarantined_at, found.version), (Some(at(3)), database.version + 1));
        });
    }
    assert_eq!(seen(None), [menu.id]);
    assert_eq!(seen(Some(other)), [menu.id], "not even the owner");
    assert_eq!(seen(Some(admin)), [menu.id, fork.id, hidden.id], "whatever the visibility");
    write(store, |tx| {
        assert!(!own(tx, other).contains(&fork.id));
        let kept = tx.refs().kept_commits(menu.id, None, None, 10).unwrap();
        assert_eq!(kept, [hash(20), hash(21), hash(22), hash(23)], "a garbage collection keeps what is hidden");
        assert_eq!(named(tx), [hash(20), hash(22)], "what came from the source is hidden");
        assert!(tx.pull_fetches().due(at(5), 5, 5).unwrap().is_empty());
        assert!(!tx.deliveries().is_due(at(5), places).unwrap());
        assert!(tx.deliveries().lease("d", at(5), at(35), places).unwrap().is_empty());
        assert!(tx.operations().lease("w", at(5), at(35), LeaseTurn::default()).unwrap().is_none());
        let filter = |is_quarantined| DatabaseFilter { is_quarantined, ..DatabaseFilter::default() };
        let all = |tx: &mut dyn Transaction, filter: &DatabaseFilter| {
            let mut found: Vec<_> =
                tx.databases().list_all(filter, None, 10).unwrap().iter().map(|found| found.id).collect();
            found.sort_unstable();
            found
        };
        assert_eq!(all(tx, &filter(None)), [menu.id, fork.id, hidden.id]);
        assert_eq!(all(tx, &filter(Some(true))), [fork.id, hidden.id]);
        assert_eq!(all(tx, &filter(Some(false))), [menu.id]);
        let key = (fork.locator.owner.key(), fork.locator.name.key());
        let after = tx.databases().list_all(&filter(Some(true)), Some((&key.0, &key.1)), 10).unwrap();
        assert_eq!(after.iter().map(|found| found.id).collect::<Vec<_>>(), [hidden.id]);
    });
    let mut released = fork.clone();
    released.version += 1;
    write(store, |tx| {
        assert!(tx.databases().update(&released).unwrap());
        assert!(own(tx, other).contains(&fork.id));
        assert_eq!(tx.pull_fetches().due(at(5), 5, 5).unwrap().len(), 1);
        assert_eq!(tx.deliveries().lease("d", at(5), at(35), places).unwrap().len(), 1, "nothing was lost");
        let leased = tx.operations().lease("w", at(5), at(35), LeaseTurn::default()).unwrap().unwrap();
        assert_eq!(leased.id, operation_id(1));
        assert_eq!(named(tx), [hash(20), hash(21), hash(22)]);
    });
    assert_eq!(seen(None), [menu.id, fork.id]);
}
