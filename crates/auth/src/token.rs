//! The `hsat.v1.` token.
//!
//! A token has 57 characters: `hsat.v1.`, 43 random digits and 6 check digits. The check digits are the CRC-32 of the
//! 51 characters before them. They are not a security measure. They allow the server to reject mistyped or truncated
//! tokens without a look-up, and secret scanners to avoid false positives.

use crate::base62;
use crate::checked_text;
use crate::secret_text::secret_texts;
use rand::RngCore;

/// The prefix of every token.
///
/// Secret scanners, log-redacting proxies and clients recognize tokens by the prefix, and all issued tokens have it,
/// so a change would invalidate all of them. Other kinds of tokens need other prefixes.
pub const TOKEN_PREFIX: &str = "hsat.v1.";

/// Length of a token in ASCII characters.
pub const TOKEN_LENGTH: usize = TOKEN_PREFIX.len() + RANDOM_DIGITS + base62::U32_DIGITS;

/// Number of random digits: 43 · log₂ 62 = 256.03 bits.
const RANDOM_DIGITS: usize = 43;

secret_texts! {
    /// A token in clear. Shown once, when it is minted; otherwise it can only be converted to a [`HashedToken`](crate::HashedToken).
    PlainToken;
}

/// Why a text is not a token. The messages can be sent to clients, because they do not contain the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFormatError {
    /// The prefix is missing.
    #[error("the token does not begin with hsat.v1.")]
    Prefix,
    /// The text is too long or too short.
    #[error("the token is not 57 characters long")]
    Length,
    /// The text contains a character that is not a base62 digit.
    #[error("the token holds a character other than 0-9, A-Z and a-z")]
    Alphabet,
    /// The check digits do not match: the token was mistyped or altered.
    #[error("the token's check characters do not match")]
    Checksum,
}

impl PlainToken {
    /// Mints a token.
    ///
    /// Outside of tests, `rng` has to be cryptographically secure and seeded by the operating system, such as
    /// `rand::rng()`. Biased bytes are drawn again, so a generator that only returns bytes of ones causes an infinite
    /// loop.
    #[must_use]
    pub fn mint(rng: &mut dyn RngCore) -> Self {
        Self::mint_from(&mut |buffer| rng.fill_bytes(buffer))
    }

    /// Mints a token with another source of randomness; see [`PlainToken::mint`]. `fill` fills a buffer with random bytes.
    #[must_use]
    pub fn mint_from(fill: &mut dyn FnMut(&mut [u8])) -> Self {
        Self(checked_text::mint(TOKEN_PREFIX, TOKEN_LENGTH, fill))
    }

