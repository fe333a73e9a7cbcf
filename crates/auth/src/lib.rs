//! Tokens, passwords, and the secrets of sessions and invitations: mint, parse, hash, verify.
//!
//! A secret and what is stored of it are different types, and the way between them goes in one direction:
//!
//! | shown or typed | stored | by |
//! |---|---|---|
//! | [`PlainToken`] | [`HashedToken`] | SHA-256: a token is 256 random bits, nothing can be tried out |
//! | [`PlainSecret`] | [`HashedToken`] | the same, for cookies and links |
//! | [`PlainPassword`] | [`PasswordHash`] | argon2id: people choose passwords, so guessing must be dear |
//!
//! What this crate never contains:
//! - a database, a clock, or a source of randomness. Expiry is a number of days ([`TokenExpiry`]), and
//!   whoever mints hands in the generator;
//! - a secret that prints itself. None of the types above has a `Display`, their `Debug` is redacted,
//!   serde is not among the dependencies, and no error repeats its input;
//! - the `Authorization` header, or who may do what.

mod base62;
mod expiry;
mod hashed;
mod password;
mod secret;
mod token;

pub use expiry::{TokenExpiry, UnknownTokenExpiry};
pub use hashed::HashedToken;
pub use password::{
    ARGON2_LANES, ARGON2_MEMORY_KIB, ARGON2_PASSES, PASSWORD_MAX_BYTES, PASSWORD_MIN_BYTES, PasswordHash,
    PasswordHashingError, PasswordLengthError, PlainPassword, StoredHashError,
};
pub use secret::{PlainSecret, SECRET_LENGTH, SecretFormatError};
pub use token::{PlainToken, TOKEN_LENGTH, TOKEN_PREFIX, TokenFormatError};

/// Fails to compile when a type implements a trait that it must not have.
#[cfg(test)]
macro_rules! assert_not_impl {
    ($type:ty: $($forbidden:path),+) => {$(
        const _: fn() = || {
            // Two candidates for `A` make the last line ambiguous, unless the second does not apply.
            trait Candidate<A> {
                fn found() {}
            }
            impl<T: ?Sized> Candidate<()> for T {}
            struct Forbidden;
            impl<T: ?Sized + $forbidden> Candidate<Forbidden> for T {}
            let _ = <$type as Candidate<_>>::found;
        };
    )+};
}
#[cfg(test)]
pub(crate) use assert_not_impl;
