//! What clients of the engine read to clone a database.

use branchyard_domain::access::{Read, Write};
use branchyard_domain::entities::Visibility;
use branchyard_domain::errors::{AccessError, RemoteError};
use branchyard_domain::usecases::Limits;
use branchyard_domain::values::{ChunkHash, CommitHash};

use crate::harness::{DomainHarness, create, world, world_with};
use crate::refs::at;

impl DomainHarness {
    /// Returns which of the commits a reader gets.
    fn served(&self, commits: &[&CommitHash]) -> Vec<bool> {
        let hashes: Vec<_> = commits.iter().map(|commit| ChunkHash::from(*commit)).collect();
        let access = self.access::<Read>(&self.ada);
        let chunks = self.hub.remotes().chunks(&access, &hashes, usize::MAX).unwrap();
        chunks.iter().map(Option::is_some).collect()
    }
}

#[test]
fn refs_are_all_branches_and_tags_up_to_a_limit() {
    let world = world_with(Limits { remote_refs: 2, ..Limits::default() });
    let refs = || world.hub.remotes().refs(&world.access::<Read>(&world.ada));
    world.branch("work", at("main")).unwrap();
    let found = refs().unwrap();
    assert_eq!(found.default_branch.as_str(), "main");
    let names: Vec<_> = found.branches.iter().map(|branch| branch.name.as_str()).collect();
    assert_eq!((names, found.tags), (vec!["main", "work"], vec![]));
    assert_eq!(Some(&found.branches[0].head), world.head("main").as_ref());
    world.branch("more", at("main")).unwrap();
    assert!(matches!(refs(), Err(RemoteError::TooManyRefs(2))));
}

#[test]
fn a_database_to_which_nothing_was_written_is_empty() {
    let world = world();
    create(&world.hub, &world.ada, ("ada", "new"), Visibility::Public);
    let refs = || world.hub.remotes().refs(&world.access_to::<Read>(&world.ada, ("ada", "new")));
    assert!(matches!(refs(), Err(RemoteError::Empty(name)) if name == "ada/new"));
    let access = world.access_to::<Read>(&world.ada, ("ada", "new"));
    let admin = world.access_to(&world.ada, ("ada", "new"));
    world.hub.databases().delete(&admin, None).unwrap();
    let gone = world.hub.remotes().refs(&access);
    assert!(matches!(gone, Err(RemoteError::Access(AccessError::NoSuchDatabase))));
    assert_eq!(world.hub.remotes().chunks(&access, &[], 1).ok(), None);
}

#[test]
fn a_commit_that_no_ref_reaches_is_absent() {
    let world = world();
    let base = world.head("main").unwrap();
    world.branch("work", at("main")).unwrap();
    let first = world.wrote("work", "DELETE FROM t WHERE id = 1");
    let second = world.wrote("work", "DELETE FROM t WHERE id = 2");
    assert_eq!(world.served(&[&second, &first, &base]), [true; 3]);
    // The parents of a commit were remembered with it, and are forgotten with its branch.
    let access = world.access::<Write>(&world.ada);
    world.hub.branches().delete(&access, "work", None).unwrap();
    assert_eq!(world.served(&[&second, &first, &base]), [false, false, true]);
    let unknown = CommitHash::parse(&"0".repeat(40)).unwrap();
    assert_eq!(world.served(&[&unknown]), [false]);
}
