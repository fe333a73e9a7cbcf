//! API v2. The crate only translates between the wire contract of v2 and the domain.
//!
//! [`configure`] mounts all routes below `/api/v2`. The application's data must hold
//! `web::Data<branchyard_http_common::AppState>`. [`openapi`] returns the OpenAPI document.

mod convert;
mod direct_write;
mod handlers;
mod openapi;
mod prefer;
mod routes;
mod stream;
mod waiting;
mod wire;

pub use openapi::openapi;
pub use routes::{configure, routes};

/// The path below which the API is mounted.
pub const BASE: &str = "/api/v2";
