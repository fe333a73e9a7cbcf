//! Deleted users and organizations: their names, what ends with them, and exports.

use branchyard_auth::{HashedToken, PlainPassword};
use branchyard_domain::access::{Admin, Caller, Own, Participate, Write};
use branchyard_domain::entities::{FailureKind, MemberRole, Operation, Pull, PullState, Role, Token, User, Visibility};
use branchyard_domain::errors::{AccessError, OrganizationError, PeopleError, SignUpError};
use branchyard_domain::ports::{Durability, Metadata as _, WriteKeys};
use branchyard_domain::usecases::{Applicant, DeleteUser, Limits, NewOrganization, NewUser, SignUp, SqlWrite};
use branchyard_domain::values::{EmailAddress, LongText, OwnerName, TokenId};

use crate::harness::{DB, DomainHarness, create, name, user, world, world_with};

const KEPT: i64 = 90 * 86_400;
const ERASE: DeleteUser = DeleteUser { with_databases: true, erase: true };
const WITH_DATABASES: DeleteUser = DeleteUser { with_databases: true, erase: false };

fn owner(text: &str) -> OwnerName {
    OwnerName::parse(text).unwrap()
}

fn found(world: &DomainHarness, by: &Caller, text: &str) -> Result<(), OrganizationError> {
    world.hub.organizations().create(user(by), NewOrganization::named(owner(text)), None).map(drop)
}

fn sign_up(world: &DomainHarness, text: &str) -> Result<User, SignUpError> {
    let password = PlainPassword::choose("a long enough secret".to_owned()).unwrap();
    let applicant = Applicant {
        name: owner(text),
        email: EmailAddress::parse("new@example.org").unwrap(),
        password: password.hash_from(&mut |buffer| buffer.fill(7)).unwrap(),
    };
    world.hub.invitations().sign_up(applicant, None)
}

fn admin(world: &DomainHarness) -> Caller {
    let wanted = NewUser {
        name: owner("root"),
        email: "root@example.org".to_owned(),
        display_name: None,
        password: None,
        is_admin: true,
    };
    Caller::User(std::sync::Arc::new(world.hub.people().create_user(wanted).unwrap()))
}

fn open() -> DomainHarness {
    world_with(Limits { sign_up: SignUp::Open, ..Limits::default() })
}

fn delete(world: &DomainHarness, text: &str, how: DeleteUser) -> Result<(), PeopleError> {
    world.hub.people().delete_user(&owner(text), how).map(drop)
}

/// Queues a write of Ben's.
fn queue(world: &DomainHarness, statements: &str) -> Operation {
    let (from_branch, statements) = ("main".to_owned(), statements.to_owned());
    let wanted =
        SqlWrite { from_branch, to_branch: name("main"), statements, message: None, expected_head: None, start: None };
    world.hub.operations().sql_write(&world.access::<Write>(&world.ben), wanted, None).unwrap()
}

/// Opens a pull request of Ben's.
fn pull(world: &DomainHarness) -> Pull {
    let wanted = DomainHarness::new_pull(DB, "work", "main");
    world.hub.pulls().open(&world.access::<Participate>(&world.ben), wanted, None).unwrap()
}

/// Stores a token of Ben's. Returns its hash.
fn token(world: &DomainHarness) -> HashedToken {
    let hash = HashedToken::from_bytes([7; 32]);
    let now = world.hub.now();
    let token = Token {
        id: TokenId::from_uuid(world.hub.fresh_id()),
        user_id: user(&world.ben).id,
        name: "ci".to_owned(),
        hash,
        created_at: now,
        expires_at: now.plus_seconds(1_000),
        last_use: None,
    };
    let mut tx = world.fakes.metadata.write(&WriteKeys::any()).unwrap();
    tx.tokens().add(&token).unwrap();
    tx.commit(Durability::Synced).unwrap();
    token.hash
}

