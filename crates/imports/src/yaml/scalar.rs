//! Scalars as the core schema of YAML 1.2 resolves them (<https://yaml.org/spec/1.2.2/#103-core-schema>).

use saphyr_parser::{ScalarStyle, Tag};

use crate::error::shortened;
use crate::format::FileLimits;
use crate::value::CellValue;

/// The resolved type of a scalar, before its conversion to a value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar<'a> {
    Null,
    Bool(bool),
    Integer(i64),
    Real(f64),
    /// NaN, which the engine cannot store.
    NotANumber,
    Text(&'a str),
}

/// Returns the name of a core schema tag.
pub(super) fn core_tag(tag: &Tag) -> Option<&'static str> {
    let whole = format!("{}{}", tag.handle, tag.suffix);
    let name = whole.strip_prefix("tag:yaml.org,2002:")?;
    ["str", "int", "float", "bool", "null", "map", "seq"].into_iter().find(|known| *known == name)
}

/// Converts a scalar to the value of a column.
pub(super) fn value(
    text: &str,
    style: ScalarStyle,
    tag: Option<&Tag>,
    limits: FileLimits,
) -> Result<CellValue, String> {
    if text.len() > limits.value_bytes {
        return Err(limits.too_long());
    }
    Ok(match resolve(text, style, tag)? {
        Scalar::Null | Scalar::NotANumber => CellValue::Null,
        Scalar::Bool(truth) => CellValue::Integer(i64::from(truth)),
        Scalar::Integer(integer) => CellValue::Integer(integer),
        Scalar::Real(real) => CellValue::Real(real),
        Scalar::Text(text) => CellValue::Text(text.to_owned()),
    })
}

/// Resolves a scalar. Without a tag, only plain scalars can be anything other than text.
pub(super) fn resolve<'a>(text: &'a str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Scalar<'a>, String> {
    let Some(tag) = tag.and_then(core_tag) else {
        return if style == ScalarStyle::Plain { plain(text) } else { Ok(Scalar::Text(text)) };
    };
    let resolved = match tag {
        "str" => Scalar::Text(text),
        _ => plain(text)?,
    };
    match (tag, resolved) {
        ("float", Scalar::Integer(_)) => {
            text.parse().map(Scalar::Real).map_err(|_| format!("'{text}' is not a !!float"))
        }
        ("str", resolved)
        | ("null", resolved @ Scalar::Null)
        | ("bool", resolved @ Scalar::Bool(_))
        | ("int", resolved @ Scalar::Integer(_))
        | ("float", resolved @ (Scalar::Real(_) | Scalar::NotANumber)) => Ok(resolved),
        _ => Err(format!("'{}' is not a !!{tag}", shortened(text))),
    }
}

fn plain(text: &str) -> Result<Scalar<'_>, String> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Scalar::Null,
        "true" | "True" | "TRUE" => Scalar::Bool(true),
        "false" | "False" | "FALSE" => Scalar::Bool(false),
        ".nan" | ".NaN" | ".NAN" => Scalar::NotANumber,
        _ if matches!(unsigned, ".inf" | ".Inf" | ".INF") => {
            Scalar::Real(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY })
        }
        _ if is_digits(unsigned) => integer(text, text.parse().ok())?,
        _ if text.strip_prefix("0o").is_some_and(|digits| radix_digits(digits, 8)) => {
            integer(text, i64::from_str_radix(&text[2..], 8).ok())?
        }
        _ if text.strip_prefix("0x").is_some_and(|digits| radix_digits(digits, 16)) => {
            integer(text, i64::from_str_radix(&text[2..], 16).ok())?
        }
        _ if is_float(unsigned) => match text.parse::<f64>() {
            Ok(real) if real.is_finite() => Scalar::Real(real),
            _ => return Err(format!("{} is beyond the range of numbers", shortened(text))),
        },
        _ => Scalar::Text(text),
    })
}

fn integer(text: &str, parsed: Option<i64>) -> Result<Scalar<'_>, String> {
    parsed.map(Scalar::Integer).ok_or_else(|| format!("{} is not a 64-bit integer", shortened(text)))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn radix_digits(text: &str, radix: u32) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_digit(radix))
}

/// Matches `(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`, without the sign.
fn is_float(text: &str) -> bool {
    let (mantissa, power) =
        text.split_once(['e', 'E']).map_or((text, None), |(mantissa, power)| (mantissa, Some(power)));
    let mantissa = match mantissa.split_once('.') {
        Some(("", fraction)) => is_digits(fraction),
        Some((whole, fraction)) => is_digits(whole) && (fraction.is_empty() || is_digits(fraction)),
        None => is_digits(mantissa),
    };
    mantissa && power.is_none_or(|power| is_digits(power.strip_prefix(['+', '-']).unwrap_or(power)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars() {
        let cases = [
            ("", Scalar::Null),
            ("~", Scalar::Null),
            ("Null", Scalar::Null),
            ("nULL", Scalar::Text("nULL")),
            ("True", Scalar::Bool(true)),
            ("yes", Scalar::Text("yes")),
            ("-12", Scalar::Integer(-12)),
            ("+12", Scalar::Integer(12)),
            ("007", Scalar::Integer(7)),
            ("0o17", Scalar::Integer(15)),
            ("0xfF", Scalar::Integer(255)),
            ("-0x1", Scalar::Text("-0x1")),
            ("0o8", Scalar::Text("0o8")),
            ("1.5", Scalar::Real(1.5)),
            ("1.", Scalar::Real(1.0)),
            (".5", Scalar::Real(0.5)),
            ("-1e3", Scalar::Real(-1000.0)),
            (".", Scalar::Text(".")),
            ("1e", Scalar::Text("1e")),
            ("1_000", Scalar::Text("1_000")),
            ("-.inf", Scalar::Real(f64::NEG_INFINITY)),
            (".NaN", Scalar::NotANumber),
            ("NaN", Scalar::Text("NaN")),
            ("2026-09-04", Scalar::Text("2026-09-04")),
            ("12:30", Scalar::Text("12:30")),
        ];
        for (text, expected) in cases {
            assert_eq!(plain(text), Ok(expected), "{text}");
        }
        assert_eq!(plain("9223372036854775808").unwrap_err(), "9223372036854775808 is not a 64-bit integer");
        assert_eq!(plain("1e999").unwrap_err(), "1e999 is beyond the range of numbers");
    }

    #[test]
    fn tags_of_the_core_schema_decide() {
        let tag = |suffix: &str| Tag { handle: "tag:yaml.org,2002:".to_owned(), suffix: suffix.to_owned() };
        let is = |text, suffix| resolve(text, ScalarStyle::Plain, Some(&tag(suffix)));
        assert_eq!(is("12", "str"), Ok(Scalar::Text("12")));
        assert_eq!(is("12", "float"), Ok(Scalar::Real(12.0)));
        assert_eq!(resolve("12", ScalarStyle::DoubleQuoted, Some(&tag("int"))), Ok(Scalar::Integer(12)));
        assert_eq!(is("x", "int"), Err("'x' is not a !!int".to_owned()));
        assert_eq!(core_tag(&tag("binary")), None);
        assert_eq!(resolve("12", ScalarStyle::SingleQuoted, None), Ok(Scalar::Text("12")));
    }
}
