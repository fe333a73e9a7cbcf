//! Applications, grants, and the codes and tokens of OAuth.

use branchyard_auth::{HashedToken, UserCode};

use super::Result;
use crate::entities::{
    Application, AuthorizationCode, DeviceAuthorization, Grant, IssuedAccess, LastUse, RefreshFamily,
    RegisteredApplication, User,
};
use crate::values::{AccountId, ApplicationId, GrantId, Timestamp};

/// The repository of registered applications. The built-in one is not stored.
pub trait ApplicationRepository {
    /// Adds an application.
    fn add(&mut self, application: &Application) -> Result<()>;
    /// Returns an application with the standing of its owner.
    fn get(&mut self, id: &ApplicationId) -> Result<Option<RegisteredApplication>>;
    /// Lists applications, of `owner` or of all users, newest first, after `after`. Their identifiers sort by age.
    fn list(
        &mut self,
        owner: Option<AccountId>,
        after: Option<&ApplicationId>,
        limit: usize,
    ) -> Result<Vec<RegisteredApplication>>;
    /// Counts the applications of a user.
    fn count(&mut self, owner: AccountId) -> Result<u64>;
    /// Removes an application of a user, with its codes, devices and grants. Returns `true` if it existed.
    fn remove(&mut self, owner: AccountId, id: &ApplicationId) -> Result<bool>;
}

/// The repository of grants with their access tokens.
pub trait GrantRepository {
    /// Adds a grant.
    fn add(&mut self, grant: &Grant) -> Result<()>;
    /// Returns a grant by its id.
    fn get(&mut self, id: GrantId) -> Result<Option<Grant>>;
    /// Returns the grant whose refresh tokens have this family.
    fn by_family(&mut self, family: &HashedToken) -> Result<Option<Grant>>;
    /// Returns the grant that was given for this authorization code.
    fn by_code(&mut self, code: &HashedToken) -> Result<Option<Grant>>;
    /// Lists the grants of a user that have not expired, newest first, after `after`.
    fn list(&mut self, user: AccountId, now: Timestamp, after: Option<GrantId>, limit: usize) -> Result<Vec<Grant>>;
    /// Replaces the refresh tokens of a grant, and extends it. Returns `false` if the grant is gone.
    fn rotate(&mut self, grant: &Grant, refresh: &RefreshFamily, expires_at: Timestamp) -> Result<bool>;
    /// Removes a grant of a user with its access tokens. Returns `true` if it existed.
    fn remove(&mut self, user: AccountId, id: GrantId) -> Result<bool>;
    /// Removes all grants, codes and approvals of a user. Returns the number of grants.
    fn remove_all(&mut self, user: AccountId) -> Result<u64>;
    /// Records the last use of a grant.
    fn touch(&mut self, id: GrantId, last_use: &LastUse) -> Result<()>;

    /// Adds an access token of a grant of `user`. Removes those of the grant that are expired, and its oldest ones beyond `limit`.
    fn add_access(&mut self, user: AccountId, access: &IssuedAccess, limit: usize, now: Timestamp) -> Result<()>;
    /// Returns the access token with this hash, its grant and its user.
    fn by_access(&mut self, hash: &HashedToken) -> Result<Option<(IssuedAccess, Grant, User)>>;
    /// Removes an access token of a grant of `user`. Returns `true` if it existed.
    fn remove_access(&mut self, user: AccountId, hash: &HashedToken) -> Result<bool>;
    /// Removes up to 100 grants that expired at `now` or before.
    fn purge(&mut self, now: Timestamp) -> Result<()>;
}

/// The repository of authorization codes.
pub trait AuthorizationCodeRepository {
    /// Adds a code. Removes the oldest codes of its user beyond `limit`.
    fn add(&mut self, code: &AuthorizationCode, limit: usize) -> Result<()>;
    /// Returns the code with this hash.
    fn get(&mut self, hash: &HashedToken) -> Result<Option<AuthorizationCode>>;
    /// Removes a code of a user. Returns `true` if it existed.
    fn remove(&mut self, user: AccountId, hash: &HashedToken) -> Result<bool>;
    /// Removes up to 100 codes that expired at `now` or before.
    fn purge(&mut self, now: Timestamp) -> Result<()>;
}

/// The repository of devices that wait for their users.
pub trait DeviceAuthorizationRepository {
    /// Adds a device. Returns `MetadataError::Taken` if another one has the same user code.
    fn add(&mut self, device: &DeviceAuthorization) -> Result<()>;
    /// Returns the device with this hash of its device code.
    fn get(&mut self, hash: &HashedToken) -> Result<Option<DeviceAuthorization>>;
    /// Returns the device with this user code.
    fn by_user_code(&mut self, code: UserCode) -> Result<Option<DeviceAuthorization>>;
    /// Counts the devices that have not expired.
    fn count_live(&mut self, now: Timestamp) -> Result<u64>;
    /// Records that a device polled, and the seconds that it has to wait between two polls.
    fn record_poll(&mut self, hash: &HashedToken, at: Timestamp, interval_seconds: i64) -> Result<()>;
    /// Records what `user` decided: `true` to approve. Returns `false`, and changes nothing, unless the device waits for a decision at
    /// `now`.
    fn decide(&mut self, hash: &HashedToken, user: AccountId, approves: bool, now: Timestamp) -> Result<bool>;
    /// Removes a device. Returns `true` if it existed.
    fn remove(&mut self, hash: &HashedToken) -> Result<bool>;
    /// Removes up to 100 devices that expired at `now` or before.
    fn purge(&mut self, now: Timestamp) -> Result<()>;
}
