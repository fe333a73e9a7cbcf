//! How far branches are from those that they contribute to, and syncs of forks with their parents.

use branchyard_domain::access::{Admin, Caller, Participate, Read, Write};
use branchyard_domain::entities::{FailureKind, PullState, Role, Visibility};
use branchyard_domain::errors::PullError;
use branchyard_domain::ports::PullFilter;
use branchyard_domain::usecases::pull_rules::OpeningError;
use branchyard_domain::usecases::{BranchStanding, Branches, CommitCount, EditDatabase, MergePull, SqlWrite, Synced};
use branchyard_domain::values::{CommitHash, DatabaseId, OperationId, PullNumber};

use crate::harness::{DB, DomainHarness, name, world};
use crate::refs::at;

const FORK: (&str, &str) = ("ben", DB.1);

/// The default hub with Ben's fork of Ada's database.
struct Forked {
    world: DomainHarness,
    fork: DatabaseId,
}

impl std::ops::Deref for Forked {
    type Target = DomainHarness;

    fn deref(&self) -> &DomainHarness {
        &self.world
    }
}

fn forked() -> Forked {
    let world = world();
    let operation = world.hub.operations().fork(&world.access::<Participate>(&world.ben), "ben", None).unwrap();
    world.work();
    let (fork, _) = world.outcome(operation.id).database.unwrap();
    Forked { world, fork }
}

impl Forked {
    /// Writes to a branch of the fork, which starts at `main` if it does not exist.
    fn push(&self, branch: &str, statements: &str) -> CommitHash {
        let from_branch = if self.fork_head(branch).is_some() { branch } else { "main" };
        let wanted = SqlWrite {
            from_branch: from_branch.to_owned(),
            to_branch: name(branch),
            statements: statements.to_owned(),
            message: None,
            expected_head: None,
            start: None,
        };
        let access = self.access_to::<Write>(&self.ben, FORK);
        let operation = self.hub.operations().sql_write(&access, wanted, None).unwrap();
        self.work();
        self.outcome(operation.id).commit.unwrap()
    }

    fn fork_head(&self, branch: &str) -> Option<CommitHash> {
        self.transaction().branches().get(self.fork, &name(branch)).unwrap().map(|branch| branch.head)
    }

    fn beside(&self, viewer: &Caller, branch: &str) -> Option<BranchStanding> {
        self.hub.branches().standing(&self.access_to::<Read>(viewer, FORK), &name(branch)).unwrap()
    }

    /// Returns the numbers of commits that only the fork and only the parent has.
    fn apart(&self, branch: &str) -> (usize, usize) {
        let standing = self.beside(&self.ben, branch).unwrap();
        assert_eq!(standing.parent.map(|parent| parent.to_string()), Some("ada/engines".to_owned()));
        assert_eq!(standing.to_branch, name("main"));
        let exact = |count: CommitCount| {
            assert!(!count.is_more);
            count.counted
        };
        (exact(standing.ahead), exact(standing.behind))
    }

    fn sync(&self, branch: &str) -> Result<Synced, PullError> {
        self.hub.pulls().sync(&self.access_to::<Write>(&self.ben, FORK), branch)
    }

    /// Syncs `main` and returns the pull request and the operation.
    fn synced(&self) -> (PullNumber, OperationId) {
        let Synced::Merging { pull, operation } = self.sync("main").unwrap() else { panic!("nothing to sync") };
        self.work();
        (pull, operation)
    }

    fn pulls(&self) -> Vec<PullState> {
        let pulls = self.transaction().pulls().list(self.fork, &PullFilter::default(), None, 10).unwrap();
        pulls.into_iter().map(|pull| pull.state).collect()
    }

    fn see_parent(&self, visibility: Visibility) {
        let edit = EditDatabase { visibility: Some(visibility), ..EditDatabase::default() };
        self.hub.databases().edit(&self.access::<Admin>(&self.ada), edit, None).unwrap();
    }
}

fn insert(id: u32) -> String {
    format!("INSERT INTO t VALUES ({id},'row')")
}

