//! Values and transactions that the checks share.

use uuid::Uuid;

use branchyard_domain::entities::{
    Branch, Database, DatabaseLocator, Email, Operation, OperationStatus, Organization, Pull, PullContent, PullState,
    RefChange, Role, Tag, User, Visibility, Work,
};
use branchyard_domain::ports::{Durability, Metadata, MetadataError, Transaction, WriteKeys};
use branchyard_domain::values::{
    AccountId, CommitHash, DatabaseId, DatabaseName, OperationId, OwnerName, PullNumber, RefLogId, RefName, Timestamp,
    TraceContext,
};

pub(crate) fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

pub(crate) fn account_id(n: u128) -> AccountId {
    AccountId::from_uuid(id(n))
}

pub(crate) fn database_id(n: u128) -> DatabaseId {
    DatabaseId::from_uuid(id(n))
}

pub(crate) fn operation_id(n: u128) -> OperationId {
    OperationId::from_uuid(id(n))
}

pub(crate) fn owner(text: &str) -> OwnerName {
    OwnerName::parse(text).unwrap()
}

pub(crate) fn reference(text: &str) -> RefName {
    RefName::parse(text).unwrap()
}

pub(crate) fn hash(n: u64) -> CommitHash {
    CommitHash::parse(&format!("{n:040x}")).unwrap()
}

pub(crate) fn at(seconds: i64) -> Timestamp {
    // Not a whole number of milliseconds, because stores keep microseconds.
    Timestamp::from_micros(1_700_000_000_123_457).plus_seconds(seconds)
}

pub(crate) fn user(n: u128, name: &str) -> User {
    User {
        id: account_id(n),
        name: owner(name),
        display_name: Some(format!("{name} the Great")),
        bio: Some("ünï ☂".to_owned()),
        location: None,
        website_url: Some("https://example.org".to_owned()),
        profile_pic_url: None,
        emails: vec![
            Email { address: format!("{name}@example.org"), is_primary: true, is_verified: true },
            Email { address: format!("{name}@example.com"), is_primary: false, is_verified: false },
        ],
        password_hash: Some("$argon2id$".to_owned()),
        is_admin: n == 1,
        suspended_at: None,
        created_at: at(0),
    }
}

pub(crate) fn organization(n: u128, name: &str) -> Organization {
    Organization {
        id: account_id(n),
        name: owner(name),
        display_name: None,
        description: Some("we".to_owned()),
        base_role: Role::Read,
        created_at: at(1),
    }
}

pub(crate) fn database(n: u128, of: &User, name: &str) -> Database {
    Database {
        id: database_id(n),
        owner_id: of.id,
        locator: DatabaseLocator { owner: of.name.clone(), name: DatabaseName::parse(name).unwrap() },
        description: None,
        visibility: Visibility::Public,
        default_branch: reference("main"),
        anonymous_sql: true,
        is_mirror: false,
        parent_id: None,
        network_id: database_id(n),
        created_at: at(2),
        last_write_at: None,
        size_bytes: 4096,
        live_bytes: 4096,
        engine_format: 12,
        star_count: 0,
        version: 1,
        generation: 0,
        deleted_at: None,
        quarantined_at: None,
    }
}

pub(crate) fn branch(name: &str, head: u64) -> Branch {
    Branch { name: reference(name), head: hash(head), updated_at: at(3) }
}

pub(crate) fn tag(name: &str, commit: u64) -> Tag {
    Tag { name: reference(name), commit: hash(commit), message: Some("m".to_owned()), tagger: None, tagged_at: at(4) }
}

/// Returns a change number `n` of a ref.
pub(crate) fn change(n: u128, when: i64, is_left_behind: bool) -> Option<RefChange> {
    Some(RefChange { id: RefLogId::from_uuid(id(n)), at: at(when), by: account_id(1), is_left_behind })
}

pub(crate) fn pull(n: i64, base: &Database, source: &Database, from: &str, creator: &User) -> Pull {
    Pull {
        database_id: base.id,
        number: PullNumber::new(n).unwrap(),
        title: format!("pull {n}"),
        description: Some("why".to_owned()),
        state: PullState::Open,
        creator_id: creator.id,
        creator: creator.name.clone(),
        from_database_id: source.id,
        from_locator: source.locator.clone(),
        from_branch: reference(from),
        to_branch: reference("main"),
        content: PullContent::default(),
        created_at: at(5),
        updated_at: at(5),
        version: 1,
    }
}

pub(crate) fn operation(n: u128, on: &Database, by: &User) -> Operation {
    Operation {
        id: operation_id(n),
        database_id: on.id,
        locator: on.locator.clone(),
        work: Work::SqlWrite {
            from_branch: reference("main"),
            to_branch: reference("work"),
            statements: "INSERT INTO t VALUES ('a\u{0}b', \"ü\")".to_owned(),
            message: "m".to_owned(),
            expected_head: Some(CommitHash::parse(&"0123456789".repeat(4)).unwrap()),
            start: Some(CommitHash::parse(&"9876543210".repeat(4)).unwrap()),
        },
        status: OperationStatus::Queued,
        created_by: by.id,
        created_by_name: by.name.clone(),
        created_at: at(6),
        started_at: None,
        finished_at: None,
        attempts: 0,
        trace: Some(trace(n)),
    }
}

/// Returns a trace context that a test recognizes by its number.
pub(crate) fn trace(n: u128) -> TraceContext {
    TraceContext::new((n + 1).to_be_bytes(), [7; 8], n.is_multiple_of(2)).expect("ids that are not zero")
}

pub(crate) fn write<T>(store: &dyn Metadata, work: impl FnOnce(&mut dyn Transaction) -> T) -> T {
    let mut tx = store.write(&WriteKeys::any()).expect("a transaction that writes");
    let value = work(&mut *tx);
    tx.commit(Durability::Synced).expect("saved");
    value
}

pub(crate) fn read<T>(store: &dyn Metadata, work: impl FnOnce(&mut dyn Transaction) -> T) -> T {
    let mut tx = store.read().expect("a transaction that reads");
    work(&mut *tx)
}

pub(crate) fn taken<T: std::fmt::Debug>(result: Result<T, MetadataError>) {
    assert!(matches!(result, Err(MetadataError::Taken)), "taken, not {result:?}");
}

/// Adds users `Ann` (1) and `bob` (2), and Ann's database `Ann/Menu` (10).
pub(crate) fn scene(store: &dyn Metadata) -> (User, User, Database) {
    let (ann, bob) = (user(1, "Ann"), user(2, "bob"));
    let menu = database(10, &ann, "Menu");
    write(store, |tx| {
        tx.users().add(&ann).unwrap();
        tx.users().add(&bob).unwrap();
        tx.databases().add(&menu).unwrap();
    });
    (ann, bob, menu)
}
