//! Responses of the server under test.

use std::sync::LazyLock;

use branchyard_openapi_check::{CheckedAnswer, Checker};
use reqwest::header::HeaderMap;
use serde_json::Value;

static V2: LazyLock<Checker> = LazyLock::new(|| Checker::new(&branchyard_api_v2::openapi()));
static V1ALPHA1: LazyLock<Checker> = LazyLock::new(|| Checker::new(&branchyard_api_v1alpha1::openapi()));

/// Returns the OpenAPI document that covers a path. The document of v1alpha1 does not cover reads that end with a slash.
fn document(path: &str) -> Option<&'static Checker> {
    let below = |base: &str| path.strip_prefix(base).is_some_and(|rest| rest.starts_with('/'));
    if below(branchyard_api_v2::BASE) {
        return Some(&V2);
    }
    let alpha = below(branchyard_api_v1alpha1::BASE) || below(branchyard_api_v1alpha1::CSV);
    (alpha && !path.ends_with('/')).then(|| &*V1ALPHA1)
}

/// A response whose body has been read.
#[derive(Debug, Clone)]
pub struct TestAnswer {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub text: String,
}

impl TestAnswer {
    /// Reads a response. Fails the test if the response belongs to an API and its OpenAPI document does not allow it.
    pub(crate) fn read(method: &str, response: reqwest::blocking::Response) -> Self {
        let path = response.url().path().to_owned();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = response.bytes().unwrap();
        if let Some(document) = document(&path).filter(|_| !headers.contains_key("content-encoding")) {
            let text = |value: &reqwest::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
            let headers = headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
            document.check(&CheckedAnswer { method, path: &path, status, headers, body: &body }).unwrap();
        }
        Self { status, headers, text: String::from_utf8_lossy(&body).into_owned() }
    }

    /// Returns the body as JSON, or `null` if it is empty.
    pub fn json(&self) -> Value {
        if self.text.is_empty() {
            return Value::Null;
        }
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// Returns `data` of the envelope.
    pub fn data(&self) -> Value {
        let mut json = self.json();
        assert!(json.get("data").is_some(), "no data in {}: {}", self.status, self.text);
        json["data"].take()
    }

    /// Returns `code` of a problem document, or an empty string if there is none.
    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns a header, or an empty string if it is absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Checks the status. The panic message contains the body.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }
}
