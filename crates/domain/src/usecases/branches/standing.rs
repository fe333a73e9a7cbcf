//! How far a branch and the one that it contributes to are apart.

use std::collections::BTreeSet;
use std::time::Instant;

use super::{Branches, COUNTING};
use crate::access::{DatabaseAccess, Level};
use crate::entities::{ActivityKind, Branch, Database, DatabaseLocator, Pull, PullState};
use crate::errors::{PortError, RefError};
use crate::ports::{PullFilter, PullStanding, Transaction};
use crate::usecases::pull_rules::{OpenRequest, OpeningError};
use crate::usecases::upstream::{CommitCount, Upstream, count_only_in};
use crate::values::{DatabaseId, PullNumber, RefName, Timestamp};

/// Number of the latest activities of a database that are searched for a push of the viewer.
const ACTIVITIES: usize = 50;
/// Number of recently written branches that are looked at.
const BRANCHES: usize = 3;
/// Number of open pull requests that are searched for one from a branch.
const PULLS: usize = 100;

/// A branch beside the one that it contributes to: in a fork, the branch of the same name in the parent, or else its default branch;
/// otherwise the default branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchStanding {
    /// The parent of the fork, if the other branch is in it.
    pub parent: Option<DatabaseLocator>,
    /// Name of the other branch.
    pub to_branch: RefName,
    /// The commits that only the branch has.
    pub ahead: CommitCount,
    /// The commits that only the other branch has.
    pub behind: CommitCount,
    /// The open pull request from the branch to the other one.
    pub pull: Option<PullNumber>,
    /// Whether writers of the fork who have the viewer's role on the parent may sync the branch.
    pub sync: Result<(), OpeningError>,
}

/// A branch that a user wrote to a short while ago.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentPush {
    /// The branch.
    pub branch: RefName,
    /// When it was written to.
    pub at: Timestamp,
    /// How far it is from the branch that it contributes to.
    pub standing: BranchStanding,
}

impl Branches<'_> {
    /// Seconds after a write for which [`Branches::recent_push`] returns it.
    pub const RECENT_SECONDS: i64 = 3_600;

    /// Returns how far a branch and the one that it contributes to are apart, with counts up to [`CommitCount::MOST`]. `None` if there
    /// is no such branch or no other one, if that takes longer than a page may wait, or if the parent cannot be read.
    ///
    /// # Errors
    /// [`RefError::Port`].
    pub fn standing<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        name: &RefName,
    ) -> Result<Option<BranchStanding>, RefError> {
        let database = access.database();
        let viewer = access.caller().user().map(|user| user.id);
        let mut tx = self.0.ports.metadata.read()?;
        let Some(branch) = tx.branches().get(database.id, name)? else { return Ok(None) };
        if let Some(upstream) = Upstream::find(tx.as_mut(), viewer, database, name)? {
            let open = tx.pulls().find_open(upstream.parent.id, database.id, name, &upstream.branch.name)?;
            drop(tx);
            return match self.beside_parent(database, &branch, upstream, open.map(|pull| pull.number)) {
                Ok(standing) => Ok(Some(standing)),
                // The page of a fork has to open while its parent is not available, or is being deleted.
                Err(PortError::Engine(_)) => Ok(None),
                Err(error) => Err(error.into()),
            };
        }
        if *name == database.default_branch {
            return Ok(None);
        }
        let open = tx.pulls().find_open(database.id, database.id, name, &database.default_branch)?;
        drop(tx);
        let apart = self.divergences(access, std::slice::from_ref(&branch.head))?.pop().flatten();
        Ok(apart.map(|apart| BranchStanding {
            parent: None,
            to_branch: database.default_branch.clone(),
            ahead: CommitCount::up_to_limit(apart.ahead),
            behind: CommitCount::up_to_limit(apart.behind),
            pull: open.map(|pull| pull.number),
            sync: Ok(()),
        }))
    }

    fn beside_parent(
        &self,
        fork: &Database,
        branch: &Branch,
        upstream: Upstream,
        pull: Option<PullNumber>,
    ) -> Result<BranchStanding, PortError> {
        let (ours, theirs) = ((fork.id, branch.head.clone()), (upstream.parent.id, upstream.branch.head));
        let until = Instant::now() + COUNTING;
        let ahead = count_only_in(self.0, &ours, &theirs, until)?;
        let behind = count_only_in(self.0, &theirs, &ours, until)?;
        let opening = OpenRequest {
            is_within: false,
            source: upstream.parent.visibility,
            role: Some(upstream.role),
            base: fork.visibility,
            publish: false,
        };
        let (parent, to_branch) = (Some(upstream.parent.locator), upstream.branch.name);
        Ok(BranchStanding { parent, to_branch, ahead, behind, pull, sync: opening.check() })
    }

    /// Returns the branch that the viewer wrote to last, if that was within [`Branches::RECENT_SECONDS`], it is not the default branch,
    /// has commits to contribute, and no pull request from it is open.
    ///
    /// # Errors
    /// [`RefError::Port`].
    pub fn recent_push<L: Level>(&self, access: &DatabaseAccess<L>) -> Result<Option<RecentPush>, RefError> {
        let Some(user) = access.caller().user() else { return Ok(None) };
        let (database, since) = (access.database(), self.0.now().plus_seconds(-Self::RECENT_SECONDS));
        let mut tx = self.0.ports.metadata.read()?;
        let (mut seen, mut pushed) = (BTreeSet::from([database.default_branch.clone()]), Vec::new());
        for activity in tx.activities().list(database.id, ACTIVITIES)? {
            if let ActivityKind::Pushed { branch, .. } = activity.kind
                && activity.by == user.id
                && activity.at > since
                && seen.insert(branch.clone())
            {
                pushed.push((branch, activity.at));
            }
        }
        pushed.truncate(BRANCHES);
        if pushed.is_empty() {
            return Ok(None);
        }
        let proposed = branches_with_open_pulls(tx.as_mut(), database.id)?;
        drop(tx);
        for (branch, at) in pushed.into_iter().filter(|(branch, _)| !proposed.contains(branch)) {
            if let Some(standing) = self.standing(access, &branch)?
                && standing.pull.is_none()
                && !standing.ahead.is_zero()
            {
                return Ok(Some(RecentPush { branch, at, standing }));
            }
        }
        Ok(None)
    }
}

/// Returns the branches of a database from which a pull request is open, there or in another database.
fn branches_with_open_pulls(tx: &mut dyn Transaction, database: DatabaseId) -> Result<BTreeSet<RefName>, PortError> {
    let open = PullFilter { standing: Some(PullStanding::Open), contains: None };
    let within = tx.pulls().list(database, &open, None, PULLS)?;
    let elsewhere = tx.pulls().list_unmerged_from(database, None, PULLS)?;
    let all = within.into_iter().filter(Pull::is_within).chain(elsewhere);
    Ok(all.filter(|pull| pull.state == PullState::Open).map(|pull| pull.from_branch).collect())
}
