//! What pulls may show, and to whom: the rules alone, as functions of what was looked up.

use std::collections::BTreeMap;

use crate::entities::{Database, Pull, PullState, Role, Visibility};
use crate::values::{AccountId, DatabaseId};

/// What opening or reopening a pull depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenRequest {
    /// Whether source and base are one database.
    pub is_within: bool,
    /// The visibility of the source.
    pub source: Visibility,
    /// The caller's role on the source; `None` when it is hidden from the caller.
    pub role: Option<Role>,
    /// The visibility of the base.
    pub base: Visibility,
    /// Whether the caller agreed that everybody may see the source branch.
    pub publish: bool,
}

/// Why a pull may not be opened or reopened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpeningError {
    /// The source is hidden from the caller.
    Hidden,
    /// The source is not public and the caller may not write to it.
    NeedsWrite,
    /// The pull makes the branch visible to everybody and the caller did not agree.
    NeedsPublish,
}

impl OpenRequest {
    /// Decides whether the pull may be opened.
    ///
    /// # Errors
    /// [`OpeningError`].
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

    /// Whether the pull makes visible to everybody what is not.
    pub fn publishes(&self) -> bool {
        !self.is_within && self.source == Visibility::Private && self.base == Visibility::Public
    }
}

/// Whether a source shows its branches to other databases only with consent: it is private, or was deleted.
pub fn is_guarded(source: &Database) -> bool {
    source.visibility == Visibility::Private || source.deleted_at.is_some()
}

/// Whether a pull is closed, and what it shows hidden, when its source is deleted or made private.
pub fn ends_with_source(pull: &Pull) -> bool {
    !pull.is_within() && !matches!(pull.state, PullState::Merged { .. })
}

/// Whether a pull is closed, and what it shows hidden, when its base is made public.
pub fn ends_with_public_base(pull: &Pull, source: &Database) -> bool {
    ends_with_source(pull) && is_guarded(source) && !pull.content.is_published
}

/// Whether a fork may be made public. `parent` is the visibility of its parent, the last one if that was deleted.
pub fn may_make_fork_public(parent: Visibility, role_on_parent: Option<Role>) -> bool {
    parent == Visibility::Public || role_on_parent == Some(Role::Admin)
}

/// What a fetch occupies while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchPlace {
    /// The database fetched into.
    pub base: DatabaseId,
    /// The user it is for.
    pub user: AccountId,
}

/// Chooses which of the `waiting` fetches runs next, if one may: one at a time per base, and of one user at most half of the `places`, but one in
/// any case. The user with the fewest running ones comes first; among equals the one that waits longest, which stands first.
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
