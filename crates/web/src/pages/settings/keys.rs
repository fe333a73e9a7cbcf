//! `/settings/keys`

use askama::Template;
use branchyard_domain::entities::UserKey;
use branchyard_domain::errors::{KeyError, PortError};
use branchyard_domain::values::{PublicKey, UserKeyId};

use super::{SettingsNav, sections};
use crate::error_page::PageError;
use crate::format::{self, Markup};
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};

const HERE: &str = "/settings/keys";
/// Keys that a page lists. The limit per user is lower unless the operator raised it.
const PAGE: usize = 1_000;

struct KeyItem {
    id: String,
    name: String,
    public_key: String,
    added: Markup,
    used: Option<Markup>,
}

#[derive(Template)]
#[template(path = "settings/keys.html")]
struct KeysPage {
    shell: LayoutContext,
    sections: SettingsNav,
    here: &'static str,
    form: Filled,
    origin: String,
    is_secure: bool,
    keys: Vec<KeyItem>,
}

#[derive(Template)]
#[template(path = "settings/remove_key.html")]
struct RemovePage {
    shell: LayoutContext,
    sections: SettingsNav,
    here: &'static str,
    name: String,
}

async fn fill(visit: &PageContext, form: Filled) -> Result<impl FnOnce(LayoutContext) -> KeysPage + use<>, PageError> {
    let user = visit.user()?;
    let found: Vec<UserKey> = visit.read(move |hub| hub.keys().list(&user, None, PAGE)).await?;
    let now = visit.state.services.now();
    let keys = found.into_iter().map(|key| KeyItem {
        id: key.id.to_string(),
        public_key: key.public_key.to_string(),
        added: format::when(key.created_at, now),
        used: key.last_used_at.map(|at| format::when(at, now)),
        name: key.name,
    });
    let (keys, sections, origin) = (keys.collect(), sections(visit), visit.state.config.public_url.clone());
    let is_secure = origin.starts_with("https://");
    Ok(move |shell| KeysPage { shell, sections, here: HERE, form, origin, is_secure, keys })
}

/// `GET /settings/keys`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let page = fill(&visit, Filled::default()).await?;
    visit.page(page)
}

/// `POST /settings/keys`
pub(crate) async fn add(posted: FormPost) -> PageResult {
    let user = posted.user()?;
    posted.confirmed(HERE)?;
    let mut form = posted.form.again();
    let public_key = form.checked("public_key", PublicKey::parse(posted.form.line("public_key").trim()));
    let name = posted.form.line("name");
    let Some(public_key) = public_key else {
        let page = fill(&posted, form).await?;
        return posted.refuse(page);
    };
    let added = posted
        .write(move |hub| -> Result<_, PortError> {
            match hub.keys().add(&user, &name, public_key, None) {
                Ok(key) => Ok(Ok(key.name)),
                Err(KeyError::Port(fault)) => Err(fault),
                Err(error @ KeyError::TooMany(_)) => Ok(Err(("", error.to_string()))),
                Err(error @ KeyError::Invalid(_)) => Ok(Err(("name", error.to_string()))),
                Err(error) => Ok(Err(("public_key", error.to_string()))),
            }
        })
        .await?;
    match added {
        Ok(name) => posted.redirect_saying(HERE, &format!("Key “{name}” added.")),
        Err((field, why)) => {
            let page = fill(&posted, form.wrong(field, why)).await?;
            posted.refuse(page)
        }
    }
}

/// `GET /settings/keys/{id}/remove`
pub(crate) async fn ask(visit: PageContext) -> PageResult {
    let user = visit.user()?;
    let id = UserKeyId::parse(&visit.segment("id")).map_err(|_| PageError::nothing_here())?;
    let all = visit.read(move |hub| hub.keys().list(&user, None, PAGE)).await?;
    let key = all.into_iter().find(|key| key.id == id).ok_or_else(PageError::nothing_here)?;
    let sections = sections(&visit);
    visit.page(|shell| RemovePage { shell, sections, here: HERE, name: key.name })
}

/// `POST /settings/keys/{id}/remove`
pub(crate) async fn remove(posted: FormPost) -> PageResult {
    let user = posted.user()?;
    let id = UserKeyId::parse(&posted.segment("id")).map_err(|_| PageError::nothing_here())?;
    let gone = posted.write_always(move |hub| hub.keys().remove(&user, id)).await?;
    posted.redirect_saying(HERE, &format!("Key “{}” removed.", gone.name))
}
