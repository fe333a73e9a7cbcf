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
                    meaning: "The request breaks the rules of its form: the JSON is malformed, a field or parameter is unknown, \
                              missing, of the wrong type or outside its rules, or a page token is not one this server gave out.",
                    client: "Read `errors`: each entry names the field (`pointer`) or parameter (`parameter`) and what is wrong \
                             with it. Correct the request; repeating it unchanged fails again. Start a listing over when its \
                             page token is refused.",
                    operator: "Nothing, as a rule. Many of these from one client after an upgrade suggest a client that was \
                               written for another version of the API.",
                },
            },
            Self::Unauthenticated => CodeRow {
                name: "UNAUTHENTICATED",
                status: 401,
                title: "Unauthenticated",
                suffix: "unauthenticated",
                retry_after: None,
                explanation: Explanation {
                    meaning: "The endpoint requires a credential and none was sent, or the one that was sent is malformed, \
                              unknown, expired or revoked. A bad credential is refused on every endpoint, public ones included.",
                    client: "Send `Authorization: Bearer <token>` with a live token. Create a new token when the old one has \
                             expired. To read public data anonymously, leave the header out.",
                    operator: "Nothing, as a rule. Rejected credentials count against the quota of the address they came from.",
                },
            },
            Self::PermissionDenied => CodeRow {
                name: "PERMISSION_DENIED",
                status: 403,
                title: "Permission denied",
                suffix: "permission-denied",
                retry_after: None,
                explanation: Explanation {
                    meaning: "You can see the target, but your role does not allow this action; or you may not create anything \
                              for the owner you named, whether that owner exists or not; or the address of an upload part is \
                              wrong or has expired.",
                    client: "Ask an admin of the database, or an owner of the organization, for a higher role. For an upload, \
                             ask for new part addresses.",
                    operator: "Nothing, as a rule. If all part addresses are refused, compare the clocks of the nodes and check \
                               that they share one signing secret.",
                },
            },
            Self::NotFound => CodeRow {
                name: "NOT_FOUND",
                status: 404,
                title: "Not found",
                suffix: "not-found",
                retry_after: None,
                explanation: Explanation {
                    meaning: "There is no such route, or the resource does not exist or is not visible to you: the answer is the \
                              same, so that it reveals nothing. Also for a branch, tag, commit or table that the request names \
                              and that does not exist.",
                    client: "Check the spelling of owner, database and reference. If the database is private, send the token of \
                             someone who has a role on it.",
                    operator: "If a user insists that a database exists, look at who has a role on it; if it was renamed or \
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
                    operator: "Check that no proxy in front of the server rewrites methods or turns a POST into a GET while it \
                               follows a redirect.",
                },
            },
            Self::Conflict => CodeRow {
                name: "CONFLICT",
                status: 409,
                title: "Conflict",
                suffix: "conflict",
                retry_after: None,
                explanation: Explanation {
                    meaning: "Something else is in the way: the name is taken, an open pull request for the same branches exists, \
                              a running operation holds the state, or the first request with the same `Idempotency-Key` is \
                              still being answered.",
                    client: "Choose another name or use what exists. With a `Retry-After` header, repeat the same request after \
                             that many seconds. When an operation is in the way, wait until it has finished.",
                    operator: "Nothing, as a rule. If an operation stays in the way for long, look at the operations of that \
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
                    client: "Send the request again, with a new idempotency key, if the work is still wanted.",
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
                    meaning: "The resource is no longer the one your `If-Match` header names: somebody changed it after you read \
                              it. Nothing was changed by this request.",
                    client: "Read the resource again, look at what changed, and repeat the request with the new `ETag` if it \
                             still makes sense.",
                    operator: "Nothing, as a rule. Check that no proxy changes `ETag` or `If-Match`.",
                },
            },
            Self::PayloadTooLarge => CodeRow {
                name: "PAYLOAD_TOO_LARGE",
                status: 413,
                title: "Payload too large",
                suffix: "payload-too-large",
                retry_after: None,
                explanation: Explanation {
                    meaning: "The body of the request, a part of an upload or a whole file is above its limit.",
                    client: "Send less: split the request, or use an import for large data.",
                    operator: "The limits are in the configuration under `limits`. A proxy with a lower limit of its own answers \
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
                    meaning: "The request has a body whose `Content-Type` is missing or is not the one the endpoint takes.",
                    client: "Send `Content-Type: application/json` with a JSON body, or no body where every field is optional.",
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
                    meaning: "The request is well-formed, but the present state of the resource forbids it: for example the \
                              default branch cannot be deleted, a merged pull request cannot be merged again, a fork's name is \
                              taken.",
                    client: "Read `detail`, change the state that is in the way or ask for something else.",
                    operator: "Nothing, as a rule. Limits on how many of a thing may exist are in the configuration under `limits`.",
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
                    client: "Look at the conflicts of the pull request, make the two sides agree by writing to the source \
                             branch, and merge again.",
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
                    meaning: "The `Idempotency-Key` was already used with another request. This request had no effect.",
                    client: "Make a new key for every new request, a random UUID for example; send the old key again only with \
                             the very same body.",
                    operator: "Nothing, as a rule. It points to a client that reuses keys.",
                },
            },
            Self::OperationFailed => CodeRow {
                name: "OPERATION_FAILED",
                status: 422,
                title: "Operation failed",
                suffix: "operation-failed",
                retry_after: None,
                explanation: Explanation {
                    meaning: "The content of the request made the operation fail: an SQL statement was refused, a file has bad \
                              rows, or the work ran into its time limit. Nothing was changed. This code appears only in the \
                              `error` of an operation.",
                    client: "Read `detail` and `errors`, which name the lines and columns of an import file; correct the \
                             statement or the file and send it again. Split work that takes too long.",
                    operator: "Nothing, as a rule. Time and size limits are in the configuration under `limits`.",
                },
            },
            Self::Unsupported => CodeRow {
                name: "UNSUPPORTED",
                status: 422,
                title: "Unsupported",
                suffix: "unsupported",
                retry_after: None,
                explanation: Explanation {
                    meaning: "The zone, or this server, does not offer what was asked for. The detail names the feature.",
                    client: "Leave the feature out of the request, or use another zone.",
                    operator: "`hosted.enabled` and the catalogue in the configuration say what is offered.",
                },
            },
            Self::SpendingLimitExceeded => CodeRow {
                name: "SPENDING_LIMIT_EXCEEDED",
                status: 422,
                title: "Spending limit exceeded",
                suffix: "spending-limit-exceeded",
                retry_after: None,
                explanation: Explanation {
                    meaning: "What runs for the owner and what was asked for would together cost more in a month than the owner \
                              may spend: `committed_usd` and `requested_usd` exceed `limit_usd`. Nothing that runs is stopped.",
                    client: "Choose a smaller instance or volume, or disable a deployment that is not needed.",
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
                    meaning: "The zone has no room for another instance of this size, or the owner has as many deployments as are \
                              allowed. The detail names what is used up.",
                    client: "Choose a smaller size, or disable a deployment that is not needed.",
                    operator: "`capacity` in `hosted.catalogue`, `hosted.max_deployments_per_owner` and `hosted.port_range` bound it.",
                },
            },
            Self::RateLimited => CodeRow {
                name: "RATE_LIMITED",
                status: 429,
                title: "Rate limited",
                suffix: "rate-limited",
                retry_after: Some(1),
                explanation: Explanation {
                    meaning: "The quota of the user or address is used up, the caller has too many requests running at once, or \
                              the operation queue of the database is full.",
                    client: "Wait the seconds in `Retry-After`, then repeat the request, with the same `Idempotency-Key` if it \
                             had one. The `RateLimit` header shows what is left. Signed-in callers have a larger quota.",
                    operator: "Quotas are in the configuration. If all anonymous callers share one address, the server does not \
                               know its proxy: configure which proxies it may believe.",
                },
            },
            Self::Internal => CodeRow {
                name: "INTERNAL",
                status: 500,
                title: "Internal error",
                suffix: "internal",
                retry_after: None,
                explanation: Explanation {
                    meaning: "A fault of the server. The answer says nothing about the cause on purpose.",
                    client: "Repeat the request once; if it fails again, tell the operator the `request_id`. Repeat a POST only \
                             with the same `Idempotency-Key`.",
                    operator: "Search the log for the `request_id`: the cause stands there. `branchyard doctor` checks the data.",
                },
            },
            Self::ServiceUnavailable => CodeRow {
                name: "SERVICE_UNAVAILABLE",
                status: 503,
                title: "Service unavailable",
                suffix: "service-unavailable",
                retry_after: Some(1),
                explanation: Explanation {
                    meaning: "The server cannot answer just now: it is overloaded, shutting down, under maintenance, or its \
                              storage is full.",
                    client: "Wait the seconds in `Retry-After`, then repeat the request, with the same `Idempotency-Key` if it \
                             had one.",
                    operator: "Look at `/readyz`, the queue metrics and the free space of the data folder.",
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
