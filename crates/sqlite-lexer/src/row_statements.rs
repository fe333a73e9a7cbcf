//! Statements about single rows, from names and literals. Literals are SQL text and are not quoted again.

use crate::{quote_name, quote_names};

/// A column and the literal that it is set to or compared with.
pub type NamedLiteral<'a> = (&'a str, String);

/// Returns a statement that selects the columns of the row with this key, after the number `tag`.
#[must_use]
pub fn select_row(tag: usize, table: &str, columns: &[&str], key: &[NamedLiteral<'_>]) -> String {
    let columns = quote_names(columns.iter().copied());
    format!("SELECT {tag}, {columns} FROM {} WHERE {}", quote_name(table), condition(key))
}

/// Returns a statement that inserts a row. Columns that are not set get their defaults.
#[must_use]
pub fn insert_row(table: &str, set: &[NamedLiteral<'_>]) -> String {
    let table = quote_name(table);
    if set.is_empty() {
        return format!("INSERT INTO {table} DEFAULT VALUES");
    }
    let values: Vec<&str> = set.iter().map(|(_, literal)| literal.as_str()).collect();
    let columns = quote_names(set.iter().map(|(name, _)| *name));
    format!("INSERT INTO {table} ({columns}) VALUES ({})", values.join(", "))
}

/// Returns a statement that updates the row with this key.
#[must_use]
pub fn update_row(table: &str, key: &[NamedLiteral<'_>], set: &[NamedLiteral<'_>]) -> String {
    let set: Vec<String> = set.iter().map(|(name, literal)| format!("{} = {literal}", quote_name(name))).collect();
    format!("UPDATE {} SET {} WHERE {}", quote_name(table), set.join(", "), condition(key))
}

/// Returns a statement that deletes the row with this key.
#[must_use]
pub fn delete_row(table: &str, key: &[NamedLiteral<'_>]) -> String {
    format!("DELETE FROM {} WHERE {}", quote_name(table), condition(key))
}

/// Compares with `IS`, so that NULL in a key is found, too.
fn condition(key: &[NamedLiteral<'_>]) -> String {
    let parts: Vec<String> = key.iter().map(|(name, literal)| format!("{} IS {literal}", quote_name(name))).collect();
    parts.join(" AND ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_and_literals_are_not() {
        let (key, set) = ([("a\"b", "1".to_owned()), ("c", "NULL".to_owned())], [("x y", "'z'".to_owned())]);
        assert_eq!(select_row(7, "t", &["x y"], &key), r#"SELECT 7, "x y" FROM "t" WHERE "a""b" IS 1 AND "c" IS NULL"#);
        assert_eq!(insert_row("t", &set), r#"INSERT INTO "t" ("x y") VALUES ('z')"#);
        assert_eq!(insert_row("t", &[]), r#"INSERT INTO "t" DEFAULT VALUES"#);
        assert_eq!(update_row("t", &key, &set), r#"UPDATE "t" SET "x y" = 'z' WHERE "a""b" IS 1 AND "c" IS NULL"#);
        assert_eq!(delete_row("t", &key), r#"DELETE FROM "t" WHERE "a""b" IS 1 AND "c" IS NULL"#);
    }
}
