//! The contract suite of [`Metadata`]. Each check needs an empty, migrated store of its own.
//!
//! A test calls [`run_all`], or the checks in [`ALL`] one by one.

mod activities;
mod hooks;
mod organizations;
mod sessions;
mod stars;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use branchyard_auth::HashedToken;
use uuid::Uuid;

use branchyard_domain::entities::{
    AccountKind, Branch, Database, DatabaseLocator, Email, Event, EventKind, FailureKind, FileType, ImportMode,
    ImportRequest, LastUse, MemberRole, Operation, OperationFailure, OperationKind, OperationStatus, Organization,
    Outcome, Pull, PullAction, PullComment, PullContent, PullEnds, PullHeads, PullHidden, PullState, Release, Role,
    RowProblem, Side, Tag, Token, Upload, UploadPart, User, Visibility, Work,
};
use branchyard_domain::ports::{
    DatabaseFilter, Durability, FetchBacklog, FetchEnd, LeaseTurn, Metadata, MetadataError, OperationBacklog,
    OperationFilter, OperationState, PullFilter, PullStanding, SavedAnswer, Transaction,
};
use branchyard_domain::values::{
    AccountId, CommentId, CommitHash, DatabaseId, DatabaseName, EventId, OperationId, OwnerName, PullNumber, RefName,
    ReleaseId, Timestamp, TokenId, UploadId,
};

pub use activities::activities;
pub use hooks::{deliveries, delivery_leases, delivery_log, hooks};
pub use organizations::{members, organizations};
pub use sessions::{invitations, profiles, sessions};
pub use stars::{rankings, stars};

/// A check of one part of the contract.
pub type MetadataCheck = fn(&dyn Metadata);

/// Every check with its name.
pub const ALL: &[(&str, MetadataCheck)] = &[
    ("accounts", accounts),
    ("organizations", organizations),
    ("members", members),
    ("tokens", tokens),
    ("sessions", sessions),
    ("invitations", invitations),
    ("profiles", profiles),
    ("databases", databases),
    ("database_lists", database_lists),
    ("collaborators", collaborators),
    ("activities", activities),
    ("stars", stars),
    ("rankings", rankings),
    ("refs", refs),
    ("named_commits", named_commits),
    ("pulls", pulls),
    ("pull_content", pull_content),
    ("comments", comments),
    ("releases", releases),
    ("operations", operations),
    ("leases", leases),
    ("lease_turns", lease_turns),
    ("uploads", uploads),
    ("answers", answers),
    ("events", events),
    ("hooks", hooks),
    ("deliveries", deliveries),
    ("delivery_log", delivery_log),
    ("delivery_leases", delivery_leases),
    ("transactions", transactions),
    ("concurrency", concurrency),
    ("versions", versions),
];

/// Runs every check, each on a new store from `make`.
pub fn run_all(make: &dyn Fn() -> Box<dyn Metadata>) {
    for (_, check) in ALL {
        check(make().as_ref());
    }
}

pub(super) fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

pub(super) fn account_id(n: u128) -> AccountId {
    AccountId::from_uuid(id(n))
}

fn database_id(n: u128) -> DatabaseId {
    DatabaseId::from_uuid(id(n))
}

pub(super) fn operation_id(n: u128) -> OperationId {
    OperationId::from_uuid(id(n))
}

pub(super) fn owner(text: &str) -> OwnerName {
    OwnerName::parse(text).unwrap()
}

pub(super) fn reference(text: &str) -> RefName {
    RefName::parse(text).unwrap()
}

pub(super) fn hash(n: u64) -> CommitHash {
    CommitHash::parse(&format!("{n:040x}")).unwrap()
}

pub(super) fn at(seconds: i64) -> Timestamp {
    // Not a whole number of milliseconds, because stores keep microseconds.
    Timestamp::from_micros(1_700_000_000_123_457).plus_seconds(seconds)
}

pub(super) fn user(n: u128, name: &str) -> User {
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
        created_at: at(0),
    }
}

pub(super) fn organization(n: u128, name: &str) -> Organization {
    Organization {
        id: account_id(n),
        name: owner(name),
        display_name: None,
        description: Some("we".to_owned()),
        base_role: Role::Read,
        created_at: at(1),
    }
}

fn database(n: u128, of: &User, name: &str) -> Database {
    Database {
        id: database_id(n),
        owner_id: of.id,
        locator: DatabaseLocator { owner: of.name.clone(), name: DatabaseName::parse(name).unwrap() },
        description: None,
        visibility: Visibility::Public,
        default_branch: reference("main"),
        parent_id: None,
        network_id: database_id(n),
        created_at: at(2),
        last_write_at: None,
        size_bytes: 4096,
        star_count: 0,
        version: 1,
        deleted_at: None,
    }
}

fn branch(name: &str, head: u64) -> Branch {
    Branch { name: reference(name), head: hash(head), updated_at: at(3) }
}

fn tag(name: &str, commit: u64) -> Tag {
    Tag { name: reference(name), commit: hash(commit), message: Some("m".to_owned()), tagged_at: at(4) }
}

