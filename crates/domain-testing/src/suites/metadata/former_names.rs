//! Checks of renames of databases, and of the addresses that forward to them.

use std::collections::BTreeMap;

use super::{at, database, operation, organization, owner, pull, read, scene, taken, write};
use branchyard_domain::entities::{Database, DatabaseLocator, User};
use branchyard_domain::ports::{Metadata, OperationFilter, PullFilter, Transaction};
use branchyard_domain::values::{DatabaseId, DatabaseName};

/// The number of former names that these checks keep of a database.
const MOST: usize = 3;

fn name(text: &str) -> DatabaseName {
    DatabaseName::parse(text).unwrap()
}

/// Moves a database to `to` under the name `text`. Returns whether its version was the stored one.
fn moved(tx: &mut dyn Transaction, database: &mut Database, to: &User, text: &str) -> bool {
    database.owner_id = to.id;
    database.locator = DatabaseLocator { owner: to.name.clone(), name: name(text) };
    let is_done = tx.databases().rename(database, MOST).unwrap();
    database.version += i64::from(is_done);
    is_done
}

fn former(tx: &mut dyn Transaction, of: &str, text: &str) -> Option<DatabaseId> {
    tx.databases().by_former_name(&owner(of), &name(text)).unwrap().map(|database| database.id)
}

fn forwards(tx: &mut dyn Transaction, id: DatabaseId) -> Vec<String> {
    tx.databases().former_names(id).unwrap().iter().map(ToString::to_string).collect()
}

/// Checks what a rename and a transfer change, and when a forward ends.
pub fn former_names(store: &dyn Metadata) {
    let (ann, bob, menu) = scene(store);
    let mut list = menu.clone();
    let mut other = database(11, &ann, "other");
    let mut fork = database(12, &bob, "fork");
    fork.network_id = menu.id;
    write(store, |tx| {
        tx.databases().add(&other).unwrap();
        tx.databases().add(&fork).unwrap();
        let number = tx.pulls().next_number(fork.id).unwrap();
        tx.pulls().add(&pull(number.get(), &fork, &menu, "main", &ann)).unwrap();
        tx.operations().add(&operation(1, &menu, &ann)).unwrap();
        taken({
            let other = Database { locator: menu.locator.clone(), ..other.clone() };
            tx.databases().rename(&other, MOST).map(drop)
        });
        assert!(moved(tx, &mut list, &ann, "List"));
        let stored = tx.databases().get(menu.id).unwrap().unwrap();
        assert_eq!(stored, list);
        assert!(!tx.databases().rename(&menu, MOST).unwrap(), "its version is past");
    });
    read(store, |tx| {
        assert_eq!(tx.databases().by_name(&menu.locator.owner, &menu.locator.name).unwrap(), None);
        assert_eq!(tx.databases().by_name(&owner("ANN"), &name("LIST")).unwrap(), Some(list.clone()));
        assert_eq!(former(tx, "aNN", "MENU"), Some(menu.id));
        assert_eq!(former(tx, "ann", "list"), None, "it has that name");
        assert_eq!(former(tx, "bob", "menu"), None);
        assert_eq!(forwards(tx, menu.id), [menu.locator.to_string()]);
        let pulls = tx.pulls().list(fork.id, &PullFilter::default(), None, 9).unwrap();
        assert_eq!((pulls[0].from_locator.clone(), pulls[0].version), (list.locator.clone(), 1));
        let operations = tx.operations().list(menu.id, OperationFilter::default(), None, 9).unwrap();
        assert_eq!(operations[0].locator, list.locator);
    });
    // Only the spelling changes.
    write(store, |tx| {
        assert!(moved(tx, &mut list, &ann, "LIST"));
        assert_eq!(forwards(tx, menu.id), [menu.locator.to_string()]);
        assert_eq!(tx.databases().get(menu.id).unwrap().unwrap().locator.to_string(), list.locator.to_string());
    });
    // A transfer, and a rename to a former name of another database.
    write(store, |tx| {
        assert!(moved(tx, &mut list, &bob, "LIST"));
        assert_eq!((tx.databases().count(ann.id).unwrap(), tx.databases().count(bob.id).unwrap()), (1, 2));
        assert_eq!(former(tx, "ann", "list"), Some(menu.id));
        assert!(moved(tx, &mut other, &ann, "list"));
        assert_eq!((former(tx, "ann", "list"), former(tx, "ann", "other")), (None, Some(other.id)));
        assert_eq!(forwards(tx, menu.id), [menu.locator.to_string()]);
    });
    // A new database takes a former name over, and one that is refused does not.
    write(store, |tx| {
        let next = database(13, &ann, "Menu");
        tx.databases().add(&next).unwrap();
        assert_eq!((former(tx, "ann", "menu"), forwards(tx, menu.id)), (None, vec![]));
        assert!(moved(tx, &mut other, &ann, "z"));
        taken(tx.databases().add(&database(14, &ann, "Z")));
        assert_eq!(forwards(tx, other.id), ["Ann/list", "Ann/other"]);
    });
    // The oldest are dropped.
    write(store, |tx| {
        for text in ["a", "b", "c", "d"] {
            assert!(moved(tx, &mut list, &bob, text));
        }
        assert_eq!(forwards(tx, menu.id), ["bob/c", "bob/b", "bob/a"]);
        assert_eq!(former(tx, "bob", "list"), None);
    });
    // A deleted database forwards nothing, whether or not its former names were removed.
    write(store, |tx| {
        let mut gone = tx.databases().get(other.id).unwrap().unwrap();
        gone.deleted_at = Some(at(9));
        assert!(tx.databases().update(&gone).unwrap());
        assert_eq!(former(tx, "ann", "other"), None);
        tx.databases().clear_former_names(other.id).unwrap();
        assert_eq!(forwards(tx, other.id), Vec::<String>::new());
        assert!(
            !tx.databases().rename(&Database { version: gone.version + 1, ..gone }, MOST).unwrap(),
            "it is deleted"
        );
    });
    of_deleted_owners(store, &bob, list);
}

