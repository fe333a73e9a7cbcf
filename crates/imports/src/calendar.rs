//! Dates and times as ISO 8601 text.

use chrono::{DateTime, Datelike as _, Days};

pub(crate) const NANOS_PER_DAY: i128 = 86_400_000_000_000;

/// Returns the date `days` days after 1970-01-01 in the proleptic Gregorian calendar, such as `2026-09-04`. Years outside 0
/// to 9999 have a sign and at least five digits.
pub(crate) fn date(days: i64) -> String {
    // A file may hold years that chrono does not have. The calendar repeats every 400 years.
    const CYCLE_DAYS: i64 = 146_097;
    let date = DateTime::UNIX_EPOCH.date_naive() + Days::new(days.rem_euclid(CYCLE_DAYS).unsigned_abs());
    let (month, day) = (date.month(), date.day());
    let year = i64::from(date.year()) + 400 * days.div_euclid(CYCLE_DAYS);
    if (0..=9_999).contains(&year) {
        format!("{year:04}-{month:02}-{day:02}")
    } else {
        format!("{year:+06}-{month:02}-{day:02}")
    }
}

/// Returns a time of day, such as `12:30:00`, with only as many fractional digits as necessary. chrono has no time of 24 hours or
/// more, which a file may hold.
pub(crate) fn time(nanos: i128) -> String {
    let (seconds, fraction) = (nanos.div_euclid(1_000_000_000), nanos.rem_euclid(1_000_000_000));
    let time = format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60);
    if fraction == 0 {
        return time;
    }
    let fraction = format!("{fraction:09}");
    format!("{time}.{}", fraction.trim_end_matches('0'))
}

/// Returns the timestamp `nanos` nanoseconds after 1970-01-01T00:00:00, such as `2026-09-04T12:30:00`.
pub(crate) fn timestamp(nanos: i128) -> String {
    let days = i64::try_from(nanos.div_euclid(NANOS_PER_DAY)).unwrap_or(i64::MAX);
    format!("{}T{}", date(days), time(nanos.rem_euclid(NANOS_PER_DAY)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (days, text) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (20_700, "2026-09-04"),
            (11_016, "2000-02-29"),
            (-25_567, "1900-01-01"),
            (-719_528, "0000-01-01"),
            (-719_529, "-00001-12-31"),
            (2_932_896, "9999-12-31"),
            (2_932_897, "+10000-01-01"),
            (i32::MIN.into(), "-5877641-06-23"),
            (i32::MAX.into(), "+5881580-07-11"),
            (i64::MIN, "-25252734927764585-06-07"),
            (i64::MAX, "+25252734927768524-07-27"),
        ] {
            assert_eq!(date(days), text);
        }
    }

    #[test]
    fn times() {
        assert_eq!(time(0), "00:00:00");
        assert_eq!(time(45_000_500_000_000), "12:30:00.5");
        assert_eq!(time(90_000_000_000_000), "25:00:00");
        assert_eq!(timestamp(1_788_525_000_000_000_000), "2026-09-04T12:30:00");
        assert_eq!(timestamp(-1), "1969-12-31T23:59:59.999999999");
    }
}
