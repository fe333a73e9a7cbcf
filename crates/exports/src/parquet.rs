//! One table as a Parquet file.
//!
//! A column of SQLite may hold values of any class, and a column of Parquet has one type. So the table is read twice: first for the
//! classes of its values ([`ColumnKinds`]), then for the file ([`ParquetSink`]).
//!
//! | a column with | becomes |
//! |---|---|
//! | whole numbers | `INT64` |
//! | numbers, if none of the whole ones loses digits | `DOUBLE` |
//! | only blobs, or text that is not UTF-8 | `BYTE_ARRAY` |
//! | blobs among other values | `BYTE_ARRAY`, with the text of the others |
//! | any other values | `BYTE_ARRAY` with the logical type `String` |
//! | no values | as its declared type |

use std::fs::File;
use std::ops::ControlFlow;
use std::sync::Arc;

use branchyard_domain::ports::{Column, RowSink, ValueRef};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

use crate::ExportError;

/// Maximum size of the values of a group of rows in bytes, except for a single longer row.
pub const GROUP_BYTES: usize = 32 << 20;
const GROUP_ROWS: usize = 100_000;
/// The largest magnitude up to which every whole number is exact as a double.
const EXACT: u64 = 1 << 53;

/// The type of a column in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Integer,
    Double,
    Text,
    Bytes,
}

/// The classes of the values of a column.
#[derive(Debug, Clone, Default)]
struct Classes {
    integers: bool,
    inexact: bool,
    reals: bool,
    texts: bool,
    bytes: bool,
    declared: String,
}

impl Classes {
    fn observe(&mut self, value: &ValueRef<'_>) {
        match value {
            ValueRef::Null => {}
            ValueRef::Integer(number) => {
                self.integers = true;
                self.inexact |= number.unsigned_abs() > EXACT;
            }
            ValueRef::Real(_) => self.reals = true,
            ValueRef::Text(text) if std::str::from_utf8(text).is_ok() => self.texts = true,
            ValueRef::Text(_) | ValueRef::Blob(_) => self.bytes = true,
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self { bytes: true, .. } => Kind::Bytes,
            Self { texts: true, .. } | Self { reals: true, inexact: true, .. } => Kind::Text,
            Self { reals: true, .. } => Kind::Double,
            Self { integers: true, .. } => Kind::Integer,
            _ if self.declared.contains("INT") => Kind::Integer,
            _ if ["REAL", "FLOA", "DOUB"].iter().any(|part| self.declared.contains(part)) => Kind::Double,
            _ if self.declared.contains("BLOB") => Kind::Bytes,
            _ => Kind::Text,
        }
    }
}

/// A sink that finds the types of the columns of a table.
#[derive(Debug, Default)]
pub struct ColumnKinds(Vec<Classes>);

impl RowSink for ColumnKinds {
    fn columns(&mut self, columns: &[Column]) -> ControlFlow<()> {
        let declared = |column: &Column| column.declared_type.clone().unwrap_or_default().to_ascii_uppercase();
        self.0 = columns.iter().map(|column| Classes { declared: declared(column), ..Classes::default() }).collect();
        ControlFlow::Continue(())
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        for (value, classes) in row.iter().zip(&mut self.0) {
            classes.observe(value);
        }
        ControlFlow::Continue(())
    }
}

/// The values of a column in the group that is being filled.
#[derive(Debug)]
enum Values {
    Integer(Vec<i64>),
    Double(Vec<f64>),
    Bytes(Vec<ByteArray>),
}

#[derive(Debug)]
struct Buffer {
    values: Values,
    /// For each row, 1 if it has a value and 0 if it is NULL.
    levels: Vec<i16>,
}

/// A sink that writes a Parquet file. It must receive the same rows as the [`ColumnKinds`] before it.
pub struct ParquetSink<'f> {
    kinds: Vec<Kind>,
    table: String,
    into: &'f File,
    writer: Option<SerializedFileWriter<&'f File>>,
    buffers: Vec<Buffer>,
    bytes: usize,
    written: u64,
    most: u64,
    failure: Option<ExportError>,
}

impl<'f> ParquetSink<'f> {
    /// Creates a file of at most about `most` bytes of values in the empty file `into`.
    pub fn new(kinds: &ColumnKinds, table: &str, into: &'f File, most: u64) -> Self {
        Self {
            kinds: kinds.0.iter().map(Classes::kind).collect(),
            table: table.to_owned(),
            into,
            writer: None,
            buffers: Vec::new(),
            bytes: 0,
            written: 0,
            most,
            failure: None,
        }
    }

