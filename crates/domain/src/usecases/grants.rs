//! Grants: how an application gets tokens that act for a user, and how they end.
//!
//! A user consents, and the application gets an authorization code ([`Grants::authorize`]) or a decided
//! [device](super::Devices). It redeems either for a grant with its first tokens, once. From then on a refresh token yields the next
//! tokens until the grant ends: because the user, an administrator or the application revokes it, because it was not used for
//! [`Grants::REFRESH_SECONDS`], or because a code or a replaced refresh token was sent again, which two clients must have then.
//!
//! All changes of one user's grants hold the key of the user's account, so that they happen one after the other.

use std::sync::Arc;

use branchyard_auth::{AccessToken, CodeChallenge, CodeVerifier, HashedToken, PlainSecret, RefreshToken};

use super::Inner;
use super::applications::{registered, usable};
use crate::entities::{
    AuthorizationCode, Grant, IssuedAccess, LastUse, RefreshFamily, RefreshUse, RegisteredApplication, User,
};
use crate::errors::{GrantError, PortError};
use crate::ports::{Durability, Transaction, WriteKeys};
use crate::values::{AccountId, ApplicationId, GrantId, RedirectUri, Scope, SessionId, Timestamp};

/// What an application asks a user for.
#[derive(Debug, Clone)]
pub struct AuthorizationRequest {
    /// The application.
    pub application: ApplicationId,
    /// The redirect URI, which receives the answer.
    pub redirect_uri: RedirectUri,
    /// The requested scope.
    pub scope: Scope,
    /// The code challenge, which the verifier of the application has to meet.
    pub challenge: CodeChallenge,
}

/// The tokens of an application, which are readable only now.
#[derive(Debug)]
pub struct IssuedTokens {
    /// The access token.
    pub access: AccessToken,
    /// Seconds for which the access token is valid.
    pub expires_in: i64,
    /// The refresh token.
    pub refresh: RefreshToken,
    /// What the access token allows.
    pub scope: Scope,
}

/// A grant with its application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantView {
    /// The grant.
    pub grant: Grant,
    /// The application.
    pub application: RegisteredApplication,
}

/// A token that an application no longer needs.
#[derive(Debug)]
pub enum RevokedToken {
    /// An access token. Only this token ends.
    Access(AccessToken),
    /// A refresh token. Its grant ends.
    Refresh(RefreshToken),
}

/// A valid access token.
#[derive(Debug, Clone)]
pub struct CheckedAccess {
    /// What the token allows, and until when.
    pub access: IssuedAccess,
    /// The grant that the token belongs to, as of its last change.
    pub grant: Grant,
    /// The user.
    pub user: Arc<User>,
}

/// Use cases of grants.
pub struct Grants<'a>(pub(super) &'a Inner);

impl<'a> Grants<'a> {
    /// Lifetime of an authorization code in seconds (RFC 6749 §4.1.2 recommends at most 600).
    pub const CODE_SECONDS: i64 = 60;

    /// Lifetime of an access token in seconds.
    pub const ACCESS_SECONDS: i64 = 3_600;

    /// Seconds after the last refresh at which a grant ends.
    pub const REFRESH_SECONDS: i64 = 90 * 86_400;

    /// Maximum number of grants per user. Another one ends the one that was not used for the longest time.
    pub const PER_USER: usize = 100;

    /// Maximum number of valid access tokens of one grant. Another one ends the oldest.
    pub const ACCESS_PER_GRANT: usize = 20;

    /// Maximum number of authorization codes of one user that no application has redeemed. Another one ends the oldest.
    pub const CODES_PER_USER: usize = 20;

    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Records that a user consents to what an application asks for, and returns the code that the application redeems. `session` is the
    /// session in which the user consents, if there is one.
    ///
    /// # Errors
    /// [`GrantError::SessionEnded`]; [`GrantError::UnknownApplication`]; [`GrantError::UnknownRedirectUri`].
    pub fn authorize(
        &self,
        user: &User,
        session: Option<SessionId>,
        request: &AuthorizationRequest,
    ) -> Result<PlainSecret, GrantError> {
        let now = self.0.now();
        let secret = PlainSecret::mint_from(&mut |buffer| self.0.ports.ids.fill(buffer));
        let mut tx = self.0.ports.metadata.write(&WriteKeys::account(user.id))?;
        check_session(tx.as_mut(), user.id, session)?;
        let application = usable(tx.as_mut(), &request.application)?.ok_or(GrantError::UnknownApplication)?.application;
        if !application.admits(&request.redirect_uri) {
            return Err(GrantError::UnknownRedirectUri);
        }
        let code = AuthorizationCode {
            hash: secret.hash(),
            application: application.id,
            user_id: user.id,
            scope: request.scope,
            redirect_uri: request.redirect_uri.clone(),
            challenge: request.challenge,
            expires_at: now.plus_seconds(Self::CODE_SECONDS),
        };
        tx.authorization_codes().purge(now)?;
        tx.authorization_codes().add(&code, Self::CODES_PER_USER)?;
        tx.commit(Durability::Synced)?;
        Ok(secret)
    }

