//! Requests to a remote.

use std::sync::Arc;
use std::time::Duration;

use branchyard_auth::RemoteKeyPair;
use branchyard_domain::ports::Clock;
use branchyard_egress::Cause;
use branchyard_remote_protocol::{Credential, Hash, Refs, encode_hashes};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use reqwest::{Method, Response};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::body::Body;
use crate::error::RemoteError;
use crate::io::Io;
use crate::url::RemoteUrl;
use crate::walk::{Place, Walk};

/// Time without a byte after which a response counts as broken.
pub(crate) const IDLE: Duration = Duration::from_secs(30);
/// Number of times that a request is repeated if its connection was lost or the server is busy.
const REPEATED: u32 = 4;
/// Wait before the first repetition. Each later one is twice as long.
const PAUSE: Duration = Duration::from_millis(250);
/// What is read of a refusal, in bytes.
const REFUSAL: usize = 4_096;
/// What is kept of its message, in characters.
const MESSAGE: usize = 200;

/// Limits of what a remote may send.
#[derive(Debug, Clone, Copy)]
pub struct RemoteLimits {
    /// Maximum length of a chunk, in bytes.
    pub chunk_bytes: usize,
    /// Maximum length of the branches and tags, in bytes.
    pub refs_bytes: usize,
    /// Time for everything.
    pub time: Duration,
}

/// How far a fetch has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Number of chunks that have arrived.
    pub chunks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Number of chunks that are known to be needed and have not arrived.
    pub waiting: u64,
}

/// What there is of a chunk already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    /// Nothing.
    Absent,
    /// Its content. What is below it is asked about next.
    Alone(Vec<u8>),
    /// All, with everything below it.
    Whole,
}

/// Returns what there is of each chunk.
pub type Held<'a> = dyn FnMut(&[Hash]) -> Result<Vec<Presence>, RemoteError> + 'a;

/// Returns the next chunk of a response, or `None` at its end.
pub type NextChunk<'a> = dyn FnMut() -> Result<Option<(Hash, Vec<u8>)>, RemoteError> + 'a;

/// A database of a server.
pub struct Remote<'a> {
    io: &'a Io,
    url: RemoteUrl,
    key: Option<Arc<RemoteKeyPair>>,
    clock: Arc<dyn Clock>,
    is_signed: bool,
    limits: RemoteLimits,
    deadline: Instant,
}

impl<'a> Remote<'a> {
    /// Returns the remote with this address. Requests are signed with `key` if the server answers no others, and only over TLS.
    pub fn new(
        io: &'a Io,
        url: RemoteUrl,
        key: Option<Arc<RemoteKeyPair>>,
        clock: Arc<dyn Clock>,
        limits: RemoteLimits,
    ) -> Self {
        let deadline = Instant::now() + limits.time;
        Self { io, key: key.filter(|_| url.is_secure()), clock, url, is_signed: false, limits, deadline }
    }

