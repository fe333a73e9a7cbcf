//! A second implementation of the rules for databases, branches, pull requests and their readers in the contract (v2 §2.3, §2.4, §3.4,
//! §3.8, §3.10).
//!
//! The model shares no code with the product, so both cannot be wrong for the same reason.

use std::collections::{BTreeMap, BTreeSet};

/// A caller. Ada owns the base and Ben its private fork. Cleo is at times a collaborator on both. Dan owns only a copy, which he makes
/// in the story.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Person {
    Ada,
    Ben,
    Cleo,
    Dan,
    Anonymous,
}

impl Person {
    pub(super) const ALL: [Self; 5] = [Self::Ada, Self::Ben, Self::Cleo, Self::Dan, Self::Anonymous];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ada => "ada",
            Self::Ben => "ben",
            Self::Cleo => "cleo",
            Self::Dan => "dan",
            Self::Anonymous => "anonymous",
        }
    }
}

/// A database: the base, Ben's fork of it, and Dan's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Db {
    Base,
    Fork,
    Copy,
}

impl Db {
    pub(super) const ALL: [Self; 3] = [Self::Base, Self::Fork, Self::Copy];

    pub(super) fn owner(self) -> Person {
        match self {
            Self::Base => Person::Ada,
            Self::Fork => Person::Ben,
            Self::Copy => Person::Dan,
        }
    }
}

/// A branch. `main` is the default branch of each database and cannot be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Branch {
    Main,
    Work,
}

impl Branch {
    pub(super) const ALL: [Self; 2] = [Self::Main, Self::Work];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Work => "work",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    Read,
    Write,
    Admin,
}

impl Role {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}

/// A step of a story. The first person is the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Adds a row on a branch. A missing branch is created from `main`.
    Push(Person, Db, Branch),
    /// Deletes the branch `work`.
    DropBranch(Person, Db),
    /// Opens a pull request from a branch to `main` of the base, with or without `publish`.
    Open(Person, Db, Branch, bool),
    Close(Person, u32),
    Reopen(Person, u32, bool),
    Withdraw(Person, u32),
    Merge(Person, u32),
    /// Makes a database public (`true`) or private.
    See(Person, Db, bool),
    Delete(Person, Db),
    /// Grants another person a role.
    Share(Person, Db, Person, Role),
    Unshare(Person, Db, Person),
    /// Forks the base. Ben does so before the story, Dan within it.
    Fork(Person),
}

/// A commit, as an index into [`Model::commits`].
pub(super) type Commit = usize;

#[derive(Debug, Clone)]
pub(super) struct CommitState {
    /// The hash that the server reported.
    pub(super) hash: String,
    parents: Vec<Commit>,
    /// The numbers of the rows in table `t`, or `None` if the table does not exist yet.
    pub(super) rows: Option<BTreeSet<u32>>,
}

#[derive(Debug, Clone)]
pub(super) struct DbState {
    pub(super) is_public: bool,
    pub(super) is_deleted: bool,
    parent: Option<Db>,
    pub(super) branches: BTreeMap<Branch, Commit>,
    roles: BTreeMap<Person, Role>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PullState {
    Open,
    Closed,
    Merged,
}

#[derive(Debug, Clone)]
pub(super) struct PullModel {
    author: Person,
    pub(super) from: (Db, Branch),
    is_published: bool,
    pub(super) state: PullState,
    /// The heads of source and target that the pull request shows, or `None` if they were withdrawn or hidden.
    pub(super) heads: Option<(Commit, Commit)>,
    /// The rows that the merge added.
    taken: Option<BTreeSet<u32>>,
}

#[derive(Debug, Clone)]
pub(super) struct OperationModel {
    /// The id that the server reported.
    pub(super) id: String,
    pub(super) db: Db,
    pub(super) by: Person,
    pub(super) effect: Effect,
}

/// The effect of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Write(Commit),
    Merge(u32, Commit),
    Fork(Db),
}

/// The state of a story.
#[derive(Debug, Clone)]
pub(super) struct Model {
    pub(super) dbs: BTreeMap<Db, DbState>,
    pub(super) commits: Vec<CommitState>,
    pub(super) pulls: Vec<PullModel>,
    pub(super) operations: Vec<OperationModel>,
    pub(super) next_row: u32,
}

/// The statuses that the contract allows for a step. It has more than one if the contract does not fix the order of two checks.
pub(super) type Verdict = Vec<u16>;

