use super::{Fields, ReaderMode, read_body, read_open};
use branchyard_problem_details::Problem;

fn read_closed<T>(body: &[u8], read: impl FnOnce(&Fields<'_>) -> Option<T>) -> Result<T, Problem> {
    read_body(body, ReaderMode::Closed, read)
}

fn read_patch<T>(body: &[u8], read: impl FnOnce(&Fields<'_>) -> Option<T>) -> Result<T, Problem> {
    read_body(body, ReaderMode::Patch, read)
}

fn places(problem: &Problem) -> Vec<&str> {
    problem.errors().iter().map(|error| error.pointer().unwrap()).collect()
}

fn branch(fields: &Fields<'_>) -> Option<(String, String)> {
    let name = fields.required_string("name");
    let from = fields.required_object("from", |from| from.required_string("branch"));
    Some((name?, from?))
}

#[test]
fn a_good_body_is_read() {
    let read = read_closed(br#"{"name":"x","from":{"branch":"main"}}"#, branch);
    assert_eq!(read.unwrap(), ("x".to_owned(), "main".to_owned()));
}

#[test]
fn every_fault_is_named() {
    let body = br#"{"name":3,"from":{"branch":"a\u0000","x":1,"branch":"b"},"a/b":{},"name":"y"}"#;
    let problem = read_closed(body, branch).unwrap_err();
    assert_eq!(places(&problem), ["/from/branch", "/from/branch", "/name", "/name", "/from/x", "/a~1b"]);
    let problem = read_closed(b"", branch).unwrap_err();
    assert_eq!(places(&problem), ["/name", "/from"]);
    assert_eq!(problem.detail(), "name: is required (and 1 more)");
}

#[test]
fn an_open_body_ignores_unknown_fields_at_every_depth() {
    let body = br#"{"name":"x","from":{"branch":"main","x":1},"y":2}"#;
    assert!(read_open(body, branch).is_ok());
}

#[test]
fn null_is_absence_except_in_a_patch() {
    let read = |fields: &Fields<'_>| Some(fields.optional_string("a"));
    assert_eq!(read_closed(br#"{"a":null}"#, read).unwrap(), None);
    assert!(read_patch(br#"{"a":null}"#, read).is_err());
    assert!(read_patch(br"{}", read).is_err());
    let clear = |fields: &Fields<'_>| Some(fields.clearable_as("a", |text| Ok::<_, String>(text.to_owned())));
    assert_eq!(read_patch(br#"{"a":null}"#, clear).unwrap(), Some(String::new()));
    assert_eq!(read_patch(br#"{"a":"x"}"#, clear).unwrap(), Some("x".to_owned()));
}

#[test]
fn what_is_no_object_or_no_json_is_refused() {
    for body in ["[]", "null", "{", "{}x", "\u{feff}{}", "{\"a\":1,}"] {
        assert!(read_closed(body.as_bytes(), |_| Some(())).is_err(), "{body}");
    }
    assert!(read_closed(b"{\"a\":\"\xff\"}", |f| Some(f.optional_string("a"))).is_err());
}

#[test]
fn integers_are_plain() {
    let read = |fields: &Fields<'_>| fields.required_int("n", &(1..=u64::MAX));
    assert_eq!(read_closed(br#"{"n":3}"#, read).unwrap(), 3);
    for text in ["3.0", "3e0", "\"3\"", "0", "-1", "18446744073709551616", "true", "null"] {
        assert!(read_closed(format!("{{\"n\":{text}}}").as_bytes(), read).is_err(), "{text}");
    }
}
