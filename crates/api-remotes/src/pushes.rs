//! Pushes: which chunks need no upload, the upload of the others, and the change of a ref.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use actix_web::{HttpRequest, HttpResponse, web};
use branchyard_domain::access::{DatabaseAccess, Write};
use branchyard_domain::entities::{PushTarget, RefKind, Tagger};
use branchyard_domain::errors::{PortError, RemoteError};
use branchyard_domain::usecases::{PushStep, RefChange};
use branchyard_domain::values::{ChunkHash, LongText, OperationId, RefName, Timestamp};
use branchyard_http_common::{HandlerError, Pumped, RequestContext, UploadReader, upload_channel};
use branchyard_problem_details::{ErrorCode, Problem};
use branchyard_remote_protocol::{HASH_BYTES, NO_HASH, RefUpdate, Scope, TagEntry};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::answer::{BYTES, OwnRefusal, Refusal};
use crate::chunks::malformed;
use crate::observer::SharedObserver;
use crate::refs;

/// Length of the body in which clients send chunks, in bytes. It is longer if a single chunk is.
pub(crate) const BATCH: usize = 32 << 20;
/// Length of the chunks for which memory is reserved before they arrive, in bytes. Nearly all are shorter.
const RESERVED: usize = 16 << 10;
/// Length of what comes before the content of a chunk, in bytes.
pub(crate) const RECORD_HEAD: usize = HASH_BYTES + 4;
/// Time after which the state of a push is looked up, although nothing was heard of it: another server may run it.
const LOOK: Duration = Duration::from_secs(1);

/// Runs a use case. An error for which the protocol has a code of its own becomes that, any other one what it is for all adapters.
fn own<T>(result: Result<T, RemoteError>) -> Result<Result<T, OwnRefusal>, RemoteError> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(error) => OwnRefusal::of(error).map(Err),
    }
}

/// Returns the answer to a request for what need not be uploaded: a byte for each chunk.
pub(crate) async fn has(
    call: &RequestContext,
    access: DatabaseAccess<Write>,
    hashes: Vec<ChunkHash>,
) -> Result<HttpResponse, Refusal> {
    let has = call.run(&call.state.remotes, move |hub| hub.pushes().has(&access, &hashes)).await?;
    let bytes: Vec<u8> = has.into_iter().map(u8::from).collect();
    Ok(HttpResponse::Ok().content_type(BYTES).body(bytes))
}

/// Receives uploaded chunks.
pub(crate) async fn upload(
    request: &HttpRequest,
    call: &RequestContext,
    access: DatabaseAccess<Write>,
    body: web::Payload,
) -> Result<HttpResponse, Refusal> {
    let longest = call.state.config.remotes.max_chunk_bytes;
    let (body, reader) = upload_channel(body);
    let mut records = Records::new(reader, longest);
    let observer = request.app_data::<web::Data<SharedObserver>>().map(|observer| Arc::clone(observer.get_ref()));
    // A change that is refused must not leave the client with an unread body, so the reader is dropped only after it.
    let kept = call.spawn(&call.state.uploads, move |hub| -> Result<_, RemoteError> {
        if hub.is_storage_low() || hub.is_read_only() {
            records.discard();
            return Err(if hub.is_read_only() { PortError::ReadOnly } else { PortError::StorageLow }.into());
        }
        let uploaded = hub.pushes().upload(&access, &mut || records.next());
        if let Some(observer) = &observer {
            observer.received(records.read as u64);
        }
        if uploaded.is_err() {
            records.discard();
        }
        match (uploaded, records.refused) {
            // Whatever the store makes of it, the body is the reason.
            (Err(RemoteError::Port(PortError::Blobs(_))), Some(refused)) => Ok(Err(refused)),
            (uploaded, _) => uploaded.map(|()| Ok(())),
        }
    });
    let pumped = body.pump(&call.state.config.patience).await;
    let kept = kept.await.unwrap_or_else(|_| Err(Problem::internal().into()));
    if pumped == Pumped::TooSlow {
        let detail = "the body came too slowly";
        return Err(HandlerError::from(Problem::new(ErrorCode::ValidationFailed, detail)).into());
    }
    match kept? {
        Ok(()) => Ok(HttpResponse::NoContent().finish()),
        Err(refused) => Err(HandlerError::from(refused).into()),
    }
}

