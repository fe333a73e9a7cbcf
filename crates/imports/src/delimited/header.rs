//! The names of the columns.

use std::collections::HashMap;

use super::record::Record;
use crate::error::shortened;

/// The names in a header record, or what is wrong with them.
pub(super) fn names(header: &Record) -> Result<Vec<String>, String> {
    // The engine compares names without regard to ASCII case: `id` and `ID` could not be told apart in a table.
    let mut seen: HashMap<String, &str> = HashMap::new();
    for (position, name) in header.iter().enumerate() {
        if name.is_empty() {
            return Err(format!("column {} has no name", position + 1));
        }
        if name.contains('\0') {
            return Err(format!("the name of column {} has a NUL character", position + 1));
        }
        if let Some(other) = seen.insert(name.to_ascii_lowercase(), name) {
            return Err(not_distinct(other, name));
        }
    }
    Ok(header.iter().map(str::to_owned).collect())
}

fn not_distinct(first: &str, second: &str) -> String {
    let (shown, other) = (shortened(first), shortened(second));
    if first == second {
        format!("two columns have the name '{shown}'")
    } else {
        format!("the column names '{shown}' and '{other}' differ only in case")
    }
}