    /// Writes the rest of the file.
    ///
    /// # Errors
    /// The error that stopped the sink; [`ExportError::Io`] if the file cannot be written.
    pub fn finish(mut self) -> Result<(), ExportError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        self.flush()?;
        match self.writer {
            Some(writer) => writer.close().map(drop).map_err(failed),
            None => Ok(()),
        }
    }

    fn begin(&mut self, columns: &[Column]) -> Result<(), ExportError> {
        let fields = columns.iter().zip(&self.kinds).map(|(column, kind)| field(&column.name, *kind));
        let fields = fields.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let schema = Type::group_type_builder(&self.table).with_fields(fields).build().map_err(failed)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_created_by("branchyard".to_owned())
            .build();
        let writer = SerializedFileWriter::new(self.into, Arc::new(schema), Arc::new(properties)).map_err(failed)?;
        self.writer = Some(writer);
        self.buffers = self.kinds.iter().map(|kind| Buffer::new(*kind)).collect();
        Ok(())
    }

    fn push(&mut self, row: &[ValueRef<'_>]) -> Result<(), ExportError> {
        for (value, buffer) in row.iter().zip(&mut self.buffers) {
            self.bytes += buffer.push(value).ok_or_else(|| {
                let text = "the rows of the view changed while they were read; choose another format";
                ExportError::DoesNotFit(text.to_owned())
            })?;
        }
        let rows = self.buffers.first().map_or(0, |buffer| buffer.levels.len());
        if self.bytes >= GROUP_BYTES || rows >= GROUP_ROWS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        let Some(writer) = self.writer.as_mut().filter(|_| self.bytes > 0) else { return Ok(()) };
        self.written += u64::try_from(self.bytes).unwrap_or(u64::MAX);
        if self.written > self.most {
            return Err(ExportError::DoesNotFit(format!(
                "the file would have more than {} bytes of values",
                self.most
            )));
        }
        let mut group = writer.next_row_group().map_err(failed)?;
        for buffer in &mut self.buffers {
            buffer.write(&mut group).map_err(failed)?;
        }
        group.close().map_err(failed)?;
        self.bytes = 0;
        Ok(())
    }

    fn take(&mut self, write: impl FnOnce(&mut Self) -> Result<(), ExportError>) -> ControlFlow<()> {
        self.failure = write(self).err();
        if self.failure.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl RowSink for ParquetSink<'_> {
    fn columns(&mut self, columns: &[Column]) -> ControlFlow<()> {
        self.take(|this| this.begin(columns))
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        self.take(|this| this.push(row))
    }
}

impl Buffer {
    fn new(kind: Kind) -> Self {
        let values = match kind {
            Kind::Integer => Values::Integer(Vec::new()),
            Kind::Double => Values::Double(Vec::new()),
            Kind::Text | Kind::Bytes => Values::Bytes(Vec::new()),
        };
        Self { values, levels: Vec::new() }
    }

    /// Adds a value, and returns about how many bytes of memory it takes. Returns `None` if the value is not of the type.
    fn push(&mut self, value: &ValueRef<'_>) -> Option<usize> {
        let (is_there, bytes) = match (&mut self.values, value) {
            (Values::Integer(values), ValueRef::Integer(number)) => {
                values.push(*number);
                (true, 8)
            }
            (Values::Double(values), ValueRef::Real(number)) => {
                values.push(*number);
                (true, 8)
            }
            (Values::Double(values), ValueRef::Integer(number)) => {
                #[expect(clippy::cast_precision_loss, reason = "numbers that would lose digits make a column of text")]
                values.push(*number as f64);
                (true, 8)
            }
            (Values::Bytes(values), value) => match bytes_of(value) {
                Some(bytes) => {
                    let length = bytes.len();
                    values.push(ByteArray::from(bytes));
                    (true, 32 + length)
                }
                None => (false, 0),
            },
            (_, ValueRef::Null) => (false, 0),
            _ => return None,
        };
        self.levels.push(i16::from(is_there));
        Some(2 + bytes)
    }

    fn write(&mut self, group: &mut SerializedRowGroupWriter<'_, &File>) -> Result<(), ParquetError> {
        match &mut self.values {
            Values::Integer(values) => write::<Int64Type>(group, values, &mut self.levels),
            Values::Double(values) => write::<DoubleType>(group, values, &mut self.levels),
            Values::Bytes(values) => write::<ByteArrayType>(group, values, &mut self.levels),
        }
    }
}

fn write<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, &File>,
    values: &mut Vec<T::T>,
    levels: &mut Vec<i16>,
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("a group has fewer columns than the file".to_owned());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(values, Some(levels), None)?;
    values.clear();
    levels.clear();
    column.close()
}

