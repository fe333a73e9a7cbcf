//! Conversion of the fields of a row to values.

use data_encoding::HEXLOWER;
use parquet::basic::{LogicalType, TimeUnit};
use parquet::record::Field;
use parquet::schema::types::Type;

use crate::calendar;
use crate::format::FileLimits;
use crate::json::too_deep;
use crate::number;
use crate::value::CellValue;

/// The interpretation of a column's numbers, which a field itself does not carry, and that of nested fields.
#[derive(Debug, Clone, Default)]
pub(super) struct FieldMeaning {
    /// Whether a timestamp is in UTC.
    utc: bool,
    /// Whether a number counts nanoseconds, for which fields have no variant.
    nanos: Option<Nanos>,
    within: Vec<(String, FieldMeaning)>,
}

#[derive(Debug, Clone, Copy)]
enum Nanos {
    OfDay,
    OfEpoch,
}

impl FieldMeaning {
    pub(super) fn of(field: &Type) -> Self {
        if field.is_group() {
            let within = field.get_fields().iter().map(|inner| (inner.name().to_owned(), Self::of(inner))).collect();
            return Self { within, ..Self::default() };
        }
        match field.get_basic_info().logical_type_ref() {
            Some(LogicalType::Timestamp(kind)) => Self {
                utc: kind.is_adjusted_to_u_t_c,
                nanos: matches!(kind.unit, TimeUnit::NANOS).then_some(Nanos::OfEpoch),
                ..Self::default()
            },
            Some(LogicalType::Time(kind)) => {
                Self { nanos: matches!(kind.unit, TimeUnit::NANOS).then_some(Nanos::OfDay), ..Self::default() }
            }
            _ => Self::default(),
        }
    }

    fn named(&self, name: &str) -> Option<&Self> {
        self.within.iter().find(|(other, _)| other == name).map(|(_, meaning)| meaning)
    }

    /// Returns the interpretation of the elements of a list, or of the keys or values of a map: that of the field at `place`
    /// in the repeated group, or of the repeated field itself.
    fn repeated(&self, place: usize) -> Option<&Self> {
        let (_, repeated) = self.within.first()?;
        repeated.within.get(place).map_or(Some(repeated), |(_, meaning)| Some(meaning))
    }
}

/// Converts a field to the value of a column.
pub(super) fn value(field: Field, meaning: &FieldMeaning, limits: FileLimits) -> Result<CellValue, String> {
    Ok(match field {
        Field::Str(text) => CellValue::Text(text),
        Field::Bytes(bytes) => CellValue::Blob(bytes.data().to_vec()),
        Field::Group(_) | Field::ListInternal(_) | Field::MapInternal(_) => {
            let mut text = String::new();
            write(&field, Some(meaning), limits, 1, &mut text)?;
            CellValue::Text(text)
        }
        flat => scalar(&flat, meaning),
    })
}

fn scalar(field: &Field, meaning: &FieldMeaning) -> CellValue {
    let moment = |nanos: i128| {
        let utc = if meaning.utc { "Z" } else { "" };
        CellValue::Text(format!("{}{utc}", calendar::timestamp(nanos)))
    };
    match field {
        Field::Bool(truth) => CellValue::Integer(i64::from(*truth)),
        Field::Byte(number) => CellValue::Integer((*number).into()),
        Field::Short(number) => CellValue::Integer((*number).into()),
        Field::Int(number) => CellValue::Integer((*number).into()),
        Field::Long(number) => match meaning.nanos {
            Some(Nanos::OfEpoch) => moment((*number).into()),
            Some(Nanos::OfDay) => CellValue::Text(calendar::time((*number).into())),
            None => CellValue::Integer(*number),
        },
        Field::UByte(number) => CellValue::Integer((*number).into()),
        Field::UShort(number) => CellValue::Integer((*number).into()),
        Field::UInt(number) => CellValue::Integer((*number).into()),
        Field::ULong(number) => {
            i64::try_from(*number).map_or_else(|_| CellValue::Text(number.to_string()), CellValue::Integer)
        }
        Field::Float16(number) => real(number.to_f64()),
        // The shortest decimal of the 32-bit number is what its writer meant.
        Field::Float(number) => real(number.to_string().parse().unwrap_or_else(|_| f64::from(*number))),
        Field::Double(number) => real(*number),
        decimal @ Field::Decimal(_) => CellValue::Text(decimal.to_string()),
        Field::Date(days) => CellValue::Text(calendar::date((*days).into())),
        Field::TimeMillis(millis) => CellValue::Text(calendar::time(i128::from(*millis) * 1_000_000)),
        Field::TimeMicros(micros) => CellValue::Text(calendar::time(i128::from(*micros) * 1_000)),
        Field::TimestampMillis(millis) => moment(i128::from(*millis) * 1_000_000),
        Field::TimestampMicros(micros) => moment(i128::from(*micros) * 1_000),
        Field::Null | Field::Str(_) | Field::Bytes(_) => CellValue::Null,
        Field::Group(_) | Field::ListInternal(_) | Field::MapInternal(_) => CellValue::Null,
    }
}

