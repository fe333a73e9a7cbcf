//! Mirrors: when they sync, with whose rights, and what of a source they take.

use std::sync::Arc;

use branchyard_domain::access::{Admin, Read, Write};
use branchyard_domain::entities::{EventKind, FailureKind, Visibility, Work};
use branchyard_domain::errors::{AccessError, DatabaseError, MirrorError, RefError};
use branchyard_domain::ports::{SourceRefs, SourceTag};
use branchyard_domain::usecases::{EditMirror, Limits, NewBranch, NewMirror};
use branchyard_domain::values::{CommitHash, Revision};
use branchyard_domain_testing::fakes::KeyedVault;

use crate::harness::{DomainHarness, name, new_database, user, world, world_with};

const URL: &str = "https://yard.example/bo/trees";
const AT: (&str, &str) = ("ada", "trees");

/// A hub in which Ada has a mirror. The source has nothing yet.
fn mirrored(limits: Limits, interval_seconds: i64) -> DomainHarness {
    let world = world_with(limits);
    let wanted = NewMirror { url: URL.to_owned(), interval_seconds };
    let made =
        world.hub.databases().create_mirror(user(&world.ada), new_database(AT, Visibility::Public), &wanted, None);
    assert!(made.unwrap().database.is_mirror);
    world
}

fn first_commit(world: &DomainHarness) -> CommitHash {
    let access = world.access_to::<Read>(&world.ada, AT);
    world.hub.branches().list(&access, None, 1).unwrap()[0].head.clone()
}

fn names(world: &DomainHarness) -> Vec<String> {
    let access = world.access_to::<Read>(&world.ada, AT);
    let branches = world.hub.branches().list(&access, None, 99).unwrap();
    branches.into_iter().map(|branch| branch.name.to_string()).collect()
}

/// Sets the branches of the source, all at one commit.
fn offer(world: &DomainHarness, default_branch: &str, branches: &[&str]) {
    let head = first_commit(world);
    let refs = SourceRefs {
        default_branch: default_branch.to_owned(),
        branches: branches.iter().map(|name| ((*name).to_owned(), head.clone())).collect(),
        tags: Vec::new(),
    };
    world.fakes.sources.set(URL, refs, Vec::new());
}

fn error(world: &DomainHarness) -> Option<String> {
    world.hub.mirrors().get(&world.access_to::<Admin>(&world.ada, AT)).unwrap().last_error
}

#[test]
fn branches_are_those_of_the_source_and_what_cannot_be_had_is_named() {
    let world = mirrored(Limits::default(), 3_600);
    offer(&world, "trunk", &["trunk", "side", "a..b", "refs//x"]);
    world.work();
    assert_eq!(names(&world), ["side", "trunk"]);
    let database = world.access_to::<Read>(&world.ada, AT).database().clone();
    assert_eq!(database.default_branch, name("trunk"));
    let left_out = error(&world).unwrap();
    assert!(left_out.contains("'a..b', 'refs//x'"), "{left_out}");

    offer(&world, "nowhere", &["side"]);
    world.hub.mirrors().sync(&world.access_to::<Admin>(&world.ada, AT), None).unwrap();
    world.work();
    assert_eq!(names(&world), ["side"]);
    assert_eq!(error(&world), None);
    let mut tx = world.transaction();
    let kinds: Vec<EventKind> =
        tx.events().list(database.id, None, 99).unwrap().into_iter().map(|event| event.kind).collect();
    assert!(kinds.iter().any(|kind| matches!(kind, EventKind::BranchCreated { branch } if *branch == name("trunk"))));
    assert!(kinds.iter().any(|kind| matches!(kind, EventKind::BranchDeleted { branch } if *branch == name("trunk"))));
}

