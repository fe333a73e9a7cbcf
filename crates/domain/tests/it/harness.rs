//! A hub over the fakes with two users, and shorthands for frequent steps of tests.

use std::sync::Arc;
use std::time::Duration;

use branchyard_domain::Hub;
use branchyard_domain::access::{Caller, DatabaseAccess, Level, Participate, Query, Write};
use branchyard_domain::entities::{EventKind, Operation, OperationStatus, Outcome, Pull, Role, User, Visibility};
use branchyard_domain::ports::{CollectedRows, Durability, Metadata as _, ReadQuery, Transaction, WriteKeys};
use branchyard_domain::usecases::{Limits, NewDatabase, NewPull, NewUser, SqlWrite};
use branchyard_domain::values::{CommitHash, DatabaseId, DatabaseName, OperationId, OwnerName, RefName, Title};
use branchyard_domain_testing::fakes::{self, FakeHub};

pub(crate) const DB: (&str, &str) = ("ada", "engines");

pub(crate) struct DomainHarness {
    pub(crate) fakes: FakeHub,
    pub(crate) hub: Hub,
    pub(crate) ada: Caller,
    pub(crate) ben: Caller,
    pub(crate) db: DatabaseId,
}

pub(crate) fn user(caller: &Caller) -> &User {
    caller.user().unwrap()
}

pub(crate) fn name(text: &str) -> RefName {
    RefName::parse(text).unwrap()
}

/// Creates a hub with Ada, who owns the public database `ada/engines` with table `t`, and Ben, who has no role.
pub(crate) fn world() -> DomainHarness {
    world_with(Limits::default())
}

pub(crate) fn world_with(limits: Limits) -> DomainHarness {
    let fakes = fakes::hub_with(limits);
    let hub = fakes.hub.clone();
    let [ada, ben] = ["ada", "ben"].map(|name| person(&hub, name));
    let db = create(&hub, &ada, DB, Visibility::Public);
    let world = DomainHarness { fakes, hub, ada, ben, db };
    world.wrote("main", "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT); INSERT INTO t VALUES (1,'one')");
    world
}

pub(crate) fn person(hub: &Hub, name: &str) -> Caller {
    let wanted = NewUser {
        name: OwnerName::parse(name).unwrap(),
        email: format!("{name}@example.org"),
        display_name: None,
        password: None,
        is_admin: false,
    };
    Caller::User(Arc::new(hub.people().create_user(wanted).unwrap()))
}

pub(crate) fn new_database((owner, name): (&str, &str), visibility: Visibility) -> NewDatabase {
    let name = DatabaseName::parse(name).unwrap();
    NewDatabase { owner: owner.to_owned(), name, visibility, description: None, default_branch: None }
}

pub(crate) fn create(hub: &Hub, by: &Caller, locator: (&str, &str), visibility: Visibility) -> DatabaseId {
    hub.databases().create(user(by), new_database(locator, visibility), None).unwrap().database.id
}

impl DomainHarness {
    pub(crate) fn access<L: Level>(&self, caller: &Caller) -> DatabaseAccess<L> {
        self.access_to(caller, DB)
    }

    pub(crate) fn access_to<L: Level>(&self, caller: &Caller, (owner, name): (&str, &str)) -> DatabaseAccess<L> {
        self.hub.databases().access(caller, owner, name).unwrap()
    }

