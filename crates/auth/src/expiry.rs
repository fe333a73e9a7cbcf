//! The lifetime of a token.

use std::fmt;

/// The lifetimes a token can have. There is no unlimited token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenExpiry {
    /// `30d`
    Days30,
    /// `60d`
    Days60,
    /// `90d`
    Days90,
    /// `1y`, which is 365 days
    Year1,
}

/// The text is not a lifetime. The message lists the lifetimes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be one of 30d, 60d, 90d, 1y")]
pub struct UnknownTokenExpiry;

impl TokenExpiry {
    /// Every lifetime, shortest first.
    pub const ALL: [Self; 4] = [Self::Days30, Self::Days60, Self::Days90, Self::Year1];

    /// Parses exactly `30d`, `60d`, `90d` or `1y`.
    ///
    /// # Errors
    /// [`UnknownTokenExpiry`] for any other text.
    pub fn parse(text: &str) -> Result<Self, UnknownTokenExpiry> {
        let mut all = Self::ALL.into_iter();
        all.find(|expiry| expiry.as_str() == text).ok_or(UnknownTokenExpiry)
    }

    /// Returns the form that clients use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Days30 => "30d",
            Self::Days60 => "60d",
            Self::Days90 => "90d",
            Self::Year1 => "1y",
        }
    }

    /// Returns the number of days of 24 hours between creation and expiry.
    #[must_use]
    pub const fn days(self) -> u32 {
        match self {
            Self::Days30 => 30,
            Self::Days60 => 60,
            Self::Days90 => 90,
            Self::Year1 => 365,
        }
    }
}

impl fmt::Display for TokenExpiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::{TokenExpiry, UnknownTokenExpiry};

    #[test]
    fn spellings_and_days() {
        let rows = TokenExpiry::ALL.map(|expiry| (expiry.as_str(), expiry.days()));
        assert_eq!(rows, [("30d", 30), ("60d", 60), ("90d", 90), ("1y", 365)]);
        for expiry in TokenExpiry::ALL {
            assert_eq!(TokenExpiry::parse(expiry.as_str()), Ok(expiry));
        }
    }

    #[test]
    fn nothing_else_is_accepted_and_the_message_lists_what_is() {
        for text in ["", "30", "30D", " 30d", "365d", "2y", "never", "0d"] {
            assert_eq!(TokenExpiry::parse(text), Err(UnknownTokenExpiry), "{text}");
        }
        for expiry in TokenExpiry::ALL {
            let message = UnknownTokenExpiry.to_string();
            assert!(message.contains(expiry.as_str()), "{message}");
        }
    }
}