#[test]
fn the_name_of_a_deleted_organization_is_kept_for_90_days() {
    let world = open();
    let root = admin(&world);
    found(&world, &world.ada, "works").unwrap();
    let own = world.hub.organizations().access::<Own>(&world.ada, "works").unwrap();
    world.hub.organizations().delete(&own, None).unwrap();
    world.fakes.clock.advance_seconds(KEPT - 1);
    let kept = found(&world, &world.ben, "WORKS").unwrap_err();
    assert!(matches!(&kept, OrganizationError::People(PeopleError::NameRetired(_))), "{kept:?}");
    assert!(kept.to_string().contains("90 days"), "{kept}");
    let kept = sign_up(&world, "works").unwrap_err();
    assert!(matches!(kept, SignUpError::People(PeopleError::NameRetired(_))), "{kept:?}");
    assert!(world.hub.databases().access::<Participate>(&world.ada, "works", "plans").is_err());
    // The user who deleted it may use it again, and an administrator may.
    found(&world, &world.ada, "works").unwrap();
    let own = world.hub.organizations().access::<Own>(&world.ada, "works").unwrap();
    world.hub.organizations().delete(&own, None).unwrap();
    found(&world, &root, "Works").unwrap();
    let own = world.hub.organizations().access::<Own>(&root, "works").unwrap();
    world.hub.organizations().delete(&own, None).unwrap();
    let kept = found(&world, &world.ada, "works");
    assert!(matches!(kept, Err(OrganizationError::People(PeopleError::NameRetired(_)))), "the newest deletion counts");
    world.fakes.clock.advance_seconds(KEPT - 1);
    assert!(found(&world, &world.ben, "works").is_err(), "a second too early");
    world.fakes.clock.advance_seconds(1);
    found(&world, &world.ben, "works").unwrap();
}

#[test]
fn the_name_of_a_deleted_user_is_kept_also_after_erasure() {
    for how in [DeleteUser::default(), ERASE] {
        let world = open();
        delete(&world, "ben", how).unwrap();
        world.fakes.clock.advance_seconds(KEPT - 1);
        world.hub.operations().tidy().unwrap();
        assert!(matches!(sign_up(&world, "Ben"), Err(SignUpError::People(PeopleError::NameRetired(_)))));
        let kept = found(&world, &world.ada, "ben");
        assert!(matches!(kept, Err(OrganizationError::People(PeopleError::NameRetired(_)))), "{kept:?}");
        world.fakes.clock.advance_seconds(1);
        sign_up(&world, "Ben").unwrap();
    }
    let reserved = sign_up(&open(), "deleted-user");
    assert!(matches!(reserved, Err(SignUpError::People(PeopleError::NameReserved(_)))), "{reserved:?}");
}

#[test]
fn an_owner_is_deleted_only_with_what_is_owned() {
    let world = world();
    found(&world, &world.ada, "works").unwrap();
    create(&world.hub, &world.ada, ("works", "plans"), Visibility::Private);
    let refused = delete(&world, "ada", DeleteUser::default()).unwrap_err();
    assert!(matches!(refused, PeopleError::OwnsThings { .. }), "{refused:?}");
    let text = refused.to_string();
    assert!(text.contains("ada/engines, works") && text.contains("--with-databases"), "{text}");
    // An organization with other members is not deleted with its only owner.
    let own = world.hub.organizations().access::<Own>(&world.ada, "works").unwrap();
    world.hub.members().put(&own, user(&world.ben), MemberRole::Member).unwrap();
    let refused = delete(&world, "ada", WITH_DATABASES).unwrap_err();
    assert!(matches!(&refused, PeopleError::OnlyOwner { organization, .. } if organization == "works"), "{refused:?}");
    assert!(world.hub.people().find_user(&owner("ada")).is_ok(), "nothing changed");
    let ben = world.hub.members().get(&world.hub.organizations().access(&world.ada, "works").unwrap(), "ben").unwrap();
    world.hub.members().remove(&own, &ben).unwrap();
    let deleted = world.hub.people().delete_user(&owner("ADA"), WITH_DATABASES).unwrap();
    let databases: Vec<String> = deleted.databases.iter().map(ToString::to_string).collect();
    assert_eq!((deleted.name.as_str(), databases), ("ada", vec!["ada/engines".to_owned(), "works/plans".to_owned()]));
    assert_eq!(deleted.organizations, [owner("works")]);
    assert!(matches!(
        world.hub.databases().access::<Participate>(&world.ben, DB.0, DB.1),
        Err(AccessError::NoSuchDatabase)
    ));
    let again = delete(&world, "ada", WITH_DATABASES);
    assert!(matches!(again, Err(PeopleError::NoSuchUser(_))), "{again:?}");
}

#[test]
fn an_organization_with_another_owner_stays() {
    let world = world();
    found(&world, &world.ben, "works").unwrap();
    let own = world.hub.organizations().access::<Own>(&world.ben, "works").unwrap();
    world.hub.members().put(&own, user(&world.ada), MemberRole::Owner).unwrap();
    delete(&world, "ben", DeleteUser::default()).unwrap();
    world.hub.organizations().access::<Own>(&world.ada, "works").unwrap();
}

