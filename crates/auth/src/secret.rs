//! Random secrets in session cookies and invitation links.

use crate::base62;
use crate::secret_text::secret_texts;
use secrecy::SecretString;

/// Length of a secret in base62 digits: 43 · log₂ 62 = 256.03 bits.
pub const SECRET_LENGTH: usize = 43;

secret_texts! {
    /// 256 random bits as text, for cookies and links. Secret scanners do not have to recognize it, so it has no prefix
    /// and no check digits.
    PlainSecret;
}

/// The text is not [`SECRET_LENGTH`] base62 digits. The message does not contain the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the secret is not {SECRET_LENGTH} characters of 0-9, A-Z and a-z")]
pub struct SecretFormatError;

impl PlainSecret {
    /// Mints a secret. `fill` fills a buffer with random bytes and has to be cryptographically secure.
    #[must_use]
    pub fn mint_from(fill: &mut dyn FnMut(&mut [u8])) -> Self {
        // With the exact capacity, the text is never reallocated and leaves no copy behind.
        let mut secret = String::with_capacity(SECRET_LENGTH);
        base62::push_random(&mut secret, SECRET_LENGTH, fill);
        Self(SecretString::from(secret))
    }

    /// Parses a secret sent by a client. Needs no look-up.
    ///
    /// # Errors
    /// [`SecretFormatError`] if the text cannot be a minted secret.
    pub fn parse(text: &str) -> Result<Self, SecretFormatError> {
        if text.len() != SECRET_LENGTH || !text.bytes().all(base62::is_digit) {
            return Err(SecretFormatError);
        }
        Ok(Self(SecretString::from(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::{PlainSecret, SECRET_LENGTH, SecretFormatError};
    use proptest::prelude::*;
    use rand::rngs::StdRng;
    use rand::{RngCore, SeedableRng};
    use sha2::{Digest, Sha256};

    crate::assert_not_impl!(PlainSecret: std::fmt::Display, Clone, PartialEq);

    fn mint(seed: u64) -> PlainSecret {
        let mut rng = StdRng::seed_from_u64(seed);
        PlainSecret::mint_from(&mut |buffer| rng.fill_bytes(buffer))
    }

    #[test]
    fn other_texts_are_refused() {
        let good = "A".repeat(SECRET_LENGTH);
        assert!(PlainSecret::parse(&good).is_ok());
        for bad in ["", &good[1..], &format!("{good}A"), &good.replacen('A', "-", 1), &good.replacen("AA", "é", 1)] {
            assert_eq!(PlainSecret::parse(bad).unwrap_err(), SecretFormatError, "{bad}");
        }
    }

    #[test]
    fn the_hash_is_sha_256_of_the_text_and_nothing_prints_it() {
        let secret = mint(1);
        let expected: [u8; 32] = Sha256::digest(secret.expose()).into();
        assert_eq!(secret.hash().as_bytes(), &expected);
        assert_eq!(format!("{secret:?}"), "PlainSecret([redacted])");
    }

    proptest! {
        #[test]
        fn minted_secrets_parse(seed: u64) {
            let secret = mint(seed);
            prop_assert_eq!(PlainSecret::parse(secret.expose()).unwrap().hash(), secret.hash());
        }
    }
}
