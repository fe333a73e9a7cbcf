//! The user code of the device grant (RFC 8628 §6.1).

use std::fmt;

/// The letters of a code: consonants, so that no code is a word, and none is mistaken for a digit.
const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";

const LENGTH: usize = 8;

/// The largest multiple of 20 that fits in a byte. Random bytes from here on are drawn again.
const UNBIASED_BELOW: u8 = 240;

/// A code that a device shows, and its user types on another one: 8 · log₂ 20 = 34.5 bits. It is shown as `BCDF-GHJK`.
///
/// So few bits are enough only because a code is valid for minutes, and attempts to guess one are limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UserCode([u8; LENGTH]);

/// The text is not a user code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a code has eight letters, such as BCDF-GHJK")]
pub struct UserCodeFormatError;

impl UserCode {
    /// Mints a code. `fill` fills a buffer with random bytes and has to be cryptographically secure.
    #[must_use]
    pub fn mint_from(fill: &mut dyn FnMut(&mut [u8])) -> Self {
        let mut code = [0; LENGTH];
        let mut filled = 0;
        while filled < LENGTH {
            let mut random = [0; 32];
            fill(&mut random);
            for byte in random.into_iter().filter(|byte| *byte < UNBIASED_BELOW).take(LENGTH - filled) {
                code[filled] = LETTERS[usize::from(byte % 20)];
                filled += 1;
            }
        }
        Self(code)
    }

    /// Parses a code as its user types it: in any letter case, with any hyphens and spaces (RFC 8628 §6.1).
    ///
    /// # Errors
    /// [`UserCodeFormatError`] for other letters, or another number of them.
    pub fn parse(text: &str) -> Result<Self, UserCodeFormatError> {
        let mut code = [0; LENGTH];
        let mut filled = 0;
        // A long text is not read to its end.
        for letter in text.chars().take(64).filter(|letter| !matches!(letter, '-' | ' ')) {
            let letter = u8::try_from(letter.to_ascii_uppercase()).map_err(|_| UserCodeFormatError)?;
            if !LETTERS.contains(&letter) {
                return Err(UserCodeFormatError);
            }
            *code.get_mut(filled).ok_or(UserCodeFormatError)? = letter;
            filled += 1;
        }
        if filled == LENGTH { Ok(Self(code)) } else { Err(UserCodeFormatError) }
    }
}

impl fmt::Display for UserCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, letter) in self.0.iter().enumerate() {
            if position == LENGTH / 2 {
                f.write_str("-")?;
            }
            write!(f, "{}", char::from(*letter))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::UserCode;
    use proptest::prelude::*;
    use rand::rngs::StdRng;
    use rand::{RngCore, SeedableRng};

    #[test]
    fn codes_are_read_as_people_type_them() {
        let code = UserCode::parse("BCDF-GHJK").unwrap();
        for typed in ["bcdfghjk", " BCDF GHJK ", "bc-df-gh-jk", "BCDF - GHJK"] {
            assert_eq!(UserCode::parse(typed), Ok(code), "{typed}");
        }
        for bad in ["", "BCDFGHJ", "BCDFGHJKL", "ABCDEFGH", "BCDF1GHJ", "BCDF_GHJK", "ÄCDFGHJK", &"-".repeat(1_000_000)]
        {
            assert!(UserCode::parse(bad).is_err());
        }
    }

    proptest! {
        #[test]
        fn minted_codes_parse(seed: u64) {
            let mut rng = StdRng::seed_from_u64(seed);
            let code = UserCode::mint_from(&mut |buffer| rng.fill_bytes(buffer));
            prop_assert_eq!(UserCode::parse(&code.to_string()), Ok(code));
            prop_assert_eq!(code.to_string().len(), 9);
        }
    }
}
