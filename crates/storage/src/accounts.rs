//! Users and organizations.

use branchyard_domain::entities::{Account, AccountKind, Email, MemberRole, Organization, RetiredName, User};
use branchyard_domain::ports::{
    AccountRepository, MetadataError, OrganizationRepository, UserFilter, UserRepository, WriteKey,
};
use branchyard_domain::values::{AccountId, OwnerName, Timestamp};
use diesel::dsl::max;
use diesel::prelude::*;

use crate::connection::AnyConnection;
use crate::convert::{Read, StoredWord, all, anywhere, count, limit, one, present, read, read_if, time};
use crate::error::StoreError;
use crate::former_names;
use crate::oauth::{remove_applications, remove_grants};
use crate::schema::{
    accounts, answers, collaborators, databases, deployment_collaborators, deployments, emails, invitations, members,
    oauth_grants, operations, organizations, pulls, sessions, stars, tokens, user_keys, users,
};
use crate::transaction::SqlTransaction;

type Result<T> = std::result::Result<T, MetadataError>;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = accounts)]
pub(crate) struct AccountRow {
    id: String,
    name: String,
    name_key: String,
    kind: String,
    created_at: i64,
    deleted_at: Option<i64>,
    deleted_by: Option<String>,
}

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = users)]
pub(crate) struct UserRow {
    id: String,
    display_name: Option<String>,
    bio: Option<String>,
    location: Option<String>,
    website_url: Option<String>,
    profile_pic_url: Option<String>,
    password_hash: Option<String>,
    is_admin: bool,
    suspended_at: Option<i64>,
}

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = emails)]
pub(crate) struct EmailRow {
    user_id: String,
    position: i32,
    address: String,
    is_primary: bool,
    is_verified: bool,
}

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = organizations)]
struct OrganizationRow {
    id: String,
    display_name: Option<String>,
    description: Option<String>,
    base_role: String,
}

fn account_row(id: AccountId, name: &OwnerName, kind: AccountKind, created_at: Timestamp) -> AccountRow {
    AccountRow {
        id: id.to_string(),
        name: name.to_string(),
        name_key: name.key(),
        kind: kind.word().to_owned(),
        created_at: created_at.as_micros(),
        deleted_at: None,
        deleted_by: None,
    }
}

/// Assembles a user from the rows of the three tables. The primary address comes first; the others keep the order of
/// `emails`.
pub(crate) fn user(account: AccountRow, user: UserRow, emails: Vec<EmailRow>) -> Read<User> {
    let mut emails: Vec<Email> = emails
        .into_iter()
        .map(|row| Email { address: row.address, is_primary: row.is_primary, is_verified: row.is_verified })
        .collect();
    emails.sort_by_key(|email| !email.is_primary);
    Ok(User {
        id: read("accounts.id", account.id)?,
        name: read("accounts.name", account.name)?,
        display_name: user.display_name,
        bio: user.bio,
        location: user.location,
        website_url: user.website_url,
        profile_pic_url: user.profile_pic_url,
        emails,
        password_hash: user.password_hash,
        is_admin: user.is_admin,
        suspended_at: user.suspended_at.map(time),
        created_at: time(account.created_at),
    })
}

/// Joins the user of a credential, with a row for each email address: every request reads one, so it is one statement. A macro, because
/// the types of the queries differ.
macro_rules! with_user {
    ($credentials:expr, $user_id:expr) => {{
        use crate::schema::{accounts, emails, users};
        $credentials
            .inner_join(users::table.on(users::id.eq($user_id)))
            .inner_join(accounts::table.on(accounts::id.eq($user_id)))
            .left_join(emails::table.on(emails::user_id.eq($user_id)))
            .filter(accounts::deleted_at.is_null())
            .order(emails::position)
    }};
}
pub(crate) use with_user;

/// A row of [`with_user`], with what is selected of the credential.
pub(crate) type UserOf<T> = (T, AccountRow, UserRow, Option<EmailRow>);

/// Returns what is selected of a credential, and its user, from the rows of [`with_user`].
pub(crate) fn first_with_user<T>(rows: impl IntoIterator<Item = UserOf<T>>) -> Read<Option<(T, User)>> {
    let mut rows = rows.into_iter();
    let Some((credential, account, user_row, first)) = rows.next() else { return Ok(None) };
    let emails = first.into_iter().chain(rows.filter_map(|(_, _, _, email)| email)).collect();
    Ok(Some((credential, user(account, user_row, emails)?)))
}

