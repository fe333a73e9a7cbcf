//! `/docs/…`: reference documentation.

pub(super) mod api;
pub(super) mod errors;
