//! Base62, the alphabet of tokens and secrets.

use secrecy::zeroize::Zeroizing;

/// The digits in ascending order: digits, upper case, lower case.
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The largest multiple of 62 that fits in a byte. Random bytes from here on are drawn again, because they would
/// favor the first digits.
const UNBIASED_BELOW: u8 = 248;

/// Number of digits that hold any `u32`: 62⁶ > 2³² > 62⁵.
pub(crate) const U32_DIGITS: usize = 6;

/// Returns a uniformly distributed digit for a uniformly distributed byte. Returns `None` for bytes that have to be
/// drawn again.
fn uniform_digit(random: u8) -> Option<char> {
    (random < UNBIASED_BELOW).then(|| char::from(ALPHABET[usize::from(random % 62)]))
}

/// Appends random digits until the text has `length` bytes. `fill` fills a buffer with random bytes, which are wiped
/// afterwards.
pub(crate) fn push_random(text: &mut String, length: usize, fill: &mut dyn FnMut(&mut [u8])) {
    let mut random = Zeroizing::new([0; 64]);
    while text.len() < length {
        fill(random.as_mut_slice());
        let missing = length - text.len();
        text.extend(random.iter().copied().filter_map(uniform_digit).take(missing));
    }
}

/// Returns `true` if the byte is a base62 digit.
pub(crate) fn is_digit(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

/// Returns the digits of a number, most significant first, padded with `0`.
pub(crate) fn encode(mut number: u32) -> [u8; U32_DIGITS] {
    let mut digits = [ALPHABET[0]; U32_DIGITS];
    for digit in digits.iter_mut().rev() {
        // The remainder is below 62, so the lowest byte holds all of it.
        let [value, ..] = (number % 62).to_le_bytes();
        *digit = ALPHABET[usize::from(value)];
        number /= 62;
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::{ALPHABET, encode, is_digit, uniform_digit};
    use std::collections::BTreeMap;

    #[track_caller]
    fn check(number: u32, expected: &str) {
        assert_eq!(str::from_utf8(&encode(number)).unwrap(), expected);
    }

    #[test]
    fn numbers_are_padded_and_big_endian() {
        check(0, "000000");
        check(9, "000009");
        check(10, "00000A");
        check(61, "00000z");
        check(62, "000010");
        check(0xceb6_87fd, "3mhf8X");
        check(u32::MAX, "4gfFC3");
    }

    #[test]
    fn the_alphabet_is_what_is_digit_says() {
        for byte in 0..=u8::MAX {
            assert_eq!(is_digit(byte), ALPHABET.contains(&byte), "{byte}");
        }
    }

    #[test]
    fn every_digit_is_equally_likely() {
        let mut counts = BTreeMap::new();
        for digit in (0..=u8::MAX).filter_map(uniform_digit) {
            *counts.entry(digit).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 62);
        assert!(counts.values().all(|&count| count == 4));
    }
}
