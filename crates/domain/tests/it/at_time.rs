//! The commit that a branch had at a time, and the commit after another one.

use branchyard_domain::access::{Admin, Read, Write};
use branchyard_domain::errors::AtTimeError;
use branchyard_domain::usecases::{Limits, NewBranch, NewTag, RestoreBranch};
use branchyard_domain::values::{CommitHash, Revision, Timestamp};

use crate::harness::{DomainHarness, name, world, world_with};

impl DomainHarness {
    fn at(&self, branch: Option<&str>, at: Timestamp) -> Result<CommitHash, AtTimeError> {
        self.hub.history().at_time(&self.access::<Read>(&self.ada), branch, at)
    }

    /// Writes to a branch. Returns the commit and a time at which it is the head.
    fn committed_at(&self, branch: &str, id: u32) -> (CommitHash, Timestamp) {
        self.fakes.clock.advance_seconds(10);
        let commit = self.wrote(branch, &format!("INSERT INTO t VALUES ({id},'row')"));
        let at = self.hub.now();
        self.fakes.clock.advance_seconds(10);
        (commit, at)
    }
}

#[test]
fn the_log_says_what_a_branch_had() {
    let world = world();
    let (one, at_one) = world.committed_at("main", 101);
    let (two, at_two) = world.committed_at("main", 102);
    assert_eq!(world.at(None, at_one).unwrap(), one);
    assert_eq!(world.at(Some("main"), at_two.plus_seconds(-1)).unwrap(), one);
    assert_eq!(world.at(Some("refs/heads/main"), at_two).unwrap(), two);
    assert_eq!(world.at(None, at_two.plus_seconds(1_000_000)).unwrap(), two, "the future has what is there now");

    let write = world.access::<Write>(&world.ada);
    let from = || Revision::Branch("main".to_owned());
    world.hub.branches().create(&write, NewBranch { name: name("late"), from: from() }, None).unwrap();
    world.hub.tags().create(&write, NewTag { name: name("v1"), from: from(), message: None }, None).unwrap();
    world.fakes.clock.advance_seconds(10);
    assert!(matches!(world.at(Some("late"), at_one), Err(AtTimeError::NotThen(_))));
    assert_eq!(world.at(Some("late"), world.hub.now()).unwrap(), two);
    for fixed in ["v1", two.as_str(), "main~1"] {
        assert!(matches!(world.at(Some(fixed), at_one), Err(AtTimeError::NotABranch(_))), "{fixed}");
    }
    assert!(matches!(world.at(Some("nope"), at_one), Err(AtTimeError::Ref(_))));
    assert!(matches!(world.at(None, Timestamp::from_seconds(0)), Err(AtTimeError::NotThen(_))));
}

#[test]
fn without_a_log_the_times_of_first_parents_count() {
    let world = world_with(Limits { history_seconds: 0, ..Limits::default() });
    let (one, at_one) = world.committed_at("main", 101);
    let (two, at_two) = world.committed_at("main", 102);
    assert_eq!(world.at(None, at_one).unwrap(), one);
    assert_eq!(world.at(None, at_two).unwrap(), two);
    assert!(matches!(world.at(None, Timestamp::from_seconds(0)), Err(AtTimeError::NotThen(_))));
}

#[test]
fn a_commit_that_the_branch_left_behind_stays_hidden() {
    let world = world();
    let (one, at_one) = world.committed_at("main", 101);
    let (two, at_two) = world.committed_at("main", 102);
    let back = RestoreBranch { branch: "main".to_owned(), at: at_one, to_branch: name("main") };
    world.hub.operations().restore(&world.access::<Admin>(&world.ada), back, None).unwrap();
    world.work();
    assert_eq!(world.head("main"), Some(one.clone()));
    world.fakes.clock.advance_seconds(10);
    assert_ne!(one, two);
    assert_eq!(world.at(None, at_two).unwrap(), one);
}

#[test]
fn the_commit_after_another_one_is_on_the_branch() {
    let world = world();
    let (one, _) = world.committed_at("main", 101);
    let (two, _) = world.committed_at("main", 102);
    let (three, _) = world.committed_at("main", 103);
    let read = world.access::<Read>(&world.ada);
    let after = |commit: &CommitHash, most| world.hub.history().commit_after(&read, "main", commit, most).unwrap();
    assert_eq!((after(&one, 100), after(&two, 100), after(&three, 100)), (Some(two.clone()), Some(three), None));
    assert_eq!(after(&one, 1), None, "only so many commits are looked at");
    assert_eq!(world.hub.history().commit_after(&read, "nope", &one, 100).unwrap(), None);
}
