//! Formats with typed values: their columns and rows.

use crate::error::{FileError, RowError, RowErrors};
use crate::format::FileLimits;
use crate::infer::ColumnType;
use crate::rows::{Row, Rows};
use crate::scan::Scan;
use crate::value::{CellValue, Conversion};

/// One record of a file, with the values as the file holds them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Record {
    /// Location of the record, as in row errors.
    pub line: u64,
    /// The value of each column, by the column's position. May be shorter than the list of columns.
    pub values: Vec<Option<CellValue>>,
}

impl Record {
    /// Clears all values, for the record that begins at `line`.
    pub fn begin(&mut self, line: u64) {
        self.line = line;
        self.values.clear();
    }

    /// Sets the value of a column.
    pub fn set(&mut self, place: usize, value: CellValue) {
        if self.values.len() <= place {
            self.values.resize(place + 1, None);
        }
        self.values[place] = Some(value);
    }

    /// Sets the value of a column. Fails if the column has one.
    pub(crate) fn set_once(&mut self, place: usize, value: CellValue) -> Result<(), String> {
        if self.values.get(place).is_some_and(Option::is_some) {
            return Err("the key occurs twice".to_owned());
        }
        self.set(place, value);
        Ok(())
    }
}

/// The records of a file with typed values.
pub trait Records {
    /// Returns the names of the columns found so far, in the order of their first appearance.
    fn columns(&self) -> &[String];

    /// Replaces `record` by the next valid one. Returns `false` after the last. Defects of skipped records are added to
    /// `errors`.
    ///
    /// # Errors
    /// [`FileError::File`] and [`FileError::Io`]. Neither can be recovered from.
    fn next_record(&mut self, record: &mut Record, errors: &mut RowErrors) -> Result<bool, FileError>;

    /// Returns `true` if a new table keeps every value in its own storage class, not in the widest one of its column.
    fn keeps_classes(&self) -> bool {
        false
    }
}

/// Reads all records for their columns, the types of these, and all row errors that can be found without a table.
///
/// # Errors
/// As [`crate::scan`]; [`FileError::File`] also if there are no columns.
pub fn scan_records(records: &mut dyn Records, limits: FileLimits) -> Result<Scan, FileError> {
    let mut kinds: Vec<Kinds> = Vec::new();
    let mut errors = RowErrors::default();
    let mut record = Record::default();
    let mut rows = 0;
    loop {
        match records.next_record(&mut record, &mut errors) {
            Ok(true) => rows += 1,
            Ok(false) => break,
            Err(stopped_by) => return Err(errors.then(stopped_by)),
        }
        kinds.resize(records.columns().len().max(kinds.len()), Kinds::default());
        for ((value, kind), name) in record.values.iter().zip(&mut kinds).zip(records.columns()) {
            let Some(value) = value else { continue };
            if value.len() > limits.value_bytes {
                errors.push(RowError::new(record.line, Some(name), limits.too_long()));
            }
            kind.observe(value);
        }
    }
    errors.into_result()?;
    let columns = records.columns().to_vec();
    if columns.is_empty() {
        return Err(FileError::whole("the file has no columns"));
    }
    if columns.len() > limits.columns {
        return Err(FileError::whole(format!("more than {} columns", limits.columns)));
    }
    kinds.resize(columns.len(), Kinds::default());
    let keep = records.keeps_classes();
    let types = kinds.iter().map(|kind| if keep { kind.kept() } else { kind.widest() }).collect();
    Ok(Scan { columns, types, spelling: Vec::new(), rows, layout: None })
}

/// The classes of values in a column. NULL is ignored.
#[derive(Debug, Clone, Copy, Default)]
struct Kinds {
    integer: bool,
    real: bool,
    text: bool,
    blob: bool,
}

impl Kinds {
    fn observe(&mut self, value: &CellValue) {
        match value {
            CellValue::Null => {}
            CellValue::Integer(_) => self.integer = true,
            CellValue::Real(_) => self.real = true,
            CellValue::Text(_) => self.text = true,
            CellValue::Blob(_) => self.blob = true,
        }
    }

    fn widest(self) -> ColumnType {
        match self {
            Self { blob: true, integer: false, real: false, text: false } => ColumnType::Blob,
            Self { blob: true, .. } => ColumnType::Mixed,
            Self { text: true, .. } => ColumnType::Text,
            Self { real: true, .. } => ColumnType::Real,
            Self { integer: true, .. } => ColumnType::Integer,
            _ => ColumnType::Text,
        }
    }

    fn kept(self) -> ColumnType {
        let classes = [self.integer, self.real, self.text, self.blob];
        if classes.into_iter().filter(|there| *there).count() > 1 { ColumnType::Mixed } else { self.widest() }
    }
}

/// Converts records to rows of values for the columns of a table. `columns` are those found by an earlier [`scan_records`].
pub fn typed_rows<'r, C: Into<Conversion>>(
    records: Box<dyn Records + 'r>,
    columns: &[String],
    mut conversion: impl FnMut(&str) -> C,
) -> Box<dyn Rows + 'r> {
    let conversions = columns.iter().map(|name| conversion(name).into()).collect();
    let (record, row) = (Record::default(), Row::default());
    Box::new(TypedRows { records, columns: columns.to_vec(), conversions, record, row })
}

