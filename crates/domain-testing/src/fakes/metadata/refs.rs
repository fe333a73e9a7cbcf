//! Branches and tags.

use std::collections::BTreeSet;

use super::{MemoryTransaction, Result, missing, page};
use branchyard_domain::entities::{Branch, PullState, RefChange, RefKind, Tag};
use branchyard_domain::ports::{
    BranchRepository, DatabaseCounts, MetadataError, PullFilter, PullStanding, RefLogRepository as _, RefRepository,
    Repositories, TagRepository, WriteKey,
};
use branchyard_domain::values::{CommitHash, DatabaseId, RefName, Timestamp};

impl MemoryTransaction<'_> {
    fn known(&self, database: DatabaseId, context: &'static str) -> Result<()> {
        self.state.databases.contains_key(&database).then_some(()).ok_or_else(|| missing(context))
    }
}

impl BranchRepository for MemoryTransaction<'_> {
    fn add(&mut self, database: DatabaseId, branch: &Branch, change: Option<RefChange>) -> Result<()> {
        self.needs(WriteKey::Database(database));
        self.known(database, "add a branch")?;
        let key = (database, branch.name.clone());
        if self.state.branches.contains_key(&key) {
            return Err(MetadataError::Taken);
        }
        self.change()?.branches.insert(key, branch.clone());
        self.log_ref(database, RefKind::Branch, &branch.name, (None, Some(&branch.head)), change)
    }

    fn get(&mut self, database: DatabaseId, name: &RefName) -> Result<Option<Branch>> {
        Ok(self.state.branches.get(&(database, name.clone())).cloned())
    }

    fn move_head(
        &mut self,
        database: DatabaseId,
        name: &RefName,
        expected: &CommitHash,
        head: &CommitHash,
        at: Timestamp,
        change: Option<RefChange>,
    ) -> Result<bool> {
        self.needs(WriteKey::Database(database));
        let stored = self.change()?.branches.get_mut(&(database, name.clone()));
        let Some(branch) = stored.filter(|branch| branch.head == *expected) else { return Ok(false) };
        branch.head = head.clone();
        branch.updated_at = at;
        self.log_ref(database, RefKind::Branch, name, (Some(expected), Some(head)), change)?;
        Ok(true)
    }

    fn remove(
        &mut self,
        database: DatabaseId,
        name: &RefName,
        expected: &CommitHash,
        change: Option<RefChange>,
    ) -> Result<bool> {
        self.needs(WriteKey::Database(database));
        if self.branches().get(database, name)?.is_none_or(|branch| branch.head != *expected) {
            return Ok(false);
        }
        self.change()?.branches.remove(&(database, name.clone()));
        self.log_ref(database, RefKind::Branch, name, (Some(expected), None), change)?;
        Ok(true)
    }

    fn list(&mut self, database: DatabaseId, after: Option<&str>, limit: usize) -> Result<Vec<Branch>> {
        let found = self.state.branches.iter().filter(|((id, _), _)| *id == database).map(|(_, branch)| branch);
        Ok(page(found.filter(|b| after.is_none_or(|after| b.name.as_str() > after)).cloned(), limit))
    }
}

impl TagRepository for MemoryTransaction<'_> {
    fn add(&mut self, database: DatabaseId, tag: &Tag, change: Option<RefChange>) -> Result<()> {
        self.needs(WriteKey::Database(database));
        self.known(database, "add a tag")?;
        let key = (database, tag.name.clone());
        if self.state.tags.contains_key(&key) {
            return Err(MetadataError::Taken);
        }
        self.change()?.tags.insert(key, tag.clone());
        self.log_ref(database, RefKind::Tag, &tag.name, (None, Some(&tag.commit)), change)
    }

    fn get(&mut self, database: DatabaseId, name: &RefName) -> Result<Option<Tag>> {
        Ok(self.state.tags.get(&(database, name.clone())).cloned())
    }

    fn remove(&mut self, database: DatabaseId, name: &RefName, change: Option<RefChange>) -> Result<bool> {
        self.needs(WriteKey::Database(database));
        let removed = self.change()?.tags.remove(&(database, name.clone()));
        let Some(tag) = removed else { return Ok(false) };
        self.log_ref(database, RefKind::Tag, name, (Some(&tag.commit), None), change)?;
        Ok(true)
    }

    fn list(&mut self, database: DatabaseId, after: Option<&str>, limit: usize) -> Result<Vec<Tag>> {
        let found = self.state.tags.iter().filter(|((id, _), _)| *id == database).map(|(_, tag)| tag);
        Ok(page(found.filter(|t| after.is_none_or(|after| t.name.as_str() > after)).cloned(), limit))
    }
}

