//! The activity feed: what happened in databases and pull requests.

use uuid::Uuid;

use super::{Inner, revisions};
use crate::access::visibility::roles_of;
use crate::access::{DatabaseAccess, Level};
use crate::entities::{Activity, ActivityKind, DatabaseLocator, EventKind, User};
use crate::errors::{DatabaseError, PortError, PullError};
use crate::ports::Transaction;
use crate::values::{AccountId, ActivityId, CommitHash, DatabaseId, OwnerName, PullNumber, Timestamp};

/// An activity in one of a user's databases, for the activity feed.
#[derive(Debug, Clone)]
pub struct News {
    /// The activity: its kind, time and author.
    pub activity: Activity,
    /// The database the activity happened in.
    pub database: DatabaseLocator,
    /// The pull request's title, if the activity is about one.
    pub pull_title: Option<String>,
    /// The head of a push, if the commit is still reachable in the database.
    pub head: Option<CommitHash>,
}

/// Use cases of the activity feed.
pub struct Activities<'a>(&'a Inner);

impl<'a> Activities<'a> {
    /// Number of databases that [`Activities::news`] considers: the most recently written ones.
    pub const NEWS_DATABASES: usize = 30;

    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Returns the latest activities in the databases that a user owns, or has a role on as a collaborator or through an
    /// organization, newest first.
    /// Only the [`Activities::NEWS_DATABASES`] most recently written databases are considered.
    ///
    /// # Errors
    /// [`DatabaseError::Port`].
    pub fn news(&self, user: &User, limit: usize) -> Result<Vec<News>, DatabaseError> {
        let mut tx = self.0.ports.metadata.read()?;
        let mut found = Vec::new();
        let databases = tx.databases().list_of_user(user.id, Self::NEWS_DATABASES)?;
        // The listing already filters by role. Visibility is still decided in one place.
        let roles = roles_of(tx.as_mut(), Some(user.id), &databases)?;
        for database in databases.iter().filter(|database| roles.contains_key(&database.id)) {
            for activity in tx.activities().list(database.id, limit)? {
                found.push(News { activity, database: database.locator.clone(), pull_title: None, head: None });
            }
        }
        found.sort_by_key(|news| std::cmp::Reverse((news.activity.at, news.activity.id)));
        found.truncate(limit);
        for news in &mut found {
            if let ActivityKind::Pull { number, .. } = news.activity.kind {
                let pull = tx.pulls().get(news.activity.database_id, number)?;
                news.pull_title = pull.map(|pull| pull.title);
            }
        }
        drop(tx);
        for news in &mut found {
            if let ActivityKind::Pushed { head, .. } = &news.activity.kind
                && revisions::held(self.0, news.activity.database_id, head)?
            {
                news.head = Some(head.clone());
            }
        }
        Ok(found)
    }

    /// Returns the latest activities of a pull request, newest first.
    ///
    /// # Errors
    /// [`PullError::Port`].
    pub fn of_pull<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        number: PullNumber,
        limit: usize,
    ) -> Result<Vec<Activity>, PullError> {
        Ok(self.0.ports.metadata.read()?.activities().list_of_pull(access.database().id, number, limit)?)
    }
}

/// Returns the activity that an event is shown as, or `None` for an event that is not shown.
pub(super) fn of_event(event: &EventKind) -> Option<ActivityKind> {
    match event {
        EventKind::Push { branch, head, previous: _ } => {
            Some(ActivityKind::Pushed { branch: branch.clone(), head: head.clone() })
        }
        EventKind::BranchCreated { branch } => Some(ActivityKind::BranchCreated { branch: branch.clone() }),
        EventKind::BranchDeleted { branch } => Some(ActivityKind::BranchDeleted { branch: branch.clone() }),
        EventKind::Pull { number, action, .. } => Some(ActivityKind::Pull { number: *number, action: *action }),
        EventKind::Ping { .. } => None,
    }
}

/// Records an activity in the transaction of its effect.
pub(super) fn note(
    tx: &mut dyn Transaction,
    id: Uuid,
    database_id: DatabaseId,
    (by, by_name): (AccountId, &OwnerName),
    at: Timestamp,
    kind: ActivityKind,
) -> Result<(), PortError> {
    let id = ActivityId::from_uuid(id);
    Ok(tx.activities().add(&Activity { id, database_id, at, by, by_name: by_name.clone(), kind })?)
}
