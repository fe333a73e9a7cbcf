//! Suspended users, revoked credentials and quarantined databases.

use branchyard_auth::{PasswordHash, PlainPassword, TokenExpiry};
use branchyard_domain::access::{Admin, Caller, Participate, Query, Read, ServerAdmin, Write};
use branchyard_domain::entities::{FailureKind, FileType, HookEvent, OperationStatus, User, Visibility};
use branchyard_domain::errors::{AccessError, AdministrationError, ImportError, NotShown, PullError, SignInError};
use branchyard_domain::ports::{CancellationToken, DatabaseFilter, OperationFilter, UserFilter};
use branchyard_domain::usecases::{Client, MintedToken, NewHook, NewUpload, NewUser, Room, SqlWrite};
use branchyard_domain::values::OwnerName;

use crate::harness::{DB, DomainHarness, create, name, person, user, world};

const PASSWORD: &str = "correct horse";

fn root(world: &DomainHarness) -> Caller {
    let password = PlainPassword::new(PASSWORD.to_owned()).unwrap().hash_from(&mut |buffer| buffer.fill(7)).unwrap();
    administrator(world, "root", Some(password))
}

fn administrator(world: &DomainHarness, name: &str, password: Option<PasswordHash>) -> Caller {
    let name = OwnerName::parse(name).unwrap();
    let email = "root@example.test".to_owned();
    let wanted = NewUser { name, email, display_name: None, password, is_admin: true };
    Caller::User(std::sync::Arc::new(world.hub.people().create_user(wanted).unwrap()))
}

fn minted(world: &DomainHarness, of: &User) -> MintedToken {
    let tokens = world.hub.tokens();
    tokens.create(of, "ci", TokenExpiry::parse("30d").unwrap(), tokens.mint(), None).unwrap()
}

fn is_accepted(world: &DomainHarness, token: &MintedToken) -> bool {
    let hash = token.secret.hash();
    let known = world.hub.tokens().known(&hash).is_some();
    let accepted = world.hub.tokens().check(&hash).unwrap().is_some();
    assert!(accepted || !known, "a cache may not know what is refused");
    accepted
}

fn client() -> Client {
    Client { address: "192.0.2.1".to_owned(), user_agent: "test".to_owned() }
}

fn proof(world: &DomainHarness) -> ServerAdmin {
    world.hub.administration().operator()
}

#[test]
fn only_administrators_get_the_proof() {
    let world = world();
    let administration = world.hub.administration();
    for caller in [&Caller::Anonymous, &world.ada] {
        assert!(matches!(administration.access(caller), Err(AdministrationError::NotAdministrator)));
    }
    let root = root(&world);
    assert_eq!(administration.access(&root).unwrap().user().unwrap().name.as_str(), "root");
    assert!(administration.operator().user().is_none());
    let made = administration.make_admin(&proof(&world), "ADA").unwrap();
    assert!(administration.access(&Caller::User(std::sync::Arc::new(made))).is_ok());
}

#[test]
fn the_credentials_of_a_suspended_user_are_refused_until_they_are_resumed() {
    let world = world();
    let root = root(&world);
    administrator(&world, "second", None);
    let token = minted(&world, user(&root));
    let session = world.hub.sessions().sign_in("root", PASSWORD, client()).unwrap();
    assert!(is_accepted(&world, &token));
    assert!(world.hub.sessions().check(&session.secret.hash()).unwrap().is_some());

    let beside = world.fakes.beside(branchyard_domain::usecases::Limits::default());
    let suspended = beside.administration().suspend(&beside.administration().operator(), "ROOT").unwrap();
    assert_eq!(suspended.suspended_at, Some(world.hub.now()));
    assert!(!is_accepted(&world, &token), "also where another process did it");
    assert!(world.hub.sessions().check(&session.secret.hash()).unwrap().is_none());
    assert!(matches!(world.hub.sessions().sign_in("root", PASSWORD, client()), Err(SignInError::Suspended)));
    let wrong = world.hub.sessions().sign_in("root", "wrong horse", client());
    assert!(matches!(wrong, Err(SignInError::Wrong)), "a wrong password reveals nothing");

    world.fakes.clock.advance_seconds(60);
    let again = world.hub.administration().suspend(&proof(&world), "root").unwrap();
    assert_eq!(again.suspended_at, suspended.suspended_at, "since the same time");
    let caller = Caller::User(std::sync::Arc::new(again));
    assert!(matches!(world.hub.administration().access(&caller), Err(AdministrationError::NotAdministrator)));
    assert_eq!(world.hub.administration().resume(&proof(&world), "root").unwrap().suspended_at, None);
    assert!(is_accepted(&world, &token));
    assert!(world.hub.sessions().check(&session.secret.hash()).unwrap().is_none(), "sessions stay ended");
    world.hub.sessions().sign_in("root", PASSWORD, client()).unwrap();
}

