//! `/organizations/…`: creates organizations, and manages their settings and members. Their profile is the page of the owner.

pub(crate) mod creation;
pub(crate) mod members;
pub(crate) mod settings;

use branchyard_domain::entities::MemberRole;

/// The roles that members can get on all databases: values and labels of the options.
const BASE_ROLES: &[(&str, &str)] = &[
    ("read", "Read: view and query data"),
    ("write", "Write: change data, branches and tags"),
    ("admin", "Admin: manage settings and access"),
];

/// The roles of members: values and labels of the options.
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

/// The frame of the pages of an organization.
struct OrganizationHeader {
    name: String,
    /// Label, path, and whether the page is shown.
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
