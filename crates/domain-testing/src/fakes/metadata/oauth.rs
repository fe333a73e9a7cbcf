//! OAuth: applications, grants with their tokens, codes, and devices.

use branchyard_auth::{HashedToken, UserCode};

use super::{MemoryTransaction, Result, count, missing, page};
use branchyard_domain::entities::{
    Application, AuthorizationCode, DeviceAuthorization, DeviceDecision, Grant, IssuedAccess, LastUse, RefreshFamily,
    RegisteredApplication, User,
};
use branchyard_domain::ports::{
    ApplicationRepository, AuthorizationCodeRepository, DeviceAuthorizationRepository, GrantRepository, MetadataError,
    WriteKey,
};
use branchyard_domain::values::{AccountId, ApplicationId, GrantId, Timestamp};

use super::state::MetadataState;

/// Maximum number of expired rows that one call removes.
const PURGED: usize = 100;

impl MetadataState {
    fn registered(&self, application: &Application) -> Option<RegisteredApplication> {
        let owner = self.users.get(application.owner.as_ref()?)?;
        if self.retired.contains_key(&owner.id) {
            return None;
        }
        Some(RegisteredApplication {
            application: application.clone(),
            owner_name: Some(owner.name.to_string()),
            is_suspended: owner.suspended_at.is_some(),
        })
    }

    /// Removes the applications that pass a test, with all that refers to them. Returns their number.
    fn remove_applications(&mut self, test: impl Fn(&Application) -> bool) -> usize {
        let removed: Vec<ApplicationId> =
            self.applications.values().filter(|one| test(one)).map(|one| one.id.clone()).collect();
        self.applications.retain(|id, _| !removed.contains(id));
        self.codes.retain(|_, code| !removed.contains(&code.application));
        self.devices.retain(|_, device| !removed.contains(&device.application));
        self.remove_grants(|grant| removed.contains(&grant.application));
        removed.len()
    }

    /// Removes the grants that pass a test, with their access tokens. Returns their number.
    fn remove_grants(&mut self, test: impl Fn(&Grant) -> bool) -> usize {
        let before = self.grants.len();
        self.grants.retain(|_, grant| !test(grant));
        let grants = &self.grants;
        self.access_tokens.retain(|_, access| grants.contains_key(&access.grant_id));
        before - self.grants.len()
    }

    /// Removes all of OAuth that belongs to a user.
    pub(super) fn remove_oauth_of(&mut self, user: AccountId) {
        self.remove_applications(|application| application.owner == Some(user));
        self.remove_grants_of(user);
    }

    fn remove_grants_of(&mut self, user: AccountId) -> usize {
        self.codes.retain(|_, code| code.user_id != user);
        self.devices.retain(|_, device| device.decided_by != Some(user));
        self.remove_grants(|grant| grant.user_id == user)
    }
}

/// A device with the user who decided, also if the user refused.
#[derive(Debug, Clone)]
pub(super) struct StoredDevice {
    pub(super) device: DeviceAuthorization,
    pub(super) decided_by: Option<AccountId>,
}

impl std::ops::Deref for StoredDevice {
    type Target = DeviceAuthorization;

    fn deref(&self) -> &DeviceAuthorization {
        &self.device
    }
}

impl ApplicationRepository for MemoryTransaction<'_> {
    fn add(&mut self, application: &Application) -> Result<()> {
        let Some(owner) = application.owner else { return Ok(()) };
        self.needs(WriteKey::Account(owner));
        if !self.state.users.contains_key(&owner) {
            return Err(missing("add an application"));
        }
        self.change()?.applications.insert(application.id.clone(), application.clone());
        Ok(())
    }

    fn get(&mut self, id: &ApplicationId) -> Result<Option<RegisteredApplication>> {
        Ok(self.state.applications.get(id).and_then(|found| self.state.registered(found)))
    }

    fn list(
        &mut self,
        owner: Option<AccountId>,
        after: Option<&ApplicationId>,
        limit: usize,
    ) -> Result<Vec<RegisteredApplication>> {
        let wanted =
            |one: &&Application| (owner.is_none() || one.owner == owner) && after.is_none_or(|after| one.id < *after);
        let found = self.state.applications.values().rev().filter(wanted);
        Ok(page(found.filter_map(|one| self.state.registered(one)), limit))
    }

    fn count(&mut self, owner: AccountId) -> Result<u64> {
        Ok(count(self.state.applications.values().filter(|one| one.owner == Some(owner)).count()))
    }

    fn remove(&mut self, owner: AccountId, id: &ApplicationId) -> Result<bool> {
        self.needs(WriteKey::Account(owner));
        Ok(self.change()?.remove_applications(|one| one.id == *id && one.owner == Some(owner)) > 0)
    }
}

