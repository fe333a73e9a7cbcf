//! `/settings/tokens`

use askama::Template;
use branchyard_domain::entities::Token;
use branchyard_domain::errors::{PortError, TokenError};
use branchyard_domain::values::{TokenExpiry, TokenId};

use super::{SettingsNav, sections};
use crate::error_page::PageError;
use crate::format::{self, Markup};
use crate::forms::{Filled, FormPost};
use crate::layout::{LayoutContext, never_stored};
use crate::page_context::{PageContext, PageResult};
use crate::paths;

const HERE: &str = "/settings/tokens";
const PAGE: usize = 100;

struct TokenItem {
    id: String,
    name: String,
    is_expired: bool,
    expires: Markup,
    used: Option<Markup>,
    address: String,
    agent: String,
}

#[derive(Template)]
#[template(path = "settings/tokens.html")]
struct TokensPage {
    shell: LayoutContext,
    sections: SettingsNav,
    here: &'static str,
    form: Filled,
    minted: Option<String>,
    origin: String,
    expiries: Vec<(&'static str, &'static str)>,
    tokens: Vec<TokenItem>,
    next: Option<String>,
}

#[derive(Template)]
#[template(path = "settings/delete_token.html")]
struct DeletePage {
    shell: LayoutContext,
    sections: SettingsNav,
    here: &'static str,
    name: String,
}

const fn words(expiry: TokenExpiry) -> &'static str {
    match expiry {
        TokenExpiry::Days30 => "30 days",
        TokenExpiry::Days60 => "60 days",
        TokenExpiry::Days90 => "90 days",
        TokenExpiry::Year1 => "1 year",
    }
}

async fn fill(
    visit: &PageContext,
    form: Filled,
    minted: Option<String>,
) -> Result<impl FnOnce(LayoutContext) -> TokensPage + use<>, PageError> {
    let user = visit.user()?;
    let after = visit.parameter("after").and_then(|text| TokenId::parse(&text).ok());
    let mut found: Vec<Token> = visit.read(move |hub| hub.tokens().list(&user, after, PAGE + 1)).await?;
    let more = found.len() > PAGE;
    found.truncate(PAGE);
    let last = found.last().filter(|_| more);
    let next = last.map(|last| paths::with_query(HERE, &[("after", &last.id.to_string())]));
    let now = visit.state.services.now();
    let tokens = found
        .into_iter()
        .map(|token| {
            let (address, agent) = match &token.last_use {
                Some(last) => (last.address.clone(), last.user_agent.clone()),
                None => Default::default(),
            };
            TokenItem {
                id: token.id.to_string(),
                is_expired: token.expired(now),
                expires: format::when(token.expires_at, now),
                used: token.last_use.as_ref().map(|last| format::when(last.at, now)),
                name: token.name,
                address,
                agent,
            }
        })
        .collect();
    let (sections, origin) = (sections(visit), visit.state.config.public_url.clone());
    let expiries = TokenExpiry::ALL.map(|expiry| (expiry.as_str(), words(expiry))).to_vec();
    Ok(move |shell| TokensPage { shell, sections, here: HERE, form, minted, origin, expiries, tokens, next })
}

/// `GET /settings/tokens`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let page = fill(&visit, Filled::default().with("expires", TokenExpiry::Days90.as_str()), None).await?;
    visit.page(page)
}

/// `POST /settings/tokens`. Only this response contains the secret.
pub(crate) async fn create(posted: FormPost) -> PageResult {
    let user = posted.user()?;
    posted.confirmed(HERE)?;
    let mut form = posted.form.again();
    let expiry = form.checked("expires", TokenExpiry::parse(&posted.form.line("expires")));
    let name = posted.form.line("name");
    let Some(expiry) = expiry else {
        let page = fill(&posted, form, None).await?;
        return posted.refuse(page);
    };
    let minted = posted
        .write(move |hub| -> Result<_, PortError> {
            let secret = hub.tokens().mint();
            match hub.tokens().create(&user, &name, expiry, secret, None) {
                Ok(minted) => Ok(Ok(minted.secret)),
                Err(TokenError::Port(fault)) => Err(fault),
                Err(error @ TokenError::TooMany(_)) => Ok(Err(("", error.to_string()))),
                Err(error) => Ok(Err(("name", error.to_string()))),
            }
        })
        .await?;
    match minted {
        Ok(secret) => {
            let form = Filled::default().with("expires", expiry.as_str());
            let page = fill(&posted, form, Some(secret.expose().to_owned())).await?;
            posted.page(page).map(never_stored)
        }
        Err((field, why)) => {
            let page = fill(&posted, form.wrong(field, why), None).await?;
            posted.refuse(page)
        }
    }
}

/// `GET /settings/tokens/{id}/delete`
pub(crate) async fn ask(visit: PageContext) -> PageResult {
    let user = visit.user()?;
    let id = TokenId::parse(&visit.segment("id")).map_err(|_| PageError::nothing_here())?;
    // The number of tokens per user is limited, so one request reads them all.
    let all = visit.read(move |hub| hub.tokens().list(&user, None, usize::from(u16::MAX))).await?;
    let token = all.into_iter().find(|token| token.id == id).ok_or_else(PageError::nothing_here)?;
    let sections = sections(&visit);
    visit.page(|shell| DeletePage { shell, sections, here: HERE, name: token.name })
}

/// `POST /settings/tokens/{id}/delete`
pub(crate) async fn delete(posted: FormPost) -> PageResult {
    let user = posted.user()?;
    let id = TokenId::parse(&posted.segment("id")).map_err(|_| PageError::nothing_here())?;
    let gone = posted.write_always(move |hub| hub.tokens().delete(&user, id)).await?;
    posted.redirect_saying(HERE, &format!("Token “{}” deleted.", gone.name))
}