fn organization(account: AccountRow, row: OrganizationRow) -> Read<Organization> {
    Ok(Organization {
        id: read("accounts.id", account.id)?,
        name: read("accounts.name", account.name)?,
        display_name: row.display_name,
        description: row.description,
        base_role: read("organizations.base_role", row.base_role)?,
        created_at: time(account.created_at),
    })
}

fn add_user(conn: &mut AnyConnection, user: &User) -> std::result::Result<(), StoreError> {
    let id = user.id.to_string();
    diesel::insert_into(accounts::table)
        .values(account_row(user.id, &user.name, AccountKind::User, user.created_at))
        .execute(conn)?;
    diesel::insert_into(users::table)
        .values(UserRow {
            id: id.clone(),
            display_name: user.display_name.clone(),
            bio: user.bio.clone(),
            location: user.location.clone(),
            website_url: user.website_url.clone(),
            profile_pic_url: user.profile_pic_url.clone(),
            password_hash: user.password_hash.clone(),
            is_admin: user.is_admin,
            suspended_at: user.suspended_at.map(Timestamp::as_micros),
        })
        .execute(conn)?;
    Ok(add_emails(conn, &id, &user.emails)?)
}

fn add_emails(conn: &mut AnyConnection, user: &str, emails: &[Email]) -> QueryResult<()> {
    for (email, position) in emails.iter().zip(0..) {
        diesel::insert_into(emails::table)
            .values(EmailRow {
                user_id: user.to_owned(),
                position,
                address: email.address.clone(),
                is_primary: email.is_primary,
                is_verified: email.is_verified,
            })
            .execute(conn)?;
    }
    Ok(())
}

impl AccountRepository for SqlTransaction {
    fn by_name(&mut self, name: &OwnerName) -> Result<Option<Account>> {
        self.run("find an account", |conn| {
            let row = accounts::table
                .filter(accounts::name_key.eq(name.key()))
                .filter(accounts::deleted_at.is_null())
                .select(AccountRow::as_select())
                .first(conn)
                .optional()?;
            one(row, |row| {
                Ok(Account {
                    id: read("accounts.id", row.id)?,
                    name: read("accounts.name", row.name)?,
                    kind: read("accounts.kind", row.kind)?,
                })
            })
        })
    }

    fn retired(&mut self, name: &OwnerName) -> Result<Option<RetiredName>> {
        self.run("find a deleted account", |conn| {
            let row: Option<(String, Option<i64>, Option<String>)> = accounts::table
                .filter(accounts::name_key.eq(name.key()))
                .filter(accounts::deleted_at.is_not_null())
                .order(accounts::deleted_at.desc())
                .select((accounts::id, accounts::deleted_at, accounts::deleted_by))
                .first(conn)
                .optional()?;
            one(row, |(id, at, by)| {
                Ok(RetiredName {
                    id: read("accounts.id", id)?,
                    at: time(present("accounts.deleted_at", at)?),
                    by: read_if("accounts.deleted_by", by)?,
                })
            })
        })
    }

    fn forget_names(&mut self, before: Timestamp) -> Result<u64> {
        self.run("forget the names of erased users", |conn| {
            let erased = OwnerName::deleted_user();
            let old = accounts::table
                .filter(accounts::deleted_at.lt(before.as_micros()))
                .filter(accounts::name.eq(erased.to_string()))
                .filter(accounts::name_key.ne(erased.key()));
            let forgotten = diesel::update(old).set(accounts::name_key.eq(erased.key())).execute(conn)?;
            Ok(u64::try_from(forgotten).unwrap_or(u64::MAX))
        })
    }
}