#[test]
fn the_last_administrator_cannot_be_suspended() {
    let world = world();
    root(&world);
    let administration = world.hub.administration();
    let suspend = |name| administration.suspend(&proof(&world), name);
    assert!(matches!(suspend("root"), Err(AdministrationError::LastAdministrator(name)) if name == "root"));
    suspend("ben").unwrap();
    administration.make_admin(&proof(&world), "ben").unwrap();
    assert!(suspend("root").is_err(), "a suspended administrator administers nothing");
    administration.resume(&proof(&world), "ben").unwrap();
    suspend("root").unwrap();
    assert!(matches!(suspend("nobody"), Err(AdministrationError::NoSuchUser(name)) if name == "nobody"));
    assert!(matches!(suspend("not a name!"), Err(AdministrationError::NoSuchUser(_))));
}

#[test]
fn queued_operations_of_a_suspended_user_fail_and_databases_stay_readable() {
    let world = world();
    let operation = world.queue("main", "main", "INSERT INTO t VALUES (9,'nine')");
    world.hub.administration().suspend(&proof(&world), "ada").unwrap();
    let failure = world.failure(operation.id);
    assert_eq!((failure.kind, failure.detail.as_str()), (FailureKind::PermissionDenied, "ada is suspended"));
    // A request that was under way queues one more.
    let late = world.queue("main", "main", "INSERT INTO t VALUES (10,'ten')");
    world.work();
    assert_eq!(world.failure(late.id).kind, FailureKind::PermissionDenied);
    assert_eq!(world.rows("main"), ["1|one"]);
    world.hub.databases().access::<Query>(&Caller::Anonymous, DB.0, DB.1).unwrap();
    world.hub.administration().resume(&proof(&world), "ada").unwrap();
    world.wrote("main", "INSERT INTO t VALUES (2,'two')");
}

#[test]
fn tokens_and_sessions_of_any_user_are_listed_and_ended() {
    let world = world();
    let administration = world.hub.administration();
    let (one, two) = (minted(&world, user(&world.ada)), minted(&world, user(&world.ada)));
    let of_ben = minted(&world, user(&world.ben));
    let listed = administration.tokens(&proof(&world), "ada", None, 9).unwrap();
    assert_eq!(listed.iter().map(|token| token.id).collect::<Vec<_>>(), [two.token.id, one.token.id]);
    let revoked = administration.revoke_token(&proof(&world), &one.token.id.to_string()).unwrap();
    assert_eq!(revoked.user_id, user(&world.ada).id);
    assert!(!is_accepted(&world, &one) && is_accepted(&world, &two));
    for id in [one.token.id.to_string(), "no id".to_owned()] {
        let missing = administration.revoke_token(&proof(&world), &id);
        assert!(matches!(missing, Err(AdministrationError::NoSuchToken(named)) if named == id));
    }
    assert_eq!(administration.revoke_tokens(&proof(&world), "ada").unwrap(), 1);
    assert!(!is_accepted(&world, &two) && is_accepted(&world, &of_ben));

    let open = |of: &Caller| world.hub.sessions().open(user(of).clone(), client()).unwrap().session;
    let (first, _second, of_ben) = (open(&world.ada), open(&world.ada), open(&world.ben));
    assert_eq!(administration.sessions(&proof(&world), "ada").unwrap().len(), 2);
    assert_eq!(administration.end_session(&proof(&world), &first.id.to_string()).unwrap().user_id, first.user_id);
    let missing = administration.end_session(&proof(&world), &first.id.to_string());
    assert!(matches!(missing, Err(AdministrationError::NoSuchSession(_))));
    assert_eq!(administration.end_sessions(&proof(&world), "ada").unwrap(), 1);
    assert_eq!(administration.sessions(&proof(&world), "ben").unwrap(), [of_ben]);
    let users = administration.users(&proof(&world), &UserFilter::default(), None, 9).unwrap();
    let seen: Vec<_> = users.iter().map(|found| (found.user.name.as_str(), found.last_seen_at.is_some())).collect();
    assert_eq!(seen, [("ada", false), ("ben", true)]);
}

