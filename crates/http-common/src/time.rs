//! Times in requests and responses.

use branchyard_domain::values::Timestamp;
use chrono::{DateTime, Datelike as _, SecondsFormat, TimeDelta};

/// Formats a time according to RFC 3339 in UTC with milliseconds: `2026-09-04T12:00:00.000Z`. RFC 3339 ends with the year 9999. Later
/// years have more digits.
pub fn rfc3339(at: Timestamp) -> String {
    match DateTime::from_timestamp_micros(at.as_micros()) {
        Some(time) if (0..=9_999).contains(&time.year()) => time.to_rfc3339_opts(SecondsFormat::Millis, true),
        _ => beyond_rfc3339(at),
    }
}

/// Formats a time of any year. chrono ends with the year 262,142, and a [`Timestamp`] with the year 294,247. The Gregorian calendar
/// repeats every 400 years, so the month and the day are those of a time between 1970 and 2370.
fn beyond_rfc3339(at: Timestamp) -> String {
    const CYCLE_MICROS: i64 = 146_097 * 86_400 * 1_000_000;
    let time = DateTime::UNIX_EPOCH + TimeDelta::microseconds(at.as_micros().rem_euclid(CYCLE_MICROS));
    let year = i64::from(time.year()) + 400 * at.as_micros().div_euclid(CYCLE_MICROS);
    format!("{year:04}{}", time.format("-%m-%dT%H:%M:%S%.3fZ"))
}

/// Parses the seconds since the epoch of a signed URL. Accepts digits only.
pub fn parse_http_seconds(text: &str) -> Option<i64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use branchyard_domain::values::Timestamp;
    use chrono::DateTime;
    use proptest::prelude::*;

    use super::{beyond_rfc3339, rfc3339};

    #[track_caller]
    fn check(micros: i64, expected: &str) {
        assert_eq!(rfc3339(Timestamp::from_micros(micros)), expected);
    }

    #[test]
    fn known_times() {
        check(0, "1970-01-01T00:00:00.000Z");
        check(-1, "1969-12-31T23:59:59.999Z");
        check(1_788_523_200_000_000, "2026-09-04T12:00:00.000Z");
        check(1_788_523_200_020_999, "2026-09-04T12:00:00.020Z");
        check(951_782_400_000_000, "2000-02-29T00:00:00.000Z");
        check(4_107_542_399_999_999, "2100-02-28T23:59:59.999Z");
        check(4_107_542_400_000_000, "2100-03-01T00:00:00.000Z");
    }

    #[test]
    fn years_outside_of_the_format() {
        check(i64::MAX, "294247-01-10T04:00:54.775Z");
        check(i64::MIN, "-290308-12-21T19:59:05.224Z");
        check(253_402_300_799_999_999, "9999-12-31T23:59:59.999Z");
        check(253_402_300_800_000_000, "10000-01-01T00:00:00.000Z");
        check(-62_167_219_200_000_000, "0000-01-01T00:00:00.000Z");
        check(-62_167_219_200_000_001, "-001-12-31T23:59:59.999Z");
    }

    proptest! {
        #[test]
        fn another_reader_finds_the_same_time(micros in -62_167_219_200_000_000_i64..253_402_300_800_000_000) {
            let at = Timestamp::from_micros(micros);
            let read = DateTime::parse_from_rfc3339(&rfc3339(at)).unwrap();
            prop_assert_eq!(read.timestamp_millis(), micros.div_euclid(1_000));
            prop_assert_eq!(beyond_rfc3339(at), rfc3339(at));
        }
    }
}
