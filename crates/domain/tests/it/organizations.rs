//! Organizations, their members, and collaborators.

use branchyard_domain::access::{Admin, Belong, Caller, OrganizationAccess, Own, Participate, Standing, Visit};
use branchyard_domain::entities::{FailureKind, MemberRole, Role, Visibility};
use branchyard_domain::errors::{CollaboratorError, DatabaseError, OperationError, OrganizationError, PeopleError};
use branchyard_domain::usecases::{EditDatabase, Limits, NewOrganization};
use branchyard_domain::values::{OwnerName, RefName};

use crate::harness::{DB, DomainHarness, create, new_database, person, user, world, world_with};

fn named(text: &str) -> NewOrganization {
    NewOrganization::named(OwnerName::parse(text).unwrap())
}

/// Creates the default hub with an organization `works` owned by Ada.
fn works() -> DomainHarness {
    let world = world();
    world.hub.organizations().create(user(&world.ada), named("works"), None).unwrap();
    world
}

fn access<S: Standing>(world: &DomainHarness, caller: &Caller) -> Result<OrganizationAccess<S>, OrganizationError> {
    world.hub.organizations().access(caller, "Works")
}

fn join(world: &DomainHarness, who: &Caller, role: MemberRole) {
    let owner = access::<Own>(world, &world.ada).unwrap();
    world.hub.members().put(&owner, user(who), role).unwrap();
}

#[test]
fn anyone_sees_it_members_see_members_owners_change_it() {
    let world = works();
    let cleo = person(&world.hub, "cleo");
    join(&world, &world.ben, MemberRole::Member);
    let row = |caller: &Caller| {
        let word = |refused: Option<OrganizationError>| refused.map_or("may".to_owned(), |error| error.to_string());
        [
            word(access::<Visit>(&world, caller).err()),
            word(access::<Belong>(&world, caller).err()),
            word(access::<Own>(&world, caller).err()),
        ]
    };
    let sign_in = "this needs a credential";
    let member = "only a member of the organization can do this";
    let owner = "only an owner of the organization can do this";
    assert_eq!(row(&Caller::Anonymous), ["may", sign_in, sign_in]);
    assert_eq!(row(&cleo), ["may", member, owner]);
    assert_eq!(row(&world.ben), ["may", "may", owner]);
    assert_eq!(row(&world.ada), ["may"; 3]);
    for name in ["ada", "nobody", "!"] {
        let missing = world.hub.organizations().access::<Visit>(&world.ada, name);
        assert!(matches!(missing, Err(OrganizationError::NoSuchOrganization)), "{name} is no organization");
    }
}

#[test]
fn names_are_shared_with_users_and_some_are_kept() {
    let world = world_with(Limits { reserved_names: vec!["Staff".to_owned()], ..Limits::default() });
    let create = |name: &str| world.hub.organizations().create(user(&world.ben), named(name), None).map(drop);
    create("works").unwrap();
    for name in ["WORKS", "Ada"] {
        let taken = create(name);
        assert!(matches!(taken, Err(OrganizationError::People(PeopleError::NameTaken(_)))), "{name}: {taken:?}");
    }
    for name in ["staff", "Docs"] {
        let kept = create(name);
        assert!(matches!(kept, Err(OrganizationError::People(PeopleError::NameReserved(_)))), "{name}: {kept:?}");
    }
}

