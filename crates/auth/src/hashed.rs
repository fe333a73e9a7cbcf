//! The stored form of tokens and other random secrets.

use std::fmt;
use subtle::ConstantTimeEq;

/// The SHA-256 hash of a whole token or [`PlainSecret`](crate::PlainSecret). Storage holds only this hash, which is
/// also the key of look-ups.
///
/// Comparison takes constant time. There is no `Hash` and no `Ord`, because they could not guarantee constant time.
#[derive(Clone, Copy)]
pub struct HashedToken([u8; 32]);

impl HashedToken {
    /// Wraps a hash that was read from storage. [`PlainToken::hash`](crate::PlainToken::hash) computes the hash of a
    /// token.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes to store.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl PartialEq for HashedToken {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for HashedToken {}

impl fmt::Debug for HashedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashedToken([redacted])")
    }
}

#[cfg(test)]
mod tests {
    use super::HashedToken;

    crate::assert_not_impl!(HashedToken: std::fmt::Display, std::hash::Hash, PartialOrd);

    #[test]
    fn bytes_come_back_and_are_compared_in_full() {
        let bytes = [7; 32];
        let hashed = HashedToken::from_bytes(bytes);
        assert_eq!(hashed.as_bytes(), &bytes);
        assert_eq!(hashed, HashedToken::from_bytes(bytes));
        for position in 0..bytes.len() {
            let mut other = bytes;
            other[position] ^= 1;
            assert_ne!(hashed, HashedToken::from_bytes(other));
        }
    }

    #[test]
    fn debug_shows_no_byte() {
        let hashed = HashedToken::from_bytes([7; 32]);
        assert_eq!(format!("{hashed:?}"), "HashedToken([redacted])");
    }
}
