//! Streaming of complete lists. These endpoints have no pages (v1alpha1 §4.1), and a list is never in memory as a whole.

use actix_web::HttpResponse;
use actix_web::http::header;
use branchyard_domain::Hub;
use branchyard_domain::ports::CancellationToken;
use branchyard_http_common::{ApiError, Ending, HandlerError, RequestContext, RowOut as _, download_channel, to_json};
use serde::Serialize;

use crate::request::JSON;

/// Number of items fetched at a time.
const FETCHED: usize = 1_000;

/// Responds with `head` and one more member: `key`, an array of all items. `fetch` returns up to the given number of items after an
/// item, or the first ones.
pub(crate) async fn whole<T, W>(
    call: &RequestContext,
    head: &impl Serialize,
    key: &'static str,
    fetch: impl Fn(&Hub, Option<&T>, usize) -> Result<Vec<T>, ApiError> + Send + 'static,
    wire: impl Fn(&T) -> W + Send + 'static,
) -> Result<HttpResponse, HandlerError>
where
    W: Serialize,
{
    let head = to_json(head);
    let canceled = CancellationToken::default();
    let (mut writer, download) = download_channel::<()>(call.state.config.sql.stream_stall, &canceled);
    let running = call.spawn(&call.state.reads, move |hub| -> Result<(), ApiError> {
        let open = head.strip_suffix('}').unwrap_or(&head);
        writer.buffer().extend_from_slice(format!("{open},\"{key}\":[").as_bytes());
        let mut last: Option<T> = None;
        loop {
            let found = fetch(hub, last.as_ref(), FETCHED)?;
            let is_last = found.len() < FETCHED;
            for item in found {
                if last.is_some() {
                    writer.buffer().push(b',');
                }
                // Writing to a vector cannot fail.
                let _ = serde_json::to_writer(writer.buffer(), &wire(&item));
                last = Some(item);
            }
            if is_last {
                writer.buffer().extend_from_slice(b"]}");
                writer.end(Ending::Whole(()));
                return Ok(());
            }
            if !writer.flush_if_due() {
                return Ok(());
            }
        }
    });
    let mut response = HttpResponse::Ok();
    response.insert_header((header::CONTENT_TYPE, JSON));
    download.first().await.respond(&mut response, running).await
}
