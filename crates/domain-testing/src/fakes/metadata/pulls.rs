//! Pull requests, their fetches and comments.

use std::collections::BTreeMap;

use super::{MemoryTransaction, Result, missing, page};
use branchyard_domain::entities::{Pull, PullComment, PullHeads, PullHidden, PullState};
use branchyard_domain::ports::{
    FetchBacklog, FetchEnd, MetadataError, PullCommentRepository, PullFetch, PullFetchRepository, PullFilter,
    PullRepository, PullStanding, WriteKey,
};
use branchyard_domain::usecases::pull_rules::is_guarded;
use branchyard_domain::values::{AccountId, CommentId, CommitHash, DatabaseId, PullNumber, RefName, Timestamp};

fn between(a: &Pull, b: &Pull) -> bool {
    a.database_id == b.database_id
        && a.from_database_id == b.from_database_id
        && a.from_branch == b.from_branch
        && a.to_branch == b.to_branch
}

/// Returns `true` if a pull request comes from another database and is neither merged nor hidden.
fn is_elsewhere(pull: &Pull) -> bool {
    !pull.is_within() && !matches!(pull.state, PullState::Merged { .. }) && pull.content.hidden.is_none()
}

impl MemoryTransaction<'_> {
    /// Updates the source head of an open pull request. Returns the number of fetches that became due.
    fn follow(&mut self, pull: Pull, head: &CommitHash, now: Timestamp) -> Result<u64> {
        let key = (pull.database_id, pull.number);
        let target = self.state.branches.get(&(pull.database_id, pull.to_branch.clone()));
        let to = target.map(|branch| branch.head.clone()).or(pull.content.heads.map(|heads| heads.to));
        let state = self.change()?;
        state.fetches.entry(key).or_default().1 = 0;
        let (Some(to), Some(stored)) = (to, state.pulls.get_mut(&key)) else { return Ok(0) };
        stored.show(PullHeads { from: head.clone(), to }, now);
        stored.version += 1;
        Ok(u64::from(stored.content.fetch_due_at.is_some()))
    }

    /// Returns `true` if another open pull request has the same source and target.
    fn rivals(&self, pull: &Pull) -> bool {
        let open = self.state.pulls.values().filter(|other| other.state == PullState::Open);
        open.filter(|other| other.number != pull.number).any(|other| between(other, pull))
    }
}

