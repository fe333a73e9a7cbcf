//! A body that is kept until it has arrived at the node that needs it: in memory if it is short, else in a file without a name.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::dev::Payload;
use actix_web::error::PayloadError;
use actix_web::web::Bytes;
use branchyard_http_common::file_pieces;
use futures_util::{StreamExt as _, TryStreamExt as _};
use http_body::{Body, Frame, SizeHint};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use crate::statement::BodyHash;

/// Length of a body that is kept in memory, in bytes.
const IN_MEMORY: usize = 256 << 10;
/// Bytes that are read at a time.
const PIECE: usize = 256 << 10;
/// Number of pieces that are read ahead.
const PIECES: usize = 2;

/// A body that was received.
pub(crate) struct SpooledBody {
    content: Content,
    length: u64,
    hash: BodyHash,
}

enum Content {
    Memory(Bytes),
    File(File),
}

/// Why a body could not be kept.
#[derive(Debug)]
pub(crate) enum SpoolError {
    /// It is longer than is accepted.
    TooLong,
    /// It broke off.
    CutShort,
    /// It could not be written.
    Storage(io::Error),
}

impl SpooledBody {
    /// Returns a body that is in memory.
    pub(crate) fn of(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self { length: bytes.len() as u64, hash: Sha256::digest(&bytes).into(), content: Content::Memory(bytes) }
    }

    /// Reads a body of at most `most` bytes. What does not fit into memory goes to a file in `folder`.
    pub(crate) fn read(mut from: impl Read, most: u64, folder: &Path) -> Result<Self, SpoolError> {
        let (mut hasher, mut length, mut memory, mut file) = (Sha256::new(), 0, Vec::new(), None);
        let mut piece = vec![0; PIECE];
        loop {
            let read = from.read(&mut piece).map_err(|_| SpoolError::CutShort)?;
            let bytes = piece.get(..read).unwrap_or_default();
            if bytes.is_empty() {
                break;
            }
            length += bytes.len() as u64;
            if length > most {
                return Err(SpoolError::TooLong);
            }
            hasher.update(bytes);
            if file.is_none() && memory.len() + bytes.len() > IN_MEMORY {
                let mut made = tempfile::tempfile_in(folder).map_err(SpoolError::Storage)?;
                made.write_all(&std::mem::take(&mut memory)).map_err(SpoolError::Storage)?;
                file = Some(made);
            }
            match &mut file {
                Some(file) => file.write_all(bytes).map_err(SpoolError::Storage)?,
                None => memory.extend_from_slice(bytes),
            }
        }
        let content = file.map_or_else(|| Content::Memory(memory.into()), Content::File);
        Ok(Self { content, length, hash: hasher.finalize().into() })
    }

    pub(crate) fn hash(&self) -> BodyHash {
        self.hash
    }

    /// Returns the file from its start. The positions of all handles of a file are one.
    fn rewound(file: &File) -> io::Result<File> {
        let mut file = file.try_clone()?;
        file.seek(SeekFrom::Start(0))?;
        Ok(file)
    }

    /// Returns the body of a request to another node. A former one must have ended.
    pub(crate) fn to_send(&self) -> io::Result<reqwest::Body> {
        let file = match &self.content {
            Content::Memory(bytes) => return Ok(bytes.clone().into()),
            Content::File(file) => Self::rewound(file)?,
        };
        let (sender, pieces) = mpsc::channel(PIECES);
        tokio::task::spawn_blocking(move || send_pieces(file, &sender));
        Ok(reqwest::Body::wrap(SentBody { pieces, left: self.length }))
    }

    /// Returns the body as if it came from the client.
    pub(crate) fn into_payload(self) -> io::Result<Payload> {
        Ok(match self.content {
            Content::Memory(bytes) => Payload::from(futures_util::stream::iter([Ok(bytes)]).boxed_local()),
            Content::File(file) => {
                let file = Box::new(Self::rewound(&file)?);
                Payload::from(file_pieces(file).map_err(PayloadError::Io).boxed_local())
            }
        })
    }
}

fn send_pieces(mut file: File, to: &mpsc::Sender<io::Result<Bytes>>) {
    loop {
        let mut piece = Vec::with_capacity(PIECE);
        let read = Read::by_ref(&mut file).take(PIECE as u64).read_to_end(&mut piece);
        let is_end = matches!(read, Ok(0));
        // An error ends the request: the receiver must not take a part for the whole.
        if is_end || to.blocking_send(read.map(|_| piece.into())).is_err() {
            return;
        }
    }
}

/// The body of a request to another node.
struct SentBody {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    left: u64,
}

impl Body for SentBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let piece = std::task::ready!(self.pieces.poll_recv(context));
        if let Some(Ok(piece)) = &piece {
            self.left = self.left.saturating_sub(piece.len() as u64);
        }
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn content(body: SpooledBody) -> Vec<u8> {
        let pieces: Vec<Bytes> = body.into_payload().unwrap().try_collect().await.unwrap();
        pieces.concat()
    }

    #[actix_web::test]
    async fn short_bodies_stay_in_memory_and_long_ones_go_to_a_file() {
        let folder = tempfile::tempdir().unwrap();
        for (length, is_in_memory) in [(0, true), (IN_MEMORY, true), (IN_MEMORY + 1, false), (3 * PIECE + 5, false)] {
            let sent: Vec<u8> = (0..length).map(|number| u8::try_from(number % 251).unwrap()).collect();
            let body = SpooledBody::read(sent.as_slice(), length as u64, folder.path()).unwrap();
            assert_eq!(matches!(body.content, Content::Memory(_)), is_in_memory, "{length}");
            assert_eq!((body.length, body.hash), (length as u64, Sha256::digest(&sent).into()));
            assert!(content(body).await == sent, "{length}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the file has no name");
    }

    #[test]
    fn a_body_has_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let read = |most| SpooledBody::read([7; 100].as_slice(), most, folder.path());
        assert_eq!(read(100).unwrap().length, 100);
        assert!(matches!(read(99), Err(SpoolError::TooLong)));
    }
}
