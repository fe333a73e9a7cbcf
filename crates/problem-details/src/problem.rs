//! Failures in the form that clients may see.

use crate::clip::clip_owned;
use crate::{ErrorCode, FieldError};

/// Media type of error bodies.
pub const PROBLEM_MEDIA_TYPE: &str = "application/problem+json";

/// The detail for a database that does not exist or is not visible. The wire contract fixes one text for both cases,
/// so that the response does not reveal which one applies.
pub const NO_SUCH_REPOSITORY: &str = "no such repository";

/// The detail for a pull request that does not exist. Fixed by the wire contract.
pub const NO_SUCH_PULL: &str = "no such pull";

/// The detail of every `INTERNAL` problem.
pub const INTERNAL_DETAIL: &str =
    "the server failed to answer this request; its operator can find the cause by the request id";

/// The challenge of a 401 response to a request without a credential (RFC 6750).
pub const BEARER_CHALLENGE: &str = r#"Bearer realm="branchyard""#;

/// Maximum length of a detail, in bytes of JSON. Longer details are clipped.
pub const DETAIL_MAX_BYTES: usize = 8 * 1024;

/// Maximum number of entries in `errors`. Entries beyond it are discarded.
pub const ERRORS_MAX: usize = 100;

/// A failure in the form that clients may see: an error code and prose without internals.
///
/// By design, a problem cannot hold a cause and has no conversion from other errors. The code that creates a problem
/// from an error decides what the client reads and logs the rest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {detail}")]
#[must_use]
pub struct Problem {
    code: ErrorCode,
    detail: String,
    errors: Vec<FieldError>,
    retry_after: Option<u32>,
    allow: Option<String>,
    www_authenticate: Option<String>,
    members: Option<Box<ProblemMembers>>,
}

/// Extension members of a problem. Boxed, because few problems have any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ProblemMembers(Vec<(&'static str, String)>);

