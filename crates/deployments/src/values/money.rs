//! Amounts of money.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

use branchyard_domain::values::Invalid;

/// Billionths in one dollar.
const UNIT: i128 = 1_000_000_000;
/// Hours per month, for the conversion between hourly and monthly prices.
pub const HOURS_PER_MONTH: i64 = 730;
const MILLIS_PER_HOUR: i128 = 3_600_000;

/// An amount in US dollars, or a price per hour, in whole billionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Usd(i128);

/// Returns `number / by`, rounded half to even. `by` must be positive.
fn half_even(number: i128, by: i128) -> i128 {
    let (quotient, rest) = (number.div_euclid(by), number.rem_euclid(by));
    match (rest * 2).cmp(&by) {
        std::cmp::Ordering::Less => quotient,
        std::cmp::Ordering::Greater => quotient + 1,
        std::cmp::Ordering::Equal => quotient + quotient.rem_euclid(2),
    }
}

impl Usd {
    /// Zero dollars.
    pub const ZERO: Self = Self(0);

    /// Returns the amount of this many billionths.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos as i128)
    }

    /// Returns the amount in billionths, capped at `i64::MAX`.
    pub fn as_nanos(self) -> i64 {
        i64::try_from(self.0).unwrap_or(i64::MAX)
    }

    /// Parses a decimal number with one to nine digits and at most nine decimals, such as `"0.10"`.
    ///
    /// # Errors
    /// [`Invalid`] if the text has another form.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str| (1..=9).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(decimals) {
            return Err(Invalid::new(format!(
                "'{text}' is not an amount such as \"0.10\", with at most nine decimals"
            )));
        }
        let number = |part: &str| part.parse::<i128>().unwrap_or(0);
        Ok(Self(number(whole) * UNIT + number(&format!("{decimals:0<9}"))))
    }

    /// Returns the price per hour of `gigabytes`, for a price per gigabyte and month.
    #[must_use]
    pub fn storage_per_hour(self, gigabytes: u32) -> Self {
        Self(half_even(self.0 * i128::from(gigabytes), i128::from(HOURS_PER_MONTH)))
    }

    /// Returns the cost of `millis` milliseconds at this price per hour.
    #[must_use]
    pub fn over_millis(self, millis: i64) -> Self {
        Self(half_even(self.0 * i128::from(millis.max(0)), MILLIS_PER_HOUR))
    }

    /// Returns the cost of a month at this price per hour.
    #[must_use]
    pub const fn per_month(self) -> Self {
        Self(self.0 * HOURS_PER_MONTH as i128)
    }

    /// Returns whole dollars and hundred-millionths: the eight decimals of amounts that are JSON numbers.
    pub fn rounded_to_8(self) -> (i128, u32) {
        let rounded = half_even(self.0, 10);
        (rounded / 100_000_000, u32::try_from(rounded % 100_000_000).unwrap_or(0))
    }
}

impl Add for Usd {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Usd {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sum for Usd {
    fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
        items.fold(Self::ZERO, Add::add)
    }
}

/// Formats the amount with exactly nine decimals.
impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0.div_euclid(UNIT), self.0.rem_euclid(UNIT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usd(text: &str) -> Usd {
        Usd::parse(text).expect("an amount")
    }

    #[test]
    fn ties_go_to_the_even_neighbour() {
        for (number, by, expected) in [(5, 10, 0), (15, 10, 2), (25, 10, 2), (26, 10, 3), (24, 10, 2), (0, 7, 0)] {
            assert_eq!(half_even(number, by), expected, "{number}/{by}");
        }
    }

    #[test]
    fn the_amounts_of_the_contract_come_out_to_the_digit() {
        let compute = usd("0.00684932");
        let storage = usd("0.10").storage_per_hour(10);
        assert_eq!(storage.to_string(), "0.001369863");
        assert_eq!(compute.over_millis(5_400_000).to_string(), "0.010273980");
        assert_eq!(storage.over_millis(5_400_000).to_string(), "0.002054794");
        assert_eq!(compute.over_millis(61_000).to_string(), "0.000116058");
        assert_eq!((usd("0.27397260") + usd("0.10").storage_per_hour(100)).per_month().to_string(), "209.999997900");
        assert_eq!((compute + storage).per_month().to_string(), "6.000003590");
        assert_eq!((compute + storage).rounded_to_8(), (0, 821_918));
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for text in ["", ".5", "1.", "-1", "1e3", "0.1234567890", "1234567890", "1,5", " 1"] {
            assert!(Usd::parse(text).is_err(), "{text}");
        }
        assert_eq!(usd("100").to_string(), "100.000000000");
    }
}
