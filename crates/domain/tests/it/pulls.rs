//! The lifecycle of a pull request.

use std::collections::BTreeMap;

use branchyard_domain::access::{Participate, Write};
use branchyard_domain::entities::{FailureKind, ObjectKind, PullState, Role, Side};
use branchyard_domain::entities::{Operation, Pull, Visibility};
use branchyard_domain::errors::{PullError, PullStateError};
use branchyard_domain::ports::RowPage;
use branchyard_domain::usecases::{EditPull, GoneBranch, MergePull, PreviewStage, WantedState};
use branchyard_domain::values::{LongText, PullNumber, Title};

use crate::harness::{DB, DomainHarness, create, world};
use crate::refs::at;

impl DomainHarness {
    fn set(&self, pull: &Pull, state: WantedState) -> Result<Pull, PullError> {
        let edit = EditPull { state: Some(state), ..EditPull::default() };
        self.hub.pulls().edit(&self.access::<Participate>(&self.ada), pull.number, edit, None)
    }

    fn merge(&self, number: PullNumber, how: MergePull) -> Result<Operation, PullError> {
        self.hub.pulls().merge(&self.access::<Write>(&self.ada), number, how, None)
    }

    fn pull(&self, number: PullNumber) -> Pull {
        self.hub.pulls().get(&self.access::<Participate>(&self.ada), number).unwrap()
    }
}

fn with_work() -> DomainHarness {
    let world = world();
    world.branch("work", at("main")).unwrap();
    world.wrote("work", "INSERT INTO t VALUES (2,'two')");
    world
}

#[test]
fn opened_discussed_merged() {
    let world = with_work();
    let pull = world.open("work");
    assert_eq!((pull.number, &pull.state), (PullNumber::FIRST, &PullState::Open));
    let access = world.access::<Participate>(&world.ben);
    world.fakes.clock.advance_seconds(1);
    world.hub.pulls().comment(&access, pull.number, LongText::parse("Nice").unwrap(), None).unwrap();
    assert_eq!(world.hub.pulls().comments(&access, pull.number, None, 10).unwrap().len(), 1);
    let edges = world.hub.pulls().edges(&access, &pull).unwrap();
    assert_eq!(world.hub.pulls().changed_tables(&access, &edges).unwrap()[0].rows, Some((1, 0, 0)));
    let page = RowPage { after: None, limit: 5, bytes: 1 << 20 };
    assert_eq!(world.hub.pulls().changed_rows(&access, &edges, "t", &page).unwrap().rows.len(), 1);
    assert!(matches!(world.hub.pulls().changed_rows(&access, &edges, "u", &page), Err(PullError::NoSuchTable(_))));

    let merge = world.merge(pull.number, MergePull::default()).unwrap();
    assert!(matches!(world.merge(pull.number, MergePull::default()), Err(PullError::Merging(id)) if id == merge.id));
    assert!(matches!(world.set(&pull, WantedState::Closed), Err(PullError::Merging(_))));
    world.work();
    assert_eq!(world.outcome(merge.id).pull, Some(pull.number));
    assert_eq!(world.rows("main"), ["1|one", "2|two"]);
    let merged = world.pull(pull.number);
    let PullState::Merged { commit, base, source, .. } = &merged.state else { panic!("{merged:?}") };
    assert_eq!(Some(commit), world.head("main").as_ref());
    assert_eq!((base, source), (&edges.base, &edges.theirs));
    assert_eq!(world.hub.pulls().edges(&access, &merged).unwrap().base, edges.base, "pinned");
    for state in [WantedState::Open, WantedState::Closed] {
        assert!(matches!(world.set(&pull, state), Err(PullError::State(PullStateError::Merged))));
    }
    assert!(matches!(world.merge(pull.number, MergePull::default()), Err(PullError::State(PullStateError::Merged))));
    let expected = ["push main", "+work", "push work", "pull 1 Opened by ada", "push main", "pull 1 Merged by ada"];
    assert_eq!(world.events(), expected);
}

#[test]
fn what_a_pull_must_stand_between() {
    let world = with_work();
    create(&world.hub, &world.ben, ("ben", "other"), Visibility::Public);
    create(&world.hub, &world.ben, ("ben", "secret"), Visibility::Private);
    let open = |from, from_branch, to_branch| {
        world.hub.pulls().open(
            &world.access::<Participate>(&world.ada),
            DomainHarness::new_pull(from, from_branch, to_branch),
            None,
        )
    };
    assert!(matches!(open(DB, "main", "main"), Err(PullError::SameBranch)));
    assert!(matches!(open(DB, "gone", "main"), Err(PullError::NoSuchBranch { is_source: true, .. })));
    assert!(matches!(open(DB, "work", "gone"), Err(PullError::NoSuchBranch { is_source: false, .. })));
    assert!(matches!(open(("ben", "secret"), "main", "main"), Err(PullError::NoSuchSource)));
    assert!(matches!(open(("ben", "nothing"), "main", "main"), Err(PullError::NoSuchSource)));
    assert!(matches!(open(("ben", "other"), "main", "main"), Err(PullError::OtherNetwork(_))));
    let mut elsewhere = DomainHarness::new_pull(DB, "work", "main");
    elsewhere.to_database.1 = "other".to_owned();
    let refused = world.hub.pulls().open(&world.access::<Participate>(&world.ada), elsewhere, None);
    assert!(matches!(refused, Err(PullError::OtherTarget(_))));
    let first = open(("ADA", "ENGINES"), "work", "main").unwrap();
    assert!(matches!(open(DB, "work", "main"), Err(PullError::Duplicate(number)) if number == first.number));
    assert_eq!(open(DB, "main", "work").unwrap().number.get(), 2, "refused ones took no number");
}

