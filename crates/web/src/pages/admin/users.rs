//! `/admin/users`

use askama::Template;
use branchyard_domain::ports::UserFilter;

use super::{SECTIONS, administrator};
use crate::format::{self, Markup};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::paths;

const HERE: &str = "/admin/users";
const PAGE: usize = 50;

/// The values of `show`, with their labels. The first one is the default.
const SHOWN: [(&str, &str); 3] = [("", "All"), ("suspended", "Suspended"), ("administrators", "Administrators")];

struct UserItem {
    name: String,
    is_admin: bool,
    is_suspended: bool,
    created: Markup,
    seen: Option<Markup>,
}

struct ShownLink {
    label: &'static str,
    href: String,
    is_shown: bool,
}

#[derive(Template)]
#[template(path = "admin/users.html")]
struct UsersPage {
    shell: LayoutContext,
    sections: &'static [(&'static str, &'static str)],
    here: &'static str,
    search: String,
    show: &'static str,
    shown: Vec<ShownLink>,
    users: Vec<UserItem>,
    next: Option<String>,
}

/// `GET /admin/users?q=…&show=…`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let proof = administrator(&visit)?;
    let search = visit.parameter("q").unwrap_or_default();
    let asked = visit.parameter("show").unwrap_or_default();
    let (show, _) = SHOWN.into_iter().find(|(word, _)| *word == asked).unwrap_or(SHOWN[0]);
    let filter = UserFilter {
        contains: Some(search.clone()).filter(|text| !text.is_empty()),
        is_suspended: (show == "suspended").then_some(true),
        is_admin: (show == "administrators").then_some(true),
    };
    let after = visit.parameter("after");
    let mut found =
        visit.read(move |hub| hub.administration().users(&proof, &filter, after.as_deref(), PAGE + 1)).await?;
    let is_more = found.len() > PAGE;
    found.truncate(PAGE);
    let here = |show: &str, after: &str| paths::with_query(HERE, &[("q", &search), ("show", show), ("after", after)]);
    let next = found.last().filter(|_| is_more).map(|last| here(show, &last.user.name.key()));
    let now = visit.state.services.now();
    let users = found
        .into_iter()
        .map(|found| UserItem {
            name: found.user.name.to_string(),
            is_admin: found.user.is_admin,
            is_suspended: found.user.suspended_at.is_some(),
            created: format::when(found.user.created_at, now),
            seen: found.last_seen_at.map(|at| format::when(at, now)),
        })
        .collect();
    let shown =
        SHOWN.iter().map(|(word, label)| ShownLink { label, href: here(word, ""), is_shown: *word == show }).collect();
    visit.page(|shell| UsersPage {
        shell,
        sections: &SECTIONS,
        here: HERE,
        search: search.clone(),
        show,
        shown,
        users,
        next,
    })
}
