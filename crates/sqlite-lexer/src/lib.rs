//! Splits SQL text into the tokens and statements that SQLite sees.
//!
//! The rules are those of SQLite's own tokenizer (`tokenize.c`), so that a decision based on the text cannot be evaded by comments, quoting or
//! spelling. There is no parser: callers look at the first words of a statement, count tokens, or replace some of them. What a statement reads or
//! writes is for the engine's authorizer to say.

mod quote;
mod redact;
mod statement;
mod token;

pub use quote::{quote_name, quote_names, quote_text};
pub use redact::redact;
pub use statement::{
    ends_transaction, first_word, is_first_word, skip_to_statement, statement_length, terminated_statement_length,
};
pub use token::{Token, TokenKind, Tokens, tokenize};
