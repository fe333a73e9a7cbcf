//! Checks of what is read at once, and of changes that are sent together.

use std::collections::BTreeMap;

use branchyard_auth::HashedToken;
use branchyard_domain::entities::{
    Activity, ActivityKind, Database, Event, EventKind, FileState, Hook, HookEvent, MemberRole, OperationStatus,
    Outcome, Role, Token, User,
};
use branchyard_domain::ports::{Metadata, RequestTarget, RoleSources};
use branchyard_domain::values::{AccountId, ActivityId, EventId, HookId, TokenId};

use super::{at, branch, database, hash, id, operation, organization, pull, read, reference, scene, user, write};

/// Checks that the facts about a branch and a writer are those that single look-ups find.
pub fn branch_facts(store: &dyn Metadata) {
    let (ann, bob, menu) = scene(store);
    let acme = organization(4, "acme");
    let of_acme = User { id: acme.id, name: acme.name.clone(), ..user(4, "acme") };
    let shared = database(11, &of_acme, "shared");
    let (cat, gone) = (user(5, "cat"), user(6, "gone"));
    write(store, |tx| {
        tx.users().add(&cat).unwrap();
        tx.users().add(&User { suspended_at: Some(at(1)), ..gone.clone() }).unwrap();
        tx.organizations().add(&acme).unwrap();
        tx.members().put(acme.id, ann.id, MemberRole::Owner, at(1)).unwrap();
        tx.members().put(acme.id, bob.id, MemberRole::Member, at(1)).unwrap();
        tx.databases().add(&shared).unwrap();
        tx.branches().add(menu.id, &branch("main", 1), None).unwrap();
        tx.branches().add(shared.id, &branch("main", 2), None).unwrap();
        tx.branches().add(shared.id, &branch("a", 3), None).unwrap();
        tx.collaborators().put(shared.id, bob.id, Role::Write, at(1)).unwrap();
        tx.collaborators().put(menu.id, cat.id, Role::Admin, at(1)).unwrap();
        tx.collaborators().put(menu.id, gone.id, Role::Admin, at(1)).unwrap();
    });
    let all_agree = |expected: &[(&Database, &str, bool, bool, bool)]| {
        for (of, name, is_held_up, has_hooks, has_pulls) in expected {
            for who in [&ann, &bob, &cat, &gone] {
                let facts =
                    read(store, |tx| tx.databases().branch_facts(of.id, &reference(name), who.id, at(5)).unwrap());
                let facts = facts.unwrap();
                let (row, head, sources) = read(store, |tx| {
                    let member = tx.members().roles(who.id, &[of.owner_id]).unwrap().get(&of.owner_id).copied();
                    let collaborator = tx.collaborators().roles(who.id, &[of.id]).unwrap().get(&of.id).copied();
                    let head = tx.branches().get(of.id, &reference(name)).unwrap().map(|branch| branch.head);
                    (tx.databases().get(of.id).unwrap(), head, RoleSources { member, collaborator })
                });
                let what = format!("{} on {} {name}", who.name, of.locator);
                assert_eq!((Some(facts.database), facts.head), (row, head), "{what}");
                assert_eq!(facts.writer, (who.id != gone.id).then_some(sources), "{what}");
                assert_eq!(
                    (facts.is_held_up, facts.has_hooks, facts.has_pulls),
                    (*is_held_up, *has_hooks, *has_pulls),
                    "{what}"
                );
            }
        }
    };
    all_agree(&[
        (&menu, "main", false, false, false),
        (&shared, "main", false, false, false),
        (&shared, "none", false, false, false),
    ]);
    write(store, |tx| {
        tx.operations().add(&operation(20, &menu, &ann)).unwrap();
        tx.hooks().add(&hook(&shared)).unwrap();
        tx.pulls().add(&pull(1, &menu, &shared, "a", &ann)).unwrap();
    });
    all_agree(&[
        (&menu, "main", true, false, false),
        (&shared, "main", false, true, false),
        (&shared, "a", false, true, true),
    ]);
    read(store, |tx| {
        let none = super::database_id(99);
        assert!(tx.databases().branch_facts(none, &reference("main"), ann.id, at(5)).unwrap().is_none());
        let unknown = AccountId::from_uuid(id(99));
        assert_eq!(
            tx.databases().branch_facts(menu.id, &reference("main"), unknown, at(5)).unwrap().unwrap().writer,
            None
        );
    });
}

fn hook(on: &Database) -> Hook {
    Hook {
        id: HookId::from_uuid(id(30)),
        database_id: on.id,
        url: "https://hook.test/".to_owned(),
        events: [HookEvent::Push].into(),
        active: true,
        disabled_reason: None,
        secret: super::hooks::sealed(1),
        previous_secret: None,
        failing_since: None,
        exhausted: false,
        created_at: at(0),
        updated_at: at(0),
    }
}

