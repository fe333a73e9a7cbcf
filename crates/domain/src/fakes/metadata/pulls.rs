//! Pulls and their comments.

use super::{MemoryUnit, Result, missing, page};
use crate::entities::{Pull, PullComment, PullState};
use crate::ports::{MetadataError, PullFilter, PullRepository, PullStanding};
use crate::values::{AccountId, CommentId, DatabaseId, PullNumber, RefName, Timestamp};

fn between(a: &Pull, b: &Pull) -> bool {
    a.database_id == b.database_id
        && a.from_database_id == b.from_database_id
        && a.from_branch == b.from_branch
        && a.to_branch == b.to_branch
}

impl MemoryUnit<'_> {
    /// Whether another open pull stands between the branches of this one.
    fn rivals(&self, pull: &Pull) -> bool {
        let open = self.state.pulls.values().filter(|other| other.state == PullState::Open);
        open.filter(|other| other.number != pull.number).any(|other| between(other, pull))
    }
}

impl PullRepository for MemoryUnit<'_> {
    fn pull_next_number(&mut self, database: DatabaseId) -> Result<PullNumber> {
        if !self.state.databases.contains_key(&database) {
            return Err(missing("number a pull"));
        }
        let last = self.change()?.pull_numbers.entry(database).or_insert(0);
        *last += 1;
        PullNumber::new(*last)
            .map_err(|error| MetadataError::Fault { context: "number a pull", source: Box::new(error) })
    }

    fn pull_add(&mut self, pull: &Pull) -> Result<()> {
        let key = (pull.database_id, pull.number);
        if self.state.pulls.contains_key(&key) || (pull.state == PullState::Open && self.rivals(pull)) {
            return Err(MetadataError::Taken);
        }
        self.change()?.pulls.insert(key, pull.clone());
        Ok(())
    }

    fn pull_get(&mut self, database: DatabaseId, number: PullNumber) -> Result<Option<Pull>> {
        Ok(self.state.pulls.get(&(database, number)).cloned())
    }

    fn pull_open_between(
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

    fn pull_update(&mut self, pull: &Pull) -> Result<bool> {
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
        stored.updated_at = pull.updated_at;
        stored.version += 1;
        Ok(true)
    }

    fn pull_list(
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

    fn comment_add(
        &mut self,
        database: DatabaseId,
        number: PullNumber,
        author: AccountId,
        comment: &PullComment,
    ) -> Result<()> {
        let key = (database, number);
        if !self.state.pulls.contains_key(&key) || !self.state.users.contains_key(&author) {
            return Err(missing("add a comment"));
        }
        self.change()?.comments.entry(key).or_default().push(comment.clone());
        Ok(())
    }

    fn comment_list(
        &mut self,
        database: DatabaseId,
        number: PullNumber,
        after: Option<(Timestamp, CommentId)>,
        limit: usize,
    ) -> Result<Vec<PullComment>> {
        let mut found = self.state.comments.get(&(database, number)).cloned().unwrap_or_default();
        found.retain(|c| after.is_none_or(|after| (c.created_at, c.id) > after));
        found.sort_by_key(|c| (c.created_at, c.id));
        Ok(page(found.into_iter(), limit))
    }
}