/// Converts NaN to NULL: the engine has no NaN, and writers of such files use it for missing values.
fn real(number: f64) -> CellValue {
    if number.is_nan() { CellValue::Null } else { CellValue::Real(number) }
}

/// Writes a field as compact JSON. Numbers without a known interpretation are written as plain numbers.
fn write(
    field: &Field,
    meaning: Option<&FieldMeaning>,
    limits: FileLimits,
    depth: usize,
    text: &mut String,
) -> Result<(), String> {
    if depth > FileLimits::NESTING {
        return Err(too_deep());
    }
    if text.len() > limits.value_bytes {
        return Err(limits.too_long());
    }
    match field {
        Field::Group(row) => {
            text.push('{');
            for (at, (name, inner)) in row.get_column_iter().enumerate() {
                separate(at, text);
                quote(name, text);
                text.push(':');
                write(inner, meaning.and_then(|meaning| meaning.named(name)), limits, depth + 1, text)?;
            }
            text.push('}');
        }
        Field::ListInternal(list) => {
            text.push('[');
            for (at, inner) in list.elements().iter().enumerate() {
                separate(at, text);
                write(inner, meaning.and_then(|meaning| meaning.repeated(0)), limits, depth + 1, text)?;
            }
            text.push(']');
        }
        Field::MapInternal(map) => {
            text.push('{');
            for (at, (key, inner)) in map.entries().iter().enumerate() {
                separate(at, text);
                let key = value(
                    key.clone(),
                    meaning.and_then(|m| m.repeated(0)).unwrap_or(&FieldMeaning::default()),
                    limits,
                )?;
                quote(&as_text(&key), text);
                text.push(':');
                write(inner, meaning.and_then(|meaning| meaning.repeated(1)), limits, depth + 1, text)?;
            }
            text.push('}');
        }
        Field::Str(string) => quote(string, text),
        Field::Bytes(bytes) => quote(&HEXLOWER.encode(bytes.data()), text),
        Field::Bool(truth) => text.push_str(if *truth { "true" } else { "false" }),
        flat => match scalar(flat, meaning.unwrap_or(&FieldMeaning::default())) {
            CellValue::Text(string) if matches!(flat, Field::ULong(_)) => text.push_str(&string),
            CellValue::Text(string) => quote(&string, text),
            CellValue::Real(number) if number.is_finite() => text.push_str(&number::shown(number)),
            CellValue::Integer(number) => text.push_str(&number.to_string()),
            _ => text.push_str("null"),
        },
    }
    Ok(())
}

fn as_text(value: &CellValue) -> String {
    match value {
        CellValue::Null => "null".to_owned(),
        CellValue::Integer(number) => number.to_string(),
        CellValue::Real(number) => number::shown(*number),
        CellValue::Text(text) => text.clone(),
        CellValue::Blob(bytes) => HEXLOWER.encode(bytes),
    }
}

fn separate(at: usize, text: &mut String) {
    if at > 0 {
        text.push(',');
    }
}

fn quote(string: &str, text: &mut String) {
    text.push_str(&serde_json::Value::from(string).to_string());
}