/// Changes the name that rows show in place of an erased user's.
fn erase_names(conn: &mut AnyConnection, user: &str, account: &AccountRow) -> QueryResult<()> {
    let erased = OwnerName::deleted_user();
    let (name, key) = (erased.as_str(), erased.key());
    diesel::update(accounts::table.find(user)).set(accounts::name.eq(name)).execute(conn)?;
    let owned = || databases::table.filter(databases::owner_id.eq(user.to_owned())).select(databases::id);
    diesel::update(pulls::table.filter(pulls::from_database_id.eq_any(owned())))
        .set(pulls::from_owner.eq(name))
        .execute(conn)?;
    diesel::update(databases::table.filter(databases::owner_id.eq(user)))
        .set((databases::owner_name.eq(name), databases::owner_key.eq(key)))
        .execute(conn)?;
    // Earlier users may have had the same name.
    diesel::update(pulls::table)
        .filter(pulls::merged_by.is_not_null().and(pulls::merged_by.assume_not_null().eq(&account.name)))
        .filter(pulls::created_at.ge(account.created_at).or(pulls::updated_at.ge(account.created_at)))
        .set(pulls::merged_by.eq(Some(name)))
        .execute(conn)?;
    let deployed = || deployments::table.filter(deployments::created_at.ge(account.created_at));
    diesel::update(deployed().filter(deployments::created_by.eq(&account.name)))
        .set(deployments::created_by.eq(name))
        .execute(conn)?;
    diesel::update(deployments::table.filter(deployments::owner_id.eq(user)))
        .set(deployments::owner_name.eq(name))
        .execute(conn)?;
    Ok(())
}

impl UserRepository for SqlTransaction {
    fn add(&mut self, user: &User) -> Result<()> {
        self.needs(WriteKey::Account(user.id));
        self.run_unless_taken("add a user", |conn| add_user(conn, user))
    }

    fn get(&mut self, id: AccountId) -> Result<Option<User>> {
        self.run_apart_from_rights("read a user", |conn| {
            let rows: Option<(AccountRow, UserRow)> = users::table
                .inner_join(accounts::table.on(accounts::id.eq(users::id)))
                .filter(users::id.eq(id.to_string()))
                .filter(accounts::deleted_at.is_null())
                .select((AccountRow::as_select(), UserRow::as_select()))
                .first(conn)
                .optional()?;
            let Some((account_row, user_row)) = rows else { return Ok(None) };
            let emails = emails::table
                .filter(emails::user_id.eq(id.to_string()))
                .order(emails::position)
                .select(EmailRow::as_select())
                .load(conn)?;
            Ok(Some(user(account_row, user_row, emails)?))
        })
    }

    fn update(&mut self, user: &User) -> Result<bool> {
        self.needs(WriteKey::Account(user.id));
        self.run("change a user", |conn| {
            let changed = diesel::update(users::table.find(user.id.to_string()))
                .set((
                    users::display_name.eq(&user.display_name),
                    users::bio.eq(&user.bio),
                    users::location.eq(&user.location),
                    users::website_url.eq(&user.website_url),
                    users::profile_pic_url.eq(&user.profile_pic_url),
                    users::password_hash.eq(&user.password_hash),
                    users::is_admin.eq(user.is_admin),
                    users::suspended_at.eq(user.suspended_at.map(Timestamp::as_micros)),
                ))
                .execute(conn)?;
            Ok(changed > 0)
        })
    }

    fn set_emails(&mut self, user: AccountId, emails: &[Email]) -> Result<()> {
        self.needs(WriteKey::Account(user));
        self.run("set the addresses of a user", |conn| {
            let user = user.to_string();
            diesel::delete(emails::table.filter(emails::user_id.eq(&user))).execute(conn)?;
            Ok(add_emails(conn, &user, emails)?)
        })
    }

    fn any(&mut self) -> Result<bool> {
        self.run("look for users", |conn| {
            let any: Option<String> = users::table.select(users::id).first(conn).optional()?;
            Ok(any.is_some())
        })
    }

    fn list(&mut self, filter: &UserFilter, after: Option<&str>, most: usize) -> Result<Vec<User>> {
        let mut query = users::table
            .inner_join(accounts::table.on(accounts::id.eq(users::id)))
            .filter(accounts::deleted_at.is_null())
            .into_boxed();
        if let Some(text) = &filter.contains {
            if text.len() > UserFilter::MAX_CONTAINS {
                return Ok(Vec::new());
            }
            query = query.filter(accounts::name_key.like(anywhere(text)).escape('\\'));
        }
        query = match filter.is_suspended {
            Some(true) => query.filter(users::suspended_at.is_not_null()),
            Some(false) => query.filter(users::suspended_at.is_null()),
            None => query,
        };
        if let Some(is_admin) = filter.is_admin {
            query = query.filter(users::is_admin.eq(is_admin));
        }
        if let Some(after) = after {
            query = query.filter(accounts::name_key.gt(after.to_owned()));
        }
        self.run("list users", |conn| {
            let rows: Vec<(AccountRow, UserRow)> = query
                .order(accounts::name_key)
                .limit(limit(most))
                .select((AccountRow::as_select(), UserRow::as_select()))
                .load(conn)?;
            let mut found = Vec::with_capacity(rows.len());
            for (account_row, user_row) in rows {
                let emails = emails::table
                    .filter(emails::user_id.eq(&user_row.id))
                    .order(emails::position)
                    .select(EmailRow::as_select())
                    .load(conn)?;
                found.push(user(account_row, user_row, emails)?);
            }
            Ok(found)
        })
    }

