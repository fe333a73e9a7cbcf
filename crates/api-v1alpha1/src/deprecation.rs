//! Headers of every response of this version: the date of deprecation, the sunset date, and the successor in v2 (v1alpha1 §1.1).
//! Responses to polls and to requests with a credential are not cached.

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use actix_web::middleware::Next;
use actix_web::{Error, web};
use branchyard_http_common::AppState;
use chrono::DateTime;

use crate::settings::LegacySettings;
use crate::successor;

/// Adds the headers of this version. Middleware for its scopes.
///
/// # Errors
/// Returns only the errors of the inner service.
pub(crate) async fn deprecation(
    request: ServiceRequest,
    next: Next<impl MessageBody>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let settings = LegacySettings::of(request.request());
    let has_credential = request.headers().contains_key(header::AUTHORIZATION);
    let mut response = next.call(request).await?;
    let asked = response.request();
    let origin = asked.app_data::<web::Data<AppState>>().map(|state| state.config.public_url.clone());
    let successor = origin.and_then(|origin| successor::of(asked, &origin));
    let is_poll = successor::is_poll(asked);
    let headers = response.headers_mut();
    if has_credential || is_poll {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    add(headers, "deprecation", format!("@{}", settings.deprecated_at));
    if let Some(date) = settings.sunset_at.and_then(http_date) {
        add(headers, "sunset", date);
    }
    if let Some(url) = successor {
        add(headers, "link", format!("<{url}>; rel=\"successor-version\""));
    }
    if let Some(url) = &settings.deprecation_url {
        add(headers, "link", format!("<{url}>; rel=\"deprecation\"; type=\"text/html\""));
    }
    Ok(response)
}

fn add(headers: &mut HeaderMap, name: &'static str, value: String) {
    if let Ok(value) = HeaderValue::from_str(&value) {
        headers.append(HeaderName::from_static(name), value);
    }
}

/// Formats a time as an HTTP date (RFC 9110 §5.6.7); `None` if it is out of range.
fn http_date(seconds: i64) -> Option<String> {
    Some(DateTime::from_timestamp(seconds, 0)?.format("%a, %d %b %Y %H:%M:%S GMT").to_string())
}

#[cfg(test)]
mod tests {
    #[test]
    fn dates() {
        assert_eq!(super::http_date(1_798_761_600).as_deref(), Some("Fri, 01 Jan 2027 00:00:00 GMT"));
    }
}
