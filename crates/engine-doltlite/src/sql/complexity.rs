//! Estimates the work of preparing and running a statement from its text.

use branchyard_sqlite_lexer::{SqlToken, TokenKind, tokenize};

/// Maximum nesting depth of parentheses, and so of subqueries and joins.
pub(crate) const MAX_NESTING: usize = 100;

/// Returns the nesting depth of the parentheses of a text.
pub(crate) fn nesting(sql: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for token in tokenize(sql) {
        match token.text {
            "(" => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            ")" => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Maximum number of paths in a call of a JSON function. Each path searches the whole document, and a call cannot be
/// interrupted.
pub(crate) const MAX_PATHS: usize = 16;

/// The functions that take several paths, and the number of arguments of each path.
const BY_PATHS: [(&str, usize); 12] = [
    ("json_extract", 1),
    ("jsonb_extract", 1),
    ("json_remove", 1),
    ("jsonb_remove", 1),
    ("json_set", 2),
    ("jsonb_set", 2),
    ("json_insert", 2),
    ("jsonb_insert", 2),
    ("json_replace", 2),
    ("jsonb_replace", 2),
    ("json_array_insert", 2),
    ("jsonb_array_insert", 2),
];

/// Returns the largest number of paths in any call.
pub(crate) fn paths(sql: &str) -> usize {
    // Most statements are too short to have too many paths.
    if sql.len() < 2 * MAX_PATHS {
        return 0;
    }
    // For each open parenthesis: the arguments per path, if a function with paths precedes it, and the commas seen.
    let mut open: Vec<(Option<usize>, usize)> = Vec::new();
    let (mut most, mut before) = (0, None);
    for token in tokenize(sql) {
        match token.text {
            "(" => open.push((before.as_ref().and_then(path_arguments), 0)),
            "," => {
                if let Some((arguments, commas)) = open.last_mut() {
                    *commas += 1;
                    most = most.max(arguments.map_or(0, |arguments| commas.div_ceil(arguments)));
                }
            }
            ")" => drop(open.pop()),
            _ => {}
        }
        before = Some(token);
    }
    most
}

/// Returns the number of arguments per path if the token is the name of a function with paths.
fn path_arguments(name: &SqlToken<'_>) -> Option<usize> {
    if matches!(name.kind, TokenKind::Symbol | TokenKind::Number) {
        return None;
    }
    let name = name.unquoted();
    BY_PATHS.iter().find(|(function, _)| name.eq_ignore_ascii_case(function)).map(|(_, arguments)| *arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parentheses_nest_outside_of_texts_and_comments() {
        for (sql, depth) in [
            ("select 1", 0),
            ("select (1), ((2))", 2),
            ("select '((' || \"((\" || `((` || [((] -- ((\n /* (( */ , (1)", 1),
            ("))((", 2),
            ("select '(", 0),
            ("/* (", 0),
            ("-- (", 0),
        ] {
            assert_eq!(nesting(sql), depth, "{sql}");
        }
    }

    #[test]
    fn paths_are_counted_call_by_call() {
        let list = |count: usize| vec!["'$.a'"; count].join(", ");
        for (sql, expected) in [
            (format!("select json_extract(doc, {})", list(40)), 40),
            (format!("select JSON_Remove /* ( */ (doc, {}), json_extract(doc, '$')", list(33)), 33),
            (format!("select \"json_set\"(f(1, 2, {}), {})", list(9), list(80)), 40),
            (format!("select [jsonb_insert]\n--\n('(', {}", list(63)), 32),
            (format!("select json_array({}), 'json_extract(1, {}'", list(50), list(50).replace('\'', "")), 0),
            (format!("select json_extract(doc, (select max({}) from t), '$')", list(50)), 2),
            (format!("select json_extract + (1, {})", list(50)), 0),
            (format!("select {}", list(50)), 0),
        ] {
            assert_eq!(paths(&sql), expected, "{sql}");
        }
    }
}
