//! The events of each cause and their order: the table of the hooks contract (§2.5), cause by cause.
//!
//! `B` = branch event, `P` = push, `R` = pull request event. A push event carries the branch's head before and after it.

use branchyard_domain::access::{Admin, Participate, Write};
use branchyard_domain::entities::{Event, EventKind, PullAction, Role, Visibility};
use branchyard_domain::usecases::{
    EditDatabase, EditPull, EditRelease, MergePull, NewHook, NewRelease, NewTag, WantedState,
};
use branchyard_domain::values::{LongText, PullNumber, RefName, Revision, Title};

use crate::harness::{DB, DomainHarness, create, name, person, user, world};
use crate::imports::import_of;
use crate::refs::at;

/// A cause: its name, its precondition, its action, and the expected events.
type Cause = (&'static str, fn(&DomainHarness), fn(&DomainHarness), &'static [&'static str]);

const INSERT: &str = "INSERT INTO t VALUES (7,'seven')";
const NOTHING: &str = "DELETE FROM t WHERE id = 99";
const FILE: &str = "id,a\n8,eight\n";
const NO_NEWS: &str = "id,a\n1,one\n";

const CAUSES: &[Cause] = &[
    ("a write that commits, on a branch that exists", nothing, |w| write(w, "main", "main", INSERT), &["P main"]),
    (
        "a write that commits, on a new branch",
        nothing,
        |w| write(w, "main", "new", INSERT),
        &["B Created branch new", "P new from main"],
    ),
    ("a write, then a merge", diverged, |w| write(w, "main", "work", INSERT), &["P work"]),
    ("a merge only, since the statements change nothing", diverged, |w| write(w, "main", "work", NOTHING), &["P work"]),
    (
        "a write and merge between the branches of an open pull, which stays open",
        |w| {
            diverged(w);
            w.open("main-copy");
        },
        |w| {
            write(w, "main-copy", "main", INSERT);
            assert!(pull_is_open(w));
        },
        &["P main"],
    ),
    ("a write that changes nothing", nothing, |w| write(w, "main", "main", NOTHING), &[]),
    (
        "a write that changes nothing, on a new branch",
        nothing,
        |w| write(w, "main", "new", NOTHING),
        &["B Created branch new"],
    ),
    ("an import onto a branch", nothing, |w| import(w, FILE, None), &["P main"]),
    (
        "an import with a pull",
        nothing,
        |w| import(w, FILE, Some("import")),
        &["B Created branch import", "P import from main", "R Opened by ada"],
    ),
    (
        "an import whose pull is open already",
        |w| import(w, FILE, Some("import")),
        |w| import(w, "id,a\n9,nine\n", Some("import")),
        &["P import"],
    ),
    (
        "an import that changes nothing",
        nothing,
        |w| {
            import(w, NO_NEWS, None);
            import(w, NO_NEWS, Some("import"));
            assert_eq!(w.head("import"), None, "no branch is left");
        },
        &[],
    ),
    ("a branch is created", nothing, |w| w.branch("new", at("main")).unwrap(), &["B Created branch new"]),
    (
        "a branch with an open pull is deleted",
        with_pull,
        |w| {
            w.hub.branches().delete(&w.access::<Write>(&w.ada), "work", None).unwrap();
            assert!(pull_is_open(w));
        },
        &["B Deleted branch work"],
    ),
    ("a pull is opened", with_work, |w| drop(w.open("work")), &["R Opened by ada"]),
    ("a pull is closed", with_pull, |w| set(w, WantedState::Closed), &["R Closed by ada"]),
    (
        "a pull is reopened",
        |w| {
            with_pull(w);
            set(w, WantedState::Closed);
        },
        |w| set(w, WantedState::Open),
        &["R Reopened by ada"],
    ),
    (
        "a pull is set to what it is, renamed, and talked about",
        with_pull,
        |w| {
            set(w, WantedState::Open);
            edit(w, EditPull { title: Some(Title::parse("Other").unwrap()), ..EditPull::default() });
            edit(w, EditPull { description: Some(LongText::parse("Why").unwrap()), ..EditPull::default() });
            let access = w.access::<Participate>(&w.ben);
            w.hub.pulls().comment(&access, PullNumber::FIRST, LongText::parse("Nice").unwrap(), None).unwrap();
        },
        &[],
    ),
    ("a pull is merged", with_pull, merge, &["P main", "R Merged by ada"]),
    (
        "a pull is merged whose source the base holds already",
        |w| {
            with_pull(w);
            write(w, "work", "main", NOTHING);
        },
        merge,
        &["R Merged by ada"],
    ),
    ("a push to the source of an open pull", with_pull, |w| write(w, "work", "work", INSERT), &["P work"]),
    (
        "tags and releases",
        nothing,
        |w| {
            let access = w.access::<Write>(&w.ada);
            let tag = NewTag { name: name("v1"), from: at("main"), message: None };
            let commit = w.hub.tags().create(&access, tag, None).unwrap().commit;
            let title = Title::parse("First").unwrap();
            let release =
                NewRelease { tag: name("v1"), title, commit: commit.into(), description: None, create_tag: false };
            w.hub.releases().create(&access, release, None).unwrap();
            let edit = EditRelease { title: Some(Title::parse("One").unwrap()), description: None };
            w.hub.releases().edit(&access, "v1", edit, None).unwrap();
            w.hub.releases().delete(&access, "v1", None).unwrap();
            w.hub.tags().delete(&access, "v1", None).unwrap();
        },
        &[],
    ),
    (
        "a fork",
        nothing,
        |w| {
            w.hub.operations().fork(&w.access::<Participate>(&w.ben), "ben", None).unwrap();
            w.work();
            let fork = w.access_to::<Participate>(&w.ben, ("ben", DB.1)).database().id;
            assert_eq!(w.transaction().events().list(fork, None, 9).unwrap(), []);
        },
        &[],
    ),
    (
        "databases, hooks and collaborators",
        nothing,
        |w| {
            let admin = w.access::<Admin>(&w.ada);
            create(&w.hub, &w.ada, ("ada", "other"), Visibility::Public);
            let edit = EditDatabase { visibility: Some(Visibility::Private), ..EditDatabase::default() };
            w.hub.databases().edit(&admin, edit, None).unwrap();
            let events = [branchyard_domain::entities::HookEvent::Push].into();
            let url = w.hub.hooks().address(&admin, "https://hook.test/").unwrap();
            let hook = NewHook { url, events, active: true };
            let hook = w.hub.hooks().create(&admin, hook, None).unwrap().view.hook.id;
            w.hub.hooks().rotate_secret(&admin, hook, None).unwrap();
            w.hub.hooks().delete(&admin, hook, None).unwrap();
            w.hub.collaborators().put(&admin, user(&w.ben), Role::Write).unwrap();
        },
        &[],
    ),
    (
        "operations that fail, one by a conflict, and one that is canceled",
        conflicting,
        |w| {
            write(w, "main", "main", "nonsense");
            write(w, "main", "work", INSERT);
            import(w, "id,nothing\n1,2\n", None);
            let waiting = w.queue("main", "new", INSERT);
            w.hub.operations().cancel(user(&w.ada), waiting.id, None).unwrap();
            w.work();
        },
        &[],
    ),
];

fn nothing(_: &DomainHarness) {}

fn write(world: &DomainHarness, from: &str, to: &str, statements: &str) {
    world.queue(from, to, statements);
    world.work();
}

fn import(world: &DomainHarness, file: &str, pull_branch: Option<&str>) {
    import_of(world, file, pull_branch);
    world.work();
}

fn with_work(world: &DomainHarness) {
    world.branch("work", at("main")).unwrap();
    write(world, "work", "work", "INSERT INTO t VALUES (2,'two')");
}

fn with_pull(world: &DomainHarness) {
    with_work(world);
    world.open("work");
}

/// `main` and `work` have both moved on; `main-copy` starts at the earlier head of `main`.
fn diverged(world: &DomainHarness) {
    with_work(world);
    world.branch("main-copy", at("main")).unwrap();
    write(world, "main-copy", "main-copy", "INSERT INTO t VALUES (4,'four')");
    write(world, "main", "main", "INSERT INTO t VALUES (3,'three')");
}

fn conflicting(world: &DomainHarness) {
    with_work(world);
    write(world, "work", "work", "UPDATE t SET a = 'theirs' WHERE id = 1");
    write(world, "main", "main", "UPDATE t SET a = 'ours' WHERE id = 1");
}

fn edit(world: &DomainHarness, edit: EditPull) {
    world.hub.pulls().edit(&world.access::<Participate>(&world.ada), PullNumber::FIRST, edit, None).unwrap();
}

fn set(world: &DomainHarness, state: WantedState) {
    edit(world, EditPull { state: Some(state), ..EditPull::default() });
}

fn merge(world: &DomainHarness) {
    let access = world.access::<Write>(&world.ada);
    world.hub.pulls().merge(&access, PullNumber::FIRST, MergePull::default(), None).unwrap();
    world.work();
}

fn pull_is_open(world: &DomainHarness) -> bool {
    let pull = world.transaction().pulls().get(world.db, PullNumber::FIRST).unwrap().unwrap();
    pull.state == branchyard_domain::entities::PullState::Open
}

#[test]
fn every_cause_has_its_events_in_order() {
    for (cause, prepare, act, expected) in CAUSES {
        let world = world();
        prepare(&world);
        let before = world.transaction().events().list(world.db, None, 1_000).unwrap();
        let main = world.head("main").unwrap();
        act(&world);
        let mut events = world.transaction().events().list(world.db, None, 1_000).unwrap();
        events.retain(|event| !before.contains(event));
        let told: Vec<String> = events.iter().map(|event| tell(&world, event, &main)).collect();
        assert_eq!(told, *expected, "{cause}");
        assert!(events.iter().all(|event| event.body.starts_with("ada/engines: ")), "{cause}");
    }
}

/// Each push event of a branch starts at the head of the previous one: none is missing and none is repeated.
#[test]
fn pushes_form_a_chain() {
    let world = world();
    diverged(&world);
    world.open("work");
    merge(&world);
    write(&world, "work", "main", INSERT);
    let mut at = std::collections::BTreeMap::<RefName, _>::new();
    for event in world.transaction().events().list(world.db, None, 1_000).unwrap() {
        if let EventKind::Push { branch, head, previous } = event.kind {
            assert_ne!(head, previous);
            if let Some(last) = at.insert(branch, head) {
                assert_eq!(last, previous);
            }
        }
    }
    for (branch, head) in at {
        assert_eq!(world.head(branch.as_str()), Some(head), "{branch}");
    }
}

/// The sender of a merge event is the user who requested the merge, not the author of the pull request.
#[test]
fn senders_and_authors() {
    let world = world();
    with_work(&world);
    let carl = person(&world.hub, "carl");
    let access = world.access::<Participate>(&carl);
    world.hub.pulls().open(&access, DomainHarness::new_pull(DB, "work", "main"), None).unwrap();
    merge(&world);
    let people = |event: Event| match event.kind {
        EventKind::Pull { author, sender, .. } => Some((author.to_string(), sender.to_string())),
        _ => None,
    };
    let people: Vec<_> =
        world.transaction().events().list(world.db, None, 99).unwrap().into_iter().filter_map(people).collect();
    let pair = |author: &str, sender: &str| (author.to_owned(), sender.to_owned());
    assert_eq!(people, [pair("carl", "carl"), pair("carl", "ada")]);
}

fn tell(world: &DomainHarness, event: &Event, main: &branchyard_domain::values::CommitHash) -> String {
    match &event.kind {
        EventKind::Push { branch, head, previous } => {
            assert_eq!(world.head(branch.as_str()).as_ref(), Some(head));
            let created = previous == main && branch.as_str() != "main";
            format!("P {branch}{}", if created { " from main" } else { "" })
        }
        EventKind::BranchCreated { branch } => format!("B Created branch {branch}"),
        EventKind::BranchDeleted { branch } => format!("B Deleted branch {branch}"),
        EventKind::Pull { action, sender, .. } => {
            let action: &PullAction = action;
            format!("R {action:?} by {sender}")
        }
        EventKind::Ping { hook } => format!("ping {hook}"),
    }
}

/// Creating a branch at a commit hash emits no push event either.
#[test]
fn a_branch_made_at_a_commit_is_a_branch_event() {
    let world = world();
    let head = world.head("main").unwrap();
    world.branch("old", Revision::Commit(head.into())).unwrap();
    assert_eq!(world.events().last().unwrap(), "+old");
}
