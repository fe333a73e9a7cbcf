//! Grants, and their access tokens.

use branchyard_auth::HashedToken;
use branchyard_domain::entities::{Grant, IssuedAccess, LastUse, RefreshFamily, User};
use branchyard_domain::ports::{GrantRepository, WriteKey};
use branchyard_domain::values::{AccountId, GrantId, Timestamp};
use diesel::prelude::*;

use super::Result;
use crate::accounts::{AccountRow, EmailRow, UserRow, first_with_user, with_user};
use crate::connection::AnyConnection;
use crate::convert::{Read, all, limit, one, present, read, time};
use crate::error::StoreError;
use crate::purge::{Purge, purge};
use crate::schema::{oauth_access_tokens, oauth_codes, oauth_devices, oauth_grants};
use crate::transaction::SqlTransaction;

const PURGE: Purge = purge!("oauth_grants", "id", "expires_at");

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = oauth_grants)]
struct GrantRow {
    id: String,
    user_id: String,
    application_id: String,
    scope: String,
    created_at: i64,
    expires_at: i64,
    code_hash: Option<Vec<u8>>,
    family_hash: Vec<u8>,
    current_hash: Vec<u8>,
    previous_hash: Option<Vec<u8>>,
    rotated_at: i64,
    last_used_at: Option<i64>,
    last_used_address: Option<String>,
    last_used_agent: Option<String>,
}

fn bytes(hash: &HashedToken) -> Vec<u8> {
    hash.as_bytes().to_vec()
}

fn hash(name: &'static str, column: Vec<u8>) -> Read<HashedToken> {
    read(name, column).map(HashedToken::from_bytes)
}

impl GrantRow {
    fn new(grant: &Grant) -> Self {
        let last_use = grant.last_use.as_ref();
        Self {
            id: grant.id.to_string(),
            user_id: grant.user_id.to_string(),
            application_id: grant.application.to_string(),
            scope: grant.scope.as_str().to_owned(),
            created_at: grant.created_at.as_micros(),
            expires_at: grant.expires_at.as_micros(),
            code_hash: grant.code.as_ref().map(bytes),
            family_hash: bytes(&grant.refresh.family),
            current_hash: bytes(&grant.refresh.current),
            previous_hash: grant.refresh.previous.as_ref().map(bytes),
            rotated_at: grant.refresh.rotated_at.as_micros(),
            last_used_at: last_use.map(|last| last.at.as_micros()),
            last_used_address: last_use.map(|last| last.address.clone()),
            last_used_agent: last_use.map(|last| last.user_agent.clone()),
        }
    }

    fn grant(self) -> Read<Grant> {
        let last_use = match self.last_used_at {
            None => None,
            Some(at) => Some(LastUse {
                at: time(at),
                address: present("oauth_grants.last_used_address", self.last_used_address)?,
                user_agent: present("oauth_grants.last_used_agent", self.last_used_agent)?,
            }),
        };
        Ok(Grant {
            id: read("oauth_grants.id", self.id)?,
            user_id: read("oauth_grants.user_id", self.user_id)?,
            application: read("oauth_grants.application_id", self.application_id)?,
            scope: read("oauth_grants.scope", self.scope)?,
            created_at: time(self.created_at),
            expires_at: time(self.expires_at),
            code: self.code_hash.map(|code| hash("oauth_grants.code_hash", code)).transpose()?,
            refresh: RefreshFamily {
                family: hash("oauth_grants.family_hash", self.family_hash)?,
                current: hash("oauth_grants.current_hash", self.current_hash)?,
                previous: self.previous_hash.map(|hashed| hash("oauth_grants.previous_hash", hashed)).transpose()?,
                rotated_at: time(self.rotated_at),
            },
            last_use,
        })
    }
}

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = oauth_access_tokens)]
struct AccessRow {
    hash: Vec<u8>,
    grant_id: String,
    scope: String,
    expires_at: i64,
}

impl AccessRow {
    fn access(self) -> Read<IssuedAccess> {
        Ok(IssuedAccess {
            hash: hash("oauth_access_tokens.hash", self.hash)?,
            grant_id: read("oauth_access_tokens.grant_id", self.grant_id)?,
            scope: read("oauth_access_tokens.scope", self.scope)?,
            expires_at: time(self.expires_at),
        })
    }
}

