//! The layout of all pages, and the headers of every response.

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{self, HeaderValue};
use actix_web::middleware::Next;
use actix_web::{Error, HttpResponse, web};
use branchyard_domain::entities::User;
use branchyard_http_common::{AppState, STRICT_TRANSPORT_SECURITY, compress, with_room};

use crate::assets;
use crate::csrf;
use crate::error_page::{self, PageError};
use crate::format::Markup;
use crate::page_context::PageContext;
use crate::session::{self, CookieKind};

/// Allows resources and form targets of the server itself only, no inline code, and no framing.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Returns the policy of a page whose form is answered with a redirect to another origin. Browsers apply `form-action` to the redirect,
/// too.
pub(crate) fn policy_with_form_target(origin: &str) -> String {
    // A source cannot have an IPv6 address as its host, only a scheme.
    let source = match origin.split_once("://") {
        Some((scheme, host)) if host.starts_with('[') => format!("{scheme}:"),
        _ => origin.to_owned(),
    };
    POLICY.replace("form-action 'self'", &format!("form-action 'self' {source}"))
}

/// Forbids browsers and proxies to store a response, for those that contain a secret.
pub(crate) fn never_stored(mut response: HttpResponse) -> HttpResponse {
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The data of the page layout.
#[derive(Debug, Default)]
pub(crate) struct LayoutContext {
    /// The signed-in user.
    pub(crate) viewer: Option<Viewer>,
    /// `light` or `dark`. Empty to follow the system.
    pub(crate) theme: &'static str,
    /// A message from the previous page.
    pub(crate) notice: Option<String>,
    /// The path and query of this page, to return to.
    pub(crate) here: String,
    /// The text in the search field.
    pub(crate) search: String,
    token: String,
}

/// The signed-in user, as all pages show them.
#[derive(Debug, Clone)]
pub(crate) struct Viewer {
    pub(crate) name: String,
    /// Whether the user administers the server.
    pub(crate) is_admin: bool,
}

impl LayoutContext {
    pub(crate) fn of(visit: &PageContext) -> Self {
        let (state, request) = (&visit.state, visit.request());
        let viewer = visit.caller.user().map(|user| Viewer { name: user.name.to_string(), is_admin: user.is_admin });
        let theme = match CookieKind::Theme.read(state, request).as_deref() {
            Some("light") => "light",
            Some("dark") => "dark",
            _ => "",
        };
        let mut token = state.keys.form_token(visit.secret.expose());
        if is_compressed(request.path()) {
            let mut mask = [0; 32];
            state.services.random(&mut mask);
            token = csrf::masked(&token, mask);
        }
        Self {
            viewer,
            theme,
            notice: session::noticed(state, request),
            here: request.uri().path_and_query().map_or("/", |target| target.as_str()).to_owned(),
            search: String::new(),
            token,
        }
    }

    /// Returns the layout of a page for a user who has just signed in. `secret` is that of the new session.
    pub(crate) fn signed_in(self, visit: &PageContext, user: &User, secret: &str) -> Self {
        let viewer = Viewer { name: user.name.to_string(), is_admin: user.is_admin };
        Self { viewer: Some(viewer), token: visit.state.keys.form_token(secret), ..self }
    }

    /// Fills the search field.
    pub(crate) fn searching(self, search: String) -> Self {
        Self { search, ..self }
    }

    /// Returns the hidden field with the form token. Forms without it are rejected.
    pub(crate) fn form_token(&self) -> Markup {
        // The token is base64url, so it needs no escaping.
        Markup::trusted(format!("<input type=\"hidden\" name=\"{}\" value=\"{}\">", csrf::FIELD, self.token))
    }

    /// Returns the form token, for scripts that send it as a header.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Returns the path of the style sheet.
    pub(crate) fn style(&self) -> &'static str {
        assets::style()
    }

    /// Returns the path of the script.
    pub(crate) fn script(&self) -> &'static str {
        assets::script()
    }

    /// Returns the path of the script that edits tables.
    pub(crate) fn editor_script(&self) -> &'static str {
        assets::editor_script()
    }

    /// Returns the path of the style sheet of what edits tables.
    pub(crate) fn editor_style(&self) -> &'static str {
        assets::editor_style()
    }

    /// Returns the path of the icon.
    pub(crate) fn icon(&self) -> &'static str {
        assets::icon()
    }

    /// Returns the path of the sign-in page that returns to this page.
    pub(crate) fn sign_in(&self) -> String {
        match self.here.as_str() {
            "" | "/" => "/sign-in".to_owned(),
            here if here.starts_with("/sign-") => "/sign-in".to_owned(),
            here => format!("/sign-in?next={}", branchyard_http_common::segment(here)),
        }
    }
}

/// Middleware of all pages: renders errors as pages and adds the security headers to every response.
///
/// # Errors
/// Forwards the errors of the inner service.
pub(crate) async fn dress(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let state = request.app_data::<web::Data<AppState>>().cloned();
    let is_compressed = is_compressed(request.path());
    let mut response = next.call(request).await?.map_into_boxed_body();
    let mut is_secure = false;
    if let Some(state) = state {
        is_secure = state.config.is_secure();
        response =
            with_room(&state, response, |failure| HttpResponse::from_error(PageError::HandlerError(failure))).await;
    }
    let mut response = error_page::show(response);
    let headers = response.headers_mut();
    // The bytes of a cell have a stricter one, and a consent page has one that allows another target of its form.
    if !headers.contains_key(header::CONTENT_SECURITY_POLICY) {
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers
        .insert(header::HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin"));
    if is_secure {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(STRICT_TRANSPORT_SECURITY));
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        // Pages depend on the viewer.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        headers.insert(header::VARY, HeaderValue::from_static("Cookie"));
    }
    Ok(if is_compressed { compress(response) } else { response })
}

/// Returns `true` for documentation, style sheets and scripts. Other pages show data of the viewer beside what a URL says, and the length
/// of a compressed page could reveal the data (BREACH).
fn is_compressed(path: &str) -> bool {
    path.starts_with("/docs/") || path.starts_with("/static/")
}

#[cfg(test)]
mod tests {
    use super::{POLICY, policy_with_form_target};

    #[test]
    fn a_form_leads_to_one_more_origin_and_the_rest_of_the_policy_stays() {
        for (origin, source) in [
            ("http://localhost:53682", "http://localhost:53682"),
            ("https://app.test", "https://app.test"),
            ("http://[::1]:53682", "http:"),
            ("https://[2001:db8::1]", "https:"),
        ] {
            let policy = policy_with_form_target(origin);
            assert!(policy.contains(&format!("form-action 'self' {source}; ")), "{policy}");
            assert_eq!(policy.replacen(&format!(" {source};"), ";", 1), POLICY);
            assert!(policy.ends_with("frame-ancestors 'none'"), "{policy}");
        }
    }
}
