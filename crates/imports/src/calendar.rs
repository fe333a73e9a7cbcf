//! Dates and times as ISO 8601 text.

pub(crate) const NANOS_PER_DAY: i128 = 86_400_000_000_000;

/// Returns the date `days` days after 1970-01-01 in the proleptic Gregorian calendar, such as `2026-09-04`. Years outside 0
/// to 9999 have a sign and at least five digits.
pub(crate) fn date(days: i64) -> String {
    // Eras of 400 years are counted from 0000-03-01, so that the leap day is the last day of a year.
    let days = i128::from(days) + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i128::from(month <= 2);
    if (0..=9_999).contains(&year) {
        format!("{year:04}-{month:02}-{day:02}")
    } else {
        format!("{year:+06}-{month:02}-{day:02}")
    }
}

/// Returns a time of day, such as `12:30:00`, with only as many fractional digits as necessary.
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
        ] {
            assert_eq!(date(days), text);
        }
    }

    #[test]
    fn times() {
        assert_eq!(time(0), "00:00:00");
        assert_eq!(time(45_000_500_000_000), "12:30:00.5");
        assert_eq!(timestamp(1_788_525_000_000_000_000), "2026-09-04T12:30:00");
        assert_eq!(timestamp(-1), "1969-12-31T23:59:59.999999999");
    }
}