    /// Redeems an authorization code. `redirect_uri` has to be the one of the request, character by character. A code that was redeemed
    /// before ends the grant that it was redeemed for (RFC 6749 §4.1.2).
    ///
    /// # Errors
    /// [`GrantError::UnknownApplication`]; [`GrantError::Invalid`], after which a code is still valid if it was; [`GrantError::Replayed`].
    pub fn redeem(
        &self,
        application: &ApplicationId,
        code: &HashedToken,
        redirect_uri: &str,
        verifier: &CodeVerifier,
    ) -> Result<IssuedTokens, GrantError> {
        let metadata = self.0.ports.metadata.as_ref();
        let found = metadata.read()?.authorization_codes().get(code)?;
        let Some(found) = found else { return Err(self.end_of_code(application, code)?) };
        let mut tx = metadata.write(&WriteKeys::account(found.user_id))?;
        let Some(found) = tx.authorization_codes().get(code)? else {
            drop(tx);
            return Err(self.end_of_code(application, code)?);
        };
        let is_fit = found.application == *application
            && found.redirect_uri.as_str() == redirect_uri
            && found.challenge.is_met_by(verifier)
            && self.0.now() < found.expires_at;
        if !is_fit {
            return Err(GrantError::Invalid);
        }
        tx.authorization_codes().remove(found.user_id, code)?;
        self.begin(tx, application, found.user_id, found.scope, Some(*code))
    }

    /// Ends the grant of an application that was given for a code, if there is one, and returns the error for the code.
    fn end_of_code(&self, application: &ApplicationId, code: &HashedToken) -> Result<GrantError, GrantError> {
        let metadata = self.0.ports.metadata.as_ref();
        let grant = metadata.read()?.grants().by_code(code)?.filter(|grant| grant.application == *application);
        let Some(grant) = grant else { return Ok(GrantError::Invalid) };
        let tx = metadata.write(&WriteKeys::account(grant.user_id))?;
        self.end_of_replayed(tx, &grant)
    }

    /// Ends a grant whose code or former refresh token was sent again, and returns the error for it. Commits the transaction, which holds
    /// the key of the user.
    fn end_of_replayed(&self, mut tx: Box<dyn Transaction + '_>, grant: &Grant) -> Result<GrantError, GrantError> {
        tx.grants().remove(grant.user_id, grant.id)?;
        tx.commit(Durability::Synced)?;
        self.0.revocations.announce();
        Ok(GrantError::Replayed { grant: grant.id, user: grant.user_id })
    }

    /// Adds a grant with its first tokens, and commits the transaction, which holds the key of the user.
    pub(super) fn begin(
        &self,
        mut tx: Box<dyn Transaction + '_>,
        application: &ApplicationId,
        user: AccountId,
        scope: Scope,
        code: Option<HashedToken>,
    ) -> Result<IssuedTokens, GrantError> {
        let now = self.0.now();
        usable(tx.as_mut(), application)?.ok_or(GrantError::UnknownApplication)?;
        may_act(tx.as_mut(), user)?;
        let refresh = RefreshToken::mint_from(&mut |buffer| self.0.ports.ids.fill(buffer));
        let grant = Grant {
            id: GrantId::from_uuid(self.0.ports.ids.uuid(now)),
            user_id: user,
            application: application.clone(),
            scope,
            created_at: now,
            expires_at: now.plus_seconds(Self::REFRESH_SECONDS),
            code,
            refresh: RefreshFamily {
                family: refresh.family_hash(),
                current: refresh.hash(),
                previous: None,
                rotated_at: now,
            },
            last_use: None,
        };
        tx.grants().purge(now)?;
        let mut others = tx.grants().list(user, now, None, Self::PER_USER * 2)?;
        others.sort_by_key(|other| std::cmp::Reverse(other.last_seen()));
        let unused = others.get(Self::PER_USER - 1..).unwrap_or_default();
        for other in unused {
            tx.grants().remove(user, other.id)?;
        }
        tx.grants().add(&grant)?;
        let access = self.issue(tx.as_mut(), &grant, scope)?;
        tx.commit(Durability::Synced)?;
        if !unused.is_empty() {
            self.0.revocations.announce();
        }
        Ok(IssuedTokens { access, expires_in: Self::ACCESS_SECONDS, refresh, scope })
    }

