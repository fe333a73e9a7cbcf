//! Chunks of a response, one after another, while they arrive.

use branchyard_remote_protocol::{Hash, hash_of, hex};
use reqwest::Response;
use tokio::time::{Instant, timeout_at};

use crate::client::IDLE;
use crate::error::RemoteError;
use crate::io::Io;

/// What is allocated for a chunk before any of it has arrived, in bytes.
const ALLOCATED: usize = 64 << 10;
/// In place of a length: there is no such chunk.
const ABSENT: u32 = u32::MAX;

/// The body of a response.
pub(crate) struct Body<'a> {
    io: &'a Io,
    response: Response,
    /// What has arrived and was not read yet.
    arrived: Vec<u8>,
    at: usize,
    deadline: Instant,
}

impl<'a> Body<'a> {
    pub(crate) fn new(io: &'a Io, response: Response, deadline: Instant) -> Self {
        Self { io, response, arrived: Vec::new(), at: 0, deadline }
    }

    /// Waits for more. Returns `false` at the end.
    fn arrive(&mut self) -> Result<bool, RemoteError> {
        let until = self.deadline.min(Instant::now() + IDLE);
        let piece = self.io.wait(|| timeout_at(until, self.response.chunk())).ok_or(RemoteError::Aborted)?;
        let piece = piece.map_err(|_| RemoteError::Silent(IDLE.as_secs()))?;
        let piece = piece.map_err(|_| RemoteError::Connection("the connection to the remote was lost"))?;
        let Some(piece) = piece else { return Ok(false) };
        self.arrived.drain(..self.at);
        self.at = 0;
        self.arrived.extend_from_slice(&piece);
        Ok(true)
    }

    fn take(&mut self, length: usize) -> Result<Vec<u8>, RemoteError> {
        let mut taken = Vec::with_capacity(length.min(ALLOCATED));
        while taken.len() < length {
            let rest = self.arrived.get(self.at..).unwrap_or_default();
            let part = rest.get(..length - taken.len()).unwrap_or(rest);
            taken.extend_from_slice(part);
            self.at += part.len();
            if taken.len() < length && !self.arrive()? {
                return Err(RemoteError::Connection("the remote sent less than it was asked for"));
            }
        }
        Ok(taken)
    }

    /// Returns the chunk that was asked for by `hash` and is the next one in the response.
    pub(crate) fn chunk(&mut self, hash: Hash, at_most: usize) -> Result<Vec<u8>, RemoteError> {
        let malformed = |reason: String| Err(RemoteError::Malformed(reason));
        // Lengths are big-endian in this message alone.
        let length = self.take(4)?.try_into().map(u32::from_be_bytes).unwrap_or(ABSENT);
        if length == ABSENT {
            return malformed(format!(
                "it does not have chunk {}, which one of its branches or tags needs",
                hex(&hash)
            ));
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > at_most {
            return malformed(format!("a chunk of {length} bytes; {at_most} are allowed (remotes.max_chunk_bytes)"));
        }
        let chunk = self.take(length)?;
        if hash_of(&chunk) != hash {
            return malformed(format!("chunk {} has another content", hex(&hash)));
        }
        Ok(chunk)
    }

    /// Returns the whole body.
    pub(crate) fn whole(&mut self, at_most: usize) -> Result<Vec<u8>, RemoteError> {
        while self.arrived.len() <= at_most {
            if !self.arrive()? {
                return Ok(std::mem::take(&mut self.arrived));
            }
        }
        Err(RemoteError::Malformed(format!("a response of more than {at_most} bytes")))
    }
}
