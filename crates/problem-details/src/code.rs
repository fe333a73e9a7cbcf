//! The closed table of error codes.

use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A row of the table: everything that depends on the code alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeRow {
    /// Name of the code in `SCREAMING_SNAKE_CASE`. Part of the wire contract: clients branch on it and it never
    /// changes.
    pub name: &'static str,
    /// HTTP status (RFC 9110).
    pub status: u16,
    /// Short name of the problem. Prose that may change.
    pub title: &'static str,
    /// Last segment of the `type` URI and of the page that it resolves to. Never changes.
    pub suffix: &'static str,
    /// Default value of `Retry-After` in seconds.
    pub retry_after: Option<u32>,
    /// Text of the page.
    pub explanation: Explanation,
}

/// The text of the page at `/docs/errors/<suffix>`: plain prose in which backquotes mark code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Meaning of the code.
    pub meaning: &'static str,
    /// What the client can do.
    pub client: &'static str,
    /// What the operator of the server can do.
    pub operator: &'static str,
}

/// The text is not an error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown error code")]
pub struct UnknownErrorCode;

/// Declares the codes together with [`ErrorCode::ALL`], so that the list is complete.
macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident,)+) => {
        /// The stable identifier of a failure: the only member of a problem document that clients branch on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[$doc])* $code,)+
        }

        impl ErrorCode {
            /// Every code, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$code,)+];
        }
    };
}

codes! {
    /// The request is malformed or breaks a validation rule.
    ValidationFailed,
    /// A required credential is missing, or a credential is invalid.
    Unauthenticated,
    /// The target is visible, but the action is not allowed.
    PermissionDenied,
    /// The target does not exist or is not visible to the caller.
    NotFound,
    /// The route exists, but not with this method.
    MethodNotAllowed,
    /// The name is taken, or another change is in progress.
    Conflict,
    /// An operation was canceled while it was queued, or its database was deleted. Only in `Operation.error`.
    Canceled,
    /// The condition of `If-Match` is not met.
    PreconditionFailed,
    /// A body or part exceeds its limit.
    PayloadTooLarge,
    /// The body is not `application/json`.
    UnsupportedMediaType,
    /// The request is well-formed, but the state of the resource does not allow it.
    Unprocessable,
    /// The two sides of a merge conflict. Only in `Operation.error`.
    MergeConflict,
    /// The idempotency key was already used with another request.
    IdempotencyKeyReused,
    /// The content of the request made an operation fail. Only in `Operation.error`.
    OperationFailed,
    /// The zone or server does not offer the feature that the detail names.
    Unsupported,
    /// The request would exceed the spending limit of the owner.
    SpendingLimitExceeded,
    /// The zone or the owner has no capacity left.
    CapacityExceeded,
    /// A quota of the caller or a queue of the database is exhausted.
    RateLimited,
    /// An internal server error.
    Internal,
    /// The server is temporarily unable to answer.
    ServiceUnavailable,
}

