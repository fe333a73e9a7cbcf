//! Resets of branches to earlier commits.

use branchyard_domain::access::{Admin, Participate, Read, Write};
use branchyard_domain::entities::{Branch, Operation};
use branchyard_domain::errors::RefError;
use branchyard_domain::usecases::{CommitCount, Limits, NewTag, ResetPreview, RestoreBranch};
use branchyard_domain::values::{CommitHash, Revision};

use crate::harness::{DomainHarness, name, world, world_with};
use crate::refs::at;

impl DomainHarness {
    fn reset_branch(&self, branch: &str, to: &CommitHash, expected: &CommitHash) -> Result<Branch, RefError> {
        self.hub.branches().reset(&self.access::<Write>(&self.ada), branch, to, expected)
    }

    fn would_reset(&self, branch: &str, to: &CommitHash) -> Result<ResetPreview, RefError> {
        self.hub.branches().reset_preview(&self.access::<Write>(&self.ada), branch, to)
    }

    fn names_commit(&self, commit: &CommitHash) -> bool {
        self.hub.sql().resolve(&self.access::<Read>(&self.ada), Some(commit.as_str())).is_ok()
    }
}

/// A hub whose branch `main` has three more commits, which are returned with the one before.
fn with_history() -> (DomainHarness, Vec<CommitHash>) {
    let world = world();
    let mut commits = vec![world.head("main").unwrap()];
    commits.extend((2..=4).map(|id| world.wrote("main", &format!("INSERT INTO t VALUES ({id},'row')"))));
    (world, commits)
}

#[test]
fn a_branch_moves_back_if_it_has_not_moved_meanwhile() {
    let (world, commits) = with_history();
    let (before, last) = (world.events().len(), &commits[3]);
    assert!(matches!(world.reset_branch("main", &commits[0], &commits[2]), Err(RefError::Changed)));
    assert!(matches!(world.reset_branch("none", &commits[0], last), Err(RefError::NoSuchBranch(_))));
    assert_eq!((world.head("main"), world.events().len()), (Some(last.clone()), before), "nothing has happened");

    let moved = world.reset_branch("main", &commits[1], last).unwrap();
    assert_eq!((Some(moved.head), world.head("main")), (Some(commits[1].clone()), Some(commits[1].clone())));
    assert_eq!(world.rows("main"), ["1|one", "2|row"]);
    assert_eq!(world.events()[before..], ["push main"]);
    assert!(!world.names_commit(last) && world.names_commit(&commits[0]), "what is left behind can be named no more");
    assert!(matches!(world.reset_branch("main", &commits[0], last), Err(RefError::Changed)), "a second time");
    // The next write goes on from there.
    world.wrote("main", "INSERT INTO t VALUES (9,'nine')");
    assert_eq!(world.rows("main"), ["1|one", "2|row", "9|nine"]);
}

#[test]
fn a_branch_moves_only_to_earlier_commits_of_its_own() {
    let (world, commits) = with_history();
    world.branch("work", Revision::Commit(commits[1].clone().into())).unwrap();
    let other = world.wrote("work", "INSERT INTO t VALUES (8,'eight')");
    let unknown = CommitHash::parse(&"0".repeat(40)).unwrap();
    for to in [&other, &commits[3], &unknown] {
        assert!(matches!(world.reset_branch("main", to, &commits[3]), Err(RefError::NotBehind { .. })), "{to}");
        assert!(matches!(world.would_reset("main", to), Err(RefError::NotBehind { .. })), "{to}");
    }
    assert!(matches!(world.reset_branch("work", &commits[2], &other), Err(RefError::NotBehind { .. })));
    let writing: Operation = world.queue("main", "main", "DELETE FROM t WHERE id = 1");
    let refused = world.reset_branch("main", &commits[0], &commits[3]);
    assert!(matches!(refused, Err(RefError::InUse(id)) if id == writing.id), "{refused:?}");
    world.work();
    assert!(matches!(world.reset_branch("main", &commits[0], &commits[3]), Err(RefError::Changed)));
}

#[test]
fn what_a_reset_would_lose_is_what_nothing_else_reaches() {
    let (world, commits) = with_history();
    let lost = |to: &CommitHash| {
        let found = world.would_reset("main", to).unwrap();
        assert!(found.is_exact && !found.count.is_more);
        assert_eq!((&found.branch.head, &found.to, found.lost.len()), (&commits[3], to, found.count.counted));
        found.lost.into_iter().map(|commit| commit.hash).collect::<Vec<_>>()
    };
    assert_eq!(lost(&commits[0]), [commits[3].clone(), commits[2].clone(), commits[1].clone()], "newest first");
    assert_eq!(lost(&commits[2]), [commits[3].clone()]);
    let tag = NewTag { name: name("v1"), from: Revision::Commit(commits[1].clone().into()), message: None };
    world.hub.tags().create(&world.access::<Write>(&world.ada), tag, None).unwrap();
    assert_eq!(lost(&commits[0]), [commits[3].clone(), commits[2].clone()], "a tag reaches the first");
    world.branch("copy", at("main")).unwrap();
    assert!(lost(&commits[0]).is_empty(), "another branch reaches them all");
    // A page shows some of many.
    for id in 20..50 {
        world.wrote("main", &format!("INSERT INTO t VALUES ({id},'row')"));
    }
    let found = world.would_reset("main", &commits[0]).unwrap();
    assert_eq!((found.count, found.lost.len()), (CommitCount { counted: 30, is_more: false }, 20));
    assert_eq!(Some(&found.lost[0].hash), world.head("main").as_ref());
}

#[test]
fn an_administrator_undoes_a_reset_while_the_history_lasts() {
    let limits = Limits { history_seconds: 86_400, ..Limits::default() };
    let world = world_with(limits);
    let first = world.head("main").unwrap();
    let second = world.wrote("main", "INSERT INTO t VALUES (2,'two')");
    assert_eq!(world.would_reset("main", &first).unwrap().restorable_seconds, 86_400);
    world.fakes.clock.advance_seconds(10);
    let before = world.hub.now();
    world.fakes.clock.advance_seconds(10);
    world.reset_branch("main", &first, &second).unwrap();
    let wanted = RestoreBranch { branch: "main".to_owned(), at: before, to_branch: name("main") };
    world.hub.operations().restore(&world.access::<Admin>(&world.ada), wanted, None).unwrap();
    world.work();
    assert_eq!(world.head("main"), Some(second));
}

#[test]
fn open_pulls_show_the_head_that_a_reset_leaves() {
    let world = world();
    world.branch("work", at("main")).unwrap();
    let first = world.wrote("work", "INSERT INTO t VALUES (2,'two')");
    let second = world.wrote("work", "INSERT INTO t VALUES (3,'three')");
    let pull = world.open("work");
    world.reset_branch("work", &first, &second).unwrap();
    let access = world.access::<Participate>(&world.ada);
    let pull = world.hub.pulls().get(&access, pull.number).unwrap();
    assert_eq!(pull.content.heads.as_ref().unwrap().from, first);
    assert_eq!(world.hub.pulls().edges(&access, &pull).unwrap().theirs, first);
}