impl GrantRepository for MemoryTransaction<'_> {
    fn add(&mut self, grant: &Grant) -> Result<()> {
        self.needs(WriteKey::Account(grant.user_id));
        if !self.state.users.contains_key(&grant.user_id) {
            return Err(missing("add a grant"));
        }
        self.change()?.grants.insert(grant.id, grant.clone());
        Ok(())
    }

    fn get(&mut self, id: GrantId) -> Result<Option<Grant>> {
        Ok(self.state.grants.get(&id).cloned())
    }

    fn by_family(&mut self, family: &HashedToken) -> Result<Option<Grant>> {
        Ok(self.state.grants.values().find(|grant| grant.refresh.family == *family).cloned())
    }

    fn by_code(&mut self, code: &HashedToken) -> Result<Option<Grant>> {
        Ok(self.state.grants.values().find(|grant| grant.code == Some(*code)).cloned())
    }

    fn list(&mut self, user: AccountId, now: Timestamp, after: Option<GrantId>, limit: usize) -> Result<Vec<Grant>> {
        let of_user = self.state.grants.values().rev().filter(|grant| grant.user_id == user && !grant.expired(now));
        Ok(page(of_user.filter(|grant| after.is_none_or(|after| grant.id < after)).cloned(), limit))
    }

    fn rotate(&mut self, grant: &Grant, refresh: &RefreshFamily, expires_at: Timestamp) -> Result<bool> {
        self.needs(WriteKey::Account(grant.user_id));
        let Some(grant) = self.change()?.grants.get_mut(&grant.id) else { return Ok(false) };
        (grant.refresh, grant.expires_at) = (refresh.clone(), expires_at);
        Ok(true)
    }

    fn remove(&mut self, user: AccountId, id: GrantId) -> Result<bool> {
        self.needs(WriteKey::Account(user));
        Ok(self.change()?.remove_grants(|grant| grant.id == id && grant.user_id == user) > 0)
    }

    fn remove_all(&mut self, user: AccountId) -> Result<u64> {
        self.needs(WriteKey::Account(user));
        Ok(count(self.change()?.remove_grants_of(user)))
    }

    fn touch(&mut self, id: GrantId, last_use: &LastUse) -> Result<()> {
        if let Some(grant) = self.change()?.grants.get_mut(&id) {
            grant.last_use = Some(last_use.clone());
        }
        Ok(())
    }

    fn add_access(&mut self, user: AccountId, access: &IssuedAccess, limit: usize, now: Timestamp) -> Result<()> {
        self.needs(WriteKey::Account(user));
        if !self.state.grants.contains_key(&access.grant_id) {
            return Err(missing("add an access token"));
        }
        let state = self.change()?;
        let of_grant = state.access_tokens.values().filter(|one| one.grant_id == access.grant_id);
        let mut of_grant: Vec<IssuedAccess> = of_grant.cloned().collect();
        of_grant.sort_by_key(|one| std::cmp::Reverse(one.expires_at));
        for (place, old) in of_grant.iter().enumerate() {
            if place + 1 >= limit || old.expired(now) {
                state.access_tokens.remove(old.hash.as_bytes());
            }
        }
        state.access_tokens.insert(*access.hash.as_bytes(), access.clone());
        Ok(())
    }

    fn by_access(&mut self, hash: &HashedToken) -> Result<Option<(IssuedAccess, Grant, User)>> {
        let state = &self.state;
        let Some(access) = state.access_tokens.get(hash.as_bytes()) else { return Ok(None) };
        let Some(grant) = state.grants.get(&access.grant_id) else { return Ok(None) };
        let is_deleted = state.retired.contains_key(&grant.user_id);
        let user = state.users.get(&grant.user_id).filter(|_| !is_deleted);
        Ok(user.map(|user| (access.clone(), grant.clone(), user.clone())))
    }

    fn remove_access(&mut self, user: AccountId, hash: &HashedToken) -> Result<bool> {
        self.needs(WriteKey::Account(user));
        Ok(self.change()?.access_tokens.remove(hash.as_bytes()).is_some())
    }

    fn purge(&mut self, now: Timestamp) -> Result<()> {
        let expired = self.state.grants.values().filter(|grant| grant.expired(now));
        let expired: Vec<GrantId> = expired.map(|grant| grant.id).take(PURGED).collect();
        self.change()?.remove_grants(|grant| expired.contains(&grant.id));
        Ok(())
    }
}

