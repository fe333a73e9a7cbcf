//! The access tokens and refresh tokens of OAuth (RFC 6749 §1.4, §1.5).
//!
//! Both have another prefix than API tokens, so that a token shows its kind, and a token of one kind is never looked up as another.

use crate::base62;
use crate::secret_text::secret_texts;
use crate::{HashedToken, PlainToken, TokenFormatError, checked_text};
use aws_lc_rs::hmac;
use sha2::{Digest, Sha256};

/// The prefix of every access token.
pub const ACCESS_TOKEN_PREFIX: &str = "hsoa.v1.";

/// Length of an access token in ASCII characters, that of an API token.
pub const ACCESS_TOKEN_LENGTH: usize = crate::TOKEN_LENGTH;

/// The prefix of every refresh token.
pub const REFRESH_TOKEN_PREFIX: &str = "hsor.v1.";

/// Number of digits that all refresh tokens of one family share: 22 · log₂ 62 = 131 bits.
const FAMILY_DIGITS: usize = 22;

/// Number of digits of a refresh token that only it has: 43 · log₂ 62 = 256.03 bits.
const OWN_DIGITS: usize = 43;

/// Length of a refresh token in ASCII characters.
pub const REFRESH_TOKEN_LENGTH: usize = REFRESH_TOKEN_PREFIX.len() + FAMILY_DIGITS + OWN_DIGITS + base62::U32_DIGITS;

secret_texts! {
    /// An access token in clear. Shown once, to the client that it is issued to.
    AccessToken;
}

impl AccessToken {
    /// Mints a token. `fill` fills a buffer with random bytes and has to be cryptographically secure.
    #[must_use]
    pub fn mint_from(fill: &mut dyn FnMut(&mut [u8])) -> Self {
        Self(checked_text::mint(ACCESS_TOKEN_PREFIX, ACCESS_TOKEN_LENGTH, fill))
    }

    /// Parses a token sent by a client. Needs no look-up.
    ///
    /// # Errors
    /// The first applicable error in the order prefix, length, alphabet, check digits.
    pub fn parse(text: &str) -> Result<Self, TokenFormatError> {
        checked_text::parse(ACCESS_TOKEN_PREFIX, ACCESS_TOKEN_LENGTH, text).map(Self)
    }
}

secret_texts! {
    /// A refresh token in clear.
    ///
    /// The tokens that replace each other form a family. All of them begin with the same digits, so that a replaced token still names its
    /// family, although nothing of it is stored.
    RefreshToken;
}

impl RefreshToken {
    /// Mints the first token of a family. `fill` fills a buffer with random bytes and has to be cryptographically secure.
    #[must_use]
    pub fn mint_from(fill: &mut dyn FnMut(&mut [u8])) -> Self {
        Self(checked_text::mint(REFRESH_TOKEN_PREFIX, REFRESH_TOKEN_LENGTH, fill))
    }

    /// Parses a token sent by a client. Needs no look-up.
    ///
    /// # Errors
    /// The first applicable error in the order prefix, length, alphabet, check digits.
    pub fn parse(text: &str) -> Result<Self, TokenFormatError> {
        checked_text::parse(REFRESH_TOKEN_PREFIX, REFRESH_TOKEN_LENGTH, text).map(Self)
    }

    /// Returns the token that replaces this one: always the same under one `key`, which only the server knows. A client that sends a
    /// token twice at once, or again because it did not get the answer, thus gets the same successor.
    #[must_use]
    pub fn successor(&self, key: &[u8; 32]) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key);
        let mut counter = 0_u64;
        let mut fill = |buffer: &mut [u8]| {
            for block in buffer.chunks_mut(32) {
                let mut context = hmac::Context::with_key(&key);
                context.update(self.expose().as_bytes());
                context.update(&counter.to_be_bytes());
                block.copy_from_slice(&context.sign().as_ref()[..block.len()]);
                counter += 1;
            }
        };
        Self(checked_text::mint(self.family(), REFRESH_TOKEN_LENGTH, &mut fill))
    }

    /// Returns the characters that all tokens of the family share.
    fn family(&self) -> &str {
        let shared = REFRESH_TOKEN_PREFIX.len() + FAMILY_DIGITS;
        self.expose().get(..shared).unwrap_or_default()
    }

    /// Returns the hash of what all tokens of the family share, which is stored and looked up.
    #[must_use]
    pub fn family_hash(&self) -> HashedToken {
        HashedToken::from_bytes(Sha256::digest(self.family()).into())
    }
}

/// The hash of a bearer token that a client sent to an API (RFC 6750), by the kind of token that its prefix shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BearerHash {
    /// An API token.
    Api(HashedToken),
    /// An access token of OAuth.
    Access(HashedToken),
}

