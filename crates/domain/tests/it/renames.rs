//! Renames and transfers of databases, and the addresses that forward to them.

use branchyard_domain::access::{Admin, Caller, Own, Participate, Read};
use branchyard_domain::entities::{Database, FailureKind, MemberRole, Role, Visibility};
use branchyard_domain::errors::{AccessError, DatabaseError, PullError};
use branchyard_domain::usecases::{DatabaseView, EditDatabase, Limits, NewOrganization, NewPull};
use branchyard_domain::values::{DatabaseId, DatabaseName, OwnerName};

use crate::harness::{DB, DomainHarness, create, new_database, person, user, world, world_with};

const NEW: (&str, &str) = ("ada", "motors");

fn to_name(name: &str) -> EditDatabase {
    EditDatabase { name: Some(DatabaseName::parse(name).unwrap()), ..EditDatabase::default() }
}

fn to_owner(owner: &str) -> EditDatabase {
    EditDatabase { owner: Some(owner.to_owned()), ..EditDatabase::default() }
}

fn edit(
    world: &DomainHarness,
    by: &Caller,
    at: (&str, &str),
    edit: EditDatabase,
) -> Result<DatabaseView, DatabaseError> {
    world.hub.databases().edit(&world.access_to::<Admin>(by, at), edit, None)
}

/// Returns the database that an address leads a caller to, and its present address.
fn found(world: &DomainHarness, caller: &Caller, (owner, name): (&str, &str)) -> Option<(DatabaseId, String)> {
    match world.hub.databases().access::<Read>(caller, owner, name) {
        Ok(access) => Some((access.database().id, access.database().locator.to_string())),
        Err(AccessError::NoSuchDatabase) => None,
        Err(other) => panic!("{other}"),
    }
}

/// Creates the organization `works` of Ada, in which Ben has a role.
fn works(world: &DomainHarness, role: MemberRole) {
    let wanted = NewOrganization::named(OwnerName::parse("works").unwrap());
    world.hub.organizations().create(user(&world.ada), wanted, None).unwrap();
    let owner = world.hub.organizations().access::<Own>(&world.ada, "works").unwrap();
    world.hub.members().put(&owner, user(&world.ben), role).unwrap();
}

#[test]
fn a_former_name_leads_to_the_database_for_those_who_see_it() {
    let world = world();
    // The cache of lookups has the role at the address that ends.
    assert_eq!(found(&world, &world.ben, DB), Some((world.db, "ada/engines".to_owned())));
    assert_eq!(found(&world, &world.ben, NEW), None);
    let view = edit(&world, &world.ada, DB, to_name("motors")).unwrap();
    assert_eq!((view.database.locator.to_string(), view.role), ("ada/motors".to_owned(), Role::Admin));
    for caller in [&Caller::Anonymous, &world.ben, &world.ada] {
        for at in [DB, NEW, ("ADA", "Engines")] {
            assert_eq!(found(&world, caller, at), Some((world.db, "ada/motors".to_owned())), "{at:?}");
        }
    }
    assert_eq!(world.rows_in(DB, "main"), world.rows_in(NEW, "main"));
    // At its former address, it is changed as well.
    let hide = EditDatabase { visibility: Some(Visibility::Private), ..EditDatabase::default() };
    edit(&world, &world.ada, DB, hide).unwrap();
    for caller in [&Caller::Anonymous, &world.ben] {
        assert_eq!([found(&world, caller, DB), found(&world, caller, NEW)], [None, None]);
    }
    let denied = world.hub.databases().access::<Admin>(&world.ben, DB.0, DB.1);
    assert!(matches!(denied, Err(AccessError::NoSuchDatabase)));
    assert!(found(&world, &world.ada, DB).is_some());
    let former = world.hub.databases().former_names(&world.access_to::<Admin>(&world.ada, NEW)).unwrap();
    assert_eq!(former.iter().map(ToString::to_string).collect::<Vec<_>>(), ["ada/engines"]);
}

