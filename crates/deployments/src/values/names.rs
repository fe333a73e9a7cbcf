//! Names that users choose.

use std::fmt;

use branchyard_domain::values::Invalid;

macro_rules! plain_names {
    ($($(#[$doc:meta])* $name:ident, $what:literal, $least:literal, $most:literal;)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Checks the length and the characters.
            ///
            /// # Errors
            /// [`Invalid`] if a rule is broken; the message states the rule.
            pub fn parse(text: &str) -> Result<Self, Invalid> {
                let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
                if !($least..=$most).contains(&text.len()) || !plain {
                    return Err(Invalid::new(concat!(
                        $what, " is ", $least, " to ", $most, " characters of A-Z, a-z, 0-9, _ and -"
                    )));
                }
                Ok(Self(text.to_owned()))
            }

            /// Returns the name in the spelling chosen by its creator.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Returns the lower-case form, by which names are unique and looked up.
            pub fn key(&self) -> String {
                self.0.to_ascii_lowercase()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+};
}

plain_names! {
    /// The name of a deployment: 3–32 characters of `[-a-zA-Z0-9_]`, unique per owner ignoring case.
    DeploymentName, "the name of a deployment", 3, 32;
    /// The name of a database in a deployment: 1–64 characters of `[A-Za-z0-9_-]`, unique in the deployment ignoring
    /// case.
    ServedName, "the name of a database in a deployment", 1, 64;
}
