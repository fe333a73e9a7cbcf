//! Snapshots of every response that an OpenAPI document declares, stored as `<operation>/<status>-<name>[-detail].snap`.
//!
//! For the tests of API adapters. An adapter provides its document, its test data, and the requests that provoke each response. The
//! name of a response is the key of its example in the document. This crate reads the declared responses ([`operations`]), holds
//! requests that a test can modify before it sends them ([`SentRequest`]), compares responses with snapshots ([`ShapeSnapshot`]),
//! and lists responses without a snapshot ([`uncovered`]). Functions panic where a test should fail.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops where its set-up fails")]

mod blocks;
mod coverage;
mod declared;
mod request;
mod shape;

pub use blocks::{Block, blocks};
pub use coverage::uncovered;
pub use declared::{Declared, DeclaredOperation, operations};
pub use request::{Content, SentRequest};
pub use shape::{ReceivedAnswer, ShapeSnapshot};
