//! The OpenAPI document as it is served, made once.

use std::sync::OnceLock;

use serde_json::Value;

use crate::api_response::etag_of;

/// A document as it is served, made once.
#[derive(Default)]
pub struct Served(OnceLock<BuiltDocument>);

#[derive(Clone)]
struct BuiltDocument {
    public_url: String,
    etag: String,
    text: String,
}

impl Served {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// `ETag` and text of the document for a server at `public_url`.
    pub fn get(&self, public_url: &str, document: impl Fn(&str) -> Value) -> (String, String) {
        // The public address does not change while a server runs; those of a test may, so it is kept with the document.
        let make = || {
            let text = document(public_url).to_string();
            BuiltDocument { public_url: public_url.to_owned(), etag: etag_of(&text), text }
        };
        let made = self.0.get_or_init(make);
        let BuiltDocument { etag, text, .. } = if made.public_url == public_url { made.clone() } else { make() };
        (etag, text)
    }
}