fn quarantine(world: &DomainHarness, (owner, name): (&str, &str)) {
    let database = world.hub.administration().quarantine(&proof(world), owner, name).unwrap();
    assert_eq!(database.quarantined_at, Some(world.hub.now()));
}

fn release(world: &DomainHarness, (owner, name): (&str, &str)) {
    assert_eq!(world.hub.administration().release(&proof(world), owner, name).unwrap().quarantined_at, None);
}

#[test]
fn only_administrators_see_a_quarantined_database() {
    let world = world();
    let root = root(&world);
    let secret = ("ada", "secret");
    create(&world.hub, &world.ada, secret, Visibility::Private);
    let sees = |caller: &Caller, (owner, name): (&str, &str)| {
        let access = world.hub.databases().access::<Read>(caller, owner, name);
        let listed = world.hub.databases().list(caller, &DatabaseFilter::default(), None, 9).unwrap();
        let listed = listed.iter().any(|view| view.database.locator.name.as_str() == name);
        match access {
            Ok(access) => {
                assert!(listed);
                let by_id = world.hub.databases().access_by_id::<Read>(caller, access.database().id);
                assert!(by_id.is_ok());
                true
            }
            Err(AccessError::NoSuchDatabase) => {
                assert!(!listed);
                false
            }
            Err(other) => panic!("{other}"),
        }
    };
    assert!(sees(&Caller::Anonymous, DB) && sees(&world.ada, secret) && !sees(&root, secret));
    quarantine(&world, DB);
    quarantine(&world, secret);
    for caller in [&Caller::Anonymous, &world.ada, &world.ben] {
        assert!(!sees(caller, DB) && !sees(caller, secret));
        assert!(world.hub.databases().access_by_id::<Read>(caller, world.db).is_err());
        assert!(world.hub.databases().known_access::<Read>(caller, DB.0, DB.1).is_none());
    }
    assert!(sees(&root, DB) && sees(&root, secret));
    let write = world.hub.databases().access::<Write>(&root, DB.0, DB.1);
    assert!(matches!(write, Err(AccessError::Denied(_))), "administrators look");
    let taken =
        world.hub.databases().create(user(&world.ada), crate::harness::new_database(DB, Visibility::Public), None);
    assert!(taken.is_err(), "the name stays taken");
    assert!(world.hub.activities().news(user(&world.ada), 9).unwrap().is_empty());
    release(&world, DB);
    release(&world, secret);
    assert!(sees(&Caller::Anonymous, DB) && sees(&world.ada, secret) && !sees(&root, secret));
    let missing = world.hub.administration().quarantine(&proof(&world), "ada", "nothing");
    assert!(matches!(missing, Err(AdministrationError::NoSuchDatabase(named)) if named == "ada/nothing"));
}

