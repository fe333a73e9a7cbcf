//! Conditions on rows as SQL.

use branchyard_sqlite_lexer::{quote_name, quote_text};

use super::{RowOrder, RowTest, Test};

impl RowTest {
    /// Returns the conditions of a `WHERE` clause, to be joined with `AND`. Returns `None` if a value holds a NUL character, which SQL
    /// text cannot contain.
    #[must_use]
    pub fn conditions(tests: &[Self]) -> Option<Vec<String>> {
        let condition = |test: &Self| {
            let (column, value) = (quote_name(&test.column), quote_text(&test.value)?);
            Some(match test.test {
                Test::Equals => format!("{column} = {value}"),
                Test::Differs => format!("{column} IS NOT {value}"),
                Test::Contains => format!("instr(lower({column}), lower({value})) > 0"),
                Test::Less => format!("{column} < {value}"),
                Test::More => format!("{column} > {value}"),
                Test::IsNull => format!("{column} IS NULL"),
                Test::IsNotNull => format!("{column} IS NOT NULL"),
            })
        };
        tests.iter().map(condition).collect()
    }

    /// Returns a statement that selects the rows of a table or view that pass the tests. Returns `None` if a value holds a NUL
    /// character.
    #[must_use]
    pub fn statement(table: &str, tests: &[Self], order: Option<RowOrder<'_>>) -> Option<String> {
        // A statement for users to read and change. The server does not run it by itself.
        let mut sql = format!("{} *\nFROM {}", "SELECT", quote_name(table));
        let conditions = Self::conditions(tests)?;
        if !conditions.is_empty() {
            sql.push_str("\nWHERE ");
            sql.push_str(&conditions.join("\n  AND "));
        }
        if let Some(order) = order {
            sql.push_str("\nORDER BY ");
            sql.push_str(&quote_name(order.column));
            if order.descending {
                sql.push_str(" DESC");
            }
        }
        Some(sql)
    }
}
