//! Quotas of owners: each is tested at its number and past it, and with concurrent requests.

use branchyard_domain::access::{Admin, Participate, Write};
use branchyard_domain::entities::{FailureKind, FileType, ImportMode, MemberRole, Visibility};
use branchyard_domain::errors::{DatabaseError, ImportError, OperationError, OrganizationError, QuotaError};
use branchyard_domain::ports::Metadata as _;
use branchyard_domain::ports::{Durability, WriteKeys};
use branchyard_domain::usecases::{Limits, NewFileImport, NewOrganization, NewUpload, SqlWrite};
use branchyard_domain::values::OwnerName;
use branchyard_domain::{Hub, entities::Operation};

use crate::harness::{DomainHarness, create, name, new_database, user, world};

const DAY: i64 = 86_400;
const ADD: &str = "INSERT INTO t VALUES (2,'two')";
/// The message that a write without one gets is this text and its statements.
const MESSAGE: &str = "Run SQL query: ";

fn write(hub: &Hub, world: &DomainHarness, statements: &str) -> Result<Operation, OperationError> {
    let wanted = SqlWrite {
        from_branch: "main".to_owned(),
        to_branch: name("main"),
        statements: statements.to_owned(),
        message: None,
        expected_head: None,
        start: None,
    };
    hub.operations().sql_write(&world.access::<Write>(&world.ada), wanted, None)
}

fn upload(hub: &Hub, world: &DomainHarness, size: u64) -> Result<(), ImportError> {
    let wanted = NewUpload { content_length: size, num_parts: 1, file_type: FileType::Csv };
    hub.imports().open_upload(&world.access::<Write>(&world.ada), wanted, None).map(drop)
}

fn used(world: &DomainHarness) -> u64 {
    world.transaction().databases().bytes_of(user(&world.ada).id).unwrap()
}

/// Returns a hub over the same stores in which an owner may use `bytes`.
fn with_bytes(world: &DomainHarness, bytes: u64) -> Hub {
    world.fakes.beside(Limits { bytes_per_owner: bytes, ..Limits::default() })
}

#[test]
fn texts_of_writes_count_up_to_the_last_byte() {
    let world = world();
    let text = (2 * ADD.len() + MESSAGE.len()) as u64;
    let full = with_bytes(&world, used(&world) + text - 1);
    let refused = write(&full, &world, ADD).unwrap_err();
    assert!(matches!(refused, OperationError::Quota(QuotaError::Bytes(_))), "{refused:?}");
    assert!(refused.to_string().contains("delete databases"), "{refused}");
    write(&with_bytes(&world, used(&world) + text), &world, ADD).unwrap();
}

#[test]
fn uploads_count_by_their_announced_size() {
    let world = world();
    let hub = with_bytes(&world, used(&world) + 1_000);
    assert!(matches!(upload(&hub, &world, 1_001), Err(ImportError::Quota(QuotaError::Bytes(_)))));
    upload(&hub, &world, 600).unwrap();
    assert!(matches!(upload(&hub, &world, 401), Err(ImportError::Quota(QuotaError::Bytes(_)))));
    upload(&hub, &world, 400).unwrap();
    assert!(matches!(upload(&hub, &world, 1), Err(ImportError::Quota(QuotaError::Bytes(_)))));
}

#[test]
fn a_file_that_arrives_in_one_request_counts() {
    const FILE: &str = "id,a\n1,eins\n";
    let world = world();
    let import = |hub: &Hub| {
        let access = world.access::<Write>(&world.ada);
        let stored = hub.imports().store_file(&access, &mut FILE.as_bytes(), 1_000).unwrap();
        let wanted = NewFileImport {
            branch: None,
            table: "t".to_owned(),
            file_name: "t.csv".to_owned(),
            file_type: FileType::Csv,
            mode: Some(ImportMode::Update),
            primary_keys: Vec::new(),
        };
        hub.imports().start_file(&access, stored, wanted).map(drop)
    };
    let size = FILE.len() as u64;
    let refused = import(&with_bytes(&world, used(&world) + size - 1));
    assert!(matches!(refused, Err(ImportError::Quota(QuotaError::Bytes(_)))), "{refused:?}");
    import(&with_bytes(&world, used(&world) + size)).unwrap();
}

#[test]
fn databases_and_forks_need_bytes_of_their_owner() {
    let world = world();
    let full = with_bytes(&world, used(&world));
    let new =
        |hub: &Hub| hub.databases().create(user(&world.ada), new_database(("ada", "b"), Visibility::Public), None);
    assert!(matches!(new(&full), Err(DatabaseError::Quota(QuotaError::Bytes(_)))));
    // A fork counts for its new owner, who has nothing yet.
    let size = u64::try_from(world.access::<Admin>(&world.ada).database().size_bytes).unwrap();
    assert!(size > 0);
    let fork = |hub: &Hub| hub.operations().fork(&world.access::<Participate>(&world.ben), "ben", None);
    let refused = fork(&with_bytes(&world, size - 1));
    assert!(matches!(refused, Err(OperationError::Quota(QuotaError::Bytes(_)))), "{refused:?}");
    fork(&with_bytes(&world, size)).unwrap();
    new(&with_bytes(&world, used(&world) + 1)).unwrap();
}