#[test]
fn the_last_administrator_stays() {
    let world = world();
    admin(&world);
    let refused = delete(&world, "root", WITH_DATABASES);
    assert!(matches!(refused, Err(PeopleError::LastAdministrator(_))), "{refused:?}");
    let mut second = user(&world.ben).clone();
    second.is_admin = true;
    let mut tx = world.fakes.metadata.write(&WriteKeys::any()).unwrap();
    tx.users().update(&second).unwrap();
    tx.commit(Durability::Synced).unwrap();
    delete(&world, "root", WITH_DATABASES).unwrap();
    let refused = delete(&world, "ben", WITH_DATABASES);
    assert!(matches!(refused, Err(PeopleError::LastAdministrator(_))), "{refused:?}");
}

#[test]
fn credentials_and_queued_operations_end_and_what_was_written_stays() {
    let world = world();
    world.invite(&world.ben, Role::Write);
    world.branch("work", crate::refs::at("main")).unwrap();
    world.wrote("work", "INSERT INTO t VALUES (5,'five')");
    let token = token(&world);
    let pull = pull(&world);
    let body = LongText::parse("Looks fine".to_owned()).unwrap();
    world.hub.pulls().comment(&world.access::<Participate>(&world.ben), pull.number, body, None).unwrap();
    let queued = queue(&world, "INSERT INTO t VALUES (9,'nine')");
    let data = world.hub.people().personal_data(user(&world.ben).id).unwrap();
    assert_eq!((data.pulls.len(), data.comments.len(), data.operations.len(), data.tokens.len()), (1, 1, 1, 1));
    assert_eq!((data.collaborations.len(), data.pulls[0].number), (1, pull.number));

    let deleted = world.hub.people().delete_user(&owner("ben"), DeleteUser::default()).unwrap();
    assert_eq!(deleted.canceled_operations, 1);
    world.work();
    assert_eq!(world.failure(queued.id).kind, FailureKind::Canceled);
    assert!(!world.rows("main").contains(&"9|nine".to_owned()));
    let found = world.transaction().tokens().by_hash(&token).unwrap();
    assert!(found.is_none());
    let stored = world.transaction().pulls().get(world.db, pull.number).unwrap().unwrap();
    assert_eq!((stored.creator.as_str(), stored.state), ("ben", PullState::Open), "the name stays without erasure");
    assert!(world.hub.people().personal_data(user(&world.ben).id).is_err());
}

#[test]
fn erasure_hides_the_name_and_keeps_commits() {
    let world = world();
    world.invite(&world.ben, Role::Write);
    let operation = queue(&world, "INSERT INTO t VALUES (9,'nine')");
    world.work();
    let head = world.outcome(operation.id).commit.unwrap();
    delete(&world, "ben", ERASE).unwrap();
    assert_eq!(world.head("main"), Some(head));
    assert!(world.transaction().operations().get(operation.id).unwrap().is_none(), "its SQL text is gone");
    let admin = world.access::<Admin>(&world.ada);
    assert!(world.hub.collaborators().list(&admin, None, 9).unwrap().is_empty());
    world.access::<Write>(&world.ada);
}

#[test]
fn a_user_can_be_erased_after_the_deletion() {
    let world = world();
    world.invite(&world.ben, Role::Write);
    world.branch("work", crate::refs::at("main")).unwrap();
    let pull = pull(&world);
    let creator = || world.transaction().pulls().get(world.db, pull.number).unwrap().unwrap().creator;
    delete(&world, "ben", DeleteUser::default()).unwrap();
    assert!(matches!(delete(&world, "ben", WITH_DATABASES), Err(PeopleError::NoSuchUser(_))), "without erasure");
    assert_eq!(creator().as_str(), "ben");
    delete(&world, "ben", ERASE).unwrap();
    assert_eq!(creator(), OwnerName::deleted_user());
    assert!(matches!(delete(&world, "absent", ERASE), Err(PeopleError::NoSuchUser(_))));
    // A deleted organization is no user.
    found(&world, &world.ada, "works").unwrap();
    let own = world.hub.organizations().access::<Own>(&world.ada, "works").unwrap();
    world.hub.organizations().delete(&own, None).unwrap();
    assert!(matches!(delete(&world, "works", ERASE), Err(PeopleError::NoSuchUser(_))));
}
