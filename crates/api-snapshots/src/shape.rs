//! Compares a response with its snapshot.

use std::collections::BTreeMap;
use std::path::Path;

use actix_web::http::header::HeaderMap;
use serde_json::{Value, json};

use crate::request::SentRequest;

/// Headers that every response has and that snapshots omit.
const UNTOLD: &[&str] = &[
    "vary",
    "x-request-id",
    "content-length",
    "x-content-type-options",
    "cross-origin-resource-policy",
    "strict-transport-security",
];

/// A response of the server under test.
#[derive(Debug)]
pub struct ReceivedAnswer {
    /// Status code.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// Body: the parsed JSON, or a placeholder for another media type.
    pub body: Value,
}

/// A response to compare with a snapshot, and the request that led to it.
#[derive(Debug)]
pub struct ShapeSnapshot {
    /// Id of the operation in the OpenAPI document.
    pub operation: String,
    /// Name of the snapshot: `<status>-<name>[-detail]`.
    pub name: String,
    /// The request.
    pub asked: SentRequest,
    /// The response.
    pub received: ReceivedAnswer,
}

impl ShapeSnapshot {
    /// Returns the status and the example key that the name of the snapshot states.
    ///
    /// # Panics
    /// Panics if the name does not begin with a status code.
    pub fn promise(&self) -> (u16, &str) {
        let mut words = self.name.split('-');
        let status = words.next().unwrap_or_default().parse().unwrap();
        (status, words.next().unwrap_or_default())
    }

    /// Compares the response with its snapshot below `folder`. Pass `|name, shown| insta::assert_json_snapshot!(name, shown)` as
    /// `compare`, so that the snapshots belong to the crate of the test.
    ///
    /// # Panics
    /// Panics if the status differs from the one in the name, or if the snapshot differs.
    pub fn assert_as_committed(&self, folder: &Path, compare: impl FnOnce(&str, &Value)) {
        let Self { operation, name, asked, received } = self;
        assert_eq!(received.status, self.promise().0, "{operation}/{name} is {}", received.body);
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path(folder.join(operation));
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.set_sort_maps(true);
        settings.set_info(&asked.shown());
        settings.bind(|| compare(name, &received.shown()));
    }
}

impl ReceivedAnswer {
    fn shown(&self) -> Value {
        let headers: BTreeMap<String, Value> = self
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), json!(value.to_str().unwrap())))
            .filter(|(name, _)| !UNTOLD.contains(&name.as_str()) && !name.starts_with("access-control-"))
            .collect();
        json!({"status": self.status, "headers": headers, "body": self.body})
    }
}