impl PullRepository for MemoryTransaction<'_> {
    fn next_number(&mut self, database: DatabaseId) -> Result<PullNumber> {
        self.needs(WriteKey::Database(database));
        if !self.state.databases.contains_key(&database) {
            return Err(missing("number a pull"));
        }
        let last = self.change()?.pull_numbers.entry(database).or_insert(0);
        *last += 1;
        PullNumber::new(*last)
            .map_err(|error| MetadataError::Fault { context: "number a pull", source: Box::new(error) })
    }

    fn add(&mut self, pull: &Pull) -> Result<()> {
        self.needs(WriteKey::Database(pull.database_id));
        let key = (pull.database_id, pull.number);
        if self.state.pulls.contains_key(&key) || (pull.state == PullState::Open && self.rivals(pull)) {
            return Err(MetadataError::Taken);
        }
        self.change()?.pulls.insert(key, pull.clone());
        Ok(())
    }

    fn get(&mut self, database: DatabaseId, number: PullNumber) -> Result<Option<Pull>> {
        Ok(self.state.pulls.get(&(database, number)).cloned())
    }

    fn find_open(
        &mut self,
        database: DatabaseId,
        from_database: DatabaseId,
        from_branch: &RefName,
        to_branch: &RefName,
    ) -> Result<Option<Pull>> {
        let found = self.state.pulls.values().find(|p| {
            p.state == PullState::Open
                && p.database_id == database
                && p.from_database_id == from_database
                && p.from_branch == *from_branch
                && p.to_branch == *to_branch
        });
        Ok(found.cloned())
    }

    fn update(&mut self, pull: &Pull) -> Result<bool> {
        self.needs(WriteKey::Database(pull.database_id));
        let key = (pull.database_id, pull.number);
        if self.state.pulls.get(&key).is_none_or(|stored| stored.version != pull.version) {
            return Ok(false);
        }
        if pull.state == PullState::Open && self.rivals(pull) {
            return Err(MetadataError::Taken);
        }
        let Some(stored) = self.change()?.pulls.get_mut(&key) else { return Ok(false) };
        stored.title.clone_from(&pull.title);
        stored.description.clone_from(&pull.description);
        stored.state = pull.state.clone();
        stored.content = pull.content.clone();
        stored.updated_at = pull.updated_at;
        stored.version += 1;
        Ok(true)
    }

    fn list(
        &mut self,
        database: DatabaseId,
        filter: &PullFilter,
        before: Option<PullNumber>,
        limit: usize,
    ) -> Result<Vec<Pull>> {
        let standing = |state: &PullState| match state {
            PullState::Open => PullStanding::Open,
            PullState::Closed { .. } => PullStanding::Closed,
            PullState::Merged { .. } => PullStanding::Merged,
        };
        let text = filter.contains.as_ref().map(|text| text.to_lowercase());
        let said = |p: &Pull, text: &String| {
            p.title.to_lowercase().contains(text)
                || p.description.as_ref().is_some_and(|words| words.to_lowercase().contains(text))
        };
        let wanted = |p: &&Pull| {
            p.database_id == database
                && filter.standing.is_none_or(|wanted| standing(&p.state) == wanted)
                && text.as_ref().is_none_or(|text| said(p, text))
        };
        let found = self.state.pulls.values().rev().filter(wanted);
        Ok(page(found.filter(|p| before.is_none_or(|before| p.number < before)).cloned(), limit))
    }

    fn record_source_move(
        &mut self,
        database: DatabaseId,
        branch: &RefName,
        head: &CommitHash,
        now: Timestamp,
    ) -> Result<u64> {
        self.needs(WriteKey::Database(database));
        let is_from = |pull: &Pull| {
            pull.state == PullState::Open && pull.from_database_id == database && pull.from_branch == *branch
        };
        let found: Vec<Pull> = self.state.pulls.values().filter(|pull| is_from(pull)).cloned().collect();
        let mut due = 0;
        for pull in found {
            due += self.follow(pull, head, now)?;
        }
        Ok(due)
    }

    fn list_unmerged_from(
        &mut self,
        source: DatabaseId,
        after: Option<(DatabaseId, PullNumber)>,
        limit: usize,
    ) -> Result<Vec<Pull>> {
        let found = self.state.pulls.values().filter(|p| is_elsewhere(p) && p.from_database_id == source);
        let found = found.filter(|p| after.is_none_or(|after| (p.database_id, p.number) > after));
        Ok(page(found.cloned(), limit))
    }

    fn list_unmerged_to(&mut self, base: DatabaseId, after: Option<PullNumber>, limit: usize) -> Result<Vec<Pull>> {
        let found = self.state.pulls.values().filter(|p| is_elsewhere(p) && p.database_id == base);
        Ok(page(found.filter(|p| after.is_none_or(|after| p.number > after)).cloned(), limit))
    }

    fn merged_as(&mut self, database: DatabaseId, commits: &[CommitHash]) -> Result<Vec<(CommitHash, PullNumber)>> {
        let merged = self.state.pulls.values().filter(|pull| pull.database_id == database);
        let merged = merged.filter_map(|pull| match &pull.state {
            PullState::Merged { commit, base, source, .. } if base != source => Some((commit.clone(), pull.number)),
            _ => None,
        });
        Ok(merged.filter(|(commit, _)| commits.contains(commit)).collect())
    }
}

