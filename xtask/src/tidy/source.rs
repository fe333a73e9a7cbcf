//! Conventions of Rust source: heads, leftovers, white space, and SQL text only in certain crates.

use super::at;
use crate::finding::Finding;

/// Leftovers, each with what to do instead. They are written in two pieces, because this file is checked too.
const LEFTOVERS: &[(&str, &str)] = &[
    (concat!("#[", "ignore"), "make the test pass everywhere, or delete it"),
    (concat!("todo", "!("), "write it, or open an issue and return an error"),
    (concat!("unimplemented", "!("), "write it, or open an issue and return an error"),
    (concat!("dbg", "!("), "remove it, or log with tracing"),
];

/// The crates that may contain SQL text. Tests, examples and the binary may too.
const SQL_CRATES: &[&str] = &["engine-doltlite", "storage", "sqlite-lexer", "imports", "exports", "testkit"];

/// How a statement begins in a string literal.
const SQL: &[&str] = &[
    "\"SELECT ",
    "\"INSERT INTO ",
    "\"UPDATE ",
    "\"DELETE FROM ",
    "\"CREATE TABLE ",
    "\"ALTER TABLE ",
    "\"DROP TABLE ",
    "\"PRAGMA ",
];

/// Returns a finding if the root file of a crate does not begin with a `//!` head.
pub(super) fn head(file: &str, text: &str) -> Option<Finding> {
    if text.starts_with("//!") {
        return None;
    }
    Some(at(
        file,
        1,
        "the crate has no head",
        "begin the file with `//!`: what the crate is for, and what it never contains",
    ))
}

pub(super) fn check(file: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut no_sql = !may_write_sql(file);
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if line.ends_with([' ', '\t', '\r']) || text_ends_lines_with_cr(text, index) {
            findings.push(at(
                file,
                number,
                "white space at the end",
                "`cargo fmt --all`; in a string write `\\x20` or `\\r`",
            ));
        }
        if line.contains('\t') {
            findings.push(at(file, number, "a tab", "`cargo fmt --all`; in a string write `\\t`"));
        }
        let code = line.trim_start();
        if code.starts_with("//") {
            continue;
        }
        for (leftover, fix) in LEFTOVERS {
            if code.contains(leftover) {
                findings.push(at(file, number, &format!("`{leftover}`"), fix));
            }
        }
        // Tests stand at the end of a file.
        if code.starts_with("#[cfg(test)]") {
            no_sql = false;
        }
        // An example in an API description is SQL that a client may send.
        if no_sql && !code.contains("example") && SQL.iter().any(|start| code.contains(start)) {
            findings.push(at(
                file,
                number,
                "SQL text outside the engine and the store",
                "move it to engine-doltlite or storage, behind a method of the port",
            ));
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        findings.push(at(file, text.lines().count(), "the last line has no end", "`cargo fmt --all`"));
    }
    findings
}

/// Returns `true` for the first line of a text with CRLF line ends, which are reported once. `lines` hides the `\r`.
fn text_ends_lines_with_cr(text: &str, index: usize) -> bool {
    index == 0 && text.contains("\r\n")
}

/// Returns `false` for the production source of crates that must not contain SQL text.
fn may_write_sql(file: &str) -> bool {
    let Some((name, path)) = file.strip_prefix("crates/").and_then(|rest| rest.split_once('/')) else {
        return true;
    };
    let in_source = path.starts_with("src/");
    let for_tests = ["tests", "fake", "suites", "contract", "examples"].iter().any(|word| path.contains(word));
    SQL_CRATES.contains(&name) || !in_source || for_tests
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(file: &str, text: &str) -> Vec<String> {
        check(file, text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_crate_needs_a_head() {
        assert_eq!(head("src/lib.rs", "//! What it is.\n"), None);
        assert!(head("src/lib.rs", "mod x;\n").is_some());
    }

    #[test]
    fn clean_source_passes() {
        assert_eq!(shown("crates/domain/src/a.rs", "fn a() {}\n\n// a todo! in words\n"), Vec::<String>::new());
    }

    #[test]
    fn leftovers_are_found() {
        for (leftover, _) in LEFTOVERS {
            let found = shown("crates/domain/src/a.rs", &format!("fn a() {{\n    {leftover}\n}}\n"));
            assert_eq!(found.len(), 1, "{leftover}");
            assert!(found[0].starts_with("crates/domain/src/a.rs:2: "), "{}", found[0]);
        }
    }

    #[test]
    fn white_space_is_found() {
        for text in ["a \n", "a\tb\n", "a", "a\r\nb\r\n"] {
            assert_eq!(shown("x.rs", text).len(), 1, "{text:?}");
        }
    }

    #[test]
    fn sql_out_of_place_is_found() {
        let text = "const A: &str = \"SELECT 1\";\n";
        assert_eq!(shown("crates/domain/src/a.rs", text).len(), 1);
        assert_eq!(shown("crates/api-v2/src/handlers/sql.rs", text).len(), 1);
        let free = [
            "crates/storage/src/a.rs",
            "crates/engine-doltlite/src/a.rs",
            "crates/domain-testing/src/fakes/engine.rs",
            "crates/domain/tests/it/main.rs",
            "examples/embed-axum/src/main.rs",
            "bins/branchyard/src/demo.rs",
        ];
        for file in free {
            assert_eq!(shown(file, text).len(), 0, "{file}");
        }
        assert_eq!(shown("crates/domain/src/a.rs", &format!("#[cfg(test)]\nmod tests {{\n{text}}}\n")).len(), 0);
        assert_eq!(shown("crates/api-v2/src/a.rs", "#[schema(example = \"SELECT 1\")]\n").len(), 0);
    }
}
