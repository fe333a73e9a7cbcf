//! The second pass over a file, which returns values for the columns of a table.

use std::io::Read;

use crate::delimited::{DelimitedReader, DelimitedRecord, Delimiter};
use crate::error::{FileError, RowError, RowErrors};
use crate::format::{Format, Input};
use crate::json::{JsonRecords, Layout};
use crate::parquet::ParquetRecords;
use crate::scan::Scan;
use crate::typed::{Records, typed_rows};
use crate::value::{Affinity, CellValue, convert};
use crate::xlsx::XlsxRecords;
use crate::yaml::YamlRecords;

/// One row of a file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    /// Location of the row, as in row errors: the physical line, from 1, for text formats.
    pub line: u64,
    /// One value for each column of the file, in order.
    pub values: Vec<CellValue>,
}

/// The rows of a file of any format.
pub trait Rows {
    /// Returns the names of the columns in the order of the file.
    fn columns(&self) -> &[String];

    /// Returns the next valid row, or `None` after the last. Defects of skipped rows are added to `errors`, where the caller
    /// may also record its own, such as violated constraints.
    ///
    /// # Errors
    /// [`FileError::File`] and [`FileError::Io`]. Neither can be recovered from.
    fn next_row(&mut self, errors: &mut RowErrors) -> Result<Option<&Row>, FileError>;
}

/// Opens a file for the second pass. `scan` is the result of the first pass, and `affinity` returns the affinity of the
/// table's column for each column of the file.
///
/// # Errors
/// [`FileError::File`] if the file has no usable header; [`FileError::Io`] if it cannot be opened or read.
pub fn rows(
    input: &Input<'_>,
    scan: &Scan,
    affinity: impl FnMut(&str) -> Affinity,
) -> Result<Box<dyn Rows>, FileError> {
    let opened = (input.open)().map_err(FileError::Io)?;
    let records: Box<dyn Records> = match input.format {
        Format::Csv => {
            return Ok(Box::new(DelimitedRows::new(
                DelimitedReader::new(opened, Delimiter::Comma, input.limits)?,
                affinity,
            )));
        }
        Format::Psv => {
            return Ok(Box::new(DelimitedRows::new(
                DelimitedReader::new(opened, Delimiter::Pipe, input.limits)?,
                affinity,
            )));
        }
        Format::Json => {
            let layout = scan.layout.unwrap_or(Layout::LINES);
            Box::new(JsonRecords::new(opened, layout, &scan.columns, input.limits))
        }
        Format::Yaml => Box::new(YamlRecords::new(opened, &scan.columns, input.limits)),
        Format::Xlsx => Box::new(XlsxRecords::open(input)?),
        Format::Parquet => Box::new(ParquetRecords::open(input)?),
    };
    Ok(typed_rows(records, &scan.columns, affinity))
}

struct DelimitedRows<R> {
    columns: Vec<String>,
    affinities: Vec<Affinity>,
    reader: DelimitedReader<R>,
    row: Row,
}

impl<R: Read> DelimitedRows<R> {
    fn new(reader: DelimitedReader<R>, mut affinity: impl FnMut(&str) -> Affinity) -> Self {
        let columns = reader.columns().to_vec();
        Self { affinities: columns.iter().map(|name| affinity(name)).collect(), columns, reader, row: Row::default() }
    }
}

impl<R: Read> Rows for DelimitedRows<R> {
    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn next_row(&mut self, errors: &mut RowErrors) -> Result<Option<&Row>, FileError> {
        while let Some(record) = self.reader.next_record(errors)? {
            let found_before = errors.total();
            fill(&mut self.row, record, &self.columns, &self.affinities, errors);
            if errors.total() == found_before {
                return Ok(Some(&self.row));
            }
        }
        Ok(None)
    }
}

/// Converts all fields of a record even after an invalid one, so that the author of the file sees every defect.
fn fill(row: &mut Row, record: &DelimitedRecord, columns: &[String], affinities: &[Affinity], errors: &mut RowErrors) {
    row.line = record.line();
    row.values.clear();
    for ((text, column), affinity) in record.iter().zip(columns).zip(affinities) {
        match convert(text, *affinity) {
            Ok(value) => row.values.push(value),
            Err(invalid) => errors.push(RowError::new(record.line(), Some(column), invalid.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{scan_of, with_input};

    fn affinity(column: &str) -> Affinity {
        match column {
            "id" => Affinity::Integer,
            "level" => Affinity::Real,
            _ => Affinity::Text,
        }
    }

    #[test]
    fn rows_are_values_of_their_columns() {
        let file = "id,name\n\n1,a\n,\n";
        let mut rows = with_input(Format::Csv, file, |input| rows(input, &scan_of(&["id", "name"]), affinity)).unwrap();
        let mut errors = RowErrors::default();
        assert_eq!(rows.columns(), ["id", "name"]);
        let first = rows.next_row(&mut errors).unwrap().unwrap();
        assert_eq!(first.line, 3);
        assert_eq!(first.values, [CellValue::Integer(1), CellValue::Text("a".into())]);
        let second = rows.next_row(&mut errors).unwrap().unwrap();
        assert_eq!(second.values, [CellValue::Null, CellValue::Text(String::new())]);
        assert_eq!(rows.next_row(&mut errors).unwrap(), None);
        assert!(errors.is_empty());
    }

    #[test]
    fn wrong_rows_are_left_out_and_named() {
        let file = "id|level\nx|y\n1|2\n1\n";
        let mut rows =
            with_input(Format::Psv, file, |input| rows(input, &scan_of(&["id", "level"]), affinity)).unwrap();
        let mut errors = RowErrors::default();
        let row = rows.next_row(&mut errors).unwrap().unwrap();
        assert_eq!(row.values, [CellValue::Integer(1), CellValue::Real(2.0)]);
        assert_eq!(rows.next_row(&mut errors).unwrap(), None);
        let shown: Vec<_> = errors.as_slice().iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "line 2: column id: 'x' is not an integer",
                "line 2: column level: 'y' is not a number",
                "line 4: 1 field, the header has 2",
            ]
        );
    }
}
