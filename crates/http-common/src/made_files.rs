//! Files that are made as a whole before they are sent: their cache, their limits, and parts of them as responses.
//!
//! A file is kept for a while after it was made, so that a download that broke off goes on where it was.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use actix_web::HttpRequest;
use actix_web::http::header;
use actix_web::web::{Bytes, block};
use futures_util::{Stream, stream};
use parking_lot::Mutex;

/// How long a file is kept after its last use, and the most bytes of files that are kept.
const KEPT_FOR: Duration = Duration::from_secs(600);
const KEPT_BYTES: u64 = 4 << 30;
/// Maximum size of a file in bytes.
pub(crate) const FILE_BYTES: u64 = 8 << 30;
/// Maximum number of files that are made at once, and of bytes of files that are kept or being sent. Beyond it, none is begun.
const MADE_AT_ONCE: u64 = 4;
const BYTES_IN_USE: u64 = 16 << 30;
/// Bytes read from a file at a time.
const PIECE: u64 = 256 << 10;

/// A file without a name. Its space is free again once the last user drops it.
#[derive(Debug)]
pub(crate) struct MadeFile {
    file: File,
    pub(crate) length: u64,
    in_use: Arc<AtomicU64>,
}

impl Drop for MadeFile {
    fn drop(&mut self) {
        self.in_use.fetch_sub(self.length, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct KeptFile {
    tag: String,
    file: Arc<MadeFile>,
    used: Instant,
}

/// The files of a server that were made lately.
#[derive(Debug, Default)]
pub struct MadeFiles {
    kept: Mutex<Vec<KeptFile>>,
    in_use: Arc<AtomicU64>,
    making: Arc<AtomicU64>,
}

/// The permission to make a file, until it is dropped.
#[derive(Debug)]
pub(crate) struct MakingPermit(Arc<AtomicU64>);

impl Drop for MakingPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl MadeFiles {
    /// Returns the file with this entity tag.
    pub(crate) fn get(&self, tag: &str) -> Option<Arc<MadeFile>> {
        let mut kept = self.kept.lock();
        expire(&mut kept);
        let found = kept.iter_mut().find(|one| one.tag == tag)?;
        found.used = Instant::now();
        Some(Arc::clone(&found.file))
    }

    /// Returns the permission to make a file. Returns `None` if too many are being made, kept or sent.
    pub(crate) fn begin(&self) -> Option<MakingPermit> {
        if self.in_use.load(Ordering::Relaxed) > BYTES_IN_USE {
            let mut kept = self.kept.lock();
            kept.clear();
            drop(kept);
            if self.in_use.load(Ordering::Relaxed) > BYTES_IN_USE {
                return None;
            }
        }
        let permit = MakingPermit(Arc::clone(&self.making));
        (self.making.fetch_add(1, Ordering::Relaxed) < MADE_AT_ONCE).then_some(permit)
    }

    /// Takes over a file that was made. With an entity tag, the file is kept for other requests.
    pub(crate) fn made(&self, file: File, tag: Option<&str>) -> io::Result<Arc<MadeFile>> {
        let length = file.metadata()?.len();
        self.in_use.fetch_add(length, Ordering::Relaxed);
        let made = Arc::new(MadeFile { file, length, in_use: Arc::clone(&self.in_use) });
        if let Some(tag) = tag {
            let mut kept = self.kept.lock();
            expire(&mut kept);
            kept.retain(|one| one.tag != tag);
            kept.push(KeptFile { tag: tag.to_owned(), file: Arc::clone(&made), used: Instant::now() });
            while kept.len() > 1 && kept.iter().map(|one| one.file.length).sum::<u64>() > KEPT_BYTES {
                let oldest = kept.iter().enumerate().min_by_key(|(_, one)| one.used).map_or(0, |(at, _)| at);
                kept.remove(oldest);
            }
        }
        Ok(made)
    }

    /// Drops the files whose time is over.
    pub(crate) fn tidy(&self) {
        expire(&mut self.kept.lock());
    }

    /// Returns the time after which [`MadeFiles::tidy`] drops a file that was just used.
    pub(crate) fn kept_for() -> Duration {
        KEPT_FOR + Duration::from_secs(1)
    }
}

fn expire(kept: &mut Vec<KeptFile>) {
    kept.retain(|one| one.used.elapsed() < KEPT_FOR);
}

/// The part of a file that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of it.
    Whole,
    /// The bytes from the first to the last.
    Range(u64, u64),
    /// Bytes beyond the end.
    Beyond,
}

impl Part {
    /// Reads `Range` and `If-Range` (RFC 9110 §14). Several ranges are answered with the whole file, as any server may do.
    pub(crate) fn of(request: &HttpRequest, etag: Option<&str>, length: u64) -> Self {
        let value = |name| request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::trim);
        let Some(etag) = etag else { return Self::Whole };
        if value(header::IF_RANGE).is_some_and(|tag| tag != etag) {
            return Self::Whole;
        }
        value(header::RANGE).map_or(Self::Whole, |range| parse(range, length))
    }
}

fn parse(range: &str, length: u64) -> Part {
    let Some((first, last)) = range.strip_prefix("bytes=").and_then(|range| range.split_once('-')) else {
        return Part::Whole;
    };
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse().unwrap_or(u64::MAX))
    };
    match (first, number(first), last, number(last)) {
        ("", _, _, Some(0)) => Part::Beyond,
        ("", _, _, Some(_)) if length == 0 => Part::Beyond,
        ("", _, _, Some(count)) => Part::Range(length.saturating_sub(count), length - 1),
        (_, Some(first), "", _) if first < length => Part::Range(first, length - 1),
        (_, Some(first), _, Some(last)) if first <= last && first < length => Part::Range(first, last.min(length - 1)),
        (_, Some(first), "", _) if first >= length => Part::Beyond,
        (_, Some(first), _, Some(last)) if first <= last => Part::Beyond,
        _ => Part::Whole,
    }
}

