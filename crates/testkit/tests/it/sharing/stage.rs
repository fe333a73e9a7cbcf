//! The real server that the steps run on.

use std::time::{Duration, Instant};

use branchyard_domain::access::{Caller, Query};
use branchyard_domain::ports::PullFilter;
use branchyard_testkit::{Actor, Server, TestAnswer};
use reqwest::Method;
use serde_json::{Value, json};

use super::model::{Branch, Db, Model, Person, Step};

/// Far more time than the fetch of a few rows takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server with the four people, shared by many stories.
pub(super) struct Stage {
    pub(super) server: Server,
    people: Vec<(Person, Actor, String)>,
}

impl Stage {
    pub(super) fn new() -> Self {
        let server = Server::start();
        let people = Person::ALL.into_iter().map(|person| {
            if person == Person::Anonymous {
                return (person, server.anonymous(), String::new());
            }
            let actor = server.user(person.name());
            let user = server.hub().people().user_named(person.name()).unwrap();
            let client = branchyard_domain::usecases::Client { address: String::new(), user_agent: String::new() };
            let session = server.hub().sessions().open(user, client).unwrap();
            (person, actor, format!("branchyard_session={}", session.secret.expose()))
        });
        let people = people.collect();
        Self { server, people }
    }

    pub(super) fn actor(&self, who: Person) -> &Actor {
        &self.people.iter().find(|(person, ..)| *person == who).unwrap().1
    }

    /// Gets a page, or a path outside of API v2, as a person.
    pub(super) fn page(&self, who: Person, path: &str) -> TestAnswer {
        let (_, actor, cookie) = self.people.iter().find(|(person, ..)| *person == who).unwrap();
        let mut request = actor.plain(Method::GET, path);
        match actor.token().filter(|_| path.starts_with("/api/")) {
            Some(token) => request = request.bearer_auth(token),
            None if !cookie.is_empty() => request = request.header("Cookie", cookie),
            None => {}
        }
        actor.send(request)
    }
}

/// A story: its own databases on the stage, and their model.
pub(super) struct Story<'a> {
    pub(super) stage: &'a Stage,
    /// The name of the story's databases.
    pub(super) name: String,
    pub(super) model: Model,
}

impl<'a> Story<'a> {
    pub(super) fn new(stage: &'a Stage, name: String) -> Self {
        let ada = stage.actor(Person::Ada);
        ada.database(&name);
        let branch = ada.get(&format!("/databases/ada/{name}/branches/main")).expect(200).data();
        let genesis = branch["head_commit_sha"].as_str().unwrap().to_owned();
        Self { stage, name, model: Model::new(genesis) }
    }

    /// Returns the owner and name of a database, such as `ada/s1`.
    pub(super) fn locator(&self, db: Db) -> String {
        format!("{}/{}", db.owner().name(), self.name)
    }

    /// Returns the path of a database in API v2.
    pub(super) fn path(&self, db: Db) -> String {
        format!("/databases/{}", self.locator(db))
    }

    /// Returns the text in a row, which no other story contains.
    pub(super) fn mark(&self, row: u32) -> String {
        format!("<{}-{row}>", self.name).replace(['<', '>'], "z")
    }

    /// Performs a step on the server and in the model. Returns an error if they disagree about whether it is allowed.
    pub(super) fn perform(&mut self, step: &Step) -> Result<(), String> {
        let allowed = self.model.verdict(step);
        let answer = self.send(step);
        if !allowed.contains(&answer.status) {
            return Err(format!("{step:?} is answered {}, not {allowed:?}: {}", answer.status, answer.text));
        }
        if answer.status >= 300 {
            return Ok(());
        }
        self.model.apply(step);
        if answer.status == 202 {
            let by = match *step {
                Step::Push(who, ..) | Step::Merge(who, _) | Step::Fork(who) => who,
                _ => return Err(format!("{step:?} is answered 202")),
            };
            let operation = self.stage.actor(by).finish(&answer);
            if operation["status"] != "succeeded" {
                return Err(format!("{step:?} failed: {operation}"));
            }
            let id = operation["id"].as_str().unwrap().to_owned();
            let commit = operation["result"]["commit_sha"].as_str().map(str::to_owned);
            if commit.is_none() && !matches!(step, Step::Fork(_)) {
                return Err(format!("{step:?} made no commit: {operation}"));
            }
            self.model.learn(step, id, commit);
        }
        Ok(())
    }