#[test]
fn a_source_that_cannot_be_used_changes_nothing_and_is_asked_later_each_time() {
    let limits = Limits { remote_refs: 3, ..Limits::default() };
    let world = mirrored(limits, 100);
    world.work();
    assert_eq!(error(&world).as_deref(), Some("the remote did not answer"));
    assert_eq!(world.hub.mirrors().queue_due().unwrap(), 0, "it waits");
    world.fakes.clock.advance_seconds(101);
    assert_eq!(world.hub.mirrors().queue_due().unwrap(), 1);
    assert_eq!(world.hub.mirrors().queue_due().unwrap(), 0, "one sync waits already");
    world.work();
    world.fakes.clock.advance_seconds(101);
    assert_eq!(world.hub.mirrors().queue_due().unwrap(), 0, "the pause has doubled");
    offer(&world, "main", &["main", "b", "c", "d"]);
    world.fakes.clock.advance_seconds(100);
    assert_eq!(world.hub.mirrors().queue_due().unwrap(), 1);
    world.work();
    assert!(error(&world).unwrap().contains("more than 3 branches and tags"), "{:?}", error(&world));
    let tag = |n: usize| SourceTag {
        name: format!("v{n}"),
        commit: first_commit(&world),
        tagger: String::new(),
        email: String::new(),
        seconds: i64::MAX,
        message: String::new(),
    };
    let refs = SourceRefs {
        default_branch: "main".to_owned(),
        branches: vec![("main".to_owned(), first_commit(&world))],
        tags: vec![tag(1), tag(2)],
    };
    world.fakes.sources.set(URL, refs, Vec::new());
    world.hub.mirrors().sync(&world.access_to::<Admin>(&world.ada, AT), None).unwrap();
    world.work();
    assert_eq!(error(&world), None);
    world.fakes.clock.advance_seconds(101);
    assert_eq!(world.hub.mirrors().queue_due().unwrap(), 1, "the pause is the usual one again");
}

#[test]
fn only_an_administrator_sees_a_mirror_and_no_one_writes_to_it() {
    let world = mirrored(Limits::default(), 3_600);
    offer(&world, "main", &["main"]);
    world.work();
    let write = world.hub.databases().access::<Write>(&world.ada, AT.0, AT.1);
    assert!(matches!(write, Err(AccessError::Mirror)));
    assert!(matches!(world.hub.databases().access::<Write>(&world.ben, AT.0, AT.1), Err(AccessError::Denied(_))));
    let of_another = world.hub.databases().access::<Admin>(&world.ben, AT.0, AT.1);
    assert!(matches!(of_another, Err(AccessError::Denied(_))));
    let admin = world.access_to::<Admin>(&world.ada, AT);
    world.hub.mirrors().stop(&admin).unwrap();
    assert!(matches!(world.hub.mirrors().get(&admin), Err(MirrorError::NoMirror)));
    assert!(matches!(world.hub.mirrors().stop(&admin), Err(MirrorError::NoMirror)));
    assert!(matches!(world.hub.mirrors().sync(&admin, None), Err(MirrorError::NoMirror)));
    let created = NewBranch { name: name("own"), from: Revision::Branch("main".to_owned()) };
    let created = world.hub.branches().create(&world.access_to::<Write>(&world.ada, AT), created, None);
    assert!(matches!(created, Ok(_) | Err(RefError::BranchExists(_))), "{created:?}");
}

#[test]
fn a_sync_that_waits_while_mirroring_ends_changes_nothing() {
    let world = mirrored(Limits::default(), 3_600);
    offer(&world, "main", &["main", "side"]);
    let admin = world.access_to::<Admin>(&world.ada, AT);
    let waiting = world.hub.mirrors().sync(&admin, None).unwrap();
    assert_eq!(waiting.work, Work::MirrorSync);
    world.hub.mirrors().stop(&admin).unwrap();
    world.work();
    assert_eq!(world.failure(waiting.id).kind, FailureKind::Canceled);
    assert_eq!(names(&world), ["main"]);
}

#[test]
fn one_sync_makes_an_ordinary_database_if_there_is_no_interval() {
    let world = mirrored(Limits::default(), 0);
    offer(&world, "main", &["main", "side"]);
    world.work();
    assert_eq!(names(&world), ["main", "side"]);
    let database = world.access_to::<Write>(&world.ada, AT).database().clone();
    assert!(!database.is_mirror);
    assert!(world.transaction().mirrors().get(database.id).unwrap().is_none());
}

