//! API v2: translates between its wire contract and the domain, and does nothing else.
//!
//! [`configure`] mounts everything below `/api/v2`; it needs `web::Data<branchyard_http_common::AppState>` in the application's
//! data. [`openapi`] gives the OpenAPI document.

mod convert;
mod handlers;
mod openapi;
mod prefer;
mod routes;
mod stream;
mod wire;

pub use openapi::openapi;
pub use routes::{configure, routes};

/// Where the API is mounted.
pub const BASE: &str = "/api/v2";