fn pull(n: i64, base: &Database, source: &Database, from: &str, creator: &User) -> Pull {
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

fn operation(n: u128, on: &Database, by: &User) -> Operation {
    Operation {
        id: operation_id(n),
        database_id: on.id,
        locator: on.locator.clone(),
        work: Work::SqlWrite {
            from_branch: reference("main"),
            to_branch: reference("work"),
            statements: "INSERT INTO t VALUES ('a\u{0}b', \"ü\")".to_owned(),
            message: "m".to_owned(),
        },
        status: OperationStatus::Queued,
        created_by: by.id,
        created_by_name: by.name.clone(),
        created_at: at(6),
        started_at: None,
        finished_at: None,
        attempts: 0,
    }
}

pub(super) fn write<T>(store: &dyn Metadata, work: impl FnOnce(&mut dyn Transaction) -> T) -> T {
    let mut tx = store.write().expect("a transaction that writes");
    let value = work(&mut *tx);
    tx.commit(Durability::Synced).expect("saved");
    value
}

pub(super) fn read<T>(store: &dyn Metadata, work: impl FnOnce(&mut dyn Transaction) -> T) -> T {
    let mut tx = store.read().expect("a transaction that reads");
    work(&mut *tx)
}

fn taken<T: std::fmt::Debug>(result: Result<T, MetadataError>) {
    assert!(matches!(result, Err(MetadataError::Taken)), "taken, not {result:?}");
}

/// Adds users `Ann` (1) and `bob` (2), and Ann's database `Ann/Menu` (10).
fn scene(store: &dyn Metadata) -> (User, User, Database) {
    let (ann, bob) = (user(1, "Ann"), user(2, "bob"));
    let menu = database(10, &ann, "Menu");
    write(store, |tx| {
        tx.users().add(&ann).unwrap();
        tx.users().add(&bob).unwrap();
        tx.databases().add(&menu).unwrap();
    });
    (ann, bob, menu)
}

/// Checks users and organizations, whose names are unique case-insensitively.
pub fn accounts(store: &dyn Metadata) {
    let (ann, bob) = (user(1, "Ann"), user(2, "bob"));
    let acme = organization(3, "Acme");
    write(store, |tx| {
        tx.users().add(&ann).unwrap();
        tx.users().add(&bob).unwrap();
        tx.organizations().add(&acme).unwrap();
        taken(tx.users().add(&user(4, "ANN")));
        taken(tx.organizations().add(&organization(5, "BOB")));
        // The transaction remains usable after a rejected row, and nothing of the row is stored.
        assert_eq!(tx.users().get(account_id(4)).unwrap(), None);
    });
    read(store, |tx| {
        assert_eq!(tx.users().get(ann.id).unwrap().unwrap(), ann);
        assert_eq!(tx.users().get(acme.id).unwrap(), None);
        assert_eq!(tx.organizations().get(acme.id).unwrap().unwrap(), acme);
        assert_eq!(tx.organizations().get(ann.id).unwrap(), None);
        let found = tx.accounts().by_name(&owner("aNN")).unwrap().unwrap();
        assert_eq!((found.id, found.name.as_str(), found.kind), (ann.id, "Ann", AccountKind::User));
        let found = tx.accounts().by_name(&owner("acme")).unwrap().unwrap();
        assert_eq!((found.id, found.kind), (acme.id, AccountKind::Organization));
        assert_eq!(tx.accounts().by_name(&owner("absent")).unwrap(), None);
    });
}

/// Checks look-ups of tokens by hash and by user, and the record of their last use.
pub fn tokens(store: &dyn Metadata) {
    let (ann, bob, _) = scene(store);
    let token = |n: u8, of: &User, expires_at| Token {
        id: TokenId::from_uuid(id(n.into())),
        user_id: of.id,
        name: format!("token {n}"),
        hash: HashedToken::from_bytes([n; 32]),
        created_at: at(0),
        expires_at,
        last_use: None,
    };
    write(store, |tx| {
        for n in 1..=3 {
            tx.tokens().add(&token(n, &ann, at(i64::from(n) * 10))).unwrap();
        }
        tx.tokens().add(&token(4, &bob, at(100))).unwrap();
    });
    let ids = |tokens: Vec<Token>| tokens.into_iter().map(|token| token.id.as_uuid().as_u128()).collect::<Vec<_>>();
    read(store, |tx| {
        let (found, whose) = tx.tokens().by_hash(&HashedToken::from_bytes([2; 32])).unwrap().unwrap();
        assert_eq!((found.id, found.name.as_str(), found.expires_at), (token(2, &ann, at(0)).id, "token 2", at(20)));
        assert_eq!(found.hash, HashedToken::from_bytes([2; 32]));
        assert_eq!(found.last_use, None);
        assert_eq!(whose, ann);
        assert!(tx.tokens().by_hash(&HashedToken::from_bytes([9; 32])).unwrap().is_none());
        let first = tx.tokens().list(ann.id, None, 2).unwrap();
        assert_eq!(ids(first.clone()), [3, 2]);
        assert_eq!(ids(tx.tokens().list(ann.id, Some(first[1].id), 2).unwrap()), [1]);
        assert_eq!(tx.tokens().count_live(ann.id, at(10)).unwrap(), 2, "at its end a token is expired");
    });
    let last_use = LastUse { at: at(5), address: "192.0.2.1".to_owned(), user_agent: "curl".to_owned() };
    write(store, |tx| {
        tx.tokens().touch(TokenId::from_uuid(id(2)), &last_use).unwrap();
        tx.tokens().touch(TokenId::from_uuid(id(99)), &last_use).unwrap();
        assert!(tx.tokens().remove(bob.id, TokenId::from_uuid(id(2))).unwrap().is_none(), "not bob's");
        let removed = tx.tokens().remove(ann.id, TokenId::from_uuid(id(2))).unwrap().unwrap();
        assert_eq!(removed.last_use, Some(last_use));
        assert!(tx.tokens().remove(ann.id, TokenId::from_uuid(id(2))).unwrap().is_none());
    });
    read(store, |tx| {
        assert!(tx.tokens().by_hash(&HashedToken::from_bytes([2; 32])).unwrap().is_none());
    });
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
        assert_eq!(tx.databases().count_forks(None, menu.id).unwrap(), 1);
        assert_eq!(tx.databases().count(ann.id).unwrap(), 1);
        assert_eq!(tx.databases().ids(None, 10).unwrap(), [menu.id, fork.id]);
        assert_eq!(tx.databases().ids(Some(menu.id), 10).unwrap(), [fork.id]);
        tx.databases().record_write(menu.id, at(20), 8192).unwrap();
    });
    let mut changed = menu.clone();
    changed.description = Some("Über all".to_owned());
    changed.visibility = Visibility::Private;
    changed.default_branch = reference("trunk");
    changed.last_write_at = Some(at(21));
    changed.size_bytes = 9000;
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
        assert_eq!(tx.databases().count_forks(None, menu.id).unwrap(), 1);
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
        assert_eq!(tx.databases().count_forks(Some(bob.id), root.id).unwrap(), 3);
        assert_eq!(tx.databases().count_forks(Some(zoe.id), root.id).unwrap(), 2);
        assert_eq!(tx.databases().count_forks(None, root.id).unwrap(), 1, "what is hidden is not counted");
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

/// Checks branches and tags: unique names, compare-and-set, byte order, copies.
pub fn refs(store: &dyn Metadata) {
    let (_, bob, menu) = scene(store);
    let other = database(11, &bob, "other");
    // Byte order: upper case before lower case, `-` before `/`, non-ASCII letters last.
    let names = ["Main", "a", "a-b", "a/b", "a0", "main", "é"];
    let strings = |branches: &[Branch]| branches.iter().map(|branch| branch.name.to_string()).collect::<Vec<_>>();
    write(store, |tx| {
        tx.databases().add(&other).unwrap();
        for name in ["a0", "é", "main", "a/b", "Main", "a", "a-b"] {
            tx.branches().add(menu.id, &branch(name, 1)).unwrap();
            tx.tags().add(menu.id, &tag(name, 2)).unwrap();
        }
        taken(tx.branches().add(menu.id, &branch("main", 9)));
        taken(tx.tags().add(menu.id, &tag("main", 9)));
        assert!(tx.branches().move_head(menu.id, &reference("main"), &hash(1), &hash(5), at(9)).unwrap());
        assert!(!tx.branches().move_head(menu.id, &reference("main"), &hash(1), &hash(6), at(9)).unwrap());
        assert!(!tx.branches().move_head(menu.id, &reference("none"), &hash(1), &hash(6), at(9)).unwrap());
        assert!(!tx.branches().move_head(other.id, &reference("main"), &hash(5), &hash(6), at(9)).unwrap());
    });
    write(store, |tx| {
        let main = Branch { name: reference("main"), head: hash(5), updated_at: at(9) };
        assert_eq!(tx.branches().get(menu.id, &main.name).unwrap().unwrap(), main);
        assert_eq!(tx.branches().get(other.id, &main.name).unwrap(), None);
        assert_eq!(tx.tags().get(menu.id, &reference("é")).unwrap().unwrap(), tag("é", 2));
        assert_eq!(tx.tags().get(menu.id, &reference("none")).unwrap(), None);
        assert_eq!(strings(&tx.branches().list(menu.id, None, 100).unwrap()), names);
        assert_eq!(strings(&tx.branches().list(menu.id, Some("a-b"), 2).unwrap()), names[3..5]);
        let tags = tx.tags().list(menu.id, Some("Main"), 100).unwrap();
        assert_eq!(tags.iter().map(|tag| tag.name.to_string()).collect::<Vec<_>>(), names[1..]);
        tx.refs().copy_all(menu.id, other.id).unwrap();
        assert_eq!(tx.branches().list(other.id, None, 100).unwrap(), tx.branches().list(menu.id, None, 100).unwrap());
        assert_eq!(tx.tags().list(other.id, None, 100).unwrap(), tx.tags().list(menu.id, None, 100).unwrap());
        assert!(!tx.branches().remove(menu.id, &main.name, &hash(1)).unwrap());
        assert!(tx.branches().remove(menu.id, &main.name, &hash(5)).unwrap());
        assert!(!tx.branches().remove(menu.id, &main.name, &hash(5)).unwrap());
        assert!(tx.tags().remove(menu.id, &main.name).unwrap());
        assert!(!tx.tags().remove(menu.id, &main.name).unwrap());
        assert!(tx.branches().get(other.id, &main.name).unwrap().is_some());
    });
}

