//! The log of an instance: files limited in line length, size, number and age. Anything that resembles a token is
//! masked.
//!
//! Readers refer to a line by the number of its file and an offset. No rotation crate keeps both: `file-rotate` and
//! `rolling-file` rename the current file once it is full, and `tracing-appender` does not limit the size of a file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use branchyard_auth::{TOKEN_LENGTH, TOKEN_PREFIX};
use branchyard_domain::ports::Clock;
use branchyard_domain::values::Timestamp;
use chrono::DateTime;
use parking_lot::Mutex;

/// Size in bytes at which a file is full.
pub(crate) const FULL: u64 = 10 << 20;
/// Number of files kept.
pub(crate) const KEPT: usize = 5;
/// Maximum length of a line in bytes.
pub(crate) const LONGEST: usize = 8 << 10;
const OLDEST: Duration = Duration::from_secs(14 * 24 * 3600);

/// Returns the name of a log file.
pub(crate) fn file_name(segment: u64) -> String {
    format!("{segment:010}.log")
}

/// Returns the numbers of the log files, oldest first.
fn segments(folder: &Path) -> io::Result<Vec<u64>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found: Vec<u64> = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        found.extend(
            name.to_str().and_then(|name| name.strip_suffix(".log")).and_then(|number| number.parse::<u64>().ok()),
        );
    }
    found.sort_unstable();
    Ok(found)
}

