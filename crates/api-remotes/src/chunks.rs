//! Chunks: the requests that name them, and the answers that hold them.
//!
//! A request is a list of hashes. The answer has, for each hash in order, the length of the chunk in four bytes, big-endian, and
//! its content; or [`ABSENT`] and nothing. Clients want to know the length of the answer before it begins.

use std::collections::VecDeque;
use std::sync::Arc;

use actix_web::body::SizedStream;
use actix_web::web::Bytes;
use actix_web::{HttpRequest, HttpResponse, web};
use branchyard_domain::access::{DatabaseAccess, Read};
use branchyard_domain::values::ChunkHash;
use branchyard_http_common::{HandlerError, InPieces, RequestContext};
use branchyard_problem_details::{ErrorCode, Problem};
use branchyard_remote_protocol::{Malformed, parse_hashes};
use futures_util::{Stream, stream};
use tokio::sync::OwnedSemaphorePermit;

use crate::answer::BYTES;
use crate::observer::SharedObserver;

/// Length of the chunks that are read at once, in bytes. A chunk with a large value may be longer. Buffers of this size are used
/// again on the way from a worker process, where longer ones go back to the system after each message, which takes half as long
/// again.
const PIECE: usize = 192 << 10;
/// Maximum length of an answer in bytes. Clients accept no longer one.
const MOST_ANSWER: u64 = 1 << 30;
/// Stands for a chunk that is absent, in place of its length.
const ABSENT: u32 = u32::MAX;

/// A chunk of the answer, or `None` if the database does not have it.
type Found = Option<Vec<u8>>;

/// Parses a request.
///
/// # Errors
/// 400 unless the body is a list of 1 to 4,096 hashes.
pub(crate) fn hashes(body: &[u8]) -> Result<Vec<ChunkHash>, HandlerError> {
    let hashes = parse_hashes(body).map_err(malformed)?;
    Ok(hashes.into_iter().map(ChunkHash::from_bytes).collect())
}

/// Returns the error for a body that is not what the protocol demands.
pub(crate) fn malformed(error: Malformed) -> HandlerError {
    Problem::new(ErrorCode::ValidationFailed, error.to_string()).into()
}

/// Answers a request for chunks. They are kept in memory while there is room. Those for which there is none are read twice: for
/// their length, and to send them.
pub(crate) async fn answer(
    request: &HttpRequest,
    call: RequestContext,
    access: DatabaseAccess<Read>,
    hashes: Vec<ChunkHash>,
) -> Result<HttpResponse, HandlerError> {
    let source = Source { call, access };
    let (mut kept, mut has_room, mut read, mut length) = (VecDeque::new(), true, 0, 0);
    while read < hashes.len() {
        let chunks = source.read(&hashes, read).await?;
        length = lengthened(length, &chunks)?;
        if has_room {
            let piece = Piece::encode(&chunks, &source.call);
            // Every answer may keep its first piece.
            has_room = read == 0 || piece.room.is_some();
            kept.extend(has_room.then_some(piece));
        }
        read += chunks.len();
    }
    if let Some(observer) = request.app_data::<web::Data<SharedObserver>>() {
        observer.sent(length);
    }
    let body = SizedStream::new(length, pieces(source, hashes, kept));
    let mut response = HttpResponse::Ok().content_type(BYTES).body(body);
    response.extensions_mut().insert(InPieces);
    Ok(response)
}

/// Encoded chunks.
struct Piece {
    /// Number of the chunks.
    chunks: usize,
    bytes: Bytes,
    /// The room that they take in memory. `None` if there was none.
    room: Option<OwnedSemaphorePermit>,
}

impl Piece {
    fn encode(chunks: &[Found], call: &RequestContext) -> Self {
        let bytes = Bytes::from(encode(chunks));
        let kib = u32::try_from(bytes.len() >> 10).unwrap_or(u32::MAX);
        let room = Arc::clone(&call.state.remote_kib).try_acquire_many_owned(kib).ok();
        Self { chunks: chunks.len(), bytes, room }
    }
}

/// Where the chunks of an answer come from.
struct Source {
    call: RequestContext,
    access: DatabaseAccess<Read>,
}

impl Source {
    /// Returns the chunks from `start` on, as many as make a piece and at least one.
    async fn read(&self, hashes: &[ChunkHash], start: usize) -> Result<Vec<Found>, HandlerError> {
        let (access, wanted) = (self.access.clone(), hashes.get(start..).unwrap_or_default().to_vec());
        self.call.run(&self.call.state.remotes, move |hub| hub.remotes().chunks(&access, &wanted, PIECE)).await
    }
}

/// Returns an answer in pieces, of which the first ones are kept. The others are read again.
fn pieces(
    source: Source,
    hashes: Vec<ChunkHash>,
    kept: VecDeque<Piece>,
) -> impl Stream<Item = Result<Bytes, HandlerError>> {
    stream::try_unfold((source, hashes, 0, kept), |(source, hashes, sent, mut kept)| async move {
        if sent == hashes.len() {
            return Ok(None);
        }
        let (chunks, bytes) = match kept.pop_front() {
            // Its room is free as soon as it is on its way.
            Some(Piece { chunks, bytes, .. }) => (chunks, bytes),
            None => {
                let chunks = source.read(&hashes, sent).await?;
                (chunks.len(), Bytes::from(encode(&chunks)))
            }
        };
        Ok(Some((bytes, (source, hashes, sent + chunks, kept))))
    })
}

/// Returns the length of an answer with further chunks.
///
/// # Errors
/// 413 if it is too long.
fn lengthened(length: u64, chunks: &[Found]) -> Result<u64, HandlerError> {
    let of_chunk = |chunk: &Found| 4 + chunk.as_ref().map_or(0, |bytes| bytes.len() as u64);
    let length = length + chunks.iter().map(of_chunk).sum::<u64>();
    if length > MOST_ANSWER {
        let detail = "these chunks are longer than 1 GiB together; ask for fewer at a time";
        return Err(Problem::new(ErrorCode::PayloadTooLarge, detail).into());
    }
    Ok(length)
}

fn encode(chunks: &[Found]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(chunks.iter().map(|chunk| 4 + chunk.as_ref().map_or(0, Vec::len)).sum());
    for chunk in chunks {
        // No chunk is as long as four gigabytes: a value of a table has a limit.
        let length = chunk.as_ref().map_or(ABSENT, |bytes| u32::try_from(bytes.len()).unwrap_or(ABSENT));
        encoded.extend(length.to_be_bytes());
        encoded.extend(chunk.as_deref().unwrap_or_default());
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_follow_their_length_and_absent_ones_have_none() {
        let encoded = encode(&[Some(b"abc".to_vec()), None, Some(Vec::new())]);
        assert_eq!(encoded, [&[0, 0, 0, 3][..], b"abc", &[0xff; 4], &[0; 4]].concat());
    }

    #[test]
    fn an_answer_has_at_most_a_gibibyte() {
        let chunks = [Some(vec![0; 92]), None];
        assert_eq!(lengthened(MOST_ANSWER - 100, &chunks).unwrap(), MOST_ANSWER);
        let HandlerError::Problem(problem) = lengthened(MOST_ANSWER - 99, &chunks).unwrap_err() else { unreachable!() };
        assert_eq!(problem.status(), 413);
    }
}
