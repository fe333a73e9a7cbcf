//! Compares the lexer with the engine's own tokenizer on random texts.

use branchyard_sqlite_lexer::{TokenKind, skip_to_statement, statement_length, tokenize};
use proptest::prelude::*;
use proptest::sample::select;
use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::{Batch, Connection};

const PIECES: &[&str] = &[
    "select ",
    "1",
    "2",
    ".5",
    "1.",
    "e+3",
    "0x1f",
    "_",
    "a",
    "t",
    "é",
    "'",
    "''",
    "\"",
    "`",
    "[",
    "]",
    "x'",
    "00",
    "'it''s'",
    "\"t\"",
    "[t]",
    "--",
    "\n",
    "/*",
    "*/",
    "/",
    "*",
    "-",
    "+",
    ";",
    " ",
    "\t",
    "\u{c}",
    "\u{feff}",
    "\u{a0}",
    "\r",
    "(",
    ")",
    ",",
    ".",
    "?",
    "?1",
    ":a",
    "@b",
    "$c",
    "$c::d(e)",
    "$",
    ":",
    "#",
    "->>",
    "||",
    "create trigger r after insert on t begin ",
    "end",
    " explain ",
    "query plan ",
    "create ",
    "temp ",
    "from t",
    " as ",
    "values ",
    "\u{b}",
    "\\",
    "!",
    "{",
    "~",
];

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(select(PIECES), 0..14).prop_map(|pieces| pieces.concat())
}

fn literals() -> impl Strategy<Value = String> {
    let literal = select(vec![
        "1", "1_000", "0x1F", ".5", "1.", "1.5e-3", "2E+1", "1e2", "'a'", "''", "'it''s'", "'/*'", "x'00'", "X''",
        "'--'", "'\"'", "';'",
    ]);
    let gap = select(vec!["", " ", "/* ' */", "-- '\n", " \u{feff} "]);
    prop::collection::vec((gap.clone(), literal, gap), 1..5)
        .prop_map(|items| {
            items.into_iter().map(|(before, literal, after)| format!("{before}{literal}{after}")).collect::<Vec<_>>()
        })
        .prop_map(|items| format!("select {}", items.join(",")))
}

fn connection() -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    connection.execute_batch("create table t(a, b)").unwrap();
    connection
}

/// Returns the parameter count of each statement that the engine finds in a text, and the error that ends the text, if
/// any.
fn outcome(connection: &Connection, sql: &str) -> (Vec<usize>, Option<String>) {
    let mut batch = Batch::new(connection, sql);
    let mut statements = Vec::new();
    loop {
        match batch.next() {
            Ok(Some(statement)) => statements.push(statement.parameter_count()),
            Ok(None) => return (statements, None),
            Err(rusqlite::Error::SqlInputError { msg, .. }) => return (statements, Some(msg)),
            Err(error) => return (statements, Some(error.to_string())),
        }
    }
}

/// Returns the text with a space and a comment in place of everything between two tokens. The space ends an unterminated variable
/// such as `:a(`. The comment keeps a vertical tab apart, which is a token after a byte order mark and whitespace after a space.
fn respaced(sql: &str) -> String {
    let (mut out, mut end) = (String::new(), 0);
    for token in tokenize(sql) {
        if token.start > end {
            out.push_str(" /**/");
        }
        out.push_str(token.text);
        end = token.end();
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn between_tokens_there_is_nothing_for_the_engine(sql in text()) {
        let connection = connection();
        prop_assert_eq!(outcome(&connection, &sql), outcome(&connection, &respaced(&sql)));
    }

    #[test]
    fn statements_end_where_they_end_for_the_engine(sql in text()) {
        let connection = connection();
        let (whole, refusal) = outcome(&connection, &sql);
        if refusal.is_none() {
            let (mut apart, mut rest) = (Vec::new(), skip_to_statement(&sql));
            while !rest.is_empty() {
                let (first, behind) = rest.split_at(statement_length(rest));
                let (one, refusal) = outcome(&connection, first);
                prop_assert_eq!((one.len(), refusal), (1, None), "{}", first);
                apart.extend(one);
                rest = skip_to_statement(behind);
            }
            prop_assert_eq!(whole, apart);
        }
    }

    #[test]
    fn each_literal_can_be_a_parameter(sql in literals()) {
        let mut replaced = sql.clone();
        let literals: Vec<_> = tokenize(&sql)
            .filter(|token| matches!(token.kind, TokenKind::Text | TokenKind::Blob | TokenKind::Number))
            .map(|token| token.start..token.end())
            .collect();
        literals.iter().rev().for_each(|range| replaced.replace_range(range.clone(), "?"));
        let connection = connection();
        let (columns, parameters) = {
            let statement = connection.prepare(&sql).unwrap();
            (statement.column_count(), connection.prepare(&replaced).unwrap().parameter_count())
        };
        prop_assert_eq!((columns, parameters), (literals.len(), literals.len()), "{}", replaced);
    }
}
