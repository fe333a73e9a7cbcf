//! What all secret texts have in common.

/// Declares types of secret texts.
macro_rules! secret_texts {
    ($($(#[$doc:meta])* $name:ident;)+) => {$(
        $(#[$doc])*
        ///
        /// The value is wiped from memory on drop. It has no `Clone` and no comparison; secrets are compared by their hashes.
        pub struct $name(secrecy::SecretString);

        impl $name {
            /// Returns the text in clear, for the answer that shows it.
            #[must_use]
            pub fn expose(&self) -> &str {
                secrecy::ExposeSecret::expose_secret(&self.0)
            }

            /// Returns the hash of the whole text, which is stored and looked up.
            #[must_use]
            pub fn hash(&self) -> $crate::HashedToken {
                $crate::HashedToken::from_bytes(<sha2::Sha256 as sha2::Digest>::digest(self.expose()).into())
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(concat!(stringify!($name), "([redacted])"))
            }
        }
    )+};
}
pub(crate) use secret_texts;
