//! Length limits for texts, measured in their JSON form.

use std::borrow::Cow;

/// Marks the place where a text was clipped.
const ELLIPSIS: char = '…';

/// Returns the text, or its beginning and an ellipsis if the text takes more than `max` bytes inside a JSON string.
///
/// Escapes count, because control characters grow sixfold in JSON and the limit protects the size of the body.
pub(crate) fn clip(text: &str, max: usize) -> Cow<'_, str> {
    let room_before_ellipsis = max.saturating_sub(ELLIPSIS.len_utf8());
    let mut written = 0;
    let mut end_if_clipped = 0;
    for (start, character) in text.char_indices() {
        written += written_len(character);
        if written > max {
            let kept = text.get(..end_if_clipped).unwrap_or_default();
            return Cow::Owned(format!("{kept}{ELLIPSIS}"));
        }
        if written <= room_before_ellipsis {
            end_if_clipped = start + character.len_utf8();
        }
    }
    Cow::Borrowed(text)
}

/// Clips an owned text; see [`clip`].
pub(crate) fn clip_owned(text: String, max: usize) -> String {
    match clip(&text, max) {
        Cow::Borrowed(_) => text,
        Cow::Owned(clipped) => clipped,
    }
}

/// Returns the bytes of a character inside a JSON string as `serde_json` writes it.
fn written_len(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        other => other.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use super::clip;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, max: usize, expected: &str) {
        assert_eq!(clip(text, max), expected);
    }

    #[test]
    fn short_texts_stay() {
        check("", 10, "");
        check("1234567890", 10, "1234567890");
        check("ééééé", 10, "ééééé");
    }

    #[test]
    fn long_texts_end_in_an_ellipsis_on_a_character_boundary() {
        check("12345678901", 10, "1234567…");
        check("éééééé", 10, "ééé…");
        check("\0\0", 10, "\0…");
        check("\"\"\"\"\"\"", 10, "\"\"\"…");
    }

    proptest! {
        #[test]
        fn nothing_is_written_longer_than_its_limit(text in any::<String>(), max in 3_usize..40) {
            let clipped = clip(&text, max);
            let quotes = 2;
            let json = serde_json::to_string(&clipped).unwrap();
            prop_assert!(json.len() <= max + quotes);
            let whole = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(whole.len() <= max + quotes, clipped == text);
        }
    }
}
