//! Pages of lists: sealed tokens that hold the last key of a page.

use branchyard_problem_details::{ErrorCode, Problem};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::api_response::{ApiResponse, to_json};
use crate::handler_error::HandlerError;
use crate::keys::ServerKeys;
use crate::state::AppState;

/// Bytes of one item: it makes a page of its own, and no answer is longer than 16 MiB.
const ITEM_MAX_BYTES: usize = 15 << 20;
/// Tokens of another format do not open.
const FORMAT: &str = "1";

/// The page a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// The most items.
    pub size: usize,
    pub(crate) token: Option<String>,
    /// The parameter that held the token.
    pub(crate) parameter: &'static str,
}

impl PageRequest {
    /// One more than the page holds: whether it is there says whether another page follows.
    pub fn fetch(&self) -> usize {
        self.size.saturating_add(1)
    }

    /// The key the page begins after.
    pub(crate) fn key<K: DeserializeOwned>(&self, keys: &ServerKeys, bound: &str) -> Result<Option<K>, HandlerError> {
        let Some(token) = &self.token else { return Ok(None) };
        open_token(keys, bound, token)
            .map(Some)
            .ok_or_else(|| HandlerError::parameter(self.parameter, "is not a token of this list"))
    }
}

/// Items for a page, with what is known of those after them.
pub struct Listed<T> {
    /// The items, at least those of the page.
    pub items: Vec<T>,
    /// Whether there are more after all of `items`.
    pub more: bool,
}

impl<T> From<Vec<T>> for Listed<T> {
    fn from(items: Vec<T>) -> Self {
        Self { items, more: false }
    }
}

/// What a page token is bound to: the list and everything that selects its items.
pub fn bound(parts: &[&str]) -> String {
    serde_json::Value::from(parts.to_vec()).to_string()
}

/// A page in the envelope of v2.
///
/// # Errors
/// As [`cut`].
pub fn page<T, W, K>(
    state: &AppState,
    request: &PageRequest,
    bound: &str,
    listed: impl Into<Listed<T>>,
    wire: impl Fn(&T) -> W,
    key: impl Fn(&T) -> K,
) -> Result<ApiResponse, HandlerError>
where
    W: Serialize,
    K: Serialize,
{
    let Page { items, next } = cut(state, request, bound, listed, wire, key)?;
    let meta = match next {
        Some(token) => format!("{{\"next_page_token\":{}}}", to_json(&token)),
        None => "{}".to_owned(),
    };
    Ok(ApiResponse::with_body(200, format!("{{\"data\":{items},\"meta\":{meta}}}")))
}

/// A page, without an envelope.
pub struct Page {
    /// The items, a JSON array.
    pub items: String,
    /// The token of the next page, if there is one.
    pub next: Option<String>,
}

/// One page: at most `request.size` items, cut where the answer would get too long. `bound` names endpoint, database and
/// filters; `key` is what the page after an item begins with.
///
/// # Errors
/// 422 when its first item alone is too large for an answer.
pub fn cut<T, W, K>(
    state: &AppState,
    request: &PageRequest,
    bound: &str,
    listed: impl Into<Listed<T>>,
    wire: impl Fn(&T) -> W,
    key: impl Fn(&T) -> K,
) -> Result<Page, HandlerError>
where
    W: Serialize,
    K: Serialize,
{
    let Listed { items, more } = listed.into();
    let mut data = String::new();
    let mut shown = 0;
    for item in items.iter().take(request.size) {
        let json = to_json(&wire(item));
        if shown > 0 && data.len() + json.len() > state.config.max_page_bytes {
            break;
        }
        if json.len() > ITEM_MAX_BYTES {
            let detail =
                format!("an item has more than {ITEM_MAX_BYTES} bytes and cannot be shown here; read it by SQL");
            return Err(Problem::new(ErrorCode::Unprocessable, detail).into());
        }
        if shown > 0 {
            data.push(',');
        }
        data.push_str(&json);
        shown += 1;
    }
    let last = items[..shown].last().filter(|_| more || shown < items.len());
    Ok(Page { items: format!("[{data}]"), next: last.map(|item| token(state, bound, &key(item))) })
}

/// What a token of this list holds; `None` when it is not one.
pub fn open_token<K: DeserializeOwned>(keys: &ServerKeys, bound: &str, token: &str) -> Option<K> {
    serde_json::from_slice(&keys.open(&format!("{FORMAT}|{bound}"), token)?).ok()
}

/// A token for a key: nobody else can make one, and it opens for this list only.
pub fn token(state: &AppState, bound: &str, key: &impl Serialize) -> String {
    let mut nonce = [0; 24];
    state.hub.random(&mut nonce);
    state.keys.seal(nonce, &format!("{FORMAT}|{bound}"), to_json(key).as_bytes())
}
