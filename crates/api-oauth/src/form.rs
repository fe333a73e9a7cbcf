//! The forms that clients send.

use actix_web::HttpRequest;
use actix_web::dev::Payload;
use actix_web::http::header;
use branchyard_domain::values::ApplicationId;
use branchyard_http_common::{RequestContext, pairs};

use crate::oauth_error::OAuthError;

/// Maximum length of a body in bytes.
const MAX_BODY_BYTES: usize = 16 << 10;

/// Maximum length of one parameter in bytes. The longest one that makes sense is a redirect URI.
const MAX_PARAMETER_BYTES: usize = 2_048;

/// The parameters of a request. Unknown ones are ignored (RFC 6749 §3.2).
pub(crate) struct Form(Vec<(Vec<u8>, Vec<u8>)>);

impl Form {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// `invalid_request` for another media type; errors of the body.
    pub(crate) async fn read(
        call: &RequestContext,
        request: &HttpRequest,
        payload: Payload,
    ) -> Result<Self, OAuthError> {
        let media_type = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let media_type = media_type.and_then(|value| value.split(';').next()).unwrap_or_default().trim();
        if !media_type.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            return Err(OAuthError::invalid_request("the body must be application/x-www-form-urlencoded"));
        }
        let read = call.read_form(payload, MAX_BODY_BYTES).await?;
        let text = std::str::from_utf8(&read.bytes)
            .map_err(|_| OAuthError::invalid_request("the body is not percent-encoded"))?;
        Ok(Self(pairs(text).map(|(name, value)| (name, value.unwrap_or_default())).collect()))
    }

    /// Returns a parameter. An empty one counts as absent (RFC 6749 §3.2).
    ///
    /// # Errors
    /// `invalid_request` if the parameter was sent twice, is too long, or is not UTF-8.
    pub(crate) fn optional(&self, name: &str) -> Result<Option<&str>, OAuthError> {
        let refused = |what: &str| OAuthError::invalid_request(format!("{name} {what}"));
        let mut values = self.0.iter().filter(|(key, _)| key == name.as_bytes()).map(|(_, value)| value);
        let Some(value) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(refused("was sent twice"));
        }
        if value.len() > MAX_PARAMETER_BYTES {
            return Err(refused("is too long"));
        }
        let text = std::str::from_utf8(value).map_err(|_| refused("is not UTF-8"))?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    /// Returns a parameter that has to be there.
    ///
    /// # Errors
    /// As for [`Form::optional`], and `invalid_request` if the parameter is missing or empty.
    pub(crate) fn required(&self, name: &str) -> Result<&str, OAuthError> {
        self.optional(name)?.ok_or_else(|| OAuthError::invalid_request(format!("{name} is missing")))
    }

    /// Returns the client identifier.
    ///
    /// # Errors
    /// `invalid_request` if it is missing; `invalid_client` if it is none.
    pub(crate) fn client_id(&self) -> Result<ApplicationId, OAuthError> {
        let text = self.required("client_id")?;
        ApplicationId::parse(text).map_err(|error| OAuthError::new("invalid_client", error.to_string()))
    }
}
