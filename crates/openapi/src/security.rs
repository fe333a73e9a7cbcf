//! The security schemes of a document.

use serde_json::{Value, json};

/// The scope of access tokens that read.
pub(crate) const READ_SCOPE: &str = "api_read";

/// The scope of access tokens that read and write.
pub(crate) const WRITE_SCOPE: &str = "api_read_write";

/// Returns the schemes of a server at `public_url`: API tokens, and the access tokens of OAuth with the endpoints that issue them.
pub fn security_schemes(public_url: &str) -> Value {
    let origin = public_url.trim_end_matches('/');
    json!({
        "bearer": {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "hsat.v1",
            "description": "An API token.",
        },
        "oauth2": {
            "type": "oauth2",
            "description": "An access token of an application that a user authorized. All clients are public and use PKCE with S256 \
                            (RFC 7636). The device grant (RFC 8628) is at /api/oauth/device_authorization, the metadata of the server \
                            (RFC 8414) at /.well-known/oauth-authorization-server.",
            "flows": {"authorizationCode": {
                "authorizationUrl": format!("{origin}/oauth/authorize"),
                "tokenUrl": format!("{origin}/api/oauth/access_token"),
                "refreshUrl": format!("{origin}/api/oauth/access_token"),
                "scopes": {
                    READ_SCOPE: "Read all that the user may read, and change nothing.",
                    WRITE_SCOPE: "All that the user may do with the API.",
                },
            }},
        },
    })
}