#[test]
fn an_owner_past_the_limit_deletes_and_purges_and_what_was_queued_fails() {
    let world = world();
    let queued = write(&world.hub, &world, ADD).unwrap();
    let full = with_bytes(&world, used(&world) - 1);
    let purge = full.operations().purge(&world.access::<Admin>(&world.ada), None).unwrap();
    while full.operations().run_next("worker").unwrap().is_some() {}
    let failure = world.failure(queued.id);
    assert_eq!(failure.kind, FailureKind::Unprocessable);
    assert!(failure.detail.contains("delete databases"), "{}", failure.detail);
    assert!(world.outcome(purge.id).purged.is_some());
    full.databases().delete(&world.access::<Admin>(&world.ada), None).unwrap();
    assert_eq!(used(&world), 0, "deleted databases do not count");
}

#[test]
fn operations_of_a_day_are_limited_and_the_wait_is_exact() {
    let world = world();
    // The hub's first write was the first operation.
    let limits = Limits { operations_per_day: 3, ..Limits::default() };
    let hub = world.fakes.beside(limits);
    let first = world.transaction().operations().list_by(user(&world.ada).id, Default::default(), None, 9).unwrap();
    assert_eq!(first.len(), 1);
    world.fakes.clock.advance_seconds(10);
    write(&hub, &world, ADD).unwrap();
    world.fakes.clock.advance_seconds(10);
    write(&hub, &world, ADD).unwrap();
    let refused = write(&hub, &world, ADD).unwrap_err();
    let OperationError::Quota(QuotaError::Operations { limit: 3, retry_after_seconds }) = refused else {
        panic!("{refused:?}");
    };
    let waited = first[0].created_at.plus_seconds(DAY).as_micros() - world.hub.now().as_micros();
    assert!((DAY - 21..=DAY - 20).contains(&i64::from(retry_after_seconds)), "{retry_after_seconds}");
    assert!(i64::from(retry_after_seconds) * 1_000_000 >= waited, "waiting so long is enough");
    // Operations of others on her databases count for her, and hers on theirs for them.
    create(&world.hub, &world.ben, ("ben", "other"), Visibility::Public);
    hub.operations().fork(&world.access::<Participate>(&world.ben), "ben", None).unwrap();
    world.fakes.clock.advance_seconds(i64::from(retry_after_seconds) - 1);
    let early = write(&hub, &world, ADD);
    assert!(matches!(early, Err(OperationError::Quota(_))), "a second too early");
    world.fakes.clock.advance_seconds(1);
    write(&hub, &world, ADD).unwrap();
    assert!(matches!(write(&hub, &world, ADD), Err(OperationError::Quota(_))));
}

#[test]
fn a_user_owns_so_many_organizations() {
    let world = world();
    let hub = world.fakes.beside(Limits { organizations_per_user: 2, ..Limits::default() });
    let new = |text: &str| {
        let wanted = NewOrganization::named(OwnerName::parse(text).unwrap());
        hub.organizations().create(user(&world.ada), wanted, None)
    };
    let (one, _) = (new("one").unwrap(), new("two").unwrap());
    let refused = new("three").unwrap_err();
    assert!(matches!(refused, OrganizationError::TooMany(2)), "{refused:?}");
    assert!(matches!(new("one"), Err(OrganizationError::TooMany(2))));
    // A membership without ownership does not count.
    let mut tx = world.fakes.metadata.write(&WriteKeys::any()).unwrap();
    tx.members().put(one.organization.id, user(&world.ada).id, MemberRole::Member, world.hub.now()).unwrap();
    tx.commit(Durability::Synced).unwrap();
    new("three").unwrap();
}

#[test]
fn concurrent_requests_cannot_pass_a_limit_together() {
    for _ in 0..20 {
        let world = world();
        let text = (2 * ADD.len() + MESSAGE.len()) as u64;
        // One write fits, and one operation more than the first.
        let by_bytes = with_bytes(&world, used(&world) + 2 * text - 1);
        let by_day = world.fakes.beside(Limits { operations_per_day: 3, ..Limits::default() });
        let by_number = world.fakes.beside(Limits { organizations_per_user: 1, ..Limits::default() });
        let both = |change: &(dyn Fn(usize) -> bool + Sync)| {
            std::thread::scope(|scope| {
                let threads = [0, 1].map(|number| scope.spawn(move || change(number)));
                threads.map(|thread| thread.join().unwrap()).iter().filter(|done| **done).count()
            })
        };
        assert_eq!(both(&|_| write(&by_bytes, &world, ADD).is_ok()), 1, "bytes");
        assert_eq!(both(&|_| write(&by_day, &world, ADD).is_ok()), 1, "operations");
        let new = |number: usize| {
            let wanted = NewOrganization::named(OwnerName::parse(&format!("works{number}")).unwrap());
            by_number.organizations().create(user(&world.ada), wanted, None).is_ok()
        };
        assert_eq!(both(&new), 1, "organizations");
    }
}