    fn send(&self, step: &Step) -> TestAnswer {
        let base = self.path(Db::Base);
        let request = |who: Person, method: Method, path: &str, body: Option<Value>| {
            let actor = self.stage.actor(who);
            let request = actor.request(method, path);
            actor.send(match body {
                Some(body) => request.json(&body),
                None => request,
            })
        };
        let post = |who, path: &str, body| request(who, Method::POST, path, Some(body));
        let patch = |who, path: &str, body| request(who, Method::PATCH, path, Some(body));
        let seen = |public| if public { "public" } else { "private" };
        match *step {
            Step::Push(who, db, branch) => {
                let has = |branch| self.model.dbs[&db].branches.get(&branch).copied();
                let from = if has(branch).is_some() { branch } else { Branch::Main };
                let row = self.model.next_row;
                let mut q = format!("INSERT INTO t VALUES ({row}, '{}')", self.mark(row));
                if has(from).is_none_or(|head| self.model.commits[head].rows.is_none()) {
                    q = format!("CREATE TABLE t(id INTEGER PRIMARY KEY, mark TEXT); {q}");
                }
                let body = json!({"from_branch": from.name(), "to_branch": branch.name(), "q": q});
                post(who, &format!("{}/sql-writes", self.path(db)), body)
            }
            Step::DropBranch(who, db) => {
                request(who, Method::DELETE, &format!("{}/branches/work", self.path(db)), None)
            }
            Step::Open(who, db, branch, publish) => {
                let end = |db: Db, branch: Branch| json!({"database": {"owner": db.owner().name(), "name": self.name}, "branch_name": branch.name()});
                let (from, to) = (end(db, branch), end(Db::Base, Branch::Main));
                let body = json!({"title": "Ours", "from_branch": from, "to_branch": to, "publish": publish});
                post(who, &format!("{base}/pulls"), body)
            }
            Step::Close(who, number) => patch(who, &format!("{base}/pulls/{number}"), json!({"state": "closed"})),
            Step::Reopen(who, number, publish) => {
                patch(who, &format!("{base}/pulls/{number}"), json!({"state": "open", "publish": publish}))
            }
            Step::Withdraw(who, number) => post(who, &format!("{base}/pulls/{number}/withdraw"), json!({})),
            Step::Merge(who, number) => post(who, &format!("{base}/pulls/{number}/merge"), json!({})),
            Step::See(who, db, public) => patch(who, &self.path(db), json!({"visibility": seen(public)})),
            Step::Delete(who, db) => request(who, Method::DELETE, &self.path(db), None),
            Step::Share(who, db, whom, role) => {
                let path = format!("{}/collaborators/{}", self.path(db), whom.name());
                request(who, Method::PUT, &path, Some(json!({"role": role.name()})))
            }
            Step::Unshare(who, db, whom) => {
                request(who, Method::DELETE, &format!("{}/collaborators/{}", self.path(db), whom.name()), None)
            }
            Step::Fork(who) => post(who, &format!("{base}/forks"), json!({"owner": who.name()})),
        }
    }

    /// Waits until the commits of all pull requests are fetched.
    pub(super) fn settle(&self) -> Result<(), String> {
        if self.model.live(Db::Base).is_none() {
            return Ok(());
        }
        let hub = self.stage.server.hub();
        let ada = Caller::User(hub.people().user_named("ada").unwrap().into());
        let access = hub.databases().access::<Query>(&ada, "ada", &self.name).unwrap();
        let began = Instant::now();
        loop {
            let pulls = hub.pulls().list(&access, &PullFilter::default(), None, 1_000).unwrap();
            let Some(due) = pulls.iter().find(|pull| pull.content.fetch_due_at.is_some()) else { return Ok(()) };
            if began.elapsed() > PATIENCE {
                return Err(format!("pull {} is still not fetched", due.number));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
