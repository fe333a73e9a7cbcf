//! A failure as the client may see it.

use crate::clip::clip_owned;
use crate::{ErrorCode, FieldError};

/// Media type of every error body.
pub const PROBLEM_MEDIA_TYPE: &str = "application/problem+json";

/// The detail for a database that is absent or not visible. Fixed by the contract, the same in both
/// cases, so that it reveals nothing.
pub const NO_SUCH_REPOSITORY: &str = "no such repository";

/// The detail for an absent pull request. Fixed by the contract.
pub const NO_SUCH_PULL: &str = "no such pull";

/// The detail of every `INTERNAL` problem.
pub const INTERNAL_DETAIL: &str =
    "the server failed to answer this request; its operator can find the cause by the request id";

/// The challenge of a 401 to a request that sent no credential.
pub const BEARER_CHALLENGE: &str = r#"Bearer realm="branchyard""#;

/// Bytes in JSON after which a detail is clipped.
pub const DETAIL_MAX_BYTES: usize = 8 * 1024;

/// Entries in `errors`; those beyond are dropped.
pub const ERRORS_MAX: usize = 100;

/// A failure as the client may see it: a code of the table and prose without internals.
///
/// There is deliberately no way to attach a cause, and no conversion from other errors. Whoever makes a
/// problem out of one decides what the client reads and logs the rest.
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
    members: Option<Box<Members>>,
}

/// Members of a problem's own: few problems have any, so they do not make all of them larger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Members(Vec<(&'static str, String)>);

impl Problem {
    /// A problem with the headers its code owes: `Retry-After` from the table, and for `UNAUTHENTICATED`
    /// the plain challenge.
    ///
    /// The detail is prose for the client: no credential, no path of the server, no text of a database
    /// or an operating system. For `INTERNAL` it is replaced by [`INTERNAL_DETAIL`], because that is
    /// where a cause would slip in.
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

    /// A fault of the server. The cause goes to the log, with the request id.
    pub fn internal() -> Self {
        Self::new(ErrorCode::Internal, INTERNAL_DETAIL)
    }

    /// 404 for a database that is absent or not visible.
    pub fn no_such_repository() -> Self {
        Self::new(ErrorCode::NotFound, NO_SUCH_REPOSITORY)
    }

    /// 404 for an absent pull request.
    pub fn no_such_pull() -> Self {
        Self::new(ErrorCode::NotFound, NO_SUCH_PULL)
    }

    /// 401 to a request whose credential was refused. The reason is both the detail and the challenge's
    /// `error_description`; it is fixed text, so that nothing of the credential can get into it.
    pub fn invalid_token(reason: &'static str) -> Self {
        // RFC 6750 allows these in the description; a quote or a line break would end the value.
        let description: String = reason.chars().filter(|c| matches!(c, ' ' | '!' | '#'..='[' | ']'..='~')).collect();
        Self::new(ErrorCode::Unauthenticated, reason).www_authenticate(format!(
            r#"{BEARER_CHALLENGE}, error="invalid_token", error_description="{description}""#
        ))
    }

    /// Adds a place that is at fault, unless there are [`ERRORS_MAX`] already.
    pub fn with_error(self, error: FieldError) -> Self {
        self.with_errors([error])
    }

    /// Adds places that are at fault, up to [`ERRORS_MAX`] in all. Nothing more is taken from the
    /// iterator, which may be endless.
    pub fn with_errors(mut self, errors: impl IntoIterator<Item = FieldError>) -> Self {
        let room = ERRORS_MAX.saturating_sub(self.errors.len());
        self.errors.extend(errors.into_iter().take(room));
        self
    }

    /// Seconds after which the request may be repeated, instead of the code's own number.
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// The methods of the route, as they stand in `Allow`: `GET, POST`.
    pub fn allow(mut self, methods: impl Into<String>) -> Self {
        self.allow = Some(methods.into());
        self
    }

    /// The challenge, instead of the plain one.
    pub fn www_authenticate(mut self, challenge: impl Into<String>) -> Self {
        self.www_authenticate = Some(challenge.into());
        self
    }

    /// Adds a member of its own to the document: a name that no other member has, and a short text.
    pub fn with_member(mut self, name: &'static str, text: impl Into<String>) -> Self {
        self.members.get_or_insert_default().0.push((name, text.into()));
        self
    }

    /// Members of its own.
    pub(crate) fn members(&self) -> &[(&'static str, String)] {
        self.members.as_deref().map_or(&[], |members| members.0.as_slice())
    }

    /// The code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// The code's HTTP status.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.code.status()
    }

    /// What happened, for the client.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The places at fault, at most [`ERRORS_MAX`].
    #[must_use]
    pub fn errors(&self) -> &[FieldError] {
        &self.errors
    }

    /// The headers that belong to this problem, names in lower case; `Content-Type` is always
    /// [`PROBLEM_MEDIA_TYPE`] and not among them.
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
