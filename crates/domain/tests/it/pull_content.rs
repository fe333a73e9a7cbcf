//! The content that pull requests show, to which users, and until when.

use branchyard_domain::access::{Admin, Caller, Participate, Write};
use branchyard_domain::entities::{Pull, PullHeads};
use branchyard_domain::entities::{PullHidden, PullState, Role, Visibility};
use branchyard_domain::errors::{AccessError, DatabaseError, NotShown, PullError, PullStateError};
use branchyard_domain::ports::{Durability, Engine as _, Metadata as _, WriteKeys};
use branchyard_domain::usecases::{
    EditDatabase, EditPull, MergePull, NewPull, PreviewStage, PullEdges, Refreshed, SqlWrite, WantedState,
};
use branchyard_domain::values::{CommitHash, DatabaseId, PullNumber};

use crate::harness::{DB, DomainHarness, name, person, user, world};

const FORK: (&str, &str) = ("ben", DB.1);

/// The default hub with Ben's private fork of Ada's public database, one row ahead of it.
struct Forked {
    world: DomainHarness,
    fork: DatabaseId,
    cleo: Caller,
}

impl std::ops::Deref for Forked {
    type Target = DomainHarness;

    fn deref(&self) -> &DomainHarness {
        &self.world
    }
}

fn forked() -> Forked {
    let world = world();
    let cleo = person(&world.hub, "cleo");
    let operation = world.hub.operations().fork(&world.access::<Participate>(&world.ben), "ben", None).unwrap();
    world.work();
    let (fork, _) = world.outcome(operation.id).database.unwrap();
    let forked = Forked { world, fork, cleo };
    forked.push("INSERT INTO t VALUES (5,'five')");
    forked.see(FORK, Visibility::Private).unwrap();
    forked
}

