use actix_web::web::Data;
use branchyard_http_common::{Answer, Call, Served};

use super::Outcome;
use crate::Settings;

/// `GET /openapi.json`: like every endpoint of this API it wants a credential.
pub(crate) async fn get_openapi_document(call: Call, settings: Data<Settings>) -> Outcome {
    static SERVED: Served = Served::new();
    call.signed_in()?;
    let (etag, text) = SERVED.get(&settings.base_url, crate::openapi::document);
    Ok(Answer::with_body(200, text).tagged(Some(etag)))
}