/// Formats a time as it appears at the beginning of a line.
pub(crate) fn time_text(at: Timestamp) -> String {
    let at = DateTime::from_timestamp_micros(at.as_micros()).unwrap_or_default();
    at.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// Returns a line of the log: the time, and a text without line breaks, tokens masked, cut to the maximum length.
pub(crate) fn line_of(at: Timestamp, text: &str) -> String {
    let mut line = mask(text.trim()).replace(['\n', '\r'], " ");
    let mut end = line.len().min(LONGEST);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    line.truncate(end);
    format!("{} {line}\n", time_text(at))
}

/// Replaces the secret part of each token by `…`.
pub(crate) fn mask(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(TOKEN_PREFIX) {
        let (before, token) = rest.split_at(at + TOKEN_PREFIX.len());
        out.push_str(before);
        out.push('…');
        let most = TOKEN_LENGTH - TOKEN_PREFIX.len();
        let digits = token.bytes().take(most).take_while(u8::is_ascii_alphanumeric).count();
        rest = &token[digits..];
    }
    out.push_str(rest);
    out
}

struct Current {
    file: File,
    segment: u64,
    bytes: u64,
}

/// The writer of the log.
pub(crate) struct ChildLog {
    folder: PathBuf,
    clock: Arc<dyn Clock>,
    full: u64,
    current: Mutex<Option<Current>>,
}

impl ChildLog {
    /// Opens the log at its newest file, or creates the first file.
    pub(crate) fn open(folder: PathBuf, clock: Arc<dyn Clock>) -> io::Result<Self> {
        Self::open_with(folder, clock, FULL)
    }

    fn open_with(folder: PathBuf, clock: Arc<dyn Clock>, full: u64) -> io::Result<Self> {
        let newest = segments(&folder)?.last().copied().unwrap_or(1);
        let log = Self { folder, clock, full, current: Mutex::default() };
        let current = log.open_segment(newest)?;
        *log.current.lock() = Some(current);
        log.forget_old()?;
        Ok(log)
    }

    fn open_segment(&self, segment: u64) -> io::Result<Current> {
        let path = self.folder.join(file_name(segment));
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).mode(0o600).open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Current { file, segment, bytes })
    }

    fn forget_old(&self) -> io::Result<()> {
        let segments = segments(&self.folder)?;
        let surplus = segments.len().saturating_sub(KEPT);
        let newest = segments.last().copied();
        let oldest = self.clock.now().as_micros().saturating_sub(i64::try_from(OLDEST.as_micros()).unwrap_or(i64::MAX));
        for (at, segment) in segments.into_iter().enumerate() {
            let path = self.folder.join(file_name(segment));
            let written = fs::metadata(&path).and_then(|found| found.modified());
            let since = written.ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
            let is_old = since.is_some_and(|since| i64::try_from(since.as_micros()).unwrap_or(i64::MAX) < oldest);
            if at < surplus || (is_old && Some(segment) != newest) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// Appends a line.
    pub(crate) fn line(&self, text: &str) {
        let line = line_of(self.clock.now(), text);
        let mut current = self.current.lock();
        let Some(open) = current.as_mut() else { return };
        // A log that cannot be written has nowhere to report the error.
        if open.file.write_all(line.as_bytes()).is_ok() {
            let more = u64::try_from(line.len()).unwrap_or(0);
            // The server appends lines to the same file.
            open.bytes = open.file.stream_position().unwrap_or(open.bytes + more);
        }
        if open.bytes >= self.full
            && let Ok(next) = self.open_segment(open.segment + 1)
        {
            *current = Some(next);
            drop(current);
            let _ = self.forget_old();
        }
    }
}

/// The minimum severity that is written: 1 error, 2 warn, 3 info, 4 debug.
#[derive(Debug)]
pub(crate) struct LogLevel(AtomicU8);

impl Default for LogLevel {
    fn default() -> Self {
        Self(AtomicU8::new(3))
    }
}

impl LogLevel {
    pub(crate) fn set(&self, word: &str) {
        let level = match word {
            "error" => 1,
            "warn" => 2,
            "debug" => 4,
            _ => 3,
        };
        self.0.store(level, Ordering::Relaxed);
    }

    pub(crate) fn lets_through(&self, level: tracing::Level) -> bool {
        let rank = match level {
            tracing::Level::ERROR => 1,
            tracing::Level::WARN => 2,
            tracing::Level::INFO => 3,
            _ => 4,
        };
        rank <= self.0.load(Ordering::Relaxed)
    }
}

/// Collects the text of one event.
pub(crate) struct LineWriter {
    log: Arc<ChildLog>,
    bytes: Vec<u8>,
}

impl LineWriter {
    pub(crate) fn new(log: Arc<ChildLog>) -> Self {
        Self { log, bytes: Vec::new() }
    }
}

impl Write for LineWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for LineWriter {
    fn drop(&mut self) {
        if !self.bytes.is_empty() {
            self.log.line(&String::from_utf8_lossy(&self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use branchyard_domain_testing::fakes::FixedClock;

    use super::*;

    #[test]
    fn tokens_are_masked_wherever_they_stand() {
        let token = format!("hsat.v1.{}3mhf8X", "A".repeat(43));
        assert_eq!(mask(&format!("a {token}, {token}b")), "a hsat.v1.…, hsat.v1.…b");
        assert_eq!(mask("hsat.v1.short end"), "hsat.v1.… end");
        assert_eq!(mask("nothing é"), "nothing é");
    }

    #[test]
    fn files_are_rotated_and_few_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(FixedClock::default());
        let full = 100_000;
        let log = ChildLog::open_with(folder.path().to_owned(), clock.clone(), full).unwrap();
        let long = "x".repeat(LONGEST + 100);
        for _ in 0..(7 * full / u64::try_from(LONGEST).unwrap()) {
            log.line(&long);
        }
        let kept = segments(folder.path()).unwrap();
        assert_eq!(kept.len(), KEPT);
        let first = fs::read_to_string(folder.path().join(file_name(kept[0]))).unwrap();
        let line = first.lines().next().unwrap();
        assert_eq!(line.len(), time_text(clock.now()).len() + 1 + LONGEST);
        drop(log);
        let log = ChildLog::open(folder.path().to_owned(), clock).unwrap();
        log.line("two\nlines");
        let newest = *segments(folder.path()).unwrap().last().unwrap();
        assert_eq!(newest, *kept.last().unwrap());
        let text = fs::read_to_string(folder.path().join(file_name(newest))).unwrap();
        assert!(text.ends_with(" two lines\n"), "{:?}", &text[text.len().saturating_sub(60)..]);
    }
}
