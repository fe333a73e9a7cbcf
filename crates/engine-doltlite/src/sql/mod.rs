//! What users write, and what they read when it fails.

pub(crate) mod errors;
pub(crate) mod quote;
pub(crate) mod shape;
pub(crate) mod tokens;
