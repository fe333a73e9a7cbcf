//! Checks of organizations and their members.

use super::{account_id, at, database, database_id, organization, owner, read, user, write};
use branchyard_domain::entities::{Member, MemberRole, Organization, RetiredName, Role, User};
use branchyard_domain::ports::Metadata;

/// Checks organizations: changes, lists for members, and removal, after which the name is free.
pub fn organizations(store: &dyn Metadata) {
    let (ann, bob) = (user(1, "Ann"), user(2, "bob"));
    let (acme, works) = (organization(3, "Acme"), organization(4, "works"));
    let mut changed = acme.clone();
    changed.display_name = Some("Acme, Inc. ☂".to_owned());
    changed.description = None;
    changed.base_role = Role::Admin;
    write(store, |tx| {
        tx.users().add(&ann).unwrap();
        tx.users().add(&bob).unwrap();
        for organization in [&works, &acme, &organization(5, "Beta")] {
            tx.organizations().add(organization).unwrap();
            tx.members().put(organization.id, ann.id, MemberRole::Owner, at(7)).unwrap();
        }
        tx.members().put(acme.id, bob.id, MemberRole::Member, at(8)).unwrap();
        assert!(tx.organizations().update(&changed).unwrap());
        assert!(!tx.organizations().update(&organization(6, "none")).unwrap());
    });
    let names = |list: Vec<(Organization, MemberRole)>| {
        list.into_iter().map(|(organization, role)| format!("{} {role:?}", organization.name)).collect::<Vec<_>>()
    };
    write(store, |tx| {
        assert_eq!(tx.organizations().get(acme.id).unwrap().unwrap(), changed);
        let listed = tx.organizations().list(bob.id, None, 10).unwrap();
        assert_eq!(listed, [(changed.clone(), MemberRole::Member)]);
        assert_eq!(names(tx.organizations().list(ann.id, None, 2).unwrap()), ["Acme Owner", "Beta Owner"]);
        assert_eq!(names(tx.organizations().list(ann.id, Some("beta"), 2).unwrap()), ["works Owner"]);
        // A deleted database still refers to its owner.
        let of_acme = User { id: acme.id, name: acme.name.clone(), ..user(3, "Acme") };
        let mut gone = database(10, &of_acme, "gone");
        tx.databases().add(&gone).unwrap();
        gone.deleted_at = Some(at(9));
        assert!(tx.databases().update(&gone).unwrap());
        tx.organizations().remove(acme.id, at(10), ann.id).unwrap();
    });
    write(store, |tx| {
        assert_eq!(tx.organizations().get(acme.id).unwrap(), None);
        assert_eq!(tx.accounts().by_name(&acme.name).unwrap(), None);
        assert_eq!(tx.members().get(acme.id, ann.id).unwrap(), None);
        assert!(tx.organizations().list(bob.id, None, 10).unwrap().is_empty());
        assert_eq!(tx.databases().get(database_id(10)).unwrap().unwrap().owner_id, acme.id);
        let retired = tx.accounts().retired(&owner("acme")).unwrap();
        assert_eq!(retired, Some(RetiredName { id: acme.id, at: at(10), by: Some(ann.id) }));
        assert_eq!(tx.accounts().retired(&owner("works")).unwrap(), None);
        tx.users().add(&user(7, "ACME")).unwrap();
        assert_eq!(tx.accounts().by_name(&acme.name).unwrap().unwrap().id, account_id(7));
    });
}

/// Checks members: roles, pages, and that the count of owners is stable within a transaction.
pub fn members(store: &dyn Metadata) {
    let (ann, bob, zoe) = (user(1, "Ann"), user(2, "bob"), user(3, "Zoe"));
    let acme = organization(4, "Acme");
    write(store, |tx| {
        for user in [&zoe, &bob, &ann] {
            tx.users().add(user).unwrap();
        }
        tx.organizations().add(&acme).unwrap();
        assert!(tx.members().put(acme.id, ann.id, MemberRole::Owner, at(7)).unwrap());
        assert!(tx.members().put(acme.id, bob.id, MemberRole::Member, at(8)).unwrap());
        assert!(!tx.members().put(acme.id, bob.id, MemberRole::Owner, at(9)).unwrap());
        assert!(tx.members().put(acme.id, zoe.id, MemberRole::Member, at(9)).unwrap());
    });
    let names = |list: Vec<Member>| list.iter().map(|member| member.username.to_string()).collect::<Vec<_>>();
    read(store, |tx| {
        let member = tx.members().get(acme.id, bob.id).unwrap().unwrap();
        assert_eq!((member.user_id, member.username, member.role), (bob.id, bob.name.clone(), MemberRole::Owner));
        assert_eq!(member.added_at, at(8), "a changed role does not change since when");
        assert_eq!(tx.members().get(acme.id, account_id(9)).unwrap(), None);
        assert_eq!(names(tx.members().list(acme.id, None, 10).unwrap()), ["Ann", "bob", "Zoe"]);
        assert_eq!(names(tx.members().list(acme.id, None, 1).unwrap()), ["Ann"]);
        assert_eq!(names(tx.members().list(acme.id, Some("ann"), 1).unwrap()), ["bob"]);
        assert_eq!(tx.members().count_owners(acme.id).unwrap(), 2);
        assert_eq!(tx.members().count_owners(account_id(9)).unwrap(), 0);
        let owned = [ann.id, bob.id, zoe.id].map(|user| tx.members().count_owned(user).unwrap());
        assert_eq!(owned, [1, 1, 0]);
        let asked = [account_id(9), acme.id];
        let mut roles = |user: &User| tx.members().roles(user.id, &asked).unwrap();
        let found = [roles(&ann), roles(&zoe)].map(|roles| roles.into_iter().collect::<Vec<_>>());
        let in_acme = |role: MemberRole| vec![(acme.id, (role, acme.base_role))];
        assert_eq!(found, [in_acme(MemberRole::Owner), in_acme(MemberRole::Member)]);
        assert!(tx.members().roles(account_id(9), &asked).unwrap().is_empty());
        assert!(tx.members().roles(ann.id, &[]).unwrap().is_empty());
    });
    write(store, |tx| {
        let found = tx.members().get(acme.id, zoe.id).unwrap();
        assert!(found.is_some());
        assert_eq!(tx.members().remove(acme.id, zoe.id).unwrap(), found);
        assert_eq!(tx.members().remove(acme.id, zoe.id).unwrap(), None);
    });
    // Both owners leave concurrently, each on condition that the other one stays.
    std::thread::scope(|scope| {
        for leaving in [ann.id, bob.id] {
            scope.spawn(move || {
                write(store, |tx| {
                    if tx.members().count_owners(acme.id).unwrap() > 1 {
                        std::thread::yield_now();
                        tx.members().remove(acme.id, leaving).unwrap();
                    }
                });
            });
        }
    });
    assert_eq!(read(store, |tx| tx.members().count_owners(acme.id).unwrap()), 1);
}
