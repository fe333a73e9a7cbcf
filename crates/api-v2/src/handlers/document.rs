use std::sync::OnceLock;

use branchyard_api_common::{Answer, Call, etag_of};

use super::Outcome;

/// `GET /openapi.json`
pub(crate) async fn get_openapi_document(call: Call) -> Outcome {
    // The public address does not change while a server runs; those of a test may, so it is kept with the document.
    static MADE: OnceLock<(String, String, String)> = OnceLock::new();
    let url = &call.state.config.public_url;
    let make = || {
        let text = crate::openapi::document(url).to_string();
        (url.clone(), etag_of(&text), text)
    };
    let made = MADE.get_or_init(make);
    let (_, etag, text) = if made.0 == *url { made.clone() } else { make() };
    Ok(Answer::with_body(200, text).tagged(Some(etag)))
}