/// Returns a value as bytes; `None` for NULL.
fn bytes_of(value: &ValueRef<'_>) -> Option<Vec<u8>> {
    Some(match value {
        ValueRef::Null => return None,
        ValueRef::Integer(number) => number.to_string().into_bytes(),
        ValueRef::Real(number) => format!("{number:?}").into_bytes(),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_vec(),
    })
}

fn field(name: &str, kind: Kind) -> Result<Arc<Type>, ParquetError> {
    let (physical, logical) = match kind {
        Kind::Integer => (Physical::INT64, None),
        Kind::Double => (Physical::DOUBLE, None),
        Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Kind::Bytes => (Physical::BYTE_ARRAY, None),
    };
    let builder = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
    builder.with_logical_type(logical).build().map(Arc::new)
}

fn failed(error: ParquetError) -> ExportError {
    ExportError::Io(std::io::Error::other(error))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};

    use branchyard_imports::CellValue::{self, Integer, Null, Real};

    use super::*;

    fn columns(names: &[&str]) -> Vec<Column> {
        let column = |name: &&str| Column {
            name: (*name).to_owned(),
            declared_type: Some("INTEGER".to_owned()),
            is_primary_key: false,
            source_table: String::new(),
        };
        names.iter().map(column).collect()
    }

    fn file_of(names: &[&str], rows: &[Vec<ValueRef<'_>>], most: u64) -> Result<Vec<u8>, ExportError> {
        let mut kinds = ColumnKinds::default();
        assert!(kinds.columns(&columns(names)).is_continue());
        for row in rows {
            assert!(kinds.row(row).is_continue());
        }
        let mut file = tempfile::tempfile().unwrap();
        let mut sink = ParquetSink::new(&kinds, "t", &file, most);
        assert!(sink.columns(&columns(names)).is_continue());
        for row in rows {
            if sink.row(row).is_break() {
                break;
            }
        }
        sink.finish()?;
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        Ok(bytes)
    }

    fn read_back(bytes: Vec<u8>) -> Vec<Vec<CellValue>> {
        use branchyard_imports::{Affinity, FileLimits, Format, Input, RowErrors, TextOptions, rows, scan};
        let open = move || Ok(Box::new(std::io::Cursor::new(bytes.clone())) as Box<_>);
        let (limits, text) = (FileLimits::default(), TextOptions::default());
        let input = Input { format: Format::Parquet, table: "t", limits, text, open: &open };
        let found = scan(&input).unwrap();
        let mut rows = rows(&input, &found, |_| Affinity::None).unwrap();
        let mut all = Vec::new();
        while let Some(row) = rows.next_row(&mut RowErrors::default()).unwrap() {
            all.push(row.values.clone());
        }
        all
    }

    #[test]
    fn columns_have_the_type_of_their_values() {
        let (int, real, text) = (ValueRef::Integer(7), ValueRef::Real(2.5), ValueRef::Text(b"x"));
        let large = ValueRef::Integer(i64::MAX);
        let rows = [
            vec![int, int, int, large, ValueRef::Blob(b"\xff"), ValueRef::Null],
            vec![ValueRef::Null, real, text, real, int, ValueRef::Null],
        ];
        let bytes = file_of(&["i", "r", "t", "l", "b", "n"], &rows, 1 << 20).unwrap();
        let text = |text: &str| CellValue::Text(text.to_owned());
        let blob = |bytes: &[u8]| CellValue::Blob(bytes.to_vec());
        assert_eq!(
            read_back(bytes.clone()),
            [
                vec![Integer(7), Real(7.0), text("7"), text(&i64::MAX.to_string()), blob(b"\xff"), Null],
                vec![Null, Real(2.5), text("x"), text("2.5"), blob(b"7"), Null],
            ]
        );
        assert_eq!(bytes, file_of(&["i", "r", "t", "l", "b", "n"], &rows, 1 << 20).unwrap());
    }

    #[test]
    fn groups_and_limits() {
        let rows: Vec<_> = (0..250_000).map(|number| vec![ValueRef::Integer(number)]).collect();
        let found = read_back(file_of(&["n"], &rows, u64::MAX).unwrap());
        assert_eq!((found.len(), &found[249_999]), (250_000, &vec![Integer(249_999)]));
        assert!(read_back(file_of(&["n"], &[], 1).unwrap()).is_empty());
        let error = file_of(&["n"], &rows, 1 << 20).unwrap_err();
        assert_eq!(error.to_string(), "the file would have more than 1048576 bytes of values");
    }
}
