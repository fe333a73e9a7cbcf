//! The endpoints of OAuth that applications call: tokens (RFC 6749 §3.2), devices (RFC 8628 §3.1), revocation (RFC 7009) and metadata
//! (RFC 8414). What users see, the consent pages, is in the crate of the pages.
//!
//! Requests are forms, answers JSON without an envelope, and errors have the codes of these standards. All applications are public
//! clients: they send their client identifier and no secret.
//!
//! [`OAuthEndpoints::configure`] mounts the endpoints. It requires `web::Data<branchyard_http_common::AppState>` in the application's
//! data.

mod form;
mod metadata;
mod oauth_error;
mod revocation;
mod tokens;

use std::sync::Arc;

use actix_web::http::header;
use actix_web::middleware::from_fn;
use actix_web::{HttpResponse, web};
use branchyard_http_common::{AddressLimit, FailedAttempts, RequestPolicy, Route, layer};

/// Maximum number of devices of one address (IPv6: of its /64) that begin to wait in [`DEVICE_WINDOW_SECONDS`].
const DEVICES_PER_ADDRESS: u32 = 30;

const DEVICE_WINDOW_SECONDS: i64 = 600;

/// The endpoints, with what they count. Cheap to clone. A process needs one, shared by all workers.
#[derive(Clone)]
pub struct OAuthEndpoints(Arc<Counters>);

/// What limits the clients of the endpoints.
struct Counters {
    failures: FailedAttempts,
    devices: AddressLimit,
}

impl Default for OAuthEndpoints {
    fn default() -> Self {
        let devices = AddressLimit::new(DEVICES_PER_ADDRESS, DEVICE_WINDOW_SECONDS);
        Self(Arc::new(Counters { failures: FailedAttempts::default(), devices }))
    }
}

impl OAuthEndpoints {
    /// Mounts the endpoints. They have to come before services that accept every path.
    pub fn configure(&self, config: &mut web::ServiceConfig) {
        let scope = web::scope("/api/oauth")
            .app_data(web::Data::from(Arc::clone(&self.0)))
            // Valid codes and tokens pass whatever others send from the same address; the endpoints count what fails.
            .app_data(RequestPolicy { is_counted: false, ..RequestPolicy::default() })
            .service(Route::at("/access_token").post(tokens::issue).into_resource())
            .service(Route::at("/device_authorization").post(tokens::begin_device).into_resource())
            .service(Route::at("/revoke").post(revocation::revoke).into_resource());
        config.service(scope.wrap(from_fn(layer)));
        let well_known = web::scope("/.well-known/oauth-authorization-server")
            .service(Route::at("").get(metadata::show).into_resource());
        config.service(well_known.wrap(from_fn(layer)));
    }
}

/// Begins a successful answer, which no cache may keep (RFC 6749 §5.1).
fn not_stored() -> actix_web::HttpResponseBuilder {
    let mut response = HttpResponse::Ok();
    response.insert_header((header::CACHE_CONTROL, "no-store")).insert_header((header::PRAGMA, "no-cache"));
    response
}