    fn count_active_admins(&mut self) -> Result<u64> {
        self.run("count administrators", |conn| {
            let active = users::table.filter(users::is_admin.eq(true)).filter(users::suspended_at.is_null());
            Ok(count(active.count().get_result(conn)?))
        })
    }

    fn last_seen(&mut self, id: AccountId) -> Result<Option<Timestamp>> {
        self.run("look for the last use of a credential", |conn| {
            let id = id.to_string();
            let of_tokens: Option<i64> =
                tokens::table.filter(tokens::user_id.eq(&id)).select(max(tokens::last_used_at)).first(conn)?;
            let of_sessions: Option<i64> =
                sessions::table.filter(sessions::user_id.eq(&id)).select(max(sessions::last_used_at)).first(conn)?;
            let of_keys: Option<i64> =
                user_keys::table.filter(user_keys::user_id.eq(&id)).select(max(user_keys::last_used_at)).first(conn)?;
            let of_grants: Option<i64> = oauth_grants::table
                .filter(oauth_grants::user_id.eq(&id))
                .select(max(oauth_grants::last_used_at))
                .first(conn)?;
            Ok(of_tokens.max(of_keys).max(of_sessions).max(of_grants).map(time))
        })
    }

    fn remove(&mut self, id: AccountId, at: Timestamp) -> Result<()> {
        self.needs(WriteKey::Account(id));
        self.run("remove a user", |conn| {
            let user = id.to_string();
            diesel::delete(tokens::table.filter(tokens::user_id.eq(&user))).execute(conn)?;
            diesel::delete(user_keys::table.filter(user_keys::user_id.eq(&user))).execute(conn)?;
            diesel::delete(sessions::table.filter(sessions::user_id.eq(&user))).execute(conn)?;
            remove_applications(conn, &user)?;
            remove_grants(conn, &user)?;
            diesel::delete(invitations::table.filter(invitations::created_by.eq(&user))).execute(conn)?;
            diesel::delete(members::table.filter(members::user_id.eq(&user))).execute(conn)?;
            diesel::delete(collaborators::table.filter(collaborators::user_id.eq(&user))).execute(conn)?;
            diesel::delete(deployment_collaborators::table.filter(deployment_collaborators::user_id.eq(&user)))
                .execute(conn)?;
            diesel::delete(answers::table.filter(answers::caller_id.eq(&user))).execute(conn)?;
            let starred = || stars::table.filter(stars::user_id.eq(user.clone()));
            diesel::update(databases::table.filter(databases::id.eq_any(starred().select(stars::database_id))))
                .set(databases::star_count.eq(databases::star_count - 1))
                .execute(conn)?;
            diesel::delete(starred()).execute(conn)?;
            diesel::update(users::table.find(&user))
                .set((users::password_hash.eq(None::<String>), users::is_admin.eq(false)))
                .execute(conn)?;
            former_names::remove_of_owner(conn, &user)?;
            diesel::update(accounts::table.find(&user)).set(accounts::deleted_at.eq(at.as_micros())).execute(conn)?;
            Ok(())
        })
    }

