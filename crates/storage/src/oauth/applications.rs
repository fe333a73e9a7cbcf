//! Applications.

use branchyard_domain::entities::{Application, RegisteredApplication};
use branchyard_domain::ports::{ApplicationRepository, WriteKey};
use branchyard_domain::values::{AccountId, ApplicationId};
use diesel::prelude::*;

use super::Result;
use super::grants::remove_in_order;
use crate::connection::AnyConnection;
use crate::convert::{Read, all, count, limit, one, read, time};
use crate::error::StoreError;
use crate::schema::{accounts, oauth_applications, oauth_codes, oauth_devices, oauth_grants, users};
use crate::transaction::SqlTransaction;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = oauth_applications)]
struct ApplicationRow {
    id: String,
    owner_id: String,
    name: String,
    redirect_uris: String,
    created_at: i64,
}

/// An application, the name of its owner, and when the owner was suspended.
type RegisteredRow = (ApplicationRow, String, Option<i64>);

fn registered((row, owner_name, suspended_at): RegisteredRow) -> Read<RegisteredApplication> {
    let uris = row.redirect_uris.lines().map(|uri| read("oauth_applications.redirect_uris", uri.to_owned()));
    Ok(RegisteredApplication {
        application: Application {
            id: read("oauth_applications.id", row.id)?,
            owner: Some(read("oauth_applications.owner_id", row.owner_id)?),
            name: row.name,
            redirect_uris: uris.collect::<Read<_>>()?,
            created_at: time(row.created_at),
        },
        owner_name: Some(owner_name),
        is_suspended: suspended_at.is_some(),
    })
}

macro_rules! with_owner {
    () => {
        oauth_applications::table
            .inner_join(accounts::table.on(accounts::id.eq(oauth_applications::owner_id)))
            .inner_join(users::table.on(users::id.eq(oauth_applications::owner_id)))
            .filter(accounts::deleted_at.is_null())
            .select((ApplicationRow::as_select(), accounts::name, users::suspended_at))
    };
}

/// Removes applications with all that refers to them. Returns `true` if there was one.
fn remove_all(conn: &mut AnyConnection, ids: &[String]) -> std::result::Result<bool, StoreError> {
    diesel::delete(oauth_codes::table.filter(oauth_codes::application_id.eq_any(ids))).execute(conn)?;
    diesel::delete(oauth_devices::table.filter(oauth_devices::application_id.eq_any(ids))).execute(conn)?;
    let grants = oauth_grants::table.filter(oauth_grants::application_id.eq_any(ids)).order(oauth_grants::id);
    let grants: Vec<String> = grants.select(oauth_grants::id).load(conn)?;
    remove_in_order(conn, &grants)?;
    Ok(diesel::delete(oauth_applications::table.filter(oauth_applications::id.eq_any(ids))).execute(conn)? > 0)
}

/// Removes the applications of a user with all that refers to them.
pub(crate) fn remove_applications(conn: &mut AnyConnection, owner: &str) -> std::result::Result<(), StoreError> {
    let of_owner = oauth_applications::table.filter(oauth_applications::owner_id.eq(owner));
    let ids: Vec<String> = of_owner.select(oauth_applications::id).load(conn)?;
    remove_all(conn, &ids).map(drop)
}

impl ApplicationRepository for SqlTransaction {
    fn add(&mut self, application: &Application) -> Result<()> {
        let Some(owner) = application.owner else { return Ok(()) };
        self.needs(WriteKey::Account(owner));
        let uris: Vec<&str> = application.redirect_uris.iter().map(|uri| uri.as_str()).collect();
        let row = ApplicationRow {
            id: application.id.to_string(),
            owner_id: owner.to_string(),
            name: application.name.clone(),
            redirect_uris: uris.join("\n"),
            created_at: application.created_at.as_micros(),
        };
        self.run_apart_from_rights("add an application", |conn| {
            diesel::insert_into(oauth_applications::table).values(row).execute(conn)?;
            Ok(())
        })
    }

    fn get(&mut self, id: &ApplicationId) -> Result<Option<RegisteredApplication>> {
        self.run_apart_from_rights("find an application", |conn| {
            let row = with_owner!().filter(oauth_applications::id.eq(id.as_str())).first(conn).optional()?;
            one(row, registered)
        })
    }

    fn list(
        &mut self,
        owner: Option<AccountId>,
        after: Option<&ApplicationId>,
        most: usize,
    ) -> Result<Vec<RegisteredApplication>> {
        self.run_apart_from_rights("list applications", |conn| {
            let mut query = with_owner!().into_boxed();
            if let Some(owner) = owner {
                query = query.filter(oauth_applications::owner_id.eq(owner.to_string()));
            }
            if let Some(after) = after {
                query = query.filter(oauth_applications::id.lt(after.as_str()));
            }
            all(query.order(oauth_applications::id.desc()).limit(limit(most)).load(conn)?, registered)
        })
    }

    fn count(&mut self, owner: AccountId) -> Result<u64> {
        self.run_apart_from_rights("count applications", |conn| {
            let of_owner = oauth_applications::table.filter(oauth_applications::owner_id.eq(owner.to_string()));
            Ok(count(of_owner.count().get_result(conn)?))
        })
    }

    fn remove(&mut self, owner: AccountId, id: &ApplicationId) -> Result<bool> {
        self.needs(WriteKey::Account(owner));
        self.run("remove an application", |conn| {
            let of_owner =
                oauth_applications::table.find(id.as_str()).filter(oauth_applications::owner_id.eq(owner.to_string()));
            let ids: Vec<String> = of_owner.select(oauth_applications::id).load(conn)?;
            remove_all(conn, &ids)
        })
    }
}
