//! A response body that is compressed while it is sent.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::web::Bytes;

use super::encoder::Encoder;

/// Maximum number of bytes compressed per poll, so that a long body does not block the server's worker.
const AT_A_TIME: usize = 64 << 10;

type BodyError = Box<dyn std::error::Error>;

/// Compresses each piece of a body as it arrives and flushes at once, so that rows keep flowing.
pub(super) struct EncodedBody {
    source: Option<BoxBody>,
    rest: Bytes,
    encoder: Option<Encoder>,
    failed: Option<io::Error>,
}

impl EncodedBody {
    pub(super) fn new(source: BoxBody, encoder: Encoder) -> Self {
        Self { source: Some(source), rest: Bytes::new(), encoder: Some(encoder), failed: None }
    }

    /// Creates a body that fails with this error on its first poll.
    pub(super) fn failed(error: io::Error) -> Self {
        Self { source: None, rest: Bytes::new(), encoder: None, failed: Some(error) }
    }

    /// Compresses the next part of the pending bytes.
    fn code(&mut self) -> io::Result<Bytes> {
        let piece = self.rest.split_to(self.rest.len().min(AT_A_TIME));
        let Some(encoder) = &mut self.encoder else { return Ok(piece) };
        encoder.write(&piece)?;
        Ok(Bytes::from(encoder.flush()?))
    }
}

impl MessageBody for EncodedBody {
    type Error = BodyError;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        let this = self.get_mut();
        if let Some(error) = this.failed.take() {
            return Poll::Ready(Some(Err(error.into())));
        }
        loop {
            if !this.rest.is_empty() {
                return Poll::Ready(Some(this.code().map_err(Into::into)));
            }
            let Some(source) = &mut this.source else {
                let last = this.encoder.take().map(Encoder::finish);
                return Poll::Ready(last.map(|last| last.map(Bytes::from).map_err(Into::into)));
            };
            match ready!(Pin::new(source).poll_next(cx)) {
                Some(Ok(bytes)) => this.rest = bytes,
                Some(Err(error)) => {
                    this.source = None;
                    this.encoder = None;
                    return Poll::Ready(Some(Err(error)));
                }
                None => this.source = None,
            }
        }
    }
}
