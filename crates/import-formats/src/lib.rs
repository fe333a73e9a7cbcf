#![doc = include_str!("../README.md")]
//!
//! The formats port on `branchyard-imports`, and on the engine for SQLite files.

mod sqlite;

use std::sync::Arc;

use branchyard_domain::entities::{Cell, FileType, RowProblem};
use branchyard_domain::ports::{
    FormatError, FormatInput, Formats, ImportFile, InferredColumn, Opener, RowSource, SqliteFiles, TargetColumn,
};
use branchyard_imports::{Affinity, CellValue, FileError, FileLimits, Format, Input, ReadSeek, RowErrors, Rows, Scan};

/// Readers for every format that this build supports.
pub struct FileFormats {
    /// Limits of the files.
    pub limits: FileLimits,
    /// The reader of SQLite files.
    pub sqlite: Arc<dyn SqliteFiles>,
}

fn format_of(file_type: FileType) -> Option<Format> {
    match file_type {
        FileType::Csv => Some(Format::Csv),
        FileType::Psv => Some(Format::Psv),
        FileType::Json => Some(Format::Json),
        FileType::Yaml => Some(Format::Yaml),
        FileType::Xlsx => Some(Format::Xlsx),
        FileType::Parquet => Some(Format::Parquet),
        // The engine reads these formats.
        FileType::Sql | FileType::Sqlite => None,
    }
}

impl Formats for FileFormats {
    fn supports(&self, file_type: FileType) -> bool {
        file_type == FileType::Sqlite || format_of(file_type).is_some()
    }

    fn scan<'a>(&self, input: FormatInput<'a>) -> Result<Box<dyn ImportFile + 'a>, FormatError> {
        if input.file_type == FileType::Sqlite {
            return sqlite::scan(&*self.sqlite, &input, self.limits);
        }
        let unknown = || FormatError::File("this server cannot read that format".to_owned());
        let format = format_of(input.file_type).ok_or_else(unknown)?;
        let file = File { format, table: input.table, limits: self.limits, open: input.open };
        let scan = file.with(branchyard_imports::scan).map_err(refused)?;
        Ok(Box::new(Scanned { columns: columns(&scan), file, scan }))
    }
}

/// A file in the form in which `branchyard-imports` opens it.
struct File<'a> {
    format: Format,
    table: &'a str,
    limits: FileLimits,
    open: Box<Opener<'a>>,
}

impl File<'_> {
    fn with<T>(&self, read: impl FnOnce(&Input<'_>) -> T) -> T {
        let open = || Ok(Box::new((self.open)()?) as Box<dyn ReadSeek>);
        read(&Input { format: self.format, table: self.table, limits: self.limits, open: &open })
    }
}

pub(crate) fn columns(scan: &Scan) -> Vec<InferredColumn> {
    let column = |(name, kind): (&String, &branchyard_imports::ColumnType)| InferredColumn {
        name: name.clone(),
        declared_type: kind.declared().to_owned(),
    };
    scan.columns.iter().zip(&scan.types).map(column).collect()
}

pub(crate) fn refused(error: FileError) -> FormatError {
    match error {
        FileError::Rows(rows) => FormatError::Rows(problems(&rows)),
        FileError::File { line: Some(line), detail } => {
            FormatError::Rows(vec![RowProblem { line, column: None, detail }])
        }
        FileError::File { line: None, detail } => FormatError::File(detail),
        FileError::Io(source) => FormatError::Io(source),
    }
}

fn problems(rows: &RowErrors) -> Vec<RowProblem> {
    let problem = |row: &branchyard_imports::RowError| RowProblem {
        line: row.line,
        column: row.column.clone(),
        detail: row.detail.clone(),
    };
    rows.as_slice().iter().map(problem).collect()
}

struct Scanned<'a> {
    file: File<'a>,
    scan: Scan,
    columns: Vec<InferredColumn>,
}

impl ImportFile for Scanned<'_> {
    fn columns(&self) -> &[InferredColumn] {
        &self.columns
    }

    fn rows(&self, targets: &[TargetColumn]) -> Result<Box<dyn RowSource + '_>, FormatError> {
        let affinity = affinities(&self.columns, targets);
        let rows = self.file.with(|input| branchyard_imports::rows(input, &self.scan, affinity)).map_err(refused)?;
        Ok(Box::new(Converted::new(rows)))
    }
}

/// Returns the affinity of the target column of each column in the file.
pub(crate) fn affinities(columns: &[InferredColumn], targets: &[TargetColumn]) -> impl Fn(&str) -> Affinity {
    move |name| {
        let at = columns.iter().position(|column| column.name == name);
        match at.and_then(|at| targets.get(at)) {
            Some(TargetColumn::Typed(declared)) => Affinity::of_declared_type(declared),
            None => Affinity::Text,
        }
    }
}

/// Rows converted to the cells of the engine.
pub(crate) struct Converted<'a> {
    rows: Box<dyn Rows + 'a>,
    errors: RowErrors,
}

impl<'a> Converted<'a> {
    pub(crate) fn new(rows: Box<dyn Rows + 'a>) -> Self {
        Self { rows, errors: RowErrors::default() }
    }
}

impl RowSource for Converted<'_> {
    fn next(&mut self, row: &mut Vec<Cell>) -> Result<Option<u64>, FormatError> {
        row.clear();
        match self.rows.next_row(&mut self.errors).map_err(refused)? {
            Some(next) => {
                row.extend(next.values.iter().map(cell));
                Ok(Some(next.line))
            }
            // Invalid rows were skipped. Their errors are returned together at the end.
            None if self.errors.is_empty() => Ok(None),
            None => Err(FormatError::Rows(problems(&self.errors))),
        }
    }
}

fn cell(value: &CellValue) -> Cell {
    match value {
        CellValue::Null => Cell::Null,
        CellValue::Integer(number) => Cell::Integer(*number),
        CellValue::Real(number) => Cell::Real(*number),
        CellValue::Text(text) => Cell::Text(text.clone().into_bytes()),
        CellValue::Blob(bytes) => Cell::Blob(bytes.clone()),
    }
}
