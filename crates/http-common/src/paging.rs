//! Pagination with sealed page tokens. A token holds the key of the last item of its page.

use branchyard_problem_details::{ErrorCode, Problem};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::api_response::{ApiResponse, to_json};
use crate::handler_error::HandlerError;
use crate::keys::ServerKeys;
use crate::state::AppState;

/// Maximum bytes of one item. Such an item has a page of its own, and no response may exceed 16 MiB.
const ITEM_MAX_BYTES: usize = 15 << 20;
/// Version of the token format. Tokens of another version do not open.
const FORMAT: &str = "1";

/// The page that a client requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// Maximum number of items.
    pub size: usize,
    pub(crate) token: Option<String>,
    /// Name of the query parameter that held the token.
    pub(crate) parameter: &'static str,
}

impl PageRequest {
    /// Returns the number of items to fetch: one more than the page holds. The extra item shows that another page follows.
    pub fn fetch(&self) -> usize {
        self.size.saturating_add(1)
    }

    /// Returns the key after which the page begins; `None` for the first page.
    pub(crate) fn key<K: DeserializeOwned>(&self, keys: &ServerKeys, bound: &str) -> Result<Option<K>, HandlerError> {
        let Some(token) = &self.token else { return Ok(None) };
        open_token(keys, bound, token)
            .map(Some)
            .ok_or_else(|| HandlerError::parameter(self.parameter, "is not a token of this list"))
    }
}

/// The items for a page, and whether more follow.
pub struct Listed<T> {
    /// The items of the page, and possibly further ones.
    pub items: Vec<T>,
    /// Whether more items follow the last of `items`.
    pub more: bool,
}

impl<T> From<Vec<T>> for Listed<T> {
    fn from(items: Vec<T>) -> Self {
        Self { items, more: false }
    }
}

/// Returns the context that a page token is bound to: the list and everything that selects its items.
pub fn bound(parts: &[&str]) -> String {
    serde_json::Value::from(parts.to_vec()).to_string()
}

/// Returns a page in the envelope of v2.
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

/// A page without an envelope.
pub struct Page {
    /// The items as a JSON array.
    pub items: String,
    /// Token of the next page, if there is one.
    pub next: Option<String>,
}

/// Cuts a page of at most `request.size` items, or fewer if the response would become too long. `bound` comes from [`bound()`] and
/// names the endpoint, the database and the filters. `key` returns the key of an item, after which the next page begins.
///
/// # Errors
/// 422 if the first item alone is too large for a response.
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

/// Returns the key in a token of this list; `None` if the token is invalid or belongs to another list.
pub fn open_token<K: DeserializeOwned>(keys: &ServerKeys, bound: &str, token: &str) -> Option<K> {
    serde_json::from_slice(&keys.open(&format!("{FORMAT}|{bound}"), token)?).ok()
}

/// Returns a token for a key. Only this server can create it, and it opens only for this list.
pub fn token(state: &AppState, bound: &str, key: &impl Serialize) -> String {
    let mut nonce = [0; 24];
    state.services.random(&mut nonce);
    state.keys.seal(nonce, &format!("{FORMAT}|{bound}"), to_json(key).as_bytes())
}
