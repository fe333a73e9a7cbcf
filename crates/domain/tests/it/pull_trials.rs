//! Trial merges in the background, and the leases of fetches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use branchyard_domain::access::Participate;
use branchyard_domain::entities::{Conflict, Pull};
use branchyard_domain::errors::{PortError, PullError};
use branchyard_domain::ports::{Engine as _, EngineError, Metadata as _};
use branchyard_domain::usecases::{Limits, PullEdges, Refreshed};
use branchyard_domain::values::CommitHash;
use branchyard_domain_testing::{AMPLE, wait_until};

use crate::harness::{DomainHarness, world, world_with};

impl DomainHarness {
    fn edges_of(&self, pull: &Pull) -> PullEdges {
        let access = self.access::<Participate>(&self.ben);
        let pull = self.hub.pulls().get(&access, pull.number).unwrap();
        self.hub.pulls().edges(&access, &pull).unwrap()
    }

    fn conflicts_at(&self, edges: &PullEdges) -> Result<Vec<Conflict>, PullError> {
        self.hub.pulls().conflicts(&self.access::<Participate>(&self.ben), edges, None, 0, 10)
    }

    fn conflicts_of(&self, pull: &Pull) -> Result<Vec<Conflict>, PullError> {
        self.conflicts_at(&self.edges_of(pull))
    }

    /// Makes the queued trial merges and returns their number.
    fn trials(&self) -> usize {
        let refreshed = std::iter::from_fn(|| self.hub.pulls().refresh_next(1).unwrap());
        let each = refreshed.map(|ended| assert!(matches!(ended, Refreshed::Prepared), "{ended:?}"));
        each.count()
    }
}

fn is_busy(conflicts: &Result<Vec<Conflict>, PullError>) -> bool {
    matches!(conflicts, Err(PullError::Port(PortError::Engine(EngineError::Busy))))
}

/// Creates a hub with a row that `work` and `main` change differently. Conflicts are found only in the background.
fn large() -> DomainHarness {
    let world = world();
    world.wrote("work", "UPDATE t SET a = 'theirs' WHERE id = 1");
    world.wrote("main", "UPDATE t SET a = 'ours' WHERE id = 1");
    world.fakes.engine.prepare_first();
    world
}

#[test]
fn trial_merges_follow_both_heads_of_a_pull_within_a_database() {
    let world = large();
    let pull = world.open("work");
    assert_eq!(world.trials(), 1, "it was opened");
    assert_eq!(world.conflicts_of(&pull).unwrap().len(), 1);
    world.wrote("main", "INSERT INTO t VALUES (2,'two')");
    world.wrote("main", "INSERT INTO t VALUES (3,'three')");
    assert_eq!(world.trials(), 1, "several moves of the target are one trial");
    assert_eq!(world.conflicts_of(&pull).unwrap().len(), 1);
    world.wrote("work", "INSERT INTO t VALUES (4,'four')");
    assert_eq!(world.trials(), 1, "its source moved");
    assert_eq!(world.conflicts_of(&pull).unwrap().len(), 1);
    world.wrote("elsewhere", "INSERT INTO t VALUES (5,'five')");
    assert_eq!(world.trials(), 0, "another branch moved");
}

#[test]
fn a_reader_who_finds_nothing_prepared_has_it_prepared() {
    let world = large();
    let pull = world.open("work");
    assert_eq!(world.trials(), 1);
    // This stands for a cache eviction or a restart of the process.
    world.fakes.engine.prepare_first();
    for _ in 0..3 {
        assert!(is_busy(&world.conflicts_of(&pull)));
    }
    assert_eq!(world.hub.pulls().backlog().unwrap().1, 1, "one for all who ask");
    assert_eq!(world.trials(), 1);
    assert_eq!(world.conflicts_of(&pull).unwrap().len(), 1);
}

#[test]
fn trial_merges_that_wait_are_bounded() {
    let world = large();
    let pull = world.open("work");
    let edges = world.edges_of(&pull);
    for n in 0..100 {
        let theirs = CommitHash::parse(&format!("{n:040x}")).unwrap();
        assert!(is_busy(&world.conflicts_at(&PullEdges { theirs, ..edges.clone() })));
    }
    assert_eq!(world.hub.pulls().backlog().unwrap().1, 64);
    // Trials of missing commits are dropped, and the trial of the pull request itself is made.
    while world.hub.pulls().refresh_next(1).unwrap().is_some() {}
    assert_eq!(world.hub.pulls().backlog().unwrap().1, 0);
    assert_eq!(world.conflicts_of(&pull).unwrap().len(), 1);
}

#[test]
fn small_databases_need_no_trial_in_the_background() {
    let world = world();
    world.wrote("work", "UPDATE t SET a = 'theirs' WHERE id = 1");
    let pull = world.open("work");
    world.wrote("main", "UPDATE t SET a = 'ours' WHERE id = 1");
    assert_eq!(world.trials(), 0);
    assert_eq!(world.conflicts_of(&pull).unwrap().len(), 1);
}

#[test]
fn a_fetch_keeps_its_lease_for_as_long_as_it_takes() {
    let world = world_with(Limits { pull_fetch_lease_seconds: 1, ..Limits::default() });
    let operation = world.hub.operations().fork(&world.access::<Participate>(&world.ben), "ben", None).unwrap();
    world.work();
    world.outcome(operation.id);
    let fork = DomainHarness::new_pull(("ben", "engines"), "main", "main");
    world.hub.pulls().open(&world.access::<Participate>(&world.ben), fork, None).unwrap();
    let (metadata, hub) = (Arc::clone(&world.fakes.metadata), world.hub.clone());
    let clock = Arc::clone(&world.fakes.clock);
    let was_kept = Arc::new(AtomicBool::new(false));
    let kept = Arc::clone(&was_kept);
    world.fakes.engine.meanwhile(move || {
        let is_free = || !metadata.read().unwrap().pull_fetches().due(hub.now(), 9, 9).unwrap().is_empty();
        assert!(!is_free(), "leased");
        // Three times the duration of the lease.
        for _ in 0..3 {
            clock.advance_seconds(1);
            wait_until("the lease", AMPLE, || !is_free());
        }
        kept.store(!is_free(), Ordering::SeqCst);
    });
    assert!(matches!(world.hub.pulls().refresh_next(2), Ok(Some(Refreshed::Fetched))));
    assert!(was_kept.load(Ordering::SeqCst), "the lease ended while the fetch went on");
    assert_eq!(world.hub.pulls().backlog().unwrap().0.due, 0);
}

#[test]
fn a_pull_that_is_shown_again_asks_the_engine_nothing() {
    let world = world();
    world.wrote("work", "INSERT INTO t VALUES (2,'two')");
    let pull = world.open("work");
    let access = world.access::<Participate>(&world.ben);
    let brings = || world.hub.pulls().brings(&access, &pull).unwrap();
    let (edges, brought) = (world.edges_of(&pull), brings());
    // From here on, every call to the engine fails.
    world.fakes.engine.remove(world.db).unwrap();
    assert_eq!((world.edges_of(&pull), brings()), (edges, brought));
}