impl AuthorizationCodeRepository for MemoryTransaction<'_> {
    fn add(&mut self, code: &AuthorizationCode, limit: usize) -> Result<()> {
        self.needs(WriteKey::Account(code.user_id));
        if !self.state.users.contains_key(&code.user_id) {
            return Err(missing("add an authorization code"));
        }
        let codes = &mut self.change()?.codes;
        let of_user = codes.values().filter(|one| one.user_id == code.user_id);
        let mut of_user: Vec<(Timestamp, [u8; 32])> =
            of_user.map(|one| (one.expires_at, *one.hash.as_bytes())).collect();
        of_user.sort_unstable();
        for (_, old) in of_user.iter().rev().skip(limit.saturating_sub(1)) {
            codes.remove(old);
        }
        codes.insert(*code.hash.as_bytes(), code.clone());
        Ok(())
    }

    fn get(&mut self, hash: &HashedToken) -> Result<Option<AuthorizationCode>> {
        Ok(self.state.codes.get(hash.as_bytes()).cloned())
    }

    fn remove(&mut self, user: AccountId, hash: &HashedToken) -> Result<bool> {
        self.needs(WriteKey::Account(user));
        if self.state.codes.get(hash.as_bytes()).is_none_or(|code| code.user_id != user) {
            return Ok(false);
        }
        Ok(self.change()?.codes.remove(hash.as_bytes()).is_some())
    }

    fn purge(&mut self, now: Timestamp) -> Result<()> {
        let expired = self.state.codes.iter().filter(|(_, code)| now >= code.expires_at);
        let expired: Vec<[u8; 32]> = expired.map(|(hash, _)| *hash).take(PURGED).collect();
        self.change()?.codes.retain(|hash, _| !expired.contains(hash));
        Ok(())
    }
}

impl DeviceAuthorizationRepository for MemoryTransaction<'_> {
    fn add(&mut self, device: &DeviceAuthorization) -> Result<()> {
        let state = self.change()?;
        if state.devices.values().any(|other| other.user_code == device.user_code) {
            return Err(MetadataError::Taken);
        }
        let stored = StoredDevice { device: device.clone(), decided_by: None };
        state.devices.insert(*device.hash.as_bytes(), stored);
        Ok(())
    }

    fn get(&mut self, hash: &HashedToken) -> Result<Option<DeviceAuthorization>> {
        Ok(self.state.devices.get(hash.as_bytes()).map(|stored| stored.device.clone()))
    }

    fn by_user_code(&mut self, code: UserCode) -> Result<Option<DeviceAuthorization>> {
        let found = self.state.devices.values().find(|device| device.user_code == code);
        Ok(found.map(|stored| stored.device.clone()))
    }

    fn count_live(&mut self, now: Timestamp) -> Result<u64> {
        Ok(count(self.state.devices.values().filter(|device| now < device.expires_at).count()))
    }

    fn record_poll(&mut self, hash: &HashedToken, at: Timestamp, interval_seconds: i64) -> Result<()> {
        if let Some(StoredDevice { device, .. }) = self.change()?.devices.get_mut(hash.as_bytes()) {
            (device.polled_at, device.interval_seconds) = (Some(at), interval_seconds);
        }
        Ok(())
    }

    fn decide(&mut self, hash: &HashedToken, user: AccountId, approves: bool, now: Timestamp) -> Result<bool> {
        let Some(stored) = self.change()?.devices.get_mut(hash.as_bytes()) else { return Ok(false) };
        if stored.decision != DeviceDecision::Pending || now >= stored.expires_at {
            return Ok(false);
        }
        stored.decided_by = Some(user);
        stored.device.decision = if approves { DeviceDecision::Approved(user) } else { DeviceDecision::Denied };
        Ok(true)
    }

    fn remove(&mut self, hash: &HashedToken) -> Result<bool> {
        Ok(self.change()?.devices.remove(hash.as_bytes()).is_some())
    }

    fn purge(&mut self, now: Timestamp) -> Result<()> {
        let expired = self.state.devices.iter().filter(|(_, device)| now >= device.expires_at);
        let expired: Vec<[u8; 32]> = expired.map(|(hash, _)| *hash).take(PURGED).collect();
        self.change()?.devices.retain(|hash, _| !expired.contains(hash));
        Ok(())
    }
}
