//! What users write, and what they read when it fails.

pub(crate) mod complexity;
pub(crate) mod errors;
pub(crate) mod shape;
pub(crate) mod statement_kind;

#[cfg(test)]
mod lexer_tests;
