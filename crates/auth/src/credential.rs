//! The value of an `Authorization` header.

/// Returns the token of a credential: the text after the scheme, if the scheme is one of `schemes` in any letter case
/// (RFC 9110 §11.4). Spaces around the token are removed.
pub fn credential_token<'a>(value: &'a str, schemes: &[&str]) -> Option<&'a str> {
    let (scheme, token) = value.split_once(' ')?;
    schemes.iter().any(|known| scheme.eq_ignore_ascii_case(known)).then(|| token.trim_matches(' '))
}

/// Returns the token of a bearer credential (RFC 6750 §2.1).
pub fn bearer_token(value: &str) -> Option<&str> {
    credential_token(value, &["bearer"])
}

#[cfg(test)]
mod tests {
    use super::{bearer_token, credential_token};

    #[test]
    fn schemes_match_in_any_letter_case() {
        for value in ["Bearer x", "bearer x", "BEARER   x "] {
            assert_eq!(bearer_token(value), Some("x"), "{value}");
        }
        for value in ["x", "Bearer", "Basic x", "Bearerx", " Bearer x", "Bearer\tx", ""] {
            assert_eq!(bearer_token(value), None, "{value}");
        }
        assert_eq!(credential_token("token x", &["token", "bearer"]), Some("x"));
        assert_eq!(bearer_token("Bearer "), Some(""));
    }
}
