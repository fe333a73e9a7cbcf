//! The first pass over a file, which finds its columns, their types and the row errors.

use std::io::Read;

use crate::delimited::{DelimitedReader, Delimiter};
use crate::error::{FileError, RowErrors};
use crate::format::{Format, Input};
use crate::infer::{ColumnType, ColumnTypes};
use crate::json::{self, JsonRecords, Layout};
use crate::parquet::{self, ParquetRecords};
use crate::spelling::ColumnSpelling;
use crate::typed::{Records, scan_records};
use crate::value::Affinity;
use crate::xlsx::XlsxRecords;
use crate::yaml::YamlRecords;

/// The result of the first pass over a file without errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    /// Names of the columns in the order of the file.
    pub columns: Vec<String>,
    /// Types of the columns for a new table, one for each of `columns`.
    pub types: Vec<ColumnType>,
    /// What types would do with the values of each column. Empty unless it was asked for, and for formats with typed values.
    pub spelling: Vec<ColumnSpelling>,
    /// Number of rows, without the header.
    pub rows: u64,
    /// The layout of a JSON file, so that the second pass need not detect it again.
    pub(crate) layout: Option<Layout>,
}

impl Scan {
    /// Returns the affinity of a column in a new table made from the file. Returns text for an unknown column.
    pub fn affinity(&self, column: &str) -> Affinity {
        let position = self.columns.iter().position(|name| name == column);
        position.and_then(|position| self.types.get(position)).map_or(Affinity::Text, |found| Affinity::from(*found))
    }
}

/// Reads a file to its end for its columns, their types, and all row errors that can be found without a table.
///
/// # Errors
/// [`FileError::Rows`] for row errors; [`FileError::File`] if the file as a whole is invalid and no row error came
/// first; [`FileError::Io`] if the file cannot be opened or read.
pub fn scan(input: &Input<'_>) -> Result<Scan, FileError> {
    let opened = || (input.open)().map_err(FileError::Io);
    let typed = |records: &mut dyn Records| scan_records(records, input.limits);
    match input.format {
        Format::Csv | Format::Psv | Format::Tsv => {
            scan_delimited(delimited(opened()?, input)?, input.text.counts_spelling)
        }
        Format::Json => {
            let layout = json::layout(opened()?)?;
            let scan = typed(&mut JsonRecords::new(opened()?, layout, &[], input.limits))?;
            Ok(Scan { layout: Some(layout), ..scan })
        }
        Format::Yaml => typed(&mut YamlRecords::new(opened()?, &[], input.limits)),
        Format::Xlsx => typed(&mut XlsxRecords::open(input)?),
        Format::Parquet => {
            parquet::check_pages(input)?;
            typed(&mut ParquetRecords::open(input)?)
        }
    }
}

/// Reads the names of the columns of a file. Reads the whole file only for the formats that have the names in their records.
///
/// # Errors
/// As [`scan`].
pub fn columns(input: &Input<'_>) -> Result<Vec<String>, FileError> {
    let opened = || (input.open)().map_err(FileError::Io);
    match input.format {
        Format::Csv | Format::Psv | Format::Tsv => Ok(delimited(opened()?, input)?.columns().to_vec()),
        Format::Xlsx => Ok(XlsxRecords::open(input)?.columns().to_vec()),
        Format::Parquet => Ok(ParquetRecords::open(input)?.columns().to_vec()),
        Format::Json | Format::Yaml => scan(input).map(|scan| scan.columns),
    }
}

/// Opens a file of a delimited format.
pub(crate) fn delimited<R: Read>(opened: R, input: &Input<'_>) -> Result<DelimitedReader<R>, FileError> {
    let usual = match input.format {
        Format::Psv => Delimiter::PIPE,
        Format::Tsv => Delimiter::TAB,
        Format::Csv | Format::Json | Format::Yaml | Format::Xlsx | Format::Parquet => Delimiter::COMMA,
    };
    let text = input.text;
    DelimitedReader::with_encoding(opened, text.delimiter.unwrap_or(usual), text.encoding, input.limits)
}