/// Checks that the facts of a request are those that single look-ups find. A store with versions leaves the database out.
pub fn request_facts(store: &dyn Metadata) {
    let (ann, bob, menu) = scene(store);
    let secret = |n: u8| HashedToken::from_bytes([n; 32]);
    let token = |n: u8, of: &User| Token {
        id: TokenId::from_uuid(id(u128::from(n))),
        user_id: of.id,
        name: "t".to_owned(),
        hash: secret(n),
        created_at: at(0),
        expires_at: at(9),
        last_use: None,
    };
    write(store, |tx| {
        tx.tokens().add(&token(1, &ann)).unwrap();
        tx.tokens().add(&token(2, &bob)).unwrap();
        tx.branches().add(menu.id, &branch("main", 1), None).unwrap();
        tx.branches().add(menu.id, &branch("a", 2), None).unwrap();
        tx.collaborators().put(menu.id, bob.id, Role::Write, at(1)).unwrap();
    });
    let target = |name: &str, at: Option<&str>| RequestTarget::parse("ANN", name, at).unwrap();
    let facts = |n: u8, target: Option<&RequestTarget>| store.request_facts(&secret(n), target).unwrap();
    let first = facts(1, None).unwrap();
    assert_eq!((first.user, first.token.id), (ann, token(1, &bob).id));
    assert!(first.database.is_none());
    if store.version().is_some() {
        let facts = facts(2, Some(&target("menu", None))).unwrap();
        assert_eq!(facts.user, bob);
        assert!(facts.database.is_none());
        return;
    }
    for (name, at, head) in [
        ("menu", None, Some(1)),
        ("Menu", Some("a"), Some(2)),
        ("menu", Some("none"), None),
        // Not plainly a branch: the default branch, whose head such a request does not ask for.
        ("menu", Some("HEAD"), Some(1)),
        ("menu", Some("main~1"), Some(1)),
    ] {
        let facts = facts(2, Some(&target(name, at))).unwrap();
        assert_eq!(facts.user, bob, "with all addresses");
        let found = facts.database.unwrap();
        assert_eq!((found.database.id, found.head), (menu.id, head.map(hash)), "{at:?}");
        assert_eq!(found.sources, RoleSources { member: None, collaborator: Some(Role::Write) });
    }
    assert!(facts(2, Some(&target("other", None))).unwrap().database.is_none());
    assert!(facts(3, Some(&target("menu", None))).is_none(), "an unknown token");
    write(store, |tx| assert!(tx.tokens().remove(bob.id, token(2, &bob).id).unwrap().is_some()));
    assert!(facts(2, Some(&target("menu", None))).is_none(), "a deleted token");
}

/// Checks that what is sent together is seen by the next look-up, keeps its order, and is saved or not as a whole.
pub fn changes_sent_together(store: &dyn Metadata) {
    let (ann, _, menu) = scene(store);
    write(store, |tx| tx.branches().add(menu.id, &branch("main", 1), None).unwrap());
    let event = |n: u128| Event {
        id: EventId::from_uuid(id(n)),
        database_id: menu.id,
        at: at(1),
        kind: EventKind::BranchCreated { branch: reference("a") },
        body: n.to_string(),
        trace: None,
    };
    let activity = |n: u128, on: &Database| Activity {
        id: ActivityId::from_uuid(id(n)),
        database_id: on.id,
        at: at(1),
        by: ann.id,
        by_name: ann.name.clone(),
        kind: ActivityKind::BranchCreated { branch: reference("a") },
    };
    let done = |n: u128| branchyard_domain::entities::Operation {
        status: OperationStatus::Succeeded(Outcome::default()),
        finished_at: Some(at(3)),
        ..operation(n, &menu, &ann)
    };
    let state = |size| FileState { size_bytes: size, engine_format: 13 };
    write(store, |tx| {
        for n in [40, 42, 41] {
            tx.operations().add(&done(n)).unwrap();
            tx.activities().add(&activity(n, &menu)).unwrap();
            tx.events().add(&event(n)).unwrap();
        }
        tx.databases().record_write(menu.id, at(7), state(5000)).unwrap();
        tx.databases().record_write(menu.id, at(8), state(6000)).unwrap();
        let seen = tx.databases().get(menu.id).unwrap().unwrap();
        assert_eq!((seen.size_bytes, seen.live_bytes, seen.last_write_at), (6000, 6000, Some(at(8))), "both, in order");
        assert!(tx.branches().move_head(menu.id, &reference("main"), &hash(1), &hash(2), at(8), None).unwrap());
        tx.operations().add(&done(43)).unwrap();
    });
    read(store, |tx| {
        let bodies: Vec<String> =
            tx.events().list(menu.id, None, 9).unwrap().into_iter().map(|event| event.body).collect();
        assert_eq!(bodies, ["40", "42", "41"], "in the order in which they were added");
        assert_eq!(tx.activities().list(menu.id, 9).unwrap().len(), 3);
        let found: BTreeMap<_, _> =
            (40..=43).map(|n| (n, tx.operations().get(super::operation_id(n)).unwrap())).collect();
        assert!(found.values().all(Option::is_some));
    });
    let mut tx = store.write(&branchyard_domain::ports::WriteKeys::any()).unwrap();
    tx.operations().add(&done(50)).unwrap();
    drop(tx);
    let twice = || {
        let mut tx = store.write(&branchyard_domain::ports::WriteKeys::any())?;
        tx.operations().add(&done(51))?;
        tx.activities().add(&activity(51, &menu))?;
        tx.operations().add(&done(40))?;
        tx.commit(branchyard_domain::ports::Durability::Synced)
    };
    assert!(twice().is_err(), "an id that is in use, at the latest when the transaction is committed");
    read(store, |tx| {
        for n in [50, 51] {
            assert_eq!(tx.operations().get(super::operation_id(n)).unwrap(), None, "not saved");
        }
        assert_eq!(tx.activities().list(menu.id, 9).unwrap().len(), 3);
    });
}
