//! Splits SQL text into the tokens and statements that SQLite sees.
//!
//! The rules are those of SQLite's tokenizer (`tokenize.c`), so that comments, quoting or spelling cannot evade a
//! decision based on the text. The crate has no parser: callers inspect the first words of a statement, count tokens,
//! or replace tokens. It quotes names and texts and writes statements about single rows. What a statement reads or writes is decided by the engine's authorizer.
#![doc = include_str!("../README.md")]

mod quote;
mod redact;
mod row_statements;
mod statement;
mod token;

pub use quote::{quote_name, quote_names, quote_text};
pub use redact::redact;
pub use row_statements::{NamedLiteral, delete_row, insert_row, select_row, update_row};
pub use statement::{
    ends_transaction, first_word, is_first_word, skip_to_statement, statement_length, terminated_statement_length,
};
pub use token::{SqlToken, SqlTokens, TokenKind, tokenize};
