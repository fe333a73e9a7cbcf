//! Authorization codes.

use branchyard_auth::{CodeChallenge, HashedToken};
use branchyard_domain::entities::AuthorizationCode;
use branchyard_domain::ports::{AuthorizationCodeRepository, WriteKey};
use branchyard_domain::values::{AccountId, Timestamp};
use diesel::prelude::*;

use super::Result;
use crate::convert::{Read, limit, one, read, time};
use crate::purge::{Purge, purge};
use crate::schema::oauth_codes;
use crate::transaction::SqlTransaction;

const PURGE: Purge = purge!("oauth_codes", "hash", "expires_at");

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = oauth_codes)]
struct CodeRow {
    hash: Vec<u8>,
    application_id: String,
    user_id: String,
    scope: String,
    redirect_uri: String,
    challenge: Vec<u8>,
    expires_at: i64,
}

impl CodeRow {
    fn code(self) -> Read<AuthorizationCode> {
        Ok(AuthorizationCode {
            hash: HashedToken::from_bytes(read("oauth_codes.hash", self.hash)?),
            application: read("oauth_codes.application_id", self.application_id)?,
            user_id: read("oauth_codes.user_id", self.user_id)?,
            scope: read("oauth_codes.scope", self.scope)?,
            redirect_uri: read("oauth_codes.redirect_uri", self.redirect_uri)?,
            challenge: CodeChallenge::from_bytes(read("oauth_codes.challenge", self.challenge)?),
            expires_at: time(self.expires_at),
        })
    }
}

impl AuthorizationCodeRepository for SqlTransaction {
    fn add(&mut self, code: &AuthorizationCode, most: usize) -> Result<()> {
        self.needs(WriteKey::Account(code.user_id));
        let row = CodeRow {
            hash: code.hash.as_bytes().to_vec(),
            application_id: code.application.to_string(),
            user_id: code.user_id.to_string(),
            scope: code.scope.as_str().to_owned(),
            redirect_uri: code.redirect_uri.as_str().to_owned(),
            challenge: code.challenge.as_bytes().to_vec(),
            expires_at: code.expires_at.as_micros(),
        };
        self.run_apart_from_rights("add an authorization code", |conn| {
            let kept: Vec<Vec<u8>> = oauth_codes::table
                .filter(oauth_codes::user_id.eq(&row.user_id))
                .order(oauth_codes::expires_at.desc())
                .limit(limit(most.saturating_sub(1)))
                .select(oauth_codes::hash)
                .load(conn)?;
            let of_user = oauth_codes::table.filter(oauth_codes::user_id.eq(&row.user_id));
            diesel::delete(of_user.filter(oauth_codes::hash.ne_all(kept))).execute(conn)?;
            diesel::insert_into(oauth_codes::table).values(row).execute(conn)?;
            Ok(())
        })
    }

    fn get(&mut self, hash: &HashedToken) -> Result<Option<AuthorizationCode>> {
        self.run_apart_from_rights("find an authorization code", |conn| {
            let found = oauth_codes::table.find(hash.as_bytes().to_vec());
            one(found.select(CodeRow::as_select()).first(conn).optional()?, CodeRow::code)
        })
    }

    fn remove(&mut self, user: AccountId, hash: &HashedToken) -> Result<bool> {
        self.needs(WriteKey::Account(user));
        self.run_apart_from_rights("remove an authorization code", |conn| {
            let found = oauth_codes::table.find(hash.as_bytes().to_vec());
            Ok(diesel::delete(found.filter(oauth_codes::user_id.eq(user.to_string()))).execute(conn)? > 0)
        })
    }

    fn purge(&mut self, now: Timestamp) -> Result<()> {
        self.run_apart_from_rights("remove authorization codes that expired", |conn| PURGE.run(conn, now))
    }
}
