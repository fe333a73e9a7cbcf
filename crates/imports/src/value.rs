//! Values of a table, and the conversion of fields to them.

use crate::error::shortened;
use crate::infer::ColumnType;
use crate::number;

/// A value as stored by the engine.
#[derive(Debug, Clone, PartialEq)]
pub enum CellValue {
    /// No value.
    Null,
    /// A 64-bit integer.
    Integer(i64),
    /// A floating-point number, which is infinite only in formats that can express that. NaN does not occur, because the
    /// engine stores none.
    Real(f64),
    /// Text, possibly empty.
    Text(String),
    /// Bytes, possibly empty.
    Blob(Vec<u8>),
}

impl CellValue {
    /// Returns the length of a text or blob in bytes; 0 for other values.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Null | Self::Integer(_) | Self::Real(_) => 0,
            Self::Text(text) => text.len(),
            Self::Blob(bytes) => bytes.len(),
        }
    }
}

/// The values that a column of a table accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Affinity {
    /// Requires whole numbers within 64 bits.
    Integer,
    /// Requires finite numbers.
    Real,
    /// Stores numbers as numbers and all else as text.
    Numeric,
    /// Stores text unchanged.
    Text,
    /// Stores text unchanged, but an empty field as NULL.
    None,
}

impl Affinity {
    /// Returns the affinity of a declared type; `""` is that of a column without a type. Applies SQLite's rules
    /// (<https://sqlite.org/datatype3.html>, 3.1) in their order: `CHARINT` is an integer, and `FLOATING POINT` too.
    pub fn of_declared_type(declared: &str) -> Self {
        let declared = declared.to_ascii_uppercase();
        let names = |parts: &[&str]| parts.iter().any(|part| declared.contains(part));
        if names(&["INT"]) {
            Self::Integer
        } else if names(&["CHAR", "CLOB", "TEXT"]) {
            Self::Text
        } else if declared.trim().is_empty() || names(&["BLOB"]) {
            Self::None
        } else if names(&["REAL", "FLOA", "DOUB"]) {
            Self::Real
        } else {
            Self::Numeric
        }
    }
}

/// A type that the importing user chose for a column of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChosenType {
    /// Whole numbers within 64 bits.
    Integer,
    /// Finite numbers.
    Real,
    /// Any values. Numbers become numbers.
    Numeric,
    /// Text, unchanged.
    Text,
    /// Bytes. A text holds them as base64.
    Blob,
}

/// How the values of a column of a file become values of a column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conversion {
    chosen: Option<ChosenType>,
    affinity: Affinity,
}

impl From<Affinity> for Conversion {
    fn from(affinity: Affinity) -> Self {
        Self { chosen: None, affinity }
    }
}

impl Conversion {
    /// Creates a conversion of values that have to fit `chosen`, to a column with this affinity.
    pub fn chosen(chosen: ChosenType, affinity: Affinity) -> Self {
        Self { chosen: Some(chosen), affinity }
    }

    /// Converts a field of a text format.
    pub(crate) fn field(self, text: &str) -> Result<CellValue, InvalidValue> {
        match self.chosen {
            Some(ChosenType::Blob) if text.is_empty() => Ok(CellValue::Null),
            Some(ChosenType::Blob) => convert_typed(CellValue::Blob(bytes_of(text)?), self.affinity),
            Some(chosen) => {
                let fitting = chosen.affinity();
                let value = convert(text, fitting)?;
                if fitting == self.affinity { Ok(value) } else { convert(text, self.affinity) }
            }
            None => convert(text, self.affinity),
        }
    }

    /// Converts a value of a typed format.
    pub(crate) fn typed(self, value: CellValue) -> Result<CellValue, InvalidValue> {
        match (self.chosen, value) {
            (Some(ChosenType::Blob), CellValue::Text(text)) => {
                convert_typed(CellValue::Blob(bytes_of(&text)?), self.affinity)
            }
            (Some(ChosenType::Blob), CellValue::Integer(integer)) => Err(InvalidValue::NotBase64(integer.to_string())),
            (Some(ChosenType::Blob), CellValue::Real(real)) => Err(InvalidValue::NotBase64(number::shown(real))),
            (Some(ChosenType::Blob) | None, value) => convert_typed(value, self.affinity),
            (Some(chosen), value) => {
                let fitting = chosen.affinity();
                if fitting == self.affinity {
                    return convert_typed(value, fitting);
                }
                convert_typed(value.clone(), fitting)?;
                convert_typed(value, self.affinity)
            }
        }
    }
}

impl ChosenType {
    fn affinity(self) -> Affinity {
        match self {
            Self::Integer => Affinity::Integer,
            Self::Real => Affinity::Real,
            Self::Numeric => Affinity::Numeric,
            Self::Text => Affinity::Text,
            Self::Blob => Affinity::None,
        }
    }
}