    fn issue(&self, tx: &mut dyn Transaction, grant: &Grant, scope: Scope) -> Result<AccessToken, GrantError> {
        let now = self.0.now();
        let token = AccessToken::mint_from(&mut |buffer| self.0.ports.ids.fill(buffer));
        let access = IssuedAccess {
            hash: token.hash(),
            grant_id: grant.id,
            scope,
            expires_at: now.plus_seconds(Self::ACCESS_SECONDS),
        };
        tx.grants().add_access(grant.user_id, &access, Self::ACCESS_PER_GRANT, now)?;
        Ok(token)
    }

    /// Issues the next tokens for a refresh token. `successor` is the token that replaces it, always the same one
    /// ([`RefreshToken::successor`]). `scope` narrows what the new access token allows, not the grant (RFC 6749 §6).
    ///
    /// A token that was replaced less than [`RefreshFamily::OVERLAP_SECONDS`] ago yields the same successor once more, with another
    /// access token. Later, it ends the grant.
    ///
    /// # Errors
    /// [`GrantError::UnknownApplication`]; [`GrantError::WiderScope`]; [`GrantError::Invalid`]; [`GrantError::Replayed`].
    pub fn refresh(
        &self,
        application: &ApplicationId,
        sent: &RefreshToken,
        successor: RefreshToken,
        scope: Option<Scope>,
    ) -> Result<IssuedTokens, GrantError> {
        let metadata = self.0.ports.metadata.as_ref();
        let (family, hash) = (sent.family_hash(), sent.hash());
        let of_application = |grant: &Grant| grant.application == *application;
        let found = metadata.read()?.grants().by_family(&family)?.filter(of_application).ok_or(GrantError::Invalid)?;
        let mut tx = metadata.write(&WriteKeys::account(found.user_id))?;
        let grant = tx.grants().by_family(&family)?.filter(of_application).ok_or(GrantError::Invalid)?;
        let now = self.0.now();
        if grant.expired(now) {
            return Err(GrantError::Invalid);
        }
        let judged = grant.refresh.judge(&hash, now);
        if judged == RefreshUse::Reused {
            return Err(self.end_of_replayed(tx, &grant)?);
        }
        usable(tx.as_mut(), application)?.ok_or(GrantError::UnknownApplication)?;
        may_act(tx.as_mut(), grant.user_id)?;
        let scope = scope.unwrap_or(grant.scope);
        if scope > grant.scope {
            return Err(GrantError::WiderScope);
        }
        let (refresh, expires_at) = match judged {
            RefreshUse::Repeated => (grant.refresh.clone(), grant.expires_at),
            _ => {
                let (current, previous, rotated_at) = (successor.hash(), Some(hash), now);
                let refresh = RefreshFamily { family, current, previous, rotated_at };
                (refresh, now.plus_seconds(Self::REFRESH_SECONDS))
            }
        };
        // The key of the server that successors depend on may have changed since the first use of a repeated token.
        let is_successor = successor.hash() == refresh.current;
        // An application that is deleted takes its grants along without the keys of their users.
        if !is_successor || !tx.grants().rotate(&grant, &refresh, expires_at)? {
            return Err(GrantError::Invalid);
        }
        let access = self.issue(tx.as_mut(), &grant, scope)?;
        tx.commit(Durability::Synced)?;
        Ok(IssuedTokens { access, expires_in: Self::ACCESS_SECONDS, refresh: successor, scope })
    }

    /// Ends a token that an application no longer needs (RFC 7009). Does nothing if the token is unknown or has ended.
    ///
    /// # Errors
    /// [`GrantError::Invalid`] if the token was issued to another application.
    pub fn revoke(&self, application: &ApplicationId, token: &RevokedToken) -> Result<(), GrantError> {
        let metadata = self.0.ports.metadata.as_ref();
        let mut tx = metadata.read()?;
        let grant = match token {
            RevokedToken::Access(token) => tx.grants().by_access(&token.hash())?.map(|(_, grant, _)| grant),
            RevokedToken::Refresh(token) => tx.grants().by_family(&token.family_hash())?,
        };
        drop(tx);
        let Some(grant) = grant else { return Ok(()) };
        if grant.application != *application {
            return Err(GrantError::Invalid);
        }
        let mut tx = metadata.write(&WriteKeys::account(grant.user_id))?;
        match token {
            RevokedToken::Access(token) => tx.grants().remove_access(grant.user_id, &token.hash())?,
            RevokedToken::Refresh(_) => tx.grants().remove(grant.user_id, grant.id)?,
        };
        tx.commit(Durability::Synced)?;
        self.0.revocations.announce();
        Ok(())
    }

