//! The rules for requests that differ between versions of the API.

use actix_web::HttpRequest;

/// The accepted forms of a credential, and the error texts for invalid ones.
#[derive(Debug, Clone, Copy)]
pub struct Credentials {
    /// Authentication schemes before a token, in lowercase. They are compared without regard to case.
    pub schemes: &'static [&'static str],
    /// Whether a token without a scheme is accepted.
    pub bare: bool,
    /// Error text for a malformed credential. `None` describes the actual mistake.
    pub malformed: Option<&'static str>,
    /// Error text for a token that is unknown, expired or deleted.
    pub unknown: &'static str,
}

/// The media types of bodies that are read as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyTypes {
    /// `application/json`.
    Json,
    /// Every JSON type, plain text, the type that `curl -d` sends, and a missing type.
    Lenient,
}

impl BodyTypes {
    /// Returns `true` if a body with this `Content-Type` is accepted. `""` stands for a missing header.
    pub(crate) fn take(self, content_type: &str) -> bool {
        let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match self {
            Self::Json => media_type == "application/json",
            Self::Lenient => {
                ["", "text/plain", "application/x-www-form-urlencoded"].contains(&media_type.as_str())
                    || media_type.ends_with("/json")
                    || media_type.ends_with("+json")
            }
        }
    }
}

/// The rules for requests of one API version. An adapter sets its policy in the app data of its scope or resource. The default is the policy of
/// v2.
#[derive(Debug, Clone, Copy)]
pub struct RequestPolicy {
    /// The accepted credentials.
    pub credentials: Credentials,
    /// The accepted media types of bodies.
    pub bodies: BodyTypes,
    /// Whether tokens that clients of the engine sign are accepted, too.
    pub accepts_keys: bool,
    /// Whether requests count against the quota of their caller. Invalid credentials always count against the address.
    pub is_counted: bool,
}

impl Default for RequestPolicy {
    fn default() -> Self {
        let credentials = Credentials {
            schemes: &["bearer"],
            bare: false,
            malformed: None,
            unknown: "the token is unknown, expired or revoked",
        };
        Self { credentials, bodies: BodyTypes::Json, accepts_keys: false, is_counted: true }
    }
}

impl RequestPolicy {
    pub(crate) fn of(request: &HttpRequest) -> Self {
        request.app_data::<Self>().copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::BodyTypes;

    #[test]
    fn media_types() {
        for (content_type, strict, lenient) in [
            ("application/json", true, true),
            ("Application/JSON; charset=utf-8", true, true),
            ("text/json", false, true),
            ("application/vnd.x+json", false, true),
            ("text/plain", false, true),
            ("application/x-www-form-urlencoded", false, true),
            ("", false, true),
            ("application/xml", false, false),
            ("multipart/form-data; boundary=x", false, false),
        ] {
            assert_eq!(BodyTypes::Json.take(content_type), strict, "{content_type}");
            assert_eq!(BodyTypes::Lenient.take(content_type), lenient, "{content_type}");
        }
    }
}