#[test]
fn a_fork_is_ahead_of_its_parent_and_behind_it() {
    let forked = forked();
    assert_eq!(forked.apart("main"), (0, 0));
    forked.push("main", &insert(10));
    assert_eq!(forked.apart("main"), (1, 0));
    forked.wrote("main", &insert(20));
    forked.wrote("main", &insert(21));
    assert_eq!(forked.apart("main"), (1, 2), "neither file has all commits");
    assert_eq!(forked.apart("main"), (1, 2), "as remembered");
    forked.push("topic", &insert(11));
    assert_eq!(forked.apart("topic"), (2, 2), "the parent has no such branch, so that its default branch counts");
    assert_eq!(forked.beside(&forked.ben, "none"), None);
    // A pull request to the parent is known.
    let open = DomainHarness::new_pull(FORK, "topic", "main");
    let pull = forked.hub.pulls().open(&forked.access::<Participate>(&forked.ben), open, None).unwrap();
    assert_eq!(forked.beside(&forked.ben, "topic").unwrap().pull, Some(pull.number));
    assert_eq!(forked.beside(&forked.ben, "main").unwrap().pull, None);
    // Fetching for it changes no number.
    forked.refresh();
    assert_eq!(forked.apart("topic"), (2, 2));
}

#[test]
fn merges_are_counted_by_what_the_other_side_lacks() {
    let forked = forked();
    forked.push("topic", &insert(10));
    forked.push("main", &insert(11));
    let merge = SqlWrite {
        from_branch: "topic".to_owned(),
        to_branch: name("main"),
        statements: insert(12),
        message: None,
        expected_head: None,
        start: None,
    };
    forked.hub.operations().sql_write(&forked.access_to::<Write>(&forked.ben, FORK), merge, None).unwrap();
    forked.work();
    assert_eq!(forked.apart("main"), (4, 0), "three commits and their merge");
    forked.wrote("main", &insert(20));
    assert_eq!(forked.apart("main"), (4, 1));
}

#[test]
fn counts_of_commits_end_at_a_limit() {
    assert_eq!(CommitCount::MOST, 1_000);
    let forked = forked();
    let access = forked.access_to::<Read>(&forked.ben, FORK);
    for id in 0..=CommitCount::MOST {
        forked.push("main", &insert(u32::try_from(id).unwrap() + 100));
    }
    let standing = forked.hub.branches().standing(&access, &name("main")).unwrap().unwrap();
    assert!(standing.ahead.is_more && standing.ahead.counted <= CommitCount::MOST, "{:?}", standing.ahead);
    assert!(standing.ahead.counted > 0 && standing.behind.is_zero());
}

#[test]
fn a_sync_moves_a_branch_without_commits_of_its_own() {
    let forked = forked();
    assert_eq!(forked.sync("main").unwrap(), Synced::UpToDate);
    let head = forked.wrote("main", &insert(20));
    let (_, operation) = forked.synced();
    assert_eq!(forked.outcome(operation).commit, Some(head.clone()));
    assert_eq!(forked.fork_head("main"), Some(head));
    assert_eq!(forked.apart("main"), (0, 0));
    assert_eq!(forked.sync("main").unwrap(), Synced::UpToDate);
    assert!(matches!(forked.pulls()[..], [PullState::Merged { .. }]), "a second sync opens nothing");
}

#[test]
fn a_sync_merges_what_both_sides_have() {
    let forked = forked();
    forked.push("main", &insert(10));
    forked.wrote("main", &insert(20));
    forked.synced();
    assert_eq!(forked.rows_in(FORK, "main"), ["1|one", "10|row", "20|row"]);
    assert_eq!(forked.apart("main"), (2, 0), "the commit and the merge");
    // A branch that the parent lacks gets what the default branch of the parent has.
    forked.push("topic", &insert(11));
    forked.wrote("main", &insert(21));
    assert!(matches!(forked.sync("topic").unwrap(), Synced::Merging { .. }));
    forked.work();
    assert_eq!(forked.rows_in(FORK, "topic"), ["1|one", "10|row", "11|row", "20|row", "21|row"]);
}

#[test]
fn a_sync_with_conflicts_leaves_an_open_pull() {
    let forked = forked();
    let head = forked.push("main", "UPDATE t SET a = 'ours' WHERE id = 1");
    forked.wrote("main", "UPDATE t SET a = 'theirs' WHERE id = 1");
    let (pull, operation) = forked.synced();
    assert_eq!(forked.failure(operation).kind, FailureKind::MergeConflict);
    assert_eq!(forked.fork_head("main"), Some(head));
    assert_eq!(forked.pulls(), [PullState::Open]);
    let (again, _) = forked.synced();
    assert_eq!((again, forked.pulls().len()), (pull, 1), "the same pull request is merged");
}