fn refuse(status: u16) -> Result<(), Verdict> {
    Err(vec![status])
}

impl Model {
    /// Creates Ada's public database with one commit that has no table.
    pub(super) fn new(genesis: String) -> Self {
        let first = CommitState { hash: genesis, parents: Vec::new(), rows: None };
        let base = DbState {
            is_public: true,
            is_deleted: false,
            parent: None,
            branches: [(Branch::Main, 0)].into(),
            roles: BTreeMap::new(),
        };
        Self {
            dbs: [(Db::Base, base)].into(),
            commits: vec![first],
            pulls: Vec::new(),
            operations: Vec::new(),
            next_row: 1,
        }
    }

    pub(super) fn live(&self, db: Db) -> Option<&DbState> {
        self.dbs.get(&db).filter(|state| !state.is_deleted)
    }

    /// Returns the role of a person on a database, or `None` if there is none or the database is deleted.
    pub(super) fn role(&self, who: Person, db: Db) -> Option<Role> {
        self.live(db).and_then(|state| Self::role_in(who, db, state))
    }

    fn role_in(who: Person, db: Db, state: &DbState) -> Option<Role> {
        if who == Person::Anonymous {
            return state.is_public.then_some(Role::Read);
        }
        if db.owner() == who {
            return Some(Role::Admin);
        }
        state.roles.get(&who).copied().max(state.is_public.then_some(Role::Read))
    }

    pub(super) fn pull(&self, number: u32) -> Option<&PullModel> {
        self.pulls.get(usize::try_from(number).ok()?.checked_sub(1)?)
    }

    fn pull_mut(&mut self, number: u32) -> &mut PullModel {
        &mut self.pulls[usize::try_from(number).unwrap() - 1]
    }

    /// Returns a commit and all its ancestors.
    pub(super) fn history(&self, of: Commit) -> BTreeSet<Commit> {
        let mut found = BTreeSet::new();
        let mut next = vec![of];
        while let Some(commit) = next.pop() {
            if found.insert(commit) {
                next.extend(&self.commits[commit].parents);
            }
        }
        found
    }

    /// Returns the commits that exist in a database, which are those that its branches and pull requests reach.
    pub(super) fn reachable(&self, db: Db) -> BTreeSet<Commit> {
        let Some(state) = self.live(db) else { return BTreeSet::new() };
        let mut heads: Vec<Commit> = state.branches.values().copied().collect();
        if db == Db::Base {
            heads.extend(self.pulls.iter().filter_map(|pull| pull.heads).flat_map(|(from, to)| [from, to]));
        }
        heads.into_iter().flat_map(|head| self.history(head)).collect()
    }

    /// Returns the commits whose rows a person can read in some database.
    pub(super) fn readable(&self, who: Person) -> BTreeSet<Commit> {
        Db::ALL.into_iter().filter(|db| self.role(who, *db).is_some()).flat_map(|db| self.reachable(db)).collect()
    }

    /// Returns `true` if the source branch of a pull request exists. Its target, `main` of the base, cannot be deleted.
    fn has_branches(&self, pull: &PullModel) -> bool {
        self.live(pull.from.0).is_some_and(|source| source.branches.contains_key(&pull.from.1))
    }

    /// Returns the rows that a pull request adds, or `None` if it shows no diff.
    pub(super) fn difference(&self, pull: &PullModel) -> Option<BTreeSet<u32>> {
        let (from, to) = pull.heads?;
        let target = match pull.state {
            PullState::Merged => return pull.taken.clone(),
            PullState::Closed => to,
            PullState::Open if self.has_branches(pull) => self.dbs[&Db::Base].branches[&Branch::Main],
            PullState::Open => return None,
        };
        Some(self.added(from, target))
    }

    /// Returns the rows added between the merge base of two commits and the first of them. Rows are never deleted.
    fn added(&self, from: Commit, to: Commit) -> BTreeSet<u32> {
        let rows = |commit: Commit| self.commits[commit].rows.clone().unwrap_or_default();
        let of_target = self.history(to);
        let shared = self.history(from).into_iter().filter(|commit| of_target.contains(commit));
        let base = shared.max_by_key(|commit| rows(*commit).len()).map(rows).unwrap_or_default();
        rows(from).difference(&base).copied().collect()
    }

