//! Editing, closing and reopening a pull request.

use super::content::{heads, without_quarantined_source};
use super::merge::merging;
use super::open::may_open;
use super::rules::OpenRequest;
use super::{Pulls, update};
use crate::access::visibility::{find_live, live, role_of};
use crate::access::{DatabaseAccess, Participate};
use crate::entities::{Database, Pull, PullAction, PullHeads, Role, User};
use crate::errors::PullError;
use crate::ports::{Durability, Transaction, WriteKeys};
use crate::usecases::write_keys::{begin_write, of_pull};
use crate::values::{LongText, PullNumber, Timestamp, Title};

/// The states that a user can put a pull request in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WantedState {
    /// Reopened.
    Open,
    /// Closed.
    Closed,
}

/// Changes to a pull request. Absent fields stay unchanged.
#[derive(Debug, Clone, Default)]
pub struct EditPull {
    /// New title.
    pub title: Option<Title>,
    /// New description. An empty one removes the description.
    pub description: Option<LongText>,
    /// New state.
    pub state: Option<WantedState>,
    /// Whether the caller consents to making the source branch public; used for reopening.
    pub publish: bool,
}

impl Pulls<'_> {
    /// Edits, closes or reopens a pull request. Requesting the state that it already has changes nothing.
    ///
    /// # Errors
    /// [`PullError::NotYours`], [`PullError::State`], [`PullError::Merging`], [`PullError::Duplicate`],
    /// [`PullError::BranchGone`], [`PullError::BranchMissing`], [`PullError::NotShown`]; for reopening also
    /// [`PullError::SourceDenied`] and [`PullError::NeedsPublish`]; [`PullError::Changed`] if `expected` rejects the current
    /// state or the pull request changes concurrently.
    pub fn edit(
        &self,
        access: &DatabaseAccess<Participate>,
        number: PullNumber,
        edit: EditPull,
        expected: Option<&dyn Fn(&Pull) -> bool>,
    ) -> Result<Pull, PullError> {
        let now = self.0.now();
        let user = access.who();
        let id = access.database().id;
        let mut tx = begin_write(self.0, WriteKeys::database(id), |tx| of_pull(tx, id, number))?;
        let base = live(tx.as_mut(), access.database().id)?;
        let mut pull = tx.pulls().get(base.id, number)?.ok_or(PullError::NoSuchPull)?;
        if pull.creator_id != user.id && access.role() < Role::Write {
            return Err(PullError::NotYours);
        }
        let seen = without_quarantined_source(tx.as_mut(), pull.clone())?;
        let action = wanted_state(tx.as_mut(), (&base, user), &mut pull, (edit.state, edit.publish), now)?;
        if expected.is_some_and(|matches| !matches(&seen)) {
            return Err(PullError::Changed);
        }
        let mut changed = action.is_some();
        if let Some(title) = edit.title {
            changed |= pull.title != title.as_str();
            pull.title = title.into_string();
        }
        if let Some(description) = edit.description {
            let description = Some(description.into_string()).filter(|text| !text.is_empty());
            changed |= pull.description != description;
            pull.description = description;
        }
        if !changed {
            return Ok(without_quarantined_source(tx.as_mut(), pull)?);
        }
        pull.updated_at = now;
        update(tx.as_mut(), &mut pull)?;
        if let Some(action) = action {
            self.emit_pull(tx.as_mut(), &pull, action, user, now)?;
        }
        let shown = without_quarantined_source(tx.as_mut(), pull.clone())?;
        tx.commit(Durability::Synced)?;
        self.0.outbox.one();
        self.wake_for(&pull);
        Ok(shown)
    }
}

/// Reopens a closed pull request, which requires the same permissions as opening one.
fn reopen(
    tx: &mut dyn Transaction,
    (base, user): (&Database, &User),
    pull: &mut Pull,
    publish: bool,
    now: Timestamp,
) -> Result<(), PullError> {
    let source = find_live(tx, pull.from_database_id)?;
    let opening = match source {
        None => None,
        Some(source) => Some(OpenRequest {
            is_within: pull.is_within(),
            source: source.visibility,
            role: role_of(tx, Some(user.id), &source)?,
            base: base.visibility,
            publish,
        }),
    };
    // Permission errors take precedence over those about the pull request's state, which take precedence over a missing
    // consent.
    if let Some(opening) = opening {
        // Every reader of the base can see the name of the source, so a hidden source is reported as a denied one.
        may_open(OpenRequest { publish: true, ..opening }).map_err(|error| match error {
            PullError::NoSuchSource => PullError::SourceDenied,
            other => other,
        })?;
    }
    let rival = tx.pulls().find_open(pull.database_id, pull.from_database_id, &pull.from_branch, &pull.to_branch)?;
    if let Some(open) = rival {
        return Err(PullError::Duplicate(open.number));
    }
    pull.shown()?;
    opening.map_or(Ok(()), may_open)?;
    let (to, from) = heads(tx, pull)?;
    pull.content.is_published = publish;
    pull.show(PullHeads { from, to }, now);
    Ok(())
}

/// Puts a pull request in the requested state. Returns the action to emit, if the state changed.
fn wanted_state(
    tx: &mut dyn Transaction,
    on: (&Database, &User),
    pull: &mut Pull,
    (wanted, publish): (Option<WantedState>, bool),
    now: Timestamp,
) -> Result<Option<PullAction>, PullError> {
    let Some(wanted) = wanted else { return Ok(None) };
    let (changed, action) = match wanted {
        WantedState::Closed => (pull.close(now)?, PullAction::Closed),
        WantedState::Open => (pull.reopen()?, PullAction::Reopened),
    };
    if let Some(operation) = merging(tx, pull)? {
        return Err(PullError::Merging(operation.id));
    }
    if changed && wanted == WantedState::Open {
        reopen(tx, on, pull, publish, now)?;
    }
    Ok(changed.then_some(action))
}
