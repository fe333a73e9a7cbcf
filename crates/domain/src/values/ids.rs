//! Identifiers. They are UUID v7, which sort by creation time.

use std::fmt;

use super::Invalid;

/// Declares identifier types. Public, so that crates that depend on this one can declare identifiers of the same
/// kind. Those crates need the crate `uuid`.
#[doc(hidden)]
#[macro_export]
macro_rules! id_types {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(::uuid::Uuid);

        impl $name {
            /// Wraps an id from an id generator or a store.
            pub const fn from_uuid(id: ::uuid::Uuid) -> Self {
                Self(id)
            }

            /// Returns the id as a UUID.
            pub const fn as_uuid(&self) -> ::uuid::Uuid {
                self.0
            }

            /// Parses the hyphenated lower-case form.
            ///
            /// # Errors
            /// An error for any other text, including other UUID notations.
            pub fn parse(text: &str) -> Result<Self, $crate::values::Invalid> {
                match ::uuid::Uuid::try_parse(text) {
                    Ok(id) if id.hyphenated().to_string() == text => Ok(Self(id)),
                    _ => Err($crate::values::Invalid::new(format!("'{text}' is not an id"))),
                }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Display::fmt(&self.0.hyphenated(), f)
            }
        }
    )+};
}

id_types! {
    /// A user or an organization. Both share one namespace.
    AccountId,
    /// An API token. Not secret.
    TokenId,
    /// A key of a user.
    UserKeyId,
    /// A browser session. Not secret.
    SessionId,
    /// An invitation to sign up. Not secret.
    InvitationId,
    /// What a user granted to an application. Not secret.
    GrantId,
    /// A database.
    DatabaseId,
    /// A comment on a pull request.
    CommentId,
    /// A release.
    ReleaseId,
    /// An operation.
    OperationId,
    /// An upload session.
    UploadId,
    /// An event in the outbox.
    EventId,
    /// An activity. Equal to the id of its event, if there is one.
    ActivityId,
    /// A hook.
    HookId,
    /// A delivery, which receivers see as `webhook-id`.
    DeliveryId,
    /// An attempt of a delivery.
    AttemptId,
    /// A recorded change of a ref.
    RefLogId,
}

/// The number of a pull request in its base database, starting at 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PullNumber(i64);

impl PullNumber {
    /// The number of the first pull request of a database.
    pub const FIRST: Self = Self(1);

    /// Wraps a number.
    ///
    /// # Errors
    /// [`Invalid`] if the number is below 1.
    pub fn new(number: i64) -> Result<Self, Invalid> {
        if number < 1 {
            return Err(Invalid::new("pull request numbers start at 1"));
        }
        Ok(Self(number))
    }

    /// Parses `[1-9][0-9]*`. Numbers beyond `i64` saturate; no pull request has such a number.
    ///
    /// # Errors
    /// [`Invalid`] if the text does not match the pattern.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !digits || text.starts_with('0') {
            return Err(Invalid::new(format!("'{text}' is not a pull request number")));
        }
        Ok(Self(text.parse().unwrap_or(i64::MAX)))
    }

    /// Returns the number.
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for PullNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
