//! Withdrawing a pull request, and closing those that a database takes with it.

use super::{Pulls, emit_pull, rules, update};
use crate::access::Caller;
use crate::access::visibility::{by_address, deny_like_a_hidden_one, find_live, is_withheld, live, role_of};
use crate::entities::{Database, DatabaseLocator, Pull, PullAction, PullHidden, PullState, Role, User};
use crate::errors::{AccessError, PortError, PullError};
use crate::ports::{Durability, Transaction, WriteKeys};
use crate::usecases::collections::request;
use crate::usecases::ref_log::forget_what_reaches;
use crate::usecases::write_keys::{begin_write, of_pull};
use crate::usecases::{IdempotencyRecord, Inner, idempotency};
use crate::values::{DatabaseId, DatabaseName, OwnerName, PullNumber, Timestamp};

/// Number of pull requests read at a time when a database is deleted or changes its visibility.
const CLOSED_AT_A_TIME: usize = 500;

/// Proof that a user may withdraw a pull request.
#[derive(Debug, Clone)]
pub struct Withdrawable {
    user: std::sync::Arc<User>,
    base: Database,
    number: PullNumber,
    /// Whether the user may read the base of the pull request.
    pub sees_base: bool,
}

impl Withdrawable {
    /// Returns the user who may withdraw the pull request.
    pub fn who(&self) -> &std::sync::Arc<User> {
        &self.user
    }

    /// Returns the locator of the pull request's base database.
    pub fn base(&self) -> &DatabaseLocator {
        &self.base.locator
    }
}

impl Pulls<'_> {
    /// Returns the proof that `caller` may withdraw a pull request of `owner/name`. The base need not be visible to the
    /// caller.
    ///
    /// # Errors
    /// [`AccessError::SignInRequired`]; [`AccessError::NoSuchDatabase`] if the base does not exist, or is hidden from a
    /// caller who does not administer the source; [`PullError::NoSuchPull`] and [`PullError::NotSourceAdmin`] if the base is
    /// visible.
    pub fn withdrawable(
        &self,
        caller: &Caller,
        owner: &str,
        name: &str,
        number: PullNumber,
    ) -> Result<Withdrawable, PullError> {
        let Some(user) = caller.user() else { return Err(AccessError::SignInRequired.into()) };
        let (Ok(owner), Ok(name)) = (OwnerName::parse(owner), DatabaseName::parse(name)) else {
            return Err(AccessError::NoSuchDatabase.into());
        };
        let mut tx = self.0.ports.metadata.read()?;
        let Some(base) = by_address(tx.as_mut(), &owner, &name)? else {
            deny_like_a_hidden_one(tx.as_mut(), Some(user.id))?;
            return Err(AccessError::NoSuchDatabase.into());
        };
        let sees_base = role_of(tx.as_mut(), Some(user.id), &base)?.is_some();
        if is_withheld(tx.as_mut(), Some(user.id), &base)? {
            return Err(AccessError::NoSuchDatabase.into());
        }
        let pull = tx.pulls().get(base.id, number)?;
        let is_admin = match &pull {
            Some(pull) => administers_source(tx.as_mut(), user, pull)?,
            None => false,
        };
        match (pull, sees_base) {
            (Some(_), _) if is_admin => Ok(Withdrawable { user: std::sync::Arc::clone(user), base, number, sees_base }),
            (_, false) => Err(AccessError::NoSuchDatabase.into()),
            (None, true) => Err(PullError::NoSuchPull),
            (Some(_), true) => Err(PullError::NotSourceAdmin),
        }
    }

    /// Hides the content of a pull request and closes it. A pull request that is hidden already stays as it is.
    ///
    /// # Errors
    /// [`PullError::State`] if the pull request is merged; as [`Pulls::withdrawable`] if the permission has changed.
    pub fn withdraw(&self, of: &Withdrawable, once: Option<&IdempotencyRecord<'_, Pull>>) -> Result<Pull, PullError> {
        let now = self.0.now();
        let keys = WriteKeys::database(of.base.id);
        let mut tx = begin_write(self.0, keys, |tx| of_pull(tx, of.base.id, of.number))?;
        let base = live(tx.as_mut(), of.base.id)?;
        let mut pull = tx.pulls().get(base.id, of.number)?.ok_or(PullError::NoSuchPull)?;
        if !administers_source(tx.as_mut(), &of.user, &pull)? {
            return Err(match of.sees_base {
                true => PullError::NotSourceAdmin,
                false => AccessError::NoSuchDatabase.into(),
            });
        }
        if pull.content.hidden.is_none() {
            hide(self.0, tx.as_mut(), &mut pull, PullHidden::Withdrawn, &of.user, now)?;
        }
        idempotency::keep(self.0, tx.as_mut(), once, &pull, now)?;
        tx.commit(Durability::Synced)?;
        self.0.outbox.one();
        self.0.collection_wake.one();
        Ok(pull)
    }

    /// Returns `true` if a caller may withdraw a pull request.
    ///
    /// # Errors
    /// [`PullError::Port`].
    pub fn may_withdraw(&self, caller: &Caller, pull: &Pull) -> Result<bool, PullError> {
        let Some(user) = caller.user() else { return Ok(false) };
        if pull.content.hidden.is_some() || matches!(pull.state, PullState::Merged { .. }) {
            return Ok(false);
        }
        Ok(administers_source(self.0.ports.metadata.read()?.as_mut(), user, pull)?)
    }
}

