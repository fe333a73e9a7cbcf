//! Ids of backups.

use std::fmt;

use branchyard_domain::values::{Invalid, Timestamp};
use chrono::{DateTime, Datelike as _, NaiveDateTime, TimeDelta};

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
        // chrono also reads other forms and leap seconds. Only a text of the form above is printed again as it was.
        let time = NaiveDateTime::parse_from_str(text, "%Y%m%dT%H%M%S%.3f").ok();
        time.map(|time| Self(time.and_utc().timestamp_millis()))
            .filter(|id| text.len() == 19 && id.to_string() == text)
            .ok_or_else(|| Invalid::new("a backup is named by its time, as YYYYMMDDTHHMMSS.mmm"))
    }
}

impl fmt::Display for BackupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // chrono has fewer years than a number of milliseconds. The calendar repeats every 400 years.
        const CYCLE_MILLIS: i64 = 146_097 * 86_400 * 1_000;
        let time = DateTime::UNIX_EPOCH + TimeDelta::milliseconds(self.0.rem_euclid(CYCLE_MILLIS));
        let year = i64::from(time.year()) + 400 * self.0.div_euclid(CYCLE_MILLIS);
        write!(f, "{year:04}{}", time.format("%m%dT%H%M%S%.3f"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_is_its_time() {
        let id = BackupId::parse("20261120T020000.007").expect("a backup");
        assert_eq!(id.time(), Timestamp::from_micros(1_795_140_000_007_000));
        assert_eq!(id.to_string(), "20261120T020000.007");
    }

    #[test]
    fn times_that_do_not_exist_name_nothing() {
        for text in [
            "20260230T000000.000",
            "20261120T240000.000",
            "20261120T020060.000",
            "20261120 020000.000",
            "+2026112T020000.000",
            "",
        ] {
            assert!(BackupId::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn each_text_of_four_digit_years_is_read_back(millis in -62_167_219_200_000_i64..253_402_300_800_000) {
            let id = BackupId(millis);
            prop_assert_eq!(BackupId::parse(&id.to_string()).ok(), Some(id));
        }

        #[test]
        fn only_the_text_of_a_time_is_read(text in "[-+0-9 ]{8}T[0-9]{6}[.,][0-9]{3}") {
            if let Ok(id) = BackupId::parse(&text) {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }
}