#[test]
fn an_owner_always_stays() {
    let world = works();
    let own = |caller: &Caller| access::<Own>(&world, caller).unwrap();
    let belong = |caller: &Caller| access::<Belong>(&world, caller).unwrap();
    join(&world, &world.ben, MemberRole::Member);
    let members = world.hub.members();
    assert!(matches!(members.leave(&belong(&world.ada)), Err(OrganizationError::NoOwnerLeft)));
    let demoted = members.put(&own(&world.ada), user(&world.ada), MemberRole::Member);
    assert!(matches!(demoted, Err(OrganizationError::NoOwnerLeft)));
    let herself = members.get(&belong(&world.ada), "ADA").unwrap();
    assert!(matches!(members.remove(&own(&world.ada), &herself), Err(OrganizationError::NoOwnerLeft)));
    assert!(!members.put(&own(&world.ada), user(&world.ada), MemberRole::Owner).unwrap().1, "still an owner");

    assert_eq!(members.leave(&belong(&world.ben)).unwrap().role, MemberRole::Member);
    assert!(matches!(members.get(&belong(&world.ada), "ben"), Err(OrganizationError::NoSuchMember(_))));
}

#[test]
fn two_owners_who_leave_at_once_leave_one_behind() {
    for _ in 0..20 {
        let world = works();
        join(&world, &world.ben, MemberRole::Owner);
        let left = std::thread::scope(|scope| {
            let leaving = [&world.ada, &world.ben].map(|who| {
                let proof = access::<Belong>(&world, who).unwrap();
                let members = world.hub.clone();
                scope.spawn(move || members.members().leave(&proof).is_ok())
            });
            leaving.map(|thread| thread.join().unwrap())
        });
        assert_eq!(left.iter().filter(|left| **left).count(), 1, "{left:?}");
    }
}

#[test]
fn only_an_organization_without_databases_is_deleted() {
    let world = works();
    let locator = ("works", "plans");
    create(&world.hub, &world.ada, locator, Visibility::Private);
    let own = access::<Own>(&world, &world.ada).unwrap();
    let refused = world.hub.organizations().delete(&own, Some(&|_| false));
    assert!(matches!(refused, Err(OrganizationError::OwnsDatabases(1))), "the state comes before the condition");
    let plans = world.access_to::<Admin>(&world.ada, locator);
    world.hub.databases().delete(&plans, None).unwrap();
    let stale = world.hub.organizations().delete(&own, Some(&|_| false));
    assert!(matches!(stale, Err(OrganizationError::Changed)));
    world.hub.organizations().delete(&own, None).unwrap();
    assert!(matches!(access::<Visit>(&world, &world.ada), Err(OrganizationError::NoSuchOrganization)));
    let late = world.hub.members().put(&own, user(&world.ben), MemberRole::Owner);
    assert!(matches!(late, Err(OrganizationError::NoSuchOrganization)), "an old proof opens nothing");
    let gone = world.hub.databases().create(user(&world.ada), new_database(locator, Visibility::Public), None);
    assert!(matches!(gone, Err(DatabaseError::MayNotCreateFor(_))));
    world.hub.organizations().create(user(&world.ada), named("WORKS"), None).unwrap();
}

#[test]
fn a_fork_under_way_is_not_given_to_an_organization_that_was_deleted() {
    let world = works();
    let fork = world.hub.operations().fork(&world.access::<Participate>(&world.ada), "works", None).unwrap();
    world.hub.organizations().delete(&access::<Own>(&world, &world.ada).unwrap(), None).unwrap();
    world.work();
    let failure = world.failure(fork.id);
    assert_eq!(failure.kind, FailureKind::PermissionDenied);
    assert!(!failure.detail.contains("works"), "its readers need not know for whom: {}", failure.detail);
}

#[test]
fn forks_count_as_databases_of_their_owner() {
    let world = world_with(Limits { databases_per_owner: 1, ..Limits::default() });
    let full = world.hub.databases().create(user(&world.ada), new_database(("ada", "b"), Visibility::Public), None);
    assert!(matches!(full, Err(DatabaseError::TooMany(1))));
    let fork = world.hub.operations().fork(&world.access::<Participate>(&world.ben), "ben", None).unwrap();
    create(&world.hub, &world.ben, ("ben", "mine"), Visibility::Private);
    let full = world.hub.operations().fork(&world.access::<Participate>(&world.ben), "ben", None);
    assert!(matches!(full, Err(OperationError::NameTaken(_))), "that one is still under way");
    world.work();
    assert_eq!(world.failure(fork.id).kind, FailureKind::Unprocessable);
    let full = world.hub.operations().fork(&world.access::<Participate>(&world.ben), "ben", None);
    assert!(matches!(full, Err(OperationError::TooManyDatabases(1))));
}

