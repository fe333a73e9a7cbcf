//! What came back.

use reqwest::header::HeaderMap;
use serde_json::Value;

/// A response, read whole.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub text: String,
}

impl Answer {
    pub(crate) fn read(response: reqwest::blocking::Response) -> Self {
        Self { status: response.status().as_u16(), headers: response.headers().clone(), text: response.text().unwrap() }
    }

    /// The body as JSON; `null` when it is empty.
    pub fn json(&self) -> Value {
        if self.text.is_empty() {
            return Value::Null;
        }
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// `data` of the envelope.
    pub fn data(&self) -> Value {
        let mut json = self.json();
        assert!(json.get("data").is_some(), "no data in {}: {}", self.status, self.text);
        json["data"].take()
    }

    /// `code` of a problem document.
    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    /// A header, empty when absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Checks the status, showing the body when it differs.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }
}