#[test]
fn what_has_an_address_is_found_there_and_not_what_had_it() {
    let world = world();
    edit(&world, &world.ada, DB, to_name("motors")).unwrap();
    let hidden = create(&world.hub, &world.ada, DB, Visibility::Private);
    assert_eq!(found(&world, &world.ada, DB).unwrap().0, hidden);
    assert_eq!(found(&world, &world.ben, DB), None, "a hidden database takes the address over as well");
    // Back and forth: each takes the address of the other.
    edit(&world, &world.ada, DB, to_name("third")).unwrap();
    edit(&world, &world.ada, NEW, to_name("engines")).unwrap();
    edit(&world, &world.ada, ("ada", "third"), to_name("motors")).unwrap();
    assert_eq!(found(&world, &world.ada, DB).unwrap().0, world.db);
    assert_eq!(found(&world, &world.ada, NEW).unwrap().0, hidden);
    assert_eq!(found(&world, &world.ada, ("ada", "third")).unwrap().0, hidden);
    // The end of a database is that of its forwards.
    world.hub.databases().delete(&world.access_to::<Admin>(&world.ada, NEW), None).unwrap();
    assert_eq!([found(&world, &world.ada, NEW), found(&world, &world.ada, ("ada", "third"))], [None, None]);
    let taken = create(&world.hub, &world.ada, NEW, Visibility::Public);
    assert_eq!(found(&world, &world.ben, NEW).unwrap().0, taken);
}

#[test]
fn a_fork_takes_a_former_name_over() {
    let world = world();
    let own = create(&world.hub, &world.ben, ("ben", "engines"), Visibility::Public);
    edit(&world, &world.ben, ("ben", "engines"), to_name("mine")).unwrap();
    assert_eq!(found(&world, &world.ada, ("ben", "engines")).unwrap().0, own);
    let fork = world.hub.operations().fork(&world.access::<Participate>(&world.ben), "ben", None).unwrap();
    world.work();
    let made = world.outcome(fork.id).database.unwrap().0;
    assert_eq!(found(&world, &world.ada, ("ben", "engines")).unwrap().0, made);
}

#[test]
fn a_rename_is_refused_for_the_right_reason() {
    let world = world();
    let other = create(&world.hub, &world.ada, ("ada", "other"), Visibility::Private);
    let taken = edit(&world, &world.ada, DB, to_name("OTHER"));
    assert!(matches!(taken, Err(DatabaseError::NameTaken(name)) if name == "ada/OTHER"));
    let stale = world.hub.databases().edit(&world.access::<Admin>(&world.ada), to_name("x"), Some(&|_| false));
    assert!(matches!(stale, Err(DatabaseError::Changed)));
    assert_eq!(found(&world, &world.ada, ("ada", "other")).unwrap().0, other);
    assert_eq!(found(&world, &world.ada, ("ada", "x")), None);
    for owner in ["ben", "unknown", "!"] {
        let denied = edit(&world, &world.ada, DB, to_owner(owner));
        assert!(matches!(denied, Err(DatabaseError::MayNotCreateFor(name)) if name == owner));
    }
    // Its own owner, and its own name in another spelling.
    let view = edit(&world, &world.ada, DB, EditDatabase { owner: Some("ADA".to_owned()), ..to_name("Engines") });
    assert_eq!(view.unwrap().database.locator.to_string(), "ada/Engines");
    let former = world.hub.databases().former_names(&world.access::<Admin>(&world.ada)).unwrap();
    assert_eq!(former, []);
    // An access that has been lost since moves nothing.
    world.invite(&world.ben, Role::Admin);
    let ben = world.access::<Admin>(&world.ben);
    world.invite(&world.ben, Role::Write);
    let late = world.hub.databases().edit(&ben, to_name("bens"), None);
    assert!(matches!(late, Err(DatabaseError::Access(AccessError::Denied("admin")))), "{late:?}");
}

