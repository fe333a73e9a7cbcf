//! The adapter of API v1alpha1: translates between its wire contract and the domain.
//!
//! [`configure`] mounts the routes below `/api/v1alpha1` and `/csv`. It requires `web::Data<branchyard_http_common::AppState>` in
//! the application's data, and reads [`LegacySettings`] from there if present. [`openapi()`] returns the OpenAPI document. The API
//! is frozen: fields may be added, but none is renamed, removed or retyped.

mod access;
mod convert;
mod deprecation;
mod handlers;
mod legacy_errors;
mod listing;
mod names;
mod openapi;
mod request;
mod routes;
mod settings;
mod successor;
mod wire;

pub use openapi::openapi;
pub use routes::{configure, routes};
pub use settings::LegacySettings;

/// Path prefix of the API.
pub const BASE: &str = "/api/v1alpha1";
/// Path prefix of downloads.
pub const CSV: &str = "/csv";
