//! Checks of databases, their lists and collaborators.

use std::collections::BTreeMap;

use super::{at, database, database_id, organization, owner, read, reference, scene, taken, user, write};
use branchyard_domain::entities::{Database, FileState, MemberRole, Role, User, Visibility};
use branchyard_domain::ports::{DatabaseFilter, Metadata, SizeChange, Transaction};
use branchyard_domain::values::{AccountId, DatabaseName};

fn file(size_bytes: i64, engine_format: u32) -> FileState {
    FileState { size_bytes, engine_format }
}

/// Checks names, versions, deletion and counts of databases.
pub fn databases(store: &dyn Metadata) {
    let (ann, bob, menu) = scene(store);
    let mut fork = database(11, &bob, "Menu");
    fork.parent_id = Some(menu.id);
    fork.network_id = menu.id;
    write(store, |tx| {
        taken(tx.databases().add(&database(12, &ann, "MENU")));
        tx.databases().add(&fork).unwrap();
        assert_eq!(
            tx.databases().by_name(&owner("ann"), &DatabaseName::parse("mEnU").unwrap()).unwrap().unwrap(),
            menu
        );
        assert_eq!(tx.databases().get(fork.id).unwrap().unwrap(), fork);
        assert_eq!(tx.databases().get(database_id(99)).unwrap(), None);
        assert_eq!(tx.databases().count_forks(None, &[menu.id]).unwrap(), BTreeMap::from([(menu.id, 1)]));
        assert_eq!(tx.databases().count(ann.id).unwrap(), 1);
        assert_eq!(tx.databases().ids(None, 10).unwrap(), [menu.id, fork.id]);
        assert_eq!(tx.databases().ids(Some(menu.id), 10).unwrap(), [fork.id]);
        tx.databases().record_write(menu.id, at(20), file(8192, 12)).unwrap();
        let sizes = |tx: &mut dyn Transaction| {
            let stored = tx.databases().get(menu.id).unwrap().unwrap();
            (stored.size_bytes, stored.live_bytes, stored.last_write_at, stored.version)
        };
        assert_eq!(sizes(tx), (8192, 8192, Some(at(20)), menu.version));
        tx.databases().record_file(menu.id, file(9000, 12), SizeChange::Wasted).unwrap();
        tx.databases().record_file(menu.id, file(9500, 13), SizeChange::Added).unwrap();
        assert_eq!(sizes(tx), (9500, 8692, Some(at(20)), menu.version));
        let found = tx.databases().get(menu.id).unwrap().unwrap();
        assert_eq!((found.garbage_bytes(), found.engine_format), (808, 13));
        tx.databases().record_write(fork.id, at(20), file(4096, 15)).unwrap();
        assert_eq!(tx.databases().get(fork.id).unwrap().unwrap().engine_format, 15);
        tx.databases().record_file(menu.id, file(8192, 14), SizeChange::Collected).unwrap();
        assert_eq!(tx.databases().get(menu.id).unwrap().unwrap().engine_format, 14);
        assert_eq!(sizes(tx), (8192, 8192, Some(at(20)), menu.version));
        tx.databases().next_generation(fork.id).unwrap();
        let generations = |tx: &mut dyn Transaction| {
            let network = tx.databases().list_network(menu.id, None, 10).unwrap();
            network.into_iter().map(|database| (database.id, database.generation, database.version)).collect::<Vec<_>>()
        };
        assert_eq!(generations(tx), [(menu.id, 0, menu.version), (fork.id, 1, fork.version)]);
        assert_eq!(tx.databases().list_network(menu.id, Some(menu.id), 10).unwrap()[0].id, fork.id);
        assert_eq!(tx.databases().list_network(fork.id, None, 10).unwrap(), []);
    });
    let mut changed = menu.clone();
    changed.description = Some("Über all".to_owned());
    changed.visibility = Visibility::Private;
    changed.default_branch = reference("trunk");
    changed.anonymous_sql = false;
    changed.last_write_at = Some(at(21));
    changed.size_bytes = 9000;
    changed.live_bytes = 8192;
    changed.engine_format = 14;
    write(store, |tx| {
        let found = tx.databases().get(menu.id).unwrap().unwrap();
        assert_eq!((found.version, found.last_write_at, found.size_bytes), (1, Some(at(20)), 8192));
        assert!(tx.databases().update(&changed).unwrap());
        assert!(!tx.databases().update(&changed).unwrap(), "its version is past");
        changed.version = 2;
        assert_eq!(tx.databases().get(menu.id).unwrap().unwrap(), changed);
        changed.deleted_at = Some(at(22));
        assert!(tx.databases().update(&changed).unwrap());
        changed.version = 3;
        // A deleted database is found by id, its name is free, and it is not counted.
        assert_eq!(tx.databases().get(menu.id).unwrap().unwrap(), changed);
        assert_eq!(tx.databases().by_name(&menu.locator.owner, &menu.locator.name).unwrap(), None);
        assert_eq!(tx.databases().count(ann.id).unwrap(), 0);
        assert_eq!(tx.databases().ids(None, 10).unwrap(), [fork.id]);
        assert_eq!(tx.databases().count_forks(None, &[menu.id]).unwrap(), BTreeMap::from([(menu.id, 1)]));
        tx.databases().add(&database(12, &ann, "MENU")).unwrap();
    });
}