/// Removes the grants, codes and device decisions of a user. Returns the number of grants.
pub(crate) fn remove_grants(conn: &mut AnyConnection, user: &str) -> std::result::Result<usize, StoreError> {
    diesel::delete(oauth_codes::table.filter(oauth_codes::user_id.eq(user))).execute(conn)?;
    diesel::delete(oauth_devices::table.filter(oauth_devices::decided_by.eq(user))).execute(conn)?;
    let ids = oauth_grants::table.filter(oauth_grants::user_id.eq(user)).order(oauth_grants::id);
    let ids: Vec<String> = ids.select(oauth_grants::id).load(conn)?;
    remove_in_order(conn, &ids)
}

/// Removes grants by their ids, which have to be sorted. Returns their number. The grants of a user and those of an application overlap,
/// and are removed under different keys: in one order, so that neither removal waits for the other one in a circle.
pub(super) fn remove_in_order(conn: &mut AnyConnection, ids: &[String]) -> std::result::Result<usize, StoreError> {
    let mut removed = 0;
    for id in ids {
        removed += diesel::delete(oauth_grants::table.find(id)).execute(conn)?;
    }
    Ok(removed)
}

impl GrantRepository for SqlTransaction {
    fn add(&mut self, grant: &Grant) -> Result<()> {
        self.needs(WriteKey::Account(grant.user_id));
        self.run_apart_from_rights("add a grant", |conn| {
            diesel::insert_into(oauth_grants::table).values(GrantRow::new(grant)).execute(conn)?;
            Ok(())
        })
    }

    fn get(&mut self, id: GrantId) -> Result<Option<Grant>> {
        self.run_apart_from_rights("read a grant", |conn| {
            let row = oauth_grants::table.find(id.to_string()).select(GrantRow::as_select()).first(conn).optional()?;
            one(row, GrantRow::grant)
        })
    }

    fn by_family(&mut self, family: &HashedToken) -> Result<Option<Grant>> {
        self.run_apart_from_rights("find a grant by its refresh tokens", |conn| {
            let of_family = oauth_grants::table.filter(oauth_grants::family_hash.eq(bytes(family)));
            one(of_family.select(GrantRow::as_select()).first(conn).optional()?, GrantRow::grant)
        })
    }

    fn by_code(&mut self, code: &HashedToken) -> Result<Option<Grant>> {
        self.run_apart_from_rights("find a grant by its code", |conn| {
            let of_code = oauth_grants::table.filter(oauth_grants::code_hash.eq(bytes(code)));
            one(of_code.select(GrantRow::as_select()).first(conn).optional()?, GrantRow::grant)
        })
    }

    fn list(&mut self, user: AccountId, now: Timestamp, after: Option<GrantId>, most: usize) -> Result<Vec<Grant>> {
        self.run_apart_from_rights("list grants", |conn| {
            let mut query = oauth_grants::table
                .filter(oauth_grants::user_id.eq(user.to_string()))
                .filter(oauth_grants::expires_at.gt(now.as_micros()))
                .into_boxed();
            if let Some(after) = after {
                query = query.filter(oauth_grants::id.lt(after.to_string()));
            }
            let newest = query.order(oauth_grants::id.desc()).limit(limit(most));
            all(newest.select(GrantRow::as_select()).load(conn)?, GrantRow::grant)
        })
    }

    fn rotate(&mut self, grant: &Grant, refresh: &RefreshFamily, expires_at: Timestamp) -> Result<bool> {
        self.needs(WriteKey::Account(grant.user_id));
        self.run_apart_from_rights("replace a refresh token", |conn| {
            let updated = diesel::update(oauth_grants::table.find(grant.id.to_string()))
                .set((
                    oauth_grants::family_hash.eq(bytes(&refresh.family)),
                    oauth_grants::current_hash.eq(bytes(&refresh.current)),
                    oauth_grants::previous_hash.eq(refresh.previous.as_ref().map(bytes)),
                    oauth_grants::rotated_at.eq(refresh.rotated_at.as_micros()),
                    oauth_grants::expires_at.eq(expires_at.as_micros()),
                ))
                .execute(conn)?;
            Ok(updated > 0)
        })
    }