impl ErrorCode {
    /// Returns the row of the code.
    #[must_use]
    pub const fn row(self) -> CodeRow {
        // Exhaustive, so that a new code has to choose.
        match self {
            Self::ValidationFailed => CodeRow {
                name: "VALIDATION_FAILED",
                status: 400,
                title: "Validation failed",
                suffix: "validation-failed",
                retry_after: None,
                explanation: Explanation {
                    meaning: "The request is malformed: the JSON is invalid, a field or parameter is unknown, missing, of the wrong \
                              type or out of range, or this server did not issue the page token.",
                    client: "Read `errors`: each entry names the field (`pointer`) or parameter (`parameter`) and the error. Correct \
                             the request; repeating it unchanged fails again. If a page token is refused, start the listing \
                             again.",
                    operator: "Usually nothing. If one client causes many of these after an upgrade, the client was probably written \
                               for another version of the API.",
                },
            },
            Self::Unauthenticated => CodeRow {
                name: "UNAUTHENTICATED",
                status: 401,
                title: "Unauthenticated",
                suffix: "unauthenticated",
                retry_after: None,
                explanation: Explanation {
                    meaning: "The endpoint requires a credential and none was sent, or the credential is malformed, unknown, expired or \
                              revoked. An invalid credential is refused on every endpoint, also on public ones.",
                    client: "Send `Authorization: Bearer <token>` with a valid token. Create a new token if the old one has expired. \
                             To read public data anonymously, omit the header.",
                    operator: "Usually nothing. Rejected credentials count against the quota of the address they came from.",
                },
            },
            Self::PermissionDenied => CodeRow {
                name: "PERMISSION_DENIED",
                status: 403,
                title: "Permission denied",
                suffix: "permission-denied",
                retry_after: None,
                explanation: Explanation {
                    meaning: "You can see the target, but your role does not allow this action; or you may not create \
                              anything for the named owner, whether that owner exists or not; or the URL of an upload part is \
                              wrong or has expired.",
                    client: "Ask an admin of the database, or an owner of the organization, for a higher role. For an upload, \
                             open a new session.",
                    operator: "Usually nothing. If all URLs of parts are refused, compare the clocks of the servers and check that they \
                               have the same `server.key`.",
                },
            },
            Self::NotFound => CodeRow {
                name: "NOT_FOUND",
                status: 404,
                title: "Not found",
                suffix: "not-found",
                retry_after: None,
                explanation: Explanation {
                    meaning: "The route or resource does not exist, or you cannot see it. Both get the same answer, which reveals \
                              nothing. Also returned if a branch, tag, commit or table that the request names does not exist.",
                    client: "Check the spelling of owner, database and reference. If the database is private, send the token of \
                             someone who has a role on it.",
                    operator: "If a user reports that an existing database is missing, check which users have a role on it. If it was \
                               deleted, the request log shows when.",
                },
            },
            Self::MethodNotAllowed => CodeRow {
                name: "METHOD_NOT_ALLOWED",
                status: 405,
                title: "Method not allowed",
                suffix: "method-not-allowed",
                retry_after: None,
                explanation: Explanation {
                    meaning: "The route exists, but not with this method.",
                    client: "Use one of the methods in the `Allow` header of the answer.",
                    operator: "Check that no proxy in front of the server rewrites methods, or turns a POST into a GET when it follows \
                               a redirect.",
                },
            },
            Self::Conflict => CodeRow {
                name: "CONFLICT",
                status: 409,
                title: "Conflict",
                suffix: "conflict",
                retry_after: None,
                explanation: Explanation {
                    meaning: "The request conflicts with the current state: the name is taken, an open pull request for the same \
                              branches exists, an operation is running, or the first request with the same `Idempotency-Key` is \
                              still in progress.",
                    client: "Choose another name, or use the existing resource. If there is a `Retry-After` header, repeat the same \
                             request after that many seconds. If an operation is running, wait until it has ended.",
                    operator: "Usually nothing. If an operation blocks others for a long time, check the operations of that \
                     database.",
                },
            },
            Self::Canceled => CodeRow {
                name: "CANCELED",
                status: 409,
                title: "Canceled",
                suffix: "canceled",
                retry_after: None,
                explanation: Explanation {
                    meaning: "The operation was canceled while it was queued, or its database was deleted. It has changed \
                              nothing. This code appears only in the `error` of an operation.",
                    client: "To do the work after all, send the request again with a new idempotency key.",
                    operator: "Nothing.",
                },
            },
            Self::PreconditionFailed => CodeRow {
                name: "PRECONDITION_FAILED",
                status: 412,
                title: "Precondition failed",
                suffix: "precondition-failed",
                retry_after: None,
                explanation: Explanation {
                    meaning: "The resource no longer matches your `If-Match` header: it changed after you read it. This request changed \
                              nothing.",
                    client: "Read the resource again, check what changed, and repeat the request with the new `ETag` if it still makes \
                             sense.",
                    operator: "Usually nothing. Check that no proxy changes `ETag` or `If-Match`.",
                },
            },
            Self::PayloadTooLarge => CodeRow {
                name: "PAYLOAD_TOO_LARGE",
                status: 413,
                title: "Payload too large",
                suffix: "payload-too-large",
                retry_after: None,
                explanation: Explanation {
                    meaning: "The request body, a part of an upload or a whole file exceeds its limit.",
                    client: "Send less: split the request, or use an import for large data.",
                    operator: "The limits are in the configuration under `http`, `sql` and `imports`. A proxy with a lower limit answers \
                               with its own page instead of this document.",
                },
            },
            Self::UnsupportedMediaType => CodeRow {
                name: "UNSUPPORTED_MEDIA_TYPE",
                status: 415,
                title: "Unsupported media type",
                suffix: "unsupported-media-type",
                retry_after: None,
                explanation: Explanation {
                    meaning: "The `Content-Type` of the request body is missing, or the endpoint does not accept it.",
                    client: "Send `Content-Type: application/json` with a JSON body, or no body if every field is optional.",
                    operator: "Check that no proxy removes or rewrites `Content-Type`.",
                },
            },
            Self::Unprocessable => CodeRow {
                name: "UNPROCESSABLE",
                status: 422,
                title: "Unprocessable",
                suffix: "unprocessable",
                retry_after: None,
                explanation: Explanation {
                    meaning: "The request is well-formed, but the current state of the resource does not allow it. For example, the \
                              default branch cannot be deleted, and a merged pull request cannot be merged again.",
                    client: "Read `detail`, then change the state of the resource or send a different request.",
                    operator: "Usually nothing. Limits on the number of databases, tokens and hooks are in the configuration under \
                               `limits`, `tokens` and `hooks`.",
                },
            },
            Self::MergeConflict => CodeRow {
                name: "MERGE_CONFLICT",
                status: 422,
                title: "Merge conflict",
                suffix: "merge-conflict",
                retry_after: None,
                explanation: Explanation {
                    meaning: "Both sides of a merge changed the same rows or the same schema in different ways. `detail` names the \
                              tables and the number of conflicts in each. Neither branch was changed. This code appears only in \
                              the `error` of an operation.",
                    client: "Read the conflicts of the pull request. Choose a side for each table with `resolve`, or write to the \
                             source branch until both sides agree; then merge again.",
                    operator: "Nothing.",
                },
            },
            Self::IdempotencyKeyReused => CodeRow {
                name: "IDEMPOTENCY_KEY_REUSED",
                status: 422,
                title: "Idempotency key reused",
                suffix: "idempotency-key-reused",
                retry_after: None,
                explanation: Explanation {
                    meaning: "The `Idempotency-Key` was already used for a different request. This request had no effect.",
                    client: "Use a new key for every new request, for example a random UUID. Send a key again only with exactly the \
                             same request.",
                    operator: "Usually nothing. A client reuses keys.",
                },
            },
            Self::OperationFailed => CodeRow {
                name: "OPERATION_FAILED",
                status: 422,
                title: "Operation failed",
                suffix: "operation-failed",
                retry_after: None,
                explanation: Explanation {
                    meaning: "The operation failed because of the content of the request: a SQL statement was refused, a file has \
                              invalid rows, or the time limit was exceeded. Nothing was changed. This code appears only in the \
                              `error` of an operation.",
                    client: "Read `detail` and `errors`, which name lines and columns of an imported file. Correct the statement or the \
                             file and send it again. Split work that takes too long.",
                    operator: "Usually nothing. Time and size limits are in the configuration under `sql` and `imports`.",
                },
            },
            Self::Unsupported => CodeRow {
                name: "UNSUPPORTED",
                status: 422,
                title: "Unsupported",
                suffix: "unsupported",
                retry_after: None,
                explanation: Explanation {
                    meaning: "The zone or this server does not offer a requested feature. `detail` names it.",
                    client: "Omit the feature from the request, or use another zone.",
                    operator: "`hosted.enabled` and `hosted.catalogue` in the configuration determine what is offered.",
                },
            },
            Self::SpendingLimitExceeded => CodeRow {
                name: "SPENDING_LIMIT_EXCEEDED",
                status: 422,
                title: "Spending limit exceeded",
                suffix: "spending-limit-exceeded",
                retry_after: None,
                explanation: Explanation {
                    meaning: "The running deployments of the owner and the requested one would together cost more than the monthly \
                              limit: `committed_usd` plus `requested_usd` exceeds `limit_usd`. Running deployments are not stopped.",
                    client: "Choose a smaller instance or volume, or shut down a deployment that is not needed.",
                    operator: "The limits are `hosted.spending` in the configuration.",
                },
            },
            Self::CapacityExceeded => CodeRow {
                name: "CAPACITY_EXCEEDED",
                status: 422,
                title: "Capacity exceeded",
                suffix: "capacity-exceeded",
                retry_after: None,
                explanation: Explanation {
                    meaning: "The zone has no capacity for another instance of this size, or the owner has reached the maximum number \
                              of deployments. `detail` names the limit.",
                    client: "Choose a smaller size, or shut down a deployment that is not needed.",
                    operator: "The limits are `capacity` in `hosted.catalogue`, `hosted.max_deployments_per_owner` and \
                     `hosted.port_range`.",
                },
            },
            Self::RateLimited => CodeRow {
                name: "RATE_LIMITED",
                status: 429,
                title: "Rate limited",
                suffix: "rate-limited",
                retry_after: Some(1),
                explanation: Explanation {
                    meaning: "The quota of the user or address is used up, the caller has too many requests in progress, or the \
                              operation queue of the database is full.",
                    client: "Wait for the seconds in `Retry-After`, then repeat the request with the same `Idempotency-Key`, if any. \
                             The `RateLimit` header shows the remaining quota. Signed-in callers have a quota of their own.",
                    operator: "Quotas are in the configuration under `rate_limit`. If all anonymous callers seem to have one address, \
                               list your reverse proxy in `http.trusted_proxies`.",
                },
            },
            Self::Internal => CodeRow {
                name: "INTERNAL",
                status: 500,
                title: "Internal error",
                suffix: "internal",
                retry_after: None,
                explanation: Explanation {
                    meaning: "The server failed. The answer deliberately does not reveal the cause.",
                    client: "Repeat the request once, a POST only with the same `Idempotency-Key`. If it fails again, report the \
                             `request_id` to the operator.",
                    operator: "Search the log for the `request_id` to find the cause. `branchyard doctor` checks the data.",
                },
            },
            Self::ServiceUnavailable => CodeRow {
                name: "SERVICE_UNAVAILABLE",
                status: 503,
                title: "Service unavailable",
                suffix: "service-unavailable",
                retry_after: Some(1),
                explanation: Explanation {
                    meaning: "The server temporarily cannot answer: it is overloaded, shutting down or under maintenance, or its storage \
                              is full.",
                    client: "Wait for the seconds in `Retry-After`, then repeat the request with the same `Idempotency-Key`, \
                     if any.",
                    operator: "Check `/readyz`, the metrics of queues, and the free space of the data folder.",
                },
            },
        }
    }