    /// Returns a valid access token with its user. Returns `None` if the token is unknown, expired or revoked, its user or the owner of
    /// its application is suspended, or the application is gone.
    ///
    /// # Errors
    /// [`PortError`] if the store fails.
    pub fn check(&self, hash: &HashedToken) -> Result<Option<CheckedAccess>, PortError> {
        let metadata = self.0.ports.metadata.as_ref();
        let look = || -> Result<_, PortError> {
            let mut tx = metadata.look()?;
            let Some((access, grant, user)) = tx.grants().by_access(hash)? else { return Ok(None) };
            let is_usable = usable(tx.as_mut(), &grant.application)?.is_some();
            Ok(is_usable.then(|| CheckedAccess { access, grant, user: Arc::new(user) }))
        };
        let found = self.0.remembered.access_tokens.find(metadata, *hash.as_bytes(), look)?;
        Ok(self.live(found))
    }

    /// Returns a valid access token if it is in the cache. Never blocks. `None` does not mean that the token is invalid.
    pub fn known(&self, hash: &HashedToken) -> Option<CheckedAccess> {
        self.live(self.0.remembered.access_tokens.known(self.0.ports.metadata.as_ref(), hash.as_bytes()))
    }

    fn live(&self, found: Option<CheckedAccess>) -> Option<CheckedAccess> {
        let now = self.0.now();
        found.filter(|found| !found.access.expired(now) && found.user.suspended_at.is_none())
    }

    /// Records the last use of a grant. Callers do this in batches, off the request path.
    ///
    /// # Errors
    /// [`PortError`] if the store fails.
    pub fn touch(&self, id: GrantId, last_use: &LastUse) -> Result<(), PortError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::none())?;
        tx.grants().touch(id, last_use)?;
        tx.commit(Durability::Synced)?;
        Ok(())
    }

    /// Returns up to `limit` grants of a user, newest first, starting after `after`.
    ///
    /// # Errors
    /// [`GrantError::Port`].
    pub fn list(&self, user: &User, after: Option<GrantId>, limit: usize) -> Result<Vec<GrantView>, GrantError> {
        let mut tx = self.0.ports.metadata.read()?;
        Ok(views(tx.as_mut(), user.id, self.0.now(), after, limit)?)
    }

    /// Ends a grant of a user, and returns it. Its tokens are rejected from the next request on.
    ///
    /// # Errors
    /// [`GrantError::NoSuchGrant`], also if the grant belongs to another user.
    pub fn end(&self, user: &User, id: GrantId) -> Result<Grant, GrantError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::account(user.id))?;
        let grant = tx.grants().get(id)?.filter(|grant| grant.user_id == user.id).ok_or(GrantError::NoSuchGrant)?;
        tx.grants().remove(user.id, id)?;
        tx.commit(Durability::Synced)?;
        self.0.revocations.announce();
        Ok(grant)
    }
}

/// Returns grants of a user that have not expired, with their applications.
pub(super) fn views(
    tx: &mut dyn Transaction,
    user: AccountId,
    now: Timestamp,
    after: Option<GrantId>,
    limit: usize,
) -> Result<Vec<GrantView>, PortError> {
    let mut views = Vec::new();
    for grant in tx.grants().list(user, now, after, limit)? {
        // A grant whose application was deleted at the same moment is of no use.
        if let Some(application) = registered(tx, &grant.application)? {
            views.push(GrantView { grant, application });
        }
    }
    Ok(views)
}

/// Checks that the session in which a user decides has not ended since its request began, because of a new password for example. Sessions
/// end under the key of the account, which the transaction holds.
pub(super) fn check_session(
    tx: &mut dyn Transaction,
    user: AccountId,
    session: Option<SessionId>,
) -> Result<(), GrantError> {
    let Some(id) = session else { return Ok(()) };
    let found = tx.sessions().get(id)?.filter(|session| session.user_id == user);
    found.map(drop).ok_or(GrantError::SessionEnded)
}

/// Returns an error unless the user exists and may act.
pub(super) fn may_act(tx: &mut dyn Transaction, user: AccountId) -> Result<(), GrantError> {
    let found = tx.users().get(user)?.filter(|user| user.suspended_at.is_none());
    found.map(drop).ok_or(GrantError::Invalid)
}