/// Checks the list of commits that a database refers to.
pub fn named_commits(store: &dyn Metadata) {
    let (ann, bob, menu) = scene(store);
    let other = database(11, &bob, "other");
    write(store, |tx| {
        tx.databases().add(&other).unwrap();
        for (name, head) in [("a", 5), ("b", 3), ("c", 5)] {
            tx.branches().add(menu.id, &branch(name, head)).unwrap();
        }
        tx.branches().add(other.id, &branch("z", 99)).unwrap();
        tx.tags().add(menu.id, &tag("t", 3)).unwrap();
        tx.tags().add(menu.id, &tag("u", 10)).unwrap();
        let mut merged = pull(1, &menu, &menu, "a", &ann);
        tx.pulls().add(&merged).unwrap();
        merged.merge(at(9), bob.name.clone(), hash(5), hash(1), hash(7)).unwrap();
        assert!(tx.pulls().update(&merged).unwrap());
        tx.pulls().add(&pull(2, &menu, &menu, "b", &ann)).unwrap();
        // A pull request refers to its heads once they are fetched, unless it is hidden.
        let showing = |n: i64, from: &str, heads: (u64, u64)| {
            let heads = PullHeads { from: hash(heads.0), to: hash(heads.1) };
            let content = PullContent { heads: Some(heads), ..PullContent::default() };
            Pull { content, ..pull(n, &menu, &other, from, &ann) }
        };
        let mut hidden = showing(5, "f", (40, 41));
        tx.pulls().add(&hidden).unwrap();
        hidden.hide(PullHidden::Withdrawn, at(9)).unwrap();
        assert!(tx.pulls().update(&hidden).unwrap());
        tx.pulls().add(&showing(3, "d", (11, 12))).unwrap();
        let mut unfetched = showing(4, "e", (30, 31));
        unfetched.content.fetch_due_at = Some(at(9));
        tx.pulls().add(&unfetched).unwrap();
    });
    read(store, |tx| {
        let expected: Vec<CommitHash> = [1, 3, 5, 7, 10, 11, 12].into_iter().map(hash).collect();
        assert_eq!(tx.refs().named_commits(menu.id, None, 100).unwrap(), expected);
        assert_eq!(tx.refs().named_commits(menu.id, None, 2).unwrap(), expected[..2]);
        assert_eq!(tx.refs().named_commits(menu.id, Some(&hash(3)), 2).unwrap(), expected[2..4]);
        assert!(tx.refs().named_commits(menu.id, Some(&hash(12)), 2).unwrap().is_empty());
    });
}

/// Checks pull requests: numbers, at most one open per pair of branches, versions, states, lists.
pub fn pulls(store: &dyn Metadata) {
    let (ann, bob, menu) = scene(store);
    let fork = Database { parent_id: Some(menu.id), network_id: menu.id, ..database(11, &bob, "Menu") };
    write(store, |tx| {
        tx.databases().add(&fork).unwrap();
        for n in 1..=4 {
            assert_eq!(tx.pulls().next_number(menu.id).unwrap().get(), n);
        }
        assert_eq!(tx.pulls().next_number(fork.id).unwrap(), PullNumber::FIRST);
        tx.pulls().add(&pull(1, &menu, &menu, "a", &ann)).unwrap();
        taken(tx.pulls().add(&pull(2, &menu, &menu, "a", &bob)));
        tx.pulls().add(&pull(2, &menu, &fork, "a", &bob)).unwrap();
        tx.pulls().add(&pull(3, &menu, &menu, "b", &bob)).unwrap();
        assert_eq!(tx.databases().get(menu.id).unwrap().unwrap().version, 1, "numbers are no change of the database");
    });
    let mut first = pull(1, &menu, &menu, "a", &ann);
    write(store, |tx| {
        assert_eq!(tx.pulls().get(menu.id, first.number).unwrap().unwrap(), first);
        assert_eq!(tx.pulls().get(fork.id, first.number).unwrap(), None);
        let found = tx.pulls().find_open(menu.id, fork.id, &reference("a"), &reference("main")).unwrap().unwrap();
        assert_eq!(found, pull(2, &menu, &fork, "a", &bob));
        assert_eq!(tx.pulls().find_open(menu.id, fork.id, &reference("b"), &reference("main")).unwrap(), None);

        first.close(at(8)).unwrap();
        first.title = "closed".to_owned();
        first.description = None;
        first.updated_at = at(8);
        assert!(tx.pulls().update(&first).unwrap());
        assert!(!tx.pulls().update(&first).unwrap(), "its version is past");
        first.version = 2;
        assert_eq!(tx.pulls().get(menu.id, first.number).unwrap().unwrap(), first);
        // Another pull request may open between the same branches, and then this one cannot be reopened.
        tx.pulls().add(&pull(4, &menu, &menu, "a", &bob)).unwrap();
        first.reopen().unwrap();
        taken(tx.pulls().update(&first));
        let mut fourth = pull(4, &menu, &menu, "a", &bob);
        fourth.merge(at(9), ann.name.clone(), hash(3), hash(1), hash(2)).unwrap();
        assert!(tx.pulls().update(&fourth).unwrap());
        fourth.version = 2;
        assert_eq!(tx.pulls().get(menu.id, fourth.number).unwrap().unwrap(), fourth);
        assert!(tx.pulls().update(&first).unwrap());
        first.version = 3;
        assert_eq!(tx.pulls().get(menu.id, first.number).unwrap().unwrap(), first);
        first.close(at(10)).unwrap();
        assert!(tx.pulls().update(&first).unwrap());
    });
    read(store, |tx| {
        let mut numbers = |filter: PullFilter, before: Option<i64>, limit| {
            let before = before.map(|n| PullNumber::new(n).unwrap());
            let list = tx.pulls().list(menu.id, &filter, before, limit).unwrap();
            list.iter().map(|pull| pull.number.get()).collect::<Vec<_>>()
        };
        let standing = |standing| PullFilter { standing: Some(standing), contains: None };
        let with = |text: &str| PullFilter { standing: None, contains: Some(text.to_owned()) };
        assert_eq!(numbers(PullFilter::default(), None, 10), [4, 3, 2, 1]);
        assert_eq!(numbers(PullFilter::default(), Some(4), 2), [3, 2]);
        assert_eq!(numbers(standing(PullStanding::Open), None, 10), [3, 2]);
        assert_eq!(numbers(standing(PullStanding::Closed), None, 10), [1]);
        assert_eq!(numbers(standing(PullStanding::Merged), None, 10), [4]);
        assert_eq!(numbers(with("CLOSED"), None, 10), [1], "a title that was changed");
        assert_eq!(numbers(with("nobody wrote this"), None, 10), [0_i64; 0]);
        assert_eq!(numbers(with("%"), None, 10), [0_i64; 0], "a sign of the store's own means nothing");
    });
}