#[test]
fn a_preview_says_what_opening_would_and_leaves_nothing_behind() {
    let world = with_work();
    let access = world.access::<Participate>(&world.ben);
    let preview = |from: (&str, &str), from_branch: &str| {
        let from = (from.0.to_owned(), from.1.to_owned());
        world.hub.pulls().preview(&access, &from, from_branch, "main")
    };
    let preview_of = preview(DB, "work").unwrap();
    assert!(!preview_of.publishes);
    let PreviewStage::Ready(edges) = preview_of.stage else { panic!("{preview_of:?}") };
    assert_eq!(world.hub.pulls().changed_tables(&access, &edges).unwrap()[0].rows, Some((1, 0, 0)));
    assert!(world.hub.pulls().conflicts(&access, &edges, None, 0, 1).unwrap().is_empty());
    assert!(matches!(preview(DB, "main"), Err(PullError::SameBranch)));
    assert!(matches!(preview(DB, "gone"), Err(PullError::NoSuchBranch { is_source: true, .. })));
    create(&world.hub, &world.ada, ("ada", "secret"), Visibility::Private);
    assert!(matches!(preview(("ada", "secret"), "main"), Err(PullError::NoSuchSource)));
    let pull = world.open("work");
    assert_eq!(pull.number, PullNumber::FIRST, "previews took no number");
    assert_eq!(world.hub.pulls().edges(&access, &pull).unwrap(), edges);
    assert!(matches!(preview(DB, "work"), Err(PullError::Duplicate(number)) if number == pull.number));
}

#[test]
fn closing_and_reopening() {
    let world = with_work();
    let first = world.open("work");
    world.set(&first, WantedState::Closed).unwrap();
    let events = world.events().len();
    let version = world.pull(first.number).version;
    world.set(&first, WantedState::Closed).unwrap();
    assert_eq!((world.events().len(), world.pull(first.number).version), (events, version), "nothing to do");
    assert!(matches!(world.merge(first.number, MergePull::default()), Err(PullError::State(PullStateError::Closed))));
    let second = world.open("work");
    assert!(
        matches!(world.set(&first, WantedState::Open), Err(PullError::Duplicate(number)) if number == second.number)
    );
    assert!(matches!(world.pull(first.number).state, PullState::Closed { .. }));
    world.set(&second, WantedState::Closed).unwrap();
    world.set(&first, WantedState::Open).unwrap();
    assert_eq!(world.events().last().unwrap(), "pull 1 Reopened by ada");
    world.set(&first, WantedState::Closed).unwrap();
    world.hub.branches().delete(&world.access::<Write>(&world.ada), "work", None).unwrap();
    assert!(matches!(world.set(&first, WantedState::Open), Err(PullError::BranchGone(_))));
}

#[test]
fn its_author_and_writers_edit_a_pull() {
    let world = with_work();
    let ben = world.access::<Participate>(&world.ben);
    let by_ada = world.open("work");
    let by_ben = world.hub.pulls().open(&ben, DomainHarness::new_pull(DB, "main", "work"), None).unwrap();
    let retitle = |title: &str| EditPull { title: Some(Title::parse(title).unwrap()), ..EditPull::default() };
    assert!(matches!(world.hub.pulls().edit(&ben, by_ada.number, retitle("x"), None), Err(PullError::NotYours)));
    assert_eq!(world.hub.pulls().edit(&ben, by_ben.number, retitle("y"), None).unwrap().title, "y");
    let changed = world.hub.pulls().edit(&ben, by_ben.number, retitle("z"), Some(&|pull| pull.title == "A change"));
    assert!(matches!(changed, Err(PullError::Changed)));
    world.invite(&world.ben, Role::Write);
    let ben = world.access::<Participate>(&world.ben);
    assert_eq!(world.hub.pulls().edit(&ben, by_ada.number, retitle("x"), None).unwrap().title, "x");
}

#[test]
fn a_merge_with_conflicts_changes_nothing_unless_a_side_wins() {
    let world = with_work();
    world.wrote("work", "UPDATE t SET a = 'theirs' WHERE id = 1");
    world.wrote("main", "UPDATE t SET a = 'ours' WHERE id = 1");
    let pull = world.open("work");
    let (head, events) = (world.head("main"), world.events());
    let access = world.access::<Participate>(&world.ada);
    let edges = world.hub.pulls().edges(&access, &pull).unwrap();
    assert_eq!(world.hub.pulls().conflicts(&access, &edges, None, 0, 10).unwrap().len(), 1);
    let merge = world.merge(pull.number, MergePull::default()).unwrap();
    world.work();
    let failure = world.failure(merge.id);
    assert_eq!((failure.kind, failure.detail.as_str()), (FailureKind::MergeConflict, "1 conflict in t"));
    assert_eq!((world.head("main"), world.events(), world.pull(pull.number).state), (head, events, PullState::Open));
    let resolve = BTreeMap::from([("t".to_owned(), Side::Theirs)]);
    let merge = world.merge(pull.number, MergePull { resolve, ..MergePull::default() }).unwrap();
    world.work();
    world.outcome(merge.id);
    assert_eq!(world.rows("main"), ["1|theirs", "2|two"]);
}

