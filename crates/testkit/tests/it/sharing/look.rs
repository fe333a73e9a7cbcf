//! Compares what a person reads with the model.

use std::collections::BTreeSet;

use branchyard_testkit::TestAnswer;
use serde_json::{Value, json};

use super::model::{Branch, Commit, Db, Effect, Model, OperationModel, Person, PullModel, PullState};
use super::stage::Story;

/// Something to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Look {
    Database(Db),
    Forks,
    Pulls,
    Pull(u32),
    Diff(u32),
    Tables(u32),
    Conflicts(u32),
    /// The rows at a branch.
    Rows(Db, Branch),
    /// The rows at a hash.
    At(Db, Commit),
    /// The rows at a hash, read through a table function on the default branch.
    Through(Db, Commit),
    HashOf(Db, Commit),
    /// The ancestors, as SQL and the API list them.
    Log(Db, Branch),
    History(Db, Branch),
    Commits(Db, Branch),
    Operations(Db),
    Operation(usize),
    /// A page or a response of API v1alpha1, which is only searched for what must not be in it.
    Page(String),
}

impl Look {
    /// Returns everything there is to read.
    pub(super) fn all(story: &Story<'_>) -> Vec<Self> {
        let model = &story.model;
        let mut all = vec![Self::Forks, Self::Pulls];
        for number in 1..=u32::try_from(model.pulls.len()).unwrap() {
            all.extend([Self::Pull(number), Self::Diff(number), Self::Tables(number), Self::Conflicts(number)]);
            let pull = format!("{}/pulls/{number}", story.locator(Db::Base));
            all.extend([Self::Page(format!("/{pull}")), Self::Page(format!("/{pull}/diff"))]);
            all.push(Self::Page(format!("/api/v1alpha1/{pull}")));
        }
        for db in model.dbs.keys().copied() {
            all.extend([Self::Database(db), Self::Operations(db)]);
            for branch in Branch::ALL {
                all.extend([Self::Rows(db, branch), Self::Log(db, branch), Self::History(db, branch)]);
                all.push(Self::Commits(db, branch));
            }
            let with_table = model.commits.iter().enumerate().filter(|(_, commit)| commit.rows.is_some());
            for (commit, state) in with_table {
                all.extend([Self::At(db, commit), Self::Through(db, commit), Self::HashOf(db, commit)]);
                all.push(Self::Page(format!("/{}/commits/{}", story.locator(db), state.hash)));
            }
            let locator = story.locator(db);
            let below = ["", "/pulls", "/commits", "/operations", "/forks", "/branches"];
            all.extend(below.map(|below| Self::Page(format!("/{locator}{below}"))));
            all.extend(["", "/pulls", "/jobs", "/branches"].map(|b| Self::Page(format!("/api/v1alpha1/{locator}{b}"))));
        }
        for (at, operation) in model.operations.iter().enumerate() {
            let (locator, id) = (story.locator(operation.db), operation.id.rsplit('/').next().unwrap());
            all.extend(["operations", "sql/writes"].map(|below| Self::Page(format!("/{locator}/{below}/{id}"))));
            all.push(Self::Operation(at));
        }
        all.extend(["/", "/explore", "/ada", "/ben"].map(|page| Self::Page(page.to_owned())));
        all
    }
}

