//! What happened, for people to look back on.

use uuid::Uuid;

use super::databases::role_of;
use super::{Inner, revisions};
use crate::access::{DatabaseAccess, Level};
use crate::entities::{Activity, ActivityKind, DatabaseLocator, EventKind, User};
use crate::errors::{DatabaseError, Fault, PullError};
use crate::ports::Transaction;
use crate::values::{AccountId, ActivityId, CommitHash, DatabaseId, OwnerName, PullNumber, Timestamp};

/// Something that happened in a database of a user.
#[derive(Debug, Clone)]
pub struct News {
    /// What, when and by whom.
    pub activity: Activity,
    /// Where.
    pub database: DatabaseLocator,
    /// The title of the pull it is about.
    pub pull_title: Option<String>,
    /// The head of a push, if the database still shows that commit.
    pub head: Option<CommitHash>,
}

/// What happened.
pub struct Activities<'a>(&'a Inner);

impl<'a> Activities<'a> {
    /// Databases that are looked at for news: those written to last.
    pub const NEWS_DATABASES: usize = 30;

    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// What last happened in the databases that a user owns, or has a role on as a collaborator or through an organization; newest
    /// first. Of these databases the [`Activities::NEWS_DATABASES`] written to last are looked at.
    ///
    /// # Errors
    /// [`DatabaseError::Fault`].
    pub fn news(&self, user: &User, limit: usize) -> Result<Vec<News>, DatabaseError> {
        let mut tx = self.0.ports.metadata.read()?;
        let mut found = Vec::new();
        for database in tx.databases().list_of_user(user.id, Self::NEWS_DATABASES)? {
            // The list says so already; but what is shown to whom is decided in one place.
            if role_of(tx.as_mut(), Some(user.id), &database)?.is_none() {
                continue;
            }
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

    /// What happened to a pull, newest first.
    ///
    /// # Errors
    /// [`PullError::Fault`].
    pub fn of_pull<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        number: PullNumber,
        limit: usize,
    ) -> Result<Vec<Activity>, PullError> {
        Ok(self.0.ports.metadata.read()?.activities().list_of_pull(access.database().id, number, limit)?)
    }
}

/// What people are told of an event.
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

/// Notes something that happened, in the transaction that makes it so.
pub(super) fn note(
    tx: &mut dyn Transaction,
    id: Uuid,
    database_id: DatabaseId,
    (by, by_name): (AccountId, &OwnerName),
    at: Timestamp,
    kind: ActivityKind,
) -> Result<(), Fault> {
    let id = ActivityId::from_uuid(id);
    Ok(tx.activities().add(&Activity { id, database_id, at, by, by_name: by_name.clone(), kind })?)
}
