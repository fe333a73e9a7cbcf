//! Pull requests: opening, previewing, editing, withdrawing and merging them.

mod comments;
mod content;
mod edit;
mod fetches;
mod merge;
mod open;
pub mod rules;
mod sync;
mod withdraw;

pub use content::{GoneBranch, PullEdges, ShownPull};
pub(super) use content::{edges, heads};
pub use edit::{EditPull, WantedState};
pub use fetches::Refreshed;
pub(super) use fetches::{Fetches, branch_moved};
pub use merge::MergePull;
pub(super) use open::new_pull;
pub use open::{NewPull, PreviewStage, PullPreview};
pub use sync::Synced;
pub use withdraw::Withdrawable;
pub(super) use withdraw::{end_with_public_base, end_with_source};

use super::Inner;
use super::outbox::emit;
use crate::access::{DatabaseAccess, Level, Participate};
use crate::entities::{EventKind, Pull, PullAction, Role, User};
use crate::errors::{PortError, PullError};
use crate::ports::{MetadataError, PullFilter, Transaction};
use crate::values::{PullNumber, Timestamp};

/// Use cases of pull requests.
pub struct Pulls<'a>(&'a Inner);

impl<'a> Pulls<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Returns a pull request.
    ///
    /// # Errors
    /// [`PullError::NoSuchPull`] if the database has no such pull request.
    pub fn get<L: Level>(&self, access: &DatabaseAccess<L>, number: PullNumber) -> Result<Pull, PullError> {
        let mut tx = self.0.ports.metadata.read()?;
        let pull = tx.pulls().get(access.database().id, number)?.ok_or(PullError::NoSuchPull)?;
        Ok(content::without_quarantined_source(tx.as_mut(), pull)?)
    }

    /// Returns a pull request that the access holder may edit.
    ///
    /// # Errors
    /// [`PullError::NoSuchPull`]; [`PullError::NotYours`] if the access holder neither created the pull request nor has the
    /// write role.
    pub fn editable(&self, access: &DatabaseAccess<Participate>, number: PullNumber) -> Result<Pull, PullError> {
        let pull = self.get(access, number)?;
        if pull.creator_id != access.who().id && access.role() < Role::Write {
            return Err(PullError::NotYours);
        }
        Ok(pull)
    }

    /// Returns up to `limit` pull requests before `before`, highest number first.
    ///
    /// # Errors
    /// [`PullError::Port`].
    pub fn list<L: Level>(
        &self,
        access: &DatabaseAccess<L>,
        filter: &PullFilter,
        before: Option<PullNumber>,
        limit: usize,
    ) -> Result<Vec<Pull>, PullError> {
        let mut tx = self.0.ports.metadata.read()?;
        let found = tx.pulls().list(access.database().id, filter, before, limit)?;
        found.into_iter().map(|pull| Ok(content::without_quarantined_source(tx.as_mut(), pull)?)).collect()
    }

    fn emit_pull(
        &self,
        tx: &mut dyn Transaction,
        pull: &Pull,
        action: PullAction,
        sender: &User,
        now: Timestamp,
    ) -> Result<(), PortError> {
        emit_pull(self.0, tx, pull, action, sender, now)
    }
}

/// Emits the event of an action on a pull request.
pub(super) fn emit_pull(
    inner: &Inner,
    tx: &mut dyn Transaction,
    pull: &Pull,
    action: PullAction,
    sender: &User,
    now: Timestamp,
) -> Result<(), PortError> {
    let kind = EventKind::Pull {
        number: pull.number,
        action,
        from: pull.from_locator.clone(),
        from_branch: pull.from_branch.clone(),
        to_branch: pull.to_branch.clone(),
        author: pull.creator.clone(),
        sender: sender.name.clone(),
    };
    emit(inner, tx, pull.database_id, sender.named(), now, kind)
}

/// Saves a changed pull request.
pub(super) fn update(tx: &mut dyn Transaction, pull: &mut Pull) -> Result<(), PullError> {
    match tx.pulls().update(pull) {
        Ok(true) => {
            pull.version += 1;
            Ok(())
        }
        Ok(false) => Err(PullError::Changed),
        Err(MetadataError::Taken) => {
            let open =
                tx.pulls().find_open(pull.database_id, pull.from_database_id, &pull.from_branch, &pull.to_branch)?;
            Err(open.map_or(PullError::Changed, |open| PullError::Duplicate(open.number)))
        }
        Err(error) => Err(error.into()),
    }
}
