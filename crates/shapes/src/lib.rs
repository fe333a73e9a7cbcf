//! The shape of every answer that an OpenAPI document declares, as a snapshot in `<operation>/<status>-<name>[-detail].snap`.
//!
//! For tests of the API adapters, each of which brings its document, its scene and what provokes an answer in it; the name of an
//! answer is the key of its example in the document. This crate reads what is declared ([`operations`]), holds requests that a test
//! changes before it sends them ([`SentRequest`]), compares ([`ShapeSnapshot`]), and says what has no snapshot ([`uncovered`]). It panics where a test
//! should stop.
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
