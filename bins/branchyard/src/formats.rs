//! The formats port on `branchyard-imports`.

use std::io::Read;

use branchyard_domain::entities::{Cell, FileType, RowProblem};
use branchyard_domain::ports::{FormatError, Formats, ImportFile, InferredColumn, Opener, RowSource, TargetColumn};
use branchyard_imports::{Affinity, ColumnType, Format, ImportError, Limits, RowErrors, Rows, Value};

/// Every format this build reads.
pub(crate) struct FileFormats {
    pub(crate) limits: Limits,
}

fn format_of(file_type: FileType) -> Option<Format> {
    match file_type {
        FileType::Csv => Some(Format::Csv),
        FileType::Psv => Some(Format::Psv),
        FileType::Xlsx | FileType::Json | FileType::Sql | FileType::Yaml | FileType::Parquet | FileType::Sqlite => None,
    }
}

impl Formats for FileFormats {
    fn supports(&self, file_type: FileType) -> bool {
        format_of(file_type).is_some()
    }

    fn scan<'a>(&self, file_type: FileType, open: Box<Opener<'a>>) -> Result<Box<dyn ImportFile + 'a>, FormatError> {
        let format =
            format_of(file_type).ok_or_else(|| FormatError::File("this server cannot read that format".to_owned()))?;
        let scan = branchyard_imports::scan(open().map_err(FormatError::Io)?, format, self.limits).map_err(refused)?;
        let columns = scan.columns.into_iter().zip(scan.types);
        let columns =
            columns.map(|(name, kind)| InferredColumn { name, declared_type: declared(kind).to_owned() }).collect();
        Ok(Box::new(Scanned { open, format, limits: self.limits, columns }))
    }
}

fn declared(kind: ColumnType) -> &'static str {
    match kind {
        ColumnType::Integer => "INTEGER",
        ColumnType::Real => "REAL",
        ColumnType::Text => "TEXT",
    }
}

fn refused(error: ImportError) -> FormatError {
    match error {
        ImportError::Rows(rows) => FormatError::Rows(problems(&rows)),
        ImportError::File { line: Some(line), detail } => {
            FormatError::Rows(vec![RowProblem { line, column: None, detail }])
        }
        ImportError::File { line: None, detail } => FormatError::File(detail),
        ImportError::Io(source) => FormatError::Io(source),
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
    open: Box<Opener<'a>>,
    format: Format,
    limits: Limits,
    columns: Vec<InferredColumn>,
}

impl ImportFile for Scanned<'_> {
    fn columns(&self) -> &[InferredColumn] {
        &self.columns
    }

    fn rows(&self, targets: &[TargetColumn]) -> Result<Box<dyn RowSource + '_>, FormatError> {
        let bytes: Box<dyn Read + Send> = (self.open)().map_err(FormatError::Io)?;
        let affinity = |name: &str| {
            let at = self.columns.iter().position(|column| column.name == name);
            match at.and_then(|at| targets.get(at)) {
                Some(TargetColumn::Typed(declared)) => Affinity::of_declared_type(declared),
                None => Affinity::Text,
            }
        };
        let rows = branchyard_imports::rows(bytes, self.format, self.limits, affinity).map_err(refused)?;
        Ok(Box::new(Converted { rows, errors: RowErrors::default() }))
    }
}

struct Converted<'a> {
    rows: Box<dyn Rows + 'a>,
    errors: RowErrors,
}

impl RowSource for Converted<'_> {
    fn next(&mut self, row: &mut Vec<Cell>) -> Result<Option<u64>, FormatError> {
        row.clear();
        match self.rows.next_row(&mut self.errors).map_err(refused)? {
            Some(next) => {
                row.extend(next.values.iter().map(cell));
                Ok(Some(next.line))
            }
            // Bad rows were skipped on the way; the end is where they are told, all at once.
            None if self.errors.is_empty() => Ok(None),
            None => Err(FormatError::Rows(problems(&self.errors))),
        }
    }
}

fn cell(value: &Value) -> Cell {
    match value {
        Value::Null => Cell::Null,
        Value::Integer(number) => Cell::Integer(*number),
        Value::Real(number) => Cell::Real(*number),
        Value::Text(text) => Cell::Text(text.clone().into_bytes()),
        Value::Blob(bytes) => Cell::Blob(bytes.clone()),
    }
}
