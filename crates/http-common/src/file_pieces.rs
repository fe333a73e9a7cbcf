//! Files as response bodies.

use std::io::Read as _;

use actix_web::web::{Bytes, block};
use branchyard_domain::ports::ReadSeek;
use futures_util::{Stream, stream};

/// Bytes read from a file at a time.
const PIECE: usize = 256 << 10;

/// Returns the content of a file as a stream. Reads run on the blocking pool, not on the server's worker.
pub fn file_pieces(bytes: Box<dyn ReadSeek>) -> impl Stream<Item = std::io::Result<Bytes>> {
    stream::try_unfold(bytes, |mut bytes| async move {
        let read = block(move || {
            let mut piece = Vec::with_capacity(PIECE);
            let limit = u64::try_from(PIECE).unwrap_or(u64::MAX);
            bytes.by_ref().take(limit).read_to_end(&mut piece)?;
            Ok::<_, std::io::Error>((piece, bytes))
        });
        let (piece, bytes) = read.await.map_err(std::io::Error::other)??;
        Ok((!piece.is_empty()).then_some((Bytes::from(piece), bytes)))
    })
}
