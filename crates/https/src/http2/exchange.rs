//! A request on its stream, from its head to the end of its response.

use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use actix_http::Response;
use actix_http::body::{BodySize, BoxBody, MessageBody as _};
use actix_web::http::StatusCode;
use actix_web::http::header::{CONNECTION, CONTENT_LENGTH, DATE, HeaderName, SET_COOKIE, TRANSFER_ENCODING, UPGRADE};
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use tokio::time::{Instant, timeout_at};

use super::ConnectionContext;
use super::request::convert;
use crate::machine_time::machine_time;

/// Bytes that the client has to take in the time of [`crate::Limits::write`].
const PIECE: usize = 16 << 10;

/// Answers a request. Ends early if the client resets the stream, which cancels what the application does for it.
pub(super) async fn run(
    request: http::Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    context: ConnectionContext,
) {
    let is_head = request.method() == http::Method::HEAD;
    if !request.body().is_end_stream() && request.headers().get(http::header::EXPECT).is_some_and(is_continue) {
        let mut proceed = http::Response::new(());
        *proceed.status_mut() = http::StatusCode::CONTINUE;
        // Fails if the stream is gone, which is noticed below.
        let _ = respond.send_informational(proceed);
    }
    let response = match convert(request, &context) {
        Ok(request) => tokio::select! {
            response = (context.application)(request) => response,
            _ = poll_fn(|task| respond.poll_reset(task)) => return,
        },
        Err(status) => Response::new(status).map_into_boxed_body(),
    };
    send(response, respond, is_head, context.limits.write).await;
}

fn is_continue(value: &http::HeaderValue) -> bool {
    value.as_bytes().eq_ignore_ascii_case(b"100-continue")
}

/// Sends a response. A stream whose client takes nothing for `stall` is reset.
async fn send(response: Response<BoxBody>, mut respond: SendResponse<Bytes>, is_head: bool, stall: Duration) {
    let (response, body) = response.into_parts();
    let size = match response.status() {
        StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED => BodySize::None,
        _ => body.size(),
    };
    let Some(head) = head(&response, size) else {
        respond.send_reset(Reason::INTERNAL_ERROR);
        return;
    };
    let is_empty = is_head || matches!(size, BodySize::None | BodySize::Sized(0));
    // Fails if the client has gone.
    let Ok(mut stream) = respond.send_response(head, is_empty) else { return };
    if is_empty {
        return;
    }
    let mut body = pin!(body);
    loop {
        let piece = tokio::select! {
            piece = poll_fn(|task| body.as_mut().poll_next(task)) => piece,
            _ = poll_fn(|task| stream.poll_reset(task)) => return,
        };
        match piece {
            Some(Ok(piece)) => {
                if !send_piece(&mut stream, piece, stall).await {
                    return;
                }
            }
            // HTTP/1.1 shows the same by closing the connection before the end.
            Some(Err(_)) => return stream.send_reset(Reason::INTERNAL_ERROR),
            None => {
                let _ = stream.send_data(Bytes::new(), true);
                return;
            }
        }
    }
}

/// Sends a part of a body. Returns `false` if the stream has ended.
async fn send_piece(stream: &mut SendStream<Bytes>, mut bytes: Bytes, stall: Duration) -> bool {
    while !bytes.is_empty() {
        let mut piece = bytes.split_to(bytes.len().min(PIECE));
        // Counted by piece, so that a client cannot hold a stream by a window of one byte at a time.
        let until = Instant::now() + stall;
        while !piece.is_empty() {
            stream.reserve_capacity(piece.len());
            match timeout_at(until, poll_fn(|task| stream.poll_capacity(task))).await {
                Ok(Some(Ok(room))) => {
                    if stream.send_data(piece.split_to(piece.len().min(room)), false).is_err() {
                        return false;
                    }
                }
                Ok(Some(Err(_)) | None) => return false,
                Err(_) => {
                    stream.send_reset(Reason::CANCEL);
                    return false;
                }
            }
        }
    }
    true
}

/// Returns the head of a response: without headers about the connection, with the length of its body and the date.
fn head(response: &Response<()>, size: BodySize) -> Option<http::Response<()>> {
    let mut head = http::Response::new(());
    *head.status_mut() = http::StatusCode::from_u16(response.status().as_u16()).ok()?;
    let has_own_length = size == BodySize::Stream || response.status() == StatusCode::NOT_MODIFIED;
    let headers = head.headers_mut();
    for (name, value) in response.headers() {
        if is_about_connection(name) || (*name == CONTENT_LENGTH && !has_own_length) {
            continue;
        }
        let mut value_sent = http::HeaderValue::from_bytes(value.as_bytes()).ok()?;
        // Keeps secrets out of the table by which later heads are compressed.
        value_sent.set_sensitive(*name == SET_COOKIE);
        headers.append(http::HeaderName::from_bytes(name.as_str().as_bytes()).ok()?, value_sent);
    }
    if let BodySize::Sized(length) = size {
        headers.insert(http::header::CONTENT_LENGTH, http::HeaderValue::from(length));
    }
    if !response.headers().contains_key(DATE) {
        let date = httpdate::fmt_http_date(machine_time());
        headers.insert(http::header::DATE, http::HeaderValue::from_str(&date).ok()?);
    }
    Some(head)
}

/// Returns `true` for headers that HTTP/2 does not allow (RFC 9113, section 8.2.2).
fn is_about_connection(name: &HeaderName) -> bool {
    [CONNECTION, TRANSFER_ENCODING, UPGRADE].contains(name)
        || ["keep-alive", "proxy-connection"].contains(&name.as_str())
}