/// Checks visibility, filters and pages in lists of databases and forks.
pub fn database_lists(store: &dyn Metadata) {
    let (ann, bob, zoe) = (user(1, "Ann"), user(2, "bob"), user(3, "zoe"));
    let acme = organization(4, "acme");
    let of_acme = User { id: acme.id, name: acme.name.clone(), ..user(4, "acme") };
    let root = database(10, &ann, "b-public");
    let private = |mut database: Database| {
        database.visibility = Visibility::Private;
        database
    };
    let fork = |mut database: Database| {
        database.parent_id = Some(root.id);
        database.network_id = root.id;
        database
    };
    let mut described = private(database(11, &ann, "A_private"));
    described.description = Some("ÄPFEL 100%".to_owned());
    let mut gone = fork(database(16, &zoe, "gone"));
    write(store, |tx| {
        for user in [&ann, &bob, &zoe] {
            tx.users().add(user).unwrap();
        }
        tx.organizations().add(&acme).unwrap();
        tx.members().put(acme.id, bob.id, MemberRole::Member, at(0)).unwrap();
        tx.databases().add(&root).unwrap();
        tx.databases().add(&described).unwrap();
        tx.databases().add(&private(database(12, &of_acme, "inner"))).unwrap();
        tx.databases().add(&fork(database(13, &bob, "fork"))).unwrap();
        tx.databases().add(&private(fork(database(14, &bob, "secret")))).unwrap();
        tx.databases().add(&private(fork(database(15, &zoe, "secret")))).unwrap();
        tx.databases().add(&gone).unwrap();
        gone.deleted_at = Some(at(1));
        assert!(tx.databases().update(&gone).unwrap());
        tx.collaborators().put(database_id(15), bob.id, Role::Read, at(0)).unwrap();
    });
    let names = |databases: Vec<Database>| databases.iter().map(|d| d.locator.to_string()).collect::<Vec<_>>();
    read(store, |tx| {
        let all = DatabaseFilter::default();
        assert_eq!(names(tx.databases().list(None, &all, None, 10).unwrap()), ["Ann/b-public", "bob/fork"]);
        assert_eq!(
            names(tx.databases().list(Some(bob.id), &all, None, 10).unwrap()),
            ["acme/inner", "Ann/b-public", "bob/fork", "bob/secret", "zoe/secret"]
        );
        assert_eq!(
            names(tx.databases().list(Some(ann.id), &all, None, 10).unwrap()),
            ["Ann/A_private", "Ann/b-public", "bob/fork"]
        );
        let mut seen = Vec::new();
        let mut after: Option<(String, String)> = None;
        loop {
            let key = after.as_ref().map(|(owner, name)| (owner.as_str(), name.as_str()));
            let page = tx.databases().list(Some(bob.id), &all, key, 2).unwrap();
            let Some(last) = page.last() else { break };
            after = Some((last.locator.owner.key(), last.locator.name.key()));
            seen.extend(names(page));
        }
        assert_eq!(seen, ["acme/inner", "Ann/b-public", "bob/fork", "bob/secret", "zoe/secret"]);
        let only = DatabaseFilter { owner: Some(owner("ANN")), ..all.clone() };
        assert_eq!(names(tx.databases().list(None, &only, None, 10).unwrap()), ["Ann/b-public"]);
        let only = DatabaseFilter { visibility: Some(Visibility::Private), ..all.clone() };
        assert_eq!(names(tx.databases().list(Some(ann.id), &only, None, 10).unwrap()), ["Ann/A_private"]);
        assert!(tx.databases().list(None, &only, None, 10).unwrap().is_empty());
        let containing = |text: &str| DatabaseFilter { contains: Some(text.to_owned()), ..DatabaseFilter::default() };
        for (text, found) in [
            ("PRIVATE", &["Ann/A_private"][..]),
            ("äpfel", &["Ann/A_private"]),
            ("100%", &["Ann/A_private"]),
            ("a_p", &["Ann/A_private"]),
            ("%", &["Ann/A_private"]),
            ("a%p", &[]),
            ("b_p", &[]),
            ("nothing", &[]),
        ] {
            assert_eq!(names(tx.databases().list(Some(ann.id), &containing(text), None, 10).unwrap()), found, "{text}");
        }
        assert!(tx.databases().list(None, &containing(&"x".repeat(100_000)), None, 10).unwrap().is_empty());
        assert_eq!(names(tx.databases().list_forks(None, root.id, None, 10).unwrap()), ["bob/fork"]);
        assert_eq!(
            names(tx.databases().list_forks(Some(bob.id), root.id, None, 10).unwrap()),
            ["bob/fork", "bob/secret", "zoe/secret"]
        );
        assert_eq!(
            names(tx.databases().list_forks(Some(bob.id), root.id, Some(("bob", "fork")), 1).unwrap()),
            ["bob/secret"]
        );
        let networks = [described.id, root.id, database_id(99), root.id];
        let mut forks = |viewer: Option<AccountId>| tx.databases().count_forks(viewer, &networks).unwrap();
        assert_eq!(forks(Some(bob.id)), BTreeMap::from([(root.id, 3)]));
        assert_eq!(forks(Some(zoe.id)), BTreeMap::from([(root.id, 2)]));
        assert_eq!(forks(None), BTreeMap::from([(root.id, 1)]), "what is hidden is not counted");
        assert_eq!(tx.databases().count_forks(None, &[described.id]).unwrap(), BTreeMap::new());
        assert_eq!(tx.databases().count_forks(None, &[]).unwrap(), BTreeMap::new());
        let mut all = tx.databases().get_all(&[gone.id, database_id(99), described.id, root.id]).unwrap();
        all.sort_by_key(|database| database.id);
        let ids: Vec<_> = all.iter().map(|database| (database.id, database.deleted_at)).collect();
        assert_eq!(ids, [(root.id, None), (described.id, None), (gone.id, Some(at(1)))]);
        assert_eq!(all[1], described);
        assert_eq!(tx.databases().get_all(&[]).unwrap(), []);
    });
}

