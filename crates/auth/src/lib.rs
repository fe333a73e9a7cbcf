//! Tokens, passwords, and the secrets of sessions, invitations and OAuth: mint, parse, hash, verify.
//!
//! A secret and its stored form have different types, and only the conversion to the stored form exists:
//!
//! | shown or typed | stored | by |
//! |---|---|---|
//! | [`PlainToken`] | [`HashedToken`] | SHA-256: a token has 256 random bits, so guessing is infeasible |
//! | [`PlainSecret`] | [`HashedToken`] | SHA-256, for cookies, links, and the codes of OAuth |
//! | [`AccessToken`], [`RefreshToken`] | [`HashedToken`] | SHA-256, as for API tokens |
//! | [`CodeVerifier`] | [`CodeChallenge`] | SHA-256, as RFC 7636 has it |
//! | [`PlainPassword`] | [`PasswordHash`] | argon2id: people choose passwords, so each guess has to be expensive |
//! | a [`RemoteKeyPair`] of a client | [`PublicKey`] | as it is: it is public, and verifies what the client signs |
//!
//! This crate never contains:
//! - a database, a clock, or a source of randomness. Expiry is a number of days ([`TokenExpiry`]), and callers pass
//!   in the generator;
//! - a secret that can be printed. None of the types above implements `Display`, their `Debug` is redacted, serde is
//!   not a dependency, and no error message contains its input;
//! - an HTTP request, or permissions.
#![doc = include_str!("../README.md")]

mod access_token;
mod base62;
mod checked_text;
mod credential;
mod expiry;
mod hashed;
mod password;
mod pkce;
mod remote_key;
mod secret;
mod secret_text;
mod token;
mod user_code;

pub use access_token::{
    ACCESS_TOKEN_LENGTH, ACCESS_TOKEN_PREFIX, AccessToken, BearerHash, REFRESH_TOKEN_LENGTH, REFRESH_TOKEN_PREFIX,
    RefreshToken,
};
pub use credential::{bearer_token, credential_token};
pub use expiry::{TokenExpiry, UnknownTokenExpiry};
pub use hashed::HashedToken;
pub use password::{
    ARGON2_LANES, ARGON2_MEMORY_KIB, ARGON2_PASSES, ChosenPasswordError, PASSWORD_MAX_BYTES, PASSWORD_MIN_BYTES,
    PasswordHash, PasswordHashingError, PasswordLengthError, PlainPassword, StoredHashError,
};
pub use pkce::{CodeChallenge, CodeChallengeFormatError, CodeVerifier, CodeVerifierFormatError};
pub use remote_key::{
    PUBLIC_KEY_LENGTH, PublicKey, PublicKeyFormatError, RemoteKeyId, RemoteKeyIdFormatError, RemoteKeyPair, SEED_BYTES,
    SIGNATURE_BYTES,
};
pub use secret::{PlainSecret, SECRET_LENGTH, SecretFormatError};
pub use token::{PlainToken, TOKEN_LENGTH, TOKEN_PREFIX, TokenFormatError};
pub use user_code::{UserCode, UserCodeFormatError};

/// Fails to compile if a type implements a forbidden trait.
#[cfg(test)]
macro_rules! assert_not_impl {
    ($type:ty: $($forbidden:path),+) => {$(
        const _: fn() = || {
            // Two candidates for `A` make the last line ambiguous, unless the second one does not apply.
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
