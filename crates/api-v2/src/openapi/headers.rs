//! Headers of responses.

use serde_json::{Value, json};

use branchyard_openapi::reference;

/// Headers of every response.
const ALWAYS: &[&str] = &["X-Request-Id", "Cache-Control", "Vary", "RateLimit", "RateLimit-Policy"];

/// Returns the headers of a response: those of every response and those in `own`.
pub(super) fn of(own: &[&str]) -> Value {
    let mut headers = json!({});
    for name in ALWAYS.iter().chain(own) {
        let shown = name.trim_end_matches('!').trim_end_matches('?');
        headers[shown] = reference("headers", &component(name));
    }
    headers
}

/// Returns the component of a header. A name that ends in `!` is a required header.
fn component(name: &str) -> String {
    match name.strip_suffix('!') {
        Some(name) => format!("Required-{name}"),
        None => name.to_owned(),
    }
}

pub(super) fn components() -> Value {
    let text = |description: &str| json!({"description": description, "schema": {"type": "string"}});
    let always = |mut header: Value| {
        header["required"] = true.into();
        header
    };
    let seconds = json!({"description": "Whole seconds to wait before the next attempt.", "schema": {"type": "integer", "minimum": 0}});
    let etag = json!({
        "description": "Strong entity tag; changes whenever the JSON for this caller changes. Send it as `If-None-Match` or `If-Match`.",
        "schema": {"type": "string", "pattern": "^\"[^\"]+\"$"},
    });
    let applied = json!({
        "description": "The preference that shaped the answer, with the seconds as counted: `wait=20`.",
        "schema": {"type": "string", "pattern": "^wait=[0-9]+$"},
    });
    let location =
        json!({"description": "Absolute URL of the created resource.", "schema": {"type": "string", "format": "uri"}});
    json!({
        "X-Request-Id": always(json!({
            "description": "The id from the request if it matches `[A-Za-z0-9._:-]{1,128}`; otherwise a new one.",
            "schema": {"type": "string", "minLength": 1, "maxLength": 128},
        })),
        "Cache-Control": always(json!({
            "description": "`no-store` for answers with secrets; otherwise `private, no-cache` with a credential and `public, no-cache` without one.",
            "schema": {"type": "string", "enum": ["no-store", "private, no-cache", "public, no-cache"]},
        })),
        "Vary": always(text("The request headers that the answer depends on.")),
        "RateLimit": text("Requests left and seconds until the reset, if rate limits are enabled: `\"user\";r=4999;t=3600`."),
        "RateLimit-Policy": text("Quota and window in seconds, if rate limits are enabled: `\"user\";q=5000;w=3600`."),
        "ETag": etag.clone(),
        "Required-ETag": always(etag),
        "Location": location.clone(),
        "Required-Location": always(location),
        "Retry-After": seconds.clone(),
        "Required-Retry-After": always(seconds),
        "Required-Content-Disposition": always(text("The name of the file: `attachment; filename=\"people.csv\"`.")),
        "Accept-Ranges": text("`bytes` if parts of the file can be requested by `Range`."),
        "Required-Content-Range": always(text("The part of the file, or `bytes */<length>` if the range is beyond its end.")),
        "WWW-Authenticate": text("The scope that the request needs, if that of the access token is too narrow."),
        "Required-WWW-Authenticate": always(text("How to authenticate, and what was wrong with the credential.")),
        "Required-Allow": always(text("The methods of the route.")),
        "Preference-Applied": applied.clone(),
        "Required-Preference-Applied": always(applied),
        "Idempotent-Replayed": json!({
            "description": "This is the saved answer of the idempotency key.",
            "schema": {"type": "string", "const": "true"},
        }),
    })
}
