//! Texts that spreadsheets take for formulas.

/// Returns `true` if a spreadsheet may take a text for a formula, by its first character. Such a text is protected by an apostrophe
/// before it (OWASP, "CSV Injection").
pub fn is_formula(text: &[u8]) -> bool {
    // The last four are full-width forms, which some spreadsheets convert first.
    matches!(text.first(), Some(b'=' | b'+' | b'-' | b'@' | b'\t' | b'\r' | b'\n'))
        || ["＝", "＋", "－", "＠"].iter().any(|sign| text.starts_with(sign.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::is_formula;

    #[test]
    fn formulas_are_told_by_their_first_character() {
        for text in ["=1+1", "+47", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1"] {
            assert!(is_formula(text.as_bytes()), "{text:?}");
        }
        for text in ["", "1", "a=b", "'=1", "é"] {
            assert!(!is_formula(text.as_bytes()), "{text:?}");
        }
    }
}