    /// Reads the branches and tags.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn refs(&mut self) -> Result<Refs, RemoteError> {
        let mut answer = self.read_refs();
        let may_be_hidden = matches!(answer, Err(RemoteError::Refused { status: 401 | 403 | 404, .. }));
        if may_be_hidden && self.key.is_some() {
            self.is_signed = true;
            answer = self.read_refs();
        }
        Ok(Refs::parse(&answer?)?)
    }

    fn read_refs(&self) -> Result<Vec<u8>, RemoteError> {
        self.repeated(|| self.send(Method::GET, "refs", Vec::new())?.whole(self.limits.refs_bytes))
    }

    /// Reads everything below commits that is lacking. `held` returns what there is of each of the chunks. `take` gets the chunks of each response; it has to ask for all of them.
    ///
    /// # Errors
    /// [`RemoteError`]. What `take` got before is sound.
    pub fn fetch(
        &self,
        tips: &[Hash],
        held: &mut Held<'_>,
        take: &mut dyn FnMut(&mut NextChunk<'_>, Progress) -> Result<(), RemoteError>,
    ) -> Result<Progress, RemoteError> {
        let (mut walk, mut progress) = (Walk::from(tips), Progress::default());
        loop {
            let next = walk.next();
            if next.is_empty() {
                return Ok(progress);
            }
            let hashes: Vec<Hash> = next.iter().map(|(hash, _)| *hash).collect();
            let mut lacking = Vec::new();
            for ((hash, place), presence) in next.into_iter().zip(held(&hashes)?) {
                match presence {
                    Presence::Absent => lacking.push((hash, place)),
                    Presence::Alone(content) => walk.follow(&content, place)?,
                    Presence::Whole => {}
                }
            }
            if lacking.is_empty() {
                continue;
            }
            progress.waiting = (walk.waiting() + lacking.len()) as u64;
            let before = progress;
            let mut chunks = Chunks { remote: self, lacking: &lacking, body: None };
            let mut next = || {
                let Some((hash, place, chunk)) = chunks.next()? else { return Ok(None) };
                walk.follow(&chunk, place)?;
                progress.chunks += 1;
                progress.bytes += chunk.len() as u64;
                Ok(Some((hash, chunk)))
            };
            take(&mut next, before)?;
        }
    }

    /// Makes a request, again if it may succeed then.
    fn repeated<T>(&self, mut request: impl FnMut() -> Result<T, RemoteError>) -> Result<T, RemoteError> {
        let mut pause = PAUSE;
        for _ in 0..REPEATED {
            match request() {
                Err(error) if error.may_pass() => {}
                other => return other,
            }
            self.io.wait(|| tokio::time::sleep(pause)).ok_or(RemoteError::Aborted)?;
            pause *= 2;
        }
        request()
    }

    fn send(&self, method: Method, endpoint: &str, body: Vec<u8>) -> Result<Body<'a>, RemoteError> {
        let mut request = self.io.client(self.url.is_secure()).request(method, self.url.endpoint(endpoint));
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/octet-stream").body(body);
        }
        if let Some(key) = self.key.as_ref().filter(|_| self.is_signed) {
            let credential = Credential::sign(key, self.url.host(), self.clock.now().as_seconds());
            request = request.header(AUTHORIZATION, format!("Bearer {credential}"));
        }
        let now = Instant::now();
        if now >= self.deadline {
            return Err(RemoteError::TooSlow(self.limits.time.as_secs()));
        }
        let until = self.deadline.min(now + IDLE);
        let response = self.io.wait(|| timeout_at(until, request.send())).ok_or(RemoteError::Aborted)?;
        let response = response.map_err(|_| RemoteError::Silent(IDLE.as_secs()))?;
        let response = response.map_err(|error| RemoteError::Connection(reason(Cause::of(&error))))?;
        let status = response.status().as_u16();
        let body = |response: Response| Body::new(self.io, response, self.deadline);
        match status {
            200 => Ok(body(response)),
            300..=399 => {
                let message = "it redirects, which is not followed; use the address that it redirects to".to_owned();
                Err(RemoteError::Refused { status, message })
            }
            _ => {
                let sent = body(response).whole(REFUSAL).unwrap_or_default();
                Err(RemoteError::Refused { status, message: message_of(&sent) })
            }
        }
    }
}

/// The chunks of one request, which is made again for the rest of them if its connection was lost.
struct Chunks<'r, 'a> {
    remote: &'r Remote<'a>,
    lacking: &'r [(Hash, Place)],
    body: Option<Body<'a>>,
}

impl Chunks<'_, '_> {
    fn next(&mut self) -> Result<Option<(Hash, Place, Vec<u8>)>, RemoteError> {
        let Some(((hash, place), rest)) = self.lacking.split_first() else { return Ok(None) };
        let (remote, lacking) = (self.remote, self.lacking);
        let chunk = remote.repeated(|| {
            let body = match self.body.take() {
                Some(body) => body,
                None => {
                    let hashes: Vec<Hash> = lacking.iter().map(|(hash, _)| *hash).collect();
                    remote.send(Method::POST, "get-chunks", encode_hashes(&hashes))?
                }
            };
            self.body.insert(body).chunk(*hash, remote.limits.chunk_bytes).inspect_err(|_| self.body = None)
        })?;
        self.lacking = rest;
        Ok(Some((*hash, *place, chunk)))
    }
}

const fn reason(cause: Cause) -> &'static str {
    match cause {
        Cause::Blocked => "the remote is in a network that this server may not reach (remotes.allowed_cidrs)",
        Cause::Timeout => "the remote did not answer in time",
        Cause::Dns => "the name of the remote does not resolve",
        Cause::Tls => "there is no trusted TLS connection to the remote",
        Cause::Refused => "the remote refuses connections",
        Cause::Connection => "the connection to the remote was lost",
    }
}

/// Returns the message of a refusal, for people who did not write it.
fn message_of(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let object: Option<Value> = serde_json::from_str(&text).ok();
    let message = object.as_ref().and_then(|object| object.get("message")?.as_str()).unwrap_or("no explanation");
    message.chars().filter(|c| !c.is_control()).take(MESSAGE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_refusals_are_plain_texts() {
        for (body, expected) in [
            (r#"{"code":"not_found","message":"no such database"}"#, "no such database".to_owned()),
            (r#"{"message":"a\u001b[31m\nb"}"#, "a[31mb".to_owned()),
            ("<html>", "no explanation".to_owned()),
            (&*format!(r#"{{"message":"{}"}}"#, "é".repeat(300)), "é".repeat(200)),
        ] {
            assert_eq!(message_of(body.as_bytes()), expected);
        }
    }
}