/// Checks the content of pull requests: it follows the source, is fetched once, and is listed by source and by base.
pub fn pull_content(store: &dyn Metadata) {
    let (ann, bob, menu) = scene(store);
    let fork = Database { parent_id: Some(menu.id), network_id: menu.id, ..database(11, &bob, "Menu") };
    let number = |n| PullNumber::new(n).unwrap();
    let shown = |tx: &mut dyn Transaction, n| tx.pulls().get(menu.id, number(n)).unwrap().unwrap().content;
    let heads = |from, to| Some(PullHeads { from: hash(from), to: hash(to) });
    write(store, |tx| {
        tx.databases().add(&fork).unwrap();
        tx.branches().add(menu.id, &branch("main", 1)).unwrap();
        tx.branches().add(menu.id, &branch("a", 2)).unwrap();
        tx.branches().add(fork.id, &branch("a", 3)).unwrap();
        let published = PullContent { is_published: true, heads: heads(3, 1), ..PullContent::default() };
        tx.pulls().add(&pull(1, &menu, &menu, "a", &ann)).unwrap();
        tx.pulls().add(&Pull { content: published.clone(), ..pull(2, &menu, &fork, "a", &bob) }).unwrap();
        assert_eq!(shown(tx, 2), published);
        tx.pulls().add(&pull(3, &menu, &fork, "b", &bob)).unwrap();
        let mut closed = pull(4, &menu, &fork, "a", &ann);
        closed.close(at(7)).unwrap();
        tx.pulls().add(&closed).unwrap();
    });
    write(store, |tx| {
        assert_eq!(
            tx.pulls().record_source_move(menu.id, &reference("a"), &hash(5), at(10)).unwrap(),
            0,
            "is there already"
        );
        assert_eq!((shown(tx, 1).heads, shown(tx, 1).fetch_due_at), (heads(5, 1), None));
        assert_eq!(tx.pulls().record_source_move(fork.id, &reference("a"), &hash(6), at(10)).unwrap(), 1);
        assert_eq!(tx.pulls().record_source_move(fork.id, &reference("none"), &hash(6), at(10)).unwrap(), 0);
        assert_eq!((shown(tx, 2).heads, shown(tx, 2).fetch_due_at), (heads(6, 1), Some(at(10))));
        assert!(shown(tx, 2).is_published);
        assert_eq!(shown(tx, 4).heads, None, "a closed pull stays as it is");
        assert_eq!(tx.pulls().get(menu.id, number(2)).unwrap().unwrap().version, 2);
    });
    write(store, |tx| {
        let due = |tx: &mut dyn Transaction, now| {
            let found = tx.pull_fetches().due(at(now), 10, 10).unwrap();
            found.iter().map(|fetch| (fetch.number.get(), fetch.tries)).collect::<Vec<_>>()
        };
        assert_eq!(due(tx, 9), []);
        assert_eq!(due(tx, 10), [(2, 0)]);
        assert!(!tx.pull_fetches().lease(menu.id, number(2), at(9), at(20)).unwrap(), "not due yet");
        assert!(tx.pull_fetches().lease(menu.id, number(2), at(10), at(20)).unwrap());
        assert!(!tx.pull_fetches().lease(menu.id, number(2), at(11), at(20)).unwrap(), "leased");
        assert_eq!(due(tx, 11), []);
        assert_eq!(due(tx, 20), [(2, 0)], "the lease ended");
        assert!(tx.pull_fetches().extend_lease(menu.id, number(2), at(25)).unwrap());
        assert_eq!(due(tx, 24), [], "the lease was prolonged");
        assert!(!tx.pull_fetches().extend_lease(menu.id, number(3), at(25)).unwrap(), "there is no lease to prolong");
        let waiting = FetchBacklog { due: 1, oldest_due_at: Some(at(10)) };
        assert_eq!(tx.pull_fetches().backlog(at(10)).unwrap(), waiting, "leased or not");
        assert_eq!(tx.pull_fetches().backlog(at(9)).unwrap(), FetchBacklog { due: 0, oldest_due_at: None });
        assert!(!tx.pull_fetches().settle(menu.id, number(2), FetchEnd::Failed(at(30))).unwrap());
        assert_eq!(due(tx, 29), []);
        assert_eq!(due(tx, 30), [(2, 1)]);
        // The source moves while its previous head is being fetched.
        assert!(tx.pull_fetches().lease(menu.id, number(2), at(30), at(40)).unwrap());
        assert_eq!(tx.pulls().record_source_move(fork.id, &reference("a"), &hash(7), at(31)).unwrap(), 1);
        assert_eq!(due(tx, 31), [], "one fetch at a time");
        assert!(!tx.pull_fetches().settle(menu.id, number(2), FetchEnd::Fetched(&hash(6))).unwrap());
        assert_eq!(due(tx, 31), [(2, 0)]);
        assert!(tx.pull_fetches().lease(menu.id, number(2), at(31), at(40)).unwrap());
        assert!(tx.pull_fetches().settle(menu.id, number(2), FetchEnd::Fetched(&hash(7))).unwrap());
        assert_eq!((due(tx, 99), shown(tx, 2).heads), (vec![], heads(7, 1)));
        assert!(!tx.pull_fetches().lease(menu.id, number(2), at(99), at(100)).unwrap());
        // The number of returned fetches is limited per author.
        tx.pulls().add(&pull(5, &menu, &fork, "c", &bob)).unwrap();
        tx.pulls().add(&pull(6, &menu, &fork, "d", &ann)).unwrap();
        for (name, now) in [("b", 50), ("c", 51), ("d", 52)] {
            tx.pulls().record_source_move(fork.id, &reference(name), &hash(8), at(now)).unwrap();
        }
        assert_eq!(due(tx, 60), [(3, 0), (5, 0), (6, 0)]);
        let shares = tx.pull_fetches().due(at(60), 1, 10).unwrap();
        assert_eq!(shares.iter().map(|fetch| fetch.number.get()).collect::<Vec<_>>(), [3, 6]);
        assert_eq!(tx.pull_fetches().due(at(60), 1, 1).unwrap().len(), 1);
        assert!(!tx.pull_fetches().settle(menu.id, number(3), FetchEnd::Dropped).unwrap());
        assert_eq!(due(tx, 60), [(5, 0), (6, 0)]);
        // After a restart, no fetch is leased, and pull requests show source heads that moved unnoticed.
        assert!(tx.pull_fetches().lease(menu.id, number(5), at(60), at(999)).unwrap());
        assert!(tx.branches().move_head(fork.id, &reference("a"), &hash(3), &hash(9), at(61)).unwrap());
        // A pull request of an earlier release, which stored no heads and asked for no consent.
        let secret = Database { visibility: Visibility::Private, network_id: menu.id, ..database(12, &bob, "secret") };
        tx.databases().add(&secret).unwrap();
        tx.branches().add(secret.id, &branch("main", 20)).unwrap();
        tx.pulls().add(&pull(7, &menu, &secret, "main", &bob)).unwrap();
        assert_eq!(tx.pull_fetches().recover(at(62)).unwrap(), 3);
        let closed = tx.pulls().get(menu.id, number(7)).unwrap().unwrap();
        assert_eq!((closed.state, closed.updated_at), (PullState::Closed { at: at(62) }, at(62)));
        assert_eq!((closed.content.hidden, closed.content.heads), (Some(PullHidden::WithSource), None));
        assert_eq!(due(tx, 62), [(5, 0), (6, 0), (2, 0)]);
        assert_eq!(shown(tx, 2).heads, heads(9, 1));
    });
    write(store, |tx| {
        let numbers = |found: Vec<Pull>| found.iter().map(|pull| pull.number.get()).collect::<Vec<_>>();
        assert_eq!(numbers(tx.pulls().list_unmerged_from(fork.id, None, 10).unwrap()), [2, 3, 4, 5, 6]);
        assert_eq!(numbers(tx.pulls().list_unmerged_from(fork.id, Some((menu.id, number(3))), 2).unwrap()), [4, 5]);
        assert_eq!(
            numbers(tx.pulls().list_unmerged_from(menu.id, None, 10).unwrap()),
            [0_i64; 0],
            "within the database"
        );
        assert_eq!(numbers(tx.pulls().list_unmerged_to(menu.id, Some(number(2)), 2).unwrap()), [3, 4]);
        let mut hidden = tx.pulls().get(menu.id, number(2)).unwrap().unwrap();
        hidden.hide(PullHidden::WithSource, at(70)).unwrap();
        assert!(tx.pulls().update(&hidden).unwrap());
        hidden.version += 1;
        assert_eq!(tx.pulls().get(menu.id, number(2)).unwrap().unwrap(), hidden);
        assert_eq!(numbers(tx.pulls().list_unmerged_to(menu.id, None, 10).unwrap()), [3, 4, 5, 6]);
        let mut merged = tx.pulls().get(menu.id, number(5)).unwrap().unwrap();
        merged.merge(at(71), ann.name.clone(), hash(1), hash(2), hash(3)).unwrap();
        assert!(tx.pulls().update(&merged).unwrap());
        assert_eq!(numbers(tx.pulls().list_unmerged_from(fork.id, None, 10).unwrap()), [3, 4, 6]);
        assert_eq!(
            tx.pull_fetches().due(at(99), 10, 10).unwrap().len(),
            1,
            "what is merged or hidden waits for nothing"
        );
    });
}

