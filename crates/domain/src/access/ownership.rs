//! The accounts that a user may create databases for.

use crate::entities::{AccountKind, MemberRole, Role, User};
use crate::errors::PortError;
use crate::ports::Transaction;
use crate::values::{AccountId, OwnerName};

/// An account that a user may create databases for.
pub(crate) struct NewOwner {
    pub(crate) id: AccountId,
    pub(crate) name: OwnerName,
    /// The role that the user has on the account's databases through the account alone.
    pub(crate) role: Role,
}

/// Returns the account that `user` may create databases for. Returns `None` if the user lacks the permission or the account
/// does not exist.
pub(crate) fn may_create_for(
    tx: &mut dyn Transaction,
    user: &User,
    owner: &str,
) -> Result<Option<NewOwner>, PortError> {
    let Ok(name) = OwnerName::parse(owner) else { return Ok(None) };
    let Some(account) = tx.accounts().by_name(&name)? else { return Ok(None) };
    let role = match account.kind {
        AccountKind::User if account.id == user.id => Some(Role::Admin),
        AccountKind::User => None,
        AccountKind::Organization => match tx.members().get(account.id, user.id)? {
            None => None,
            Some(member) if member.role == MemberRole::Owner => Some(Role::Admin),
            Some(_) => tx.organizations().get(account.id)?.map(|o| o.base_role).filter(|role| *role >= Role::Write),
        },
    };
    Ok(role.map(|role| NewOwner { id: account.id, name: account.name, role }))
}
