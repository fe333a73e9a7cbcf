//! Texts with a maximum length.

use super::Invalid;

macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident, $what:literal, max $max:literal $unit:ident, blank $blank:literal;)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name(String);

        impl $name {
            /// The maximum length.
            pub const MAX: usize = $max;

            /// Checks the length, the absence of NUL (which some stores cannot hold) and, for types that require it,
            /// that the text is not blank.
            ///
            /// # Errors
            /// [`Invalid`] with the broken rule.
            pub fn parse(text: impl Into<String>) -> Result<Self, Invalid> {
                let text = text.into();
                if text.contains('\0') {
                    return Err(Invalid::new(concat!($what, " must not contain NUL")));
                }
                if !$blank && text.trim().is_empty() {
                    return Err(Invalid::new(concat!($what, " must not be blank")));
                }
                if texts!(@len $unit text) > Self::MAX {
                    return Err(Invalid::new(concat!($what, " is longer than ", $max, " ", stringify!($unit))));
                }
                Ok(Self(text))
            }

            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Returns the text as an owned string.
            pub fn into_string(self) -> String {
                self.0
            }
        }
    )+};
    (@len characters $text:ident) => { $text.chars().count() };
    (@len bytes $text:ident) => { $text.len() };
}

texts! {
    /// Title of a pull request or release: 1–256 characters, not blank.
    Title, "the title", max 256 characters, blank false;
    /// Label of a token: 1–100 characters, not blank.
    TokenName, "the name", max 100 characters, blank false;
    /// Name of an application: 1–100 characters, not blank.
    ApplicationName, "the name", max 100 characters, blank false;
    /// Display name of an organization: at most 100 characters.
    DisplayName, "the display name", max 100 characters, blank true;
    /// Description of a database or an organization: at most 4,096 bytes.
    Description, "the description", max 4096 bytes, blank true;
    /// Description of a pull request or release, a comment, or a message: at most 65,536 bytes.
    LongText, "the text", max 65536 bytes, blank true;
}