    fn erase(&mut self, id: AccountId) -> Result<()> {
        self.needs(WriteKey::Account(id));
        self.run("erase a user", |conn| {
            let user = id.to_string();
            let account: AccountRow = accounts::table
                .find(&user)
                .filter(accounts::deleted_at.is_not_null())
                .select(AccountRow::as_select())
                .first(conn)?;
            erase_names(conn, &user, &account)?;
            let none = None::<String>;
            diesel::update(users::table.find(&user))
                .set((
                    users::display_name.eq(&none),
                    users::bio.eq(&none),
                    users::location.eq(&none),
                    users::website_url.eq(&none),
                    users::profile_pic_url.eq(&none),
                ))
                .execute(conn)?;
            diesel::delete(emails::table.filter(emails::user_id.eq(&user))).execute(conn)?;
            let settled = operations::table
                .filter(operations::created_by.eq(&user))
                .filter(operations::finished_at.is_not_null());
            diesel::delete(settled).execute(conn)?;
            Ok(())
        })
    }
}

impl OrganizationRepository for SqlTransaction {
    fn add(&mut self, organization: &Organization) -> Result<()> {
        self.needs(WriteKey::Account(organization.id));
        self.run_unless_taken("add an organization", |conn| {
            diesel::insert_into(accounts::table)
                .values(account_row(
                    organization.id,
                    &organization.name,
                    AccountKind::Organization,
                    organization.created_at,
                ))
                .execute(conn)?;
            diesel::insert_into(organizations::table)
                .values(OrganizationRow {
                    id: organization.id.to_string(),
                    display_name: organization.display_name.clone(),
                    description: organization.description.clone(),
                    base_role: organization.base_role.word().to_owned(),
                })
                .execute(conn)?;
            Ok(())
        })
    }

    fn get(&mut self, id: AccountId) -> Result<Option<Organization>> {
        self.run_apart_from_rights("read an organization", |conn| {
            let row: Option<(AccountRow, OrganizationRow)> = organizations::table
                .inner_join(accounts::table.on(accounts::id.eq(organizations::id)))
                .filter(organizations::id.eq(id.to_string()))
                .filter(accounts::deleted_at.is_null())
                .select((AccountRow::as_select(), OrganizationRow::as_select()))
                .first(conn)
                .optional()?;
            one(row, |(account, row)| organization(account, row))
        })
    }

    fn update(&mut self, organization: &Organization) -> Result<bool> {
        self.needs(WriteKey::Account(organization.id));
        self.run("change an organization", |conn| {
            let changed = diesel::update(organizations::table.find(organization.id.to_string()))
                .set((
                    organizations::display_name.eq(organization.display_name.as_deref()),
                    organizations::description.eq(organization.description.as_deref()),
                    organizations::base_role.eq(organization.base_role.word()),
                ))
                .execute(conn)?;
            Ok(changed > 0)
        })
    }

    fn owns_others(&mut self, id: AccountId) -> Result<Option<&'static str>> {
        self.run("look for deployments of an organization", |conn| {
            let any: Option<String> = deployments::table
                .filter(deployments::owner_id.eq(id.to_string()))
                .filter(deployments::removed_at.is_null())
                .select(deployments::id)
                .first(conn)
                .optional()?;
            Ok(any.map(|_| "deployments"))
        })
    }

    fn remove(&mut self, id: AccountId, at: Timestamp, by: AccountId) -> Result<()> {
        self.needs(WriteKey::Account(id));
        self.run("remove an organization", |conn| {
            let id = id.to_string();
            diesel::delete(members::table.filter(members::organization_id.eq(&id))).execute(conn)?;
            former_names::remove_of_owner(conn, &id)?;
            diesel::update(accounts::table.find(&id))
                .set((accounts::deleted_at.eq(at.as_micros()), accounts::deleted_by.eq(by.to_string())))
                .execute(conn)?;
            Ok(())
        })
    }

    fn list(&mut self, user: AccountId, after: Option<&str>, most: usize) -> Result<Vec<(Organization, MemberRole)>> {
        self.run("list organizations", |conn| {
            let mut query = members::table
                .inner_join(organizations::table.on(organizations::id.eq(members::organization_id)))
                .inner_join(accounts::table.on(accounts::id.eq(members::organization_id)))
                .filter(members::user_id.eq(user.to_string()))
                .into_boxed();
            if let Some(after) = after {
                query = query.filter(accounts::name_key.gt(after.to_owned()));
            }
            let rows: Vec<(AccountRow, OrganizationRow, String)> = query
                .order(accounts::name_key)
                .limit(limit(most))
                .select((AccountRow::as_select(), OrganizationRow::as_select(), members::role))
                .load(conn)?;
            all(rows, |(account, row, role)| Ok((organization(account, row)?, read("members.role", role)?)))
        })
    }
}