fn bytes_of(text: &str) -> Result<Vec<u8>, InvalidValue> {
    data_encoding::BASE64.decode(text.as_bytes()).map_err(|_| InvalidValue::NotBase64(shortened(text)))
}

impl From<ColumnType> for Affinity {
    fn from(column_type: ColumnType) -> Self {
        match column_type {
            ColumnType::Integer => Self::Integer,
            ColumnType::Real => Self::Real,
            ColumnType::Text => Self::Text,
            ColumnType::Blob | ColumnType::Mixed => Self::None,
        }
    }
}

/// The reason why a value does not fit into a column. Displayed like `'x' is not an integer`, with values longer than 100
/// characters shortened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidValue {
    /// Not a whole number, or not within 64 bits.
    #[error("'{}' is not an integer", shortened(.0))]
    NotAnInteger(String),
    /// Not a number, or not finite.
    #[error("'{}' is not a number", shortened(.0))]
    NotANumber(String),
    /// Not base64, which stands for a blob in text.
    #[error("'{}' is not base64", shortened(.0))]
    NotBase64(String),
    /// A blob where a number is required.
    #[error("a BLOB is not {0}")]
    Bytes(&'static str),
}

/// Converts a field to the value of a column with the given affinity. An empty field is an empty text in a text column and
/// NULL in any other.
///
/// # Errors
/// [`InvalidValue`] if the field does not fit into an integer or real column.
pub fn convert(text: &str, affinity: Affinity) -> Result<CellValue, InvalidValue> {
    if text.is_empty() && affinity != Affinity::Text {
        return Ok(CellValue::Null);
    }
    match affinity {
        Affinity::Integer => {
            number::integer(text).map(CellValue::Integer).ok_or_else(|| InvalidValue::NotAnInteger(shortened(text)))
        }
        Affinity::Real => {
            number::real(text).map(CellValue::Real).ok_or_else(|| InvalidValue::NotANumber(shortened(text)))
        }
        Affinity::Numeric => Ok(numeric(text)),
        Affinity::Text | Affinity::None => Ok(CellValue::Text(text.to_owned())),
    }
}

/// Converts a field for a numeric column. Whole numbers beyond 64 bits stay text, because they would lose digits as real
/// numbers.
fn numeric(text: &str) -> CellValue {
    if let Some(integer) = number::integer(text) {
        return CellValue::Integer(integer);
    }
    match number::real(text) {
        Some(real) if !number::is_whole(text) => CellValue::Real(real),
        Some(_) | None => CellValue::Text(text.to_owned()),
    }
}

