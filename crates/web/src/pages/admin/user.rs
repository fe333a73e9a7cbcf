//! `/admin/users/{user}`: the standing, tokens, authorized applications and sessions of a user.

use askama::Template;
use branchyard_domain::access::ServerAdmin;
use branchyard_domain::errors::AdministrationError;
use branchyard_domain::usecases::{Administration, Grants};
use branchyard_domain::values::TokenId;

use super::{SECTIONS, administrator, audit};
use crate::format::{self, Markup};
use crate::forms::FormPost;
use crate::grants_view::GrantItem;
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::paths;

const HERE: &str = "/admin/users";
const PAGE: usize = 100;

struct CredentialItem {
    id: String,
    name: String,
    created: Markup,
    expires: Markup,
    used: Option<Markup>,
    address: String,
}

#[derive(Template)]
#[template(path = "admin/user.html")]
struct UserPage {
    shell: LayoutContext,
    sections: &'static [(&'static str, &'static str)],
    here: &'static str,
    name: String,
    is_admin: bool,
    suspended: Option<Markup>,
    created: Markup,
    seen: Option<Markup>,
    tokens: Vec<CredentialItem>,
    next: Option<String>,
    grants: Vec<GrantItem>,
    grants_path: String,
    sessions: Vec<CredentialItem>,
}

fn path(user: &str) -> String {
    format!("{HERE}/{user}")
}

/// `GET /admin/users/{user}`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let proof = administrator(&visit)?;
    let name = visit.segment("user");
    let after = visit.parameter("after").and_then(|text| TokenId::parse(&text).ok());
    let (found, mut tokens, grants, sessions) = visit
        .read(move |hub| -> Result<_, AdministrationError> {
            let administration = hub.administration();
            let found = administration.user(&proof, &name)?;
            let tokens = administration.tokens(&proof, &name, after, PAGE + 1)?;
            let grants = administration.grants(&proof, &name, None, Grants::PER_USER)?;
            Ok((found, tokens, grants, administration.sessions(&proof, &name)?))
        })
        .await?;
    let name = found.user.name.to_string();
    let next = paths::next_page(&mut tokens, PAGE, &path(&name), |token| token.id.to_string());
    let now = visit.state.services.now();
    let tokens = tokens
        .into_iter()
        .map(|token| CredentialItem {
            id: token.id.to_string(),
            name: token.name,
            created: format::when(token.created_at, now),
            expires: format::when(token.expires_at, now),
            used: token.last_use.as_ref().map(|last| format::when(last.at, now)),
            address: token.last_use.map(|last| last.address).unwrap_or_default(),
        })
        .collect();
    let grants = grants.into_iter().map(|view| GrantItem::of(view, now)).collect();
    let grants_path = format!("{}/grants", path(&name));
    let sessions = sessions
        .into_iter()
        .map(|session| CredentialItem {
            id: session.id.to_string(),
            name: session.last_use.user_agent,
            created: format::when(session.created_at, now),
            expires: format::when(session.expires_at, now),
            used: Some(format::when(session.last_use.at, now)),
            address: session.last_use.address,
        })
        .collect();
    let (is_admin, created) = (found.user.is_admin, format::when(found.user.created_at, now));
    let suspended = found.user.suspended_at.map(|at| format::when(at, now));
    let seen = found.last_seen_at.map(|at| format::when(at, now));
    visit.page(|shell| UserPage {
        shell,
        sections: &SECTIONS,
        here: HERE,
        name,
        is_admin,
        suspended,
        created,
        seen,
        tokens,
        next,
        grants,
        grants_path,
        sessions,
    })
}

/// Does something to the user named in the path. `act` returns the sentence to show.
async fn change(
    posted: FormPost,
    action: &'static str,
    act: impl FnOnce(&Administration<'_>, &ServerAdmin, &str) -> Result<String, AdministrationError> + Send + 'static,
) -> PageResult {
    let proof = administrator(&posted)?;
    let name = posted.read({
        let (proof, user) = (proof.clone(), posted.segment("user"));
        move |hub| hub.administration().user(&proof, &user)
    });
    let name = name.await?.user.name.to_string();
    posted.confirmed(&path(&name))?;
    let (by, on) = (proof.clone(), name.clone());
    let said = posted.write_always(move |hub| act(&hub.administration(), &by, &on)).await?;
    audit(&proof, action, &name);
    posted.redirect_saying(&path(&name), &said)
}

/// `POST /admin/users/{user}/suspend`
pub(crate) async fn suspend(posted: FormPost) -> PageResult {
    change(posted, "user suspend", |administration, proof, name| {
        administration.suspend(proof, name).map(|user| format!("{} is suspended.", user.name))
    })
    .await
}

/// `POST /admin/users/{user}/resume`
pub(crate) async fn resume(posted: FormPost) -> PageResult {
    change(posted, "user resume", |administration, proof, name| {
        administration.resume(proof, name).map(|user| format!("{} is no longer suspended.", user.name))
    })
    .await
}

/// `POST /admin/users/{user}/make-admin`
pub(crate) async fn make_admin(posted: FormPost) -> PageResult {
    change(posted, "user make-admin", |administration, proof, name| {
        administration.make_admin(proof, name).map(|user| format!("{} is an administrator now.", user.name))
    })
    .await
}

/// `POST /admin/users/{user}/tokens/revoke`. Without an id, all tokens, keys and grants of the user are revoked.
pub(crate) async fn revoke_tokens(posted: FormPost) -> PageResult {
    let id = posted.form.line("id");
    change(posted, "token revoke", move |administration, proof, name| match id.as_str() {
        "" => {
            let count = administration.revoke_tokens(proof, name)?;
            Ok(format!(
                "{} revoked.",
                format::counted(u64::try_from(count).unwrap_or(u64::MAX), "credential", "credentials")
            ))
        }
        id => administration.revoke_token(proof, id).map(|token| format!("Token “{}” revoked.", token.name)),
    })
    .await
}

/// `POST /admin/users/{user}/sessions/end`. Without an id, all sessions of the user end.
pub(crate) async fn end_sessions(posted: FormPost) -> PageResult {
    let id = posted.form.line("id");
    change(posted, "session end", move |administration, proof, name| match id.as_str() {
        "" => {
            let count = administration.end_sessions(proof, name)?;
            Ok(format!("{} ended.", format::counted(u64::try_from(count).unwrap_or(u64::MAX), "session", "sessions")))
        }
        id => administration.end_session(proof, id).map(|_| "Session ended.".to_owned()),
    })
    .await
}

/// `POST /admin/users/{user}/grants/{id}/revoke`
pub(crate) async fn revoke_grant(posted: FormPost) -> PageResult {
    let id = posted.segment("id");
    change(posted, "grant revoke", move |administration, proof, name| {
        administration.end_grant(proof, name, &id).map(|_| "Access revoked.".to_owned())
    })
    .await
}
