//! The form that all tokens share: a prefix, random digits, and check digits over both.

use crate::TokenFormatError;
use crate::base62;
use secrecy::SecretString;

/// Mints a token of `length` characters that begins with `start`: appends random digits and the check digits.
pub(crate) fn mint(start: &str, length: usize, fill: &mut dyn FnMut(&mut [u8])) -> SecretString {
    // With the exact capacity, the text is never reallocated and leaves no copy behind.
    let mut token = String::with_capacity(length);
    token.push_str(start);
    base62::push_random(&mut token, length - base62::U32_DIGITS, fill);
    let check = check_digits(token.as_bytes());
    token.extend(check.map(char::from));
    SecretString::from(token)
}

/// Parses a token of `length` characters.
///
/// # Errors
/// The first applicable error in the order prefix, length, alphabet, check digits.
pub(crate) fn parse(prefix: &str, length: usize, text: &str) -> Result<SecretString, TokenFormatError> {
    let digits = text.strip_prefix(prefix).ok_or(TokenFormatError::Prefix)?;
    // Counts characters, so that a non-ASCII character is an error of the alphabet. Stops counting early, because
    // the text is untrusted.
    if digits.chars().take(length).count() != length - prefix.len() {
        return Err(TokenFormatError::Length);
    }
    if !digits.bytes().all(base62::is_digit) {
        return Err(TokenFormatError::Alphabet);
    }
    let (body, check) = text.split_at_checked(length - base62::U32_DIGITS).ok_or(TokenFormatError::Length)?;
    if check.as_bytes() != check_digits(body.as_bytes()) {
        return Err(TokenFormatError::Checksum);
    }
    Ok(SecretString::from(text))
}

fn check_digits(body: &[u8]) -> [u8; base62::U32_DIGITS] {
    base62::encode(crc32fast::hash(body))
}
