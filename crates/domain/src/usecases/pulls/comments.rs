//! Comments on a pull request.

use super::Pulls;
use crate::access::visibility::live;
use crate::access::{DatabaseAccess, Level, Participate};
use crate::entities::PullComment;
use crate::errors::PullError;
use crate::ports::{Durability, WriteKeys};
use crate::usecases::{IdempotencyRecord, idempotency};
use crate::values::{CommentId, LongText, PullNumber, Timestamp};

impl Pulls<'_> {
    /// Returns up to `limit` comments, oldest first, starting after `after`.
    ///
    /// # Errors
    /// [`PullError::NoSuchPull`] if the database has no such pull request.
    pub fn comments<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        number: PullNumber,
        after: Option<(Timestamp, CommentId)>,
        limit: usize,
    ) -> Result<Vec<PullComment>, PullError> {
        let mut tx = self.0.ports.metadata.read()?;
        let id = access.database().id;
        tx.pulls().get(id, number)?.ok_or(PullError::NoSuchPull)?;
        Ok(tx.pull_comments().list(id, number, after, limit)?)
    }

    /// Adds a comment, in any state of the pull request.
    ///
    /// # Errors
    /// [`PullError::NoSuchPull`] if the database has no such pull request.
    pub fn comment(
        &self,
        access: &DatabaseAccess<Participate>,
        number: PullNumber,
        body: LongText,
        once: Option<&IdempotencyRecord<'_, PullComment>>,
    ) -> Result<PullComment, PullError> {
        let now = self.0.now();
        let user = access.who();
        let mut tx = self.0.ports.metadata.write(&WriteKeys::database(access.database().id))?;
        let base = live(tx.as_mut(), access.database().id)?;
        tx.pulls().get(base.id, number)?.ok_or(PullError::NoSuchPull)?;
        let comment = PullComment {
            id: CommentId::from_uuid(self.0.ports.ids.uuid(now)),
            author: user.name.clone(),
            body: body.into_string(),
            created_at: now,
            updated_at: now,
        };
        tx.pull_comments().add(base.id, number, user.id, &comment)?;
        idempotency::keep(self.0, tx.as_mut(), once, &comment, now)?;
        tx.commit(Durability::Synced)?;
        Ok(comment)
    }
}