/// The chunks of a body that is being received.
struct Records {
    reader: UploadReader,
    /// Maximum length of a chunk.
    longest: usize,
    /// Number of bytes that were read.
    read: usize,
    /// Number of chunks that were read.
    count: usize,
    /// Why the body is refused.
    refused: Option<Problem>,
}

impl Records {
    fn new(reader: UploadReader, longest: usize) -> Self {
        Self { reader, longest, read: 0, count: 0, refused: None }
    }

    /// Returns the next chunk.
    fn next(&mut self) -> io::Result<Option<(ChunkHash, Vec<u8>)>> {
        let mut head = [0; RECORD_HEAD];
        let begun = self.reader.read(&mut head)?;
        if begun == 0 {
            return Ok(None);
        }
        self.fill(&mut head, begun)?;
        let ([hash @ .., _, _, _, _], [.., a, b, c, d]) = (head, head);
        let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        if length > self.longest {
            let detail = format!(
                "a chunk can have at most {} bytes, the limit of this server (remotes.max_chunk_bytes)",
                self.longest
            );
            return Err(self.refuse(ErrorCode::PayloadTooLarge, detail));
        }
        self.read += RECORD_HEAD + length;
        self.count += 1;
        if self.read > BATCH && self.count > 1 {
            let detail = format!("the body can have at most {BATCH} bytes, or one chunk");
            return Err(self.refuse(ErrorCode::PayloadTooLarge, detail));
        }
        // Grows as bytes arrive: the length is only announced.
        let mut content = Vec::with_capacity(length.min(RESERVED));
        let taken = self.reader.by_ref().take(length as u64).read_to_end(&mut content);
        match taken {
            Ok(taken) if taken == length => Ok(Some((ChunkHash::from_bytes(hash), content))),
            Ok(_) => Err(self.cut_off()),
            Err(error) => Err(error),
        }
    }

    /// Fills the rest of the head of a chunk.
    fn fill(&mut self, head: &mut [u8; RECORD_HEAD], mut filled: usize) -> io::Result<()> {
        while let Some(rest) = head.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.reader.read(rest)? {
                0 => return Err(self.cut_off()),
                more => filled += more,
            }
        }
        Ok(())
    }

    fn cut_off(&mut self) -> io::Error {
        self.refuse(ErrorCode::ValidationFailed, "the last chunk is cut off".to_owned())
    }

    fn refuse(&mut self, code: ErrorCode, detail: String) -> io::Error {
        self.refused = Some(Problem::new(code, detail));
        io::ErrorKind::InvalidData.into()
    }

    /// Reads what is left of the body: the client reads no answer before it has sent all.
    fn discard(&mut self) {
        let most = self.longest as u64 + (1 << 20);
        drop(io::copy(&mut self.reader.by_ref().take(most), &mut io::sink()));
    }
}

/// Changes a ref, and waits until it is changed.
pub(crate) async fn change(
    call: &RequestContext,
    access: DatabaseAccess<Write>,
    body: &[u8],
) -> Result<HttpResponse, Refusal> {
    let update = RefUpdate::parse(body).map_err(malformed)?;
    let change = change_of(&update)?;
    let expected = update.expected;
    let step = call
        .write(move |hub| {
            let is_seen =
                |present: Option<&_>| expected == present.map_or(NO_HASH, |present| refs::shown(present).hash());
            own(hub.pushes().change(&access, &change, ChunkHash::from_bytes(expected), &is_seen))
        })
        .await??;
    match step {
        PushStep::Done => Ok(HttpResponse::NoContent().finish()),
        PushStep::Begun(id) => settled(call, id).await,
    }
}

