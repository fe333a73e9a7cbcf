//! RFC 9457 problem documents and the closed table of Branchyard's error codes.
//!
//! An adapter turns every failure into a [`Problem`]: an [`ErrorCode`] of the table, a detail the client
//! may read, and where there are any the places ([`FieldError`]) at fault. The status, the title and the
//! address of the page come from the code's [`CodeRow`] alone, so two endpoints cannot disagree on them.
//! [`Problem::document`] adds what belongs to the one request and gives the body, [`Problem::headers`]
//! the headers that go with it.
//!
//! What this crate never contains:
//! - a web framework. Whoever answers requests copies the status, the headers and the body;
//! - the cause of a failure. There is no field for one: log it next to the request id and let it go;
//! - a text without a limit. Details are clipped, entries counted, so that a body stays below
//!   [`BODY_MAX_BYTES`] whatever a request contained.
//!
//! # Adding a code
//! 1. A variant and its row in `code.rs`; the compiler asks for the row.
//! 2. Its line in the contract's table, and in the copy of that table in the tests of `code.rs`.

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
