//! The two number formats of the contract, matched by hand: a regular expression would be no shorter and much slower.

/// Returns the value of a text of the form `[+-]?(0|[1-9][0-9]*)`, if it fits into 64 bits.
pub(crate) fn integer(text: &str) -> Option<i64> {
    if !is_whole(text) {
        return None;
    }
    text.parse().ok()
}

/// Returns the value of a text of the form `[+-]?(0|[1-9][0-9]*)?(\.[0-9]*)?([eE][+-]?[0-9]+)?` with a digit before the
/// exponent, if it is finite.
pub(crate) fn real(text: &str) -> Option<f64> {
    if !has_real_form(text) {
        return None;
    }
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

/// Returns `true` if a text has the form of an integer, of any size.
pub(crate) fn is_whole(text: &str) -> bool {
    matches!(split_whole(unsigned(text)), Some((digits, "")) if !digits.is_empty())
}

/// Converts a real number to an integer, if it is a whole number within 64 bits.
pub(crate) fn exact_integer(real: f64) -> Option<i64> {
    // 2^63 is the first value outside the range; -2^63 is inside.
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    if real.fract() != 0.0 || !(-BEYOND..BEYOND).contains(&real) {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "whole and within the range, as just seen")]
    let integer = real as i64;
    Some(integer)
}

/// Converts an integer to the nearest real number. The result is exact up to 2^53.
pub(crate) fn nearest_real(integer: i64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a column of real numbers holds nothing nearer")]
    let real = integer as f64;
    real
}

/// Returns the shortest decimal text that parses to the same number, always with a point or an exponent.
pub(crate) fn shown(real: f64) -> String {
    if real.is_infinite() {
        return if real > 0.0 { "Inf" } else { "-Inf" }.to_owned();
    }
    let text = format!("{real:?}");
    match text.split_once('e') {
        Some((digits, power)) if !power.starts_with('-') => format!("{digits}e+{power}"),
        _ => text,
    }
}

fn has_real_form(text: &str) -> bool {
    let Some((whole, rest)) = split_whole(unsigned(text)) else {
        return false;
    };
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("", rest),
    };
    let has_digits = !whole.is_empty() || !fraction.is_empty();
    has_digits && (rest.is_empty() || is_exponent(rest))
}

fn is_exponent(text: &str) -> bool {
    let Some(power) = text.strip_prefix(['e', 'E']) else {
        return false;
    };
    matches!(split_digits(unsigned(power)), (digits, "") if !digits.is_empty())
}

fn unsigned(text: &str) -> &str {
    text.strip_prefix(['+', '-']).unwrap_or(text)
}

/// Splits off the digits before the point. Returns `None` if they have a redundant leading zero.
fn split_whole(text: &str) -> Option<(&str, &str)> {
    let (digits, rest) = split_digits(text);
    (digits.len() <= 1 || !digits.starts_with('0')).then_some((digits, rest))
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers() {
        let cases = [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("+5", Some(5)),
            ("-12", Some(-12)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("007", None),
            ("00", None),
            ("-01", None),
            ("", None),
            ("+", None),
            ("+-1", None),
            ("1 ", None),
            (" 1", None),
            ("1.0", None),
            ("1e2", None),
            ("1_000", None),
            ("0x1", None),
            ("٣", None),
        ];
        for (text, expected) in cases {
            assert_eq!(integer(text), expected, "{text:?}");
        }
    }

    #[test]
    fn reals() {
        let cases = [
            ("0", Some(0.0)),
            ("-0", Some(-0.0)),
            ("+5", Some(5.0)),
            (".5", Some(0.5)),
            ("-.5", Some(-0.5)),
            ("5.", Some(5.0)),
            ("5.e1", Some(50.0)),
            (".5E+1", Some(5.0)),
            ("1e5", Some(100_000.0)),
            ("25e-2", Some(0.25)),
            ("1e-999", Some(0.0)),
            ("1e999", None),
            ("-1e999", None),
            (".", None),
            ("+.", None),
            (".e5", None),
            ("e5", None),
            ("1e", None),
            ("1e+", None),
            ("1e5.0", None),
            ("007", None),
            ("00.5", None),
            ("1.5.2", None),
            ("1,5", None),
            (" 1.5", None),
            ("1.5 ", None),
            ("", None),
            ("NaN", None),
            ("inf", None),
            ("infinity", None),
            ("true", None),
        ];
        for (text, expected) in cases {
            assert_eq!(real(text), expected, "{text:?}");
        }
    }

    #[test]
    fn reals_as_integers_and_as_text() {
        assert_eq!(exact_integer(-9_223_372_036_854_775_808.0), Some(i64::MIN));
        assert_eq!(exact_integer(-0.0), Some(0));
        for real in [9_223_372_036_854_775_808.0, 0.5, f64::INFINITY, f64::NAN] {
            assert_eq!(exact_integer(real), None, "{real}");
        }
        for (real, text) in
            [(2.0, "2.0"), (0.1, "0.1"), (1e100, "1e+100"), (-1.5e-300, "-1.5e-300"), (f64::NEG_INFINITY, "-Inf")]
        {
            assert_eq!(shown(real), text);
        }
    }

    #[test]
    fn whole_numbers_may_be_too_large_for_a_word() {
        assert!(is_whole("-99999999999999999999999999"));
        assert!(!is_whole("1e30"));
        assert!(!is_whole(""));
    }
}
