//! The `hsat.v1.` token.
//!
//! `hsat.v1.` + 43 random digits + 6 check digits, 57 characters in all. The check digits are the CRC-32
//! of the 51 characters before them. They protect nothing; they let a mistyped or cut-off token be
//! refused without a look-up, and a scanner tell a leaked token from a string that resembles one.

use crate::HashedToken;
use crate::base62;
use rand::RngCore;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use std::fmt;

/// How every token begins.
///
/// Secret scanners, proxies that redact logs, and clients know tokens by it, and every token in use
/// carries it: a change makes all of them invalid at once. Another kind of token gets another prefix.
pub const TOKEN_PREFIX: &str = "hsat.v1.";

/// Characters in a token, all of them ASCII.
pub const TOKEN_LENGTH: usize = TOKEN_PREFIX.len() + RANDOM_DIGITS + base62::U32_DIGITS;

/// 43 · log₂ 62 = 256.03 bits.
const RANDOM_DIGITS: usize = 43;

/// A token as its owner knows it. Shown once, when it is minted; otherwise it can only become a
/// [`HashedToken`].
///
/// The value is wiped from memory on drop. It has no `Clone` and no comparison: two tokens are compared
/// by their hashes.
pub struct PlainToken(SecretString);

/// Why a text is no token. The messages are safe to send: none repeats the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFormatError {
    /// It begins differently.
    #[error("the token does not begin with hsat.v1.")]
    Prefix,
    /// It is too long or too short.
    #[error("the token is not 57 characters long")]
    Length,
    /// It holds a character that is no base62 digit.
    #[error("the token holds a character other than 0-9, A-Z and a-z")]
    Alphabet,
    /// It was mistyped, or cut and joined.
    #[error("the token's check characters do not match")]
    Checksum,
}

impl PlainToken {
    /// A new token, as unpredictable as the generator.
    ///
    /// Outside tests hand in one that is seeded by the operating system, such as `rand::rng()`. A
    /// generator that only ever returns ones makes this loop forever: its bytes are drawn again until
    /// they are unbiased.
    #[must_use]
    pub fn mint(rng: &mut dyn RngCore) -> Self {
        Self::mint_from(&mut |buffer| rng.fill_bytes(buffer))
    }

    /// The same for a source that is no generator of this crate's: `fill` fills a buffer with random bytes.
    #[must_use]
    pub fn mint_from(fill: &mut dyn FnMut(&mut [u8])) -> Self {
        // With the capacity exact, the text is never moved and leaves no copy behind.
        let mut token = String::with_capacity(TOKEN_LENGTH);
        token.push_str(TOKEN_PREFIX);
        base62::push_random(&mut token, TOKEN_LENGTH - base62::U32_DIGITS, fill);
        let check = check_digits(token.as_bytes());
        token.extend(check.map(char::from));
        Self(SecretString::from(token))
    }

    /// Reads a token that a client sent, and refuses everything that was never minted as far as its text
    /// shows. Needs no look-up.
    ///
    /// # Errors
    /// The first of these that applies: prefix, length, alphabet, check characters.
    pub fn parse(text: &str) -> Result<Self, TokenFormatError> {
        let digits = text.strip_prefix(TOKEN_PREFIX).ok_or(TokenFormatError::Prefix)?;
        // Characters are counted, so that a foreign one is an error of the alphabet. No more than can
        // matter: the text comes from a stranger.
        if digits.chars().take(TOKEN_LENGTH).count() != TOKEN_LENGTH - TOKEN_PREFIX.len() {
            return Err(TokenFormatError::Length);
        }
        if !digits.bytes().all(base62::is_digit) {
            return Err(TokenFormatError::Alphabet);
        }
        let (body, check) = text.split_at_checked(TOKEN_LENGTH - base62::U32_DIGITS).ok_or(TokenFormatError::Length)?;
        if check.as_bytes() != check_digits(body.as_bytes()) {
            return Err(TokenFormatError::Checksum);
        }
        Ok(Self(SecretString::from(text)))
    }

    /// The token in clear, for the one answer that shows it.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// What to store, and what to look up.
    #[must_use]
    pub fn hash(&self) -> HashedToken {
        HashedToken::from_bytes(Sha256::digest(self.expose()).into())
    }
}

impl fmt::Debug for PlainToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlainToken([redacted])")
    }
}

fn check_digits(body: &[u8]) -> [u8; base62::U32_DIGITS] {
    base62::encode(crc32fast::hash(body))
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
        /// Mostly bytes that must be refused, so that one draw is not enough.
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
