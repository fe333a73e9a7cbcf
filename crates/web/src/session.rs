//! Cookies: the session of who is signed in, what binds the forms of who is not, the colours, and a message for the next page.

use actix_web::HttpRequest;
use actix_web::http::header;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use branchyard_auth::PlainSecret;
use branchyard_http_common::AppState;

/// Seconds a browser keeps cookies, 400 days. How long a session lasts is decided by the server.
const KEPT_SECONDS: u32 = 400 * 86_400;
/// Seconds it keeps a message.
const NOTICE_SECONDS: u32 = 60;

/// A cookie of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CookieKind {
    /// The secret of the session.
    Session,
    /// A secret of a browser in which nobody is signed in.
    Visitor,
    /// `light` or `dark`; absent where the system decides.
    Theme,
    /// A message for the next page.
    Notice,
}

impl CookieKind {
    /// Its name. Over HTTPS browsers guard names that begin with `__Host-` against other hosts of the domain.
    fn name(self, state: &AppState) -> String {
        let name = match self {
            Self::Session => "branchyard_session",
            Self::Visitor => "branchyard_visitor",
            Self::Theme => "branchyard_theme",
            Self::Notice => "branchyard_notice",
        };
        if is_https(state) { format!("__Host-{name}") } else { name.to_owned() }
    }

    /// What the browser sent.
    pub(crate) fn read(self, state: &AppState, request: &HttpRequest) -> Option<String> {
        let name = self.name(state);
        let lines = request.headers().get_all(header::COOKIE).filter_map(|line| line.to_str().ok());
        let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
    }

    /// The secret the browser sent, when it has the form of one.
    pub(crate) fn secret(self, state: &AppState, request: &HttpRequest) -> Option<PlainSecret> {
        PlainSecret::parse(&self.read(state, request)?).ok()
    }

    /// The `Set-Cookie` that keeps a value of letters, digits, `-` and `_`.
    pub(crate) fn set(self, state: &AppState, value: &str) -> String {
        self.keep(state, value, KEPT_SECONDS)
    }

    /// The `Set-Cookie` that makes the browser forget.
    pub(crate) fn clear(self, state: &AppState) -> String {
        self.keep(state, "", 0)
    }

    fn keep(self, state: &AppState, value: &str, seconds: u32) -> String {
        let secure = if is_https(state) { "; Secure" } else { "" };
        format!("{}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}", self.name(state))
    }
}

/// A message as a cookie, for one minute at most.
pub(crate) fn notice(state: &AppState, text: &str) -> String {
    CookieKind::Notice.keep(state, &URL_SAFE_NO_PAD.encode(text), NOTICE_SECONDS)
}

/// The message the browser brings.
pub(crate) fn noticed(state: &AppState, request: &HttpRequest) -> Option<String> {
    let bytes = URL_SAFE_NO_PAD.decode(CookieKind::Notice.read(state, request)?).ok()?;
    String::from_utf8(bytes).ok()
}

fn is_https(state: &AppState) -> bool {
    state.config.public_url.starts_with("https://")
}