/// Returns `true` if a user is an administrator of the database that a pull request comes from.
fn administers_source(tx: &mut dyn Transaction, user: &User, pull: &Pull) -> Result<bool, PortError> {
    let source = find_live(tx, pull.from_database_id)?;
    let Some(source) = source else { return Ok(false) };
    Ok(role_of(tx, Some(user.id), &source)? == Some(Role::Admin))
}

/// Hides the content of a pull request, closes it, and emits an event if it was open. Requests a collection of the base, which
/// the caller wakes the collector for. What the pull request showed is removed from the history of the base, too.
fn hide(
    inner: &Inner,
    tx: &mut dyn Transaction,
    pull: &mut Pull,
    why: PullHidden,
    by: &User,
    now: Timestamp,
) -> Result<(), PullError> {
    let shown = pull.content.heads.clone();
    let was_open = pull.hide(why, now)?;
    pull.updated_at = now;
    update(tx, pull)?;
    if let Some(heads) = shown {
        match forget_what_reaches(inner, tx, pull.database_id, &heads.from) {
            // The file may be gone with the base.
            Ok(()) | Err(PortError::Engine(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    request(tx, pull.database_id, now, true)?;
    if was_open && live(tx, pull.database_id).is_ok() {
        emit_pull(inner, tx, pull, PullAction::Closed, by, now)?;
    }
    Ok(())
}

/// Closes and hides the pull requests to other databases from a database that is deleted or made private.
pub(crate) fn end_with_source(
    inner: &Inner,
    tx: &mut dyn Transaction,
    source: DatabaseId,
    by: &User,
    now: Timestamp,
) -> Result<(), PullError> {
    let mut after = None;
    loop {
        let page = tx.pulls().list_unmerged_from(source, after, CLOSED_AT_A_TIME)?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some((last.database_id, last.number));
        for mut pull in page.into_iter().filter(rules::ends_with_source) {
            hide(inner, tx, &mut pull, PullHidden::WithSource, by, now)?;
        }
    }
}

/// Closes and hides the pull requests of a database that is made public, unless their authors consented to making the source
/// public.
pub(crate) fn end_with_public_base(
    inner: &Inner,
    tx: &mut dyn Transaction,
    base: DatabaseId,
    by: &User,
    now: Timestamp,
) -> Result<(), PullError> {
    let mut after = None;
    loop {
        let page = tx.pulls().list_unmerged_to(base, after, CLOSED_AT_A_TIME)?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.number);
        for mut pull in page {
            let source = tx.databases().get(pull.from_database_id)?;
            if source.is_none_or(|source| rules::ends_with_public_base(&pull, &source)) {
                hide(inner, tx, &mut pull, PullHidden::WithSource, by, now)?;
            }
        }
    }
}
