//! An in-process server over in-memory ports, without a socket. For the tests of API adapters.
//!
//! [`ApiUnderTest`] is an adapter and its OpenAPI document. [`InProcessServer`] holds the stores and the configuration of one test; it
//! sends requests to an adapter and validates each response against the document. An adapter's own harness adds its test data.
//! Functions panic where a test should fail.
#![expect(clippy::unwrap_used, reason = "a test stops where its set-up fails")]

mod answer;
mod app;
mod server;

pub use answer::InProcessAnswer;
pub use app::ApiUnderTest;
pub use server::{InProcessServer, create_user, never_issued_token};
