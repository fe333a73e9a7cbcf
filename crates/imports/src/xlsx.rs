//! `xlsx`: one sheet of an Office Open XML workbook, whose first row names the columns.
//!
//! The parts of a workbook are compressed, so a small file can expand to any size. Decompressed bytes count against
//! [`FileLimits::expanded_bytes`](crate::FileLimits), no XML event may be longer than a record, and the parts kept in memory have
//! their own bounds. The reader is our own because existing ones trust the sizes that a file declares.
//!
//! Memory: the shared strings of the workbook, at most [`strings::MOST_BYTES`], and the longest row.

mod archive;
mod sheet;
mod strings;
mod styles;
mod workbook;
mod xml;

use self::archive::WorkbookArchive;
use self::sheet::{Sheet, SheetCell};
use crate::columns::Columns;
use crate::error::{FileError, RowError, RowErrors};
use crate::format::{FileLimits, Input};
use crate::number;
use crate::typed::{Record, Records};
use crate::value::CellValue;

/// A reader of the rows of a sheet.
pub(crate) struct XlsxRecords {
    sheet: Sheet,
    columns: Columns,
    /// The column of the table for each column of the sheet, if it has one.
    places: Vec<Option<usize>>,
    cells: Vec<(usize, SheetCell)>,
}

impl XlsxRecords {
    /// Opens a workbook and reads the header.
    pub(crate) fn open(input: &Input<'_>) -> Result<Self, FileError> {
        let mut archive = WorkbookArchive::open(input)?;
        let parts = workbook::parts(&mut archive, input.table)?;
        let styles = styles::read(&mut archive, parts.styles.as_deref())?;
        let strings = strings::read(&mut archive, parts.strings.as_deref())?;
        let sheet = Sheet::new(archive.xml(&parts.sheet)?, styles, strings, parts.since_1904, input.limits);
        let mut records = Self { sheet, columns: Columns::default(), places: Vec::new(), cells: Vec::new() };
        records.read_header(input.limits)?;
        Ok(records)
    }

    fn read_header(&mut self, limits: FileLimits) -> Result<(), FileError> {
        let Some(line) = self.next_row()? else { return Err(FileError::at(1, "the sheet has no header")) };
        for (at, cell) in self.cells.drain(..) {
            let name = match cell {
                SheetCell::Value(value) => name(value),
                SheetCell::Wrong(detail) => {
                    return Err(FileError::at(line, format!("cell {}: {detail}", letters(at))));
                }
            };
            self.columns.add(&name, limits).map_err(|fault| FileError::at(line, fault.detail))?;
            self.places.resize(at + 1, None);
            self.places[at] = Some(self.columns.names().len() - 1);
        }
        Ok(())
    }

    /// Reads the next row with a cell that is not empty.
    fn next_row(&mut self) -> Result<Option<u64>, FileError> {
        loop {
            let Some(line) = self.sheet.next_row(&mut self.cells)? else { return Ok(None) };
            self.cells.retain(|(_, cell)| *cell != SheetCell::Value(CellValue::Null));
            if !self.cells.is_empty() {
                // A sheet may list its cells in any order.
                self.cells.sort_by_key(|(at, _)| *at);
                return Ok(Some(line));
            }
        }
    }
}

/// Returns the column name in a header cell.
fn name(value: CellValue) -> String {
    match value {
        CellValue::Text(text) => text,
        CellValue::Integer(integer) => integer.to_string(),
        CellValue::Real(real) => number::shown(real),
        CellValue::Null | CellValue::Blob(_) => String::new(),
    }
}

/// Returns the spreadsheet letters of a column: A to Z, then AA.
fn letters(mut at: usize) -> String {
    let mut letters = Vec::new();
    loop {
        letters.insert(0, b'A' + u8::try_from(at % 26).unwrap_or_default());
        match (at / 26).checked_sub(1) {
            Some(next) => at = next,
            None => return String::from_utf8_lossy(&letters).into_owned(),
        }
    }
}

impl Records for XlsxRecords {
    fn columns(&self) -> &[String] {
        self.columns.names()
    }

    fn next_record(&mut self, record: &mut Record, errors: &mut RowErrors) -> Result<bool, FileError> {
        while let Some(line) = self.next_row()? {
            let found_before = errors.total();
            record.begin(line);
            for (at, cell) in self.cells.drain(..) {
                match (self.places.get(at).copied().flatten(), cell) {
                    (Some(place), SheetCell::Value(value)) => {
                        record.set(place, value);
                    }
                    (Some(place), SheetCell::Wrong(detail)) => {
                        errors.push(RowError::new(line, Some(&self.columns.names()[place]), detail));
                    }
                    (None, _) => {
                        let detail =
                            format!("there is a value in column {}, which has no name in the header", letters(at));
                        errors.push(RowError::new(line, None, detail));
                    }
                }
            }
            if errors.total() == found_before {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests;
