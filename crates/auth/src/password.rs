//! Passwords, which people choose and attackers guess.

use argon2::password_hash::{self, Output, PasswordHash as Phc, PasswordHashString, SaltString};
use argon2::{Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version};
use rand::RngCore;
use secrecy::{ExposeSecret, SecretString};
use std::fmt;
use std::hint::black_box;

/// Minimum length of a password in bytes.
pub const PASSWORD_MIN_BYTES: usize = 8;

/// Maximum length of a password in bytes. No person types a longer one, and hashing long input for unauthenticated
/// clients is a denial-of-service risk.
pub const PASSWORD_MAX_BYTES: usize = 1024;

/// Memory cost of one hash in KiB (19 MiB).
///
/// The three cost parameters are the first choice of the OWASP Password Storage Cheat Sheet for argon2id. They can be
/// raised at any time, because a stored hash carries its own parameters. Until a hash is renewed, though, verifying
/// it takes the old time and [`PasswordHash::dummy_verify`] takes the new one.
pub const ARGON2_MEMORY_KIB: u32 = 19 * 1024;

/// Number of passes over the memory.
pub const ARGON2_PASSES: u32 = 2;

/// Degree of parallelism. All lanes run on the calling thread.
pub const ARGON2_LANES: u32 = 1;

const HASH_BYTES: usize = 32;
const SALT_BYTES: usize = 16;

const PARAMS: Params = match Params::new(ARGON2_MEMORY_KIB, ARGON2_PASSES, ARGON2_LANES, Some(HASH_BYTES)) {
    Ok(params) => params,
    Err(_) => panic!("argon2 refuses the parameters above"), // at compile time
};

/// Maximum cost of a hash that is accepted from storage. A damaged or planted row must not exhaust a node's memory.
const STORED_MAX_MEMORY_KIB: u32 = 256 * 1024;
const STORED_MAX_PASSES: u32 = 16;
const STORED_MAX_LANES: u32 = 16;
const STORED_MIN_HASH_BYTES: usize = 16;

/// Passwords that attackers find within this many guesses are refused: those on lists of common passwords, names and words, as they are
/// or with the usual changes, and rows of keys. An attacker who has the hash tries that many within a day on a common computer.
const GUESSES: u64 = 1_000_000;

/// Only the beginning of a password is compared with the lists, in characters. A longer one is safe by its length.
const COMPARED: usize = 64;

/// A password as the user typed it: any text of [`PASSWORD_MIN_BYTES`] to [`PASSWORD_MAX_BYTES`] bytes.
///
/// The value is wiped from memory on drop and can only be converted to a [`PasswordHash`]. The bytes are not trimmed
/// or normalized.
pub struct PlainPassword(SecretString);

/// The length of a password is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a password must have {PASSWORD_MIN_BYTES} to {PASSWORD_MAX_BYTES} bytes")]
pub struct PasswordLengthError;

/// Why a password cannot be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChosenPasswordError {
    /// Its length is not allowed.
    #[error(transparent)]
    Length(#[from] PasswordLengthError),
    /// It is among the first that attackers try.
    #[error("this password is among the first that attackers try: use several words that do not belong together")]
    Common,
}

/// The argon2id hash of a password with salt and parameters, as a PHC string. Storage holds only this string.
///
/// `Debug` is redacted, because a hash allows offline guessing.
#[derive(Clone)]
pub struct PasswordHash(PasswordHashString);

/// Hashing failed. With the fixed parameters of this crate, this is a server error that is not expected to occur.
#[derive(Debug, thiserror::Error)]
#[error("the password could not be hashed")]
pub struct PasswordHashingError(#[source] password_hash::Error);

/// A stored text is not a hash that this crate accepts. The row is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoredHashError {
    /// The text is not a PHC string, or has no salt or no hash.
    #[error("the stored password hash is malformed")]
    Malformed,
    /// The algorithm is not argon2id version 19.
    #[error("the stored password hash is not argon2id")]
    Algorithm,
    /// The verification would cost too much memory or time, or salt or hash is too short.
    #[error("the stored password hash has parameters outside the accepted range")]
    Parameters,
}

impl PlainPassword {
    /// Wraps a password. A sign-in has to answer this error like a wrong password.
    ///
    /// # Errors
    /// [`PasswordLengthError`] if the password is too short or too long.
    pub fn new(text: String) -> Result<Self, PasswordLengthError> {
        let secret = SecretString::from(text); // Wrapped first, so that a rejected text is wiped too.
        let length = secret.expose_secret().len();
        if (PASSWORD_MIN_BYTES..=PASSWORD_MAX_BYTES).contains(&length) {
            Ok(Self(secret))
        } else {
            Err(PasswordLengthError)
        }
    }

