//! The first page, and the one for addresses that lead nowhere.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use branchyard_api_common::AppState;

use super::layout::{escape, html, page};

/// `GET /`
pub(super) async fn index(state: web::Data<AppState>) -> HttpResponse {
    let origin = escape(&state.config.public_url);
    let body = format!(
        "<main><h1>Branchyard</h1>\
         <p>Versioned SQL databases: fork and branch them, open and merge pull requests, tag and release them, import files, and run SQL at any \
         branch, tag or commit.</p>\
         <ul><li><a href=\"/docs/api/v2\">API v2</a>: every request, with examples</li>\
         <li><a href=\"/docs/api/v1alpha1\">API v1alpha1</a>: deprecated, for clients that exist</li>\
         <li><a href=\"/docs/errors\">Errors</a>: what each code means, and what to do</li></ul>\
         <h2>First requests</h2>\
         <p>The databases everybody may see:</p><pre><code>curl '{origin}/api/v2/databases'</code></pre>\
         <p>Who you are, with the token that <code>branchyard token create</code> printed:</p>\
         <pre><code>curl '{origin}/api/v2/user' -H \"Authorization: Bearer $TOKEN\"</code></pre></main>"
    );
    html(page("Start", &body))
}

/// Any other address.
pub(super) async fn nowhere() -> HttpResponse {
    let body = "<main><h1>Nothing is here</h1><p>The address leads nowhere. <a href=\"/\">Start page</a></p></main>";
    let mut response = html(page("Nothing is here", body));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}