    /// Returns the name of the code, such as `NOT_FOUND`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.row().name
    }

    /// Returns the HTTP status.
    #[must_use]
    pub const fn status(self) -> u16 {
        self.row().status
    }

    /// Returns the short name of the problem. Prose that may change.
    #[must_use]
    pub const fn title(self) -> &'static str {
        self.row().title
    }

    /// Returns the last segment of the `type` URI, such as `not-found`.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        self.row().suffix
    }

    /// Returns the default value of `Retry-After` in seconds, or `None` if the code does not require the header.
    #[must_use]
    pub const fn default_retry_after(self) -> Option<u32> {
        self.row().retry_after
    }

    /// Returns the text of the page at `/docs/errors/<suffix>`.
    #[must_use]
    pub const fn explanation(self) -> Explanation {
        self.row().explanation
    }

    /// Returns the code whose page is at `/docs/errors/<suffix>`.
    #[must_use]
    pub fn from_suffix(suffix: &str) -> Option<Self> {
        let mut codes = Self::ALL.iter().copied();
        codes.find(|code| code.suffix() == suffix)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ErrorCode {
    type Err = UnknownErrorCode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut codes = Self::ALL.iter().copied();
        codes.find(|code| code.as_str() == text).ok_or(UnknownErrorCode)
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::{ErrorCode, UnknownErrorCode};

    /// The table of the wire contracts (v2 §1.7, hosted v1 §1.1), in the same order.
    const CONTRACT: &[(&str, u16, &str, &str)] = &[
        ("VALIDATION_FAILED", 400, "Validation failed", "validation-failed"),
        ("UNAUTHENTICATED", 401, "Unauthenticated", "unauthenticated"),
        ("PERMISSION_DENIED", 403, "Permission denied", "permission-denied"),
        ("NOT_FOUND", 404, "Not found", "not-found"),
        ("METHOD_NOT_ALLOWED", 405, "Method not allowed", "method-not-allowed"),
        ("CONFLICT", 409, "Conflict", "conflict"),
        ("CANCELED", 409, "Canceled", "canceled"),
        ("PRECONDITION_FAILED", 412, "Precondition failed", "precondition-failed"),
        ("PAYLOAD_TOO_LARGE", 413, "Payload too large", "payload-too-large"),
        ("UNSUPPORTED_MEDIA_TYPE", 415, "Unsupported media type", "unsupported-media-type"),
        ("UNPROCESSABLE", 422, "Unprocessable", "unprocessable"),
        ("MERGE_CONFLICT", 422, "Merge conflict", "merge-conflict"),
        ("IDEMPOTENCY_KEY_REUSED", 422, "Idempotency key reused", "idempotency-key-reused"),
        ("OPERATION_FAILED", 422, "Operation failed", "operation-failed"),
        ("UNSUPPORTED", 422, "Unsupported", "unsupported"),
        ("SPENDING_LIMIT_EXCEEDED", 422, "Spending limit exceeded", "spending-limit-exceeded"),
        ("CAPACITY_EXCEEDED", 422, "Capacity exceeded", "capacity-exceeded"),
        ("RATE_LIMITED", 429, "Rate limited", "rate-limited"),
        ("INTERNAL", 500, "Internal error", "internal"),
        ("SERVICE_UNAVAILABLE", 503, "Service unavailable", "service-unavailable"),
    ];

    #[test]
    fn the_table_is_the_contracts() {
        let rows: Vec<_> =
            ErrorCode::ALL.iter().map(|code| (code.as_str(), code.status(), code.title(), code.suffix())).collect();
        assert_eq!(rows, CONTRACT);
    }

    #[test]
    fn codes_are_found_by_name_and_by_suffix() {
        for &code in ErrorCode::ALL {
            assert_eq!(code.as_str().parse(), Ok(code));
            assert_eq!(ErrorCode::from_suffix(code.suffix()), Some(code));
        }
        for unknown in ["", "not_found", "NotFound", "NOT_FOUND ", "TEAPOT"] {
            assert_eq!(unknown.parse::<ErrorCode>(), Err(UnknownErrorCode));
            assert_eq!(ErrorCode::from_suffix(unknown), None);
        }
    }

    #[test]
    fn every_page_speaks_to_client_and_operator() {
        for code in ErrorCode::ALL {
            let page = code.explanation();
            for text in [page.meaning, page.client, page.operator] {
                assert!(text.ends_with('.'), "{code}: {text}");
                assert!(!text.contains("  "), "{code}: {text}");
            }
        }
    }

    #[test]
    fn retry_after_is_owed_on_429_and_503_only() {
        for code in ErrorCode::ALL {
            let owed = matches!(code.status(), 429 | 503);
            assert_eq!(code.default_retry_after().is_some(), owed, "{code}");
        }
    }

    #[test]
    fn a_code_is_serialized_as_its_name() {
        let json = serde_json::to_string(&ErrorCode::NotFound).unwrap();
        assert_eq!(json, r#""NOT_FOUND""#);
    }
}
