//! Analysis of users' SQL text, and the errors that users see.

pub(crate) mod complexity;
pub(crate) mod errors;
pub(crate) mod shape;
pub(crate) mod statement_kind;

#[cfg(test)]
mod lexer_tests;