/// Checks comments on pull requests.
pub fn comments(store: &dyn Metadata) {
    let (ann, bob, menu) = scene(store);
    let comment = |n: u128, by: &User, when| PullComment {
        id: CommentId::from_uuid(id(n)),
        author: by.name.clone(),
        body: format!("comment {n}"),
        created_at: when,
        updated_at: when,
    };
    let first = pull(1, &menu, &menu, "a", &ann);
    let expected = [comment(3, &bob, at(1)), comment(1, &ann, at(2)), comment(2, &bob, at(2))];
    write(store, |tx| {
        tx.pulls().add(&first).unwrap();
        tx.pulls().add(&pull(2, &menu, &menu, "b", &ann)).unwrap();
        for (n, by, when) in [(1, &ann, at(2)), (2, &bob, at(2)), (3, &bob, at(1))] {
            tx.pull_comments().add(menu.id, first.number, by.id, &comment(n, by, when)).unwrap();
        }
    });
    read(store, |tx| {
        assert_eq!(tx.pull_comments().list(menu.id, first.number, None, 10).unwrap(), expected);
        assert_eq!(tx.pull_comments().list(menu.id, first.number, None, 2).unwrap(), expected[..2]);
        let after = Some((expected[1].created_at, expected[1].id));
        assert_eq!(tx.pull_comments().list(menu.id, first.number, after, 10).unwrap(), expected[2..]);
        assert!(tx.pull_comments().list(menu.id, PullNumber::new(2).unwrap(), None, 10).unwrap().is_empty());
    });
}

/// Checks releases.
pub fn releases(store: &dyn Metadata) {
    let (_, _, menu) = scene(store);
    let release = |n: u64, tag: &str, when| Release {
        id: ReleaseId::from_uuid(id(n.into())),
        tag: reference(tag),
        title: format!("release {n}"),
        commit: hash(n),
        description: (n == 1).then(|| "notes".to_owned()),
        created_at: when,
        updated_at: when,
    };
    let expected = [release(3, "c", at(2)), release(1, "a", at(1)), release(2, "b", at(1))];
    write(store, |tx| {
        for name in ["a", "b", "c"] {
            tx.tags().add(menu.id, &tag(name, 1)).unwrap();
        }
        for release in &expected {
            tx.releases().add(menu.id, release).unwrap();
        }
        taken(tx.releases().add(menu.id, &release(4, "a", at(5))));
        assert_eq!(tx.releases().get(menu.id, &reference("a")).unwrap().unwrap(), expected[1]);
        assert_eq!(tx.releases().get(menu.id, &reference("d")).unwrap(), None);
        assert_eq!(tx.releases().list(menu.id, None, 10).unwrap(), expected);
        assert_eq!(tx.releases().list(menu.id, Some((at(2), "c")), 1).unwrap(), expected[1..2]);
        assert_eq!(tx.releases().list(menu.id, Some((at(1), "a")), 10).unwrap(), expected[2..]);
        let mut edited =
            Release { title: "ünï".to_owned(), description: None, updated_at: at(9), ..expected[1].clone() };
        assert!(tx.releases().update(menu.id, &edited).unwrap());
        assert_eq!(tx.releases().get(menu.id, &edited.tag).unwrap().unwrap(), edited);
        assert_eq!(tx.releases().list(menu.id, None, 10).unwrap()[1], edited, "it keeps its place");
        edited.tag = reference("d");
        assert!(!tx.releases().update(menu.id, &edited).unwrap());
        assert!(tx.releases().remove(menu.id, &reference("a")).unwrap());
        assert!(!tx.releases().remove(menu.id, &reference("a")).unwrap());
    });
}

fn kinds(on: &Database, by: &User) -> Vec<Operation> {
    let mut list: Vec<Operation> = (1..=4).map(|n| operation(n, on, by)).collect();
    list[1].work = Work::Merge {
        ends: PullEnds { from: on.locator.clone(), from_branch: reference("a"), to_branch: reference("main") },
        pull: PullNumber::new(7).unwrap(),
        message: "ü".to_owned(),
        resolve: BTreeMap::from([("t".to_owned(), Side::Ours), ("u".to_owned(), Side::Theirs)]),
    };
    list[2].work = Work::Fork { owner_id: account_id(2), owner: owner("bob"), fork_id: database_id(77) };
    list[3].work = Work::Import(ImportRequest {
        upload_id: UploadId::from_uuid(id(5)),
        branch: reference("main"),
        table: "t".to_owned(),
        file_name: "t.csv".to_owned(),
        file_type: FileType::Parquet,
        mode: ImportMode::Replace,
        primary_keys: vec!["a".to_owned(), "b".to_owned()],
        message: String::new(),
        pull_branch: Some(reference("imports/1")),
        column_map: BTreeMap::from([("A".to_owned(), "a".to_owned())]),
    });
    list
}