impl Problem {
    /// Creates a problem with the headers that its code requires: `Retry-After` from the table, and the plain
    /// challenge for `UNAUTHENTICATED`.
    ///
    /// The detail is prose for the client. It must not contain a credential, a path of the server, or a message of a
    /// database or operating system. For `INTERNAL`, [`INTERNAL_DETAIL`] replaces the detail, so that no cause can
    /// leak.
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        let detail = if code == ErrorCode::Internal {
            INTERNAL_DETAIL.to_owned()
        } else {
            clip_owned(detail.into(), DETAIL_MAX_BYTES)
        };
        let challenge = (code == ErrorCode::Unauthenticated).then(|| BEARER_CHALLENGE.to_owned());
        Self {
            code,
            detail,
            errors: Vec::new(),
            retry_after: code.default_retry_after(),
            allow: None,
            www_authenticate: challenge,
            members: None,
        }
    }

    /// Creates a problem for an internal server error. The caller logs the cause with the request id.
    pub fn internal() -> Self {
        Self::new(ErrorCode::Internal, INTERNAL_DETAIL)
    }

    /// Creates a 404 problem for a database that does not exist or is not visible.
    pub fn no_such_repository() -> Self {
        Self::new(ErrorCode::NotFound, NO_SUCH_REPOSITORY)
    }

    /// Creates a 404 problem for a pull request that does not exist.
    pub fn no_such_pull() -> Self {
        Self::new(ErrorCode::NotFound, NO_SUCH_PULL)
    }

    /// Creates a 401 problem for a rejected credential. The reason is the detail and the `error_description` of the
    /// challenge. It is a static text, so that it cannot contain parts of the credential.
    pub fn invalid_token(reason: &'static str) -> Self {
        // The characters that RFC 6750 allows in the description. A quote or a line break would end the value.
        let description: String = reason.chars().filter(|c| matches!(c, ' ' | '!' | '#'..='[' | ']'..='~')).collect();
        Self::new(ErrorCode::Unauthenticated, reason).www_authenticate(format!(
            r#"{BEARER_CHALLENGE}, error="invalid_token", error_description="{description}""#
        ))
    }

    /// Creates a 403 problem for an access token whose scope is too narrow (RFC 6750 §3.1). `scope` is the one that the request needs.
    pub fn insufficient_scope(scope: &'static str) -> Self {
        let detail = format!("the access token may not do this; it needs a token with the scope {scope}");
        Self::new(ErrorCode::PermissionDenied, detail)
            .www_authenticate(format!(r#"{BEARER_CHALLENGE}, error="insufficient_scope", scope="{scope}""#))
    }

    /// Returns `true` for a problem of [`Problem::insufficient_scope`].
    pub fn is_insufficient_scope(&self) -> bool {
        self.www_authenticate.as_ref().is_some_and(|challenge| challenge.contains(r#"error="insufficient_scope""#))
    }

    /// Adds an error, unless there are already [`ERRORS_MAX`].
    pub fn with_error(self, error: FieldError) -> Self {
        self.with_errors([error])
    }

    /// Adds errors, up to [`ERRORS_MAX`] in total. Takes no more from the iterator, which may be infinite.
    pub fn with_errors(mut self, errors: impl IntoIterator<Item = FieldError>) -> Self {
        let room = ERRORS_MAX.saturating_sub(self.errors.len());
        self.errors.extend(errors.into_iter().take(room));
        self
    }

    /// Sets `Retry-After` in seconds, in place of the default of the code.
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Sets `Allow` to the methods of the route, such as `GET, POST`.
    pub fn allow(mut self, methods: impl Into<String>) -> Self {
        self.allow = Some(methods.into());
        self
    }

    /// Sets `WWW-Authenticate`, in place of the plain challenge.
    pub fn www_authenticate(mut self, challenge: impl Into<String>) -> Self {
        self.www_authenticate = Some(challenge.into());
        self
    }

    /// Adds an extension member to the document. `name` must differ from all other members, and `text` has to be
    /// short.
    pub fn with_member(mut self, name: &'static str, text: impl Into<String>) -> Self {
        self.members.get_or_insert_default().0.push((name, text.into()));
        self
    }

    /// Returns the extension members.
    pub(crate) fn members(&self) -> &[(&'static str, String)] {
        self.members.as_deref().map_or(&[], |members| members.0.as_slice())
    }

    /// Returns the code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// Returns the HTTP status of the code.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.code.status()
    }

    /// Returns the detail, which is written for the client.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Returns the errors, at most [`ERRORS_MAX`].
    #[must_use]
    pub fn errors(&self) -> &[FieldError] {
        &self.errors
    }

    /// Returns the headers of this problem, with lower-case names. `Content-Type` is not among them; it is always
    /// [`PROBLEM_MEDIA_TYPE`].
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, String)> {
        [
            ("retry-after", self.retry_after.map(|s| s.to_string())),
            ("allow", self.allow.clone()),
            ("www-authenticate", self.www_authenticate.clone()),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
    }
}

#[cfg(test)]
mod tests {
    use super::{DETAIL_MAX_BYTES, ERRORS_MAX, INTERNAL_DETAIL, Problem};
    use crate::{ErrorCode, FieldError};

    #[track_caller]
    fn check_headers(problem: &Problem, expected: &[(&str, &str)]) {
        let headers: Vec<_> = problem.headers().collect();
        let headers: Vec<_> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
        assert_eq!(headers, expected);
    }

    #[test]
    fn a_code_brings_the_headers_it_owes() {
        let of = |code| Problem::new(code, "text");
        check_headers(&of(ErrorCode::Conflict), &[]);
        check_headers(&of(ErrorCode::Conflict).retry_after(1), &[("retry-after", "1")]);
        check_headers(&of(ErrorCode::RateLimited), &[("retry-after", "1")]);
        check_headers(&of(ErrorCode::RateLimited).retry_after(3600), &[("retry-after", "3600")]);
        check_headers(&of(ErrorCode::ServiceUnavailable), &[("retry-after", "1")]);
        check_headers(&of(ErrorCode::MethodNotAllowed).allow("GET, POST"), &[("allow", "GET, POST")]);
        check_headers(&of(ErrorCode::Unauthenticated), &[("www-authenticate", r#"Bearer realm="branchyard""#)]);
    }

    #[test]
    fn a_refused_token_is_named_in_the_challenge() {
        let problem = Problem::invalid_token("the token has \"expired\"\r\n\\");
        check_headers(
            &problem,
            &[(
                "www-authenticate",
                r#"Bearer realm="branchyard", error="invalid_token", error_description="the token has expired""#,
            )],
        );
    }

    #[test]
    fn an_internal_problem_cannot_carry_a_cause() {
        let problem = Problem::new(ErrorCode::Internal, "disk /secret/marker is gone");
        assert_eq!(problem, Problem::internal());
        assert_eq!(problem.detail(), INTERNAL_DETAIL);
        assert!(!format!("{problem} {problem:?}").contains("marker"));
        assert!(std::error::Error::source(&problem).is_none());
    }

    #[test]
    fn the_fixed_details_are_the_contracts() {
        assert_eq!(Problem::no_such_repository().detail(), "no such repository");
        assert_eq!(Problem::no_such_pull().detail(), "no such pull");
        assert_eq!(Problem::no_such_pull().to_string(), "NOT_FOUND: no such pull");
    }

    #[test]
    fn details_and_entries_are_limited() {
        let endless = std::iter::repeat_with(|| FieldError::at_line(1, "x"));
        let problem = Problem::new(ErrorCode::OperationFailed, "é".repeat(100_000))
            .with_error(FieldError::at_line(7, "first"))
            .with_errors(endless)
            .with_error(FieldError::at_line(9, "too late"));
        assert!(problem.detail().len() <= DETAIL_MAX_BYTES);
        assert_eq!(problem.errors().len(), ERRORS_MAX);
        assert_eq!(problem.errors()[0].detail(), "first");
        assert_eq!(problem.errors()[99].detail(), "x");
    }
}
