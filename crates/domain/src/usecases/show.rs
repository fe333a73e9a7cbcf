//! The `SHOW` and `DESCRIBE` statements every API version answers on reads (v2 §6.1).

use crate::entities::{Database, Index, TableSchema};
use crate::ports::{Column, Engine, EngineError, Flow, ReadReport, RowSink, SqlFailure, ValueRef};
use crate::values::CommitHash;

/// A recognised statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Show {
    Tables,
    Columns(String),
    CreateTable(String),
    Unsupported,
    /// One of these, and more after it.
    Several,
}

/// `None` when the statement is none of these, so the engine's to answer.
pub(super) fn parse(statement: &str) -> Option<Show> {
    let (words, rest) = words(statement)?;
    if !rest.is_empty() {
        return Some(Show::Several);
    }
    let plain: Vec<String> =
        words.iter().map(|w| if w.quoted { String::new() } else { w.text.to_ascii_lowercase() }).collect();
    let plain: Vec<&str> = plain.iter().map(String::as_str).collect();
    let last = words.last().map(|w| w.text.clone());
    match (plain.as_slice(), last) {
        (["show", "tables"], _) => Some(Show::Tables),
        (["show", "columns", "from" | "in", _] | ["describe" | "desc", _], Some(table)) => Some(Show::Columns(table)),
        (["show", "create", "table", _], Some(table)) => Some(Show::CreateTable(table)),
        (["show", ..], _) => Some(Show::Unsupported),
        _ => None,
    }
}

struct Word {
    text: String,
    quoted: bool,
}

/// Words and quoted names of a statement that begins with one of our words, and what stands after its semicolon; `None` for all others, which are
/// the engine's.
fn words(statement: &str) -> Option<(Vec<Word>, &str)> {
    let mut rest = skip_blank(statement)?;
    let first = rest.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    if !["show", "describe", "desc"].iter().any(|word| first.eq_ignore_ascii_case(word)) {
        return None;
    }
    let mut words = Vec::new();
    loop {
        rest = skip_blank(rest)?;
        let Some(start) = rest.chars().next() else { return Some((words, rest)) };
        if start == ';' {
            // Empty statements are none.
            while let Some(after) = rest.strip_prefix(';') {
                rest = skip_blank(after)?;
            }
            return Some((words, rest));
        }
        let (text, quoted, tail) = if start == '`' || start == '"' {
            let (text, tail) = quoted_name(&rest[1..], start)?;
            (text, true, tail)
        } else {
            let end = rest.find(|c: char| c.is_whitespace() || c == ';' || c == '`' || c == '"').unwrap_or(rest.len());
            (rest[..end].to_owned(), false, &rest[end..])
        };
        words.push(Word { text, quoted });
        rest = tail;
    }
}

fn quoted_name(text: &str, quote: char) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut rest = text;
    loop {
        let end = rest.find(quote)?;
        name.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        if !rest.starts_with(quote) {
            return Some((name, rest));
        }
        name.push(quote);
        rest = &rest[1..];
    }
}

/// Skips white space and comments; `None` when a comment is not closed.
fn skip_blank(text: &str) -> Option<&str> {
    let mut rest = text.trim_start();
    loop {
        rest = if let Some(line) = rest.strip_prefix("--") {
            line.find('\n').map_or("", |end| &line[end + 1..])
        } else if let Some(block) = rest.strip_prefix("/*") {
            &block[block.find("*/")? + 2..]
        } else {
            return Some(rest);
        }
        .trim_start();
    }
}

