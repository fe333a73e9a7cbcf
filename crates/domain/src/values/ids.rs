//! Identifiers: UUID v7, so that they sort by creation.

use std::fmt;

use super::Invalid;

/// Declares types of identifiers. Public so that crates over this one have identifiers of the same kind; they need the crate `uuid`.
#[doc(hidden)]
#[macro_export]
macro_rules! id_types {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(::uuid::Uuid);

        impl $name {
            /// Wraps an id made by an id generator or read back from a store.
            pub const fn from_uuid(id: ::uuid::Uuid) -> Self {
                Self(id)
            }

            /// The id as a UUID.
            pub const fn as_uuid(&self) -> ::uuid::Uuid {
                self.0
            }

            /// Parses the hyphenated lower-case form, and nothing else.
            ///
            /// # Errors
            /// An error for any other text.
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
    /// A user or an organization: both share one name space.
    AccountId,
    /// An API token; not secret.
    TokenId,
    /// A session of somebody signed in; not secret.
    SessionId,
    /// An invitation to sign up; not secret.
    InvitationId,
    /// A database.
    DatabaseId,
    /// A comment on a pull.
    CommentId,
    /// A release.
    ReleaseId,
    /// An accepted piece of work.
    OperationId,
    /// An upload session.
    UploadId,
    /// An event in the outbox.
    EventId,
    /// Something that happened; the id of its event, where there is one.
    ActivityId,
    /// A registered hook.
    HookId,
    /// An event on its way to one hook; receivers know it as `webhook-id`.
    DeliveryId,
    /// One request of a delivery.
    AttemptId,
}

/// The number of a pull in its base database, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PullNumber(i64);

impl PullNumber {
    /// The first pull of a database.
    pub const FIRST: Self = Self(1);

    /// Wraps a number of at least 1.
    ///
    /// # Errors
    /// [`Invalid`] below 1.
    pub fn new(number: i64) -> Result<Self, Invalid> {
        if number < 1 {
            return Err(Invalid::new("a pull number starts at 1"));
        }
        Ok(Self(number))
    }

    /// Parses `[1-9][0-9]*`. A number too large to exist saturates: it names no pull.
    ///
    /// # Errors
    /// [`Invalid`] off the pattern.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !digits || text.starts_with('0') {
            return Err(Invalid::new(format!("'{text}' is not a pull number")));
        }
        Ok(Self(text.parse().unwrap_or(i64::MAX)))
    }

    /// The plain number.
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for PullNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