    /// Returns the statuses that the server may answer a step with, without applying the step.
    pub(super) fn verdict(&self, step: &Step) -> Verdict {
        match (self.check(step), step) {
            (Err(refused), _) => refused,
            (Ok(()), Step::Push(..) | Step::Merge(..) | Step::Fork(..)) => vec![202],
            (Ok(()), Step::Open(..)) => vec![201],
            (Ok(()), Step::Share(_, db, whom, _)) => {
                vec![if self.dbs[db].roles.contains_key(whom) { 200 } else { 201 }]
            }
            (Ok(()), _) => vec![200],
        }
    }

    /// §2.3 and §2.4: 401 without a credential, 404 if the database is hidden, 403 if the role is too low.
    fn needs(&self, who: Person, db: Db, least: Role) -> Result<(), Verdict> {
        match self.role(who, db) {
            _ if who == Person::Anonymous => refuse(401),
            None => refuse(404),
            Some(role) if role < least => refuse(403),
            Some(_) => Ok(()),
        }
    }

    fn check(&self, step: &Step) -> Result<(), Verdict> {
        match *step {
            Step::Push(who, db, _) => self.needs(who, db, Role::Write),
            Step::DropBranch(who, db) => {
                self.needs(who, db, Role::Read)?;
                if !self.dbs[&db].branches.contains_key(&Branch::Work) {
                    return refuse(404);
                }
                self.needs(who, db, Role::Write)
            }
            Step::Open(who, db, branch, publish) => self.check_open(who, (db, branch), publish),
            Step::Close(who, number) => {
                let pull = self.editable(who, number)?;
                if pull.state == PullState::Merged { refuse(400) } else { Ok(()) }
            }
            Step::Reopen(who, number, publish) => self.check_reopen(who, number, publish),
            Step::Withdraw(who, number) => self.check_withdraw(who, number),
            Step::Merge(who, number) => {
                // The pull request of the path is looked up before the role is checked (§2.5).
                self.needs(who, Db::Base, Role::Read)?;
                let Some(pull) = self.pull(number) else { return refuse(404) };
                self.needs(who, Db::Base, Role::Write)?;
                if pull.state == PullState::Open && self.has_branches(pull) { Ok(()) } else { refuse(422) }
            }
            Step::See(who, db, public) => {
                self.needs(who, db, Role::Admin)?;
                let state = &self.dbs[&db];
                let guarded = state.parent.map(|parent| (parent, &self.dbs[&parent])).filter(|(_, p)| !p.is_public);
                match guarded {
                    // For a deleted parent, its last visibility and its last administrators count.
                    Some((parent, of)) if public && !state.is_public => {
                        if Self::role_in(who, parent, of) == Some(Role::Admin) { Ok(()) } else { refuse(422) }
                    }
                    _ => Ok(()),
                }
            }
            Step::Delete(who, db) => self.needs(who, db, Role::Admin),
            Step::Share(who, db, whom, _) => {
                self.needs(who, db, Role::Admin)?;
                if db.owner() == whom { refuse(422) } else { Ok(()) }
            }
            Step::Unshare(who, db, whom) => {
                let is_there = self.live(db).is_some_and(|state| state.roles.contains_key(&whom));
                match self.needs(who, db, Role::Admin) {
                    // Collaborators may remove themselves.
                    Err(refused) if refused == [403] && who == whom => {
                        if is_there {
                            Ok(())
                        } else {
                            Err(vec![403, 404])
                        }
                    }
                    Err(refused) => Err(refused),
                    Ok(()) if is_there => Ok(()),
                    Ok(()) => refuse(404),
                }
            }
            Step::Fork(who) => {
                self.needs(who, Db::Base, Role::Read)?;
                let taken = Db::ALL.into_iter().any(|db| db.owner() == who && self.live(db).is_some());
                if taken { refuse(422) } else { Ok(()) }
            }
        }
    }

