//! A stream as the body of a response (WHATWG HTML §9.2, `text/event-stream`).

use std::convert::Infallible;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::header;
use actix_web::web::Bytes;
use futures_util::stream::{self, Stream};

use super::{LiveEvent, LiveStream};

/// Time between two signs of life. Proxies close connections that are silent for long, a minute by default.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The beginning, sent at once, so that the client knows that the stream is open. A client that connects again by itself waits for so many
/// milliseconds.
const BEGINNING: &str = "retry: 10000\n\n";
const SIGN_OF_LIFE: &str = ":\n\n";
/// An event without data would be ignored.
const CHANGED: &str = "event: changed\ndata: changed\n\n";

impl LiveStream {
    /// Returns the response that carries the stream. Caches and proxies pass it on at once.
    pub fn response(self) -> HttpResponse {
        HttpResponse::Ok()
            .content_type("text/event-stream")
            .insert_header((header::CACHE_CONTROL, "no-store"))
            // nginx collects responses otherwise.
            .insert_header((header::HeaderName::from_static("x-accel-buffering"), "no"))
            .streaming(texts(self))
    }
}

enum Place {
    Beginning(LiveStream),
    Open(LiveStream),
    End,
}

fn texts(stream: LiveStream) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold(Place::Beginning(stream), |place| async move {
        let (text, next) = match place {
            Place::Beginning(stream) => (Bytes::from_static(BEGINNING.as_bytes()), Place::Open(stream)),
            Place::Open(mut stream) => match tokio::time::timeout(HEARTBEAT, stream.next()).await {
                Err(_) => (Bytes::from_static(SIGN_OF_LIFE.as_bytes()), Place::Open(stream)),
                Ok(LiveEvent::Changed) => (Bytes::from_static(CHANGED.as_bytes()), Place::Open(stream)),
                Ok(LiveEvent::Ended(why)) => (Bytes::from(format!("event: end\ndata: {}\n\n", why.word())), Place::End),
            },
            Place::End => return None,
        };
        Some((Ok(text), next))
    })
}
