//! What surrounds all pages, and the headers of every response.

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{self, HeaderValue};
use actix_web::middleware::Next;
use actix_web::{Error, HttpResponse, web};
use branchyard_http_common::{AppState, with_room};

use crate::assets;
use crate::csrf;
use crate::error_page::{self, PageError};
use crate::format::Markup;
use crate::page_context::PageContext;
use crate::session::{self, CookieKind};

/// Everything comes from here, nothing is inline, nobody frames a page, and forms go nowhere else.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// What surrounds a page.
#[derive(Debug, Default)]
pub(crate) struct Shell {
    /// Who is signed in.
    pub(crate) viewer: Option<Viewer>,
    /// `light` or `dark`; empty where the system decides.
    pub(crate) theme: &'static str,
    /// A message from the page before.
    pub(crate) notice: Option<String>,
    /// This page, to come back to.
    pub(crate) here: String,
    /// What is in the search field.
    pub(crate) search: String,
    token: String,
}

/// Who is signed in, as all pages show them.
#[derive(Debug, Clone)]
pub(crate) struct Viewer {
    /// Their name.
    pub(crate) name: String,
    /// Whether they administer the server.
    pub(crate) is_admin: bool,
}

impl Shell {
    pub(crate) fn of(visit: &PageContext) -> Self {
        let (state, request) = (&visit.state, visit.request());
        let viewer = visit.caller.user().map(|user| Viewer { name: user.name.to_string(), is_admin: user.is_admin });
        let theme = match CookieKind::Theme.read(state, request).as_deref() {
            Some("light") => "light",
            Some("dark") => "dark",
            _ => "",
        };
        Self {
            viewer,
            theme,
            notice: session::noticed(state, request),
            here: request.uri().path_and_query().map_or("/", |target| target.as_str()).to_owned(),
            search: String::new(),
            token: state.keys.form_token(visit.secret.expose()),
        }
    }

    /// The same with this in the search field.
    pub(crate) fn searching(self, search: String) -> Self {
        Self { search, ..self }
    }

    /// The hidden field without which no form is taken.
    pub(crate) fn form_token(&self) -> Markup {
        // The token is base64url: nothing in it needs escaping.
        Markup::trusted(format!("<input type=\"hidden\" name=\"{}\" value=\"{}\">", csrf::FIELD, self.token))
    }

    /// The token alone, for scripts that send headers.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Where the style sheet is.
    pub(crate) fn style(&self) -> &'static str {
        assets::style()
    }

    /// Where the script is.
    pub(crate) fn script(&self) -> &'static str {
        assets::script()
    }

    /// Where the icon is.
    pub(crate) fn icon(&self) -> &'static str {
        assets::icon()
    }

    /// Where a sign-in leads back to.
    pub(crate) fn sign_in(&self) -> String {
        match self.here.as_str() {
            "" | "/" => "/sign-in".to_owned(),
            here if here.starts_with("/sign-") => "/sign-in".to_owned(),
            here => format!("/sign-in?next={}", branchyard_http_common::segment(here)),
        }
    }
}

/// Middleware around all pages: refusals become pages, and every response gets the headers that guard it.
///
/// # Errors
/// None of its own.
pub(crate) async fn dress(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let state = request.app_data::<web::Data<AppState>>().cloned();
    let mut response = next.call(request).await?.map_into_boxed_body();
    if let Some(state) = state {
        response =
            with_room(&state, response, |failure| HttpResponse::from_error(PageError::HandlerError(failure))).await;
    }
    let mut response = error_page::show(response);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers
        .insert(header::HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin"));
    if !headers.contains_key(header::CACHE_CONTROL) {
        // What is on a page depends on who looks at it.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        headers.insert(header::VARY, HeaderValue::from_static("Cookie"));
    }
    Ok(response)
}