    /// §2.3: a private source other than the base needs the write role on it. §3.10: a public base needs consent as well.
    fn check_open(&self, who: Person, from: (Db, Branch), publish: bool) -> Result<(), Verdict> {
        self.needs(who, Db::Base, Role::Read)?;
        if from == (Db::Base, Branch::Main) {
            return refuse(400);
        }
        let source = match self.live(from.0) {
            Some(source) if self.role(who, from.0).is_some() => source,
            _ => return refuse(404),
        };
        let denied = from.0 != Db::Base && !source.is_public && self.role(who, from.0) < Some(Role::Write);
        match (denied, source.branches.contains_key(&from.1)) {
            (true, true) => return refuse(403),
            (false, false) => return refuse(404),
            (true, false) => return Err(vec![403, 404]),
            (false, true) => {}
        }
        if self.rival(from, None) {
            return refuse(409);
        }
        if self.publishes(from.0) && !publish { refuse(422) } else { Ok(()) }
    }

    fn publishes(&self, source: Db) -> bool {
        source != Db::Base && !self.dbs[&source].is_public && self.dbs[&Db::Base].is_public
    }

    fn rival(&self, from: (Db, Branch), but: Option<u32>) -> bool {
        let mut others = (1..).zip(&self.pulls).filter(|(number, _)| Some(*number) != but);
        others.any(|(_, pull)| pull.state == PullState::Open && pull.from == from)
    }

    /// Returns a pull request if the person may edit it: its author, or a writer of the base.
    fn editable(&self, who: Person, number: u32) -> Result<&PullModel, Verdict> {
        self.needs(who, Db::Base, Role::Read)?;
        let Some(pull) = self.pull(number) else { return Err(vec![404]) };
        if pull.author != who && self.role(who, Db::Base) < Some(Role::Write) {
            return Err(vec![403]);
        }
        Ok(pull)
    }

    fn check_reopen(&self, who: Person, number: u32, publish: bool) -> Result<(), Verdict> {
        let pull = self.editable(who, number)?;
        match pull.state {
            PullState::Merged => return refuse(400),
            PullState::Open => return Ok(()),
            PullState::Closed => {}
        }
        let source = pull.from.0;
        if let Some(state) = self.live(source)
            && source != Db::Base
            && !state.is_public
            && self.role(who, source) < Some(Role::Write)
        {
            return refuse(403);
        }
        if self.rival(pull.from, Some(number)) {
            return refuse(409);
        }
        if pull.heads.is_none() || !self.has_branches(pull) || (self.publishes(source) && !publish) {
            return refuse(422);
        }
        Ok(())
    }

    fn check_withdraw(&self, who: Person, number: u32) -> Result<(), Verdict> {
        if who == Person::Anonymous {
            return refuse(401);
        }
        let Some(pull) = self.pull(number).filter(|_| self.live(Db::Base).is_some()) else { return refuse(404) };
        match self.role(who, pull.from.0) {
            Some(Role::Admin) if pull.state == PullState::Merged => refuse(422),
            Some(Role::Admin) => Ok(()),
            _ if self.role(who, Db::Base).is_some() => refuse(403),
            _ => refuse(404),
        }
    }

    /// Applies an accepted step. If the step leads to an operation, [`Model::learn`] records its id and effect.
    pub(super) fn apply(&mut self, step: &Step) {
        match *step {
            // These have an effect once the server has reported what they made.
            Step::Push(..) | Step::Merge(..) => {}
            Step::DropBranch(_, db) => drop(self.db(db).branches.remove(&Branch::Work)),
            Step::Open(who, db, branch, publish) => {
                let heads = (self.dbs[&db].branches[&branch], self.dbs[&Db::Base].branches[&Branch::Main]);
                self.pulls.push(PullModel {
                    author: who,
                    from: (db, branch),
                    is_published: publish,
                    state: PullState::Open,
                    heads: Some(heads),
                    taken: None,
                });
            }
            Step::Close(_, number) => self.pull_mut(number).state = PullState::Closed,
            Step::Reopen(_, number, publish) => {
                let pull = self.pull(number).unwrap();
                if pull.state == PullState::Open {
                    return;
                }
                let (db, branch) = pull.from;
                let heads = (self.dbs[&db].branches[&branch], self.dbs[&Db::Base].branches[&Branch::Main]);
                let pull = self.pull_mut(number);
                (pull.state, pull.heads, pull.is_published) = (PullState::Open, Some(heads), publish);
            }
            Step::Withdraw(_, number) => hide(self.pull_mut(number)),
            Step::See(_, db, public) => {
                if self.dbs[&db].is_public == public {
                    return;
                }
                self.db(db).is_public = public;
                match public {
                    false => self.hide_pulls_from(db),
                    true if db == Db::Base => self.hide_unpublished(),
                    true => {}
                }
            }
            Step::Delete(_, db) => {
                self.db(db).is_deleted = true;
                self.hide_pulls_from(db);
            }
            Step::Share(_, db, whom, role) => drop(self.db(db).roles.insert(whom, role)),
            Step::Unshare(_, db, whom) => drop(self.db(db).roles.remove(&whom)),
            Step::Fork(who) => {
                let base = &self.dbs[&Db::Base];
                let (is_public, branches) = (base.is_public, base.branches.clone());
                let fork =
                    DbState { is_public, is_deleted: false, parent: Some(Db::Base), branches, roles: BTreeMap::new() };
                self.dbs.insert(fork_of(who), fork);
            }
        }
    }

