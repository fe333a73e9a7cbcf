//! Hosted API v1: deployments. Translates between its wire contract and the domain, and does nothing else.
//!
//! [`configure`] mounts everything below `/api/v1`; it needs `web::Data<branchyard_http_common::AppState>` in the application's
//! data, and takes [`Settings`] from there too. [`openapi`] gives the OpenAPI document.

mod convert;
mod handlers;
mod openapi;
mod routes;
mod wire;

pub use branchyard_http_common::HostedAddresses as Settings;
pub use openapi::openapi;
pub use routes::{configure, routes};

/// Where the API is mounted.
pub const BASE: &str = Settings::BASE;
