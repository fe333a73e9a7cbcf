//! The types that can be read.

use parquet::basic::{ConvertedType, Type as Physical};
use parquet::schema::types::Type;

use crate::error::FileError;
use crate::format::FileLimits;

/// Rejects a column with a type at which the row reader would panic.
pub(super) fn check(field: &Type) -> Result<(), FileError> {
    check_at(field, field.name(), 0)
}

fn check_at(field: &Type, column: &str, depth: usize) -> Result<(), FileError> {
    if field.is_group() {
        // A list consists of two nested groups.
        if depth > 2 * FileLimits::NESTING {
            return Err(FileError::whole(format!("column {column}: {}", crate::json::too_deep())));
        }
        return field.get_fields().iter().try_for_each(|inner| check_at(inner, column, depth + 1));
    }
    let (physical, converted) = (field.get_physical_type(), field.get_basic_info().converted_type());
    if readable(physical, converted) {
        return Ok(());
    }
    Err(FileError::whole(format!("column {column}: the type {converted} of {physical} cannot be imported")))
}

fn readable(physical: Physical, converted: ConvertedType) -> bool {
    use ConvertedType as C;
    match physical {
        Physical::BOOLEAN | Physical::INT96 | Physical::FLOAT | Physical::DOUBLE => true,
        Physical::INT32 => matches!(
            converted,
            C::NONE
                | C::INT_8
                | C::INT_16
                | C::INT_32
                | C::UINT_8
                | C::UINT_16
                | C::UINT_32
                | C::DATE
                | C::TIME_MILLIS
                | C::DECIMAL
        ),
        Physical::INT64 => matches!(
            converted,
            C::NONE | C::INT_64 | C::UINT_64 | C::TIME_MICROS | C::TIMESTAMP_MILLIS | C::TIMESTAMP_MICROS | C::DECIMAL
        ),
        Physical::BYTE_ARRAY => matches!(converted, C::NONE | C::UTF8 | C::ENUM | C::JSON | C::BSON | C::DECIMAL),
        Physical::FIXED_LEN_BYTE_ARRAY => matches!(converted, C::NONE | C::DECIMAL),
    }
}
