//! Streams that tell open pages when to look again (server-sent events).
//!
//! An event has no data: the page is then requested as always, so that what a viewer may see is decided in one place. A stream is a
//! future that waits; it holds no thread and no connection to a store. One thread calls [`LiveStreams::check`] for all streams together,
//! which compares marks of what they follow, and of what the rights of their viewers follow from. A stream whose rights may have changed
//! ends, and its page has to ask again.

mod body;
mod keys;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use branchyard_domain::errors::PortError;
use branchyard_domain::values::Timestamp;
use branchyard_executor::CallerKey;
use parking_lot::Mutex;
use tokio::sync::watch;

pub use self::keys::{LiveKey, LiveSubject};
use self::keys::{Marks, digest};
use crate::services::Services;

/// Maximum number of streams of one user, or of one address without a session.
pub const LIVE_STREAMS_PER_CALLER: usize = 20;
/// How long a stream lasts at most. Its page then opens another one.
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// How long streams go on while the store does not say whether their viewers still have their rights.
const LONGEST_UNCHECKED: Duration = Duration::from_secs(5);

/// Why a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiveEnd {
    /// The session ended, or the rights of the viewer changed.
    Rights,
    /// The server stops, or cannot check rights.
    Server,
    /// The stream was as long as streams last.
    Age,
}

impl LiveEnd {
    /// Returns the word that the stream's last event has as its data.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Rights => "rights",
            Self::Server => "server",
            Self::Age => "age",
        }
    }
}

/// What happens on a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiveEvent {
    /// What the page shows has changed, or may have changed before the stream began.
    Changed,
    /// The stream ends.
    Ended(LiveEnd),
}

/// The open streams of a server. Cheap to clone.
#[derive(Clone)]
pub struct LiveStreams(Arc<Shared>);

struct Shared {
    /// Maximum number of streams.
    most: usize,
    open: Mutex<OpenStreams>,
    /// What the last check found. Locked during a check, so that there is one at a time.
    checked: Mutex<LastCheck>,
}

#[derive(Default)]
struct OpenStreams {
    next: u64,
    streams: HashMap<u64, OpenStream>,
    of_callers: HashMap<CallerKey, usize>,
    refused: u64,
}

struct OpenStream {
    subject: LiveSubject,
    ends_at: Instant,
    /// The digest of what the viewer's rights follow from.
    rights: u64,
    /// The digest of what the page shows, once it was read.
    content: Option<u64>,
    /// Counts the changes; `Err` once the stream ended.
    state: watch::Sender<Result<u64, LiveEnd>>,
}

impl OpenStream {
    fn end(&self, why: LiveEnd) {
        self.state.send_if_modified(|state| {
            let is_open = state.is_ok();
            if is_open {
                *state = Err(why);
            }
            is_open
        });
    }

    fn is_open(&self) -> bool {
        self.state.borrow().is_ok()
    }
}

struct LastCheck {
    /// The version of the store at which the marks were read, if it has versions.
    version: Option<u64>,
    marks: Marks,
    /// When marks were last read, or there was nothing to read.
    at: Instant,
    has_failed: bool,
}

/// The number of streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveLoad {
    /// Open streams.
    pub open: usize,
    /// Streams refused so far because there were too many.
    pub refused: u64,
}

impl LiveStreams {
    /// Creates a registry for at most `most` streams; with 0, none is admitted.
    pub fn new(most: usize) -> Self {
        let checked = LastCheck { version: None, marks: Marks::new(), at: Instant::now(), has_failed: false };
        Self(Arc::new(Shared { most, open: Mutex::default(), checked: Mutex::new(checked) }))
    }

    /// Returns the current load.
    pub fn load(&self) -> LiveLoad {
        let open = self.0.open.lock();
        LiveLoad { open: open.streams.len(), refused: open.refused }
    }

