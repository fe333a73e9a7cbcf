//! A cache for the serialized OpenAPI document of an API.

use std::sync::OnceLock;

use serde_json::Value;

use crate::api_response::etag_of;

/// A document that is built on its first request and then served from memory.
#[derive(Default)]
pub struct Served(OnceLock<BuiltDocument>);

#[derive(Clone)]
struct BuiltDocument {
    public_url: String,
    etag: String,
    text: String,
}

impl Served {
    /// Creates an empty cache.
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Returns the `ETag` and the text of the document for a server at `public_url`.
    pub fn get(&self, public_url: &str, document: impl Fn(&str) -> Value) -> (String, String) {
        // The public URL of a server does not change while it runs, but tests start several servers with different URLs in one
        // process. The cached document therefore records its URL.
        let make = || {
            let text = document(public_url).to_string();
            BuiltDocument { public_url: public_url.to_owned(), etag: etag_of(&text), text }
        };
        let made = self.0.get_or_init(make);
        let BuiltDocument { etag, text, .. } = if made.public_url == public_url { made.clone() } else { make() };
        (etag, text)
    }
}
