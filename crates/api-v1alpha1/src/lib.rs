//! API v1alpha1: translates between its wire contract and the domain, and does nothing else.
//!
//! [`configure`] mounts everything below `/api/v1alpha1` and `/csv`; it needs `web::Data<branchyard_http_common::AppState>` in the
//! application's data, and takes [`LegacySettings`] from there too. [`openapi`] gives the OpenAPI document. The API is frozen: fields
//! may be added, none is renamed, removed or retyped.

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

/// Where the API is mounted.
pub const BASE: &str = "/api/v1alpha1";
/// Where tables are downloaded.
pub const CSV: &str = "/csv";