#[test]
fn a_fork_offers_its_changes_back() {
    let world = world();
    let fork = world.hub.operations().fork(&world.access::<Participate>(&world.ben), "ben", None).unwrap();
    world.work();
    let (fork_id, _) = world.outcome(fork.id).database.unwrap();
    let fork = ("ben", DB.1);
    let wanted = branchyard_domain::usecases::SqlWrite {
        from_branch: "main".to_owned(),
        to_branch: crate::harness::name("main"),
        statements: "INSERT INTO t VALUES (5,'five')".to_owned(),
        message: None,
        expected_head: None,
        start: None,
    };
    world.hub.operations().sql_write(&world.access_to::<Write>(&world.ben, fork), wanted, None).unwrap();
    world.work();
    world.wrote("main", "INSERT INTO t VALUES (6,'six')");
    let access = world.access::<Participate>(&world.ben);
    let pull = world.hub.pulls().open(&access, DomainHarness::new_pull(fork, "main", "main"), None).unwrap();
    assert!(matches!(world.hub.pulls().edges(&access, &pull), Err(PullError::Preparing)));
    world.refresh();
    let pull = world.pull(pull.number);
    let edges = world.hub.pulls().edges(&access, &pull).unwrap();
    assert_eq!(world.hub.pulls().changed_tables(&access, &edges).unwrap()[0].rows, Some((1, 0, 0)));
    let merge = world.merge(pull.number, MergePull::default()).unwrap();
    world.work();
    world.outcome(merge.id);
    assert_eq!(world.rows("main"), ["1|one", "5|five", "6|six"]);
    assert_eq!(world.rows_in(fork, "main"), ["1|one", "5|five"]);
    assert_eq!(world.events_of(fork_id), ["push main"]);

    let pull = world.hub.pulls().open(&access, DomainHarness::new_pull(fork, "main", "main"), None).unwrap();
    let admin = world.access_to::<branchyard_domain::access::Admin>(&world.ben, fork);
    world.hub.databases().delete(&admin, None).unwrap();
    assert!(matches!(world.merge(pull.number, MergePull::default()), Err(PullError::State(PullStateError::Closed))));
    assert_eq!(world.events().last().unwrap(), "pull 2 Closed by ben");
}

#[test]
fn a_pull_brings_the_triggers_that_it_adds_or_changes() {
    let world = with_work();
    let number = world.open("work").number;
    let access = world.access::<Participate>(&world.ben);
    let brings = || world.hub.pulls().brings(&access, &world.pull(number)).unwrap();
    assert_eq!(brings(), Some(Vec::new()));
    world.wrote("work", "CREATE TRIGGER tr AFTER INSERT ON t BEGIN UPDATE t SET a = 'x' WHERE id = 1; END");
    assert_eq!(brings(), Some(vec![ObjectKind::Trigger]));
    assert_eq!(brings(), Some(vec![ObjectKind::Trigger]), "also when it is remembered");
    let edges = world.hub.pulls().edges(&access, &world.pull(number)).unwrap();
    let changed = world.hub.pulls().changed_tables(&access, &edges).unwrap();
    assert_eq!(changed[0].objects[0].name, "tr");
    world.wrote("work", "DROP TRIGGER tr");
    assert_eq!(brings(), Some(Vec::new()), "what is taken back is not brought");
    world.hub.branches().delete(&world.access::<Write>(&world.ada), "work", None).unwrap();
    assert_eq!(brings(), None);
}

#[test]
fn a_closed_pull_is_reopened_once_its_source_branch_is_restored() {
    let world = with_work();
    let pull = world.open("work");
    let access = world.access::<Write>(&world.ada);
    let gone = || world.hub.pulls().gone_of_closed(&access, &world.pull(pull.number)).unwrap();
    assert_eq!(gone(), None, "it is open");
    let head = world.head("work").unwrap();
    world.set(&pull, WantedState::Closed).unwrap();
    assert_eq!(gone(), None, "its branches exist");
    world.hub.branches().delete(&access, "work", None).unwrap();
    assert_eq!(gone(), Some(GoneBranch::Source));
    assert!(matches!(world.set(&pull, WantedState::Open), Err(PullError::BranchGone(_))));
    world.hub.branches().restore_source_of(&access, &world.pull(pull.number)).unwrap();
    assert_eq!((world.head("work"), gone()), (Some(head), None));
    world.set(&pull, WantedState::Open).unwrap();
    assert_eq!(world.pull(pull.number).state, PullState::Open);
}