    /// Wraps a new password, which must not be a common one.
    ///
    /// # Errors
    /// [`ChosenPasswordError`] if the length is not allowed or the password is easily guessed.
    pub fn choose(text: String) -> Result<Self, ChosenPasswordError> {
        let chosen = Self::new(text)?;
        let compared: SecretString = chosen.0.expose_secret().chars().take(COMPARED).collect::<String>().into();
        if zxcvbn::zxcvbn(compared.expose_secret(), &[]).guesses() < GUESSES {
            return Err(ChosenPasswordError::Common);
        }
        Ok(chosen)
    }

    /// Hashes the password with a new random salt. Takes tens of milliseconds and 19 MiB, like verification. Call
    /// both on threads that may block, with a limit on concurrent calls.
    ///
    /// # Errors
    /// [`PasswordHashingError`], which is a server error.
    pub fn hash(&self, rng: &mut dyn RngCore) -> Result<PasswordHash, PasswordHashingError> {
        self.hash_from(&mut |buffer| rng.fill_bytes(buffer))
    }

    /// Hashes with another source of randomness; see [`PlainPassword::hash`]. `fill` fills a buffer with random bytes.
    ///
    /// # Errors
    /// [`PasswordHashingError`], which is a server error.
    pub fn hash_from(&self, fill: &mut dyn FnMut(&mut [u8])) -> Result<PasswordHash, PasswordHashingError> {
        let mut salt = [0; SALT_BYTES];
        fill(&mut salt);
        let salt = SaltString::encode_b64(&salt).map_err(PasswordHashingError)?;
        let hash = argon2id().hash_password(self.as_bytes(), &salt).map_err(PasswordHashingError)?;
        Ok(PasswordHash(hash.serialize()))
    }

    fn as_bytes(&self) -> &[u8] {
        self.0.expose_secret().as_bytes()
    }
}

impl PasswordHash {
    /// Parses a hash that was read from storage.
    ///
    /// # Errors
    /// [`StoredHashError`] if the hash cannot be verified at an acceptable cost.
    pub fn parse(phc: &str) -> Result<Self, StoredHashError> {
        let hash = Phc::new(phc).map_err(|_| StoredHashError::Malformed)?;
        let version = hash.version.map(Version::try_from);
        if hash.algorithm != Algorithm::Argon2id.ident() || version != Some(Ok(Version::V0x13)) {
            return Err(StoredHashError::Algorithm);
        }
        let (Some(salt), Some(output)) = (hash.salt, hash.hash) else {
            return Err(StoredHashError::Malformed);
        };
        let params = Params::try_from(&hash).map_err(|_| StoredHashError::Parameters)?;
        let bearable = params.m_cost() <= STORED_MAX_MEMORY_KIB
            && params.t_cost() <= STORED_MAX_PASSES
            && params.p_cost() <= STORED_MAX_LANES;
        let salt_is_usable = salt.decode_b64(&mut [0; 64]).is_ok_and(|salt| salt.len() >= argon2::MIN_SALT_LEN);
        if !bearable || !salt_is_usable || output.len() < STORED_MIN_HASH_BYTES {
            return Err(StoredHashError::Parameters);
        }
        Ok(Self(hash.serialize()))
    }

    /// Returns the PHC string to store.
    #[must_use]
    pub fn as_phc(&self) -> &str {
        self.0.as_str()
    }

    /// Returns `true` if the password matches. The hashes are compared in constant time.
    #[must_use]
    pub fn verify(&self, password: &PlainPassword) -> bool {
        argon2id().verify_password(password.as_bytes(), &self.0.password_hash()).is_ok()
    }

    /// Takes the time of [`verify`](Self::verify) and returns `false`. For users that do not exist or have no
    /// password, so that the response time does not reveal which users exist.
    #[must_use]
    pub fn dummy_verify(password: &PlainPassword) -> bool {
        let salt = [0; SALT_BYTES];
        let output = Output::init_with(HASH_BYTES, |hash| {
            argon2id().hash_password_into(password.as_bytes(), &salt, hash)?;
            Ok(())
        });
        // Otherwise the compiler may remove the computation, because the hash is unused.
        let _ = black_box(output);
        false
    }
}

impl fmt::Debug for PlainPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlainPassword([redacted])")
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash([redacted])")
    }
}

fn argon2id() -> Argon2<'static> {
    Argon2::new(Algorithm::Argon2id, Version::V0x13, PARAMS)
}

#[cfg(test)]
mod tests {
    use super::{ChosenPasswordError, PasswordHash, PasswordLengthError, PlainPassword, StoredHashError};
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    crate::assert_not_impl!(PlainPassword: std::fmt::Display, Clone, PartialEq);
    crate::assert_not_impl!(PasswordHash: std::fmt::Display, PartialEq);

