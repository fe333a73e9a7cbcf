use branchyard_domain::entities::{Collaborator, LastUse, Member, MemberRole, Organization, Role, Token};
use branchyard_domain::usecases::OrganizationView;
use branchyard_domain::values::Timestamp;
use branchyard_http_common::rfc3339;

use crate::wire;

impl From<Role> for wire::Role {
    fn from(role: Role) -> Self {
        match role {
            Role::Read => Self::Read,
            Role::Write => Self::Write,
            Role::Admin => Self::Admin,
        }
    }
}

impl From<MemberRole> for wire::MemberRole {
    fn from(role: MemberRole) -> Self {
        match role {
            MemberRole::Owner => Self::Owner,
            MemberRole::Member => Self::Member,
        }
    }
}

impl From<&OrganizationView> for wire::Organization {
    fn from(view: &OrganizationView) -> Self {
        let OrganizationView { organization, role } = view;
        let Organization { id: _, name, display_name, description, base_role, created_at } = organization;
        Self {
            name: name.to_string(),
            display_name: display_name.clone(),
            description: description.clone(),
            base_role: (*base_role).into(),
            created_at: rfc3339(*created_at),
            viewer_role: role.map(Into::into),
        }
    }
}

impl From<&Member> for wire::Member {
    fn from(member: &Member) -> Self {
        let Member { user_id: _, username, role, added_at } = member;
        Self { username: username.to_string(), role: (*role).into(), added_at: rfc3339(*added_at) }
    }
}

impl From<&Collaborator> for wire::Collaborator {
    fn from(collaborator: &Collaborator) -> Self {
        let Collaborator { user_id: _, username, role, added_at } = collaborator;
        Self { username: username.to_string(), role: (*role).into(), added_at: rfc3339(*added_at) }
    }
}

/// Converts a token, without its secret. `now` decides whether the token has expired.
pub(crate) fn token(token: &Token, now: Timestamp) -> wire::Token {
    let Token { id, user_id: _, name, hash: _, created_at, expires_at, last_use } = token;
    let used_from = |LastUse { at: _, address, user_agent }: &LastUse| wire::TokenUse {
        address: address.clone(),
        user_agent: user_agent.clone(),
    };
    wire::Token {
        id: id.to_string(),
        name: name.clone(),
        created_at: rfc3339(*created_at),
        expires_at: rfc3339(*expires_at),
        expired: token.expired(now),
        last_used_at: last_use.as_ref().map(|last_use| rfc3339(last_use.at)),
        last_used_from: last_use.as_ref().map(used_from),
        token: None,
    }
}
