//! Conditional requests: `If-None-Match` and `If-Match` (RFC 9110 §13.1).

use actix_web::HttpRequest;
use actix_web::http::Method;
use actix_web::http::header::{self, HeaderName};

/// The entity tags of a conditional header.
#[derive(Debug, Clone, PartialEq, Eq)]
enum EntityTags {
    Any,
    List(Vec<String>),
}

fn tags(request: &HttpRequest, name: HeaderName) -> Option<EntityTags> {
    let mut list: Option<Vec<String>> = None;
    for value in request.headers().get_all(name) {
        let text = String::from_utf8_lossy(value.as_bytes());
        if text.trim() == "*" {
            return Some(EntityTags::Any);
        }
        list.get_or_insert_default().extend(parse(&text));
    }
    list.map(EntityTags::List)
}

/// Parses a list such as `"a", W/"b"`. A comma may occur inside the quotes. Everything after a syntax error is ignored.
fn parse(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text.trim_start_matches([' ', '\t', ',']);
    while !rest.is_empty() {
        let weak = rest.strip_prefix("W/");
        let Some(opened) = weak.unwrap_or(rest).strip_prefix('"') else { break };
        let Some((tag, tail)) = opened.split_once('"') else { break };
        found.push(format!("{}\"{tag}\"", if weak.is_some() { "W/" } else { "" }));
        rest = tail.trim_start_matches([' ', '\t', ',']);
    }
    found
}

/// The `If-None-Match` of a request; empty if the header is absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IfNoneMatch(Option<EntityTags>);

impl IfNoneMatch {
    /// Reads the header of a `GET` or `HEAD`. Other methods ignore it.
    pub fn of(request: &HttpRequest) -> Self {
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        Self(if reads { tags(request, header::IF_NONE_MATCH) } else { None })
    }

    /// Returns `true` if the header contains this tag (weak comparison).
    pub fn matches(&self, etag: &str) -> bool {
        match &self.0 {
            None => false,
            Some(EntityTags::Any) => true,
            Some(EntityTags::List(list)) => list.iter().any(|tag| tag.strip_prefix("W/").unwrap_or(tag) == etag),
        }
    }
}

/// The `If-Match` of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IfMatch(EntityTags);

impl IfMatch {
    /// Reads the header. Without one (`None`), the last writer wins.
    pub fn of(request: &HttpRequest) -> Option<Self> {
        tags(request, header::IF_MATCH).map(Self)
    }

    /// Returns `true` if the header contains this tag (strong comparison).
    pub fn matches(&self, etag: &str) -> bool {
        match &self.0 {
            EntityTags::Any => true,
            EntityTags::List(list) => list.iter().any(|tag| tag == etag),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{IfMatch, IfNoneMatch, parse};
    use actix_web::test::TestRequest;

    #[test]
    fn lists_of_tags() {
        assert_eq!(parse(r#""a", W/"b,c" ,"""#), [r#""a""#, r#"W/"b,c""#, r#""""#]);
        assert_eq!(parse(r#"a, "b""#), Vec::<String>::new());
        assert_eq!(parse(r#""a", "b"#), [r#""a""#]);
    }

    #[test]
    fn weak_and_strong_comparison() {
        let request = TestRequest::default()
            .insert_header(("If-None-Match", r#"W/"a""#))
            .insert_header(("If-Match", r#"W/"a", "b""#))
            .to_http_request();
        assert!(IfNoneMatch::of(&request).matches(r#""a""#));
        let if_match = IfMatch::of(&request).unwrap();
        assert!(!if_match.matches(r#""a""#));
        assert!(if_match.matches(r#""b""#));
        assert_eq!(IfMatch::of(&TestRequest::default().to_http_request()), None);
    }

    #[test]
    fn a_star_matches_everything() {
        let request = TestRequest::default().insert_header(("If-Match", "*")).to_http_request();
        assert!(IfMatch::of(&request).unwrap().matches(r#""x""#));
    }
}