    /// Returns what the rights to follow a subject follow from, for [`LiveStreams::open`]. Has to be read before the rights are checked,
    /// so that a loss between the two ends the stream.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn rights(services: &Services, subject: &LiveSubject) -> Result<u64, PortError> {
        let marks = keys::marks(services, &subject.rights.iter().copied().collect())?;
        Ok(digest(&marks, &subject.rights))
    }

    /// Opens a stream. Returns `None` if there are too many, in all or of this caller.
    pub fn open(&self, caller: CallerKey, subject: LiveSubject, rights: u64) -> Option<LiveStream> {
        let mut open = self.0.open.lock();
        let of_caller = open.of_callers.get(&caller).copied().unwrap_or_default();
        if open.streams.len() >= self.0.most || of_caller >= LIVE_STREAMS_PER_CALLER {
            open.refused += 1;
            return None;
        }
        open.of_callers.insert(caller, of_caller + 1);
        let number = open.next;
        open.next += 1;
        let (state, changes) = watch::channel(Ok(0));
        let ends_at = Instant::now() + LONGEST;
        open.streams.insert(number, OpenStream { subject, ends_at, rights, content: None, state });
        Some(LiveStream { streams: self.clone(), number, caller, changes })
    }

    /// Compares what the streams follow with what it was at the last check, and reports changes to them. Ends those whose
    /// viewers may have lost a right, and all if the server stops. Blocks for a look-up, which is one for all streams.
    pub fn check(&self, services: &Services, is_stopping: bool) {
        let mut checked = self.0.checked.lock();
        let (asked, until) = self.end_due(services.now(), is_stopping);
        if asked.is_empty() {
            checked.at = Instant::now();
            checked.marks.clear();
            return;
        }
        match checked.read(services, &asked) {
            Ok(()) => {
                if std::mem::take(&mut checked.has_failed) {
                    tracing::info!("what open pages follow can be read again");
                }
                self.compare(services, &checked.marks, until);
            }
            Err(error) => {
                if !std::mem::replace(&mut checked.has_failed, true) {
                    let error: &(dyn std::error::Error + 'static) = &error;
                    tracing::warn!(error, "cannot read what open pages follow; trying again");
                }
                if checked.at.elapsed() > LONGEST_UNCHECKED {
                    self.0.open.lock().streams.values().for_each(|stream| stream.end(LiveEnd::Server));
                }
            }
        }
    }

    /// Ends the streams whose time is over. Returns the keys of the others, and the number of the stream that comes next.
    fn end_due(&self, now: Timestamp, is_stopping: bool) -> (BTreeSet<LiveKey>, u64) {
        let open = self.0.open.lock();
        let mut asked = BTreeSet::new();
        for stream in open.streams.values().filter(|stream| stream.is_open()) {
            if is_stopping {
                stream.end(LiveEnd::Server);
            } else if stream.subject.until.is_some_and(|until| now >= until) {
                stream.end(LiveEnd::Rights);
            } else if Instant::now() >= stream.ends_at {
                stream.end(LiveEnd::Age);
            } else {
                asked.extend(stream.subject.rights.iter().chain(&stream.subject.content));
            }
        }
        (asked, open.next)
    }

    /// Compares what the streams opened before `until` follow, and reports changes to them.
    fn compare(&self, services: &Services, marks: &Marks, until: u64) {
        let mut open = self.0.open.lock();
        for (number, stream) in &mut open.streams {
            if *number >= until || !stream.is_open() {
                continue;
            }
            if digest(marks, &stream.subject.rights) != stream.rights {
                stream.end(LiveEnd::Rights);
                continue;
            }
            let content = digest(marks, &stream.subject.content) ^ keys::progress(services, &stream.subject.content);
            if stream.content.replace(content) != Some(content) {
                // The first event makes up for what changed after the page was rendered.
                stream.state.send_modify(|state| {
                    if let Ok(changes) = state {
                        *changes += 1;
                    }
                });
            }
        }
    }
}

impl LastCheck {
    /// Reads the marks of these keys, unless they are known and nothing in the store has changed.
    fn read(&mut self, services: &Services, asked: &BTreeSet<LiveKey>) -> Result<(), PortError> {
        // Read first: what changes between the two makes the next check look again.
        let version = services.watches().version();
        let is_known =
            version.is_some() && version == self.version && asked.iter().all(|key| self.marks.contains_key(key));
        if !is_known {
            self.marks = keys::marks(services, asked)?;
            self.version = version;
        }
        self.at = Instant::now();
        Ok(())
    }
}

/// An open stream. It is closed when it is dropped.
pub struct LiveStream {
    streams: LiveStreams,
    number: u64,
    caller: CallerKey,
    changes: watch::Receiver<Result<u64, LiveEnd>>,
}

impl LiveStream {
    /// Waits for the next event. Changes that nothing waited for count as one, so that a slow reader holds up nothing.
    pub async fn next(&mut self) -> LiveEvent {
        // The sender is kept until this value is dropped.
        let _ = self.changes.changed().await;
        match *self.changes.borrow_and_update() {
            Ok(_) => LiveEvent::Changed,
            Err(why) => LiveEvent::Ended(why),
        }
    }
}

impl Drop for LiveStream {
    fn drop(&mut self) {
        let mut open = self.streams.0.open.lock();
        open.streams.remove(&self.number);
        if let Some(count) = open.of_callers.get_mut(&self.caller) {
            *count -= 1;
            if *count == 0 {
                open.of_callers.remove(&self.caller);
            }
        }
    }
}
