//! A request that a test changes before it is sent.

use actix_web::test::TestRequest;
use serde_json::{Value, json};

/// The body of a request.
#[derive(Debug, Clone)]
pub enum Content {
    /// None.
    None,
    /// JSON.
    Json(Value),
    /// A text of a media type.
    Text(&'static str, String),
    /// Bytes without a type.
    Bytes(Vec<u8>),
}

/// Texts longer than this are left out of what readers of a snapshot see.
const SHOWN: usize = 1_000;

/// Who asks for what, with what.
#[derive(Debug, Clone)]
pub struct SentRequest {
    /// The token, if any.
    pub token: Option<String>,
    /// Method.
    pub method: String,
    /// Where the API is mounted.
    pub base: &'static str,
    /// Path below the API, with its query.
    pub address: String,
    /// Headers besides the credential.
    pub headers: Vec<(&'static str, String)>,
    /// Body.
    pub content: Content,
}

impl SentRequest {
    /// A request without headers of its own.
    pub fn new(token: Option<String>, method: &str, base: &'static str, address: String, content: Content) -> Self {
        Self { token, method: method.to_owned(), base, address, headers: Vec::new(), content }
    }

    /// With a header.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Somewhere else.
    #[must_use]
    pub fn at(mut self, address: &str) -> Self {
        self.address = address.to_owned();
        self
    }

    /// With another body.
    #[must_use]
    pub fn sending(mut self, body: Value) -> Self {
        self.content = Content::Json(body);
        self
    }

    /// The request, from an address of its own.
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

    /// For readers of a snapshot.
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
