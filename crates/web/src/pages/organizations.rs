//! `/organizations/…`: making organizations, their settings, their members. The page of one is that of any owner.

pub(crate) mod creation;
pub(crate) mod members;
pub(crate) mod settings;

use branchyard_domain::entities::MemberRole;

/// What members may do on the databases of their organization, as forms name it.
const BASE_ROLES: &[(&str, &str)] = &[
    ("read", "Read: view and query data"),
    ("write", "Write: change data, branches and tags"),
    ("admin", "Admin: manage settings and access"),
];

/// Roles in an organization: their names in forms, and what they allow.
const MEMBER_ROLES: &[(&str, &str)] = &[("member", "Member"), ("owner", "Owner: manages settings and members")];

fn member_role(name: &str) -> Result<MemberRole, &'static str> {
    match name {
        "member" => Ok(MemberRole::Member),
        "owner" => Ok(MemberRole::Owner),
        _ => Err("Choose member or owner."),
    }
}

const fn member_role_name(role: MemberRole) -> &'static str {
    match role {
        MemberRole::Member => "member",
        MemberRole::Owner => "owner",
    }
}

/// The way between the pages of an organization.
struct OrganizationHeader {
    name: String,
    /// Label, address, and whether it is the one that is shown.
    links: Vec<(&'static str, String, bool)>,
}

impl OrganizationHeader {
    fn of(name: &str, role: Option<MemberRole>, shown: &str) -> Self {
        let mut links = vec![("Databases", format!("/{name}"), false)];
        if role.is_some() {
            links.push(("Members", format!("/organizations/{name}/members"), shown == "Members"));
        }
        if role == Some(MemberRole::Owner) {
            links.push(("Settings", format!("/organizations/{name}/settings"), shown == "Settings"));
        }
        Self { name: name.to_owned(), links }
    }
}
