//! Conditions on rows as SQL.

use branchyard_sqlite_lexer::{quote_name, quote_text};

use super::{RowOrder, RowTest, Test};

impl RowTest {
    /// Returns the conditions of a `WHERE` clause, to be joined with `AND`. Tests for one of several values of a column become one
    /// condition. Returns `None` if a value holds a NUL character, which SQL text cannot contain.
    #[must_use]
    pub fn conditions(tests: &[Self]) -> Option<Vec<String>> {
        let mut conditions = Vec::new();
        let mut alternatives: Vec<(&str, Vec<String>)> = Vec::new();
        for test in tests {
            let (column, value) = (quote_name(&test.column), quote_text(&test.value)?);
            conditions.push(match test.test {
                Test::Equals => format!("{column} = {value}"),
                Test::Differs => format!("{column} IS NOT {value}"),
                Test::Contains => format!("instr(lower({column}), lower({value})) > 0"),
                Test::Less => format!("{column} < {value}"),
                Test::More => format!("{column} > {value}"),
                Test::AtMost => format!("{column} <= {value}"),
                Test::AtLeast => format!("{column} >= {value}"),
                Test::StartsWith => {
                    format!("lower(substr({column}, 1, {})) = lower({value})", test.value.chars().count())
                }
                Test::IsNull => format!("{column} IS NULL"),
                Test::IsNotNull => format!("{column} IS NOT NULL"),
                Test::OneOf => {
                    match alternatives.iter_mut().find(|(column, _)| column.eq_ignore_ascii_case(&test.column)) {
                        Some((_, values)) => values.push(value),
                        None => alternatives.push((&test.column, vec![value])),
                    }
                    continue;
                }
            });
        }
        let listed = alternatives.iter();
        conditions.extend(listed.map(|(column, values)| format!("{} IN ({})", quote_name(column), values.join(", "))));
        Some(conditions)
    }

    /// Returns a statement that selects the rows of a table or view that pass the tests, as an example for users to go on
    /// from. Returns `None` if a value holds a NUL character.
    #[must_use]
    pub fn statement(table: &str, tests: &[Self], order: Option<RowOrder<'_>>) -> Option<String> {
        let mut example = format!("SELECT *\nFROM {}", quote_name(table));
        let conditions = Self::conditions(tests)?;
        if !conditions.is_empty() {
            example.push_str("\nWHERE ");
            example.push_str(&conditions.join("\n  AND "));
        }
        if let Some(order) = order {
            example.push_str("\nORDER BY ");
            example.push_str(&quote_name(order.column));
            if order.descending {
                example.push_str(" DESC");
            }
        }
        Some(example)
    }
}

#[cfg(test)]
mod tests {
    use super::{RowOrder, RowTest, Test};

    #[test]
    fn tests_are_written_as_a_statement() {
        let test =
            |column: &str, test, value: &str| RowTest { column: column.to_owned(), test, value: value.to_owned() };
        let tests = [
            test("a \"b", Test::OneOf, "x'y"),
            test("c", Test::AtLeast, "1"),
            test("A \"B", Test::OneOf, "z"),
            test("d", Test::StartsWith, "é%"),
        ];
        let order = RowOrder { column: "c", descending: true };
        let expected = "SELECT *\nFROM \"t\"\nWHERE \"c\" >= '1'\n  AND lower(substr(\"d\", 1, 2)) = lower('é%')\n  \
                        AND \"a \"\"b\" IN ('x''y', 'z')\nORDER BY \"c\" DESC";
        assert_eq!(RowTest::statement("t", &tests, Some(order)).as_deref(), Some(expected));
        assert_eq!(RowTest::statement("t", &[], None).as_deref(), Some("SELECT *\nFROM \"t\""));
        assert_eq!(RowTest::conditions(&[test("c", Test::Equals, "a\0b")]), None);
    }
}