#[test]
fn collaborators_come_change_and_go() {
    let world = world();
    let admin = world.access::<Admin>(&world.ada);
    let collaborators = world.hub.collaborators();
    let (ben, added) = collaborators.put(&admin, user(&world.ben), Role::Read).unwrap();
    assert_eq!((ben.username.as_str(), ben.role, added), ("ben", Role::Read, true));
    let (ben, added) = collaborators.put(&admin, user(&world.ben), Role::Admin).unwrap();
    assert_eq!((ben.role, added), (Role::Admin, false));
    let owner = collaborators.put(&admin, user(&world.ada), Role::Read);
    assert!(matches!(owner, Err(CollaboratorError::IsOwner(_))));
    assert_eq!(collaborators.list(&admin, None, 10).unwrap(), std::slice::from_ref(&ben));
    assert_eq!(collaborators.leave(&world.access::<Participate>(&world.ben)).unwrap(), ben);
    let again = collaborators.leave(&world.access::<Participate>(&world.ben));
    assert!(matches!(again, Err(CollaboratorError::NoSuchCollaborator(_))));
    for name in ["ben", "nobody", "!"] {
        let missing = collaborators.remove(&admin, name);
        assert!(matches!(missing, Err(CollaboratorError::NoSuchCollaborator(_))), "{name}");
    }
}

#[test]
fn what_a_database_says_of_itself_changes() {
    let world = world();
    let admin = world.access::<Admin>(&world.ada);
    let edit = |branch: &str| EditDatabase { default_branch: Some(branch.to_owned()), ..EditDatabase::default() };
    let databases = world.hub.databases();
    for branch in ["nope", "not a name", ""] {
        let missing = databases.edit(&admin, edit(branch), Some(&|_| false));
        assert!(matches!(missing, Err(DatabaseError::NoSuchBranch(_))), "{branch}");
    }
    world.wrote("work", "INSERT INTO t VALUES (2,'two')");
    assert!(matches!(databases.edit(&admin, edit("work"), Some(&|_| false)), Err(DatabaseError::Changed)));
    let view = databases.edit(&admin, edit("work"), None).unwrap();
    assert_eq!(view.database.default_branch, RefName::parse("work").unwrap());
    let stored = world.hub.databases().get(&world.access::<Admin>(&world.ada)).unwrap();
    assert_eq!(stored.database, view.database);
    let hide = EditDatabase { visibility: Some(Visibility::Private), ..EditDatabase::default() };
    databases.edit(&admin, hide, None).unwrap();
    assert!(world.hub.databases().access::<Participate>(&world.ben, DB.0, DB.1).is_err());
}

#[test]
fn a_hidden_fork_is_not_counted() {
    let world = world();
    world.hub.operations().fork(&world.access::<Participate>(&world.ben), "ben", None).unwrap();
    world.work();
    let count = |caller: &Caller| {
        let access = world.access::<branchyard_domain::access::Read>(caller);
        world.hub.databases().get(&access).unwrap().fork_network_count
    };
    assert_eq!([count(&Caller::Anonymous), count(&world.ada), count(&world.ben)], [1, 1, 1]);
    let fork = world.access_to::<Admin>(&world.ben, ("ben", DB.1));
    let hide = EditDatabase { visibility: Some(Visibility::Private), ..EditDatabase::default() };
    world.hub.databases().edit(&fork, hide, None).unwrap();
    assert_eq!([count(&Caller::Anonymous), count(&world.ada), count(&world.ben)], [0, 0, 1]);
}
