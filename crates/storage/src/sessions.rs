//! Sessions and invitations.

use branchyard_auth::HashedToken;
use branchyard_domain::entities::{Invitation, LastUse, Session, User};
use branchyard_domain::ports::{AttemptWindow, InvitationRepository, MetadataError, SessionRepository, WriteKey};
use branchyard_domain::values::{AccountId, InvitationId, SessionId, Timestamp};
use diesel::prelude::*;
use diesel::sql_types::BigInt;

use crate::accounts::{AccountRow, EmailRow, UserOf, UserRow, first_with_user, with_user};
use crate::convert::{Read, all, count, one, read, read_if, time};
use crate::prepared::{Parameter, PreparedSql};
use crate::purge::{Purge, purge};
use crate::schema::{invitations, sessions};
use crate::transaction::SqlTransaction;

type Result<T> = std::result::Result<T, MetadataError>;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = sessions)]
struct SessionRow {
    id: String,
    user_id: String,
    hash: Vec<u8>,
    created_at: i64,
    expires_at: i64,
    last_used_at: i64,
    last_used_address: String,
    last_used_agent: String,
    confirmed_at: i64,
}

impl SessionRow {
    fn new(session: &Session) -> Self {
        Self {
            id: session.id.to_string(),
            user_id: session.user_id.to_string(),
            hash: session.hash.as_bytes().to_vec(),
            created_at: session.created_at.as_micros(),
            expires_at: session.expires_at.as_micros(),
            last_used_at: session.last_use.at.as_micros(),
            last_used_address: session.last_use.address.clone(),
            last_used_agent: session.last_use.user_agent.clone(),
            confirmed_at: session.confirmed_at.as_micros(),
        }
    }

    fn session(self) -> Read<Session> {
        Ok(Session {
            id: read("sessions.id", self.id)?,
            user_id: read("sessions.user_id", self.user_id)?,
            hash: HashedToken::from_bytes(read("sessions.hash", self.hash)?),
            created_at: time(self.created_at),
            expires_at: time(self.expires_at),
            confirmed_at: time(self.confirmed_at),
            last_use: LastUse {
                at: time(self.last_used_at),
                address: self.last_used_address,
                user_agent: self.last_used_agent,
            },
        })
    }
}

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = invitations)]
struct InvitationRow {
    id: String,
    hash: Vec<u8>,
    is_admin: bool,
    created_by: Option<String>,
    created_at: i64,
    expires_at: i64,
}

impl InvitationRow {
    fn new(invitation: &Invitation) -> Self {
        Self {
            id: invitation.id.to_string(),
            hash: invitation.hash.as_bytes().to_vec(),
            is_admin: invitation.is_admin,
            created_by: invitation.created_by.map(|user| user.to_string()),
            created_at: invitation.created_at.as_micros(),
            expires_at: invitation.expires_at.as_micros(),
        }
    }

    fn invitation(self) -> Read<Invitation> {
        Ok(Invitation {
            id: read("invitations.id", self.id)?,
            hash: HashedToken::from_bytes(read("invitations.hash", self.hash)?),
            is_admin: self.is_admin,
            created_by: read_if("invitations.created_by", self.created_by)?,
            created_at: time(self.created_at),
            expires_at: time(self.expires_at),
        })
    }
}

/// Counts an attempt under the lock of its row. The parameters are the subject, the time, and twice the time at or before which a window
/// that is over began.
const COUNT_ATTEMPT: &str = "INSERT INTO sign_in_attempts (subject, began_at, attempts) VALUES (?, ?, 1) \
    ON CONFLICT (subject) DO UPDATE SET \
    attempts = CASE WHEN sign_in_attempts.began_at <= ? THEN 1 ELSE sign_in_attempts.attempts + 1 END, \
    began_at = CASE WHEN sign_in_attempts.began_at <= ? THEN excluded.began_at ELSE sign_in_attempts.began_at END \
    RETURNING began_at, attempts";

const PURGE_ATTEMPTS: Purge = purge!("sign_in_attempts", "subject", "began_at");

impl SessionRepository for SqlTransaction {
    fn add(&mut self, session: &Session) -> Result<()> {
        self.needs(WriteKey::Account(session.user_id));
        self.run("add a session", |conn| {
            diesel::insert_into(sessions::table).values(SessionRow::new(session)).execute(conn)?;
            Ok(())
        })
    }

    fn by_hash(&mut self, hash: &HashedToken) -> Result<Option<(Session, User)>> {
        self.run("find a session", |conn| {
            let rows: Vec<UserOf<SessionRow>> = with_user!(sessions::table, sessions::user_id)
                .filter(sessions::hash.eq(hash.as_bytes().as_slice()))
                .select((
                    SessionRow::as_select(),
                    AccountRow::as_select(),
                    UserRow::as_select(),
                    Option::<EmailRow>::as_select(),
                ))
                .load(conn)?;
            first_with_user(rows)?.map(|(row, user)| Ok((row.session()?, user))).transpose()
        })
    }