impl BearerHash {
    /// Parses a token sent by a client. Needs no look-up.
    ///
    /// # Errors
    /// The first applicable error in the order prefix, length, alphabet, check digits.
    pub fn parse(text: &str) -> Result<Self, TokenFormatError> {
        if text.starts_with(ACCESS_TOKEN_PREFIX) {
            return AccessToken::parse(text).map(|token| Self::Access(token.hash()));
        }
        PlainToken::parse(text).map(|token| Self::Api(token.hash()))
    }

    /// Returns the hash. Tokens of two kinds never have the same one, because it covers the prefix.
    #[must_use]
    pub const fn hash(&self) -> &HashedToken {
        match self {
            Self::Api(hash) | Self::Access(hash) => hash,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ACCESS_TOKEN_LENGTH, AccessToken, BearerHash, REFRESH_TOKEN_LENGTH, RefreshToken};
    use crate::{PlainToken, TokenFormatError};
    use proptest::prelude::*;
    use rand::rngs::StdRng;
    use rand::{RngCore, SeedableRng};

    crate::assert_not_impl!(AccessToken: std::fmt::Display, Clone, PartialEq);
    crate::assert_not_impl!(RefreshToken: std::fmt::Display, Clone, PartialEq);

    const KEY: [u8; 32] = [7; 32];

    fn random(seed: u64) -> impl FnMut(&mut [u8]) {
        let mut rng = StdRng::seed_from_u64(seed);
        move |buffer| rng.fill_bytes(buffer)
    }

    #[test]
    fn a_token_of_one_kind_is_none_of_another() {
        let (api, access, refresh) = (
            PlainToken::mint_from(&mut random(1)),
            AccessToken::mint_from(&mut random(1)),
            RefreshToken::mint_from(&mut random(1)),
        );
        assert_eq!(AccessToken::parse(api.expose()).unwrap_err(), TokenFormatError::Prefix);
        assert_eq!(PlainToken::parse(access.expose()).unwrap_err(), TokenFormatError::Prefix);
        assert_eq!(AccessToken::parse(refresh.expose()).unwrap_err(), TokenFormatError::Prefix);
        assert_eq!(RefreshToken::parse(access.expose()).unwrap_err(), TokenFormatError::Prefix);
        assert_eq!(BearerHash::parse(api.expose()), Ok(BearerHash::Api(api.hash())));
        assert_eq!(BearerHash::parse(access.expose()), Ok(BearerHash::Access(access.hash())));
        assert_eq!(BearerHash::parse(refresh.expose()), Err(TokenFormatError::Prefix));
    }

    #[test]
    fn nothing_prints_a_token() {
        assert_eq!(format!("{:?}", AccessToken::mint_from(&mut random(1))), "AccessToken([redacted])");
        assert_eq!(format!("{:?}", RefreshToken::mint_from(&mut random(1))), "RefreshToken([redacted])");
    }

    #[test]
    fn the_successor_depends_on_the_key_and_on_the_whole_token() {
        let first = RefreshToken::mint_from(&mut random(1));
        let second = first.successor(&KEY);
        assert_eq!(second.hash(), first.successor(&KEY).hash());
        assert_ne!(second.hash(), first.successor(&[8; 32]).hash());
        assert_ne!(second.hash(), second.successor(&KEY).hash());
        assert_ne!(second.family_hash(), RefreshToken::mint_from(&mut random(2)).family_hash());
    }

    proptest! {
        #[test]
        fn minted_tokens_and_their_successors_parse(seed: u64) {
            let access = AccessToken::mint_from(&mut random(seed));
            prop_assert_eq!(access.expose().len(), ACCESS_TOKEN_LENGTH);
            prop_assert_eq!(AccessToken::parse(access.expose()).unwrap().hash(), access.hash());
            let first = RefreshToken::mint_from(&mut random(seed));
            for token in [first.successor(&KEY), first.successor(&KEY).successor(&KEY)] {
                prop_assert_eq!(token.expose().len(), REFRESH_TOKEN_LENGTH);
                let parsed = RefreshToken::parse(token.expose()).unwrap();
                prop_assert_eq!(parsed.hash(), token.hash());
                prop_assert_eq!(parsed.family_hash(), first.family_hash());
                prop_assert_ne!(parsed.hash(), first.hash());
            }
        }

        #[test]
        fn a_substitution_in_any_token_is_refused(
            seed: u64,
            position in 0..ACCESS_TOKEN_LENGTH,
            other in "[0-9A-Za-z.]",
        ) {
            for text in [
                AccessToken::mint_from(&mut random(seed)).expose().to_owned(),
                RefreshToken::mint_from(&mut random(seed)).expose().to_owned(),
            ] {
                let mut changed = text.clone();
                changed.replace_range(position..=position, &other);
                prop_assume!(changed != text);
                prop_assert!(AccessToken::parse(&changed).is_err() && RefreshToken::parse(&changed).is_err());
            }
        }
    }
}
