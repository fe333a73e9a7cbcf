//! The shape of a statement: what statements that differ only in values have in common.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use branchyard_domain::values::DatabaseId;
use branchyard_sqlite_lexer::{TokenKind, tokenize};

/// Returns a hash that is equal for statements on one database that differ only in literals, comments, white space and
/// case. Other statements have different hashes, except with a probability of 1 in 2^64.
pub fn shape(database: DatabaseId, sql: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    database.hash(&mut hasher);
    for token in tokenize(sql) {
        match token.kind {
            TokenKind::Text | TokenKind::Blob | TokenKind::Number => hasher.write_u8(b'?'),
            _ => token.text.bytes().for_each(|byte| hasher.write_u8(byte.to_ascii_lowercase())),
        }
        hasher.write_u8(b' ');
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use branchyard_domain::values::DatabaseId;

    fn shape_in(database: &str, sql: &str) -> u64 {
        super::shape(DatabaseId::parse(database).unwrap(), sql)
    }

    fn shape(sql: &str) -> u64 {
        shape_in("0199c3a7-1111-7222-8333-444455556666", sql)
    }

    #[test]
    fn values_comments_and_blanks_make_no_difference() {
        let one = shape("select a from t1 where b = 'x' and c > 17");
        for same in [
            "SELECT a FROM t1\n WHERE b='it' AND c>1.5e3",
            "select a -- now\nfrom t1 /* here */ where b = '' and c > 0x1F",
            "select a from t1 where b = 'é' and c > 0",
        ] {
            assert_eq!(shape(same), one, "{same}");
        }
        for other in [
            "select a from t2 where b = 'x' and c > 17",
            "select \"a\" from t1 where b = 'x' and c > 17",
            "select a from t1 where b = 'x' and c > d",
            "select a from t1 where b = 'x' or c > 17",
            "selecta from t1 where b = 'x' and c > 17",
        ] {
            assert_ne!(shape(other), one, "{other}");
        }
        assert_ne!(shape("select 1"), shape_in("0199c3a7-1111-7222-8333-444455556667", "select 1"));
    }

    #[test]
    fn every_text_has_one() {
        for odd in ["", "'", "'''", "''''", "é'", "\"", "1'", "/*", "--", "\u{feff}select 1", "x'00'", "'é'é'"] {
            assert_eq!(shape(odd), shape(odd), "{odd}");
        }
    }
}
