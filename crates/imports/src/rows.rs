//! The second pass over a file, which returns values for the columns of a table.

use std::io::Read;

use crate::delimited::{DelimitedReader, DelimitedRecord};
use crate::error::{FileError, RowError, RowErrors};
use crate::format::{Format, Input};
use crate::json::{JsonRecords, Layout};
use crate::parquet::ParquetRecords;
use crate::scan::{Scan, delimited};
use crate::typed::{Records, typed_rows};
use crate::value::{CellValue, Conversion};
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

/// Opens a file for the second pass. `scan` is the result of the first pass, and `conversion` returns, for each
/// column of the file, the affinity of the table's column, or how values are converted to it.
///
/// # Errors
/// [`FileError::File`] if the file has no usable header; [`FileError::Io`] if it cannot be opened or read.
pub fn rows<C: Into<Conversion>>(
    input: &Input<'_>,
    scan: &Scan,
    conversion: impl FnMut(&str) -> C,
) -> Result<Box<dyn Rows>, FileError> {
    let opened = (input.open)().map_err(FileError::Io)?;
    let records: Box<dyn Records> = match input.format {
        Format::Csv | Format::Psv | Format::Tsv => {
            return Ok(Box::new(DelimitedRows::new(delimited(opened, input)?, conversion)));
        }
        Format::Json => {
            let layout = scan.layout.unwrap_or(Layout::LINES);
            Box::new(JsonRecords::new(opened, layout, &scan.columns, input.limits))
        }
        Format::Yaml => Box::new(YamlRecords::new(opened, &scan.columns, input.limits)),
        Format::Xlsx => Box::new(XlsxRecords::open(input)?),
        Format::Parquet => Box::new(ParquetRecords::open(input)?),
    };
    Ok(typed_rows(records, &scan.columns, conversion))
}

struct DelimitedRows<R> {
    columns: Vec<String>,
    conversions: Vec<Conversion>,
    reader: DelimitedReader<R>,
    row: Row,
}

impl<R: Read> DelimitedRows<R> {
    fn new<C: Into<Conversion>>(reader: DelimitedReader<R>, mut conversion: impl FnMut(&str) -> C) -> Self {
        let columns = reader.columns().to_vec();
        let conversions = columns.iter().map(|name| conversion(name).into()).collect();
        Self { conversions, columns, reader, row: Row::default() }
    }
}

impl<R: Read> Rows for DelimitedRows<R> {
    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn next_row(&mut self, errors: &mut RowErrors) -> Result<Option<&Row>, FileError> {
        while let Some(record) = self.reader.next_record(errors)? {
            let found_before = errors.total();
            fill(&mut self.row, record, &self.columns, &self.conversions, errors);
            if errors.total() == found_before {
                return Ok(Some(&self.row));
            }
        }
        Ok(None)
    }
}

/// Converts all fields of a record even after an invalid one, so that the author of the file sees every defect.
fn fill(
    row: &mut Row,
    record: &DelimitedRecord,
    columns: &[String],
    conversions: &[Conversion],
    errors: &mut RowErrors,
) {
    row.line = record.line();
    row.values.clear();
    for ((text, column), conversion) in record.iter().zip(columns).zip(conversions) {
        match conversion.field(text) {
            Ok(value) => row.values.push(value),
            Err(invalid) => errors.push(RowError::new(record.line(), Some(column), invalid.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{scan_of, with_input};
    use crate::value::{Affinity, ChosenType};

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
    fn chosen_types_decide_what_fits() {
        let chosen = |column: &str| match column {
            "version" => Conversion::chosen(ChosenType::Text, Affinity::Text),
            "amount" => Conversion::chosen(ChosenType::Numeric, Affinity::Numeric),
            "picture" => Conversion::chosen(ChosenType::Blob, Affinity::None),
            // The column of an existing table is text: the value has to be an integer, and keeps its spelling.
            _ => Conversion::chosen(ChosenType::Integer, Affinity::Text),
        };
        let read = |file: &str| {
            let scan = scan_of(&["version", "amount", "picture", "count"]);
            let mut rows = with_input(Format::Csv, file, |input| rows(input, &scan, chosen)).unwrap();
            let (mut errors, mut found) = (RowErrors::default(), Vec::new());
            while let Some(row) = rows.next_row(&mut errors).unwrap() {
                found.push(row.values.clone());
            }
            (found, errors.as_slice().iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let text = |text: &str| CellValue::Text(text.to_owned());
        let (found, errors) = read("version,amount,picture,count\n1.10,1,YWI=,+5\n1e5,2.5,,7\n");
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(
            found,
            [
                [text("1.10"), CellValue::Integer(1), CellValue::Blob(b"ab".to_vec()), text("+5")],
                [text("1e5"), CellValue::Real(2.5), CellValue::Null, text("7")],
            ]
        );
        let (_, errors) = read("version,amount,picture,count\n,x,a b,1.5\n");
        assert_eq!(
            errors,
            ["line 2: column picture: 'a b' is not base64", "line 2: column count: '1.5' is not an integer"]
        );
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
