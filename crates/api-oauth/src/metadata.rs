//! `GET /.well-known/oauth-authorization-server` (RFC 8414)

use actix_web::{HttpResponse, web};
use branchyard_domain::values::Scope;
use branchyard_http_common::AppState;
use serde_json::json;

/// Describes the server to clients that look for it.
pub(crate) async fn show(state: web::Data<AppState>) -> HttpResponse {
    let issuer = &state.config.public_url;
    HttpResponse::Ok().json(json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/oauth/authorize"),
        "token_endpoint": format!("{issuer}/api/oauth/access_token"),
        "device_authorization_endpoint": format!("{issuer}/api/oauth/device_authorization"),
        "revocation_endpoint": format!("{issuer}/api/oauth/revoke"),
        "scopes_supported": Scope::ALL.map(Scope::as_str),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported":
            ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
    }))
}
