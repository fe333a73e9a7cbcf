//! Durations in human-readable form. The parser is our own because the settings know four units, while `humantime` accepts many
//! more and prints a day as `1day`.

use std::fmt;
use std::time::Duration;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

const UNITS: &[(&str, u64)] = &[("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)];

/// A whole number of seconds, written as `24h`, `10min`, `30s`, or `90d`, or as a bare number of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(u64);

impl Span {
    /// Creates a span of `seconds` seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(seconds)
    }

    /// Returns the number of seconds, saturated to the range of `i64`.
    pub fn as_seconds(self) -> i64 {
        i64::try_from(self.0).unwrap_or(i64::MAX)
    }

    /// Converts the span to a [`Duration`].
    pub const fn duration(self) -> Duration {
        Duration::from_secs(self.0)
    }

    fn parse(text: &str) -> Option<Self> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at_checked(digits)?;
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit.trim())?;
        number.parse::<u64>().ok()?.checked_mul(*factor).map(Self)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = UNITS.iter().find(|(_, factor)| self.0 > 0 && self.0.is_multiple_of(*factor));
        let (unit, factor) = fits.unwrap_or(&("s", 1));
        write!(f, "{}{unit}", self.0 / factor)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Spans;
        impl Visitor<'_> for Spans {
            type Value = Span;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a length of time such as \"24h\", \"10min\", \"30s\", or a number of seconds")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
                Span::parse(text).ok_or_else(|| de::Error::invalid_value(de::Unexpected::Str(text), &self))
            }

            fn visit_u64<E>(self, seconds: u64) -> Result<Span, E> {
                Ok(Span(seconds))
            }

            fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Span, E> {
                let negative = de::Unexpected::Signed(seconds);
                seconds.try_into().map(Span).map_err(|_| de::Error::invalid_value(negative, &self))
            }
        }
        deserializer.deserialize_any(Spans)
    }
}

#[cfg(test)]
mod tests {
    use super::Span;

    #[test]
    fn spans_are_written_and_read_back() {
        for (text, seconds) in [("24h", 86_400), ("10min", 600), ("30s", 30), ("90d", 7_776_000), ("90min", 5_400)] {
            assert_eq!(Span::parse(text), Some(Span(seconds)), "{text}");
            assert_eq!(Span::parse(&Span(seconds).to_string()), Some(Span(seconds)), "{text}");
        }
        assert_eq!(Span(86_400).to_string(), "1d");
        assert_eq!(Span(0).to_string(), "0s");
        for bad in ["", "h", "5 weeks", "1.5h", "-1s", "99999999999999999999d"] {
            assert_eq!(Span::parse(bad), None, "{bad}");
        }
    }
}
