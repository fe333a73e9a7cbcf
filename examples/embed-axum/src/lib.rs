//! A service with versioned tables, on Branchyard's domain. `README.md` shows its requests.

mod errors;
mod routes;
mod service;

pub use routes::routes;
pub use service::{EngineChoice, Service};
