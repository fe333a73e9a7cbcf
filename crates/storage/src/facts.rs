//! What several look-ups would find, read by one statement.

use branchyard_auth::HashedToken;
use branchyard_domain::entities::{MemberRole, Role};
use branchyard_domain::ports::{BranchFacts, MetadataError, RequestFacts, RequestTarget, RoleSources, TargetDatabase};
use branchyard_domain::values::{AccountId, DatabaseId, RefName, Timestamp};
use diesel::dsl::exists;
use diesel::prelude::*;

use crate::accounts::{AccountRow, EmailRow, UserRow, first_with_user, with_user};
use crate::convert::{Read, read_if};
use crate::databases::DatabaseRow;
use crate::operations::held_up;
use crate::pulls::open_from;
use crate::schema::{accounts, branches, collaborators, databases, hooks, members, organizations, tokens, users};
use crate::tokens::TokenRow;
use crate::transaction::SqlTransaction;

type Result<T> = std::result::Result<T, MetadataError>;

/// The roles of a user: in the organization that owns a database, what that gives to its members, and as a collaborator.
type RoleColumns = (Option<String>, Option<String>, Option<String>);

fn sources((member, base_role, collaborator): RoleColumns) -> Read<RoleSources> {
    let member: Option<MemberRole> = read_if("members.role", member)?;
    let base_role: Option<Role> = read_if("organizations.base_role", base_role)?;
    Ok(RoleSources { member: member.zip(base_role), collaborator: read_if("collaborators.role", collaborator)? })
}

/// Joins what the role of a user follows from. A macro, because the types of the queries differ.
macro_rules! with_roles {
    ($query:expr, $user:expr) => {
        $query
            .left_join(
                members::table.on(members::organization_id.eq(databases::owner_id).and(members::user_id.eq($user))),
            )
            .left_join(organizations::table.on(organizations::id.nullable().eq(members::organization_id.nullable())))
            .left_join(
                collaborators::table
                    .on(collaborators::database_id.eq(databases::id).and(collaborators::user_id.eq($user))),
            )
    };
}

/// Implements `DatabaseRepository::branch_facts`.
pub(crate) fn of_branch(
    tx: &mut SqlTransaction,
    id: DatabaseId,
    branch: &RefName,
    user: AccountId,
    now: Timestamp,
) -> Result<Option<BranchFacts>> {
    tx.run_apart_from_rights("read what decides on a write", |conn| {
        let (id, user) = (id.to_string(), user.to_string());
        type Row = (DatabaseRow, Option<String>, Option<String>, RoleColumns, bool, bool, bool);
        let found: Option<Row> = with_roles!(databases::table, user.clone())
            .left_join(
                branches::table.on(branches::database_id.eq(databases::id).and(branches::name.eq(branch.to_string()))),
            )
            .left_join(accounts::table.on(accounts::id.eq(user.clone()).and(accounts::deleted_at.is_null())))
            .left_join(
                users::table.on(users::id.nullable().eq(accounts::id.nullable()).and(users::suspended_at.is_null())),
            )
            .filter(databases::id.eq(id.clone()))
            .select((
                DatabaseRow::as_select(),
                branches::head.nullable(),
                users::id.nullable(),
                (members::role.nullable(), organizations::base_role.nullable(), collaborators::role.nullable()),
                held_up!(id.clone(), now),
                exists(hooks::table.filter(hooks::database_id.eq(id.clone()))),
                exists(open_from!(id.clone(), branch.to_string())),
            ))
            .first(conn)
            .optional()?;
        let Some((row, head, active, roles, is_held_up, has_hooks, has_pulls)) = found else { return Ok(None) };
        Ok(Some(BranchFacts {
            database: row.database()?,
            is_held_up,
            head: read_if("branches.head", head)?,
            has_hooks,
            has_pulls,
            writer: active.map(|_| sources(roles)).transpose()?,
        }))
    })
}

impl SqlTransaction {
    /// Implements `Metadata::request_facts` for a request that concerns a database.
    pub(crate) fn request_facts(&mut self, hash: &HashedToken, target: &RequestTarget) -> Result<Option<RequestFacts>> {
        let branch = target.branch.as_ref().map(ToString::to_string);
        self.run("find a token and what it is used for", |conn| {
            let named = databases::owner_key
                .eq(target.owner.key())
                .and(databases::name_key.eq(target.name.key()))
                .and(databases::deleted_at.is_null());
            type Row =
                (TokenRow, AccountRow, UserRow, Option<EmailRow>, Option<DatabaseRow>, Option<String>, RoleColumns);
            let rows: Vec<Row> = with_user!(tokens::table, tokens::user_id)
                .left_join(databases::table.on(named))
                .left_join(
                    branches::table.on(branches::database_id
                        .nullable()
                        .eq(databases::id.nullable())
                        .and(branches::name.nullable().eq(coalesce(branch, databases::default_branch.nullable())))),
                )
                .left_join(
                    members::table.on(members::organization_id
                        .nullable()
                        .eq(databases::owner_id.nullable())
                        .and(members::user_id.eq(tokens::user_id))),
                )
                .left_join(
                    organizations::table.on(organizations::id.nullable().eq(members::organization_id.nullable())),
                )
                .left_join(
                    collaborators::table.on(collaborators::database_id
                        .nullable()
                        .eq(databases::id.nullable())
                        .and(collaborators::user_id.eq(tokens::user_id))),
                )
                .filter(tokens::hash.eq(hash.as_bytes().to_vec()))
                .select((
                    TokenRow::as_select(),
                    AccountRow::as_select(),
                    UserRow::as_select(),
                    Option::<EmailRow>::as_select(),
                    Option::<DatabaseRow>::as_select(),
                    branches::head.nullable(),
                    (members::role.nullable(), organizations::base_role.nullable(), collaborators::role.nullable()),
                ))
                .load(conn)?;
            let rows = rows.into_iter().map(|(token, account, user, email, database, head, roles)| {
                ((token, database, head, roles), account, user, email)
            });
            let Some(((token, database, head, roles), user)) = first_with_user(rows)? else { return Ok(None) };
            let database = match database {
                None => None,
                Some(row) => Some(TargetDatabase {
                    database: row.database()?,
                    sources: sources(roles)?,
                    head: read_if("branches.head", head)?,
                }),
            };
            Ok(Some(RequestFacts { token: token.token()?, user, database }))
        })
    }
}

#[diesel::declare_sql_function]
extern "SQL" {
    /// Returns the first of two values that is not null.
    fn coalesce(
        one: diesel::sql_types::Nullable<diesel::sql_types::Text>,
        other: diesel::sql_types::Nullable<diesel::sql_types::Text>,
    ) -> diesel::sql_types::Nullable<diesel::sql_types::Text>;
}