impl Forked {
    fn push(&self, statements: &str) -> CommitHash {
        let wanted = SqlWrite {
            from_branch: "main".to_owned(),
            to_branch: name("main"),
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

    fn see(&self, of: (&str, &str), visibility: Visibility) -> Result<(), DatabaseError> {
        let owner = if of == FORK { &self.ben } else { &self.ada };
        let edit = EditDatabase { visibility: Some(visibility), ..EditDatabase::default() };
        self.hub.databases().edit(&self.access_to::<Admin>(owner, of), edit, None).map(drop)
    }

    fn share(&self, with: &Caller, role: Role) {
        let mut tx = self.fakes.metadata.write(&WriteKeys::any()).unwrap();
        tx.collaborators().put(self.fork, user(with).id, role, self.hub.now()).unwrap();
        tx.commit(Durability::Synced).unwrap();
    }

    fn offer(&self, by: &Caller, publish: bool) -> Result<Pull, PullError> {
        let wanted = NewPull { publish, ..DomainHarness::new_pull(FORK, "main", "main") };
        self.hub.pulls().open(&self.access::<Participate>(by), wanted, None)
    }

    fn now(&self, pull: &Pull) -> Pull {
        self.hub.pulls().get(&self.access::<Participate>(&self.ada), pull.number).unwrap()
    }

    fn edges(&self, pull: &Pull) -> Result<PullEdges, PullError> {
        self.hub.pulls().edges(&self.access::<Participate>(&self.ada), &self.now(pull))
    }

    fn set(&self, by: &Caller, pull: &Pull, state: WantedState, publish: bool) -> Result<Pull, PullError> {
        let edit = EditPull { state: Some(state), publish, ..EditPull::default() };
        self.hub.pulls().edit(&self.access::<Participate>(by), pull.number, edit, None)
    }

    fn withdraw(&self, by: &Caller, pull: &Pull) -> Result<Pull, PullError> {
        let pulls = self.hub.pulls();
        pulls.withdraw(&pulls.withdrawable(by, DB.0, DB.1, pull.number)?, None)
    }

    /// Returns `true` if readers of the base can resolve the hash of the commit.
    fn is_named(&self, commit: &CommitHash) -> bool {
        let access = self.access::<Participate>(&self.ada);
        self.hub.sql().resolve(&access, Some(&commit.to_string())).is_ok()
    }

    fn assert_hidden(&self, pull: &Pull, commit: &CommitHash, why: NotShown) {
        assert!(matches!(self.edges(pull), Err(PullError::NotShown(reason)) if reason == why));
        let now = self.now(pull);
        assert!(matches!(now.state, PullState::Closed { .. }));
        assert_eq!(now.content.heads, None);
        assert!(!self.is_named(commit), "the commit can be named no more");
        let head = self.world.head("main").unwrap();
        self.refresh();
        assert!(!self.is_named(commit));
        assert_eq!(self.world.head("main"), Some(head));
    }
}

#[test]
fn a_reader_of_a_private_fork_cannot_publish_it() {
    let world = forked();
    assert!(matches!(world.offer(&world.cleo, true), Err(PullError::NoSuchSource)), "hidden");
    world.share(&world.cleo, Role::Read);
    for publish in [false, true] {
        assert!(matches!(world.offer(&world.cleo, publish), Err(PullError::SourceDenied)));
    }
    world.share(&world.cleo, Role::Write);
    assert!(matches!(world.offer(&world.cleo, false), Err(PullError::NeedsPublish)));
    let pull = world.offer(&world.cleo, true).unwrap();
    assert!(pull.content.is_published);
    // A pull request to a private base needs no consent.
    world.set(&world.cleo, &pull, WantedState::Closed, false).unwrap();
    world.world.invite(&world.cleo, Role::Read);
    world.see(DB, Visibility::Private).unwrap();
    assert!(!world.offer(&world.cleo, false).unwrap().content.is_published);
}

#[test]
fn opening_answers_at_once_and_the_commits_come_in_the_background() {
    let world = forked();
    let head = world.push("INSERT INTO t VALUES (6,'six')");
    let to = world.world.head("main").unwrap();
    let pull = world.offer(&world.ben, true).unwrap();
    assert_eq!(pull.content.heads, Some(PullHeads { from: head.clone(), to }));
    assert!(pull.content.fetch_due_at.is_some());
    assert!(world.fakes.engine.commit(world.db, &head).unwrap().is_none(), "nothing was fetched");
    assert!(matches!(world.edges(&pull), Err(PullError::Preparing)));
    assert!(!world.is_named(&head));
    assert!(matches!(world.hub.pulls().refresh_next(1), Ok(Some(Refreshed::Fetched))));
    assert!(world.hub.pulls().refresh_next(1).unwrap().is_none());
    assert_eq!(world.edges(&pull).unwrap().theirs, head);
    assert!(world.is_named(&head), "the pull names it");
    // Moves of the source coalesce into one fetch, of the newest head.
    world.push("INSERT INTO t VALUES (7,'seven')");
    let newest = world.push("INSERT INTO t VALUES (8,'eight')");
    assert_eq!(world.now(&pull).content.heads.unwrap().from, newest);
    assert!(matches!(world.edges(&pull), Err(PullError::Preparing)));
    assert!(matches!(world.hub.pulls().refresh_next(1), Ok(Some(Refreshed::Fetched))));
    assert!(world.hub.pulls().refresh_next(1).unwrap().is_none());
    assert_eq!(world.edges(&pull).unwrap().theirs, newest);
}

#[test]
fn a_merge_brings_the_head_up_to_date_by_itself() {
    let world = forked();
    let pull = world.offer(&world.ben, true).unwrap();
    let newest = world.push("INSERT INTO t VALUES (6,'six')");
    let ours = world.world.head("main").unwrap();
    let merge = world.hub.pulls().merge(&world.access::<Write>(&world.ada), pull.number, MergePull::default(), None);
    world.work();
    world.outcome(merge.unwrap().id);
    let merged = world.now(&pull);
    let PullState::Merged { source, .. } = &merged.state else { panic!("{merged:?}") };
    assert_eq!(*source, newest);
    assert_eq!(merged.content.heads, Some(PullHeads { from: newest, to: ours }));
    assert!(world.hub.pulls().refresh_next(1).unwrap().is_none(), "nothing is left to fetch");
}

#[test]
fn a_pull_within_a_database_follows_its_branch_at_once() {
    let world = forked();
    world.world.wrote("work", "INSERT INTO t VALUES (2,'two')");
    let pull = world.world.open("work");
    let newest = world.world.wrote("work", "INSERT INTO t VALUES (3,'three')");
    assert_eq!(world.edges(&pull).unwrap().theirs, newest);
    assert!(world.hub.pulls().refresh_next(1).unwrap().is_none());
    // A closed pull request keeps its content.
    world.set(&world.ada, &pull, WantedState::Closed, false).unwrap();
    world.world.wrote("work", "INSERT INTO t VALUES (4,'four')");
    assert_eq!(world.edges(&pull).unwrap().theirs, newest);
    world.set(&world.ada, &pull, WantedState::Open, false).unwrap();
    assert_ne!(world.edges(&pull).unwrap().theirs, newest);
}

#[test]
fn an_administrator_of_the_source_takes_back_what_a_pull_shows() {
    let world = forked();
    world.share(&world.cleo, Role::Write);
    let pull = world.offer(&world.cleo, true).unwrap();
    world.refresh();
    let head = world.edges(&pull).unwrap().theirs;
    for other in [&world.ada, &world.cleo] {
        assert!(matches!(world.withdraw(other, &pull), Err(PullError::NotSourceAdmin)));
    }
    let withdrawn = world.withdraw(&world.ben, &pull).unwrap();
    assert_eq!(withdrawn.content.hidden, Some(PullHidden::Withdrawn));
    world.assert_hidden(&pull, &head, NotShown::Withdrawn);
    assert_eq!(world.events().last().unwrap(), "pull 1 Closed by ben");
    let events = world.events().len();
    world.withdraw(&world.ben, &pull).unwrap();
    assert_eq!(world.events().len(), events, "there is nothing left to withdraw");
    assert!(matches!(
        world.set(&world.cleo, &pull, WantedState::Open, true),
        Err(PullError::NotShown(NotShown::Withdrawn))
    ));
    world.push("INSERT INTO t VALUES (9,'nine')");
    world.assert_hidden(&pull, &head, NotShown::Withdrawn);
}

#[test]
fn a_pull_can_be_withdrawn_from_a_base_that_is_hidden_and_not_once_it_is_merged() {
    let world = forked();
    let pull = world.offer(&world.ben, true).unwrap();
    world.see(DB, Visibility::Private).unwrap();
    let denied = world.withdraw(&world.cleo, &pull);
    assert!(matches!(denied, Err(PullError::Access(AccessError::NoSuchDatabase))), "nothing is revealed");
    let absent = world.hub.pulls().withdrawable(&world.ben, DB.0, DB.1, PullNumber::new(99).unwrap());
    assert!(matches!(absent, Err(PullError::Access(AccessError::NoSuchDatabase))));
    let anonymous = world.hub.pulls().withdrawable(&Caller::Anonymous, DB.0, DB.1, pull.number);
    assert!(matches!(anonymous, Err(PullError::Access(AccessError::SignInRequired))));
    assert!(!world.hub.pulls().withdrawable(&world.ben, DB.0, DB.1, pull.number).unwrap().sees_base);
    assert!(matches!(world.withdraw(&world.ben, &pull).unwrap().state, PullState::Closed { .. }));
    world.see(DB, Visibility::Public).unwrap();
    let pull = world.offer(&world.ben, true).unwrap();
    world.hub.pulls().merge(&world.access::<Write>(&world.ada), pull.number, MergePull::default(), None).unwrap();
    world.work();
    assert!(matches!(world.withdraw(&world.ben, &pull), Err(PullError::State(PullStateError::Merged))));
}

#[test]
fn deleting_a_source_hides_what_it_brought_and_no_merge_took() {
    let world = forked();
    let merged = world.offer(&world.ben, true).unwrap();
    world.hub.pulls().merge(&world.access::<Write>(&world.ada), merged.number, MergePull::default(), None).unwrap();
    world.work();
    let taken = world.edges(&merged).unwrap();
    world.push("INSERT INTO t VALUES (6,'six')");
    let closed = world.offer(&world.ben, true).unwrap();
    world.refresh();
    world.set(&world.ben, &closed, WantedState::Closed, false).unwrap();
    world.push("INSERT INTO t VALUES (7,'seven')");
    let open = world.offer(&world.ben, true).unwrap();
    world.refresh();
    let heads = [&closed, &open].map(|pull| world.edges(pull).unwrap().theirs);
    assert!(heads.iter().all(|head| world.is_named(head)));
    world.hub.databases().delete(&world.access_to::<Admin>(&world.ben, FORK), None).unwrap();
    world.assert_hidden(&closed, &heads[0], NotShown::HiddenWithSource);
    world.assert_hidden(&open, &heads[1], NotShown::HiddenWithSource);
    assert_eq!(world.edges(&merged).unwrap(), taken, "what a merge took stays");
    assert_eq!(world.events().last().unwrap(), "pull 3 Closed by ben");
    assert!(matches!(world.withdraw(&world.ben, &open), Err(PullError::NotSourceAdmin)));
}

#[test]
fn making_a_source_private_closes_its_pulls_elsewhere() {
    let world = forked();
    world.see(FORK, Visibility::Public).unwrap();
    let pull = world.offer(&world.ben, false).unwrap();
    world.refresh();
    let head = world.edges(&pull).unwrap().theirs;
    world.see(FORK, Visibility::Private).unwrap();
    world.assert_hidden(&pull, &head, NotShown::HiddenWithSource);
    assert!(matches!(
        world.set(&world.ben, &pull, WantedState::Open, true),
        Err(PullError::NotShown(NotShown::HiddenWithSource))
    ));
    assert!(world.offer(&world.ben, true).is_ok(), "a new one can be opened");
}

#[test]
fn making_a_base_public_closes_the_pulls_nobody_agreed_to_publish() {
    let world = forked();
    world.world.invite(&world.ben, Role::Read);
    world.see(DB, Visibility::Private).unwrap();
    let closed = world.offer(&world.ben, false).unwrap();
    world.refresh();
    world.set(&world.ben, &closed, WantedState::Closed, false).unwrap();
    let open = world.offer(&world.ben, false).unwrap();
    world.refresh();
    let head = world.edges(&open).unwrap().theirs;
    world.see(DB, Visibility::Public).unwrap();
    world.assert_hidden(&closed, &head, NotShown::HiddenWithSource);
    world.assert_hidden(&open, &head, NotShown::HiddenWithSource);
    world.see(DB, Visibility::Private).unwrap();
    let agreed = world.offer(&world.ben, true).unwrap();
    world.refresh();
    world.see(DB, Visibility::Public).unwrap();
    assert_eq!(world.edges(&agreed).unwrap().theirs, head);
    assert_eq!(world.now(&agreed).state, PullState::Open);
}

#[test]
fn reopening_asks_for_consent_anew() {
    let world = forked();
    world.world.invite(&world.ben, Role::Read);
    let pull = world.offer(&world.ben, true).unwrap();
    world.refresh();
    let head = world.edges(&pull).unwrap().theirs;
    world.see(DB, Visibility::Private).unwrap();
    world.set(&world.ben, &pull, WantedState::Closed, false).unwrap();
    let reopened = world.set(&world.ben, &pull, WantedState::Open, false).unwrap();
    assert!(!reopened.content.is_published);
    world.refresh();
    world.see(DB, Visibility::Public).unwrap();
    world.assert_hidden(&pull, &head, NotShown::HiddenWithSource);
}

#[test]
fn reopening_needs_what_opening_needs() {
    let world = forked();
    world.share(&world.cleo, Role::Write);
    let pull = world.offer(&world.cleo, true).unwrap();
    world.refresh();
    world.set(&world.ada, &pull, WantedState::Closed, false).unwrap();
    assert!(matches!(world.set(&world.ada, &pull, WantedState::Open, true), Err(PullError::SourceDenied)));
    assert!(matches!(world.set(&world.cleo, &pull, WantedState::Open, false), Err(PullError::NeedsPublish)));
    world.share(&world.cleo, Role::Read);
    assert!(matches!(world.set(&world.cleo, &pull, WantedState::Open, true), Err(PullError::SourceDenied)));
    world.share(&world.cleo, Role::Write);
    let newest = world.push("INSERT INTO t VALUES (6,'six')");
    assert_ne!(world.edges(&pull).unwrap().theirs, newest, "frozen while it is closed");
    world.set(&world.cleo, &pull, WantedState::Open, true).unwrap();
    world.refresh();
    assert_eq!(world.edges(&pull).unwrap().theirs, newest);
}

#[test]
fn a_fork_of_a_private_database_is_published_by_an_administrator_of_its_parent_only() {
    let world = forked();
    world.see(DB, Visibility::Private).unwrap();
    assert!(matches!(world.see(FORK, Visibility::Public), Err(DatabaseError::ParentPrivate)));
    world.world.invite(&world.ben, Role::Write);
    assert!(matches!(world.see(FORK, Visibility::Public), Err(DatabaseError::ParentPrivate)));
    world.world.invite(&world.ben, Role::Admin);
    world.see(FORK, Visibility::Public).unwrap();
    world.see(FORK, Visibility::Private).unwrap();
    world.world.invite(&world.ben, Role::Read);
    world.hub.databases().delete(&world.access::<Admin>(&world.ada), None).unwrap();
    assert!(matches!(world.see(FORK, Visibility::Public), Err(DatabaseError::ParentPrivate)), "as it was last");
}

#[test]
fn a_preview_across_forks_is_prepared_first_and_kept_for_ten_minutes() {
    let world = forked();
    let access = world.access::<Participate>(&world.ben);
    let from = (FORK.0.to_owned(), FORK.1.to_owned());
    let preview = || world.hub.pulls().preview(&access, &from, "main", "main").unwrap();
    let head = world.push("INSERT INTO t VALUES (6,'six')");
    assert!(preview().publishes);
    assert_eq!(preview().stage, PreviewStage::Unprepared);
    assert!(world.fakes.engine.commit(world.db, &head).unwrap().is_none(), "looking fetches nothing");
    for _ in 0..2 {
        world.hub.pulls().prepare(&access, &from, "main", "main").unwrap();
        assert_eq!(preview().stage, PreviewStage::Preparing);
    }
    world.fakes.clock.advance_seconds(601);
    assert_eq!(preview().stage, PreviewStage::Unprepared, "the preparation has run out");
    world.hub.pulls().prepare(&access, &from, "main", "main").unwrap();
    assert!(matches!(world.hub.pulls().refresh_next(1), Ok(Some(Refreshed::Fetched))));
    assert!(world.hub.pulls().refresh_next(1).unwrap().is_none(), "one job for one pair of commits");
    let PreviewStage::Ready(edges) = preview().stage else { panic!("{:?}", preview()) };
    assert_eq!(edges.theirs, head);
    assert!(!world.is_named(&head), "a preview makes nothing visible");
    world.share(&world.cleo, Role::Read);
    let cleo = world.access::<Participate>(&world.cleo);
    assert!(matches!(world.hub.pulls().prepare(&cleo, &from, "main", "main"), Err(PullError::SourceDenied)));
    for n in 1..20 {
        world.push(&format!("INSERT INTO t VALUES ({},'more')", 100 + n));
        world.hub.pulls().prepare(&access, &from, "main", "main").unwrap();
    }
    world.push("INSERT INTO t VALUES (200,'too many')");
    let refused = world.hub.pulls().prepare(&access, &from, "main", "main");
    assert!(matches!(refused, Err(PullError::TooManyPreviews)));
}

#[test]
fn a_fetch_that_fails_is_tried_again_later_and_survives_a_restart() {
    let world = forked();
    let pull = world.offer(&world.ben, true).unwrap();
    // This stands for a source file that cannot be read.
    world.fakes.engine.remove(world.fork).unwrap();
    assert!(matches!(world.hub.pulls().refresh_next(1), Ok(Some(Refreshed::Failed(_)))));
    assert!(world.hub.pulls().refresh_next(1).unwrap().is_none(), "it waits");
    for seconds in [1, 2, 4] {
        world.fakes.clock.advance_seconds(seconds);
        assert!(matches!(world.hub.pulls().refresh_next(1), Ok(Some(Refreshed::Failed(_)))), "after {seconds} s");
        assert!(world.hub.pulls().refresh_next(1).unwrap().is_none());
    }
    assert!(matches!(world.edges(&pull), Err(PullError::Preparing)));
    assert_eq!(world.hub.pulls().recover().unwrap(), 1);
}
