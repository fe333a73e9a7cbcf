//! Grants: what a user lets an application do, and the codes and tokens on the way there.

use branchyard_auth::{CodeChallenge, HashedToken, UserCode};

use super::LastUse;
use crate::values::{AccountId, ApplicationId, GrantId, RedirectUri, Scope, Timestamp};

/// What a user let an application do on one machine. It lasts as long as its refresh tokens, which replace each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Id of the grant. Not secret.
    pub id: GrantId,
    /// The user.
    pub user_id: AccountId,
    /// The application.
    pub application: ApplicationId,
    /// The widest scope of its access tokens.
    pub scope: Scope,
    /// When the application received it.
    pub created_at: Timestamp,
    /// When it ends, unless a refresh token is used before.
    pub expires_at: Timestamp,
    /// SHA-256 of the authorization code that it was given for. A code that is sent again ends the grant (RFC 6749 §4.1.2). `None` for
    /// a device.
    pub code: Option<HashedToken>,
    /// Its refresh tokens.
    pub refresh: RefreshFamily,
    /// The last use of one of its access tokens. `None` before the first use.
    pub last_use: Option<LastUse>,
}

impl Grant {
    /// Returns when the application last used the grant, or renewed its tokens.
    pub fn last_seen(&self) -> Timestamp {
        let used = self.last_use.as_ref().map_or(self.created_at, |last| last.at);
        used.max(self.refresh.rotated_at)
    }

    /// Returns `true` if the grant has ended at `now` because it was not used for long.
    pub fn expired(&self, now: Timestamp) -> bool {
        now >= self.expires_at
    }
}

/// The refresh tokens of a grant: SHA-256 of what they share, and of the newest two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefreshFamily {
    /// What all tokens of the family share.
    pub family: HashedToken,
    /// The newest token.
    pub current: HashedToken,
    /// The token that the newest one replaced. `None` before the first refresh.
    pub previous: Option<HashedToken>,
    /// When the newest token was issued.
    pub rotated_at: Timestamp,
}

/// What a refresh token is to its family when a client sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefreshUse {
    /// The newest token. It is to be replaced.
    Current,
    /// The token before, shortly after it was replaced. Its client gets the newest token once more.
    Repeated,
    /// A token that was replaced longer ago. Two clients have it, so the family ends (RFC 9700 §4.14.2).
    Reused,
}

impl RefreshFamily {
    /// Seconds for which a replaced token is still good.
    pub const OVERLAP_SECONDS: i64 = 60;

    /// Returns what a token of this family is.
    pub fn judge(&self, sent: &HashedToken, now: Timestamp) -> RefreshUse {
        if *sent == self.current {
            RefreshUse::Current
        } else if self.previous.is_some_and(|previous| previous == *sent)
            && now < self.rotated_at.plus_seconds(Self::OVERLAP_SECONDS)
        {
            RefreshUse::Repeated
        } else {
            RefreshUse::Reused
        }
    }
}

/// An access token as stored, with a hash in place of the secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedAccess {
    /// SHA-256 of the token.
    pub hash: HashedToken,
    /// The grant.
    pub grant_id: GrantId,
    /// What the token allows.
    pub scope: Scope,
    /// When the token expires.
    pub expires_at: Timestamp,
}

impl IssuedAccess {
    /// Returns `true` if the token has expired at `now`.
    pub fn expired(&self, now: Timestamp) -> bool {
        now >= self.expires_at
    }
}

/// An authorization code: the consent of a user, which the application has not fetched yet.
#[derive(Debug, Clone)]
pub struct AuthorizationCode {
    /// SHA-256 of the code.
    pub hash: HashedToken,
    /// The application.
    pub application: ApplicationId,
    /// The user who consented.
    pub user_id: AccountId,
    /// The scope that the user consented to.
    pub scope: Scope,
    /// Where the code was sent.
    pub redirect_uri: RedirectUri,
    /// The code challenge, which the verifier of the application has to meet.
    pub challenge: CodeChallenge,
    /// When the code expires.
    pub expires_at: Timestamp,
}

/// A device that waits for the consent of a user, who is signed in on another one (RFC 8628).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceAuthorization {
    /// SHA-256 of the device code.
    pub hash: HashedToken,
    /// The code that the device shows.
    pub user_code: UserCode,
    /// The application on the device.
    pub application: ApplicationId,
    /// The scope that the application asked for.
    pub scope: Scope,
    /// When the device began to wait.
    pub created_at: Timestamp,
    /// When it stops.
    pub expires_at: Timestamp,
    /// Minimum seconds between two polls.
    pub interval_seconds: i64,
    /// When the device polled last.
    pub polled_at: Option<Timestamp>,
    /// What the user decided.
    pub decision: DeviceDecision,
}

/// What a user decided about a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceDecision {
    /// Nothing yet.
    Pending,
    /// This user lets the application act.
    Approved(AccountId),
    /// A user refused.
    Denied,
}

#[cfg(test)]
mod tests {
    use super::{RefreshFamily, RefreshUse};
    use crate::values::Timestamp;
    use branchyard_auth::HashedToken;

    #[test]
    fn the_token_before_is_good_for_a_minute() {
        let [first, second, third] = [1, 2, 3].map(|byte| HashedToken::from_bytes([byte; 32]));
        let at = Timestamp::from_seconds;
        let family = RefreshFamily { family: first, current: third, previous: Some(second), rotated_at: at(100) };
        assert_eq!(family.judge(&third, at(1_000_000)), RefreshUse::Current);
        assert_eq!(family.judge(&second, at(159)), RefreshUse::Repeated);
        assert_eq!(family.judge(&second, at(160)), RefreshUse::Reused);
        assert_eq!(family.judge(&first, at(100)), RefreshUse::Reused);
        let new = RefreshFamily { previous: None, ..family };
        assert_eq!(new.judge(&second, at(100)), RefreshUse::Reused);
    }
}