    const STORED: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$\
                          AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    fn password(text: &str) -> PlainPassword {
        PlainPassword::new(text.to_owned()).unwrap()
    }

    fn hash(text: &str, seed: u64) -> PasswordHash {
        password(text).hash(&mut StdRng::seed_from_u64(seed)).unwrap()
    }

    #[track_caller]
    fn check_stored(from: &str, to: &str, expected: StoredHashError) {
        assert!(STORED.contains(from), "{from}");
        let changed = STORED.replacen(from, to, 1);
        assert_eq!(PasswordHash::parse(&changed).unwrap_err(), expected);
    }

    #[test]
    fn only_the_password_itself_is_accepted() {
        let hash = hash("correct horse", 1);
        assert!(hash.verify(&password("correct horse")));
        assert!(!hash.verify(&password("correct horsf")));
        assert!(!hash.verify(&password("correct horse ")));
        assert!(!PasswordHash::dummy_verify(&password("correct horse")));
    }

    #[test]
    fn what_attackers_try_first_is_not_chosen_but_still_signs_in() {
        for common in [
            "password",
            "password1",
            "P@ssw0rd",
            "qwertyuiop",
            "iloveyou",
            "1q2w3e4r",
            "12345678",
            "aaaaaaaaaaaa",
            "abcdefgh",
        ] {
            assert_eq!(PlainPassword::choose(common.to_owned()).unwrap_err(), ChosenPasswordError::Common, "{common}");
            assert!(PlainPassword::new(common.to_owned()).is_ok(), "one that was chosen before");
        }
        for good in ["correct horse battery", "x8-Tq.2wLz", "zwölf Boxkämpfer jagen", &"long ".repeat(200)] {
            assert!(PlainPassword::choose(good.to_owned()).is_ok(), "{good}");
        }
        let short = PlainPassword::choose("x8-Tq.2".to_owned()).unwrap_err();
        assert_eq!(short, ChosenPasswordError::Length(PasswordLengthError));
    }

    #[test]
    fn a_hash_survives_storage() {
        let hash = hash("correct horse", 1);
        assert!(hash.as_phc().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));
        let stored = PasswordHash::parse(hash.as_phc()).unwrap();
        assert_eq!(stored.as_phc(), hash.as_phc());
        assert!(stored.verify(&password("correct horse")));
    }

    #[test]
    fn equal_passwords_have_different_hashes() {
        let (one, other) = (hash("correct horse", 1), hash("correct horse", 2));
        assert_ne!(one.as_phc(), other.as_phc());
    }

    #[test]
    fn the_length_is_counted_in_bytes() {
        for good in ["12345678".to_owned(), "éééé".to_owned(), "x".repeat(1024)] {
            assert!(PlainPassword::new(good).is_ok());
        }
        for bad in [String::new(), "1234567".to_owned(), "x".repeat(1025)] {
            assert_eq!(PlainPassword::new(bad).unwrap_err(), PasswordLengthError);
        }
        assert_eq!(PasswordLengthError.to_string(), "a password must have 8 to 1024 bytes");
    }

    #[test]
    fn damaged_and_ruinous_hashes_are_refused() {
        use StoredHashError::{Algorithm, Malformed, Parameters};
        assert!(PasswordHash::parse(STORED).is_ok());
        check_stored("$argon2id", "argon2id", Malformed);
        check_stored("argon2id", "argon2i", Algorithm);
        check_stored("argon2id", "bcrypt", Algorithm);
        check_stored("v=19", "v=16", Algorithm);
        check_stored("$v=19", "", Algorithm);
        check_stored("m=19456", "m=4000000000", Parameters);
        check_stored("t=2", "t=1000", Parameters);
        check_stored("p=1", "p=1000", Parameters);
        check_stored("p=1", "p=1,x=1", Parameters);
        check_stored("$AAAAAAAAAAAAAAAAAAAAAA$", "$AAAA$", Parameters);
        let without_hash = STORED.rsplit_once('$').unwrap().0;
        assert_eq!(PasswordHash::parse(without_hash).unwrap_err(), Malformed);
    }

    #[test]
    fn nothing_prints_a_secret() {
        let (password, hash) = (password("correct horse"), hash("correct horse", 1));
        assert_eq!(format!("{password:?} {hash:?}"), "PlainPassword([redacted]) PasswordHash([redacted])");
    }

    proptest! {
        #[test]
        fn arbitrary_text_is_refused_without_panic(text: String, after: String) {
            let stored = format!("$argon2id$v=19${after}");
            prop_assert!(PasswordHash::parse(&text).is_err());
            prop_assert!(PasswordHash::parse(&stored).is_err());
        }
    }
}
