//! `/docs/…`: what the server says of itself.

pub(super) mod api;
pub(super) mod errors;