/// Checks operations: all fields, lists, single settlement, purging.
pub fn operations(store: &dyn Metadata) {
    let (ann, bob, menu) = scene(store);
    let list = kinds(&menu, &ann);
    let ids = |operations: Vec<Operation>| operations.iter().map(|o| o.id.as_uuid().as_u128()).collect::<Vec<_>>();
    write(store, |tx| {
        for operation in &list {
            tx.operations().add(operation).unwrap();
        }
        assert_eq!(tx.operations().pending(menu.id).unwrap(), list);
        assert_eq!(tx.operations().get(operation_id(3)).unwrap().unwrap(), list[2]);
        assert_eq!(tx.operations().get(operation_id(9)).unwrap(), None);
        assert_eq!(tx.operations().count_queued(menu.id).unwrap(), 4);
        assert!(tx.operations().is_forking_to(bob.id, &DatabaseName::parse("mENU").unwrap()).unwrap());
        assert!(!tx.operations().is_forking_to(ann.id, &menu.locator.name).unwrap());
        assert!(!tx.operations().is_forking_to(bob.id, &DatabaseName::parse("other").unwrap()).unwrap());
        let mut listed = |state, kinds, before: Option<u128>, limit| {
            let filter = OperationFilter { state, kinds };
            let found = ids(tx.operations().list(menu.id, filter, before.map(operation_id), limit).unwrap());
            let by_ann = tx.operations().list_by(ann.id, filter, before.map(operation_id), limit).unwrap();
            assert_eq!(ids(by_ann), found, "they are all of one database and one user");
            assert!(tx.operations().list_by(bob.id, filter, None, limit).unwrap().is_empty());
            found
        };
        assert_eq!(listed(None, None, None, 10), [4, 3, 2, 1]);
        assert_eq!(listed(None, None, Some(4), 2), [3, 2]);
        assert_eq!(listed(None, Some(&[OperationKind::Merge]), None, 10), [2]);
        assert_eq!(listed(None, Some(&[OperationKind::Merge, OperationKind::Import]), None, 10), [4, 2]);
        assert!(listed(None, Some(&[]), None, 10).is_empty(), "no kind, no operation");
        assert_eq!(listed(Some(OperationState::Queued), Some(&[OperationKind::Import]), None, 10), [4]);
        assert!(listed(Some(OperationState::Failed), None, None, 10).is_empty());
    });
    write(store, |tx| {
        // A queued operation is settled without a holder, and only once.
        let mut canceled = list[2].clone();
        canceled.status = OperationStatus::Failed(OperationFailure {
            rows: vec![RowProblem {
                line: u64::from(u32::MAX) + 1,
                column: Some("ä".to_owned()),
                detail: "d".to_owned(),
            }],
            ..OperationFailure::new(FailureKind::Canceled, "canceled")
        });
        canceled.finished_at = Some(at(30));
        assert!(!tx.operations().settle(&canceled, Some("w1")).unwrap(), "the operation is not leased");
        assert!(tx.operations().settle(&canceled, None).unwrap());
        assert!(!tx.operations().settle(&canceled, None).unwrap());
        assert_eq!(tx.operations().get(canceled.id).unwrap().unwrap(), canceled);
        assert!(!tx.operations().is_forking_to(bob.id, &menu.locator.name).unwrap());

        let mut done = tx.operations().lease("w1", at(31), at(61), LeaseTurn::default()).unwrap().unwrap();
        done.status = OperationStatus::Succeeded(Outcome {
            commit: Some(hash(1)),
            previous: Some(hash(2)),
            rows_affected: Some(u64::from(u32::MAX) + 1),
            pull: Some(PullNumber::FIRST),
            database: Some((database_id(77), menu.locator.clone())),
        });
        done.finished_at = Some(at(32));
        assert!(!tx.operations().settle(&done, None).unwrap(), "it runs");
        assert!(!tx.operations().settle(&done, Some("w2")).unwrap(), "another holds it");
        assert!(tx.operations().settle(&done, Some("w1")).unwrap());
        assert!(!tx.operations().settle(&done, Some("w1")).unwrap());
        assert_eq!(tx.operations().get(done.id).unwrap().unwrap(), done);
        assert_eq!((done.id, done.started_at, done.attempts), (operation_id(1), Some(at(31)), 1));
        assert_eq!(tx.operations().count_queued(menu.id).unwrap(), 2);
        assert_eq!(ids(tx.operations().pending(menu.id).unwrap()), [2, 4]);
    });
    write(store, |tx| {
        assert_eq!(tx.operations().purge(at(30)).unwrap(), 0);
        assert_eq!(tx.operations().purge(at(31)).unwrap(), 1);
        assert_eq!(tx.operations().get(operation_id(3)).unwrap(), None);
        assert_eq!(tx.operations().purge(at(100)).unwrap(), 1, "the unsettled stay");
    });
}

/// Checks leases: one per database, oldest first, and independent of other databases.
pub fn leases(store: &dyn Metadata) {
    let (ann, bob, menu) = scene(store);
    let other = database(11, &bob, "other");
    write(store, |tx| {
        tx.databases().add(&other).unwrap();
        assert_eq!(tx.operations().lease("w", at(0), at(10), LeaseTurn::default()).unwrap(), None);
        for n in [1, 2, 3] {
            tx.operations().add(&operation(n, &menu, &ann)).unwrap();
        }
        tx.operations().add(&operation(4, &other, &bob)).unwrap();
        tx.operations().add(&operation(5, &other, &bob)).unwrap();
    });
    let lease = |holder: &str, now: i64| {
        let leased =
            write(store, |tx| tx.operations().lease(holder, at(now), at(now + 10), LeaseTurn::default()).unwrap());
        leased.map(|operation| operation.id.as_uuid().as_u128())
    };
    assert_eq!(lease("w1", 0), Some(1));
    assert_eq!(lease("w2", 1), Some(4), "the other database is not held up");
    assert_eq!(lease("w3", 2), None, "one at a time in a database");
    write(store, |tx| {
        assert!(tx.operations().extend_lease(operation_id(1), "w1", at(20)).unwrap());
        assert!(!tx.operations().extend_lease(operation_id(1), "w2", at(20)).unwrap());
        assert!(!tx.operations().extend_lease(operation_id(2), "w1", at(20)).unwrap());
    });
    assert_eq!(lease("other/3", 11), Some(4), "its lease ended at 11; it goes before what is queued there");
    assert_eq!(lease("w3", 12), None, "the lease of 1 was prolonged");
    let first = read(store, |tx| tx.operations().get(operation_id(4)).unwrap().unwrap());
    assert_eq!((first.attempts, first.started_at, first.status), (2, Some(at(1)), OperationStatus::Running));
    write(store, |tx| {
        assert!(!tx.operations().extend_lease(operation_id(4), "w2", at(99)).unwrap(), "it lost the lease");
        // A released operation keeps its position in the queue.
        tx.operations().release("w9", true).unwrap();
        tx.operations().release("w1", true).unwrap();
        let first = tx.operations().get(operation_id(1)).unwrap().unwrap();
        assert_eq!((first.attempts, first.status), (1, OperationStatus::Queued));
        assert_eq!(tx.operations().get(operation_id(4)).unwrap().unwrap().status, OperationStatus::Running);
        assert_eq!(tx.operations().count_queued(menu.id).unwrap(), 3);
    });
    assert_eq!(lease("w4", 13), Some(1));
    // A release that does not count the attempt undoes it.
    write(store, |tx| tx.operations().release("w4", false).unwrap());
    let first = read(store, |tx| tx.operations().get(operation_id(1)).unwrap().unwrap());
    assert_eq!((first.attempts, first.status), (1, OperationStatus::Queued));
    assert_eq!(lease("w4", 13), Some(1));
    write(store, |tx| {
        let mut settled = tx.operations().get(operation_id(1)).unwrap().unwrap();
        settled.status = OperationStatus::Failed(OperationFailure::new(FailureKind::Internal, "x"));
        settled.finished_at = Some(at(14));
        assert!(tx.operations().settle(&settled, Some("w4")).unwrap());
    });
    assert_eq!(lease("node/4", 14), Some(2));
    assert_eq!(lease("w5", 15), None);
    assert_eq!(read(store, |tx| tx.operations().backlog().unwrap()), OperationBacklog { queued: 2, running: 2 });
    // A restart ends the leases of the node's own workers only.
    assert_eq!(write(store, |tx| tx.operations().recover("n").unwrap()), 0, "not of a node whose name begins so");
    assert_eq!(write(store, |tx| tx.operations().recover("node").unwrap()), 1);
    assert!(!write(store, |tx| tx.operations().extend_lease(operation_id(2), "node/4", at(99)).unwrap()), "ended");
    assert_eq!(lease("w6", 15), Some(2));
    assert_eq!(lease("w6", 15), None, "the other node still runs 4");
    assert_eq!(write(store, |tx| tx.operations().recover("other").unwrap()), 1);
    assert_eq!(lease("w6", 15), Some(4));
    assert_eq!(lease("w6", 15), None);
    // A running operation goes before queued ones, even those with smaller ids.
    write(store, |tx| tx.operations().add(&operation(0, &menu, &ann)).unwrap());
    assert_eq!(lease("w6", 30), Some(2));
}