    /// Records the operation that a step led to, and applies its effect.
    pub(super) fn learn(&mut self, step: &Step, id: String, hash: Option<String>) {
        let (db, by, effect) = match *step {
            Step::Push(who, db, branch) => {
                let of = &self.dbs[&db].branches;
                let parent = of.get(&branch).or(of.get(&Branch::Main)).copied().unwrap();
                let mut rows = self.commits[parent].rows.clone().unwrap_or_default();
                rows.insert(self.next_row);
                self.next_row += 1;
                let commit = self.commit(hash.unwrap(), vec![parent], rows);
                self.db(db).branches.insert(branch, commit);
                let to = self.dbs[&Db::Base].branches[&Branch::Main];
                for pull in &mut self.pulls {
                    if pull.state == PullState::Open && pull.from == (db, branch) {
                        pull.heads = Some((commit, to));
                    }
                }
                (db, who, Effect::Write(commit))
            }
            Step::Merge(who, number) => {
                let (source, branch) = self.pull(number).unwrap().from;
                let from = self.dbs[&source].branches[&branch];
                let to = self.dbs[&Db::Base].branches[&Branch::Main];
                let taken = self.added(from, to);
                let rows = |commit: Commit| self.commits[commit].rows.clone().unwrap_or_default();
                let merged = &rows(from) | &rows(to);
                let commit = self.commit(hash.unwrap(), vec![to, from], merged);
                self.db(Db::Base).branches.insert(Branch::Main, commit);
                let pull = self.pull_mut(number);
                (pull.state, pull.heads, pull.taken) = (PullState::Merged, Some((from, to)), Some(taken));
                (Db::Base, who, Effect::Merge(number, commit))
            }
            Step::Fork(who) => (Db::Base, who, Effect::Fork(fork_of(who))),
            _ => unreachable!("{step:?} leads to no operation"),
        };
        self.operations.push(OperationModel { id, db, by, effect });
    }

    /// Returns the commit with a hash that the server reported: a known one, for example after a fast-forward, or a new one.
    fn commit(&mut self, hash: String, parents: Vec<Commit>, rows: BTreeSet<u32>) -> Commit {
        if let Some(known) = self.commits.iter().position(|commit| commit.hash == hash) {
            assert_eq!(self.commits[known].rows.as_ref(), Some(&rows), "the rows of {hash}");
            return known;
        }
        self.commits.push(CommitState { hash, parents, rows: Some(rows) });
        self.commits.len() - 1
    }

    fn db(&mut self, db: Db) -> &mut DbState {
        self.dbs.get_mut(&db).unwrap()
    }

    /// §3.4: hides what came from a database that was deleted or made private, unless it was merged.
    fn hide_pulls_from(&mut self, source: Db) {
        for pull in &mut self.pulls {
            if pull.from.0 == source && source != Db::Base && pull.state != PullState::Merged {
                hide(pull);
            }
        }
    }

    /// §3.4: a base that becomes public hides what came from a private source, unless its publication was agreed to.
    fn hide_unpublished(&mut self) {
        let shown: Vec<Db> =
            Db::ALL.into_iter().filter(|db| self.live(*db).is_some_and(|state| state.is_public)).collect();
        for pull in &mut self.pulls {
            let is_open_to_all = pull.from.0 == Db::Base || shown.contains(&pull.from.0) || pull.is_published;
            if !is_open_to_all && pull.state != PullState::Merged {
                hide(pull);
            }
        }
    }
}

fn fork_of(who: Person) -> Db {
    if who == Person::Ben { Db::Fork } else { Db::Copy }
}

fn hide(pull: &mut PullModel) {
    (pull.state, pull.heads) = (PullState::Closed, None);
}
