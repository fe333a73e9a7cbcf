#![doc = include_str!("../README.md")]
//!
//! RFC 9457 problem documents and the closed table of Branchyard's error codes.
//!
//! An adapter turns every failure into a [`Problem`]: an [`ErrorCode`], a detail for the client, and the places at
//! fault ([`FieldError`]), if any. Status, title and the URL of the page follow from the code's [`CodeRow`] alone, so
//! that endpoints agree on them. [`Problem::document`] adds the members of one request and returns the body;
//! [`Problem::headers`] returns the headers.
//!
//! This crate never contains:
//! - a web framework. The adapter copies the status, the headers and the body;
//! - the cause of a failure. There is no field for a cause; adapters log it next to the request id;
//! - a text without a limit. Details are clipped and entries counted, so that no request can produce a body above
//!   [`BODY_MAX_BYTES`].
//!
//! # Adding a code
//! 1. Add a variant and its row in `code.rs`; the compiler asks for the row.
//! 2. Add its line to the table of the wire contract, and to the copy of that table in the tests of `code.rs`.

mod clip;
mod code;
mod document;
mod field_error;
mod problem;

pub use code::{CodeRow, ErrorCode, Explanation, UnknownErrorCode};
pub use document::{BODY_MAX_BYTES, Document, INSTANCE_MAX_BYTES};
pub use field_error::{FIELD_DETAIL_MAX_BYTES, FIELD_PLACE_MAX_BYTES, FieldError, escape_pointer_token, json_pointer};
pub use problem::{
    BEARER_CHALLENGE, DETAIL_MAX_BYTES, ERRORS_MAX, INTERNAL_DETAIL, NO_SUCH_PULL, NO_SUCH_REPOSITORY,
    PROBLEM_MEDIA_TYPE, Problem,
};
