//! Tables of SQLite files as records. An engine opens the files, because it links SQLite; `branchyard-imports` converts the
//! records to rows.

use branchyard_domain::entities::Cell;
use branchyard_domain::ports::{
    FormatError, FormatInput, ImportFile, InferredColumn, RowSource, SqliteFileRows, SqliteFileTable, SqliteFiles,
    TargetColumn,
};
use branchyard_imports::{
    CellValue, FileError, FileLimits, Record, Records, RowError, RowErrors, Scan, scan_records, typed_rows,
};

use crate::{Converted, columns, conversions, refused};

pub(crate) fn scan<'a>(
    files: &dyn SqliteFiles,
    input: &FormatInput<'a>,
    limits: FileLimits,
) -> Result<Box<dyn ImportFile + 'a>, FormatError> {
    let mut file = (input.open)().map_err(FormatError::Io)?;
    let table = files.open_sqlite(&mut file, input.table, input.timeout)?;
    let scan = scan_records(&mut SqliteRecords::new(&*table)?, limits).map_err(refused)?;
    Ok(Box::new(SqliteFile { columns: columns(&scan), table, scan }))
}

pub(crate) fn columns_of(files: &dyn SqliteFiles, input: &FormatInput<'_>) -> Result<Vec<String>, FormatError> {
    let mut file = (input.open)().map_err(FormatError::Io)?;
    Ok(files.open_sqlite(&mut file, input.table, input.timeout)?.columns().to_vec())
}

struct SqliteFile {
    table: Box<dyn SqliteFileTable>,
    scan: Scan,
    columns: Vec<InferredColumn>,
}

impl ImportFile for SqliteFile {
    fn columns(&self) -> &[InferredColumn] {
        &self.columns
    }

    fn primary_key(&self) -> &[String] {
        self.table.primary_key()
    }

    fn row_count(&self) -> Option<u64> {
        Some(self.scan.rows)
    }

    fn rows(&self, targets: &[TargetColumn]) -> Result<Box<dyn RowSource + '_>, FormatError> {
        let records = Box::new(SqliteRecords::new(&*self.table)?);
        let rows = typed_rows(records, &self.scan.columns, conversions(&self.columns, targets));
        Ok(Box::new(Converted::new(rows)))
    }
}

struct SqliteRecords {
    columns: Vec<String>,
    rows: Box<dyn SqliteFileRows>,
    number: u64,
}

impl SqliteRecords {
    fn new(table: &dyn SqliteFileTable) -> Result<Self, FormatError> {
        Ok(Self { columns: table.columns().to_vec(), rows: table.rows()?, number: 0 })
    }
}

impl Records for SqliteRecords {
    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn next_record(&mut self, record: &mut Record, errors: &mut RowErrors) -> Result<bool, FileError> {
        while let Some(cells) = self.rows.next_row().map_err(stopped)? {
            let found_before = errors.total();
            self.number += 1;
            record.begin(self.number);
            for (place, (cell, name)) in cells.into_iter().zip(&self.columns).enumerate() {
                match value(cell) {
                    Ok(value) => record.set(place, value),
                    Err(detail) => errors.push(RowError::new(self.number, Some(name), detail)),
                }
            }
            if errors.total() == found_before {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn keeps_classes(&self) -> bool {
        true
    }
}

fn value(cell: Cell) -> Result<CellValue, &'static str> {
    Ok(match cell {
        Cell::Null => CellValue::Null,
        Cell::Integer(number) => CellValue::Integer(number),
        Cell::Real(number) => CellValue::Real(number),
        Cell::Text(bytes) => CellValue::Text(String::from_utf8(bytes).map_err(|_| "not valid UTF-8")?),
        Cell::Blob(bytes) => CellValue::Blob(bytes),
    })
}

fn stopped(error: FormatError) -> FileError {
    match error {
        FormatError::File(detail) => FileError::File { line: None, detail },
        FormatError::Rows(mut rows) => {
            let row = rows.drain(..).next();
            let (line, detail) = row.map_or((None, String::new()), |row| (Some(row.line), row.detail));
            FileError::File { line, detail }
        }
        FormatError::Io(error) => FileError::Io(error),
    }
}