#[test]
fn a_parent_that_is_hidden_is_neither_shown_nor_synced() {
    let forked = forked();
    forked.wrote("main", &insert(20));
    forked.see_parent(Visibility::Private);
    assert_eq!(forked.beside(&forked.ben, "main"), None);
    assert!(matches!(forked.sync("main"), Err(PullError::NoSuchSource)));
    forked.push("topic", &insert(10));
    let within = forked.beside(&forked.ben, "topic").unwrap();
    assert_eq!((within.parent, within.ahead.counted), (None, 1), "beside the default branch of the fork");

    // A reader of the parent sees it. Its rows would become visible to all readers of the fork.
    forked.invite(&forked.ben, Role::Read);
    assert_eq!(forked.beside(&forked.ben, "main").unwrap().sync, Err(OpeningError::NeedsWrite));
    assert!(matches!(forked.sync("main"), Err(PullError::SourceDenied)));
    forked.invite(&forked.ben, Role::Write);
    assert_eq!(forked.beside(&forked.ben, "main").unwrap().sync, Err(OpeningError::NeedsPublish));
    assert!(matches!(forked.sync("main"), Err(PullError::NeedsPublish)));
    assert!(forked.pulls().is_empty());
    assert_eq!(forked.beside(&Caller::Anonymous, "main"), None);

    forked.see_parent(Visibility::Public);
    forked.synced();
    assert_eq!(forked.apart("main"), (0, 0));
    forked.hub.databases().delete(&forked.access::<Admin>(&forked.ada), None).unwrap();
    assert_eq!(forked.beside(&forked.ben, "main"), None);
    assert!(matches!(forked.sync("main"), Err(PullError::NoSuchSource)));
}

#[test]
fn a_database_that_is_no_fork_has_nothing_to_sync() {
    let world = world();
    let access = world.access::<Write>(&world.ada);
    assert!(matches!(world.hub.pulls().sync(&access, "main"), Err(PullError::NoSuchSource)));
    assert!(matches!(world.hub.pulls().sync(&access, "none"), Err(PullError::NoSuchBranch { .. })));
    assert_eq!(world.hub.branches().standing(&access, &name("main")).unwrap(), None);
    world.branch("work", at("main")).unwrap();
    world.wrote("work", &insert(2));
    let standing = world.hub.branches().standing(&access, &name("work")).unwrap().unwrap();
    assert_eq!((standing.parent, standing.to_branch, standing.pull), (None, name("main"), None));
    assert_eq!((standing.ahead.counted, standing.behind.counted), (1, 0));
    let pull = world.open("work");
    assert_eq!(world.hub.branches().standing(&access, &name("work")).unwrap().unwrap().pull, Some(pull.number));
}

#[test]
fn a_branch_that_was_just_written_is_proposed_for_an_hour() {
    let world = world();
    let recent = |viewer: &Caller| {
        let found = world.hub.branches().recent_push(&world.access::<Read>(viewer)).unwrap();
        found.map(|push| push.branch.to_string())
    };
    assert_eq!(recent(&world.ada), None, "the default branch is not proposed");
    world.branch("empty", at("main")).unwrap();
    world.wrote("work", &insert(2));
    world.fakes.clock.advance_seconds(1);
    world.wrote("later", &insert(3));
    assert_eq!(recent(&world.ada), Some("later".to_owned()));
    assert_eq!(recent(&world.ben), None, "others wrote it");
    assert_eq!(recent(&Caller::Anonymous), None);
    let pull = world.open("later");
    assert_eq!(recent(&world.ada), Some("work".to_owned()), "a pull request is open for the other");
    let merge = world.hub.pulls().merge(&world.access::<Write>(&world.ada), pull.number, MergePull::default(), None);
    world.work();
    assert_eq!(world.outcome(merge.unwrap().id).pull, Some(pull.number));
    assert_eq!(recent(&world.ada), Some("work".to_owned()), "nothing of the merged branch is left to contribute");
    world.fakes.clock.advance_seconds(Branches::RECENT_SECONDS - 60);
    assert_eq!(recent(&world.ada), Some("work".to_owned()));
    world.fakes.clock.advance_seconds(120);
    assert_eq!(recent(&world.ada), None);
}
