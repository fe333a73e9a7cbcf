//! A request that a test changes before it is sent.

use actix_web::test::TestRequest;
use serde_json::{Value, json};

use crate::world::World;

#[derive(Debug, Clone)]
pub(crate) enum Content {
    None,
    Json(Value),
    Text(&'static str, String),
    Bytes(Vec<u8>),
}

/// Who asks for what, with what.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) token: Option<String>,
    pub(crate) method: String,
    /// Path below the API, with its query.
    pub(crate) address: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) content: Content,
}

impl Asked {
    pub(crate) fn new(token: Option<String>, method: &str, address: String, content: Content) -> Self {
        Self { token, method: method.to_owned(), address, headers: Vec::new(), content }
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(crate) fn at(mut self, address: &str) -> Self {
        self.address = address.to_owned();
        self
    }

    pub(crate) fn sending(mut self, body: Value) -> Self {
        self.content = Content::Json(body);
        self
    }

    pub(crate) fn into_request(self) -> TestRequest {
        let request = World::request(self.token.as_deref(), &self.method, &self.address);
        let request = request.peer_addr(([192, 0, 2, 1], 40_000).into());
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
        let mut shown = json!({"request": format!("{} {}{}", self.method, branchyard_api_v2::BASE, self.address)});
        if !self.headers.is_empty() {
            shown["headers"] = self.headers.iter().map(|(name, value)| json!(format!("{name}: {value}"))).collect();
        }
        match &self.content {
            Content::Json(body) => shown["body"] = body.clone(),
            Content::Text(kind, text) if text.len() < 100 => shown["body"] = json!(format!("{kind}: {text}")),
            Content::Text(..) | Content::None | Content::Bytes(_) => {}
        }
        shown
    }
}