#[test]
fn a_deleted_mirror_is_not_synced() {
    let world = mirrored(Limits::default(), 60);
    offer(&world, "main", &["main"]);
    world.work();
    let admin = world.access_to::<Admin>(&world.ada, AT);
    world.hub.databases().delete(&admin, None).unwrap();
    assert!(world.transaction().mirrors().get(admin.database().id).unwrap().is_none());
    world.fakes.clock.advance_seconds(61);
    assert_eq!(world.hub.mirrors().queue_due().unwrap(), 0);
}

#[test]
fn changes_are_checked_and_make_the_next_sync_due() {
    let world = mirrored(Limits::default(), 3_600);
    offer(&world, "main", &["main"]);
    world.work();
    let admin = world.access_to::<Admin>(&world.ada, AT);
    for seconds in [-1, 1, 59, 2_592_001] {
        let edit = EditMirror { interval_seconds: Some(seconds), ..EditMirror::default() };
        assert!(matches!(world.hub.mirrors().edit(&admin, edit), Err(MirrorError::Interval)), "{seconds}");
    }
    let edit = EditMirror { url: Some("http://yard.example/bo/trees".to_owned()), ..EditMirror::default() };
    assert!(matches!(world.hub.mirrors().edit(&admin, edit), Err(MirrorError::Address(_))));
    assert_eq!(world.hub.mirrors().queue_due().unwrap(), 0);
    let edit = EditMirror { interval_seconds: Some(60), ..EditMirror::default() };
    assert_eq!(world.hub.mirrors().edit(&admin, edit).unwrap().url, URL);
    assert_eq!(world.hub.mirrors().queue_due().unwrap(), 1);
    world.work();
    let other = NewMirror { url: "http://yard.example/x".to_owned(), interval_seconds: 60 };
    let refused = world.hub.databases().create_mirror(
        user(&world.ada),
        new_database(("ada", "other"), Visibility::Public),
        &other,
        None,
    );
    assert!(matches!(refused, Err(DatabaseError::Mirror(_))), "{refused:?}");
}

#[test]
fn a_mirror_keeps_a_hundred_of_its_syncs() {
    let world = mirrored(Limits::default(), 60);
    offer(&world, "main", &["main"]);
    let admin = world.access_to::<Admin>(&world.ada, AT);
    let syncs: Vec<_> = (0..105)
        .map(|_| {
            let sync = world.hub.mirrors().sync(&admin, None).unwrap();
            world.work();
            sync.id
        })
        .collect();
    let is_there = |id| world.transaction().operations().get(id).unwrap().is_some();
    // The last one was settled after the others were counted.
    assert_eq!(syncs.iter().filter(|id| is_there(**id)).count(), 101);
    assert!(!is_there(syncs[0]) && is_there(syncs[104]));
}

#[test]
fn seeds_are_sealed_anew_and_a_mirror_whose_key_is_gone_says_so() {
    let world = world();
    let vault = Arc::new(KeyedVault::default());
    vault.set(&["k1"]);
    let hub = world.fakes.sealing(vault.clone(), Limits::default());
    let wanted = NewMirror { url: URL.to_owned(), interval_seconds: 3_600 };
    hub.databases().create_mirror(user(&world.ada), new_database(AT, Visibility::Public), &wanted, None).unwrap();
    assert_eq!(hub.secrets().counts().unwrap(), [("k1".to_owned(), 1)]);
    vault.set(&["k2", "k1"]);
    assert_eq!(hub.secrets().reseal(|| true).unwrap().resealed, 1);
    assert_eq!(hub.secrets().counts().unwrap(), [("k2".to_owned(), 1)]);
    vault.set(&["k3"]);
    assert_eq!(hub.secrets().reseal(|| true).unwrap().unreadable, 1);
    offer(&world, "main", &["main"]);
    while hub.operations().run_next("worker").unwrap().is_some() {}
    let shown = error(&world).unwrap();
    assert!(shown.contains("the key of the mirror cannot be read"), "{shown}");
}