    fn get(&mut self, id: SessionId) -> Result<Option<Session>> {
        self.run("read a session", |conn| {
            let row = sessions::table.find(id.to_string()).select(SessionRow::as_select()).first(conn).optional()?;
            one(row, SessionRow::session)
        })
    }

    fn list(&mut self, user: AccountId) -> Result<Vec<Session>> {
        self.run("list sessions", |conn| {
            let rows = sessions::table
                .filter(sessions::user_id.eq(user.to_string()))
                .order(sessions::id.desc())
                .select(SessionRow::as_select())
                .load(conn)?;
            all(rows, SessionRow::session)
        })
    }

    fn touch(&mut self, session: SessionId, last_use: &LastUse, expires_at: Timestamp) -> Result<()> {
        self.run("note the use of a session", |conn| {
            diesel::update(sessions::table.find(session.to_string()))
                .set((
                    sessions::expires_at.eq(expires_at.as_micros()),
                    sessions::last_used_at.eq(last_use.at.as_micros()),
                    sessions::last_used_address.eq(&last_use.address),
                    sessions::last_used_agent.eq(&last_use.user_agent),
                ))
                .execute(conn)?;
            Ok(())
        })
    }

    fn confirm(&mut self, session: SessionId, at: Timestamp) -> Result<()> {
        self.run("note that a password was entered", |conn| {
            diesel::update(sessions::table.find(session.to_string()))
                .set(sessions::confirmed_at.eq(at.as_micros()))
                .execute(conn)?;
            Ok(())
        })
    }

    fn remove(&mut self, user: AccountId, session: SessionId) -> Result<bool> {
        self.needs(WriteKey::Account(user));
        self.run("remove a session", |conn| {
            let of_user = sessions::table.find(session.to_string()).filter(sessions::user_id.eq(user.to_string()));
            Ok(diesel::delete(of_user).execute(conn)? > 0)
        })
    }

    fn purge(&mut self, now: Timestamp) -> Result<u64> {
        self.run("remove sessions that ended", |conn| {
            let ended = sessions::table.filter(sessions::expires_at.le(now.as_micros()));
            Ok(u64::try_from(diesel::delete(ended).execute(conn)?).unwrap_or(u64::MAX))
        })
    }

    fn count_attempt(&mut self, subject: &str, ended: Timestamp, now: Timestamp) -> Result<AttemptWindow> {
        self.run_apart_from_rights("count an attempt to sign in", |conn| {
            let [ended, now] = [ended, now].map(|at| Parameter::Number(at.as_micros()));
            let parameters = vec![Parameter::Text(subject.to_owned()), now, ended.clone(), ended];
            let statement = PreparedSql::<(BigInt, BigInt)>::new(COUNT_ATTEMPT, parameters);
            let (began_at, attempts): (i64, i64) = statement.get_result(conn)?;
            Ok(AttemptWindow { began_at: time(began_at), attempts: count(attempts) })
        })
    }

    fn purge_attempts(&mut self, ended: Timestamp) -> Result<()> {
        self.run_apart_from_rights("remove attempts to sign in", |conn| PURGE_ATTEMPTS.run(conn, ended))
    }
}

impl InvitationRepository for SqlTransaction {
    fn add(&mut self, invitation: &Invitation) -> Result<()> {
        self.needs(WriteKey::Server);
        self.run("add an invitation", |conn| {
            diesel::insert_into(invitations::table).values(InvitationRow::new(invitation)).execute(conn)?;
            Ok(())
        })
    }

    fn by_hash(&mut self, hash: &HashedToken) -> Result<Option<Invitation>> {
        self.run("find an invitation", |conn| {
            let row = invitations::table
                .filter(invitations::hash.eq(hash.as_bytes().as_slice()))
                .select(InvitationRow::as_select())
                .first(conn)
                .optional()?;
            one(row, InvitationRow::invitation)
        })
    }

    fn list(&mut self) -> Result<Vec<Invitation>> {
        self.run("list invitations", |conn| {
            let newest = invitations::table.order(invitations::id.desc());
            all(newest.select(InvitationRow::as_select()).load(conn)?, InvitationRow::invitation)
        })
    }

    fn remove(&mut self, invitation: InvitationId) -> Result<bool> {
        self.needs(WriteKey::Server);
        self.run("remove an invitation", |conn| {
            Ok(diesel::delete(invitations::table.find(invitation.to_string())).execute(conn)? > 0)
        })
    }

    fn purge(&mut self, now: Timestamp) -> Result<u64> {
        self.needs(WriteKey::Server);
        self.run("remove invitations that expired", |conn| {
            let expired = invitations::table.filter(invitations::expires_at.le(now.as_micros()));
            Ok(u64::try_from(diesel::delete(expired).execute(conn)?).unwrap_or(u64::MAX))
        })
    }
}
