//! The expected state, which the clients record outside the server.

use std::collections::{BTreeMap, BTreeSet};

/// The effect of an accepted operation if it succeeds.
#[derive(Debug, Clone)]
pub(super) enum Effect {
    /// Inserts a row with this mark by one push to this branch of `ada/d`.
    Row { mark: String, branch: String },
    /// Creates a table of this name by one push to `main`.
    Table(String),
    /// Merges the rows of the pull request's branch into `main` by one push.
    Merge { pull: i64, mark: String },
    /// Creates the database `d` of this owner.
    Fork(String),
}

/// A webhook event, without the commits it names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    Branch { name: String, action: String },
    Pull { number: i64, action: String },
}

/// How often a mark must exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Times {
    Exactly(usize),
    /// For a request without idempotency key whose answer was lost.
    AtMostOnce,
}

/// A token. `live` states whether the server must accept it. `secret` is `None` if the answer with the secret was lost.
#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) secret: Option<String>,
    pub(super) live: bool,
}

#[derive(Debug, Default)]
pub(super) struct Book {
    /// Accepted operations that are not known to be settled: id and effect.
    pub(super) accepted: Vec<(String, Effect)>,
    /// Settled operations and their state, which must never change.
    pub(super) settled: BTreeMap<String, String>,
    /// Marks on `main`.
    pub(super) rows: BTreeMap<String, Times>,
    /// Marks on branches that are not merged.
    pub(super) aside: BTreeMap<String, Times>,
    pub(super) tables: BTreeSet<String>,
    pub(super) branches: BTreeSet<String>,
    pub(super) tags: BTreeMap<String, String>,
    pub(super) releases: BTreeMap<String, String>,
    pub(super) tokens: BTreeMap<String, Token>,
    /// Names as `owner/name`.
    pub(super) databases: BTreeSet<String>,
    pub(super) hooks: BTreeSet<String>,
    /// State and number of comments by pull request number.
    pub(super) pulls: BTreeMap<i64, (String, usize)>,
    pub(super) events: BTreeMap<Event, usize>,
    /// Number of pushes by branch.
    pub(super) pushes: BTreeMap<String, usize>,
    /// Marks in the deployment.
    pub(super) deployed: BTreeMap<String, Times>,
}

impl Book {
    pub(super) fn accept(&mut self, id: String, effect: Effect) {
        self.accepted.push((id, effect));
    }

    pub(super) fn event(&mut self, event: Event) {
        *self.events.entry(event).or_default() += 1;
    }

    pub(super) fn branch(&mut self, name: &str, action: &str) {
        self.event(Event::Branch { name: name.to_owned(), action: action.to_owned() });
    }

    /// Records the outcome of an operation.
    pub(super) fn settle(&mut self, id: String, effect: Effect, succeeded: bool) {
        let state = if succeeded { "succeeded" } else { "failed" };
        if let Some(before) = self.settled.insert(id.clone(), state.to_owned()) {
            assert_eq!(before, state, "operation {id} was settled before");
            return;
        }
        let times = Times::Exactly(usize::from(succeeded));
        match effect {
            Effect::Row { mark, branch } => {
                let rows = if branch == "main" { &mut self.rows } else { &mut self.aside };
                rows.insert(mark, times);
                *self.pushes.entry(branch).or_default() += usize::from(succeeded);
            }
            Effect::Table(name) if succeeded => {
                self.tables.insert(name);
                *self.pushes.entry("main".to_owned()).or_default() += 1;
            }
            Effect::Merge { pull, mark } => {
                self.rows.insert(mark, times);
                if succeeded {
                    self.pulls.get_mut(&pull).unwrap().0 = "merged".to_owned();
                    self.event(Event::Pull { number: pull, action: "Merged".to_owned() });
                    *self.pushes.entry("main".to_owned()).or_default() += 1;
                }
            }
            Effect::Fork(owner) if succeeded => {
                self.databases.insert(format!("{owner}/d"));
            }
            Effect::Table(_) | Effect::Fork(_) => {}
        }
    }

    /// Returns the number of recorded promises.
    pub(super) fn promises(&self) -> usize {
        self.settled.len()
            + self.branches.len()
            + self.tags.len()
            + self.releases.len()
            + self.tokens.len()
            + self.hooks.len()
            + self.pulls.len()
            + self.events.values().sum::<usize>()
            + self.deployed.len()
    }
}
