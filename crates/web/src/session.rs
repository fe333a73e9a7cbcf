//! Cookies: the session, the secret that binds a visitor's forms, the theme, and a message for the next page.

use actix_web::HttpRequest;
use actix_web::http::header;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use branchyard_auth::PlainSecret;
use branchyard_http_common::AppState;

/// How long browsers keep cookies, in seconds (400 days). The server decides how long a session lasts.
const KEPT_SECONDS: u32 = 400 * 86_400;
/// How long browsers keep a message, in seconds.
const NOTICE_SECONDS: u32 = 60;

/// The cookies of the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CookieKind {
    /// The secret of the session.
    Session,
    /// The secret that binds forms if no user is signed in.
    Visitor,
    /// `light` or `dark`. Absent to follow the system.
    Theme,
    /// A message for the next page.
    Notice,
}

impl CookieKind {
    /// Returns the name of the cookie. Over HTTPS it starts with `__Host-`, so that other hosts of the domain cannot set it.
    fn name(self, state: &AppState) -> String {
        let name = match self {
            Self::Session => "branchyard_session",
            Self::Visitor => "branchyard_visitor",
            Self::Theme => "branchyard_theme",
            Self::Notice => "branchyard_notice",
        };
        if state.config.is_secure() { format!("__Host-{name}") } else { name.to_owned() }
    }

    /// Returns the value that the browser sent.
    pub(crate) fn read(self, state: &AppState, request: &HttpRequest) -> Option<String> {
        let name = self.name(state);
        let lines = request.headers().get_all(header::COOKIE).filter_map(|line| line.to_str().ok());
        let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
    }

    /// Returns the secret that the browser sent, if it is well-formed.
    pub(crate) fn secret(self, state: &AppState, request: &HttpRequest) -> Option<PlainSecret> {
        PlainSecret::parse(&self.read(state, request)?).ok()
    }

    /// Returns the `Set-Cookie` header that stores a value of letters, digits, `-` and `_`.
    pub(crate) fn set(self, state: &AppState, value: &str) -> String {
        self.keep(state, value, KEPT_SECONDS)
    }

    /// Returns the `Set-Cookie` header that deletes the cookie.
    pub(crate) fn clear(self, state: &AppState) -> String {
        self.keep(state, "", 0)
    }

    fn keep(self, state: &AppState, value: &str, seconds: u32) -> String {
        let secure = if state.config.is_secure() { "; Secure" } else { "" };
        format!("{}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}", self.name(state))
    }
}

/// Returns the `Set-Cookie` header that stores a message for the next page, for at most a minute.
pub(crate) fn notice(state: &AppState, text: &str) -> String {
    CookieKind::Notice.keep(state, &URL_SAFE_NO_PAD.encode(text), NOTICE_SECONDS)
}

/// Returns the message for this page, if the browser sent one.
pub(crate) fn noticed(state: &AppState, request: &HttpRequest) -> Option<String> {
    let bytes = URL_SAFE_NO_PAD.decode(CookieKind::Notice.read(state, request)?).ok()?;
    String::from_utf8(bytes).ok()
}
