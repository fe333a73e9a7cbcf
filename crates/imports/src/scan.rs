//! The first pass over a file.

use std::io::Read;

use crate::delimited::{Delimiter, Reader};
use crate::error::{ImportError, RowErrors};
use crate::format::{Format, Limits};
use crate::infer::{ColumnType, ColumnTypes};
use crate::value::Affinity;

/// What the first pass learns about a file without errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    /// Names of the columns, in the order of the file.
    pub columns: Vec<String>,
    /// Types of the columns, should they become a new table; as long as `columns`.
    pub types: Vec<ColumnType>,
    /// Number of rows, without the header.
    pub rows: u64,
}

impl Scan {
    /// The affinity of a column of the file in a table made from it; text for a column the file does not have.
    pub fn affinity(&self, column: &str) -> Affinity {
        let position = self.columns.iter().position(|name| name == column);
        position.and_then(|position| self.types.get(position)).map_or(Affinity::Text, |found| Affinity::from(*found))
    }
}

/// Reads a file to its end, for its columns, their types and every row error that needs no table to be seen.
///
/// # Errors
/// [`ImportError::Rows`] for the row errors, [`ImportError::File`] if the file as a whole is wrong and no row error
/// came before, [`ImportError::Io`] if `input` fails.
pub fn scan<R: Read>(input: R, format: Format, limits: Limits) -> Result<Scan, ImportError> {
    match format {
        Format::Csv => scan_delimited(Reader::new(input, Delimiter::Comma, limits)?),
        Format::Psv => scan_delimited(Reader::new(input, Delimiter::Pipe, limits)?),
    }
}

fn scan_delimited<R: Read>(mut reader: Reader<R>) -> Result<Scan, ImportError> {
    let columns = reader.columns().to_vec();
    let mut types = ColumnTypes::new(columns.len());
    let mut errors = RowErrors::default();
    match count_rows(&mut reader, &mut types, &mut errors) {
        Ok(rows) => errors.into_result().map(|()| Scan { columns, types: types.finish(), rows }),
        Err(stopped_by) => Err(errors.then(stopped_by)),
    }
}

fn count_rows<R: Read>(
    reader: &mut Reader<R>,
    types: &mut ColumnTypes,
    errors: &mut RowErrors,
) -> Result<u64, ImportError> {
    let mut rows = 0;
    while let Some(record) = reader.next_record(errors)? {
        rows += 1;
        for (column, value) in record.iter().enumerate() {
            types.observe(column, value);
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan_csv(file: &str) -> Result<Scan, ImportError> {
        scan(file.as_bytes(), Format::Csv, Limits::default())
    }

    #[test]
    fn a_file_is_columns_types_and_rows() {
        let scan = scan_csv("id,level,name\n1,0.5,a\n\n2,,\n").unwrap();
        assert_eq!(scan.columns, ["id", "level", "name"]);
        assert_eq!(scan.types, [ColumnType::Integer, ColumnType::Real, ColumnType::Text]);
        assert_eq!(scan.rows, 2);
        assert_eq!(scan.affinity("level"), Affinity::Real);
        assert_eq!(scan.affinity("other"), Affinity::Text);
    }

    #[test]
    fn a_header_alone_is_a_file_without_rows() {
        let scan = scan("id|name".as_bytes(), Format::Psv, Limits::default()).unwrap();
        assert_eq!((scan.columns.len(), scan.rows), (2, 0));
        assert_eq!(scan.types, [ColumnType::Text, ColumnType::Text]);
    }

    #[test]
    fn all_row_errors_are_found() {
        let Err(ImportError::Rows(errors)) = scan_csv("a,b\n1\n1,2\n1,2,3\n1,\"x\"y\n") else {
            panic!("three rows are wrong")
        };
        let shown: Vec<_> = errors.as_slice().iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "line 2: 1 field, the header has 2",
                "line 4: 3 fields, the header has 2",
                "line 5: column b: characters after a closing quote",
            ]
        );
    }

    #[test]
    fn the_first_error_is_the_first_in_the_file() {
        let file = b"a,b\n1\n1,\xff\n";
        let error = scan(&file[..], Format::Csv, Limits::default()).unwrap_err();
        assert_eq!(error.to_string(), "line 2: 1 field, the header has 2");
        let ImportError::Rows(errors) = error else { panic!("a row error came first") };
        assert_eq!(errors.as_slice()[1].to_string(), "line 3: not valid UTF-8");
    }
}