/// Checks that the forwards from the addresses of an owner end with the owner.
fn of_deleted_owners(store: &dyn Metadata, bob: &User, mut list: Database) {
    let acme = organization(40, "acme");
    let of_acme = User { id: acme.id, name: acme.name.clone(), ..bob.clone() };
    write(store, |tx| {
        tx.organizations().add(&acme).unwrap();
        assert!(moved(tx, &mut list, &of_acme, "d"));
        assert!(moved(tx, &mut list, bob, "e"));
        assert_eq!(former(tx, "acme", "d"), Some(list.id));
        tx.organizations().remove(acme.id, at(10), bob.id).unwrap();
        assert_eq!(former(tx, "acme", "d"), None);
        tx.organizations().add(&organization(41, "acme")).unwrap();
        assert_eq!(former(tx, "acme", "d"), None, "another owner of the same name");
        assert_eq!(forwards(tx, list.id), ["bob/d", "bob/c"]);
    });
}

/// Checks with renames, transfers, creations and deletions in an arbitrary order that a former name never shadows a live database,
/// and leads to the database that had it last.
pub fn former_names_property(store: &dyn Metadata) {
    const NAMES: [&str; 4] = ["p", "q", "r", "s"];
    let (ann, bob, menu) = scene(store);
    let owners = [&ann, &bob];
    let mut live: BTreeMap<u128, Database> = BTreeMap::from([(10, menu)]);
    // What each address has, or had last: the database, as long as it lives.
    let mut last: BTreeMap<(String, String), DatabaseId> = BTreeMap::new();
    let key = |locator: &DatabaseLocator| (locator.owner.key(), locator.name.key());
    let (mut state, mut next) = (0x2545_f491_4f6c_dd1d_u64, 100_u128);
    let mut draw = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % u64::try_from(below).unwrap()).unwrap()
    };
    for _ in 0..200 {
        let (to, text, action) = (owners[draw(2)], NAMES[draw(4)], draw(8));
        let place = (to.name.key(), text.to_owned());
        let is_taken = live.values().any(|database| key(&database.locator) == place);
        let chosen = live.keys().copied().nth(draw(live.len().max(1)));
        write(store, |tx| match (action, chosen) {
            (0, _) | (_, None) => {
                next += 1;
                let made = database(next, to, text);
                if is_taken {
                    taken(tx.databases().add(&made));
                } else {
                    tx.databases().add(&made).unwrap();
                    last.insert(place, made.id);
                    live.insert(next, made);
                }
            }
            (1, Some(id)) => {
                let mut gone = live.remove(&id).unwrap();
                gone.deleted_at = Some(at(9));
                assert!(tx.databases().update(&gone).unwrap());
                tx.databases().clear_former_names(gone.id).unwrap();
                last.retain(|_, of| *of != gone.id);
            }
            (_, Some(id)) => {
                let database = live.get_mut(&id).unwrap();
                let is_own = key(&database.locator) == place;
                if is_taken && !is_own {
                    let wanted = DatabaseLocator { owner: to.name.clone(), name: name(text) };
                    let wanted = Database { owner_id: to.id, locator: wanted, ..database.clone() };
                    taken(tx.databases().rename(&wanted, usize::MAX).map(drop));
                    return;
                }
                last.insert(key(&database.locator), database.id);
                database.owner_id = to.id;
                database.locator = DatabaseLocator { owner: to.name.clone(), name: name(text) };
                assert!(tx.databases().rename(database, usize::MAX).unwrap());
                database.version += 1;
                last.insert(place, database.id);
            }
        });
        read(store, |tx| {
            for (owner, text) in owners.iter().flat_map(|owner| NAMES.map(|text| (*owner, text))) {
                let place = (owner.name.key(), text.to_owned());
                let at_it = tx.databases().by_name(&owner.name, &name(text)).unwrap().map(|database| database.id);
                let lives = live.values().find(|database| key(&database.locator) == place).map(|database| database.id);
                assert_eq!(at_it, lives);
                let forwarded = tx.databases().by_former_name(&owner.name, &name(text)).unwrap();
                assert!(at_it.is_none() || forwarded.is_none(), "{place:?} is shadowed");
                assert_eq!(at_it.or(forwarded.map(|database| database.id)), last.get(&place).copied(), "{place:?}");
            }
        });
    }
    assert!(next > 100, "databases were created meanwhile");
}
