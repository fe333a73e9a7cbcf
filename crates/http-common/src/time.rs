//! Times in requests and responses.

use branchyard_domain::values::Timestamp;

/// Formats a time according to RFC 3339 in UTC with milliseconds: `2026-09-04T12:00:00.000Z`.
pub fn rfc3339(at: Timestamp) -> String {
    let micros = at.as_micros();
    let seconds = micros.div_euclid(1_000_000);
    let millis = micros.rem_euclid(1_000_000) / 1_000;
    let (year, month, day) = civil(seconds.div_euclid(86_400));
    let of_day = seconds.rem_euclid(86_400);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Converts days since 1970-01-01 to year, month and day of the Gregorian calendar. Years are counted from March 1 in eras of 400
/// years, so that the leap day comes last.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
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
    use super::rfc3339;
    use branchyard_domain::values::Timestamp;

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
}