/// Returns the bytes from `from` up to `to` as a stream. Reads run on the blocking pool, not on the server's worker.
pub(crate) fn section(file: Arc<MadeFile>, from: u64, to: u64) -> impl Stream<Item = io::Result<Bytes>> {
    stream::try_unfold((file, from), move |(file, at)| async move {
        let length = to.saturating_sub(at).min(PIECE);
        if length == 0 {
            return Ok(None);
        }
        let read = block(move || {
            let mut piece = vec![0; usize::try_from(length).unwrap_or(0)];
            file.file.read_exact_at(&mut piece, at)?;
            Ok::<_, io::Error>((piece, file))
        });
        let (piece, file) = read.await.map_err(io::Error::other)??;
        Ok(Some((Bytes::from(piece), (file, at + length))))
    })
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    fn file(length: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(length).unwrap();
        file
    }

    #[test]
    fn ranges() {
        for (range, expected) in [
            ("bytes=0-4", Part::Range(0, 4)),
            ("bytes=5-", Part::Range(5, 9)),
            ("bytes=-3", Part::Range(7, 9)),
            ("bytes=-30", Part::Range(0, 9)),
            ("bytes=9-99999999999999999999999", Part::Range(9, 9)),
            ("bytes=10-", Part::Beyond),
            ("bytes=10-12", Part::Beyond),
            ("bytes=-0", Part::Beyond),
            ("bytes=4-2", Part::Whole),
            ("bytes=0-1,3-4", Part::Whole),
            ("bytes=a-", Part::Whole),
            ("lines=0-4", Part::Whole),
        ] {
            assert_eq!(parse(range, 10), expected, "{range}");
        }
        assert_eq!(parse("bytes=0-", 0), Part::Beyond);
        let request = |name: &'static str, tag: &'static str| {
            TestRequest::default().insert_header(("Range", "bytes=1-2")).insert_header((name, tag)).to_http_request()
        };
        assert_eq!(Part::of(&request("If-Range", "\"a\""), Some("\"a\""), 10), Part::Range(1, 2));
        assert_eq!(Part::of(&request("If-Range", "\"b\""), Some("\"a\""), 10), Part::Whole);
        assert_eq!(Part::of(&request("X", ""), None, 10), Part::Whole);
    }

    #[test]
    fn files_are_kept_within_their_bytes() {
        let files = MadeFiles::default();
        drop(files.made(file(10), None).unwrap());
        assert_eq!(files.in_use.load(Ordering::Relaxed), 0);
        files.made(file(10), Some("a")).unwrap();
        assert_eq!(files.get("a").unwrap().length, 10);
        assert!(files.get("b").is_none());
        // The files are sparse: they take no space.
        files.made(file(KEPT_BYTES - 5), Some("b")).unwrap();
        assert!(files.get("a").is_none(), "the oldest one makes room");
        assert!(files.get("b").is_some());
    }

    #[test]
    fn few_files_are_made_at_once() {
        let files = MadeFiles::default();
        let permits: Vec<_> = (0..MADE_AT_ONCE).map(|_| files.begin().unwrap()).collect();
        assert!(files.begin().is_none());
        drop(permits);
        assert!(files.begin().is_some());
        let sent = files.made(file(BYTES_IN_USE + 1), Some("large")).unwrap();
        assert!(files.begin().is_none(), "it is still being sent");
        drop(sent);
        assert!(files.begin().is_some());
    }

    #[actix_web::test]
    async fn sections_are_exact() {
        use futures_util::StreamExt as _;
        let files = MadeFiles::default();
        let made = files.made(file(3 * PIECE), None).unwrap();
        let read: Vec<_> = section(made, 5, 2 * PIECE + 6).collect().await;
        assert_eq!(read.iter().map(|piece| piece.as_ref().unwrap().len() as u64).sum::<u64>(), 2 * PIECE + 1);
    }
}
