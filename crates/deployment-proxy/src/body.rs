//! The body of a request on its way from the client to the instance.

use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use actix_web::HttpRequest;
use actix_web::http::header;
use actix_web::web::{Bytes, Payload};
use branchyard_http_common::{BodyClock, BodyTimeouts};
use http_body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Maximum number of buffered pieces of a request body.
const PIECES: usize = 2;

/// The reason why a body did not arrive completely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    CutShort,
    TooSlow,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CutShort => "the body was cut short",
            Self::TooSlow => "the body came too slowly",
        })
    }
}

impl std::error::Error for Broken {}

/// A body on its way from the client to the instance.
struct PassedBody {
    pieces: mpsc::Receiver<Result<Bytes, Broken>>,
    /// Remaining bytes, if the client declared the length.
    left: Option<u64>,
}

impl Body for PassedBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let piece = std::task::ready!(self.pieces.poll_recv(context));
        if let (Some(left), Some(Ok(piece))) = (&mut self.left, &piece) {
            *left = left.saturating_sub(u64::try_from(piece.len()).unwrap_or(u64::MAX));
        }
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// Returns the body of a request as a stream, and a cell that receives the reason if the body breaks off. Returns
/// `None` if the request has no body.
pub(crate) fn passed_body(
    request: &HttpRequest,
    payload: Payload,
    patience: &BodyTimeouts,
) -> Option<(reqwest::Body, Rc<Cell<Option<Broken>>>)> {
    let declared = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if declared.unwrap_or(0) == 0 && !request.headers().contains_key(header::TRANSFER_ENCODING) {
        return None;
    }
    let (sender, pieces) = mpsc::channel(PIECES);
    let broken: Rc<Cell<Option<Broken>>> = Rc::default();
    actix_web::rt::spawn(pump(payload, sender, BodyClock::streamed(patience), Rc::clone(&broken)));
    Some((reqwest::Body::wrap(PassedBody { pieces, left: declared }), broken))
}

/// Forwards a body until it ends, breaks off, or the instance stops reading.
async fn pump(
    mut payload: Payload,
    pieces: mpsc::Sender<Result<Bytes, Broken>>,
    mut pace: BodyClock,
    broken: Rc<Cell<Option<Broken>>>,
) {
    let why = loop {
        let piece = match pace.next(&mut payload).await {
            Ok(Some(Ok(piece))) => piece,
            Ok(Some(Err(_))) => break Broken::CutShort,
            Ok(None) => return,
            Err(_) => break Broken::TooSlow,
        };
        let handed = Instant::now();
        if pieces.send(Ok(piece)).await.is_err() {
            return;
        }
        pace.exclude(handed.elapsed());
    };
    broken.set(Some(why));
    // Without the error, the instance would take the partial body for the whole.
    let _ = pieces.send(Err(why)).await;
}
