//! The choice of a delimiter and an encoding, for formats that have them.

use branchyard_domain::entities::{TextEncoding, TextOptions};

use crate::forms::Filled;

/// The delimiters: values in forms and labels. Another one can be typed.
pub(super) const DELIMITERS: [(&str, &str); 7] = [
    ("", "As usual for the format"),
    (",", "Comma ,"),
    (";", "Semicolon ;"),
    ("\t", "Tab"),
    ("|", "Pipe |"),
    (":", "Colon :"),
    ("other", "Other"),
];

/// The encodings: values in forms and labels.
pub(super) const ENCODINGS: [(&str, &str); 3] =
    [("utf-8", "UTF-8"), ("utf-16", "UTF-16"), ("windows-1252", "Windows-1252 (Western)")];

/// Reads the choice from submitted values. Records faults in the form.
pub(super) fn chosen(form: &mut Filled) -> TextOptions {
    let typed = match form.value("delimiter") {
        "other" => form.value("delimiter_typed").to_owned(),
        chosen => chosen.to_owned(),
    };
    let mut characters = typed.chars();
    let delimiter = characters.next();
    if characters.next().is_some() || matches!(delimiter, Some('"' | '\r' | '\n' | '\0')) {
        form.fault("delimiter_typed", "Type one character, but not a quote.");
        return TextOptions::default();
    }
    let encoding = match form.value("encoding") {
        "utf-16" => TextEncoding::Utf16,
        "windows-1252" => TextEncoding::Windows1252,
        _ => TextEncoding::Utf8,
    };
    TextOptions { delimiter, encoding }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_character_is_a_delimiter() {
        let read = |delimiter: &str, typed: &str| {
            let mut form = Filled::default().with("delimiter", delimiter).with("delimiter_typed", typed);
            let options = chosen(&mut form);
            (options.delimiter, form.has_faults())
        };
        assert_eq!(read("", "x"), (None, false));
        assert_eq!(read("\t", ""), (Some('\t'), false));
        assert_eq!(read("other", "§"), (Some('§'), false));
        assert_eq!(read("other", ""), (None, false));
        assert_eq!(read("other", "ab"), (None, true));
        assert_eq!(read("\"", ""), (None, true));
    }
}
