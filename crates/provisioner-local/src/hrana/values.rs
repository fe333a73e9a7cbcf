//! SQL values in JSON.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use branchyard_domain::entities::Cell;
use branchyard_domain::ports::ValueRef;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::value::RawValue;

/// Base64 as Hrana uses it: sent without padding, accepted with or without.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_encode_padding(false).with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The value of an argument.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HranaValue(pub(crate) Cell);

#[derive(Deserialize)]
struct SentValue<'a> {
    r#type: String,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
    base64: Option<String>,
}

impl<'de> Deserialize<'de> for HranaValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let sent = SentValue::deserialize(deserializer)?;
        let raw = || sent.value.map(RawValue::get).ok_or_else(|| D::Error::missing_field("value"));
        let text = || serde_json::from_str::<String>(raw()?).map_err(D::Error::custom);
        Ok(Self(match sent.r#type.as_str() {
            "null" => Cell::Null,
            "integer" => Cell::Integer(
                text()?
                    .parse()
                    .map_err(|_| D::Error::custom("an integer is a string of decimal digits within 64 bits"))?,
            ),
            "float" => Cell::Real(float(raw()?).ok_or_else(|| D::Error::custom("a float is a number"))?),
            "text" => Cell::Text(text()?.into_bytes()),
            "blob" => {
                let base64 = sent.base64.as_deref().ok_or_else(|| D::Error::missing_field("base64"))?;
                let bytes = BASE64.decode(base64);
                Cell::Blob(bytes.map_err(|_| D::Error::custom("a blob is base64 in the standard alphabet"))?)
            }
            other => return Err(D::Error::custom(format!("unknown value type '{other}'"))),
        }))
    }
}

/// Parses a JSON number exactly. The default parser of `serde_json` can be off in the last digit.
fn float(json: &str) -> Option<f64> {
    let is_number = json.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    json.parse().ok().filter(|x: &f64| is_number && x.is_finite())
}

/// Appends a value of a result.
pub(crate) fn write(value: ValueRef<'_>, out: &mut Vec<u8>) {
    match value {
        ValueRef::Null => out.extend_from_slice(br#"{"type":"null"}"#),
        ValueRef::Integer(n) => {
            out.extend_from_slice(br#"{"type":"integer","value":""#);
            out.extend_from_slice(n.to_string().as_bytes());
            out.extend_from_slice(br#""}"#);
        }
        // JSON has no infinities.
        ValueRef::Real(x) if x.is_infinite() => {
            write(ValueRef::Text(if x > 0.0 { b"Inf" } else { b"-Inf" }), out);
        }
        ValueRef::Real(x) => {
            out.extend_from_slice(br#"{"type":"float","value":"#);
            append(out, &x);
            out.push(b'}');
        }
        ValueRef::Text(bytes) => {
            out.extend_from_slice(br#"{"type":"text","value":"#);
            append(out, &String::from_utf8_lossy(bytes));
            out.push(b'}');
        }
        ValueRef::Blob(bytes) => {
            out.extend_from_slice(br#"{"type":"blob","base64":""#);
            out.extend_from_slice(BASE64.encode(bytes).as_bytes());
            out.extend_from_slice(br#""}"#);
        }
    }
}

/// Appends a value as JSON.
pub(crate) fn append<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    // Writing to memory does not fail, and all maps serialized here have string keys.
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.extend_from_slice(b"null");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(json: &str) -> Result<Cell, String> {
        serde_json::from_str::<HranaValue>(json).map(|value| value.0).map_err(|error| error.to_string())
    }

    fn written(value: ValueRef<'_>) -> String {
        let mut out = Vec::new();
        write(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_have_the_words_of_the_contract() {
        for (value, expected) in [
            (ValueRef::Null, r#"{"type":"null"}"#),
            (ValueRef::Integer(i64::MIN), r#"{"type":"integer","value":"-9223372036854775808"}"#),
            (ValueRef::Real(1.5), r#"{"type":"float","value":1.5}"#),
            (ValueRef::Real(2.0), r#"{"type":"float","value":2.0}"#),
            (ValueRef::Real(f64::INFINITY), r#"{"type":"text","value":"Inf"}"#),
            (ValueRef::Real(f64::NEG_INFINITY), r#"{"type":"text","value":"-Inf"}"#),
            (ValueRef::Text("é\"\n".as_bytes()), r#"{"type":"text","value":"é\"\n"}"#),
            (ValueRef::Text(b"a\xffb"), "{\"type\":\"text\",\"value\":\"a\u{fffd}b\"}"),
            (ValueRef::Blob(b"\xff"), r#"{"type":"blob","base64":"/w"}"#),
        ] {
            assert_eq!(written(value), expected);
        }
        for (json, expected) in [
            (r#"{"type":"blob","base64":"/w"}"#, Cell::Blob(vec![255])),
            (r#"{"type":"blob","base64":"/w=="}"#, Cell::Blob(vec![255])),
            (r#"{"type":"integer","value":"9223372036854775807"}"#, Cell::Integer(i64::MAX)),
            (r#"{"type":"float","value":3}"#, Cell::Real(3.0)),
        ] {
            assert_eq!(read(json).unwrap(), expected);
        }
        for json in [
            r#"{"type":"integer","value":1}"#,
            r#"{"type":"integer","value":"9223372036854775808"}"#,
            r#"{"type":"integer","value":"1.0"}"#,
            r#"{"type":"blob","base64":"_w"}"#,
            r#"{"type":"text"}"#,
        ] {
            assert!(read(json).is_err(), "{json}");
        }
    }

    proptest! {
        #[test]
        fn finite_values_come_back(n: i64, x in any::<f64>().prop_filter("finite", |x| x.is_finite()), text: String, bytes: Vec<u8>) {
            prop_assert_eq!(read(&written(ValueRef::Integer(n))).unwrap(), Cell::Integer(n));
            prop_assert_eq!(read(&written(ValueRef::Real(x))).unwrap(), Cell::Real(x));
            prop_assert_eq!(read(&written(ValueRef::Text(text.as_bytes()))).unwrap(), Cell::Text(text.clone().into_bytes()));
            prop_assert_eq!(read(&written(ValueRef::Blob(&bytes))).unwrap(), Cell::Blob(bytes.clone()));
        }
    }
}
