//! Syncing a branch of a fork: a pull request from the parent that is merged at once.

use super::open::branch_of;
use super::{MergePull, NewPull, Pulls};
use crate::access::{DatabaseAccess, Level as _, Participate, Write};
use crate::entities::{Branch, Database};
use crate::errors::{AccessError, PortError, PullError};
use crate::usecases::upstream::{Upstream, reached_from};
use crate::values::{OperationId, PullNumber, Title};

/// What a sync of a branch does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Synced {
    /// The branch has all commits of the parent already.
    UpToDate,
    /// A pull request from the parent is being merged. It stays open if it has conflicts.
    Merging {
        /// The pull request.
        pull: PullNumber,
        /// The operation that merges it.
        operation: OperationId,
    },
}

impl Pulls<'_> {
    /// Brings what the parent of a fork has into a branch of the fork: from the branch of the same name, or else from the default
    /// branch of the parent. Opens a pull request from the parent, unless one is open, and queues its merge, which moves the branch
    /// without a merge commit if it has no commits of its own.
    ///
    /// # Errors
    /// [`PullError::NoSuchSource`] if the database is no fork, or its parent is deleted, quarantined or hidden from the caller;
    /// otherwise as [`Pulls::open`] and [`Pulls::merge`].
    pub fn sync(&self, access: &DatabaseAccess<Write>, branch: &str) -> Result<Synced, PullError> {
        let fork = access.database();
        let mut tx = self.0.ports.metadata.read()?;
        let branch = branch_of(tx.as_mut(), fork, branch, false)?;
        let upstream = Upstream::find(tx.as_mut(), Some(access.who().id), fork, &branch.name)?;
        let upstream = upstream.ok_or(PullError::NoSuchSource)?;
        let open = tx.pulls().find_open(fork.id, upstream.parent.id, &upstream.branch.name, &branch.name)?;
        drop(tx);
        let ours = (fork.id, branch.head.clone());
        let theirs = std::slice::from_ref(&upstream.branch.head);
        if reached_from(self.0.ports.engine.as_ref(), &ours, theirs)? == [true] {
            return Ok(Synced::UpToDate);
        }
        let pull = match open {
            Some(pull) => pull.number,
            None => self.open_from_parent(access, (&upstream.parent, &upstream.branch), &branch)?,
        };
        let operation = match self.merge(access, pull, MergePull::default(), None) {
            Ok(operation) => operation.id,
            Err(PullError::Merging(operation)) => operation,
            Err(error) => return Err(error),
        };
        Ok(Synced::Merging { pull, operation })
    }

    fn open_from_parent(
        &self,
        access: &DatabaseAccess<Write>,
        (parent, from): (&Database, &Branch),
        to: &Branch,
    ) -> Result<PullNumber, PullError> {
        let fork = access.database();
        let participant = DatabaseAccess::<Participate>::grant(fork.clone(), access.caller().clone(), access.role())
            .ok_or(AccessError::Denied(Participate::NAME))?;
        let names = |database: &Database| (database.locator.owner.to_string(), database.locator.name.to_string());
        let title: String = format!("Sync {} with {}:{}", to.name, parent.locator, from.name);
        let title = Title::parse(title.chars().take(Title::MAX).collect::<String>());
        let wanted = NewPull {
            title: title.map_err(|_| PortError::Unsettled("a sync has no title"))?,
            description: None,
            from_database: names(parent),
            from_branch: from.name.to_string(),
            to_database: names(fork),
            to_branch: to.name.to_string(),
            publish: false,
        };
        match self.open(&participant, wanted, None) {
            Ok(pull) => Ok(pull.number),
            Err(PullError::Duplicate(open)) => Ok(open),
            Err(error) => Err(error),
        }
    }
}
