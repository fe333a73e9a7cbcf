//! `parquet`: flat columns as values, nested ones as JSON text.
//!
//! The `parquet` crate reads the file. Before that, every page is decompressed and counted (`pages`), because the crate
//! decompresses a page whole, and for some codecs without a bound. Types at which the crate would panic are rejected from
//! the schema; other panics are caught.
//!
//! Memory: the largest page of each column of a row group, at most [`pages::MOST_BYTES`] together.

mod chunks;
mod field;
mod pages;
mod schema;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::reader::RowIter;

use self::chunks::Chunks;
use self::field::FieldMeaning;
use crate::columns::Columns;
use crate::error::{FileError, RowError, RowErrors};
use crate::failure::FirstFailure;
use crate::format::{FileLimits, Input};
use crate::typed::{Record, Records};

/// A reader that returns a Parquet file row by row.
pub(crate) struct ParquetRecords {
    rows: RowIter<'static>,
    columns: Columns,
    /// The interpretation of each column's numbers.
    meanings: Vec<FieldMeaning>,
    failure: FirstFailure,
    limits: FileLimits,
    number: u64,
}

impl ParquetRecords {
    /// Opens a file and reads its metadata.
    pub(crate) fn open(input: &Input<'_>) -> Result<Self, FileError> {
        let failure = FirstFailure::default();
        let (reader, _) = file(input, &failure)?;
        let schema = reader.metadata().file_metadata().schema_descr_ptr();
        let mut columns = Columns::default();
        let mut meanings = Vec::new();
        for field in schema.root_schema().get_fields() {
            columns.add(field.name(), input.limits).map_err(|fault| FileError::whole(fault.detail))?;
            schema::check(field)?;
            meanings.push(FieldMeaning::of(field));
        }
        let rows = RowIter::from_file_into(Box::new(reader));
        Ok(Self { rows, columns, meanings, failure, limits: input.limits, number: 0 })
    }
}

/// Decompresses every page once, to check that the file keeps its limits.
pub(crate) fn check_pages(input: &Input<'_>) -> Result<(), FileError> {
    let failure = FirstFailure::default();
    let (reader, chunks) = file(input, &failure)?;
    guarded(&failure, || pages::check(reader.metadata(), &chunks, input.limits.expanded_bytes))?
}

fn file(input: &Input<'_>, failure: &FirstFailure) -> Result<(SerializedFileReader<Chunks>, Arc<Chunks>), FileError> {
    let open = || Chunks::open((input.open)().map_err(FileError::Io)?, failure);
    let reader = guarded(failure, || SerializedFileReader::new(open()?).map_err(|error| wrong(failure, &error)))??;
    Ok((reader, Arc::new(open()?)))
}

fn wrong(failure: &FirstFailure, error: &dyn std::fmt::Display) -> FileError {
    failure.or_file(format!("not a Parquet file that can be read: {error}"))
}

/// Runs code of the `parquet` crate. A panic in it counts as a defect of the file.
fn guarded<T>(failure: &FirstFailure, run: impl FnOnce() -> T) -> Result<T, FileError> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|_| wrong(failure, &"it is damaged"))
}

impl Records for ParquetRecords {
    fn columns(&self) -> &[String] {
        self.columns.names()
    }

    fn next_record(&mut self, record: &mut Record, errors: &mut RowErrors) -> Result<bool, FileError> {
        loop {
            self.number += 1;
            let rows = &mut self.rows;
            let row = match guarded(&self.failure, || rows.next())? {
                None => return Ok(false),
                Some(Ok(row)) => row,
                Some(Err(error)) => {
                    let detail = format!("the record cannot be read: {error}");
                    return Err(self.failure.or(FileError::at(self.number, detail)));
                }
            };
            let found_before = errors.total();
            record.begin(self.number);
            let columns = self.meanings.iter().zip(self.columns.names());
            for (place, ((_, field), (meaning, name))) in row.into_columns().into_iter().zip(columns).enumerate() {
                match field::value(field, meaning, self.limits) {
                    Ok(value) => {
                        record.set(place, value);
                    }
                    Err(detail) => errors.push(RowError::new(self.number, Some(name), detail)),
                }
            }
            if errors.total() == found_before {
                return Ok(true);
            }
        }
    }
}

#[cfg(test)]
mod tests;