/// Checks the rotation of leases: creators take turns, each with its oldest candidate, and excluded creators are
/// skipped.
pub fn lease_turns(store: &dyn Metadata) {
    let (ann, bob, menu) = scene(store);
    let cyd = user(3, "cyd");
    let others: Vec<Database> = (0..4).map(|n| database(20 + n, &bob, &format!("other{n}"))).collect();
    write(store, |tx| {
        tx.users().add(&cyd).unwrap();
        for other in &others {
            tx.databases().add(other).unwrap();
        }
        // Ann has the oldest operation in three databases. In the first of them, Bob's operation waits for hers.
        for (n, on, by) in [
            (1, &menu, &ann),
            (2, &menu, &bob),
            (3, &others[0], &ann),
            (4, &others[1], &ann),
            (5, &others[1], &bob),
            (6, &others[2], &bob),
            (7, &others[2], &cyd),
            (8, &others[3], &cyd),
        ] {
            tx.operations().add(&operation(n, on, by)).unwrap();
        }
    });
    // Returns the operation that would be leased, and rolls back.
    let next = |after: Option<u128>, without: &[u128]| {
        let without: Vec<_> = without.iter().copied().map(account_id).collect();
        let turn = LeaseTurn { after: after.map(account_id), without: &without };
        let mut tx = store.write().unwrap();
        let leased = tx.operations().lease("w", at(0), at(10), turn).unwrap();
        leased.map(|operation| operation.id.as_uuid().as_u128())
    };
    assert_eq!(next(None, &[]), Some(1));
    assert_eq!(next(Some(1), &[]), Some(6), "Bob's oldest that no other one is before");
    assert_eq!(next(Some(2), &[]), Some(8));
    assert_eq!(next(Some(3), &[]), Some(1), "and round again");
    assert_eq!(next(Some(9), &[]), Some(1));
    assert_eq!(next(Some(1), &[2]), Some(8));
    assert_eq!(next(Some(1), &[3, 2]), Some(1), "the one whose turn was last is not passed over");
    assert_eq!(next(Some(1), &[2, 1]), Some(8));
    assert_eq!(next(Some(3), &[1]), Some(6));
    assert_eq!(next(Some(2), &[1, 3]), Some(6));
    assert_eq!(next(None, &[3, 1, 2]), None);
    let lease = |after: Option<u128>| {
        let turn = LeaseTurn { after: after.map(account_id), without: &[] };
        let leased = write(store, |tx| tx.operations().lease("w", at(0), at(10), turn).unwrap());
        leased.map(|operation| operation.id.as_uuid().as_u128())
    };
    assert_eq!([lease(None), lease(Some(1)), lease(Some(2))], [Some(1), Some(6), Some(8)]);
    assert_eq!(
        [lease(Some(3)), lease(Some(1)), lease(Some(1))],
        [Some(3), Some(4), None],
        "one at a time in a database"
    );
}

/// Checks upload sessions and their parts.
pub fn uploads(store: &dyn Metadata) {
    let (ann, _, menu) = scene(store);
    let upload = |n: u128, expires_at| Upload {
        id: UploadId::from_uuid(id(n)),
        database_id: menu.id,
        user_id: ann.id,
        secret_hash: [7; 32],
        content_length: 5_000_000_000,
        num_parts: 3,
        file_type: FileType::Csv,
        created_at: at(0),
        expires_at,
        used_by: None,
        parts: Vec::new(),
    };
    let upload_id = |n| UploadId::from_uuid(id(n));
    let part = |number, size| UploadPart { number, size, md5: [9; 16] };
    write(store, |tx| {
        for n in 1..=4 {
            tx.uploads().add(&upload(n, at(10))).unwrap();
        }
        for part in [part(2, 5), part(1, 5_000_000_000), part(2, 6)] {
            tx.uploads().put_part(upload_id(1), &part).unwrap();
        }
        let found = tx.uploads().get(upload_id(1)).unwrap().unwrap();
        assert_eq!(found.parts, [part(1, 5_000_000_000), part(2, 6)]);
        assert_eq!((found.database_id, found.user_id, found.secret_hash), (menu.id, ann.id, [7; 32]));
        assert_eq!((found.content_length, found.num_parts, found.file_type), (5_000_000_000, 3, FileType::Csv));
        assert_eq!((found.created_at, found.expires_at, found.used_by), (at(0), at(10), None));
        assert!(tx.uploads().get(upload_id(9)).unwrap().is_none());
        assert_eq!(tx.uploads().count_open(ann.id, at(9)).unwrap(), 4);
        assert_eq!(tx.uploads().count_open(ann.id, at(10)).unwrap(), 0, "at its end a session is expired");
        assert!(tx.uploads().abandoned(at(9), 10).unwrap().is_empty());

        tx.operations().add(&operation(1, &menu, &ann)).unwrap();
        tx.operations().add(&operation(2, &menu, &ann)).unwrap();
        assert!(tx.uploads().bind(upload_id(1), operation_id(1)).unwrap());
        assert!(!tx.uploads().bind(upload_id(1), operation_id(2)).unwrap());
        assert!(tx.uploads().bind(upload_id(2), operation_id(2)).unwrap());
        assert!(tx.uploads().bind(upload_id(3), operation_id(99)).unwrap(), "an operation that is gone by now");
        assert_eq!(tx.uploads().get(upload_id(1)).unwrap().unwrap().used_by, Some(operation_id(1)));
        assert_eq!(tx.uploads().count_open(ann.id, at(9)).unwrap(), 1);
        let mut settled = operation(2, &menu, &ann);
        settled.status = OperationStatus::Failed(OperationFailure::new(FailureKind::Content, "x"));
        settled.finished_at = Some(at(5));
        assert!(tx.operations().settle(&settled, None).unwrap());
        let mut abandoned = tx.uploads().abandoned(at(9), 10).unwrap();
        abandoned.sort();
        assert_eq!(abandoned, [upload_id(2), upload_id(3)]);
        let mut abandoned = tx.uploads().abandoned(at(10), 10).unwrap();
        abandoned.sort();
        assert_eq!(abandoned, [upload_id(2), upload_id(3), upload_id(4)], "the used one waits for its import");
        assert_eq!(tx.uploads().abandoned(at(10), 1).unwrap().len(), 1);
        tx.uploads().remove(upload_id(1)).unwrap();
        tx.uploads().remove(upload_id(1)).unwrap();
        assert!(tx.uploads().get(upload_id(1)).unwrap().is_none());
    });
}

