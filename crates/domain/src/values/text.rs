//! Texts with a length limit.

use super::Invalid;

macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident, $what:literal, max $max:literal $unit:ident, blank $blank:literal;)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name(String);

        impl $name {
            /// The most it may hold.
            pub const MAX: usize = $max;

            /// Checks the length, that there is no NUL (which not every store can hold) and, where it matters, that it is not blank.
            ///
            /// # Errors
            /// [`Invalid`] naming the rule.
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

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The text, owned.
            pub fn into_string(self) -> String {
                self.0
            }
        }
    )+};
    (@len characters $text:ident) => { $text.chars().count() };
    (@len bytes $text:ident) => { $text.len() };
}

texts! {
    /// Title of a pull or a release: 1–256 characters, not blank.
    Title, "the title", max 256 characters, blank false;
    /// Label of a token: 1–100 characters, not blank.
    TokenName, "the name", max 100 characters, blank false;
    /// What an organization is shown as beside its name: at most 100 characters.
    DisplayName, "the display name", max 100 characters, blank true;
    /// Description of a database or an organization: at most 4,096 bytes.
    Description, "the description", max 4096 bytes, blank true;
    /// Description of a pull or release, a comment, a message: at most 65,536 bytes.
    LongText, "the text", max 65536 bytes, blank true;
}
