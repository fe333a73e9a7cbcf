//! Sessions and invitations.

use branchyard_auth::HashedToken;

use super::{MemoryTransaction, Result, count, missing};
use branchyard_domain::entities::{Invitation, LastUse, Session, User};
use branchyard_domain::ports::{
    AttemptWindow, InvitationRepository, MetadataError, RequestCountRepository, RequestWindow, SessionRepository,
    WriteKey,
};
use branchyard_domain::values::{AccountId, InvitationId, SessionId, Timestamp};

impl SessionRepository for MemoryTransaction<'_> {
    fn add(&mut self, session: &Session) -> Result<()> {
        self.needs(WriteKey::Account(session.user_id));
        if !self.state.users.contains_key(&session.user_id) {
            return Err(missing("add a session"));
        }
        if self.state.sessions.values().any(|other| other.hash == session.hash) {
            return Err(MetadataError::Taken);
        }
        self.change()?.sessions.insert(session.id, session.clone());
        Ok(())
    }

    fn by_hash(&mut self, hash: &HashedToken) -> Result<Option<(Session, User)>> {
        let Some(session) = self.state.sessions.values().find(|session| session.hash == *hash) else { return Ok(None) };
        let is_deleted = self.state.retired.contains_key(&session.user_id);
        Ok(self.state.users.get(&session.user_id).filter(|_| !is_deleted).map(|user| (session.clone(), user.clone())))
    }

    fn get(&mut self, id: SessionId) -> Result<Option<Session>> {
        Ok(self.state.sessions.get(&id).cloned())
    }

    fn list(&mut self, user: AccountId) -> Result<Vec<Session>> {
        Ok(self.state.sessions.values().rev().filter(|session| session.user_id == user).cloned().collect())
    }

    fn touch(&mut self, session: SessionId, last_use: &LastUse, expires_at: Timestamp) -> Result<()> {
        if let Some(session) = self.change()?.sessions.get_mut(&session) {
            session.last_use = last_use.clone();
            session.expires_at = expires_at;
        }
        Ok(())
    }

    fn confirm(&mut self, session: SessionId, at: Timestamp) -> Result<()> {
        if let Some(session) = self.change()?.sessions.get_mut(&session) {
            session.confirmed_at = at;
        }
        Ok(())
    }

    fn remove(&mut self, user: AccountId, session: SessionId) -> Result<bool> {
        self.needs(WriteKey::Account(user));
        if self.state.sessions.get(&session).is_none_or(|found| found.user_id != user) {
            return Ok(false);
        }
        Ok(self.change()?.sessions.remove(&session).is_some())
    }

    fn purge(&mut self, now: Timestamp) -> Result<u64> {
        let sessions = &mut self.change()?.sessions;
        let before = sessions.len();
        sessions.retain(|_, session| !session.expired(now));
        Ok(count(before - sessions.len()))
    }

    fn count_attempt(&mut self, subject: &str, ended: Timestamp, now: Timestamp) -> Result<AttemptWindow> {
        let first = AttemptWindow { began_at: now, attempts: 0 };
        let window = self.change()?.attempts_to_sign_in.entry(subject.to_owned()).or_insert(first);
        if window.began_at <= ended {
            *window = first;
        }
        window.attempts += 1;
        Ok(*window)
    }

    fn purge_attempts(&mut self, ended: Timestamp) -> Result<()> {
        self.change()?.attempts_to_sign_in.retain(|_, window| window.began_at > ended);
        Ok(())
    }
}

impl RequestCountRepository for MemoryTransaction<'_> {
    fn add(&mut self, user: AccountId, requests: u32, ended: Timestamp, now: Timestamp) -> Result<RequestWindow> {
        let first = RequestWindow { began_at: now, requests: 0 };
        let window = self.change()?.request_counts.entry(user).or_insert(first);
        if window.began_at <= ended {
            *window = first;
        }
        window.requests += u64::from(requests);
        Ok(*window)
    }

    fn purge(&mut self, ended: Timestamp) -> Result<()> {
        self.change()?.request_counts.retain(|_, window| window.began_at > ended);
        Ok(())
    }
}

impl InvitationRepository for MemoryTransaction<'_> {
    fn add(&mut self, invitation: &Invitation) -> Result<()> {
        self.needs(WriteKey::Server);
        if invitation.created_by.is_some_and(|user| !self.state.users.contains_key(&user)) {
            return Err(missing("add an invitation"));
        }
        if self.state.invitations.values().any(|other| other.hash == invitation.hash) {
            return Err(MetadataError::Taken);
        }
        self.change()?.invitations.insert(invitation.id, invitation.clone());
        Ok(())
    }

    fn by_hash(&mut self, hash: &HashedToken) -> Result<Option<Invitation>> {
        Ok(self.state.invitations.values().find(|invitation| invitation.hash == *hash).cloned())
    }

    fn list(&mut self) -> Result<Vec<Invitation>> {
        Ok(self.state.invitations.values().rev().cloned().collect())
    }

    fn remove(&mut self, invitation: InvitationId) -> Result<bool> {
        self.needs(WriteKey::Server);
        Ok(self.change()?.invitations.remove(&invitation).is_some())
    }

    fn purge(&mut self, now: Timestamp) -> Result<u64> {
        self.needs(WriteKey::Server);
        let invitations = &mut self.change()?.invitations;
        let before = invitations.len();
        invitations.retain(|_, invitation| !invitation.expired(now));
        Ok(count(before - invitations.len()))
    }
}
