//! An answer beside its snapshot.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use actix_web::http::header::HeaderMap;
use serde_json::{Value, json};

use crate::request::SentRequest;

/// Headers every answer has and no reader of a shape needs.
const UNTOLD: &[&str] = &["vary", "x-request-id", "content-length"];

/// What came back.
#[derive(Debug)]
pub struct ReceivedAnswer {
    /// Status code.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// Body: the JSON, or what stands for another type.
    pub body: Value,
}

/// A snapshot to be: its operation and name, what was asked, what came.
#[derive(Debug)]
pub struct ShapeSnapshot {
    /// Id of the operation.
    pub operation: String,
    /// Name of the snapshot.
    pub name: String,
    /// The request.
    pub asked: SentRequest,
    /// The answer.
    pub received: ReceivedAnswer,
}

impl ShapeSnapshot {
    /// What is promised by the name: the status, and the key of the example.
    ///
    /// # Panics
    /// When the name does not begin with a status.
    pub fn promise(&self) -> (u16, &str) {
        let mut words = self.name.split('-');
        let status = words.next().unwrap_or_default().parse().unwrap();
        (status, words.next().unwrap_or_default())
    }

    /// What is wrong with it: its status is not what its name says, or it is not as committed below `folder`, where insta has told the
    /// difference. `compare` is `|name, shown| insta::assert_json_snapshot!(name, shown)`, so that snapshots belong to the test's own crate.
    pub fn fault(&self, folder: &Path, compare: impl FnOnce(&str, &Value)) -> Option<String> {
        let Self { operation, name, asked, received } = self;
        if received.status != self.promise().0 {
            return Some(format!("{operation}/{name} is {} {}", received.status, received.body));
        }
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path(folder.join(operation));
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.set_sort_maps(true);
        settings.set_info(&asked.shown());
        let shown = received.shown();
        let compared = settings.bind(|| catch_unwind(AssertUnwindSafe(|| compare(name, &shown))));
        compared.err().map(|_| format!("{operation}/{name} differs from its snapshot"))
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
