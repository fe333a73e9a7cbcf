//! What all pages share: one style, no script, nothing from elsewhere.

use actix_web::HttpResponse;
use actix_web::http::header;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

const STYLE: &str = include_str!("style.css");

/// A page. The policy allows the one style sheet by its hash, and nothing else.
pub(super) fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{title} · Branchyard</title><style>{STYLE}</style></head>\n\
         <body>{body}</body></html>\n"
    )
}

/// The response for a page, which changes with a new version of the server only.
pub(super) fn html(page: String) -> HttpResponse {
    let hash = STANDARD.encode(Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    HttpResponse::Ok()
        .insert_header((header::CONTENT_SECURITY_POLICY, policy))
        .insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .insert_header((header::REFERRER_POLICY, "no-referrer"))
        .insert_header((header::CACHE_CONTROL, "public, max-age=300"))
        .content_type("text/html; charset=utf-8")
        .body(page)
}

/// Text as HTML.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Prose in which backquotes mark code and an empty line begins a paragraph.
pub(super) fn prose(text: &str) -> String {
    text.split("\n\n").map(|paragraph| format!("<p>{}</p>", inline(paragraph))).collect()
}

/// The same, within a line.
pub(super) fn inline(text: &str) -> String {
    let pieces = text.split('`').enumerate();
    pieces
        .map(|(at, piece)| if at % 2 == 1 { format!("<code>{}</code>", escape(piece)) } else { escape(piece) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{inline, prose};

    #[test]
    fn prose_is_escaped_and_marks_code() {
        assert_eq!(inline("send `a<b>` & go"), "send <code>a&lt;b&gt;</code> &amp; go");
        assert_eq!(prose("a\n\nb"), "<p>a</p><p>b</p>");
    }
}
