//! `/organizations/{organization}/members`: the members of an organization and their roles.

use askama::Template;
use branchyard_domain::access::{Belong, OrganizationAccess, Own};
use branchyard_domain::entities::{Member, MemberRole};
use branchyard_http_common::ApiError;

use super::{MEMBER_ROLES, OrganizationHeader, member_role, member_role_name};
use crate::error_page::PageError;
use crate::format::{self, Markup};
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::paths;
use crate::suggestions;

/// Members per page.
const PAGE: usize = 50;
const FIELDS: &[&str] = &["username", "role"];

struct MemberListRow {
    name: String,
    role: &'static str,
    since: Markup,
    is_viewer: bool,
}

#[derive(Template)]
#[template(path = "organization_members.html")]
struct MembersPage {
    shell: LayoutContext,
    head: OrganizationHeader,
    rows: Vec<MemberListRow>,
    next: Option<String>,
    roles: &'static [(&'static str, &'static str)],
    may_manage: bool,
    form: Filled,
    people: Vec<String>,
}

/// `GET /organizations/{organization}/members`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let page = filled(&visit, Filled::default().with("role", "member")).await?;
    visit.page(|shell| MembersPage { shell, ..page })
}

async fn filled(visit: &PageContext, form: Filled) -> Result<MembersPage, PageError> {
    let access: OrganizationAccess<Belong> = visit.organization().await?;
    let (name, role) = (access.organization().name.to_string(), access.role());
    let viewer = access.who().id;
    let after = visit.parameter("after").map(|name| name.to_ascii_lowercase());
    let mut found = visit.read(move |hub| hub.members().list(&access, after.as_deref(), PAGE + 1)).await?;
    let here = format!("/organizations/{name}/members");
    let next = paths::next_page(&mut found, PAGE, &here, |last| last.username.to_string());
    let now = visit.state.services.now();
    let row = |member: &Member| MemberListRow {
        name: member.username.to_string(),
        role: member_role_name(member.role),
        since: format::when(member.added_at, now),
        is_viewer: member.user_id == viewer,
    };
    let (rows, head) = (found.iter().map(row).collect(), OrganizationHeader::of(&name, role, "Members"));
    let may_manage = role == Some(MemberRole::Owner);
    let (shell, people) = (LayoutContext::default(), suggestions::people(visit).await?);
    Ok(MembersPage { shell, head, rows, next, roles: MEMBER_ROLES, may_manage, form, people })
}

/// `POST /organizations/{organization}/members`: adds a member or changes a role.
pub(crate) async fn put(posted: FormPost) -> PageResult {
    let access: OrganizationAccess<Own> = posted.organization().await?;
    let here = format!("/organizations/{}/members", access.organization().name);
    let mut form = posted.form.again();
    if let Some(role) = form.checked("role", member_role(&posted.form.line("role"))) {
        let name = posted.form.line("username");
        let put = posted.write(move |hub| -> Result<_, ApiError> {
            let user = hub.people().user_named(&name)?;
            Ok(hub.members().put(&access, &user, role)?)
        });
        match put.await {
            Ok((member, _)) => {
                let said = format!("{} is now {}.", member.username, with_article(member.role));
                return posted.redirect_saying(&here, &said);
            }
            Err(failure) => form = form.refused(failure, FIELDS)?,
        }
    }
    let page = filled(&posted, form).await?;
    posted.refuse(|shell| MembersPage { shell, ..page })
}

const fn with_article(role: MemberRole) -> &'static str {
    match role {
        MemberRole::Member => "a member",
        MemberRole::Owner => "an owner",
    }
}

/// `POST /organizations/{organization}/members/remove`: removes a member. Members can remove themselves.
pub(crate) async fn remove(posted: FormPost) -> PageResult {
    let name = posted.form.line("username");
    let is_viewer = posted.user()?.name.as_str().eq_ignore_ascii_case(&name);
    let removed = if is_viewer {
        let access: OrganizationAccess<Belong> = posted.organization().await?;
        let to = format!("/{}", access.organization().name);
        (posted.write_always(move |hub| hub.members().leave(&access)).await, to)
    } else {
        let access: OrganizationAccess<Own> = posted.organization().await?;
        let (seen, to) =
            (posted.organization::<Belong>().await?, format!("/organizations/{}/members", access.organization().name));
        let removed = posted.write_always(move |hub| {
            let member = hub.members().get(&seen, &name)?;
            hub.members().remove(&access, &member)
        });
        (removed.await, to)
    };
    match removed {
        (Ok(member), to) => posted.redirect_saying(&to, &format!("{} is no longer a member.", member.username)),
        (Err(failure), _) => {
            let form = Filled::default().with("role", "member").refused(failure, &[])?;
            let page = filled(&posted, form).await?;
            posted.refuse(|shell| MembersPage { shell, ..page })
        }
    }
}
