//! Bodies of requests, bounded.

use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::dev::Payload;
use actix_web::http::header;
use actix_web::web::{Bytes, BytesMut};
use branchyard_problem_details::{ErrorCode, Problem};
use futures_util::StreamExt as _;

use crate::failure::Failure;
use crate::manners::BodyTypes;

/// Reads a body of at most `limit` bytes that is JSON by its type, or empty. It has to be there within `patience`.
pub(crate) async fn read_json(
    request: &HttpRequest,
    payload: Payload,
    types: BodyTypes,
    limit: usize,
    patience: Duration,
) -> Result<Bytes, Failure> {
    match tokio::time::timeout(patience, read(request, payload, types, limit)).await {
        Ok(read) => read,
        Err(_) => {
            let detail = format!("the body did not arrive within {} seconds", patience.as_secs_f32());
            Err(Problem::new(ErrorCode::ValidationFailed, detail).into())
        }
    }
}

async fn read(request: &HttpRequest, mut payload: Payload, types: BodyTypes, limit: usize) -> Result<Bytes, Failure> {
    let too_large = || Problem::new(ErrorCode::PayloadTooLarge, format!("the body is larger than {limit} bytes"));
    if declared(request).is_some_and(|length| length > limit as u64) {
        return Err(too_large().into());
    }
    let mut body = BytesMut::new();
    while let Some(chunk) = payload.next().await {
        let chunk =
            chunk.map_err(|_| Problem::new(ErrorCode::ValidationFailed, "the body could not be read to its end"))?;
        if body.len() + chunk.len() > limit {
            return Err(too_large().into());
        }
        body.extend_from_slice(&chunk);
    }
    if !body.is_empty() && !types.take(content_type(request)) {
        return Err(Problem::new(ErrorCode::UnsupportedMediaType, "the body must be sent as application/json").into());
    }
    Ok(body.freeze())
}

/// The length a request declares.
pub(crate) fn declared(request: &HttpRequest) -> Option<u64> {
    request.headers().get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn content_type(request: &HttpRequest) -> &str {
    request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use actix_web::dev::Payload;
    use actix_web::error::PayloadError;
    use actix_web::test::TestRequest;
    use actix_web::web::Bytes;
    use futures_util::StreamExt as _;
    use futures_util::stream;

    use super::read_json;
    use crate::manners::BodyTypes;

    /// Brings a byte every few milliseconds.
    fn slow(bytes: usize) -> Payload {
        let slowed = stream::iter(0..bytes).then(|_| async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok::<_, PayloadError>(Bytes::from_static(b" "))
        });
        Payload::from(slowed.boxed_local())
    }

    #[actix_web::test]
    async fn a_body_that_comes_a_byte_at_a_time_has_to_be_there_in_time() {
        let request = TestRequest::default().insert_header(("content-type", "application/json")).to_http_request();
        let read = |bytes, patience| read_json(&request, slow(bytes), BodyTypes::Json, 10_000, patience);
        assert_eq!(read(3, Duration::from_secs(60)).await.ok().map(|body| body.len()), Some(3));
        assert!(read(10_000, Duration::from_millis(50)).await.is_err());
    }
}
