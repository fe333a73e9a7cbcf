use serde::Serialize;
use utoipa::ToSchema;

use super::{MemberRole, Role};

/// A group of people that owns databases together.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Organization {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) display_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// The role of members on every database of the organization.
    pub(crate) base_role: Role,
    pub(crate) created_at: String,
    /// The role of the caller. Absent if the caller is not a member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) viewer_role: Option<MemberRole>,
}

/// A member of an organization.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Member {
    pub(crate) username: String,
    pub(crate) role: MemberRole,
    pub(crate) added_at: String,
}

/// A user who was given a role on a database.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Collaborator {
    pub(crate) username: String,
    pub(crate) role: Role,
    pub(crate) added_at: String,
}
