//! One table as a workbook with one sheet, whose first row names the columns.

use std::fs::File;
use std::io::BufWriter;
use std::ops::ControlFlow;
use std::path::Path;

use branchyard_domain::ports::{Column, RowSink, ValueRef};
use data_encoding::BASE64;
use rust_xlsxwriter::{DocProperties, ExcelDateTime, Workbook, Worksheet, XlsxError};

use crate::{ExportError, is_formula};

/// Limits of the format: rows with the header, columns, and characters of a cell.
const ROWS: u32 = 1_048_576;
const COLUMNS: usize = 16_384;
const CHARS: usize = 32_767;
/// The largest integer whose digits a spreadsheet keeps, which has 15 digits. Larger ones become text.
const EXACT: i64 = 999_999_999_999_999;
/// Characters that the name of a sheet cannot have, and its maximum length.
const NOT_IN_NAMES: [char; 7] = ['[', ']', ':', '*', '?', '/', '\\'];
const NAME_CHARS: usize = 31;

/// A sink that writes a workbook.
pub struct XlsxSink {
    workbook: Workbook,
    names: Vec<String>,
    next_row: u32,
    is_safe: bool,
    left: u64,
    most: u64,
    failure: Option<ExportError>,
}

impl XlsxSink {
    /// Creates a workbook whose rows are kept in a file without a name in `folder`, of at most about `most` bytes. With `is_safe`,
    /// texts that a spreadsheet may take for a formula are protected by an apostrophe.
    ///
    /// # Errors
    /// [`ExportError::Io`] if the temporary file cannot be created.
    pub fn new(folder: &Path, table: &str, is_safe: bool, most: u64) -> Result<Self, ExportError> {
        let mut workbook = Workbook::new();
        // The time of the export would make every file of a commit another one.
        let properties = ExcelDateTime::from_ymd(2000, 1, 1).map(|at| DocProperties::new().set_creation_datetime(&at));
        workbook.set_properties(&properties.map_err(failed)?);
        workbook.set_tempdir(folder).map_err(failed)?;
        let sheet = workbook.add_worksheet_with_constant_memory().map_err(failed)?;
        sheet.set_name(sheet_name(table)).map_err(failed)?;
        Ok(Self { workbook, names: Vec::new(), next_row: 0, is_safe, left: most, most, failure: None })
    }