/// Checks collaborators.
pub fn collaborators(store: &dyn Metadata) {
    let (ann, bob, menu) = scene(store);
    let zoe = user(3, "Zoe");
    write(store, |tx| {
        tx.users().add(&zoe).unwrap();
        assert!(tx.collaborators().put(menu.id, zoe.id, Role::Write, at(1)).unwrap());
        assert!(tx.collaborators().put(menu.id, bob.id, Role::Read, at(2)).unwrap());
        assert!(!tx.collaborators().put(menu.id, bob.id, Role::Admin, at(3)).unwrap());
    });
    write(store, |tx| {
        let found = tx.collaborators().get(menu.id, bob.id).unwrap().unwrap();
        assert_eq!((found.user_id, found.username.as_str(), found.role), (bob.id, "bob", Role::Admin));
        assert_eq!(found.added_at, at(2));
        assert_eq!(tx.collaborators().get(menu.id, ann.id).unwrap(), None);
        let mut roles = |user: &User| tx.collaborators().roles(user.id, &[database_id(99), menu.id]).unwrap();
        let known = [roles(&bob), roles(&zoe), roles(&ann)];
        let on_menu = |role: Role| BTreeMap::from([(menu.id, role)]);
        assert_eq!(known, [on_menu(Role::Admin), on_menu(Role::Write), BTreeMap::new()]);
        assert_eq!(tx.collaborators().roles(bob.id, &[]).unwrap(), BTreeMap::new());
        let names = |list: Vec<branchyard_domain::entities::Collaborator>| {
            list.iter().map(|c| c.username.key()).collect::<Vec<_>>()
        };
        assert_eq!(names(tx.collaborators().list(menu.id, None, 10).unwrap()), ["bob", "zoe"]);
        assert_eq!(names(tx.collaborators().list(menu.id, None, 1).unwrap()), ["bob"]);
        assert_eq!(names(tx.collaborators().list(menu.id, Some("bob"), 10).unwrap()), ["zoe"]);
        assert_eq!(tx.collaborators().remove(menu.id, bob.id).unwrap(), Some(found));
        assert_eq!(tx.collaborators().remove(menu.id, bob.id).unwrap(), None);
    });
}
