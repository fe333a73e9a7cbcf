//! The keys of DoltLite's clients: Ed25519 (RFC 8032), with public keys and their ids in the spelling of the clients.
//!
//! That spelling is base32 with the alphabet `0-9a-v` in lower case, without padding; the bits behind the last byte are zero.

use std::fmt;
use std::sync::LazyLock;

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use data_encoding::{Encoding, Specification};
use sha2::{Digest as _, Sha512_224};

/// Length of the text of a public key, in characters.
pub const PUBLIC_KEY_LENGTH: usize = 52;
/// Length of the text of the id of a key, in characters.
const KEY_ID_LENGTH: usize = 45;
/// Length of the secret from which a key pair is made, in bytes.
pub const SEED_BYTES: usize = 32;
/// Length of a signature in bytes.
pub const SIGNATURE_BYTES: usize = 64;

static BASE32: LazyLock<Encoding> = LazyLock::new(|| {
    let mut specification = Specification::new();
    specification.symbols.push_str("0123456789abcdefghijklmnopqrstuv");
    #[expect(clippy::expect_used, reason = "the specification is constant, and a test uses it")]
    specification.encoding().expect("32 symbols")
});

/// The public half of a key pair of a client.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublicKey([u8; 32]);

/// The text is no public key. The message can be sent to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a public key has 52 characters, each one of 0-9 and a-v; dolt_creds_new() prints it")]
pub struct PublicKeyFormatError;

impl PublicKey {
    /// Parses a public key as clients print it.
    ///
    /// # Errors
    /// [`PublicKeyFormatError`].
    pub fn parse(text: &str) -> Result<Self, PublicKeyFormatError> {
        let bytes = BASE32.decode(text.as_bytes()).map_err(|_| PublicKeyFormatError)?;
        bytes.try_into().map(Self).map_err(|_| PublicKeyFormatError)
    }

    /// Returns the key with these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes of the key.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the id by which clients name the key: the SHA-512/224 of its bytes.
    #[must_use]
    pub fn id(&self) -> RemoteKeyId {
        RemoteKeyId(BASE32.encode(&Sha512_224::digest(self.0)))
    }

    /// Returns `true` if the holder of the private key has signed a message. Other encodings of a signature count as none
    /// (RFC 8032 §5.1.7: S is less than the order of the group).
    #[must_use]
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0).verify(message, signature).is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE32.encode(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The id of a key, which is derived from its public half.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RemoteKeyId(String);

/// The text is no id of a key. The message can be sent to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the id of a key has 45 characters, each one of 0-9 and a-v")]
pub struct RemoteKeyIdFormatError;

impl RemoteKeyId {
    /// Parses an id.
    ///
    /// # Errors
    /// [`RemoteKeyIdFormatError`].
    pub fn parse(text: &str) -> Result<Self, RemoteKeyIdFormatError> {
        match BASE32.decode(text.as_bytes()) {
            Ok(_) if text.len() == KEY_ID_LENGTH => Ok(Self(text.to_owned())),
            _ => Err(RemoteKeyIdFormatError),
        }
    }

    /// Returns the text of the id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RemoteKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A key pair. Its private half leaves it only as the seed that it was made from.
pub struct RemoteKeyPair {
    pair: Ed25519KeyPair,
    public: PublicKey,
}

impl RemoteKeyPair {
    /// Makes the key pair of a seed, which has to be secret and cryptographically random. Returns `None` if the platform refuses
    /// to, which does not depend on the seed.
    #[must_use]
    pub fn from_seed(seed: &[u8; SEED_BYTES]) -> Option<Self> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).ok()?;
        let public = pair.public_key().as_ref().try_into().map(PublicKey).ok()?;
        Some(Self { pair, public })
    }

    /// Returns the public half.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// Signs a message.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.pair.sign(message).as_ref().to_vec()
    }
}

impl fmt::Debug for RemoteKeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RemoteKeyPair").field(&self.public).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLIC: &str = "0eggffvjpo8bs7bgrkceeiu0j5ju9lhgjeigqnotri3684il66s0";

    fn pair() -> RemoteKeyPair {
        let mut seed = [0; SEED_BYTES];
        (0..).zip(&mut seed).for_each(|(number, byte)| *byte = number);
        RemoteKeyPair::from_seed(&seed).unwrap()
    }

    #[test]
    fn the_published_key_has_its_spelling_and_its_id() {
        let public = pair().public();
        assert_eq!(public.as_bytes()[..4], [0x03, 0xa1, 0x07, 0xbf]);
        assert_eq!(public.to_string(), PUBLIC);
        assert_eq!(PUBLIC.len(), PUBLIC_KEY_LENGTH);
        assert_eq!(PublicKey::parse(PUBLIC).unwrap(), public);
        let id = public.id();
        assert_eq!(id.as_str(), "7ku1cgd7ujkcri5u4smmrsrpcp3ejsmgc9t7o3dkdbars");
        assert_eq!(RemoteKeyId::parse(id.as_str()).unwrap(), id);
    }

    #[test]
    fn what_is_spelled_otherwise_is_no_key() {
        let upper = PUBLIC.to_ascii_uppercase();
        let padded = format!("{PUBLIC}====");
        for text in ["", &PUBLIC[1..], &format!("{PUBLIC}0"), &upper, &padded, &PUBLIC.replace('0', "w")] {
            assert_eq!(PublicKey::parse(text), Err(PublicKeyFormatError), "{text}");
        }
        // A bit behind the last byte.
        assert!(PublicKey::parse(&format!("{}1", &PUBLIC[..51])).is_err());
        for text in ["", PUBLIC, "7ku1cgd7ujkcri5u4smmrsrpcp3ejsmgc9t7o3dkdbar"] {
            assert!(RemoteKeyId::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_signature_fits_one_message_and_one_key() {
        let pair = pair();
        let signature = pair.sign(b"message");
        assert_eq!(signature.len(), SIGNATURE_BYTES);
        assert!(pair.public().verify(b"message", &signature));
        assert!(!pair.public().verify(b"massage", &signature));
        let other = RemoteKeyPair::from_seed(&[7; SEED_BYTES]).unwrap();
        assert!(!other.public().verify(b"message", &signature));
        for at in 0..signature.len() {
            let mut changed = signature.clone();
            changed[at] ^= 1;
            assert!(!pair.public().verify(b"message", &changed), "{at}");
        }
        assert!(!pair.public().verify(b"message", &signature[1..]));
    }

    /// The order of the group, little-endian.
    const ORDER: [u8; 32] = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ];

    #[test]
    fn an_unreduced_signature_is_refused() {
        let pair = pair();
        let mut signature = pair.sign(b"message");
        let mut carry = 0_u16;
        for (byte, added) in signature[32..].iter_mut().zip(ORDER) {
            let sum = u16::from(*byte) + u16::from(added) + carry;
            (*byte, carry) = (u8::try_from(sum & 0xff).unwrap(), sum >> 8);
        }
        assert_eq!(carry, 0);
        assert!(!pair.public().verify(b"message", &signature));
    }
}
