//! The errors of an import: invalid rows, an invalid file, or a failed reader.

use std::fmt;
use std::io;

/// Maximum number of characters of a file's own text in an error. Bounds the size of 100 errors for any file.
const SHOWN_CHARS: usize = 100;

/// The reason why a file cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Rows of the file are invalid. Displayed as the first error.
    #[error("{0}")]
    Rows(RowErrors),
    /// The file as a whole is invalid, and reading further is pointless.
    #[error("{}", Located { line: *line, column: None, detail })]
    File {
        /// Physical line of the defect, from 1, if the format has lines.
        line: Option<u64>,
        /// The defect, for the author of the file.
        detail: String,
    },
    /// The reader failed. The file itself may be valid.
    #[error("the file cannot be read")]
    Io(#[source] io::Error),
}

impl FileError {
    pub(crate) fn whole(detail: impl Into<String>) -> Self {
        Self::File { line: None, detail: detail.into() }
    }

    pub(crate) fn at(line: u64, detail: impl Into<String>) -> Self {
        Self::File { line: Some(line), detail: detail.into() }
    }
}

/// A defect of one row. Displayed like `line 3: column age: 'x' is not an integer`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowError {
    /// Physical line, from 1, on which the record begins.
    pub line: u64,
    /// Column of the file, if the defect concerns one. Names longer than 100 characters are shortened.
    pub column: Option<String>,
    /// The defect, without line and column.
    pub detail: String,
}

impl RowError {
    /// Creates an error about the record that begins on `line`, and about `column` if that is known.
    pub fn new(line: u64, column: Option<&str>, detail: impl Into<String>) -> Self {
        Self { line, column: column.map(shortened), detail: detail.into() }
    }
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Located { line: Some(self.line), column: self.column.as_deref(), detail: &self.detail }.fmt(f)
    }
}

/// The row errors of an import in the order in which they were found. The first 100 are kept, and all are counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowErrors {
    kept: Vec<RowError>,
    total: u64,
}

impl RowErrors {
    /// Maximum number of errors kept.
    pub const KEPT: usize = 100;

    /// Counts an error, and keeps it if there is room.
    pub fn push(&mut self, error: RowError) {
        self.total += 1;
        if self.kept.len() < Self::KEPT {
            self.kept.push(error);
        }
    }

    /// Returns `true` if no error was found.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Returns the kept errors, at most [`RowErrors::KEPT`].
    pub fn as_slice(&self) -> &[RowError] {
        &self.kept
    }

    /// Returns the number of errors found, including those not kept.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Converts the collection to a result.
    ///
    /// # Errors
    /// [`FileError::Rows`] if there are errors.
    pub fn into_result(self) -> Result<(), FileError> {
        if self.is_empty() { Ok(()) } else { Err(FileError::Rows(self)) }
    }

    /// Combines the collection with the error that stopped the reader. A defect of the file is appended to the row errors
    /// found before it, so that the first error stays first. A failure of the reader replaces them, because the import may
    /// be retried.
    #[must_use]
    pub fn then(mut self, stopped_by: FileError) -> FileError {
        match stopped_by {
            FileError::File { line: Some(line), detail } if !self.is_empty() => {
                self.push(RowError::new(line, None, detail));
                FileError::Rows(self)
            }
            error @ (FileError::File { .. } | FileError::Io(_) | FileError::Rows(_)) => error,
        }
    }
}

impl fmt::Display for RowErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kept.first() {
            Some(first) => first.fmt(f),
            None => f.write_str("no row errors"),
        }
    }
}

/// The single format in which errors name their location.
struct Located<'a> {
    line: Option<u64>,
    column: Option<&'a str>,
    detail: &'a str,
}

impl fmt::Display for Located<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if let Some(column) = self.column {
            write!(f, "column {column}: ")?;
        }
        f.write_str(self.detail)
    }
}

/// Returns `text` as errors quote it: whole, or shortened to its beginning and `…`.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_their_place() {
        let error = RowError::new(3, Some("age"), "'x' is not an integer");
        assert_eq!(error.to_string(), "line 3: column age: 'x' is not an integer");
        assert_eq!(RowError::new(3, None, "odd").to_string(), "line 3: odd");
        assert_eq!(FileError::at(1, "odd").to_string(), "line 1: odd");
    }

    #[test]
    fn a_hundred_errors_are_kept_and_all_are_counted() {
        let mut errors = RowErrors::default();
        for line in 2..252 {
            errors.push(RowError::new(line, None, "odd"));
        }
        assert_eq!((errors.as_slice().len(), errors.total()), (100, 250));
        assert_eq!(errors.into_result().unwrap_err().to_string(), "line 2: odd");
    }

    #[test]
    fn no_errors_are_a_success() {
        assert!(RowErrors::default().into_result().is_ok());
    }

    #[test]
    fn what_stops_the_reading_comes_after_what_was_found() {
        let stop = || FileError::at(9, "stop");
        assert_eq!(RowErrors::default().then(stop()).to_string(), "line 9: stop");
        let mut errors = RowErrors::default();
        errors.push(RowError::new(2, None, "odd"));
        let FileError::Rows(rows) = errors.clone().then(stop()) else { panic!("row errors were found") };
        assert_eq!(rows.as_slice()[1].to_string(), "line 9: stop");
        let io = FileError::Io(io::ErrorKind::TimedOut.into());
        assert!(matches!(errors.then(io), FileError::Io(_)));
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(shortened(&"é".repeat(100)), "é".repeat(100));
        assert_eq!(shortened(&"é".repeat(101)), format!("{}…", "é".repeat(100)));
    }
}
