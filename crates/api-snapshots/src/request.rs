//! A request that a test can modify before it is sent.

use actix_web::test::TestRequest;
use serde_json::{Value, json};

/// The body of a request.
#[derive(Debug, Clone)]
pub enum Content {
    /// No body.
    None,
    /// A JSON body.
    Json(Value),
    /// A text body, preceded by its media type.
    Text(&'static str, String),
    /// A binary body without a media type.
    Bytes(Vec<u8>),
}

/// Maximum length in bytes of a text body that the snapshot's metadata includes.
const SHOWN: usize = 1_000;

/// A request, with its credential and body.
#[derive(Debug, Clone)]
pub struct SentRequest {
    /// Bearer token; `None` sends no credential.
    pub token: Option<String>,
    /// HTTP method.
    pub method: String,
    /// Base path of the API.
    pub base: &'static str,
    /// Path below `base`, with the query.
    pub address: String,
    /// Headers other than `Authorization`.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub content: Content,
}

impl SentRequest {
    /// Creates a request without additional headers.
    pub fn new(token: Option<String>, method: &str, base: &'static str, address: String, content: Content) -> Self {
        Self { token, method: method.to_owned(), base, address, headers: Vec::new(), content }
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Replaces the path and query.
    #[must_use]
    pub fn at(mut self, address: &str) -> Self {
        self.address = address.to_owned();
        self
    }

    /// Replaces the body by JSON.
    #[must_use]
    pub fn sending(mut self, body: Value) -> Self {
        self.content = Content::Json(body);
        self
    }

    /// Converts the request for actix. The client's address is always 192.0.2.1.
    pub fn into_request(self) -> TestRequest {
        let uri = format!("{}{}", self.base, self.address);
        let mut request = TestRequest::default().method(self.method.parse().unwrap()).uri(&uri);
        request = request.peer_addr(([192, 0, 2, 1], 40_000).into());
        if let Some(token) = self.token {
            request = request.insert_header(("Authorization", format!("Bearer {token}")));
        }
        let request = self.headers.into_iter().fold(request, |request, header| request.insert_header(header));
        match self.content {
            Content::None => request,
            Content::Json(body) => request.set_json(body),
            Content::Text(kind, text) => request.insert_header(("content-type", kind)).set_payload(text),
            Content::Bytes(bytes) => request.set_payload(bytes),
        }
    }

    /// Returns the description of the request for the metadata of a snapshot.
    pub(crate) fn shown(&self) -> Value {
        let mut shown = json!({"request": format!("{} {}{}", self.method, self.base, self.address)});
        if !self.headers.is_empty() {
            shown["headers"] = self.headers.iter().map(|(name, value)| json!(format!("{name}: {value}"))).collect();
        }
        match &self.content {
            Content::Json(body) => shown["body"] = body.clone(),
            Content::Text(kind, text) if text.len() < SHOWN => shown["body"] = json!(format!("{kind}: {text}")),
            Content::Text(..) | Content::None | Content::Bytes(_) => {}
        }
        shown
    }
}