/// Converts a value of a typed format to the value of a column with the given affinity. NULL stays NULL in every column.
/// Text has to have the form that [`convert`] requires, except that an empty text is a value like any other.
///
/// # Errors
/// [`InvalidValue`] if the value does not fit into an integer or real column.
pub(crate) fn convert_typed(value: CellValue, affinity: Affinity) -> Result<CellValue, InvalidValue> {
    match (affinity, value) {
        (_, CellValue::Null) => Ok(CellValue::Null),
        (Affinity::Integer, CellValue::Real(real)) => number::exact_integer(real)
            .map(CellValue::Integer)
            .ok_or_else(|| InvalidValue::NotAnInteger(number::shown(real))),
        (Affinity::Integer, CellValue::Text(text)) => {
            number::integer(&text).map(CellValue::Integer).ok_or_else(|| InvalidValue::NotAnInteger(shortened(&text)))
        }
        (Affinity::Integer, CellValue::Blob(_)) => Err(InvalidValue::Bytes("an integer")),
        (Affinity::Real, CellValue::Integer(integer)) => Ok(CellValue::Real(number::nearest_real(integer))),
        (Affinity::Real, CellValue::Text(text)) => {
            number::real(&text).map(CellValue::Real).ok_or_else(|| InvalidValue::NotANumber(shortened(&text)))
        }
        (Affinity::Real, CellValue::Blob(_)) => Err(InvalidValue::Bytes("a number")),
        (Affinity::Numeric, CellValue::Text(text)) => Ok(numeric(&text)),
        (Affinity::Text, CellValue::Integer(integer)) => Ok(CellValue::Text(integer.to_string())),
        (Affinity::Text, CellValue::Real(real)) => Ok(CellValue::Text(number::shown(real))),
        (_, value) => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> CellValue {
        CellValue::Text(text.to_owned())
    }

    #[test]
    fn conversions() {
        let cases = [
            (Affinity::Integer, "-12", CellValue::Integer(-12)),
            (Affinity::Integer, "", CellValue::Null),
            (Affinity::Real, "12", CellValue::Real(12.0)),
            (Affinity::Real, "1.5", CellValue::Real(1.5)),
            (Affinity::Real, "", CellValue::Null),
            (Affinity::Numeric, "12", CellValue::Integer(12)),
            (Affinity::Numeric, "1.5", CellValue::Real(1.5)),
            (Affinity::Numeric, "9223372036854775808", text("9223372036854775808")),
            (Affinity::Numeric, "1e999", text("1e999")),
            (Affinity::Numeric, "007", text("007")),
            (Affinity::Numeric, "x", text("x")),
            (Affinity::Numeric, "", CellValue::Null),
            (Affinity::Text, "12", text("12")),
            (Affinity::Text, "", text("")),
            (Affinity::None, "12", text("12")),
            (Affinity::None, "", CellValue::Null),
        ];
        for (affinity, field, expected) in cases {
            assert_eq!(convert(field, affinity), Ok(expected), "{affinity:?} {field:?}");
        }
    }

    #[test]
    fn refusals() {
        let cases = [
            (Affinity::Integer, "x", "'x' is not an integer"),
            (Affinity::Integer, "1.0", "'1.0' is not an integer"),
            (Affinity::Integer, "9223372036854775808", "'9223372036854775808' is not an integer"),
            (Affinity::Integer, " ", "' ' is not an integer"),
            (Affinity::Real, "x", "'x' is not a number"),
            (Affinity::Real, "1e999", "'1e999' is not a number"),
            (Affinity::Real, "007", "'007' is not a number"),
        ];
        for (affinity, field, expected) in cases {
            let refusal = convert(field, affinity).unwrap_err();
            assert_eq!(refusal.to_string(), expected);
        }
        let long = convert(&"x".repeat(5_000), Affinity::Integer).unwrap_err();
        assert_eq!(long.to_string(), format!("'{}…' is not an integer", "x".repeat(100)));
    }

    #[test]
    fn typed_conversions() {
        let (int, real, blob) = (CellValue::Integer(12), CellValue::Real(1.5), CellValue::Blob(vec![1]));
        let cases = [
            (Affinity::Integer, CellValue::Null, CellValue::Null),
            (Affinity::Integer, int.clone(), int.clone()),
            (Affinity::Integer, CellValue::Real(2.0), CellValue::Integer(2)),
            (Affinity::Integer, text("-3"), CellValue::Integer(-3)),
            (Affinity::Real, int.clone(), CellValue::Real(12.0)),
            (Affinity::Real, text("1e2"), CellValue::Real(100.0)),
            (Affinity::Numeric, text("1.5"), real.clone()),
            (Affinity::Numeric, text("x"), text("x")),
            (Affinity::Numeric, text(""), text("")),
            (Affinity::Numeric, blob.clone(), blob.clone()),
            (Affinity::Text, CellValue::Null, CellValue::Null),
            (Affinity::Text, int.clone(), text("12")),
            (Affinity::Text, real.clone(), text("1.5")),
            (Affinity::Text, CellValue::Real(1e100), text("1e+100")),
            (Affinity::Text, blob.clone(), blob.clone()),
            (Affinity::None, int.clone(), int),
            (Affinity::None, text(""), text("")),
            (Affinity::None, blob.clone(), blob),
        ];
        for (affinity, value, expected) in cases {
            assert_eq!(convert_typed(value.clone(), affinity), Ok(expected), "{affinity:?} {value:?}");
        }
    }

    #[test]
    fn typed_refusals() {
        let blob = || CellValue::Blob(vec![1]);
        let cases = [
            (Affinity::Integer, CellValue::Real(1.5), "'1.5' is not an integer"),
            (Affinity::Integer, CellValue::Real(1e19), "'1e+19' is not an integer"),
            (Affinity::Integer, text(""), "'' is not an integer"),
            (Affinity::Integer, blob(), "a BLOB is not an integer"),
            (Affinity::Real, text("x"), "'x' is not a number"),
            (Affinity::Real, blob(), "a BLOB is not a number"),
        ];
        for (affinity, value, expected) in cases {
            assert_eq!(convert_typed(value, affinity).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn affinities_of_declared_types() {
        let cases = [
            ("INTEGER", Affinity::Integer),
            ("unsigned big int", Affinity::Integer),
            ("CHARINT", Affinity::Integer),
            ("FLOATING POINT", Affinity::Integer),
            ("VARCHAR(255)", Affinity::Text),
            ("clob", Affinity::Text),
            ("TEXT", Affinity::Text),
            ("BLOB", Affinity::None),
            ("", Affinity::None),
            ("DOUBLE PRECISION", Affinity::Real),
            ("float", Affinity::Real),
            ("REAL", Affinity::Real),
            ("DECIMAL(10,5)", Affinity::Numeric),
            ("BOOLEAN", Affinity::Numeric),
            ("DATETIME", Affinity::Numeric),
            ("STRING", Affinity::Numeric),
        ];
        for (declared, expected) in cases {
            assert_eq!(Affinity::of_declared_type(declared), expected, "{declared}");
        }
    }
}
