//! The rules of what pull requests may show and to which users, as pure functions of the data they depend on.

use std::collections::BTreeMap;

use crate::entities::{Database, Pull, PullState, Role, Visibility};
use crate::values::{AccountId, DatabaseId};

/// The facts that opening or reopening a pull request depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenRequest {
    /// Whether source and base are the same database.
    pub is_within: bool,
    /// The visibility of the source.
    pub source: Visibility,
    /// The caller's role on the source, or `None` if the source is hidden from the caller.
    pub role: Option<Role>,
    /// The visibility of the base.
    pub base: Visibility,
    /// Whether the caller consented to making the source branch public.
    pub publish: bool,
}

/// Why a pull request may not be opened or reopened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpeningError {
    /// The source is hidden from the caller.
    Hidden,
    /// The source is not public and the caller lacks the write role on it.
    NeedsWrite,
    /// The pull request would make the branch public and the caller did not consent.
    NeedsPublish,
}

impl OpenRequest {
    /// Checks whether the pull request may be opened.
    ///
    /// # Errors
    /// [`OpeningError`] with the rule that forbids it.
    pub fn check(&self) -> Result<(), OpeningError> {
        if self.is_within || self.source == Visibility::Public {
            return Ok(());
        }
        match self.role {
            None => Err(OpeningError::Hidden),
            Some(role) if role < Role::Write => Err(OpeningError::NeedsWrite),
            Some(_) if self.publishes() && !self.publish => Err(OpeningError::NeedsPublish),
            Some(_) => Ok(()),
        }
    }

    /// Returns `true` if the pull request would make a private branch public.
    pub fn publishes(&self) -> bool {
        !self.is_within && self.source == Visibility::Private && self.base == Visibility::Public
    }
}

/// Returns `true` if the branches of a source may be shown in other databases only with consent, because the source is
/// private or deleted.
pub fn is_guarded(source: &Database) -> bool {
    source.visibility == Visibility::Private || source.deleted_at.is_some()
}

/// Returns `true` if a pull request is closed and its content hidden when its source is deleted or made private.
pub fn ends_with_source(pull: &Pull) -> bool {
    !pull.is_within() && !matches!(pull.state, PullState::Merged { .. })
}

/// Returns `true` if a pull request is closed and its content hidden when its base is made public.
pub fn ends_with_public_base(pull: &Pull, source: &Database) -> bool {
    ends_with_source(pull) && is_guarded(source) && !pull.content.is_published
}

/// Returns `true` if a fork may be made public. `parent` is the visibility of its parent, or the last one if the parent was
/// deleted.
pub fn may_make_fork_public(parent: Visibility, role_on_parent: Option<Role>) -> bool {
    parent == Visibility::Public || role_on_parent == Some(Role::Admin)
}

/// The resources that a fetch occupies while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchPlace {
    /// The database fetched into.
    pub base: DatabaseId,
    /// The user who requested the fetch.
    pub user: AccountId,
}

/// Returns the index of the `waiting` fetch to run next, or `None` if none may run. At most one fetch runs per base, and a
/// user has at most half of the `places`, but always one. The user with the fewest running fetches comes first; among
/// equals, the first in `waiting`, which has waited longest.
pub fn next_fetch(running: &[FetchPlace], waiting: &[FetchPlace], places: usize) -> Option<usize> {
    if running.len() >= places.max(1) {
        return None;
    }
    let mut by_user: BTreeMap<AccountId, usize> = BTreeMap::new();
    for place in running {
        *by_user.entry(place.user).or_default() += 1;
    }
    let share = (places / 2).max(1);
    let count = |place: &FetchPlace| by_user.get(&place.user).copied().unwrap_or_default();
    let may_run = |place: &FetchPlace| count(place) < share && running.iter().all(|running| running.base != place.base);
    let found = waiting.iter().enumerate().filter(|(_, place)| may_run(place)).min_by_key(|(_, place)| count(place));
    found.map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(base: u128, user: u128) -> FetchPlace {
        let (base, user) = (uuid::Uuid::from_u128(base), uuid::Uuid::from_u128(user));
        FetchPlace { base: DatabaseId::from_uuid(base), user: AccountId::from_uuid(user) }
    }

    #[test]
    fn opening_needs_write_and_consent_where_it_publishes() {
        use Visibility::{Private, Public};
        let check =
            |is_within, source, role, base, publish| OpenRequest { is_within, source, role, base, publish }.check();
        assert_eq!(check(true, Private, Some(Role::Read), Private, false), Ok(()), "a branch of the base");
        assert_eq!(check(false, Public, Some(Role::Read), Public, false), Ok(()));
        for publish in [false, true] {
            assert_eq!(check(false, Private, None, Public, publish), Err(OpeningError::Hidden));
            assert_eq!(check(false, Private, Some(Role::Read), Public, publish), Err(OpeningError::NeedsWrite));
            assert_eq!(check(false, Private, Some(Role::Read), Private, publish), Err(OpeningError::NeedsWrite));
            assert_eq!(check(false, Private, Some(Role::Write), Private, publish), Ok(()), "the base is private too");
        }
        for role in [Role::Write, Role::Admin] {
            assert_eq!(check(false, Private, Some(role), Public, false), Err(OpeningError::NeedsPublish));
            assert_eq!(check(false, Private, Some(role), Public, true), Ok(()));
        }
    }

    #[test]
    fn fetches_share_the_places_between_users_and_take_one_base_at_a_time() {
        let waiting = [place(1, 1), place(2, 1), place(3, 2), place(4, 2)];
        assert_eq!(next_fetch(&[], &waiting, 4), Some(0));
        assert_eq!(next_fetch(&[place(1, 1)], &waiting, 4), Some(2), "another user's");
        assert_eq!(next_fetch(&[place(1, 1), place(3, 2)], &waiting, 4), Some(1));
        assert_eq!(next_fetch(&[place(1, 1), place(2, 1)], &waiting[..2], 4), None, "half of the places");
        assert_eq!(next_fetch(&[place(3, 9)], &waiting[2..3], 4), None, "the base is taken");
        assert_eq!(next_fetch(&[place(8, 8), place(9, 9)], &waiting, 2), None, "no place is free");
        assert_eq!(next_fetch(&[], &waiting, 1), Some(0), "one place is enough for one");
    }
}