    pub(crate) fn transaction(&self) -> Box<dyn Transaction + '_> {
        self.fakes.metadata.read().unwrap()
    }

    pub(crate) fn invite(&self, who: &Caller, role: Role) {
        let mut tx = self.fakes.metadata.write(&WriteKeys::any()).unwrap();
        tx.collaborators().put(self.db, user(who).id, role, self.hub.now()).unwrap();
        tx.commit(Durability::Synced).unwrap();
    }

    /// Queues a write to `to`, which starts at `from` if it does not exist.
    pub(crate) fn queue(&self, from: &str, to: &str, statements: &str) -> Operation {
        self.queue_with(from, to, statements, None)
    }

    fn queue_with(&self, from: &str, to: &str, statements: &str, message: Option<&str>) -> Operation {
        let wanted = SqlWrite {
            from_branch: from.to_owned(),
            to_branch: name(to),
            statements: statements.to_owned(),
            message: message.map(str::to_owned),
            expected_head: None,
            start: None,
        };
        self.hub.operations().sql_write(&self.access::<Write>(&self.ada), wanted, None).unwrap()
    }

    /// Runs the queued operations, including retries after faults, until none is left.
    pub(crate) fn work(&self) {
        for _ in 0..30 {
            if let Ok(None) = self.hub.operations().run_next("worker") {
                return;
            }
        }
        panic!("there is no end of work");
    }

    /// Runs the due fetches of pull requests and previews, including retries after faults, until none is left.
    pub(crate) fn refresh(&self) {
        for _ in 0..30 {
            if self.hub.pulls().refresh_next(1).unwrap().is_none() {
                return;
            }
        }
        panic!("there is no end of fetches");
    }

    pub(crate) fn status(&self, id: OperationId) -> OperationStatus {
        self.transaction().operations().get(id).unwrap().unwrap().status
    }

    pub(crate) fn outcome(&self, id: OperationId) -> Outcome {
        match self.status(id) {
            OperationStatus::Succeeded(outcome) => outcome,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn failure(&self, id: OperationId) -> branchyard_domain::entities::OperationFailure {
        match self.status(id) {
            OperationStatus::Failed(failure) => failure,
            other => panic!("{other:?}"),
        }
    }

    /// Runs statements on a branch and asserts that they succeed.
    pub(crate) fn wrote(&self, branch: &str, statements: &str) -> CommitHash {
        let operation = self.queue(if self.head(branch).is_some() { branch } else { "main" }, branch, statements);
        self.work();
        self.outcome(operation.id).commit.unwrap()
    }

    /// Writes to a branch with a message, and returns the commit.
    pub(crate) fn wrote_with(&self, branch: &str, statements: &str, message: &str) -> CommitHash {
        let operation = self.queue_with(branch, branch, statements, Some(message));
        self.work();
        self.outcome(operation.id).commit.unwrap()
    }

    pub(crate) fn head(&self, branch: &str) -> Option<CommitHash> {
        self.transaction().branches().get(self.db, &name(branch)).unwrap().map(|branch| branch.head)
    }

    pub(crate) fn rows(&self, revision: &str) -> Vec<String> {
        self.rows_in(DB, revision)
    }

    pub(crate) fn rows_in(&self, locator: (&str, &str), revision: &str) -> Vec<String> {
        let access = self.access_to::<Query>(&self.ada, locator);
        let at = self.hub.sql().resolve(&access, Some(revision)).unwrap();
        let mut rows = CollectedRows::default();
        let query = ReadQuery::new("SELECT * FROM t ORDER BY id", Duration::from_secs(1));
        self.hub.sql().read(&access, &at, &query, &mut rows).unwrap();
        rows.lines()
    }

    pub(crate) fn events(&self) -> Vec<String> {
        self.events_of(self.db)
    }

    pub(crate) fn events_of(&self, database: DatabaseId) -> Vec<String> {
        let told = |kind: &EventKind| match kind {
            EventKind::Push { branch, .. } => format!("push {branch}"),
            EventKind::BranchCreated { branch } => format!("+{branch}"),
            EventKind::BranchDeleted { branch } => format!("-{branch}"),
            EventKind::Pull { number, action, sender, .. } => format!("pull {number} {action:?} by {sender}"),
            EventKind::Ping { hook } => format!("ping {hook}"),
        };
        let events = self.transaction().events().list(database, None, 1_000).unwrap();
        events.iter().map(|event| told(&event.kind)).collect()
    }

    pub(crate) fn new_pull(from: (&str, &str), from_branch: &str, to_branch: &str) -> NewPull {
        let locator = |(owner, name): (&str, &str)| (owner.to_owned(), name.to_owned());
        NewPull {
            title: Title::parse("A change").unwrap(),
            description: None,
            from_database: locator(from),
            from_branch: from_branch.to_owned(),
            to_database: locator(DB),
            to_branch: to_branch.to_owned(),
            publish: false,
        }
    }

    pub(crate) fn open(&self, from_branch: &str) -> Pull {
        let access = self.access::<Participate>(&self.ada);
        self.hub.pulls().open(&access, Self::new_pull(DB, from_branch, "main"), None).unwrap()
    }
}