#[test]
fn the_work_of_a_quarantined_database_waits() {
    let world = world();
    while !world.hub.dispatch().fan_out().unwrap().is_empty() {}
    let admin = world.access::<Admin>(&world.ada);
    let url = world.hub.hooks().address(&admin, "https://hook.test/").unwrap();
    world.hub.hooks().create(&admin, NewHook { url, events: [HookEvent::Push].into(), active: true }, None).unwrap();
    let upload = NewUpload { content_length: 3, num_parts: 1, file_type: FileType::Csv };
    let opened = world.hub.imports().open_upload(&world.access::<Write>(&world.ada), upload, None).unwrap();
    let put = || world.hub.imports().put_part(opened.upload.id, 1, None, &mut "a\n1".as_bytes());
    world.wrote("main", "INSERT INTO t VALUES (2,'two')");
    while !world.hub.dispatch().fan_out().unwrap().is_empty() {}
    let operation = world.queue("main", "main", "INSERT INTO t VALUES (3,'three')");
    let done = world.queue("main", "other", "INSERT INTO t VALUES (4,'four')");
    let room = || Room { hooks: 9, held_back: 9, slow: &[] };

    quarantine(&world, DB);
    world.work();
    assert_eq!(world.status(operation.id), OperationStatus::Queued);
    assert!(!world.hub.dispatch().is_due(room()).unwrap());
    assert!(world.hub.dispatch().turn("w", &[], room()).unwrap().leases.is_empty());
    assert!(matches!(put(), Err(ImportError::NoSuchUpload)), "the address of a part needs no credential");

    release(&world, DB);
    put().unwrap();
    world.work();
    world.outcome(operation.id);
    let commit = world.outcome(done.id).commit;
    assert!(commit.is_some());
    let leases = world.hub.dispatch().turn("w", &[], room()).unwrap().leases;
    assert_eq!(leases.len(), 1, "the delivery was not lost");
    let run = world.hub.dispatch().attempt(leases[0].clone(), &CancellationToken::default(), || true).unwrap();
    assert_eq!(run.attempted.len(), 1);

    quarantine(&world, DB);
    let own = world.hub.operations().list_by(user(&world.ada), "ada", OperationFilter::default(), None, 9).unwrap();
    for operation in &own {
        let OperationStatus::Succeeded(outcome) = &operation.status else { panic!("{:?}", operation.status) };
        assert_eq!(outcome.commit, None, "the creator sees that it ended, and no commit");
    }
    let OperationStatus::Succeeded(outcome) = world.hub.operations().get(&world.ada, done.id).unwrap().status else {
        panic!("it succeeded")
    };
    assert_eq!(outcome.commit, None);
    assert!(world.hub.operations().get(&world.ben, done.id).is_err());
}

#[test]
fn pull_requests_from_a_quarantined_database_show_nothing() {
    let world = world();
    let fork = ("ben", DB.1);
    let operation = world.hub.operations().fork(&world.access::<Participate>(&world.ben), "ben", None).unwrap();
    world.work();
    world.outcome(operation.id);
    let wanted = SqlWrite {
        from_branch: "main".to_owned(),
        to_branch: name("main"),
        statements: "INSERT INTO t VALUES (5,'five')".to_owned(),
        message: None,
        expected_head: None,
        start: None,
    };
    let access = world.access_to::<Write>(&world.ben, fork);
    let operation = world.hub.operations().sql_write(&access, wanted, None).unwrap();
    world.work();
    let head = world.outcome(operation.id).commit.unwrap();
    let opening = world.access::<Participate>(&world.ben);
    let pull = world.hub.pulls().open(&opening, DomainHarness::new_pull(fork, "main", "main"), None).unwrap();
    world.refresh();
    let cleo = person(&world.hub, "cleo");
    let reader = world.access::<Read>(&cleo);
    let shown = || world.hub.pulls().get(&reader, pull.number).unwrap();
    let reads = || world.hub.sql().resolve(&world.access::<Query>(&cleo), Some(head.as_str())).is_ok();
    world.hub.pulls().edges(&reader, &shown()).unwrap();
    assert!(reads());

    quarantine(&world, fork);
    let hidden = shown();
    assert_eq!(hidden.content.heads, None);
    let edges = world.hub.pulls().edges(&reader, &hidden);
    assert!(matches!(edges, Err(PullError::BranchMissing(_) | PullError::NotShown(NotShown::HiddenWithSource))));
    assert!(world.hub.pulls().list(&reader, &Default::default(), None, 9).unwrap()[0].content.heads.is_none());
    assert!(!reads(), "the fetched commit is not reachable by its hash");
    let merge = world.hub.pulls().merge(&world.access::<Write>(&world.ada), pull.number, Default::default(), None);
    assert!(matches!(merge, Err(PullError::BranchMissing(_))));
    assert!(matches!(
        world.hub.pulls().open(&opening, DomainHarness::new_pull(fork, "main", "main"), None),
        Err(PullError::NoSuchSource)
    ));

    release(&world, fork);
    assert_eq!(shown(), pull_after(&world, pull.number), "release undoes all");
    world.hub.pulls().edges(&reader, &shown()).unwrap();
    assert!(reads());
}

fn pull_after(
    world: &DomainHarness,
    number: branchyard_domain::values::PullNumber,
) -> branchyard_domain::entities::Pull {
    let stored = world.transaction().pulls().get(world.db, number).unwrap().unwrap();
    assert!(stored.content.heads.is_some() && stored.content.hidden.is_none());
    stored
}
