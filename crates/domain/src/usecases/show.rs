//! The `SHOW` and `DESCRIBE` statements that every API version answers on reads (v2 §6.1).

use branchyard_sqlite_lexer::{TokenKind, tokenize};

use crate::entities::{Database, Index, TableSchema};
use crate::ports::{Column, Engine, EngineError, ReadReport, RowSink, SqlFailure, ValueRef};
use crate::values::CommitHash;

/// A recognized statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Show {
    Tables,
    Columns(String),
    CreateTable(String),
    Unsupported,
    /// A recognized statement that is followed by another one.
    Several,
}

/// Recognizes a statement. Returns `None` if the engine has to answer it.
pub(super) fn parse(statement: &str) -> Option<Show> {
    // A leading semicolon is an empty statement, which only the engine reports.
    if !tokenize(statement).next()?.is_one_of(&["show", "describe", "desc"]) {
        return None;
    }
    let (words, has_more) = words(statement)?;
    if has_more {
        return Some(Show::Several);
    }
    let plain: Vec<String> =
        words.iter().map(|word| if word.quoted { String::new() } else { word.text.to_ascii_lowercase() }).collect();
    let plain: Vec<&str> = plain.iter().map(String::as_str).collect();
    let last = words.last().map(|word| word.text.clone());
    match (plain.as_slice(), last) {
        (["show", "tables"], _) => Some(Show::Tables),
        (["show", "columns", "from" | "in", _] | ["describe" | "desc", _], Some(table)) => Some(Show::Columns(table)),
        (["show", "create", "table", _], Some(table)) => Some(Show::CreateTable(table)),
        (["show", ..], _) => Some(Show::Unsupported),
        _ => None,
    }
}

struct ShowWord {
    text: String,
    quoted: bool,
}

/// Splits a statement into words. The flag is `true` if another statement follows. Returns `None` if a quote is not closed,
/// which the engine reports.
fn words(statement: &str) -> Option<(Vec<ShowWord>, bool)> {
    let mut words: Vec<ShowWord> = Vec::new();
    let mut end = None;
    let mut tokens = tokenize(statement);
    for token in tokens.by_ref().take_while(|token| !token.is(";")) {
        if !token.is_terminated {
            return None;
        }
        let quoted = token.kind == TokenKind::QuotedName;
        match words.last_mut() {
            // `my-table` and `a.b` are one word each, as in other databases.
            Some(word) if !quoted && !word.quoted && end == Some(token.start) => word.text.push_str(token.text),
            _ => words.push(ShowWord { text: token.unquoted().into_owned(), quoted }),
        }
        end = Some(token.end());
    }
    Some((words, tokens.any(|token| !token.is(";"))))
}

/// Answers a statement from the table definitions at a commit.
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
    if sink.columns(&columns).is_break() {
        return;
    }
    for row in &rows {
        let values: Vec<ValueRef<'_>> = row
            .iter()
            .map(|cell| cell.as_ref().map_or(ValueRef::Null, |text| ValueRef::Text(text.as_bytes())))
            .collect();
        if sink.row(&values).is_break() {
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
            ("describe my-table", Some(Show::Columns("my-table".into()))),
            ("describe [odd name]", Some(Show::Columns("odd name".into()))),
            ("describe `open", None),
            (";show tables", None),
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