    /// Parses a token sent by a client. Rejects every text that cannot be a minted token. Needs no look-up.
    ///
    /// # Errors
    /// The first applicable error in the order prefix, length, alphabet, check digits.
    pub fn parse(text: &str) -> Result<Self, TokenFormatError> {
        checked_text::parse(TOKEN_PREFIX, TOKEN_LENGTH, text).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::{PlainToken, TOKEN_LENGTH, TOKEN_PREFIX, TokenFormatError};
    use proptest::prelude::*;
    use rand::rngs::StdRng;
    use rand::{RngCore, SeedableRng};
    use sha2::{Digest, Sha256};

    crate::assert_not_impl!(PlainToken: std::fmt::Display, Clone, PartialEq);

    fn mint(seed: u64) -> PlainToken {
        PlainToken::mint(&mut StdRng::seed_from_u64(seed))
    }

    fn vector() -> String {
        format!("hsat.v1.{}3mhf8X", "A".repeat(43))
    }

    #[track_caller]
    fn check_refused(text: &str, expected: TokenFormatError) {
        assert_eq!(PlainToken::parse(text).unwrap_err(), expected, "{text}");
    }

    #[test]
    fn the_vector_of_the_contract() {
        let body = format!("hsat.v1.{}", "A".repeat(43));
        assert_eq!(crc32fast::hash(body.as_bytes()), 0xceb6_87fd);
        let token = PlainToken::parse(&vector()).unwrap();
        assert_eq!(token.expose(), vector());
        let expected: [u8; 32] = Sha256::digest(vector()).into();
        assert_eq!(token.hash().as_bytes(), &expected);
    }

    #[test]
    fn the_first_fault_is_named() {
        use TokenFormatError::{Alphabet, Checksum, Length, Prefix};
        let good = vector();
        check_refused("", Prefix);
        check_refused("hsat.v1", Prefix);
        check_refused(&good.replace("v1", "v2"), Prefix);
        check_refused(&good.to_uppercase(), Prefix);
        check_refused(&format!(" {good}"), Prefix);
        check_refused("hsat.v1.", Length);
        check_refused(&good[..56], Length);
        check_refused(&format!("{good}0"), Length);
        check_refused(&format!("{good}\n"), Length);
        check_refused(&good.replace('X', "-"), Alphabet);
        check_refused(&good.replace('X', "é"), Alphabet);
        check_refused(&good.replace('X', "x"), Checksum);
        // 57 bytes, but two of them are one character.
        check_refused(&good.replace("8X", "é"), Length);
    }

    #[test]
    fn biased_bytes_are_drawn_again() {
        /// Returns mostly bytes that have to be drawn again, so that one draw is not enough.
        struct Grudging(u8);
        impl RngCore for Grudging {
            fn next_u32(&mut self) -> u32 {
                rand::rand_core::impls::next_u32_via_fill(self)
            }
            fn next_u64(&mut self) -> u64 {
                rand::rand_core::impls::next_u64_via_fill(self)
            }
            fn fill_bytes(&mut self, bytes: &mut [u8]) {
                bytes.fill(255);
                bytes[0] = self.0;
                self.0 += 1;
            }
        }
        let token = PlainToken::mint(&mut Grudging(0));
        let random = &token.expose()[TOKEN_PREFIX.len()..][..43];
        assert_eq!(random, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg");
    }

    #[test]
    fn every_substituted_character_is_refused() {
        let token = mint(1);
        let text = token.expose();
        for position in 0..TOKEN_LENGTH {
            for other in (' '..='~').chain(['\0', '\n', 'é', '０']) {
                if text[position..].starts_with(other) {
                    continue;
                }
                let (before, after) = (&text[..position], &text[position + 1..]);
                let changed = format!("{before}{other}{after}");
                assert!(PlainToken::parse(&changed).is_err(), "{changed}");
            }
        }
    }

    #[test]
    fn nothing_prints_the_token() {
        let token = mint(2);
        assert_eq!(format!("{token:?}"), "PlainToken([redacted])");
    }

    proptest! {
        #[test]
        fn minted_tokens_parse(seed: u64) {
            let token = mint(seed);
            let text = token.expose();
            prop_assert_eq!(text.len(), TOKEN_LENGTH);
            prop_assert!(text.starts_with(TOKEN_PREFIX));
            let parsed = PlainToken::parse(text).unwrap();
            prop_assert_eq!(parsed.expose(), text);
            prop_assert_eq!(parsed.hash(), token.hash());
        }

        #[test]
        fn a_substitution_in_any_token_is_refused(
            seed: u64,
            position in 0..TOKEN_LENGTH,
            other in "[0-9A-Za-z.]",
        ) {
            let token = mint(seed);
            let mut changed = token.expose().to_owned();
            changed.replace_range(position..=position, &other);
            prop_assume!(changed != token.expose());
            prop_assert!(PlainToken::parse(&changed).is_err());
        }

        #[test]
        fn arbitrary_text_is_refused_without_panic(text: String, after in "\\PC{40,60}") {
            let short = format!("hsat.v1.{text}");
            let about_right = format!("hsat.v1.{after}");
            for text in [text, short, about_right] {
                prop_assert!(PlainToken::parse(&text).is_err());
            }
        }
    }
}
