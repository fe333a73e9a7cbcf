//! A response, read to its end.

use actix_web::http::header::HeaderMap;
use serde_json::Value;

/// A response of the server under test.
#[derive(Debug)]
pub struct InProcessAnswer {
    /// Status code.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// The body as text. Replaces what is not UTF-8.
    pub text: String,
    /// The body.
    pub bytes: Vec<u8>,
}

impl InProcessAnswer {
    /// Returns the JSON body.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text)
            .unwrap_or_else(|error| panic!("no JSON in {} ({error}): {}", self.status, self.text))
    }

    /// Returns the field `data` of the JSON body.
    pub fn data(&self) -> Value {
        self.json()["data"].take()
    }

    /// Returns a header; an empty text if the response does not have it.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    /// Asserts the status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }

    /// Returns the status and the code of a problem document, and the location of its first validation error.
    pub fn problem(&self) -> (u16, String, String) {
        let json = self.json();
        assert_eq!(self.header("content-type"), "application/problem+json");
        assert_eq!(json["status"], self.status);
        assert_eq!(json["request_id"], self.header("x-request-id"));
        let first = &json["errors"][0];
        let place = first["pointer"].as_str().or(first["parameter"].as_str()).unwrap_or_default();
        (self.status, json["code"].as_str().unwrap().to_owned(), place.to_owned())
    }

    /// Asserts the status and the code of a problem document.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) {
        let (is, named, _) = self.problem();
        assert_eq!((is, named.as_str()), (status, code), "{}", self.text);
    }

    /// Asserts the status of a problem document and the location of its first validation error.
    #[track_caller]
    pub fn refused_at(&self, status: u16, place: &str) {
        let (is, _, at) = self.problem();
        assert_eq!((is, at.as_str()), (status, place), "{}", self.text);
    }
}
