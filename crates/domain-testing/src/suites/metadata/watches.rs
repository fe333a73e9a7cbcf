//! Checks of the marks of what open pages follow.

use super::hooks::{delivery, event, hook};
use super::sessions::session;
use super::{at, database_id, operation, organization, pull, scene, user, write};
use branchyard_domain::entities::{
    Database, HookEvent, MemberRole, OperationStatus, Organization, Outcome, Pull, Role, User, Visibility,
};
use branchyard_domain::ports::{Metadata, Transaction, WatchKey, WatchMarks};
use branchyard_domain::values::{DatabaseId, HookId, OperationId, PullNumber, SessionId};

/// The marks of some keys, and what they were before.
struct MarksSeen<'a> {
    store: &'a dyn Metadata,
    keys: Vec<WatchKey>,
    marks: WatchMarks,
}

impl MarksSeen<'_> {
    /// Makes a change, and checks that it changes the marks of these keys and no others.
    #[track_caller]
    fn change(&mut self, what: &str, changed: &[WatchKey], change: impl FnOnce(&mut dyn Transaction)) {
        write(self.store, change);
        let now = self.store.watch_marks(&self.keys).unwrap();
        for key in &self.keys {
            assert_eq!(
                now.get(key) != self.marks.get(key),
                changed.contains(key),
                "{what}: {key:?} is {:?}",
                now.get(key)
            );
        }
        self.marks = now;
    }
}

/// Checks that the mark of a key changes with what the key stands for, and with nothing else.
pub fn watch_marks(store: &dyn Metadata) {
    assert!(store.watch_marks(&[]).unwrap().is_empty());
    let (ann, bob, menu) = scene(store);
    let cat = user(5, "cat");
    let acme = organization(6, "acme");
    let of_acme = User { id: acme.id, name: acme.name.clone(), ..user(6, "acme") };
    let shared = super::database(11, &of_acme, "shared");
    let (first, second) = (operation(20, &menu, &ann), operation(21, &menu, &bob));
    let proposed = pull(1, &menu, &menu, "a", &ann);
    let watched = hook(30, &menu, &[HookEvent::Push]);
    write(store, |tx| {
        tx.users().add(&cat).unwrap();
        tx.organizations().add(&acme).unwrap();
        tx.databases().add(&shared).unwrap();
        tx.sessions().add(&session(1, &ann, at(100))).unwrap();
        tx.sessions().add(&session(2, &ann, at(100))).unwrap();
        tx.operations().add(&first).unwrap();
        tx.pulls().add(&proposed).unwrap();
        tx.hooks().add(&watched).unwrap();
    });
    let session_key = |n: u128| WatchKey::Session(SessionId::from_uuid(super::id(n)));
    let rights = |database: DatabaseId, user: &User| WatchKey::DatabaseRights(database, Some(user.id));
    let anyone = WatchKey::DatabaseRights(menu.id, None);
    let (pull_key, deliveries) = (WatchKey::Pull(menu.id, proposed.number), WatchKey::Deliveries(watched.id));
    let none = [
        WatchKey::Operation(OperationId::from_uuid(super::id(99))),
        WatchKey::Pull(menu.id, PullNumber::parse("99").unwrap()),
        WatchKey::DatabaseRights(database_id(99), Some(ann.id)),
        session_key(99),
    ];
    let mut keys = vec![session_key(1), session_key(2), rights(menu.id, &cat), rights(shared.id, &cat), anyone];
    keys.extend([rights(menu.id, &bob), WatchKey::Operation(first.id), WatchKey::Operations(menu.id)]);
    keys.extend([
        WatchKey::Operations(shared.id),
        pull_key,
        deliveries,
        WatchKey::Deliveries(HookId::from_uuid(super::id(31))),
    ]);
    keys.extend(none);
    let marks = store.watch_marks(&keys).unwrap();
    assert!(none.iter().all(|key| !marks.contains_key(key)), "{marks:?}");
    assert!(
        [session_key(1), anyone, pull_key, WatchKey::Operation(first.id)].iter().all(|key| marks.contains_key(key))
    );
    let mut seen = MarksSeen { store, keys, marks };

    let all_of_menu = [anyone, rights(menu.id, &cat), rights(menu.id, &bob)];
    seen.change("nothing", &[], |_| {});
    seen.change("the use of a session", &[], |tx| {
        tx.sessions().touch(SessionId::from_uuid(super::id(1)), &session(1, &ann, at(1)).last_use, at(900)).unwrap();
    });
    seen.change("the end of a session", &[session_key(2)], |tx| {
        tx.sessions().remove(ann.id, SessionId::from_uuid(super::id(2))).unwrap();
    });
    seen.change("a suspension", &[session_key(1)], |tx| {
        let user = tx.users().get(ann.id).unwrap().unwrap();
        tx.users().update(&User { suspended_at: Some(at(3)), ..user }).unwrap();
    });
    seen.change("a collaborator", &[rights(menu.id, &cat)], |tx| {
        tx.collaborators().put(menu.id, cat.id, Role::Write, at(1)).unwrap();
    });
    seen.change("a lower role", &[rights(menu.id, &cat)], |tx| {
        tx.collaborators().put(menu.id, cat.id, Role::Read, at(1)).unwrap();
    });
    seen.change("a member", &[rights(shared.id, &cat)], |tx| {
        tx.members().put(acme.id, cat.id, MemberRole::Member, at(1)).unwrap();
    });
    seen.change("what members may do", &[rights(shared.id, &cat)], |tx| {
        let organization = tx.organizations().get(acme.id).unwrap().unwrap();
        let base_role = if organization.base_role == Role::Admin { Role::Read } else { Role::Admin };
        tx.organizations().update(&Organization { base_role, ..organization }).unwrap();
    });
    seen.change("the visibility", &all_of_menu, |tx| {
        let database = tx.databases().get(menu.id).unwrap().unwrap();
        let visibility =
            if database.visibility == Visibility::Public { Visibility::Private } else { Visibility::Public };
        tx.databases().update(&Database { visibility, ..database }).unwrap();
    });
    seen.change("a quarantine", &all_of_menu, |tx| {
        let database = tx.databases().get(menu.id).unwrap().unwrap();
        tx.databases().update(&Database { quarantined_at: Some(at(4)), ..database }).unwrap();
    });
    seen.change("a deletion", &all_of_menu, |tx| {
        let database = tx.databases().get(menu.id).unwrap().unwrap();
        tx.databases().update(&Database { deleted_at: Some(at(5)), ..database }).unwrap();
    });
    seen.change("another operation", &[WatchKey::Operations(menu.id)], |tx| tx.operations().add(&second).unwrap());
    let both = [WatchKey::Operation(first.id), WatchKey::Operations(menu.id)];
    seen.change("an operation that ends", &both, |tx| {
        let mut ended = tx.operations().get(first.id).unwrap().unwrap();
        ended.status = OperationStatus::Succeeded(Outcome::default());
        ended.finished_at = Some(at(9));
        assert!(tx.operations().settle(&ended, None).unwrap());
    });
    seen.change("a pull request", &[pull_key], |tx| {
        let pull = tx.pulls().get(menu.id, proposed.number).unwrap().unwrap();
        assert!(tx.pulls().update(&Pull { title: "other".to_owned(), ..pull }).unwrap());
    });
    seen.change("a delivery", &[deliveries], |tx| {
        tx.events().add(&event(40, &menu)).unwrap();
        tx.deliveries().add(&[delivery(50, 30, 40, 1)]).unwrap();
    });
}