fn scan_delimited<R: Read>(mut reader: DelimitedReader<R>, counts_spelling: bool) -> Result<Scan, FileError> {
    let columns = reader.columns().to_vec();
    let mut types = ColumnTypes::new(columns.len());
    let mut spelling = vec![ColumnSpelling::default(); if counts_spelling { columns.len() } else { 0 }];
    let mut errors = RowErrors::default();
    match count_rows(&mut reader, &mut types, &mut spelling, &mut errors) {
        Ok(rows) => {
            errors.into_result().map(|()| Scan { columns, types: types.finish(), spelling, rows, layout: None })
        }
        Err(stopped_by) => Err(errors.then(stopped_by)),
    }
}

fn count_rows<R: Read>(
    reader: &mut DelimitedReader<R>,
    types: &mut ColumnTypes,
    spelling: &mut [ColumnSpelling],
    errors: &mut RowErrors,
) -> Result<u64, FileError> {
    let mut rows = 0;
    while let Some(record) = reader.next_record(errors)? {
        rows += 1;
        for (column, value) in record.iter().enumerate() {
            types.observe(column, value);
        }
        for (value, column) in record.iter().zip(&mut *spelling) {
            column.observe(value);
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::scan_bytes;

    fn scan_csv(file: &str) -> Result<Scan, FileError> {
        scan_bytes(Format::Csv, file)
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
        let scan = scan_bytes(Format::Psv, "id|name").unwrap();
        assert_eq!((scan.columns.len(), scan.rows), (2, 0));
        assert_eq!(scan.types, [ColumnType::Text, ColumnType::Text]);
    }

    #[test]
    fn all_row_errors_are_found() {
        let Err(FileError::Rows(errors)) = scan_csv("a,b\n1\n1,2\n1,2,3\n1,\"x\"y\n") else {
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
    fn encodings_and_delimiters() {
        use crate::encoding::Encoding;
        use crate::testing::with_text;

        let names = |format, file: &[u8], encoding, delimiter| {
            with_text(format, file, encoding, delimiter, |input| {
                assert_eq!(columns(input).ok(), scan(input).ok().map(|scan| scan.columns));
                columns(input).map_err(|error| error.to_string())
            })
        };
        let utf16 = |text: &str, unit: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(unit).collect::<Vec<u8>>();
        let header = "name;år\nø;😀\n";
        for file in [
            utf16(header, u16::to_le_bytes),
            utf16(header, u16::to_be_bytes),
            utf16(&format!("\u{feff}{header}"), u16::to_le_bytes),
            utf16(&format!("\u{feff}{header}"), u16::to_be_bytes),
        ] {
            assert_eq!(names(Format::Csv, &file, Encoding::Utf16, Some(';')).unwrap(), ["name", "år"]);
        }
        let western = b"name\t\xe5r\n\x80\t1\n";
        assert_eq!(names(Format::Tsv, western, Encoding::Windows1252, None).unwrap(), ["name", "år"]);
        assert_eq!(names(Format::Csv, b"\xef\xbb\xbfa\xc2\xa7b\n", Encoding::Utf8, Some('§')).unwrap(), ["a", "b"]);

        let refused = |file: &[u8], encoding| {
            with_text(Format::Csv, file, encoding, None, scan).map(|scan| scan.rows).unwrap_err().to_string()
        };
        assert_eq!(refused(b"a\nx\n\x81\n", Encoding::Windows1252), "line 3: not valid Windows-1252");
        assert_eq!(refused(b"\xef\xbb\xbfa\n", Encoding::Windows1252), "line 1: the file is UTF-8, not Windows-1252");
        assert_eq!(refused(b"a\0\n\0x\0\n\0\0\xd8\n\0", Encoding::Utf16), "line 3: not valid UTF-16");
        assert_eq!(refused(b"a\0\n\0x\0\n", Encoding::Utf16), "line 2: not valid UTF-16");
        assert_eq!(refused(b"\xff\xfea\0", Encoding::Utf8), "line 1: the file is UTF-16, not UTF-8");
    }

    #[test]
    fn the_first_error_is_the_first_in_the_file() {
        let file = b"a,b\n1\n1,\xff\n";
        let error = scan_bytes(Format::Csv, file).unwrap_err();
        assert_eq!(error.to_string(), "line 2: 1 field, the header has 2");
        let FileError::Rows(errors) = error else { panic!("a row error came first") };
        assert_eq!(errors.as_slice()[1].to_string(), "line 3: not valid UTF-8");
    }
}