struct TypedRows<'r> {
    records: Box<dyn Records + 'r>,
    columns: Vec<String>,
    conversions: Vec<Conversion>,
    record: Record,
    row: Row,
}

impl Rows for TypedRows<'_> {
    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn next_row(&mut self, errors: &mut RowErrors) -> Result<Option<&Row>, FileError> {
        while self.records.next_record(&mut self.record, errors)? {
            let found_before = errors.total();
            self.row.line = self.record.line;
            self.row.values.clear();
            self.record.values.resize(self.columns.len(), None);
            for ((value, column), conversion) in self.record.values.drain(..).zip(&self.columns).zip(&self.conversions)
            {
                match conversion.typed(value.unwrap_or(CellValue::Null)) {
                    Ok(value) => self.row.values.push(value),
                    Err(invalid) => errors.push(RowError::new(self.row.line, Some(column), invalid.to_string())),
                }
            }
            if errors.total() == found_before {
                return Ok(Some(&self.row));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Affinity;

    struct TypedInput {
        columns: Vec<String>,
        records: std::vec::IntoIter<Vec<Option<CellValue>>>,
        line: u64,
        keep: bool,
    }

    fn given(columns: &[&str], records: Vec<Vec<Option<CellValue>>>) -> TypedInput {
        let columns = columns.iter().map(|name| (*name).to_owned()).collect();
        TypedInput { columns, records: records.into_iter(), line: 0, keep: false }
    }

    impl Records for TypedInput {
        fn columns(&self) -> &[String] {
            &self.columns
        }

        fn next_record(&mut self, record: &mut Record, _: &mut RowErrors) -> Result<bool, FileError> {
            self.line += 1;
            record.begin(self.line);
            Ok(self.records.next().map(|values| record.values = values).is_some())
        }

        fn keeps_classes(&self) -> bool {
            self.keep
        }
    }

    fn int(number: i64) -> Option<CellValue> {
        Some(CellValue::Integer(number))
    }

    fn text(text: &str) -> Option<CellValue> {
        Some(CellValue::Text(text.to_owned()))
    }

    #[test]
    fn types_are_the_widest_of_the_values() {
        use ColumnType::{Blob, Integer, Mixed, Real, Text};
        let real = || Some(CellValue::Real(0.5));
        let blob = || Some(CellValue::Blob(vec![0]));
        let cases = [
            (vec![int(1), None], Integer, Integer),
            (vec![int(1), real()], Real, Mixed),
            (vec![int(1), text("a")], Text, Mixed),
            (vec![real(), text("a")], Text, Mixed),
            (vec![blob()], Blob, Blob),
            (vec![blob(), int(1)], Mixed, Mixed),
            (vec![blob(), text("a")], Mixed, Mixed),
            (vec![Some(CellValue::Null), None], Text, Text),
        ];
        for (values, widest, kept) in cases {
            let records: Vec<_> = values.iter().map(|value| vec![value.clone()]).collect();
            let mut records = given(&["a"], records);
            let scan = scan_records(&mut records, FileLimits::default()).unwrap();
            assert_eq!((scan.types, scan.rows), (vec![widest], 2.min(values.len() as u64)), "{values:?}");
            let mut records = given(&["a"], values.iter().map(|value| vec![value.clone()]).collect());
            records.keep = true;
            assert_eq!(scan_records(&mut records, FileLimits::default()).unwrap().types, [kept], "{values:?}");
        }
    }

    #[test]
    fn files_are_held_to_their_limits() {
        let limits = FileLimits { columns: 1, value_bytes: 3, ..FileLimits::default() };
        let error_text = |records: &mut TypedInput| scan_records(records, limits).unwrap_err().to_string();
        scan_records(&mut given(&["a"], vec![vec![text("abc")]]), limits).unwrap();
        let long = error_text(&mut given(&["a"], vec![vec![int(1)], vec![text("abcd")]]));
        assert_eq!(long, "line 2: column a: the value is longer than 3 bytes");
        assert_eq!(error_text(&mut given(&["a", "b"], vec![vec![int(1)]])), "more than 1 columns");
        assert_eq!(error_text(&mut given(&[], vec![])), "the file has no columns");
    }

    #[test]
    fn absent_values_are_null_and_wrong_ones_are_named() {
        let records = given(&["a", "b"], vec![vec![int(1)], vec![None, text("x")], vec![text("x"), int(2)]]);
        let columns = records.columns.clone();
        let mut rows = typed_rows(Box::new(records), &columns, |_| Affinity::Integer);
        let mut errors = RowErrors::default();
        let first = rows.next_row(&mut errors).unwrap().unwrap();
        assert_eq!((first.line, &first.values[..]), (1, &[CellValue::Integer(1), CellValue::Null][..]));
        assert_eq!(rows.next_row(&mut errors).unwrap(), None);
        let shown: Vec<_> = errors.as_slice().iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["line 2: column b: 'x' is not an integer", "line 3: column a: 'x' is not an integer"]);
    }
}
