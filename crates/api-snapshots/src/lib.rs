#![doc = include_str!("../README.md")]
//!
//! Snapshots of every response that an OpenAPI document declares, stored as `<operation>/<status>-<name>[-detail].snap`.
//!
//! For the tests of API adapters. An adapter provides its document, its test data, and the requests that provoke each response. The
//! name of a response is the key of its example in the document. This crate reads the declared responses ([`operations`]) and steps
//! ([`blocks()`]), lists the tests of both ([`snapshot_tests()`]) and the responses without a snapshot ([`uncovered`]). With the feature
//! `responses` it holds requests that a test can modify before it sends them (`SentRequest`), and compares responses with snapshots
//! (`ShapeSnapshot`). The attribute of `branchyard-api-snapshots-macros` makes the tests. Functions panic where a test should fail.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops where its set-up fails")]

mod blocks;
mod coverage;
mod declared;
#[cfg(feature = "responses")]
mod request;
#[cfg(feature = "responses")]
mod shape;
mod snapshot_tests;
mod value_shape;

pub use blocks::{Block, blocks};
pub use coverage::uncovered;
pub use declared::{Declared, DeclaredOperation, operations};
#[cfg(feature = "responses")]
pub use request::{Content, SentRequest};
#[cfg(feature = "responses")]
pub use shape::{ReceivedAnswer, ShapeSnapshot};
pub use snapshot_tests::{SnapshotTest, snapshot_tests};
pub use value_shape::shape_of;
