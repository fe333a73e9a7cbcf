//! The adapter of DoltLite's remote protocol: a database of the server is a remote that clients clone, fetch
//! from and push to.
//!
//! [`configure`] mounts the endpoints below `/{owner}/{database}`, beside the pages of the database. It requires
//! `web::Data<branchyard_http_common::AppState>` in the application's data, and has to come before the pages, which accept every
//! path. [`configure_calls`] mounts those which another node of the cluster passes on. The protocol belongs to the client: its requests, the layout of their bodies, and what it makes of errors.

mod answer;
mod chunks;
mod endpoint;
mod observer;
mod pushes;
mod refs;
mod routes;

pub use endpoint::RemoteEndpoint;
pub use observer::RemoteObserver;
pub use routes::{configure, configure_calls};
