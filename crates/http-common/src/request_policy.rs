//! What versions of the API differ in before a handler runs.

use actix_web::HttpRequest;

/// The forms of a credential, and what is said of one that is none.
#[derive(Debug, Clone, Copy)]
pub struct Credentials {
    /// Schemes before a token, in lower case; they are read in any case.
    pub schemes: &'static [&'static str],
    /// Whether a token may stand alone.
    pub bare: bool,
    /// What is said of anything else; `None` names what is wrong.
    pub malformed: Option<&'static str>,
    /// What is said of a token that is unknown, expired or deleted.
    pub unknown: &'static str,
}

/// The media types under which a body is read as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyTypes {
    /// `application/json`.
    Json,
    /// Every JSON type, plain text, what `curl -d` sends, and none at all.
    Lenient,
}

impl BodyTypes {
    /// Whether a body of this `Content-Type` is read; `""` stands for none.
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

/// How a version of the API takes requests. An adapter puts its own into the data of its scope; without, v2's hold.
#[derive(Debug, Clone, Copy)]
pub struct RequestPolicy {
    /// The credential.
    pub credentials: Credentials,
    /// Bodies.
    pub bodies: BodyTypes,
}

impl Default for RequestPolicy {
    fn default() -> Self {
        let credentials = Credentials {
            schemes: &["bearer"],
            bare: false,
            malformed: None,
            unknown: "the token is unknown, expired or revoked",
        };
        Self { credentials, bodies: BodyTypes::Json }
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
