//! Successful JSON responses.

use actix_web::body::BoxBody;
use actix_web::http::{StatusCode, header};
use actix_web::{HttpRequest, HttpResponse, Responder};
use bytestring::ByteString;
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::coding::{Coding, TaggedCoding};
use crate::conditional::IfNoneMatch;

/// A response with a JSON body, ready to be sent or to be saved under an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiResponse {
    status: u16,
    body: ByteString,
    location: Option<String>,
    etag: Option<String>,
    retry_after: Option<u32>,
    no_store: bool,
    #[serde(skip)]
    preference_applied: Option<String>,
    #[serde(skip)]
    replayed: bool,
    #[serde(skip)]
    coding: Option<Coding>,
}

/// Returns the JSON of a value.
#[expect(clippy::expect_used, reason = "wire types always serialize: their maps have string keys")]
pub fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("a wire type serializes")
}

/// Returns a strong entity tag of a resource: a hash of its JSON.
pub fn etag_of(data: &impl Serialize) -> String {
    etag_of_json(&to_json(data))
}

fn etag_of_json(json: &str) -> String {
    let digest = Sha256::digest(json.as_bytes());
    format!("\"{}\"", HEXLOWER.encode(&digest[..16]))
}

impl ApiResponse {
    /// Creates a response of the form `{"data": …}` without an entity tag.
    pub fn data(status: u16, data: &impl Serialize) -> Self {
        Self::with_body(status, format!("{{\"data\":{}}}", to_json(data)))
    }

    /// Creates a response of the form `{"data": …}` with the entity tag of the data.
    pub fn resource(status: u16, data: &impl Serialize) -> Self {
        let json = to_json(data);
        let etag = etag_of_json(&json);
        Self { etag: Some(etag), ..Self::with_body(status, format!("{{\"data\":{json}}}")) }
    }

    /// Creates a response with this JSON text as its body.
    pub fn with_body(status: u16, body: impl Into<ByteString>) -> Self {
        Self {
            status,
            body: body.into(),
            location: None,
            etag: None,
            retry_after: None,
            no_store: false,
            preference_applied: None,
            replayed: false,
            coding: None,
        }
    }

    /// Returns the JSON text of the body.
    pub fn body(&self) -> &str {
        &self.body
    }

    /// Sets `Location`.
    #[must_use]
    pub fn at(mut self, location: String) -> Self {
        self.location = Some(location);
        self
    }

    /// Sets or clears the entity tag.
    #[must_use]
    pub fn tagged(mut self, etag: Option<String>) -> Self {
        self.etag = etag;
        self
    }

    /// Declares that the entity tag covers this content coding.
    #[must_use]
    pub fn coded(mut self, coding: Coding) -> Self {
        self.coding = Some(coding);
        self
    }

    /// Returns the approximate number of bytes that a cached copy takes.
    pub(crate) fn weight(&self) -> usize {
        self.body.len() + self.etag.as_ref().map_or(0, String::len)
    }

    /// Sets `Retry-After`, in seconds.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Sets `Preference-Applied`, which names the preference of the request that shaped the response (RFC 7240 §3).
    #[must_use]
    pub fn applied(mut self, preference: String) -> Self {
        self.preference_applied = Some(preference);
        self
    }

    /// Marks the response as a replay if `saved`, the response that it stands in for, is one.
    #[must_use]
    pub fn standing_in_for(mut self, saved: &Self) -> Self {
        self.replayed = saved.replayed;
        self
    }

    /// Marks the response as secret: it is sent with `Cache-Control: no-store`.
    #[must_use]
    pub fn secret(mut self) -> Self {
        self.no_store = true;
        self
    }

    /// Returns the form in which the response is saved under an idempotency key.
    pub(crate) fn encode(&self) -> Vec<u8> {
        to_json(self).into_bytes()
    }

    /// Reads the form that [`ApiResponse::encode`] wrote. The result is marked as a replay.
    pub(crate) fn decode(saved: &[u8]) -> Option<Self> {
        let answer: Self = serde_json::from_slice(saved).ok()?;
        Some(Self { replayed: true, ..answer })
    }

    pub(crate) fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    pub(crate) fn into_response(self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status_code());
        if let Some(coding) = self.coding {
            response.extensions_mut().insert(TaggedCoding(coding));
        }
        response.insert_header((header::CONTENT_TYPE, "application/json"));
        let optional = [
            (header::LOCATION, self.location),
            (header::ETAG, self.etag),
            (header::RETRY_AFTER, self.retry_after.map(|seconds| seconds.to_string())),
            (header::CACHE_CONTROL, self.no_store.then(|| "no-store".to_owned())),
            (header::HeaderName::from_static("preference-applied"), self.preference_applied),
            (header::HeaderName::from_static("idempotent-replayed"), self.replayed.then(|| "true".to_owned())),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                response.insert_header((name, value));
            }
        }
        response.body(self.body.into_bytes())
    }

    /// Returns the 304 response for a client whose copy has this entity tag. `Retry-After` stays, because the resource is as unfinished as before.
    fn not_modified(&self, etag: &str) -> HttpResponse {
        let mut response = HttpResponse::NotModified();
        response.insert_header((header::ETAG, etag));
        if let Some(seconds) = self.retry_after {
            response.insert_header((header::RETRY_AFTER, seconds.to_string()));
        }
        response.finish()
    }
}

impl Responder for ApiResponse {
    type Body = BoxBody;

    fn respond_to(self, request: &HttpRequest) -> HttpResponse {
        match &self.etag {
            Some(etag) if self.status == 200 && IfNoneMatch::of(request).matches(etag) => self.not_modified(etag),
            _ => self.into_response(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ApiResponse, etag_of};

    #[test]
    fn a_saved_answer_comes_back_marked() {
        let answer = ApiResponse::resource(201, &["a"]).at("https://yard.test/x".to_owned());
        let replayed = ApiResponse::decode(&answer.encode()).unwrap();
        assert!(replayed.replayed);
        assert_eq!(ApiResponse { replayed: false, ..replayed }, answer);
        assert_eq!(ApiResponse::decode(b"{}"), None);
    }

    #[test]
    fn the_tag_of_a_resource_is_that_of_its_json() {
        let answer = ApiResponse::resource(200, &["a"]);
        assert_eq!(answer.etag, Some(etag_of(&["a"])));
        assert_ne!(answer.etag, Some(etag_of(&["b"])));
        assert_eq!(answer.body, r#"{"data":["a"]}"#);
    }
}