/// Waits until a push has settled.
async fn settled(call: &RequestContext, id: OperationId) -> Result<HttpResponse, Refusal> {
    let leaving = Leaving { call, id: Some(id) };
    let until = Instant::now() + call.state.config.remotes.hold;
    loop {
        let (notify, notified) = oneshot::channel();
        let watch = call.state.services.operations().watch(id, move |_| {
            // Fails if the waiting request was dropped.
            let _ = notify.send(());
        });
        match call.read(move |hub| own(hub.pushes().result(id))).await? {
            Ok(false) => {}
            Ok(true) => {
                leaving.answered();
                return Ok(HttpResponse::NoContent().finish());
            }
            Err(refusal) => {
                leaving.answered();
                return Err(refusal.into());
            }
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || call.state.draining.load(Ordering::Relaxed) {
            return Err(
                OwnRefusal::busy("the push takes a while; it goes on, and the next push of the same joins it").into()
            );
        }
        // A time-out only means another look.
        drop(timeout(left.min(LOOK), notified).await);
        drop(watch);
    }
}

/// Notes that the caller of a push got no answer, unless it did.
struct Leaving<'a> {
    call: &'a RequestContext,
    id: Option<OperationId>,
}

impl Leaving<'_> {
    fn answered(mut self) {
        self.id = None;
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.call.state.services.pushes().leave(id);
        }
    }
}

/// Maximum length of the name and the email address of a tagger, in bytes.
const MOST_TAGGER: usize = 1_000;
/// The seconds of the years 1 to 9999.
const DATES: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// Checks what a client says about a tag.
fn check_texts(entry: &TagEntry) -> Result<(), Problem> {
    let refuse = |detail: String| Err(Problem::new(ErrorCode::ValidationFailed, detail));
    if entry.message.chars().count() > LongText::MAX {
        return refuse(format!("the message of a tag can have at most {} characters", LongText::MAX));
    }
    if entry.tagger.len() > MOST_TAGGER || entry.email.len() > MOST_TAGGER {
        return refuse(format!("the name and the email address of a tagger can have at most {MOST_TAGGER} bytes"));
    }
    if !DATES.contains(&entry.seconds) {
        return refuse("the date of a tag must be in the years 1 to 9999".to_owned());
    }
    let has_nul = [&entry.message, &entry.tagger, &entry.email].iter().any(|text| text.contains('\0'));
    if has_nul { refuse("the texts of a tag hold no NUL".to_owned()) } else { Ok(()) }
}

/// Returns the change that a client wants.
fn change_of(update: &RefUpdate<'_>) -> Result<RefChange, HandlerError> {
    let name = |name: &str| {
        let parsed = RefName::parse(name);
        parsed.map_err(|invalid| Problem::new(ErrorCode::ValidationFailed, invalid.to_string()))
    };
    let no_entry = || Problem::new(ErrorCode::ValidationFailed, "the refs have no entry for the scope");
    let commit = |hash: &[u8; HASH_BYTES]| ChunkHash::from_bytes(*hash).as_commit();
    Ok(match update.scope {
        Scope::Branch(text) => {
            let target = PushTarget::Branch { name: name(text)?, is_forced: update.is_forced };
            let entry = update.refs.branch(text).ok_or_else(no_entry)?;
            RefChange::Set { target, commit: commit(&entry.head) }
        }
        Scope::Tag(text) => {
            let name = name(text)?;
            let entry = update.refs.tag(text).ok_or_else(no_entry)?;
            check_texts(entry)?;
            let has_tagger = !entry.tagger.is_empty() || !entry.email.is_empty();
            let target = PushTarget::Tag {
                name,
                message: Some(entry.message.clone()).filter(|message| !message.is_empty()),
                tagger: has_tagger.then(|| Tagger { name: entry.tagger.clone(), email: entry.email.clone() }),
                tagged_at: Timestamp::from_seconds(entry.seconds),
            };
            RefChange::Set { target, commit: commit(&entry.commit) }
        }
        Scope::DeletedBranch(text) => RefChange::Delete { kind: RefKind::Branch, name: name(text)? },
        Scope::DeletedTag(text) => RefChange::Delete { kind: RefKind::Tag, name: name(text)? },
    })
}
