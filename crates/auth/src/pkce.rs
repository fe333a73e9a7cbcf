//! Proof Key for Code Exchange (RFC 7636), method `S256`.

use data_encoding::BASE64URL_NOPAD;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use std::fmt;
use subtle::ConstantTimeEq;

/// The code challenge of a client: the SHA-256 hash of its code verifier (RFC 7636 §4.2).
#[derive(Clone, Copy, Debug)]
pub struct CodeChallenge([u8; 32]);

/// The text is not a code challenge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the code challenge is not 43 characters of base64url")]
pub struct CodeChallengeFormatError;

impl CodeChallenge {
    /// Parses the 43 characters of base64url that a client sends.
    ///
    /// # Errors
    /// [`CodeChallengeFormatError`] for any other text.
    pub fn parse(text: &str) -> Result<Self, CodeChallengeFormatError> {
        // Checked first, because the text is untrusted and may be long.
        if text.len() != 43 {
            return Err(CodeChallengeFormatError);
        }
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| CodeChallengeFormatError)?;
        bytes.try_into().map(Self).map_err(|_| CodeChallengeFormatError)
    }

    /// Returns the challenge of a verifier, as a client computes it.
    #[must_use]
    pub fn of(verifier: &CodeVerifier) -> Self {
        Self(Sha256::digest(verifier.0.expose_secret()).into())
    }

    /// Wraps a challenge that was read from storage.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes to store.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns `true` if `verifier` is the one that the challenge was made from (RFC 7636 §4.6). Compares in constant time.
    #[must_use]
    pub fn is_met_by(&self, verifier: &CodeVerifier) -> bool {
        Self::of(verifier).0.ct_eq(&self.0).into()
    }
}

/// A code verifier (RFC 7636 §4.1). It is a secret of the client, and wiped from memory on drop.
pub struct CodeVerifier(SecretString);

/// The text is not a code verifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the code verifier is not 43 to 128 characters of A-Z, a-z, 0-9, '-', '.', '_' and '~'")]
pub struct CodeVerifierFormatError;

impl CodeVerifier {
    /// Parses the verifier that a client sends.
    ///
    /// # Errors
    /// [`CodeVerifierFormatError`] for a text that is too short or too long, or has other characters.
    pub fn parse(text: &str) -> Result<Self, CodeVerifierFormatError> {
        let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        if !(43..=128).contains(&text.len()) || !text.bytes().all(is_unreserved) {
            return Err(CodeVerifierFormatError);
        }
        Ok(Self(SecretString::from(text)))
    }
}

impl fmt::Debug for CodeVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CodeVerifier([redacted])")
    }
}

#[cfg(test)]
mod tests {
    use super::{CodeChallenge, CodeVerifier};

    crate::assert_not_impl!(CodeVerifier: std::fmt::Display, Clone, PartialEq);

    #[test]
    fn the_example_of_the_standard() {
        // RFC 7636 appendix B.
        let verifier = CodeVerifier::parse("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk").unwrap();
        let challenge = CodeChallenge::parse("E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM").unwrap();
        assert!(challenge.is_met_by(&verifier));
        assert!(!challenge.is_met_by(&CodeVerifier::parse(&"a".repeat(43)).unwrap()));
        assert_eq!(CodeChallenge::from_bytes(*challenge.as_bytes()).as_bytes(), challenge.as_bytes());
        assert_eq!(format!("{verifier:?}"), "CodeVerifier([redacted])");
    }

    #[test]
    fn lengths_and_characters_are_limited() {
        assert!(CodeVerifier::parse(&"a".repeat(128)).is_ok());
        for bad in ["a".repeat(42), "a".repeat(129), format!("{}+", "a".repeat(43)), "é".repeat(43)] {
            assert!(CodeVerifier::parse(&bad).is_err(), "{bad}");
        }
        for bad in ["", &"A".repeat(42), &"A".repeat(44), &"=".repeat(43), &"+".repeat(43), &"B".repeat(43)] {
            assert!(CodeChallenge::parse(bad).is_err(), "{bad}");
        }
    }
}