impl PullFetchRepository for MemoryTransaction<'_> {
    fn due(&mut self, now: Timestamp, per_author: u32, limit: usize) -> Result<Vec<PullFetch>> {
        let waits = |database| self.state.is_quarantined(database);
        let is_due = |pull: &&Pull| {
            pull.content.fetch_due_at.is_some_and(|due| due <= now)
                && !waits(pull.database_id)
                && !waits(pull.from_database_id)
        };
        let mut due = Vec::new();
        for pull in self.state.pulls.values().filter(is_due) {
            let (lease, tries) = self.state.fetches.get(&(pull.database_id, pull.number)).copied().unwrap_or_default();
            if lease.is_none_or(|until| until <= now) {
                let fetch =
                    PullFetch { database_id: pull.database_id, number: pull.number, author: pull.creator_id, tries };
                due.push((pull.content.fetch_due_at, fetch));
            }
        }
        due.sort_by_key(|(at, fetch)| (*at, fetch.database_id, fetch.number));
        let mut of_author: BTreeMap<AccountId, u32> = BTreeMap::new();
        due.retain(|(_, fetch)| {
            let count = of_author.entry(fetch.author).or_default();
            *count += 1;
            *count <= per_author
        });
        Ok(page(due.into_iter().map(|(_, fetch)| fetch), limit))
    }

    fn lease(&mut self, database: DatabaseId, number: PullNumber, now: Timestamp, until: Timestamp) -> Result<bool> {
        self.needs(WriteKey::Database(database));
        let key = (database, number);
        let is_due = self.state.pulls.get(&key).and_then(|p| p.content.fetch_due_at).is_some_and(|due| due <= now);
        let lease = &mut self.change()?.fetches.entry(key).or_default().0;
        if !is_due || lease.is_some_and(|held| held > now) {
            return Ok(false);
        }
        *lease = Some(until);
        Ok(true)
    }

    fn extend_lease(&mut self, database: DatabaseId, number: PullNumber, until: Timestamp) -> Result<bool> {
        let lease = &mut self.change()?.fetches.entry((database, number)).or_default().0;
        let is_leased = lease.is_some();
        if is_leased {
            *lease = Some(until);
        }
        Ok(is_leased)
    }

    fn backlog(&mut self, now: Timestamp) -> Result<FetchBacklog> {
        let all = self.state.pulls.values().filter_map(|pull| pull.content.fetch_due_at);
        let due: Vec<Timestamp> = all.filter(|due| *due <= now).collect();
        let count = u64::try_from(due.len()).unwrap_or(u64::MAX);
        Ok(FetchBacklog { due: count, oldest_due_at: due.into_iter().min() })
    }

    fn settle(&mut self, database: DatabaseId, number: PullNumber, end: FetchEnd<'_>) -> Result<bool> {
        self.needs(WriteKey::Database(database));
        let key = (database, number);
        let state = self.change()?;
        let fetch = state.fetches.entry(key).or_default();
        fetch.0 = None;
        let Some(pull) = state.pulls.get_mut(&key) else { return Ok(false) };
        match end {
            FetchEnd::Failed(due) => {
                fetch.1 += 1;
                if pull.content.fetch_due_at.is_some() {
                    pull.content.fetch_due_at = Some(due);
                }
                Ok(false)
            }
            FetchEnd::Dropped => {
                pull.content.fetch_due_at = None;
                Ok(false)
            }
            FetchEnd::Fetched(head) => {
                let shows = pull.content.heads.as_ref().is_some_and(|heads| heads.from == *head);
                if shows {
                    pull.content.fetch_due_at = None;
                    fetch.1 = 0;
                }
                Ok(shows)
            }
        }
    }

    fn recover(&mut self, now: Timestamp) -> Result<u64> {
        self.change()?.fetches.values_mut().for_each(|fetch| fetch.0 = None);
        let open: Vec<Pull> = self.state.pulls.values().filter(|pull| pull.state == PullState::Open).cloned().collect();
        for mut pull in open {
            let source = self.state.databases.get(&pull.from_database_id);
            if pull.content.heads.is_none() && !pull.is_within() && source.is_none_or(is_guarded) {
                pull.hide(PullHidden::WithSource, now)
                    .map_err(|error| MetadataError::Fault { context: "recover fetches", source: Box::new(error) })?;
                pull.updated_at = now;
                pull.version += 1;
                self.change()?.pulls.insert((pull.database_id, pull.number), pull);
                continue;
            }
            let Some(branch) = self.state.branches.get(&(pull.from_database_id, pull.from_branch.clone())) else {
                continue;
            };
            let head = branch.head.clone();
            if pull.content.heads.as_ref().is_none_or(|heads| heads.from != head) {
                self.follow(pull, &head, now)?;
            }
        }
        let due = self.state.pulls.values().filter(|pull| pull.content.fetch_due_at.is_some()).count();
        Ok(u64::try_from(due).unwrap_or(u64::MAX))
    }
}

impl PullCommentRepository for MemoryTransaction<'_> {
    fn add(
        &mut self,
        database: DatabaseId,
        number: PullNumber,
        author: AccountId,
        comment: &PullComment,
    ) -> Result<()> {
        self.needs(WriteKey::Database(database));
        let key = (database, number);
        if !self.state.pulls.contains_key(&key) || !self.state.users.contains_key(&author) {
            return Err(missing("add a comment"));
        }
        self.change()?.comments.entry(key).or_default().push((author, comment.clone()));
        Ok(())
    }

    fn list(
        &mut self,
        database: DatabaseId,
        number: PullNumber,
        after: Option<(Timestamp, CommentId)>,
        limit: usize,
    ) -> Result<Vec<PullComment>> {
        let stored = self.state.comments.get(&(database, number)).into_iter().flatten();
        let mut found: Vec<PullComment> = stored.map(|(_, comment)| comment.clone()).collect();
        found.retain(|c| after.is_none_or(|after| (c.created_at, c.id) > after));
        found.sort_by_key(|c| (c.created_at, c.id));
        Ok(page(found.into_iter(), limit))
    }
}
