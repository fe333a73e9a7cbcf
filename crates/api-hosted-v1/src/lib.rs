//! Hosted API v1: deployments. The crate only translates between the wire contract of this API and the domain.
//!
//! [`configure`] mounts all routes below `/api/v1`. The application's data must hold
//! `web::Data<branchyard_http_common::AppState>` and `web::Data` of [`Settings`]. [`openapi`] returns the OpenAPI document.

mod convert;
mod handlers;
mod openapi;
mod routes;
mod wire;

pub use branchyard_http_common::HostedAddresses as Settings;
pub use openapi::openapi;
pub use routes::{configure, routes};

/// The path below which the API is mounted.
pub const BASE: &str = Settings::BASE;
