//! The statements of a SQL script. Nothing here runs them.

/// Returns the beginning of a statement that inserts rows with these columns, up to the first row.
pub fn insert_into<'a>(table: &str, columns: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = columns.map(quoted).collect();
    format!("INSERT INTO {} ({}) VALUES\n", quoted(table), names.join(", "))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::insert_into;

    #[test]
    fn names_are_quoted() {
        let begun = insert_into("a \"b\"", ["x", "y z"].into_iter());
        assert_eq!(begun, "INSERT INTO \"a \"\"b\"\"\" (\"x\", \"y z\") VALUES\n");
    }
}