#[test]
fn a_transfer_moves_the_rights_of_the_owner_and_keeps_those_of_others() {
    let world = world();
    works(&world, MemberRole::Member);
    let cleo = person(&world.hub, "cleo");
    let his = ("ben", "his");
    let his_id = create(&world.hub, &world.ben, his, Visibility::Private);
    let admin = world.access_to::<Admin>(&world.ben, his);
    world.hub.collaborators().put(&admin, user(&cleo), Role::Write).unwrap();
    // Ben is a member with the base role `write`, and goes on administering what he brings.
    let view = edit(&world, &world.ben, his, to_owner("Works")).unwrap();
    assert_eq!((view.database.locator.to_string(), view.role), ("works/his".to_owned(), Role::Admin));
    let role = |caller: &Caller, (owner, name): (&str, &str)| {
        world.hub.databases().access::<Read>(caller, owner, name).map(|access| access.role()).ok()
    };
    for at in [his, ("works", "his")] {
        assert_eq!([role(&world.ada, at), role(&world.ben, at)], [Some(Role::Admin); 2]);
        assert_eq!([role(&cleo, at), role(&Caller::Anonymous, at)], [Some(Role::Write), None]);
    }
    // Ada takes it, as an owner of the organization: Ben keeps what he has of his own.
    edit(&world, &world.ada, ("works", "his"), to_owner("ada")).unwrap();
    assert_eq!(found(&world, &world.ada, his), Some((his_id, "ada/his".to_owned())));
    assert_eq!(found(&world, &world.ada, ("works", "his")), Some((his_id, "ada/his".to_owned())));
    let now = ("ada", "his");
    assert_eq!([role(&world.ada, now), role(&world.ben, now)], [Some(Role::Admin); 2]);
    let admin = world.access_to::<Admin>(&world.ada, now);
    world.hub.collaborators().remove(&admin, "ben").unwrap();
    assert_eq!(role(&world.ben, his), None, "the former owner has no rights by a former address");
    // A collaborator who becomes the owner is no longer listed as a collaborator.
    world.hub.collaborators().put(&admin, user(&world.ben), Role::Admin).unwrap();
    edit(&world, &world.ben, now, to_owner("ben")).unwrap();
    let admin = world.access_to::<Admin>(&world.ben, his);
    let listed = world.hub.collaborators().list(&admin, None, 10).unwrap();
    assert_eq!(listed.iter().map(|known| known.username.as_str()).collect::<Vec<_>>(), ["cleo"]);
    assert_eq!(role(&world.ada, his), None);
}

#[test]
fn a_transfer_needs_a_place_and_room_at_the_new_owner() {
    let world = world_with(Limits { databases_per_owner: 1, ..Limits::default() });
    works(&world, MemberRole::Owner);
    create(&world.hub, &world.ben, ("works", "engines"), Visibility::Public);
    let taken = edit(&world, &world.ada, DB, to_owner("works"));
    assert!(matches!(taken, Err(DatabaseError::NameTaken(_))), "{taken:?}");
    let both = || EditDatabase { owner: Some("works".to_owned()), ..to_name("motors") };
    let full = edit(&world, &world.ada, DB, both());
    assert!(matches!(full, Err(DatabaseError::TooMany(1))), "{full:?}");
    world.hub.databases().delete(&world.access_to::<Admin>(&world.ada, ("works", "engines")), None).unwrap();
    edit(&world, &world.ada, DB, both()).unwrap();
    assert_eq!(found(&world, &world.ben, DB), Some((world.db, "works/motors".to_owned())));
    create(&world.hub, &world.ada, ("ada", "next"), Visibility::Public);
}

