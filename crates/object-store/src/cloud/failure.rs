//! The kinds of failures of attempts.

use branchyard_domain::ports::StoreError;
use branchyard_domain::values::ObjectKey;

use super::watch::Answer;

/// Why an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// There is no such object.
    NotFound,
    /// There is an object that must not be replaced.
    Exists,
    /// The range begins after the end of the object.
    BeyondEnd,
    /// The next attempt may succeed. This one may have had its effect.
    Passing,
    /// The bytes were damaged on their way, or the answer does not fit the request. The next attempt may succeed.
    Garbled,
    /// No attempt will succeed.
    Lasting,
}

/// A failure of an attempt.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) kind: Kind,
    text: String,
    error: Option<object_store::Error>,
}

/// Codes of S3 for bytes that do not have the checksum that was sent with them.
const GARBLED: &[&str] =
    &["BadDigest", "InvalidDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch", "IncompleteBody"];

/// Codes for requests that came at the wrong time, under statuses that otherwise last.
const PASSING: &[&str] = &["ConditionalRequestConflict", "OperationAborted", "RequestTimeout", "ServerBusy"];

impl Failure {
    pub(super) fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), error: None }
    }

    /// Finds the kind of an error. `has_credentials` says whether the store has answered before, so that there are credentials.
    pub(super) fn of(error: object_store::Error, answer: Option<&Answer>, has_credentials: bool) -> Self {
        let (kind, text) = match answer {
            None => (Kind::Lasting, "check the credentials and the configuration of the store".to_owned()),
            Some(answer) if !answer.is_from_store => of_credentials(answer, has_credentials),
            Some(answer) => match answer.status {
                None if answer.is_untrusted => (
                    Kind::Lasting,
                    format!(
                        "the certificate of {} is not trusted: check the endpoint, or add the root certificate to the extra CA \
                         file",
                        answer.host
                    ),
                ),
                None => (Kind::Passing, format!("no answer of {}", answer.host)),
                Some(status) => of_status(status, answer, &error),
            },
        };
        Self { kind, text, error: Some(error) }
    }

    /// Returns `true` if the object may end before the range that was asked for. An empty object has no ranges, and not all stores
    /// answer that in the same way.
    pub(super) fn may_be_empty(&self) -> bool {
        matches!(self.kind, Kind::BeyondEnd | Kind::Garbled)
    }

    /// Returns the error of the port for the last attempt.
    pub(super) fn into_error(self, key: Option<&ObjectKey>) -> StoreError {
        let Self { kind, text, error } = self;
        let source = error.map(Into::into);
        match (kind, key) {
            (Kind::NotFound, Some(key)) => StoreError::NotFound(key.clone()),
            (Kind::Exists, Some(key)) => StoreError::Exists(key.clone()),
            (Kind::BeyondEnd | Kind::Garbled, Some(key)) => StoreError::damaged(key, text),
            (Kind::Passing | Kind::Garbled | Kind::BeyondEnd, _) => StoreError::Unavailable { context: text, source },
            // An absent object that was not asked for is an absent bucket.
            (Kind::Lasting | Kind::NotFound | Kind::Exists, _) => StoreError::Rejected { advice: text, source },
        }
    }
}

fn of_credentials(answer: &Answer, has_credentials: bool) -> (Kind, String) {
    let text = format!(
        "no credentials from {}: configure an access key and its secret, or let this machine have a role",
        answer.host
    );
    (if has_credentials { Kind::Passing } else { Kind::Lasting }, text)
}

fn of_status(status: u16, answer: &Answer, error: &object_store::Error) -> (Kind, String) {
    let mut said = format!("{} answered {status}", answer.host);
    for text in [&answer.code, &answer.message] {
        if !text.is_empty() {
            said.push_str(": ");
            said.push_str(text);
        }
    }
    let code = answer.code.as_str();
    let kind = match status {
        _ if GARBLED.contains(&code) => Kind::Garbled,
        _ if PASSING.contains(&code) => Kind::Passing,
        // The beginning of the answer was good, and its body broke off or does not fit.
        200..=299 if has_http_error(error) => Kind::Passing,
        200..=299 => Kind::Garbled,
        304 | 412 => Kind::Exists,
        404 if matches!(code, "NoSuchBucket" | "ContainerNotFound") => {
            return (Kind::Lasting, format!("create the bucket, or correct its name ({said})"));
        }
        404 => Kind::NotFound,
        409 if matches!(error, object_store::Error::AlreadyExists { .. }) && code != "ContainerBeingDeleted" => {
            Kind::Exists
        }
        416 => Kind::BeyondEnd,
        401 | 403 if code == "RequestTimeTooSkewed" => {
            return (Kind::Lasting, format!("set the clock of this machine ({said})"));
        }
        401 | 403 => {
            let advice = "check the access key, its secret, the region, and that they may read, write, list and delete";
            return (Kind::Lasting, format!("{advice} ({said})"));
        }
        300..=399 => return (Kind::Lasting, format!("check the endpoint and the region ({said})")),
        501 | 505 => {
            return (Kind::Lasting, format!("use a store that supports conditional writes and checksums ({said})"));
        }
        408 | 409 | 429 | 500..=599 => Kind::Passing,
        _ => return (Kind::Lasting, format!("check the configuration of the store ({said})")),
    };
    (kind, said)
}

fn has_http_error(error: &(dyn std::error::Error + 'static)) -> bool {
    error.is::<object_store::client::HttpError>() || error.source().is_some_and(has_http_error)
}