impl Story<'_> {
    /// Reads something as a person. Returns an error that says how the response differs from the model.
    pub(super) fn look(&self, who: Person, look: &Look) -> Result<(), String> {
        let answer = self.ask(who, look);
        let context =
            |what: String| format!("{who:?} {look:?}: {what}\nthe answer is {}: {}", answer.status, answer.text);
        self.check(who, look, &answer).map_err(context)?;
        self.nothing_else(who, look, &answer.text).map_err(context)
    }

    fn ask(&self, who: Person, look: &Look) -> TestAnswer {
        let get = |path: String| self.stage.actor(who).get(&path);
        let base = self.path(Db::Base);
        let sql = |db: Db, at: &str, q: String| {
            self.stage.actor(who).post(&format!("{}/sql", self.path(db)), &json!({"ref": at, "q": q}))
        };
        let hash = |commit: &Commit| self.model.commits[*commit].hash.as_str();
        let rows = |table: String| format!("SELECT mark FROM {table} ORDER BY id");
        match look {
            Look::Database(db) => get(self.path(*db)),
            Look::Forks => get(format!("{base}/forks")),
            Look::Pulls => get(format!("{base}/pulls")),
            Look::Pull(number) => get(format!("{base}/pulls/{number}")),
            Look::Diff(number) => get(format!("{base}/pulls/{number}/diff")),
            Look::Tables(number) => get(format!("{base}/pulls/{number}/diff/tables")),
            Look::Conflicts(number) => get(format!("{base}/pulls/{number}/conflicts")),
            Look::Rows(db, branch) => sql(*db, branch.name(), rows("t".to_owned())),
            Look::At(db, commit) => sql(*db, hash(commit), rows("t".to_owned())),
            Look::Through(db, commit) => sql(*db, "main", rows(format!("dolt_at_t('{}')", hash(commit)))),
            Look::HashOf(db, commit) => sql(*db, "main", format!("SELECT dolt_hashof('{}')", hash(commit))),
            Look::Log(db, branch) => sql(*db, branch.name(), "SELECT commit_hash FROM dolt_log".to_owned()),
            Look::History(db, branch) => {
                sql(*db, branch.name(), "SELECT DISTINCT commit_hash FROM dolt_history_t".to_owned())
            }
            Look::Commits(db, branch) => get(format!("{}/commits?ref={}", self.path(*db), branch.name())),
            Look::Operations(db) => get(format!("{}/operations", self.path(*db))),
            Look::Operation(at) => get(format!("/operations/{}", self.model.operations[*at].id)),
            Look::Page(path) => self.stage.page(who, path),
        }
    }

    fn check(&self, who: Person, look: &Look, answer: &TestAnswer) -> Result<(), String> {
        let model = &self.model;
        let expect = |status: u16| equal("the status", answer.status, status);
        let db = match look {
            Look::Database(db)
            | Look::Rows(db, _)
            | Look::At(db, _)
            | Look::Through(db, _)
            | Look::HashOf(db, _)
            | Look::Log(db, _)
            | Look::History(db, _)
            | Look::Commits(db, _)
            | Look::Operations(db) => *db,
            Look::Operation(at) => return self.check_operation(who, &model.operations[*at], answer),
            Look::Page(_) if answer.status >= 500 => return Err("a fault".to_owned()),
            Look::Page(_) => return Ok(()),
            _ => Db::Base,
        };
        let Some(role) = model.role(who, db) else { return expect(404) };
        let head = |branch: &Branch| model.dbs[&db].branches.get(branch).copied();
        let hashes = |of: BTreeSet<Commit>| of.into_iter().map(|c| model.commits[c].hash.clone()).collect();
        match look {
            Look::Database(_) => {
                expect(200)?;
                let data = answer.data();
                equal("the role", data["viewer_role"].as_str(), Some(role.name()))?;
                let shows_parent = db != Db::Base && model.role(who, Db::Base).is_some();
                equal("whether there is a parent", data.get("parent").is_some(), shows_parent)
            }
            Look::Forks => {
                expect(200)?;
                let forks = [Db::Fork, Db::Copy].into_iter().filter(|db| model.role(who, *db).is_some());
                let forks: BTreeSet<String> = forks.map(|db| db.owner().name().to_owned()).collect();
                equal("the forks", texts(&answer.data(), "owner"), forks)
            }
            Look::Pulls => {
                expect(200)?;
                let mut pulls: Vec<(u64, &str)> = (1..).zip(model.pulls.iter().map(state)).collect();
                pulls.reverse();
                let data = answer.data();
                let found = data.as_array().unwrap().iter();
                let found = found.map(|p| (p["pull_number"].as_u64().unwrap(), p["state"].as_str().unwrap()));
                equal("the pulls", found.collect::<Vec<_>>(), pulls)
            }
            Look::Pull(number) => {
                expect(200)?;
                let (pull, data) = (model.pull(*number).unwrap(), answer.data());
                equal("the state", data["state"].as_str(), Some(state(pull)))?;
                let hash = |at: Option<Commit>| at.map(|commit| model.commits[commit].hash.as_str());
                equal("from", data["from_commit_sha"].as_str(), hash(pull.heads.map(|(from, _)| from)))?;
                equal("to", data["to_commit_sha"].as_str(), hash(pull.heads.map(|(_, to)| to)))?;
                equal("the source", data["from_branch"]["database"]["owner"].as_str(), Some(pull.from.0.owner().name()))
            }
            Look::Diff(number) | Look::Tables(number) | Look::Conflicts(number) => {
                self.check_difference(look, model.pull(*number).unwrap(), answer)
            }
            Look::Rows(_, branch) => match head(branch) {
                None => expect(404),
                Some(head) => self.has_rows(answer, model.commits[head].rows.as_ref().unwrap()),
            },
            Look::At(_, commit) if !model.reachable(db).contains(commit) => expect(404),
            Look::At(_, commit) => self.has_rows(answer, model.commits[*commit].rows.as_ref().unwrap()),
            Look::Through(_, commit) | Look::HashOf(_, commit) if !model.reachable(db).contains(commit) => {
                expect(200)?;
                equal("the status of the query", answer.data()["status"].as_str(), Some("error"))
            }
            Look::Through(_, commit) => self.has_rows(answer, model.commits[*commit].rows.as_ref().unwrap()),
            Look::HashOf(_, commit) => {
                expect(200)?;
                equal("the hash", answer.data()["rows"].clone(), json!([[model.commits[*commit].hash]]))
            }
            Look::Log(_, branch) | Look::History(_, branch) | Look::Commits(_, branch) => {
                let Some(head) = head(branch) else { return expect(404) };
                expect(200)?;
                let mut history = model.history(head);
                if matches!(look, Look::History(..)) {
                    history.retain(|commit| model.commits[*commit].rows.is_some());
                }
                let found = match look {
                    Look::Commits(..) => texts(&answer.data(), "sha"),
                    _ => cells(&answer.data()).into_iter().collect(),
                };
                equal("the commits", found, hashes(history))
            }
            Look::Operations(_) => {
                expect(200)?;
                let data = answer.data();
                let expected: Vec<&OperationModel> = model.operations.iter().filter(|o| o.db == db).collect();
                let ids = expected.iter().map(|operation| operation.id.clone()).collect();
                equal("the operations", texts(&data, "id"), ids)?;
                expected.iter().try_for_each(|operation| {
                    let found = data.as_array().unwrap().iter().find(|found| found["id"] == operation.id.as_str());
                    self.has_result(who, operation, found.unwrap())
                })
            }
            Look::Operation(_) | Look::Page(_) => unreachable!("answered above"),
        }
    }

    fn check_difference(&self, look: &Look, pull: &PullModel, answer: &TestAnswer) -> Result<(), String> {
        let Some(rows) = self.model.difference(pull) else { return equal("the status", answer.status, 422) };
        equal("the status", answer.status, 200)?;
        let data = answer.data();
        let items = data.as_array().unwrap();
        match look {
            Look::Diff(_) => {
                let marks: BTreeSet<String> = rows.iter().map(|row| self.mark(*row)).collect();
                let found = items.iter().map(|item| item["to"]["mark"].as_str().unwrap_or("removed").to_owned());
                equal("the rows", found.collect(), marks)
            }
            Look::Tables(_) => {
                let counts = items.iter().map(|item| item["rows_added"].as_u64().unwrap());
                equal("the rows", counts.sum::<u64>(), u64::try_from(rows.len()).unwrap())
            }
            _ => equal("the conflicts", items.len(), 0),
        }
    }

    fn check_operation(&self, who: Person, operation: &OperationModel, answer: &TestAnswer) -> Result<(), String> {
        let status = match self.model.role(who, operation.db) {
            _ if who == Person::Anonymous => 401,
            None if who != operation.by => 404,
            _ => 200,
        };
        equal("the status", answer.status, status)?;
        if status == 200 { self.has_result(who, operation, &answer.data()) } else { Ok(()) }
    }

    /// §4.2: the result is omitted if its commit is no longer reachable, or if it is a fork that is hidden.
    fn has_result(&self, who: Person, operation: &OperationModel, found: &Value) -> Result<(), String> {
        let reachable = |commit: Commit| self.model.reachable(operation.db).contains(&commit);
        let hash = |commit: Commit| &self.model.commits[commit].hash;
        let expected = match operation.effect {
            Effect::Write(commit) => reachable(commit).then(|| json!({"commit_sha": hash(commit)})),
            Effect::Merge(pull, commit) => {
                reachable(commit).then(|| json!({"pull_id": pull, "commit_sha": hash(commit)}))
            }
            Effect::Fork(fork) => self
                .model
                .role(who, fork)
                .map(|_| json!({"database": {"owner": fork.owner().name(), "name": self.name}})),
        };
        equal(&format!("the result of {}", operation.id), found.get("result"), expected.as_ref())
    }

    fn has_rows(&self, answer: &TestAnswer, rows: &BTreeSet<u32>) -> Result<(), String> {
        equal("the status", answer.status, 200)?;
        let expected: Vec<String> = rows.iter().map(|row| self.mark(*row)).collect();
        let data = answer.data();
        equal("the status of the query", data["status"].as_str(), Some("success"))?;
        equal("the rows", cells(&data), expected)
    }

    /// Checks that a response contains no hash and no row that the person cannot read anywhere.
    fn nothing_else(&self, who: Person, look: &Look, text: &str) -> Result<(), String> {
        let model: &Model = &self.model;
        let mut readable = model.readable(who);
        // Users can read their own operations without a role on the database (§2.3).
        let own = model.operations.iter().filter(|operation| operation.by == who);
        readable.extend(own.filter_map(|operation| match operation.effect {
            Effect::Write(commit) | Effect::Merge(_, commit) => {
                model.reachable(operation.db).contains(&commit).then_some(commit)
            }
            Effect::Fork(_) => None,
        }));
        let asked = match look {
            Look::At(_, commit) | Look::Through(_, commit) | Look::HashOf(_, commit) => Some(*commit),
            _ => None,
        };
        let rows: BTreeSet<u32> =
            readable.iter().filter_map(|commit| model.commits[*commit].rows.as_ref()).flatten().copied().collect();
        for (commit, state) in model.commits.iter().enumerate() {
            let named = asked == Some(commit) || matches!(look, Look::Page(path) if path.contains(&state.hash));
            // Pages shorten hashes.
            if !readable.contains(&commit) && !named && text.contains(&state.hash[..8]) {
                return Err(format!("it names the commit {}", state.hash));
            }
        }
        match (1..model.next_row).find(|row| !rows.contains(row) && text.contains(&self.mark(*row))) {
            Some(row) => Err(format!("it shows the row {row}")),
            None => Ok(()),
        }
    }
}

fn state(pull: &PullModel) -> &'static str {
    match pull.state {
        PullState::Open => "open",
        PullState::Closed => "closed",
        PullState::Merged => "merged",
    }
}

fn texts(data: &Value, field: &str) -> BTreeSet<String> {
    data.as_array().unwrap().iter().map(|item| item[field].as_str().unwrap().to_owned()).collect()
}

/// Returns the first column of a query's result.
fn cells(data: &Value) -> Vec<String> {
    data["rows"].as_array().unwrap().iter().map(|row| row[0].as_str().unwrap().to_owned()).collect()
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found:?}, not {expected:?}")) }
}