/// Answers it from the definitions at a commit.
pub(super) fn answer(
    engine: &dyn Engine,
    database: &Database,
    at: &CommitHash,
    asked: Show,
    sink: &mut dyn RowSink,
) -> Result<ReadReport, EngineError> {
    let refuse = |failure| Err(EngineError::Sql { failure, statement: 1 });
    let tables = match asked {
        Show::Unsupported => return refuse(SqlFailure::UnsupportedShow),
        Show::Several => return refuse(SqlFailure::SeveralStatements),
        _ => engine.tables(database.id, at)?,
    };
    let find = |name: &str| tables.iter().find(|t| t.name.eq_ignore_ascii_case(name));
    match asked {
        Show::Unsupported | Show::Several => {}
        Show::Tables => {
            let rows = tables.iter().map(|table| vec![Some(table.name.clone())]).collect();
            give(sink, &[&format!("Tables_in_{}", database.locator.name)], rows);
        }
        Show::Columns(name) => match find(&name) {
            Some(table) => give(sink, &["Field", "Type", "Null", "Key", "Default", "Extra"], column_rows(table)),
            None => return refuse(SqlFailure::NoSuchTable(name)),
        },
        Show::CreateTable(name) => match find(&name) {
            Some(table) => {
                let row = vec![Some(table.name.clone()), Some(table.create_statement.clone())];
                give(sink, &["Table", "Create Table"], vec![row]);
            }
            None => return refuse(SqlFailure::NoSuchTable(name)),
        },
    }
    Ok(ReadReport { deterministic: true })
}

fn column_rows(table: &TableSchema) -> Vec<Vec<Option<String>>> {
    let rows = table.columns.iter().map(|column| {
        let nullable = column.nullable && !column.in_primary_key;
        let key = if column.in_primary_key { "PRI" } else { index_key(&table.indexes, &column.name) };
        vec![
            Some(column.name.clone()),
            Some(column.declared_type.clone()),
            Some(if nullable { "YES" } else { "NO" }.to_owned()),
            Some(key.to_owned()),
            column.default.clone(),
            Some(String::new()),
        ]
    });
    rows.collect()
}

fn index_key(indexes: &[Index], column: &str) -> &'static str {
    if indexes.iter().any(|index| index.unique && index.columns == [column]) {
        "UNI"
    } else if indexes.iter().any(|index| index.columns.first().is_some_and(|first| first == column)) {
        "MUL"
    } else {
        ""
    }
}

fn give(sink: &mut dyn RowSink, names: &[&str], rows: Vec<Vec<Option<String>>>) {
    let columns: Vec<Column> = names
        .iter()
        .map(|name| Column {
            name: (*name).to_owned(),
            declared_type: Some("LONGTEXT".to_owned()),
            is_primary_key: false,
            source_table: String::new(),
        })
        .collect();
    if sink.columns(&columns) == Flow::Stop {
        return;
    }
    for row in &rows {
        let values: Vec<ValueRef<'_>> = row
            .iter()
            .map(|cell| cell.as_ref().map_or(ValueRef::Null, |text| ValueRef::Text(text.as_bytes())))
            .collect();
        if sink.row(&values) == Flow::Stop {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Show, parse};

    #[test]
    fn recognises_the_statements_in_every_spelling() {
        let cases = [
            ("SHOW TABLES", Some(Show::Tables)),
            (" /* x */ show\ttables ; -- end", Some(Show::Tables)),
            ("describe t", Some(Show::Columns("t".into()))),
            ("DESC `odd \"name`;", Some(Show::Columns("odd \"name".into()))),
            ("show columns in \"a\"\"b\"", Some(Show::Columns("a\"b".into()))),
            ("show create table Tags", Some(Show::CreateTable("Tags".into()))),
            ("show databases", Some(Show::Unsupported)),
            ("show tables like 'x'", Some(Show::Unsupported)),
            ("select 1", None),
            ("show tables;;", Some(Show::Tables)),
            ("show tables ; /* x */ ; -- end", Some(Show::Tables)),
            ("SHOW TABLES; SELECT 1", Some(Show::Several)),
            ("describe `a;b`;; show tables", Some(Show::Several)),
            ("showy", None),
            ("", None),
        ];
        for (statement, expected) in cases {
            assert_eq!(parse(statement), expected, "{statement}");
        }
    }
}