    /// Writes the workbook to an empty file.
    ///
    /// # Errors
    /// The error that stopped the sink; [`ExportError::Io`] if the file cannot be written.
    pub fn finish(mut self, into: &File) -> Result<(), ExportError> {
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => self.workbook.save_to_writer(BufWriter::new(into)).map_err(failed),
        }
    }

    fn take(&mut self, write: impl FnOnce(&mut Self) -> Result<(), ExportError>) -> ControlFlow<()> {
        self.failure = write(self).err();
        if self.failure.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn write_row(&mut self, row: &[ValueRef<'_>]) -> Result<(), ExportError> {
        if self.next_row >= ROWS {
            let most = ROWS - 1;
            return Err(ExportError::DoesNotFit(format!(
                "a workbook holds at most {most} rows; choose another format"
            )));
        }
        let at = self.next_row;
        for (place, value) in row.iter().enumerate() {
            self.count(value)?;
            let column = u16::try_from(place).map_err(|_| too_many_columns())?;
            let name = self.names.get(place).map_or("", String::as_str);
            let sheet = self.workbook.worksheet_from_index(0).map_err(failed)?;
            write_cell(sheet, (at, column), *value, self.is_safe).map_err(|error| match error {
                XlsxError::MaxStringLengthExceeded => ExportError::DoesNotFit(format!(
                    "row {at}, column {name}: a cell of a workbook holds at most {CHARS} characters; choose another format"
                )),
                error => failed(error),
            })?;
        }
        self.next_row += 1;
        Ok(())
    }

    /// Counts the bytes of a cell against the limit. The markup of a cell has about 40.
    fn count(&mut self, value: &ValueRef<'_>) -> Result<(), ExportError> {
        let length = match value {
            ValueRef::Null => 0,
            ValueRef::Integer(_) | ValueRef::Real(_) => 40,
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => 40 + bytes.len() as u64,
        };
        let too_large = || ExportError::DoesNotFit(format!("the workbook would have more than {} bytes", self.most));
        self.left = self.left.checked_sub(length).ok_or_else(too_large)?;
        Ok(())
    }
}

impl RowSink for XlsxSink {
    fn columns(&mut self, columns: &[Column]) -> ControlFlow<()> {
        self.take(|this| {
            if columns.len() > COLUMNS {
                return Err(too_many_columns());
            }
            let names: Vec<ValueRef<'_>> =
                columns.iter().map(|column| ValueRef::Text(column.name.as_bytes())).collect();
            this.write_row(&names)?;
            this.names = columns.iter().map(|column| column.name.clone()).collect();
            Ok(())
        })
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        self.take(|this| this.write_row(row))
    }
}

fn too_many_columns() -> ExportError {
    ExportError::DoesNotFit(format!("a workbook holds at most {COLUMNS} columns; choose another format"))
}

fn write_cell(
    sheet: &mut Worksheet,
    (row, column): (u32, u16),
    value: ValueRef<'_>,
    is_safe: bool,
) -> Result<(), XlsxError> {
    let text = match value {
        ValueRef::Null => return Ok(()),
        ValueRef::Integer(number) if (-EXACT..=EXACT).contains(&number) => {
            #[expect(clippy::cast_precision_loss, reason = "it has at most 15 digits")]
            return sheet.write_number(row, column, number as f64).map(drop);
        }
        ValueRef::Real(number) if number.is_finite() => return sheet.write_number(row, column, number).map(drop),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => if number > 0.0 { "Inf" } else { "-Inf" }.to_owned(),
        ValueRef::Text(bytes) if is_safe && is_formula(bytes) => format!("'{}", String::from_utf8_lossy(bytes)),
        ValueRef::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        ValueRef::Blob(bytes) => BASE64.encode(bytes),
    };
    sheet.write_string(row, column, text).map(drop)
}

/// Returns the name of the sheet of a table.
fn sheet_name(table: &str) -> String {
    let allowed = |letter: char| if NOT_IN_NAMES.contains(&letter) || letter.is_control() { '_' } else { letter };
    // The length counts UTF-16 code units, and an apostrophe may not stand at either end.
    let mut units = 0;
    let fits = |letter: &char| {
        units += letter.len_utf16();
        units <= NAME_CHARS
    };
    let name: String = table.chars().map(allowed).take_while(fits).collect();
    let name = name.trim_matches('\'');
    // Excel reserves this name.
    if name.is_empty() || name.eq_ignore_ascii_case("history") { format!("{name}_") } else { name.to_owned() }
}

fn failed(error: XlsxError) -> ExportError {
    match error {
        XlsxError::IoError(error) => ExportError::Io(error),
        other => ExportError::Io(std::io::Error::other(other)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};

    use super::*;

    fn column(name: &str) -> Column {
        Column { name: name.to_owned(), declared_type: None, is_primary_key: false, source_table: String::new() }
    }

    fn workbook(is_safe: bool, rows: &[&[ValueRef<'_>]]) -> Result<Vec<u8>, ExportError> {
        let folder = tempfile::tempdir().unwrap();
        let mut sink = XlsxSink::new(folder.path(), "a/b", is_safe, 1 << 20)?;
        let columns: Vec<Column> = (0..rows[0].len()).map(|at| column(&format!("c{at}"))).collect();
        assert!(sink.columns(&columns).is_continue());
        for row in rows {
            if sink.row(row).is_break() {
                break;
            }
        }
        let mut file = tempfile::tempfile().unwrap();
        sink.finish(&file)?;
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        Ok(bytes)
    }

    fn read_back(bytes: Vec<u8>) -> Vec<Vec<branchyard_imports::CellValue>> {
        use branchyard_imports::{FileLimits, Format, Input, RowErrors, TextOptions, rows, scan};
        let open = move || Ok(Box::new(std::io::Cursor::new(bytes.clone())) as Box<_>);
        let (limits, text) = (FileLimits::default(), TextOptions::default());
        let input = Input { format: Format::Xlsx, table: "t", limits, text, open: &open };
        let found = scan(&input).unwrap();
        let mut rows = rows(&input, &found, |_| branchyard_imports::Affinity::None).unwrap();
        let mut all = Vec::new();
        while let Some(row) = rows.next_row(&mut RowErrors::default()).unwrap() {
            all.push(row.values.clone());
        }
        all
    }

    #[test]
    fn values_come_back() {
        use branchyard_imports::CellValue::{Integer, Null, Real, Text};
        let row = [
            ValueRef::Integer(-4),
            ValueRef::Integer(i64::MAX),
            ValueRef::Real(2.5),
            ValueRef::Text(b"=1+1"),
            ValueRef::Null,
            ValueRef::Blob(b"ab"),
            ValueRef::Text("x<é".as_bytes()),
        ];
        let text = |text: &str| Text(text.to_owned());
        let plain = read_back(workbook(false, &[&row]).unwrap());
        let expected =
            [Integer(-4), text(&i64::MAX.to_string()), Real(2.5), text("=1+1"), Null, text("YWI="), text("x<é")];
        assert_eq!(plain, [expected]);
        let safe = read_back(workbook(true, &[&row]).unwrap());
        assert_eq!(safe[0][3], text("'=1+1"));
        assert_eq!(
            workbook(true, &[&row]).unwrap(),
            workbook(true, &[&row]).unwrap(),
            "the same rows are the same bytes"
        );
    }

    #[test]
    fn limits_of_the_format() {
        let fits = "x".repeat(CHARS);
        assert!(workbook(false, &[&[ValueRef::Text(fits.as_bytes())]]).is_ok());
        let long = "x".repeat(CHARS + 1);
        let error = workbook(false, &[&[ValueRef::Text(long.as_bytes())]]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "row 1, column c0: a cell of a workbook holds at most 32767 characters; choose another format"
        );
        let many: Vec<ValueRef<'_>> = vec![ValueRef::Text(fits.as_bytes()); 40];
        let error = workbook(false, &[&many]).unwrap_err();
        assert_eq!(error.to_string(), "the workbook would have more than 1048576 bytes");
    }

    #[test]
    fn names_of_sheets() {
        assert_eq!(sheet_name("a/b:c"), "a_b_c");
        assert_eq!(sheet_name("'x'"), "x");
        assert_eq!(sheet_name("History"), "History_");
        assert_eq!(sheet_name(&"é".repeat(40)), "é".repeat(31));
    }
}
