//! Branches of commits that the metadata store had lost.

use super::Inner;
use super::engine_files::file_state;
use super::pulls::branch_moved;
use super::ref_log::{FormerCommit, ref_change};
use super::revisions;
use crate::access::visibility::live;
use crate::entities::{Branch, Database};
use crate::errors::{AccessError, PortError, RefError};
use crate::ports::{Durability, MetadataError, WriteKeys};
use crate::values::{CommitHash, DatabaseName, OwnerName};

/// Use cases of an administrator who brings back what was lost when the metadata store was restored to an earlier time.
pub struct Recovery<'a>(&'a Inner);

impl<'a> Recovery<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Returns a database.
    ///
    /// # Errors
    /// [`AccessError::NoSuchDatabase`] if there is no database of this owner and name.
    pub fn find(&self, owner: &str, name: &str) -> Result<Database, AccessError> {
        let (Ok(owner), Ok(name)) = (OwnerName::parse(owner), DatabaseName::parse(name)) else {
            return Err(AccessError::NoSuchDatabase);
        };
        self.0.ports.metadata.read()?.databases().by_name(&owner, &name)?.ok_or(AccessError::NoSuchDatabase)
    }

    /// Returns those of `commits` that no branch, tag, release or pull request of the database reaches. The file of the database need
    /// not hold them.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn unreached(&self, database: &Database, commits: Vec<CommitHash>) -> Result<Vec<CommitHash>, PortError> {
        let none = vec![Vec::new(); commits.len()];
        let held = revisions::all_held(self.0, database.id, &commits, &none)?;
        Ok(commits.into_iter().zip(held).filter(|(_, is_held)| !is_held).map(|(commit, _)| commit).collect())
    }

    /// Adds a branch at a commit that the file of the database holds since `database` was read. There is no event: users did not create
    /// the branch.
    ///
    /// # Errors
    /// [`RefError::BranchExists`] if the name is taken; [`RefError::Changed`] if a garbage collection took effect meanwhile.
    pub fn add_branch(&self, database: &Database, branch: &Branch) -> Result<(), RefError> {
        let now = self.0.now();
        let mut tx = self.0.ports.metadata.write(&WriteKeys::database(database.id))?;
        if live(tx.as_mut(), database.id)?.generation != database.generation {
            return Err(RefError::Changed);
        }
        // The change is attributed to the owner: an administrator of the machine is no user.
        match tx.branches().add(database.id, branch, ref_change(self.0, database.owner_id, FormerCommit::Reached)) {
            Err(MetadataError::Taken) => return Err(RefError::BranchExists(branch.name.to_string())),
            other => other?,
        }
        let due = tx.pulls().record_source_move(database.id, &branch.name, &branch.head, now)?;
        tx.databases().record_write(database.id, now, file_state(self.0, database.id)?)?;
        tx.commit(Durability::Synced)?;
        if due > 0 {
            self.0.fetch_wake.one();
        }
        branch_moved(self.0, database.id, &branch.name);
        Ok(())
    }
}
