//! The text form of result values, shared by every version of the API (v2 §6.3).

use std::borrow::Cow;
use std::io::Write as _;

use branchyard_domain::ports::ValueRef;

/// Returns the SQLite storage class of a value, or `None` for NULL.
pub fn storage_class(value: ValueRef<'_>) -> Option<&'static str> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(_) => Some("INTEGER"),
        ValueRef::Real(_) => Some("REAL"),
        ValueRef::Text(_) => Some("TEXT"),
        ValueRef::Blob(_) => Some("BLOB"),
    }
}

/// Returns the shortest decimal that reads back to the same double, with a decimal point or an exponent. Infinities are `Inf` and
/// `-Inf`.
pub fn real(value: f64) -> String {
    let mut text = Vec::with_capacity(24);
    write_real(&mut text, value);
    String::from_utf8_lossy(&text).into_owned()
}

/// Appends what [`real`] returns.
pub fn write_real(buffer: &mut Vec<u8>, value: f64) {
    if value.is_infinite() {
        buffer.extend_from_slice(if value > 0.0 { b"Inf" } else { b"-Inf" });
        return;
    }
    let start = buffer.len();
    // Writing to a vector cannot fail.
    let _ = write!(buffer, "{value:?}");
    let exponent = buffer[start..].iter().position(|byte| *byte == b'e').map(|at| start + at + 1);
    if let Some(at) = exponent.filter(|at| buffer.get(*at) != Some(&b'-')) {
        buffer.insert(at, b'+');
    }
}

/// Appends the decimal digits of an integer.
pub fn write_integer(buffer: &mut Vec<u8>, value: i64) {
    buffer.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Returns the content of a JSON cell, or `None` for NULL. A blob becomes the placeholder `<binary>`.
pub fn cell_text(value: ValueRef<'_>) -> Option<Cow<'_, str>> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string().into()),
        ValueRef::Real(number) => Some(real(number).into()),
        ValueRef::Text(bytes) => Some(String::from_utf8_lossy(bytes)),
        ValueRef::Blob(_) => Some("<binary>".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::{cell_text, real};
    use branchyard_domain::ports::ValueRef;

    #[test]
    fn reals_are_short_and_marked_as_reals() {
        let cases = [
            (2.0, "2.0"),
            (-0.5, "-0.5"),
            (1e100, "1e+100"),
            (1.5e300, "1.5e+300"),
            (1e-7, "1e-7"),
            (0.1, "0.1"),
            (f64::INFINITY, "Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (123_456_789.25, "123456789.25"),
        ];
        for (value, expected) in cases {
            assert_eq!(real(value), expected);
            if value.is_finite() {
                assert_eq!(real(value).parse::<f64>().unwrap().to_bits(), value.to_bits());
            }
        }
    }

    #[test]
    fn cells() {
        assert_eq!(cell_text(ValueRef::Null), None);
        assert_eq!(cell_text(ValueRef::Integer(-42)).as_deref(), Some("-42"));
        assert_eq!(cell_text(ValueRef::Text(b"a\xff")).as_deref(), Some("a\u{fffd}"));
        assert_eq!(cell_text(ValueRef::Blob(b"x")).as_deref(), Some("<binary>"));
    }
}
