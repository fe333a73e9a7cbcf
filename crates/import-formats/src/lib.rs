//! The formats port on `branchyard-imports`, and on the engine for SQLite files.
#![doc = include_str!("../README.md")]

mod sqlite;

use std::sync::Arc;

use branchyard_domain::entities::{Cell, FileType, ImportType, RowProblem, TextEncoding, TextOptions};
use branchyard_domain::ports::{
    ColumnSpelling, FormatError, FormatInput, Formats, ImportFile, InferredColumn, Opener, Respelled, RowSource,
    SqliteFiles, TargetColumn,
};
use branchyard_imports::delimited::Delimiter;
use branchyard_imports::{
    Affinity, CellValue, ChosenType, Conversion, Encoding, FileError, FileLimits, Format, Input, ReadSeek, RowErrors,
    Rows, Scan,
};

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
        FileType::Tsv => Some(Format::Tsv),
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
        let file = self.file(input)?;
        let scan = file.with(branchyard_imports::scan).map_err(refused)?;
        let spelling = scan.spelling.iter().map(spelling).collect();
        Ok(Box::new(Scanned { columns: columns(&scan), spelling, file, scan }))
    }

    fn columns(&self, input: FormatInput<'_>) -> Result<Vec<String>, FormatError> {
        if input.file_type == FileType::Sqlite {
            return sqlite::columns_of(&*self.sqlite, &input);
        }
        self.file(input)?.with(branchyard_imports::columns).map_err(refused)
    }

    fn tables(&self, input: FormatInput<'_>) -> Result<Vec<String>, FormatError> {
        if input.file_type != FileType::Sqlite {
            return Ok(Vec::new());
        }
        let mut file = (input.open)().map_err(FormatError::Io)?;
        self.sqlite.sqlite_tables(&mut file, input.timeout)
    }
}

impl FileFormats {
    fn file<'a>(&self, input: FormatInput<'a>) -> Result<File<'a>, FormatError> {
        let unknown = || FormatError::File("this server cannot read that format".to_owned());
        let format = format_of(input.file_type).ok_or_else(unknown)?;
        let text = branchyard_imports::TextOptions { counts_spelling: input.counts_spelling, ..text(input.text)? };
        Ok(File { format, text, table: input.table, limits: self.limits, open: input.open })
    }
}

fn text(options: TextOptions) -> Result<branchyard_imports::TextOptions, FormatError> {
    let delimiter = match options.delimiter.map(Delimiter::new) {
        Some(None) => return Err(FormatError::File("the delimiter cannot be a quote or a line end".to_owned())),
        delimiter => delimiter.flatten(),
    };
    let encoding = match options.encoding {
        TextEncoding::Utf8 => Encoding::Utf8,
        TextEncoding::Utf16 => Encoding::Utf16,
        TextEncoding::Windows1252 => Encoding::Windows1252,
    };
    Ok(branchyard_imports::TextOptions { delimiter, encoding, counts_spelling: false })
}

fn spelling(found: &branchyard_imports::ColumnSpelling) -> ColumnSpelling {
    let respelled = |found: &branchyard_imports::Respelled| Respelled {
        changed: found.changed,
        unfit: found.unfit,
        first: found.first.clone(),
    };
    ColumnSpelling {
        has_plus: found.has_plus,
        integer: respelled(&found.integer),
        real: respelled(&found.real),
        numeric: respelled(&found.numeric),
    }
}

/// A file in the form in which `branchyard-imports` opens it.
struct File<'a> {
    format: Format,
    text: branchyard_imports::TextOptions,
    table: &'a str,
    limits: FileLimits,
    open: Box<Opener<'a>>,
}

impl File<'_> {
    fn with<T>(&self, read: impl FnOnce(&Input<'_>) -> T) -> T {
        let open = || Ok(Box::new((self.open)()?) as Box<dyn ReadSeek>);
        read(&Input { format: self.format, table: self.table, limits: self.limits, text: self.text, open: &open })
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
    spelling: Vec<ColumnSpelling>,
}

impl ImportFile for Scanned<'_> {
    fn columns(&self) -> &[InferredColumn] {
        &self.columns
    }

    fn spelling(&self) -> &[ColumnSpelling] {
        &self.spelling
    }

    fn row_count(&self) -> Option<u64> {
        Some(self.scan.rows)
    }

    fn rows(&self, targets: &[TargetColumn]) -> Result<Box<dyn RowSource + '_>, FormatError> {
        let conversion = conversions(&self.columns, targets);
        let rows = self.file.with(|input| branchyard_imports::rows(input, &self.scan, conversion)).map_err(refused)?;
        Ok(Box::new(Converted::new(rows)))
    }
}

/// Returns how the values of each column in the file become those of its target column.
pub(crate) fn conversions(columns: &[InferredColumn], targets: &[TargetColumn]) -> impl Fn(&str) -> Conversion {
    move |name| {
        let at = columns.iter().position(|column| column.name == name);
        match at.and_then(|at| targets.get(at)) {
            Some(TargetColumn::Typed(declared)) => Affinity::of_declared_type(declared).into(),
            Some(TargetColumn::Chosen { chosen, declared }) => {
                Conversion::chosen(chosen_type(*chosen), Affinity::of_declared_type(declared))
            }
            None => Affinity::Text.into(),
        }
    }
}

fn chosen_type(chosen: ImportType) -> ChosenType {
    match chosen {
        ImportType::Integer => ChosenType::Integer,
        ImportType::Real => ChosenType::Real,
        ImportType::Numeric => ChosenType::Numeric,
        ImportType::Text => ChosenType::Text,
        ImportType::Blob => ChosenType::Blob,
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