#[test]
fn the_newest_twenty_former_names_forward() {
    let world = world();
    for number in 0..=Database::MOST_FORMER_NAMES {
        edit(&world, &world.ada, DB, to_name(&format!("n{number}")))
            .unwrap_or_else(|error| panic!("{number}: {error}"));
        if number < Database::MOST_FORMER_NAMES {
            assert!(found(&world, &world.ben, DB).is_some(), "{number}");
        }
    }
    assert_eq!(found(&world, &world.ben, DB), None, "the oldest one was dropped");
    assert!(found(&world, &world.ben, ("ada", "n0")).is_some());
}

#[test]
fn a_name_is_given_to_one_of_two_renames_at_once() {
    for _ in 0..20 {
        let world = world();
        create(&world.hub, &world.ada, ("ada", "other"), Visibility::Public);
        let moved = std::thread::scope(|scope| {
            let moving = [DB, ("ada", "other")].map(|at| {
                let (access, hub) = (world.access_to::<Admin>(&world.ada, at), world.hub.clone());
                scope.spawn(move || hub.databases().edit(&access, to_name("motors"), None))
            });
            moving.map(|thread| thread.join().unwrap())
        });
        let lost = moved.iter().filter(|result| matches!(result, Err(DatabaseError::NameTaken(_)))).count();
        assert_eq!((moved.iter().filter(|result| result.is_ok()).count(), lost), (1, 1));
    }
}

#[test]
fn operations_and_pull_requests_stay_attached() {
    let world = world();
    let fork = world.hub.operations().fork(&world.access::<Participate>(&world.ben), "ben", None).unwrap();
    world.work();
    let fork = world.outcome(fork.id).database.unwrap().0;
    let queued = world.queue("main", "work", "INSERT INTO t VALUES (2,'two')");
    edit(&world, &world.ada, DB, to_name("motors")).unwrap();
    edit(&world, &world.ben, ("ben", "engines"), to_name("mine")).unwrap();
    world.work();
    world.outcome(queued.id);
    assert_eq!(world.transaction().operations().get(queued.id).unwrap().unwrap().locator.to_string(), "ada/motors");
    // Both ends are named by former addresses. The base has a branch that the fork lacks.
    let base = world.access::<Participate>(&world.ben);
    let elsewhere = NewPull { to_database: ("ben".into(), "engines".into()), ..pull(("ada", "engines"), "work") };
    let refused = world.hub.pulls().open(&base, elsewhere, None);
    assert!(matches!(refused, Err(PullError::OtherTarget(name)) if name == "ada/motors"));
    let within = world.hub.pulls().open(&world.access::<Participate>(&world.ada), pull(DB, "work"), None).unwrap();
    assert_eq!((within.from_database_id, within.from_locator.to_string()), (world.db, "ada/motors".to_owned()));
    let across = world.hub.pulls().open(&base, pull(("ben", "engines"), "main"), None).unwrap();
    assert_eq!((across.from_database_id, across.from_locator.to_string()), (fork, "ben/mine".to_owned()));
    edit(&world, &world.ben, ("ben", "mine"), to_name("hers")).unwrap();
    let shown = world.hub.pulls().get(&base, across.number).unwrap();
    assert_eq!((shown.from_locator.to_string(), shown.version), ("ben/hers".to_owned(), across.version));
}

fn pull(from: (&str, &str), branch: &str) -> NewPull {
    DomainHarness::new_pull(from, branch, "main")
}

#[test]
fn what_a_former_owner_queued_fails_without_effect() {
    let world = world();
    works(&world, MemberRole::Owner);
    edit(&world, &world.ada, DB, to_owner("works")).unwrap();
    let queued = world.queue("main", "work", "INSERT INTO t VALUES (2,'two')");
    edit(&world, &world.ben, ("works", "engines"), to_owner("ben")).unwrap();
    world.work();
    assert_eq!(world.failure(queued.id).kind, FailureKind::PermissionDenied);
    assert_eq!(world.head("work"), None);
    let again = world.hub.databases().create(user(&world.ada), new_database(DB, Visibility::Public), None);
    assert_ne!(again.unwrap().database.id, world.db);
}