    fn remove(&mut self, user: AccountId, id: GrantId) -> Result<bool> {
        self.needs(WriteKey::Account(user));
        self.run("remove a grant", |conn| {
            let of_user = oauth_grants::table.find(id.to_string()).filter(oauth_grants::user_id.eq(user.to_string()));
            Ok(diesel::delete(of_user).execute(conn)? > 0)
        })
    }

    fn remove_all(&mut self, user: AccountId) -> Result<u64> {
        self.needs(WriteKey::Account(user));
        self.run("remove the grants of a user", |conn| {
            Ok(u64::try_from(remove_grants(conn, &user.to_string())?).unwrap_or(u64::MAX))
        })
    }

    fn touch(&mut self, id: GrantId, last_use: &LastUse) -> Result<()> {
        self.run("note the use of a grant", |conn| {
            diesel::update(oauth_grants::table.find(id.to_string()))
                .set((
                    oauth_grants::last_used_at.eq(last_use.at.as_micros()),
                    oauth_grants::last_used_address.eq(&last_use.address),
                    oauth_grants::last_used_agent.eq(&last_use.user_agent),
                ))
                .execute(conn)?;
            Ok(())
        })
    }

    fn add_access(&mut self, user: AccountId, access: &IssuedAccess, most: usize, now: Timestamp) -> Result<()> {
        self.needs(WriteKey::Account(user));
        let row = AccessRow {
            hash: bytes(&access.hash),
            grant_id: access.grant_id.to_string(),
            scope: access.scope.as_str().to_owned(),
            expires_at: access.expires_at.as_micros(),
        };
        let excess = self.run_apart_from_rights("find access tokens that end", |conn| {
            let tokens: Vec<(Vec<u8>, i64)> = oauth_access_tokens::table
                .filter(oauth_access_tokens::grant_id.eq(&row.grant_id))
                .order(oauth_access_tokens::expires_at.desc())
                .select((oauth_access_tokens::hash, oauth_access_tokens::expires_at))
                .load(conn)?;
            let is_excess = |(place, end): (usize, i64)| place + 1 >= most || end <= now.as_micros();
            let excess = tokens.into_iter().enumerate().filter(|(place, (_, end))| is_excess((*place, *end)));
            Ok(excess.map(|(_, (hash, _))| hash).collect::<Vec<_>>())
        })?;
        if !excess.is_empty() {
            self.run("remove access tokens", |conn| {
                diesel::delete(oauth_access_tokens::table.filter(oauth_access_tokens::hash.eq_any(&excess)))
                    .execute(conn)?;
                Ok(())
            })?;
        }
        self.run_apart_from_rights("add an access token", |conn| {
            diesel::insert_into(oauth_access_tokens::table).values(row).execute(conn)?;
            Ok(())
        })
    }

    fn by_access(&mut self, hash: &HashedToken) -> Result<Option<(IssuedAccess, Grant, User)>> {
        self.run_apart_from_rights("find an access token", |conn| {
            let tokens = oauth_access_tokens::table
                .inner_join(oauth_grants::table.on(oauth_grants::id.eq(oauth_access_tokens::grant_id)));
            let rows: Vec<(AccessRow, GrantRow, AccountRow, UserRow, Option<EmailRow>)> =
                with_user!(tokens, oauth_grants::user_id)
                    .filter(oauth_access_tokens::hash.eq(bytes(hash)))
                    .select((
                        AccessRow::as_select(),
                        GrantRow::as_select(),
                        AccountRow::as_select(),
                        UserRow::as_select(),
                        Option::<EmailRow>::as_select(),
                    ))
                    .load(conn)?;
            let with_user =
                rows.into_iter().map(|(access, grant, account, user, email)| ((access, grant), account, user, email));
            let found = first_with_user(with_user)?;
            found.map(|((access, grant), user)| Ok((access.access()?, grant.grant()?, user))).transpose()
        })
    }

    fn remove_access(&mut self, user: AccountId, hash: &HashedToken) -> Result<bool> {
        self.needs(WriteKey::Account(user));
        self.run("remove an access token", |conn| {
            Ok(diesel::delete(oauth_access_tokens::table.find(bytes(hash))).execute(conn)? > 0)
        })
    }

    fn purge(&mut self, now: Timestamp) -> Result<()> {
        self.run_apart_from_rights("remove grants that expired", |conn| PURGE.run(conn, now))
    }
}