/// Checks saved answers of idempotency keys.
pub fn answers(store: &dyn Metadata) {
    let (ann, bob, _) = scene(store);
    let answer = |caller, scope: &str, key: &str, when| SavedAnswer {
        caller,
        scope: scope.to_owned(),
        key: key.to_owned(),
        request_hash: [3; 32],
        answer: vec![0, 255, 1],
        created_at: when,
    };
    write(store, |tx| {
        tx.idempotency().add(&answer(ann.id, "POST /a", "k", at(1))).unwrap();
        taken(tx.idempotency().add(&answer(ann.id, "POST /a", "k", at(2))));
        tx.idempotency().add(&answer(bob.id, "POST /a", "k", at(2))).unwrap();
        tx.idempotency().add(&answer(ann.id, "POST /b", "k", at(3))).unwrap();
        tx.idempotency().add(&answer(ann.id, "POST /a", "K", at(4))).unwrap();
    });
    write(store, |tx| {
        let found = tx.idempotency().get(ann.id, "POST /a", "k", at(1)).unwrap().unwrap();
        assert_eq!(found, answer(ann.id, "POST /a", "k", at(1)));
        assert_eq!(tx.idempotency().get(ann.id, "POST /a", "k", at(2)).unwrap(), None, "too old");
        assert_eq!(tx.idempotency().get(ann.id, "POST /c", "k", at(0)).unwrap(), None);
        assert_eq!(tx.idempotency().purge(at(3)).unwrap(), 2);
        assert_eq!(tx.idempotency().purge(at(3)).unwrap(), 0);
        assert!(tx.idempotency().get(ann.id, "POST /b", "k", at(0)).unwrap().is_some());
        tx.idempotency().add(&answer(ann.id, "POST /a", "k", at(9))).unwrap();
    });
}

/// Checks that the outbox keeps the order in which events were appended.
pub fn events(store: &dyn Metadata) {
    let (ann, bob, menu) = scene(store);
    let other = database(11, &bob, "other");
    let event = |n: u128, on: &Database, kind| Event {
        id: EventId::from_uuid(id(n)),
        database_id: on.id,
        at: at(i64::try_from(n).unwrap()),
        kind,
        body: format!("{{\"ü\":{n}}}"),
    };
    let list = [
        event(1, &menu, EventKind::BranchCreated { branch: reference("a") }),
        event(2, &menu, EventKind::Push { branch: reference("a"), head: hash(2), previous: hash(1) }),
        event(
            4,
            &menu,
            EventKind::Pull {
                number: PullNumber::FIRST,
                action: PullAction::Reopened,
                from: menu.locator.clone(),
                from_branch: reference("a"),
                to_branch: reference("main"),
                author: ann.name.clone(),
                sender: bob.name.clone(),
            },
        ),
        event(5, &menu, EventKind::BranchDeleted { branch: reference("a") }),
    ];
    write(store, |tx| {
        tx.databases().add(&other).unwrap();
        tx.events().add(&list[0]).unwrap();
        tx.events().add(&list[1]).unwrap();
        tx.events().add(&event(3, &other, EventKind::BranchCreated { branch: reference("b") })).unwrap();
        tx.events().add(&list[2]).unwrap();
        tx.events().add(&list[3]).unwrap();
    });
    write(store, |tx| {
        assert_eq!(tx.events().list(menu.id, None, 10).unwrap(), list);
        assert_eq!(tx.events().list(menu.id, None, 2).unwrap(), list[..2]);
        assert_eq!(tx.events().list(menu.id, Some(list[1].id), 10).unwrap(), list[2..]);
        let waiting: Vec<u128> =
            tx.events().list_waiting(4).unwrap().iter().map(|e| e.id.as_uuid().as_u128()).collect();
        assert_eq!(waiting, [1, 2, 3, 4], "of all databases, in order");
        tx.events().mark_dispatched(list[0].id, at(9)).unwrap();
        tx.events().mark_dispatched(list[1].id, at(9)).unwrap();
        assert_eq!(
            tx.events().list(menu.id, None, 10).unwrap(),
            list[2..],
            "a dispatched event without deliveries is removed"
        );
        assert_eq!(tx.events().list(menu.id, Some(list[1].id), 10).unwrap(), list[2..], "also after one that is gone");
        assert_eq!(tx.events().list(other.id, None, 10).unwrap().len(), 1);
        assert_eq!(tx.events().list_waiting(1).unwrap()[0].body, "{\"ü\":3}");
    });
}

/// Checks that transactions are atomic and isolated.
pub fn transactions(store: &dyn Metadata) {
    let (_, _, menu) = scene(store);
    let name = reference("main");
    {
        let mut tx = store.write().unwrap();
        tx.branches().add(menu.id, &branch("main", 1)).unwrap();
        assert!(tx.branches().get(menu.id, &name).unwrap().is_some(), "a transaction sees what it did");
    }
    assert_eq!(read(store, |tx| tx.branches().get(menu.id, &name).unwrap()), None, "dropped is undone");
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut tx = store.write().unwrap();
        tx.branches().add(menu.id, &branch("main", 1)).unwrap();
        std::panic::resume_unwind(Box::new("on purpose"));
    }));
    assert!(panicked.is_err());
    assert_eq!(read(store, |tx| tx.branches().get(menu.id, &name).unwrap()), None, "so is a panic");
    write(store, |tx| tx.branches().add(menu.id, &branch("main", 1)).unwrap());
    assert!(read(store, |tx| tx.branches().get(menu.id, &name).unwrap()).is_some(), "and the store goes on");
    store.read().unwrap().commit(Durability::Synced).unwrap();
}

/// Checks that every change produces a new version. A store without versions always returns `None`.
pub fn versions(store: &dyn Metadata) {
    let (_, _, menu) = scene(store);
    let Some(first) = store.version() else {
        write(store, |tx| tx.branches().add(menu.id, &branch("main", 1)).unwrap());
        assert_eq!(store.version(), None);
        return;
    };
    read(store, |tx| tx.branches().get(menu.id, &reference("main")).unwrap());
    assert_eq!(store.version(), Some(first), "reading changes nothing");
    let mut seen = BTreeSet::from([first]);
    for number in 0..20 {
        write(store, |tx| tx.branches().add(menu.id, &branch(&format!("b{number}"), 1)).unwrap());
        let version = store.version().unwrap();
        assert!(seen.insert(version), "each change has a version of its own");
        assert_eq!(store.version(), Some(version));
    }
}

/// Checks that concurrent write transactions succeed and do not interfere.
pub fn concurrency(store: &dyn Metadata) {
    const THREADS: i64 = 8;
    const EACH: i64 = 25;
    let (_, _, menu) = scene(store);
    let name = reference("main");
    write(store, |tx| tx.branches().add(menu.id, &branch("main", 0)).unwrap());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..EACH {
                    write(store, |tx| {
                        // The read and the write of one transaction must not interleave with those of another.
                        let found = tx.branches().get(menu.id, &name).unwrap().unwrap();
                        let n = u64::from_str_radix(found.head.as_str(), 16).unwrap();
                        assert!(tx.branches().move_head(menu.id, &name, &hash(n), &hash(n + 1), at(1)).unwrap());
                        assert_eq!(tx.pulls().next_number(menu.id).unwrap().get(), i64::try_from(n).unwrap() + 1);
                    });
                    read(store, |tx| {
                        let before = tx.branches().get(menu.id, &name).unwrap().unwrap();
                        std::thread::yield_now();
                        assert_eq!(tx.branches().get(menu.id, &name).unwrap().unwrap(), before, "one state");
                    });
                }
            });
        }
    });
    let head = read(store, |tx| tx.branches().get(menu.id, &name).unwrap().unwrap().head);
    assert_eq!(head, hash(u64::try_from(THREADS * EACH).unwrap()));
}
