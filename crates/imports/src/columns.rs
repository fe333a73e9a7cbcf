//! Names of columns and their uniqueness.

use std::collections::HashMap;

use crate::error::shortened;
use crate::format::FileLimits;

/// Maximum length of all names together in bytes. The engine limits `CREATE TABLE` statements to the same length.
const ALL_BYTES: usize = 1 << 20;

/// The reason why a name is not valid for a column.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NameFault {
    /// The defect, for the user.
    pub(crate) detail: String,
    /// Whether the file as a whole exceeds a limit, so that reading further is pointless.
    pub(crate) fatal: bool,
}

/// The names of the columns found so far, in the order of their first appearance.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    names: Vec<String>,
    places: HashMap<String, usize>,
    // The engine compares names case-insensitively for ASCII, so `id` and `ID` would be the same column of a table.
    folded: HashMap<String, usize>,
    bytes: usize,
}

impl Columns {
    /// Returns the columns that an earlier pass found.
    pub(crate) fn known(names: &[String]) -> Self {
        let mut columns = Self::default();
        for name in names {
            columns.keep(name);
        }
        columns
    }

    /// Returns the names in order.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Adds a name. Fails if the name exists.
    pub(crate) fn add(&mut self, name: &str, limits: FileLimits) -> Result<(), NameFault> {
        if self.places.contains_key(name) {
            let detail = format!("two columns have the name '{}'", shortened(name));
            return Err(NameFault { detail, fatal: false });
        }
        self.place(name, limits).map(|_| ())
    }

    /// Returns the position of a name. Adds the name if it is new.
    pub(crate) fn place(&mut self, name: &str, limits: FileLimits) -> Result<usize, NameFault> {
        if let Some(place) = self.places.get(name) {
            return Ok(*place);
        }
        let fault = |detail: String, fatal| Err(NameFault { detail, fatal });
        let number = self.names.len() + 1;
        if number > limits.columns {
            return fault(format!("more than {} columns", limits.columns), true);
        }
        if self.bytes + name.len() > ALL_BYTES {
            return fault(format!("the names of the columns take more than {ALL_BYTES} bytes"), true);
        }
        if name.is_empty() {
            return fault(format!("column {number} has no name"), false);
        }
        if name.contains('\0') {
            return fault(format!("the name of column {number} has a NUL character"), false);
        }
        if let Some(other) = self.folded.get(&name.to_ascii_lowercase()) {
            let (other, shown) = (shortened(&self.names[*other]), shortened(name));
            return fault(format!("the column names '{other}' and '{shown}' differ only in case"), false);
        }
        Ok(self.keep(name))
    }

    fn keep(&mut self, name: &str) -> usize {
        let place = self.names.len();
        self.bytes += name.len();
        self.places.insert(name.to_owned(), place);
        self.folded.insert(name.to_ascii_lowercase(), place);
        self.names.push(name.to_owned());
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(columns: usize) -> FileLimits {
        FileLimits { columns, ..FileLimits::default() }
    }

    #[test]
    fn names_keep_their_first_place() {
        let mut columns = Columns::default();
        let places: Vec<_> = ["b", "a", "b", "c"].map(|name| columns.place(name, limits(3)).unwrap()).into();
        assert_eq!(places, [0, 1, 0, 2]);
        assert_eq!(columns.names(), ["b", "a", "c"]);
        assert_eq!(Columns::known(columns.names()).names(), columns.names());
    }

    #[test]
    fn names_are_told_apart_and_counted() {
        let mut columns = Columns::default();
        columns.place("id", limits(2)).unwrap();
        let fault = |columns: &mut Columns, name: &str| columns.place(name, limits(2)).unwrap_err();
        assert_eq!(fault(&mut columns, "ID").detail, "the column names 'id' and 'ID' differ only in case");
        assert_eq!(fault(&mut columns, "").detail, "column 2 has no name");
        assert_eq!(fault(&mut columns, "\0").detail, "the name of column 2 has a NUL character");
        assert_eq!(columns.add("id", limits(2)).unwrap_err().detail, "two columns have the name 'id'");
        columns.place("x", limits(2)).unwrap();
        let beyond = fault(&mut columns, "y");
        assert_eq!((beyond.detail.as_str(), beyond.fatal), ("more than 2 columns", true));
        let long = Columns::default().place(&"x".repeat(ALL_BYTES + 1), limits(2)).unwrap_err();
        assert!(long.fatal, "{long:?}");
    }
}
