//! A reader for query parameters. It collects all errors before it refuses the request, and ignores unknown parameters.

use std::fmt::Display;

use branchyard_problem_details::{FieldError, Problem};
use percent_encoding::percent_decode;

use crate::paging::PageRequest;
use crate::validation_errors::ValidationErrors;
use crate::words::parse_word;

/// The parameters of a query. Every reader returns `None` if the parameter is absent or invalid. An invalid parameter is recorded
/// as a validation error.
pub struct Query<'a> {
    pairs: Vec<(String, Option<String>)>,
    faults: &'a ValidationErrors,
    repeats: Repeats,
}

/// The meaning of a repeated parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeats {
    /// Repetition is an error.
    Refused,
    /// The first occurrence counts.
    First,
}

/// Splits a query string, or a body of the type `application/x-www-form-urlencoded`, into names and values, and decodes them. The value is `None` if the pair has no `=`.
///
/// Our own because `form_urlencoded` replaces invalid UTF-8, which is an error of the API, and takes `a` for `a=`.
pub fn pairs(text: &str) -> impl Iterator<Item = (Vec<u8>, Option<Vec<u8>>)> {
    let decode = |text: &str| percent_decode(text.replace('+', " ").as_bytes()).collect();
    text.split('&').filter(|pair| !pair.is_empty()).map(move |pair| match pair.split_once('=') {
        Some((name, value)) => (decode(name), Some(decode(value))),
        None => (decode(pair), None),
    })
}

impl Query<'_> {
    pub(crate) fn read<T>(
        text: &str,
        repeats: Repeats,
        read: impl FnOnce(&Query<'_>) -> Option<T>,
    ) -> Result<T, Problem> {
        let faults = ValidationErrors::default();
        // No parameter has a name that is not UTF-8.
        let pairs = pairs(text).filter_map(|(name, value)| {
            Some((String::from_utf8(name).ok()?, String::from_utf8(value.unwrap_or_default()).ok()))
        });
        let query = Query { pairs: pairs.collect(), faults: &faults, repeats };
        let value = read(&query);
        drop(query);
        faults.settle(value)
    }

    /// Records an error of a parameter.
    pub fn fault(&self, name: &str, text: impl Into<String>) {
        self.faults.add(FieldError::at_parameter(name, text));
    }

    /// Reads an optional parameter.
    pub fn optional(&self, name: &str) -> Option<&str> {
        let mut found = self.pairs.iter().filter(|(key, _)| key == name);
        let (_, value) = found.next()?;
        if self.repeats == Repeats::Refused && found.next().is_some() {
            self.fault(name, "occurs more than once");
            return None;
        }
        match value.as_deref() {
            Some(value) if !value.contains('\0') => Some(value),
            Some(_) => {
                self.fault(name, "holds a NUL character");
                None
            }
            None => {
                self.fault(name, "is not valid UTF-8");
                None
            }
        }
    }

    /// Returns `true` if a parameter is present, even if it is invalid.
    pub fn has(&self, name: &str) -> bool {
        self.pairs.iter().any(|(key, _)| key == name)
    }

    /// Reads a required parameter that must not be empty.
    pub fn required_text(&self, name: &str) -> Option<&str> {
        if !self.has(name) {
            self.fault(name, "is required");
            return None;
        }
        self.text(name)
    }

    /// Reads an optional parameter that must not be empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        let value = self.optional(name)?;
        if value.is_empty() {
            self.fault(name, "must not be empty");
            return None;
        }
        Some(value)
    }

    /// Reads an optional parameter and parses it.
    pub fn parsed<T, E: Display>(&self, name: &str, parse: impl FnOnce(&str) -> Result<T, E>) -> Option<T> {
        let value = self.optional(name)?;
        parse(value).map_err(|error| self.fault(name, error.to_string())).ok()
    }

    /// Reads an optional parameter that must be one of the choices.
    pub fn choice<T: Copy>(&self, name: &str, choices: &[(&str, T)]) -> Option<T> {
        self.parsed(name, |value| parse_word(value, choices))
    }

    /// Reads an optional number of the form `[1-9][0-9]*`. A number above `u64::MAX` saturates.
    pub fn count(&self, name: &str) -> Option<u64> {
        self.parsed(name, |value| {
            let plain = value.bytes().all(|b| b.is_ascii_digit()) && !value.is_empty() && !value.starts_with('0');
            if plain { Ok(value.parse().unwrap_or(u64::MAX)) } else { Err("must be an integer of at least 1") }
        })
    }

    /// Reads `page_size` and `page_token`. A `page_size` above `max` counts as `max`.
    pub fn page(&self, default: usize, max: usize) -> Option<PageRequest> {
        let asked = self.has("page_size");
        let size = self.parsed("page_size", |value| {
            let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
            let size = if digits { value.parse().unwrap_or(usize::MAX) } else { 0 };
            if size == 0 { Err("must be an integer of at least 1") } else { Ok(size.min(max)) }
        });
        let token = self.optional("page_token").filter(|token| !token.is_empty()).map(str::to_owned);
        let size = if asked { size? } else { default };
        Some(PageRequest { size, token, parameter: "page_token" })
    }

    /// Returns the page of a list with a fixed page size. `parameter` holds the token.
    pub fn page_of(&self, size: usize, parameter: &'static str) -> PageRequest {
        let token = self.optional(parameter).filter(|token| !token.is_empty()).map(str::to_owned);
        PageRequest { size, token, parameter }
    }
}

#[cfg(test)]
mod tests {
    use super::{Query, Repeats};

    fn one(text: &str) -> Result<Option<String>, Vec<String>> {
        Query::read(text, Repeats::Refused, |q| Some(q.optional("a").map(str::to_owned)))
            .map_err(|problem| problem.errors().iter().map(|error| error.parameter().unwrap().to_owned()).collect())
    }

    #[test]
    fn parameters_are_decoded_once() {
        assert_eq!(one("a=x%20y+z%2B&b=1"), Ok(Some("x y z+".to_owned())));
        assert_eq!(one("a=%2525"), Ok(Some("%25".to_owned())));
        assert_eq!(one("a"), Ok(Some(String::new())));
        assert_eq!(one("b=1&b=2&%ff=3"), Ok(None));
    }

    #[test]
    fn repetitions_and_bad_text_are_faults() {
        for text in ["a=1&a=1", "a=%ff", "a=%00"] {
            assert_eq!(one(text), Err(vec!["a".to_owned()]), "{text}");
        }
    }

    #[test]
    fn the_first_counts_where_repetitions_are_allowed() {
        let first = |text| Query::read(text, Repeats::First, |q| Some(q.optional("a").map(str::to_owned))).unwrap();
        assert_eq!(first("b=0&a=1&a=2"), Some("1".to_owned()));
    }

    #[test]
    fn page_sizes() {
        let size = |text: &str| Query::read(text, Repeats::Refused, |q| q.page(30, 100)).map(|page| page.size).ok();
        assert_eq!(size(""), Some(30));
        assert_eq!(size("page_size=1"), Some(1));
        assert_eq!(size("page_size=100000000000000000000"), Some(100));
        for bad in ["", "0", "-1", "x", "1.0", "+1", "1%20"] {
            // `+1` decodes to a space and a one.
            assert_eq!(size(&format!("page_size={bad}")), None, "{bad}");
        }
    }
}