impl RefRepository for MemoryTransaction<'_> {
    fn counts(&mut self, database: DatabaseId, most: usize) -> Result<DatabaseCounts> {
        let open = PullFilter { standing: Some(PullStanding::Open), contains: None };
        Ok(DatabaseCounts {
            branches: self.branches().list(database, None, most)?.len(),
            tags: self.tags().list(database, None, most)?.len(),
            releases: self.releases().list(database, None, most)?.len(),
            open_pulls: self.pulls().list(database, &open, None, most)?.len(),
        })
    }

    fn copy_all(&mut self, from: DatabaseId, to: DatabaseId) -> Result<()> {
        self.needs(WriteKey::Database(to));
        self.known(to, "copy branches and tags")?;
        for branch in self.branches().list(from, None, usize::MAX)? {
            self.change()?.branches.insert((to, branch.name.clone()), branch);
        }
        for tag in self.tags().list(from, None, usize::MAX)? {
            self.change()?.tags.insert((to, tag.name.clone()), tag);
        }
        Ok(())
    }

    fn named_commits(
        &mut self,
        database: DatabaseId,
        after: Option<&CommitHash>,
        limit: usize,
    ) -> Result<Vec<CommitHash>> {
        let mut named = BTreeSet::new();
        named.extend(self.branches().list(database, None, usize::MAX)?.into_iter().map(|branch| branch.head));
        named.extend(self.tags().list(database, None, usize::MAX)?.into_iter().map(|tag| tag.commit));
        for pull in self.state.pulls.values().filter(|pull| pull.database_id == database) {
            if let PullState::Merged { commit, base, source, .. } = &pull.state {
                named.extend([commit.clone(), base.clone(), source.clone()]);
            } else if let (Some(heads), None) = (&pull.content.heads, pull.content.fetch_due_at) {
                named.insert(heads.to.clone());
                if pull.is_within() || !self.state.is_quarantined(pull.from_database_id) {
                    named.insert(heads.from.clone());
                }
            }
        }
        Ok(page(named.into_iter().filter(|hash| after.is_none_or(|after| hash > after)), limit))
    }

    fn kept_commits(
        &mut self,
        database: DatabaseId,
        left_since: Option<Timestamp>,
        after: Option<&CommitHash>,
        limit: usize,
    ) -> Result<Vec<CommitHash>> {
        let mut named = BTreeSet::new();
        named.extend(self.branches().list(database, None, usize::MAX)?.into_iter().map(|branch| branch.head));
        named.extend(self.tags().list(database, None, usize::MAX)?.into_iter().map(|tag| tag.commit));
        if let Some(since) = left_since {
            let left = self.list_left_behind(database, since, None, usize::MAX)?;
            named.extend(left.into_iter().filter_map(|entry| entry.old));
        }
        for pull in self.state.pulls.values().filter(|pull| pull.database_id == database) {
            if let PullState::Merged { commit, base, source, .. } = &pull.state {
                named.extend([commit.clone(), base.clone(), source.clone()]);
            }
            if let Some(heads) = &pull.content.heads {
                named.extend([heads.from.clone(), heads.to.clone()]);
            }
        }
        Ok(page(named.into_iter().filter(|hash| after.is_none_or(|after| hash > after)), limit))
    }
}
