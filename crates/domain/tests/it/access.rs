//! Visibility of databases, and the permissions of each role.

use branchyard_domain::access::{Admin, Caller, Participate, Read, Write};
use branchyard_domain::entities::{MemberRole, Organization, Role, Visibility};
use branchyard_domain::errors::{AccessError, DatabaseError, OperationError};
use branchyard_domain::ports::{DatabaseFilter, Durability, Metadata as _, WriteKeys};
use branchyard_domain::usecases::NewOrganization;
use branchyard_domain::values::{AccountId, OwnerName};
use uuid::Uuid;

use crate::harness::{DB, DomainHarness, create, new_database, person, user, world};

const SECRET: (&str, &str) = ("ada", "secret");

fn check(world: &DomainHarness, caller: &Caller, (owner, name): (&str, &str)) -> [String; 4] {
    let databases = world.hub.databases();
    let word = |result: Result<Role, AccessError>| match result {
        Ok(role) => format!("{role:?}"),
        Err(AccessError::SignInRequired) => "sign in".to_owned(),
        Err(AccessError::NoSuchDatabase) => "none".to_owned(),
        Err(AccessError::Denied(needs)) => format!("needs {needs}"),
        Err(AccessError::Mirror) => "mirror".to_owned(),
        Err(AccessError::Port(fault)) => panic!("{fault}"),
    };
    [
        word(databases.access::<Read>(caller, owner, name).map(|a| a.role())),
        word(databases.access::<Participate>(caller, owner, name).map(|a| a.role())),
        word(databases.access::<Write>(caller, owner, name).map(|a| a.role())),
        word(databases.access::<Admin>(caller, owner, name).map(|a| a.role())),
    ]
}

#[test]
fn a_public_database_is_read_by_all_and_changed_by_those_with_a_role() {
    let world = world();
    assert_eq!(check(&world, &Caller::Anonymous, DB), ["Read", "sign in", "sign in", "sign in"]);
    assert_eq!(check(&world, &world.ben, DB), ["Read", "Read", "needs write", "needs admin"]);
    world.invite(&world.ben, Role::Write);
    assert_eq!(check(&world, &world.ben, DB), ["Write", "Write", "Write", "needs admin"]);
    world.invite(&world.ben, Role::Admin);
    assert_eq!(check(&world, &world.ben, DB), ["Admin"; 4]);
    assert_eq!(check(&world, &world.ada, ("ADA", "Engines")), ["Admin"; 4], "whatever the case");
}

#[test]
fn a_hidden_database_is_like_one_that_does_not_exist() {
    let world = world();
    let secret = create(&world.hub, &world.ada, SECRET, Visibility::Private);
    for locator in [SECRET, ("ada", "nothing"), ("nobody", "nothing"), ("not a name!", "-")] {
        assert_eq!(
            check(&world, &Caller::Anonymous, locator),
            ["none", "sign in", "sign in", "sign in"],
            "{locator:?}"
        );
        assert_eq!(check(&world, &world.ben, locator), ["none"; 4], "{locator:?}");
    }
    let by_id = world.hub.databases().access_by_id::<Read>(&world.ben, secret);
    assert!(matches!(by_id, Err(AccessError::NoSuchDatabase)));
    let names = |caller: &Caller| -> Vec<String> {
        let found = world.hub.databases().list(caller, &DatabaseFilter::default(), None, 10).unwrap();
        found.into_iter().map(|view| view.database.locator.to_string()).collect()
    };
    assert_eq!(names(&world.ben), ["ada/engines"]);
    assert_eq!(names(&world.ada), ["ada/engines", "ada/secret"]);
}

#[test]
fn members_have_the_base_role_and_owners_everything() {
    let world = world();
    let cleo = person(&world.hub, "cleo");
    let organization = Organization {
        id: AccountId::from_uuid(Uuid::from_u128(77)),
        name: OwnerName::parse("works").unwrap(),
        display_name: None,
        description: None,
        base_role: Role::Read,
        created_at: world.hub.now(),
    };
    let mut tx = world.fakes.metadata.write(&WriteKeys::any()).unwrap();
    tx.organizations().add(&organization).unwrap();
    tx.members().put(organization.id, user(&world.ada).id, MemberRole::Owner, world.hub.now()).unwrap();
    tx.members().put(organization.id, user(&world.ben).id, MemberRole::Member, world.hub.now()).unwrap();
    tx.commit(Durability::Synced).unwrap();
    let locator = ("works", "plans");
    create(&world.hub, &world.ada, locator, Visibility::Private);
    assert_eq!(check(&world, &world.ada, locator), ["Admin"; 4]);
    assert_eq!(check(&world, &world.ben, locator), ["Read", "Read", "needs write", "needs admin"]);
    assert_eq!(check(&world, &cleo, locator), ["none"; 4]);
    for who in [&world.ben, &cleo] {
        let refused =
            world.hub.databases().create(user(who), new_database(("works", "mine"), Visibility::Public), None);
        assert!(matches!(refused, Err(DatabaseError::MayNotCreateFor(_))), "a base role of read is not enough");
    }
}

#[test]
fn a_member_who_may_write_creates_for_the_organization_and_administers_that() {
    let world = world();
    let wanted = NewOrganization::named(OwnerName::parse("works").unwrap());
    let works = world.hub.organizations().create(user(&world.ada), wanted, None).unwrap().organization;
    let mut tx = world.fakes.metadata.write(&WriteKeys::any()).unwrap();
    tx.members().put(works.id, user(&world.ben).id, MemberRole::Member, world.hub.now()).unwrap();
    tx.commit(Durability::Synced).unwrap();
    create(&world.hub, &world.ada, ("works", "hers"), Visibility::Private);
    create(&world.hub, &world.ben, ("works", "his"), Visibility::Private);
    assert_eq!(check(&world, &world.ben, ("works", "hers")), ["Write", "Write", "Write", "needs admin"]);
    assert_eq!(check(&world, &world.ben, ("works", "his")), ["Admin"; 4]);
}

#[test]
fn nobody_creates_for_others_and_no_name_is_given_twice() {
    let world = world();
    let create =
        |locator| world.hub.databases().create(user(&world.ben), new_database(locator, Visibility::Public), None);
    for owner in ["ada", "nobody", "!"] {
        assert!(matches!(create((owner, "x")), Err(DatabaseError::MayNotCreateFor(name)) if name == owner));
    }
    create(("BEN", "x")).unwrap();
    assert!(matches!(create(("ben", "X")), Err(DatabaseError::NameTaken(name)) if name == "ben/X"));
}

#[test]
fn what_a_deleted_database_leaves() {
    let world = world();
    let queued = world.queue("main", "main", "DELETE FROM t WHERE id = 1");
    let admin = world.access::<Admin>(&world.ada);
    let changed = world.hub.databases().delete(&admin, Some(&|_| false));
    assert!(matches!(changed, Err(DatabaseError::Changed)));
    world.hub.databases().delete(&admin, None).unwrap();
    assert_eq!(check(&world, &world.ada, DB), ["none"; 4]);
    assert_eq!(world.failure(queued.id).detail, "its database was deleted");
    world.hub.operations().get(&world.ada, queued.id).unwrap();
    let hidden = world.hub.operations().get(&world.ben, queued.id);
    assert!(matches!(hidden, Err(OperationError::NoSuchOperation)));
    create(&world.hub, &world.ada, DB, Visibility::Private);
}
