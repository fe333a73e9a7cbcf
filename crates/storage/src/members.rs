//! Memberships in organizations.

use std::collections::BTreeMap;

use branchyard_domain::entities::{Member, MemberRole, Role};
use branchyard_domain::ports::{MemberRepository, MetadataError, WriteKey};
use branchyard_domain::values::{AccountId, Timestamp};
use diesel::prelude::*;

use crate::connection::AnyConnection;
use crate::convert::{Read, StoredWord, all, count, limit, one, read, time};
use crate::error::StoreError;
use crate::schema::{accounts, members, organizations};
use crate::transaction::SqlTransaction;

type Result<T> = std::result::Result<T, MetadataError>;
type MemberRow = (String, String, String, i64);

fn member((user_id, name, role, added_at): MemberRow) -> Read<Member> {
    Ok(Member {
        user_id: read("members.user_id", user_id)?,
        username: read("accounts.name", name)?,
        role: read("members.role", role)?,
        added_at: time(added_at),
    })
}

fn get(
    conn: &mut AnyConnection,
    organization: AccountId,
    user: AccountId,
) -> std::result::Result<Option<Member>, StoreError> {
    let row: Option<MemberRow> = members::table
        .inner_join(accounts::table.on(accounts::id.eq(members::user_id)))
        .filter(members::organization_id.eq(organization.to_string()))
        .filter(members::user_id.eq(user.to_string()))
        .select((members::user_id, accounts::name, members::role, members::added_at))
        .first(conn)
        .optional()?;
    one(row, member)
}

impl MemberRepository for SqlTransaction {
    fn put(&mut self, organization: AccountId, user: AccountId, role: MemberRole, at: Timestamp) -> Result<bool> {
        self.needs(WriteKey::Account(organization));
        self.run("put a member", |conn| {
            let changed = diesel::update(members::table.find((organization.to_string(), user.to_string())))
                .set(members::role.eq(role.word()))
                .execute(conn)?;
            if changed > 0 {
                return Ok(false);
            }
            diesel::insert_into(members::table)
                .values((
                    members::organization_id.eq(organization.to_string()),
                    members::user_id.eq(user.to_string()),
                    members::role.eq(role.word()),
                    members::added_at.eq(at.as_micros()),
                ))
                .execute(conn)?;
            Ok(true)
        })
    }

    fn get(&mut self, organization: AccountId, user: AccountId) -> Result<Option<Member>> {
        self.run_apart_from_rights("read a member", |conn| get(conn, organization, user))
    }

    fn roles(&mut self, user: AccountId, asked: &[AccountId]) -> Result<BTreeMap<AccountId, (MemberRole, Role)>> {
        self.run("read the roles of a member", |conn| {
            let rows: Vec<(String, String, String)> = members::table
                .inner_join(organizations::table.on(organizations::id.eq(members::organization_id)))
                .filter(members::user_id.eq(user.to_string()))
                .filter(members::organization_id.eq_any(asked.iter().map(ToString::to_string)))
                .select((members::organization_id, members::role, organizations::base_role))
                .load(conn)?;
            let roles = all(rows, |(organization, role, base_role)| {
                let roles = (read("members.role", role)?, read("organizations.base_role", base_role)?);
                Ok((read("members.organization_id", organization)?, roles))
            })?;
            Ok(roles.into_iter().collect())
        })
    }

    fn remove(&mut self, organization: AccountId, user: AccountId) -> Result<Option<Member>> {
        self.needs(WriteKey::Account(organization));
        self.run("remove a member", |conn| {
            let found = get(conn, organization, user)?;
            if found.is_some() {
                diesel::delete(members::table.find((organization.to_string(), user.to_string()))).execute(conn)?;
            }
            Ok(found)
        })
    }

    fn list(&mut self, organization: AccountId, after: Option<&str>, most: usize) -> Result<Vec<Member>> {
        self.run("list members", |conn| {
            let mut query = members::table
                .inner_join(accounts::table.on(accounts::id.eq(members::user_id)))
                .filter(members::organization_id.eq(organization.to_string()))
                .into_boxed();
            if let Some(after) = after {
                query = query.filter(accounts::name_key.gt(after.to_owned()));
            }
            let rows: Vec<MemberRow> = query
                .order(accounts::name_key)
                .limit(limit(most))
                .select((members::user_id, accounts::name, members::role, members::added_at))
                .load(conn)?;
            all(rows, member)
        })
    }

    fn count_owned(&mut self, user: AccountId) -> Result<u64> {
        self.run("count owned organizations", |conn| {
            let rows = members::table
                .filter(members::user_id.eq(user.to_string()))
                .filter(members::role.eq(MemberRole::Owner.word()))
                .count()
                .get_result(conn)?;
            Ok(count(rows))
        })
    }

    fn count_owners(&mut self, organization: AccountId) -> Result<u64> {
        self.run("count owners", |conn| {
            let rows = members::table
                .filter(members::organization_id.eq(organization.to_string()))
                .filter(members::role.eq(MemberRole::Owner.word()))
                .count()
                .get_result(conn)?;
            Ok(count(rows))
        })
    }
}
