//! Counts the frames of an HTTP/2 connection that cost the server more than their sender.
//!
//! The `h2` crate bounds what such frames occupy in memory, and how many of some kinds may be pending. It does not bound how
//! many come in a time: requests that are opened and reset at once, or pings, settings and window updates without end.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

/// Time in which frames are counted.
const WINDOW: Duration = Duration::from_secs(10);
/// Maximum number of requests that a client resets in [`WINDOW`].
pub(crate) const RESETS: u64 = 200;
/// Maximum number of frames in [`WINDOW`] that are about the connection: settings, pings, priorities and unknown ones.
pub(crate) const CONTROLS: u64 = 1_000;
/// Maximum number of window updates in [`WINDOW`], besides one for each [`BYTES_PER_UPDATE`] sent to the client.
pub(crate) const UPDATES: u64 = 1_000;
/// Libraries that send two window updates for each frame of data stay below this, however short the frames are.
const BYTES_PER_UPDATE: u64 = 32;

/// Length of what a client sends before its first frame.
const PREFACE: usize = 24;
const HEAD: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

/// Counts frames by their heads.
pub(crate) struct FrameMeter {
    head: [u8; HEAD],
    /// Bytes of `head` that have arrived.
    filled: usize,
    /// Bytes before the next head.
    skipped: usize,
    began: Instant,
    resets: u64,
    controls: u64,
    updates: u64,
    sent: u64,
}

impl FrameMeter {
    pub(crate) fn new(now: Instant) -> Self {
        let (resets, controls, updates, sent) = (0, 0, 0, 0);
        Self { head: [0; HEAD], filled: 0, skipped: PREFACE, began: now, resets, controls, updates, sent }
    }

    /// Counts the frames in bytes from the client. Returns `false` if there are too many.
    pub(crate) fn received(&mut self, mut bytes: &[u8], now: Instant) -> bool {
        if now.saturating_duration_since(self.began) >= WINDOW {
            (self.began, self.resets, self.controls, self.updates, self.sent) = (now, 0, 0, 0, 0);
        }
        while !bytes.is_empty() {
            if self.skipped > 0 {
                let skipped = self.skipped.min(bytes.len());
                self.skipped -= skipped;
                bytes = &bytes[skipped..];
                continue;
            }
            let part = (HEAD - self.filled).min(bytes.len());
            self.head[self.filled..self.filled + part].copy_from_slice(&bytes[..part]);
            self.filled += part;
            bytes = &bytes[part..];
            if self.filled == HEAD {
                let [high, middle, low, kind, ..] = self.head;
                self.filled = 0;
                self.skipped = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
                self.count(kind);
            }
        }
        let updates = UPDATES + self.sent / BYTES_PER_UPDATE;
        self.resets <= RESETS && self.controls <= CONTROLS && self.updates <= updates
    }

    /// Counts bytes sent to the client.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.sent = self.sent.saturating_add(bytes as u64);
    }

    fn count(&mut self, kind: u8) {
        match kind {
            // `h2` bounds these: data by flow control, heads by their size.
            DATA | HEADERS | CONTINUATION => {}
            RST_STREAM => self.resets += 1,
            WINDOW_UPDATE => self.updates += 1,
            _ => self.controls += 1,
        }
    }
}

/// A signal that a client has sent too many frames.
#[derive(Default)]
pub(crate) struct Flood {
    is_on: Cell<bool>,
    noticed: Notify,
}

impl Flood {
    /// Waits for the signal.
    pub(crate) async fn noticed(&self) {
        self.noticed.notified().await;
    }

    /// Returns `true` after the signal.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.get()
    }
}

/// A stream whose frames are counted. It reads nothing more after too many.
pub(crate) struct Metered<T> {
    io: T,
    meter: FrameMeter,
    flood: Rc<Flood>,
}

impl<T> Metered<T> {
    pub(crate) fn new(io: T, flood: Rc<Flood>) -> Self {
        Self { io, meter: FrameMeter::new(Instant::now()), flood }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Metered<T> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.flood.is_on.get() {
            // The signal wakes the task, which closes the connection.
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.io).poll_read(context, buffer);
        if matches!(read, Poll::Ready(Ok(()))) && !this.meter.received(&buffer.filled()[before..], Instant::now()) {
            this.flood.is_on.set(true);
            this.flood.noticed.notify_one();
        }
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Metered<T> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.io).poll_write(context, bytes);
        if let Poll::Ready(Ok(count)) = written {
            this.meter.sent(count);
        }
        written
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.io).poll_write_vectored(context, parts);
        if let Poll::Ready(Ok(count)) = written {
            this.meter.sent(count);
        }
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::{CONTROLS, DATA, FrameMeter, HEADERS, PREFACE, RESETS, RST_STREAM, UPDATES, WINDOW, WINDOW_UPDATE};

    const SETTINGS: u8 = 4;
    const PING: u8 = 6;
    const UNKNOWN: u8 = 0xfa;

    fn frame(kind: u8, length: u8) -> Vec<u8> {
        let mut frame = vec![0, 0, length, kind, 0, 0, 0, 0, 1];
        frame.resize(frame.len() + usize::from(length), RST_STREAM);
        frame
    }

    fn begun(now: Instant) -> FrameMeter {
        let mut meter = FrameMeter::new(now);
        assert!(meter.received(&[RST_STREAM; PREFACE], now));
        meter
    }

    #[test]
    fn each_kind_has_its_limit_and_counts_start_anew() {
        let now = Instant::now();
        for (kind, length, most) in [
            (RST_STREAM, 4, RESETS),
            (PING, 8, CONTROLS),
            (SETTINGS, 0, CONTROLS),
            (UNKNOWN, 3, CONTROLS),
            (WINDOW_UPDATE, 4, UPDATES),
        ] {
            let mut meter = begun(now);
            for _ in 0..most {
                assert!(meter.received(&frame(kind, length), now), "{kind} at the limit");
            }
            let mut later = begun(now);
            assert!(later.received(&frame(kind, length).repeat(usize::try_from(most).unwrap()), now));
            assert!(!meter.received(&frame(kind, length), now), "{kind} past the limit");
            assert!(later.received(&frame(kind, length), now + WINDOW), "{kind} in the next window");
        }
    }

    #[test]
    fn data_and_heads_are_not_counted_and_payloads_are_not_frames() {
        let now = Instant::now();
        let mut meter = begun(now);
        for kind in [DATA, HEADERS] {
            assert!(meter.received(&frame(kind, 255).repeat(5_000), now));
        }
    }

    #[test]
    fn frames_are_found_however_the_bytes_are_cut() {
        let now = Instant::now();
        let bytes = [frame(PING, 8), frame(RST_STREAM, 4), frame(DATA, 0), frame(RST_STREAM, 4)].concat();
        for size in 1..bytes.len() {
            let mut meter = begun(now);
            assert!(bytes.chunks(size).all(|part| meter.received(part, now)));
            assert_eq!((meter.controls, meter.resets), (1, 2), "{size}");
        }
    }

    #[test]
    fn what_was_sent_allows_more_window_updates() {
        let now = Instant::now();
        let mut meter = begun(now);
        meter.sent(64);
        let most = usize::try_from(UPDATES).unwrap() + 2;
        assert!(meter.received(&frame(WINDOW_UPDATE, 4).repeat(most), now));
        assert!(!meter.received(&frame(WINDOW_UPDATE, 4), now));
    }
}
