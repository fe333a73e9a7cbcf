//! Ids of backups.

use std::fmt;

use branchyard_domain::values::{Invalid, Timestamp};

const DAY: i64 = 86_400_000;

/// The id of a backup: the millisecond at which it was taken. The text form is UTC, `YYYYMMDDTHHMMSS.mmm`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackupId(i64);

impl BackupId {
    /// Returns the id of a backup taken at this time, rounded down to a millisecond.
    pub const fn at(time: Timestamp) -> Self {
        Self(time.as_micros().div_euclid(1_000))
    }

    /// Returns the time at which the backup was taken.
    pub const fn time(self) -> Timestamp {
        Timestamp::from_micros(self.0.saturating_mul(1_000))
    }

    /// Returns the id one millisecond later, for a second backup in the same millisecond.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Parses `\d{8}T\d{6}\.\d{3}`.
    ///
    /// # Errors
    /// [`Invalid`] if the text has another form, or is not a valid date and time.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let invalid = || Invalid::new("a backup is named by its time, as YYYYMMDDTHHMMSS.mmm");
        let shaped = text.len() == 19
            && text.bytes().enumerate().all(|(at, byte)| match at {
                8 => byte == b'T',
                15 => byte == b'.',
                _ => byte.is_ascii_digit(),
            });
        if !shaped {
            return Err(invalid());
        }
        let number = |from: usize, to: usize| text.get(from..to).and_then(|part| part.parse::<i64>().ok());
        let part = |from, to| number(from, to).ok_or_else(invalid);
        let days = days_from_civil(part(0, 4)?, part(4, 6)?, part(6, 8)?);
        let clock = (part(9, 11)? * 60 + part(11, 13)?) * 60 + part(13, 15)?;
        let id = Self(days * DAY + clock * 1_000 + part(16, 19)?);
        // Only a valid date and time formats to the same text again.
        if id.to_string() == text { Ok(id) } else { Err(invalid()) }
    }
}

impl fmt::Display for BackupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil_from_days(self.0.div_euclid(DAY));
        let millis = self.0.rem_euclid(DAY);
        let seconds = millis / 1_000;
        write!(
            f,
            "{year:04}{month:02}{day:02}T{:02}{:02}{:02}.{:03}",
            seconds / 3_600,
            seconds / 60 % 60,
            seconds % 60,
            millis % 1_000
        )
    }
}

/// Returns the days since the epoch of a date in the Gregorian calendar. Internally a year begins in March, so that the
/// leap day is its last.
pub(crate) fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Returns the year, month and day of a day since the epoch. The inverse of [`days_from_civil`].
pub(crate) fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let years = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * years + years / 4 - years / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = years + era * 400 + i64::from(month <= 2);
    (year, month, of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_its_time() {
        let id = BackupId::parse("20261120T020000.007").expect("a backup");
        assert_eq!(id.time(), Timestamp::from_micros(1_795_140_000_007_000));
        assert_eq!(id.to_string(), "20261120T020000.007");
    }

    #[test]
    fn times_that_do_not_exist_name_nothing() {
        for text in ["20260230T000000.000", "20261120T240000.000", "20261120T020060.000", "20261120 020000.000", ""] {
            assert!(BackupId::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn each_day_is_followed_by_the_next() {
        for days in -800_000..800_000 {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
        }
    }
}
