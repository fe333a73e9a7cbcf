//! In-memory files for the tests of this crate.

use std::io::Cursor;

use crate::encoding::Encoding;
use crate::error::{FileError, RowErrors};
use crate::format::{FileLimits, Format, Input, TextOptions};
use crate::rows::rows;
use crate::scan::{Scan, scan};
use crate::value::{Affinity, CellValue};

pub(crate) fn with_limits<T>(
    format: Format,
    file: impl AsRef<[u8]>,
    table: &str,
    limits: FileLimits,
    use_it: impl FnOnce(&Input<'_>) -> T,
) -> T {
    let bytes = file.as_ref().to_vec();
    let open = move || Ok(Box::new(Cursor::new(bytes.clone())) as Box<_>);
    use_it(&Input { format, table, limits, text: TextOptions::default(), open: &open })
}

/// Calls `use_it` with a file in an encoding and with a delimiter.
pub(crate) fn with_text<T>(
    format: Format,
    file: &[u8],
    encoding: Encoding,
    delimiter: Option<char>,
    use_it: impl FnOnce(&Input<'_>) -> T,
) -> T {
    let delimiter = delimiter.and_then(crate::delimited::Delimiter::new);
    let text = TextOptions { delimiter, encoding, counts_spelling: false };
    with_input(format, file, |input| use_it(&Input { text, ..*input }))
}

pub(crate) fn with_input<T>(format: Format, file: impl AsRef<[u8]>, use_it: impl FnOnce(&Input<'_>) -> T) -> T {
    with_limits(format, file, "t", FileLimits::default(), use_it)
}

pub(crate) fn scan_bytes(format: Format, file: impl AsRef<[u8]>) -> Result<Scan, FileError> {
    with_input(format, file, scan)
}

/// Returns the result of a scan that found these columns.
pub(crate) fn scan_of(columns: &[&str]) -> Scan {
    let columns = columns.iter().map(|name| (*name).to_owned()).collect();
    Scan { columns, types: Vec::new(), spelling: Vec::new(), rows: 0, layout: None }
}

/// The result of both passes into a new table: columns with their declared types, and rows with their lines.
pub(crate) type ReadTable = (Vec<(String, &'static str)>, Vec<(u64, Vec<CellValue>)>);

pub(crate) fn read(input: &Input<'_>) -> Result<ReadTable, FileError> {
    let scan = scan(input)?;
    let mut rows = rows(input, &scan, |name| scan.affinity(name))?;
    let mut errors = RowErrors::default();
    let mut found = Vec::new();
    while let Some(row) = rows.next_row(&mut errors)? {
        found.push((row.line, row.values.clone()));
    }
    errors.into_result()?;
    let types = scan.types.iter().map(|kind| kind.declared());
    Ok((scan.columns.clone().into_iter().zip(types).collect(), found))
}

pub(crate) fn read_bytes(format: Format, file: impl AsRef<[u8]>) -> Result<ReadTable, FileError> {
    with_input(format, file, read)
}

/// Returns all errors of a file in their displayed form.
pub(crate) fn errors(result: Result<ReadTable, FileError>) -> Vec<String> {
    match result {
        Err(FileError::Rows(rows)) => rows.as_slice().iter().map(ToString::to_string).collect(),
        Err(error) => vec![error.to_string()],
        Ok(table) => panic!("{table:?}"),
    }
}

pub(crate) fn int(number: i64) -> CellValue {
    CellValue::Integer(number)
}

pub(crate) fn text(text: &str) -> CellValue {
    CellValue::Text(text.to_owned())
}

/// Reads the rows of a file into an existing table with this affinity.
pub(crate) fn rows_into(
    input: &Input<'_>,
    affinity: impl FnMut(&str) -> Affinity,
) -> Result<Vec<Vec<CellValue>>, FileError> {
    let scan = scan(input)?;
    let mut rows = rows(input, &scan, affinity)?;
    let mut errors = RowErrors::default();
    let mut found = Vec::new();
    while let Some(row) = rows.next_row(&mut errors)? {
        found.push(row.values.clone());
    }
    errors.into_result().map(|()| found)
}
