//! Object stores of clouds, and those that speak the protocol of S3.
//!
//! The client of the crate `object_store` makes each attempt of a request. Whether there are further ones is decided here, because
//! only then is it known whether an object that exists may be the one that an earlier attempt stored, whose answer was lost.

mod build;
mod failure;
mod requests;
mod watch;

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::sync::Arc;

use branchyard_domain::ports::{DatabaseStore, ObjectDigest, ObjectInfo, StoreError};
use branchyard_domain::values::{ObjectKey, Timestamp};
use bytes::Bytes;
use futures_util::StreamExt as _;
use object_store::list::PaginatedListOptions;
use object_store::multipart::PartId;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, MultipartId, ObjectMeta, PutMode, PutPayload};

use build::Api;
use failure::{Failure, Kind};
use requests::{Attempts, Failed, Pending, Requests};

use crate::digest::Hasher;
use crate::options::StoreOptions;
use crate::url::{Service, StoreUrl};

/// Longest object that is stored by one request.
const SINGLE_MAX: u64 = 16 * 1_024 * 1_024;

/// How many bytes of a larger object are stored or read by one request. All stores accept parts of this size.
const PIECE: u64 = 8 * 1_024 * 1_024;

/// How many parts an object may have. More would exceed what the stores accept.
const PARTS_MAX: u64 = 10_000;

/// How many parts of an object are under way at a time.
const PARTS_AT_A_TIME: usize = 4;

/// How many objects a request lists or removes. S3 accepts no more.
const BATCH: usize = 1_000;

pub(crate) struct CloudStore {
    requests: Requests,
    bucket: Bucket,
}

/// A bucket, for requests that run.
#[derive(Clone)]
struct Bucket {
    api: Arc<dyn Api>,
    attempts: Attempts,
    prefix: Option<ObjectKey>,
    /// Whether removing an absent object is an error of the store. Elsewhere that error is about the bucket.
    reports_absent: bool,
}

/// Bytes of an object that one request returned.
struct Piece {
    bytes: Bytes,
    /// Length of the object.
    length: u64,
}

impl CloudStore {
    /// Opens a store without asking it.
    pub(crate) fn open(url: &StoreUrl, options: &StoreOptions) -> Result<Self, StoreError> {
        let Some((service, name, prefix)) = url.bucket() else {
            return Err(StoreError::Rejected { advice: "name a bucket".to_owned(), source: None });
        };
        let api = build::client(service, name, options)?;
        let requests =
            Requests::start(options).map_err(|error| StoreError::unavailable("cannot start the threads", error))?;
        let bucket = Bucket {
            api,
            attempts: requests.attempts(),
            prefix: prefix.cloned(),
            reports_absent: service != Service::S3,
        };
        Ok(Self { requests, bucket })
    }

    /// Stores an object by several requests.
    fn put_parts(&self, key: &ObjectKey, length: u64, from: &mut dyn Read) -> Result<ObjectDigest, StoreError> {
        // No condition can be put on the end of such an upload.
        match self.info(key) {
            Ok(_) => return Err(StoreError::Exists(key.clone())),
            Err(StoreError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        let upload = Upload { bucket: self.bucket.clone(), key: key.clone(), path: self.bucket.path(key)? };
        let id = self.requests.wait({
            let upload = upload.clone();
            async move { upload.create().await }
        })?;
        let mut pending = VecDeque::new();
        let stored = self.put_parts_of(&upload, &id, length, from, &mut pending);
        if stored.is_err() {
            // A part that arrives after the end of its upload would stay.
            for part in pending {
                let _ = part.wait();
            }
            // What is left of an upload is invisible, and removed by a rule of the bucket. The caller has an error already.
            let _ = self.requests.wait(async move { upload.abort(id).await });
        }
        stored
    }

    /// Stores the parts of an object and ends its upload. Parts that are under way after an error are left in `pending`.
    fn put_parts_of(
        &self,
        upload: &Upload,
        id: &MultipartId,
        length: u64,
        from: &mut dyn Read,
        pending: &mut VecDeque<Pending<Result<PartId, StoreError>>>,
    ) -> Result<ObjectDigest, StoreError> {
        let size = PIECE.max(length.div_ceil(PARTS_MAX));
        let mut hasher = Hasher::default();
        let mut parts = Vec::new();
        let mut left = length;
        for number in 0.. {
            if left == 0 {
                break;
            }
            if pending.len() >= PARTS_AT_A_TIME
                && let Some(oldest) = pending.pop_front()
            {
                parts.push(oldest.wait()?);
            }
            let piece = read_piece(from, size.min(left))?;
            hasher.update(&piece);
            left -= size.min(left);
            let (upload, id) = (upload.clone(), id.clone());
            pending.push_back(self.requests.begin(async move { upload.put(id, number, piece).await }));
        }
        while let Some(part) = pending.pop_front() {
            parts.push(part.wait()?);
        }
        let digest = hasher.finish();
        let (upload, id) = (upload.clone(), id.clone());
        self.requests.wait(async move { upload.complete(id, parts, digest).await })?;
        Ok(digest)
    }

    fn begin_piece(&self, key: &ObjectKey, path: &Path, range: Range<u64>) -> Pending<Result<Piece, StoreError>> {
        let (bucket, key, path) = (self.bucket.clone(), key.clone(), path.clone());
        self.requests.begin(async move { bucket.piece(&key, &path, range).await })
    }
}

/// Reads this many bytes.
fn read_piece(from: &mut dyn Read, length: u64) -> Result<Bytes, StoreError> {
    let mut piece = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
    match u64::try_from(from.take(length).read_to_end(&mut piece)?) {
        Ok(read) if read == length => Ok(piece.into()),
        _ => Err(StoreError::Io(io::ErrorKind::UnexpectedEof.into())),
    }
}

impl Bucket {
    fn path(&self, key: &ObjectKey) -> Result<Path, StoreError> {
        let text = match &self.prefix {
            Some(prefix) => format!("{prefix}/{key}"),
            None => key.to_string(),
        };
        Path::parse(text).map_err(|error| StoreError::rejected("use another key", error))
    }

    /// Returns the key of an object, or `None` if the object is not of this store.
    fn key(&self, path: &Path) -> Option<ObjectKey> {
        let text = match &self.prefix {
            Some(prefix) => path.as_ref().strip_prefix(prefix.as_str())?.strip_prefix('/')?,
            None => path.as_ref(),
        };
        ObjectKey::parse(text).ok()
    }

    /// Stores an object by one request, unless there is one with this key.
    async fn put(&self, key: &ObjectKey, path: &Path, bytes: Bytes) -> Result<ObjectDigest, StoreError> {
        let digest = ObjectDigest::of(&bytes);
        let stored = self
            .attempts
            .run(|is_repeated| {
                let payload = PutPayload::from(bytes.clone());
                async move {
                    match self.api.put_opts(path, payload, PutMode::Create.into()).await {
                        Ok(_) => Ok(true),
                        Err(object_store::Error::AlreadyExists { .. }) if is_repeated => Ok(false),
                        Err(error) => Err(Failed::from(error)),
                    }
                }
            })
            .await;
        match stored.map_err(|failure| failure.into_error(Some(key)))? {
            true => Ok(digest),
            false if self.holds(key, path, &digest).await? => Ok(digest),
            false => Err(StoreError::Exists(key.clone())),
        }
    }

    async fn replace(&self, key: &ObjectKey, path: &Path, bytes: Bytes) -> Result<(), StoreError> {
        let stored = self.attempts.run(|_| {
            let payload = PutPayload::from(bytes.clone());
            async move { Ok(self.api.put_opts(path, payload, PutMode::Overwrite.into()).await?) }
        });
        stored.await.map(drop).map_err(|failure| failure.into_error(Some(key)))
    }

    /// Returns `true` if there is an object with this digest.
    async fn holds(&self, key: &ObjectKey, path: &Path, expected: &ObjectDigest) -> Result<bool, StoreError> {
        if self.meta(key, path).await?.size != expected.length {
            return Ok(false);
        }
        let mut hasher = Hasher::default();
        let mut at = 0;
        while at < expected.length {
            let piece = self.piece(key, path, at..expected.length.min(at + PIECE)).await?;
            hasher.update(&piece.bytes);
            at += PIECE;
        }
        Ok(hasher.finish() == *expected)
    }

    /// Returns the metadata of an object.
    async fn meta(&self, key: &ObjectKey, path: &Path) -> Result<ObjectMeta, StoreError> {
        // By reading its first byte: errors in answers to HEAD have no text, which would say whether the object is absent or the
        // bucket.
        let first = self.attempts.run(|_| async move {
            let options = GetOptions { range: Some(GetRange::Bounded(0..1)), ..GetOptions::default() };
            let result = self.api.get_opts(path, options).await?;
            let meta = result.meta.clone();
            result.bytes().await?;
            Ok(meta)
        });
        match first.await {
            Err(failure) if failure.may_be_empty() => {
                let meta = self.head(key, path).await?;
                if meta.size == 0 { Ok(meta) } else { Err(failure.into_error(Some(key))) }
            }
            result => result.map_err(|failure| failure.into_error(Some(key))),
        }
    }

    /// Returns the metadata of an object, which may be empty.
    async fn head(&self, key: &ObjectKey, path: &Path) -> Result<ObjectMeta, StoreError> {
        let found = self.attempts.run(|_| async move {
            let options = GetOptions { head: true, ..GetOptions::default() };
            Ok(self.api.get_opts(path, options).await?.meta)
        });
        found.await.map_err(|failure| failure.into_error(Some(key)))
    }

    /// Returns the bytes of a range, which may end after the end of the object, but not begin there.
    async fn piece(&self, key: &ObjectKey, path: &Path, range: Range<u64>) -> Result<Piece, StoreError> {
        let found = self.attempts.run(|_| {
            let range = range.clone();
            async move {
                let options = GetOptions { range: Some(GetRange::Bounded(range.clone())), ..GetOptions::default() };
                let result = self.api.get_opts(path, options).await?;
                let length = result.meta.size;
                let expected = range.end.min(length).saturating_sub(range.start);
                let bytes = result.bytes().await?;
                if u64::try_from(bytes.len()).ok() != Some(expected) {
                    let text = format!("the store sent {} bytes instead of {expected}", bytes.len());
                    return Err(Failed::Known(Failure::new(Kind::Garbled, text)));
                }
                Ok(Piece { bytes, length })
            }
        });
        match found.await {
            Err(failure) if failure.may_be_empty() => match (range.start, self.head(key, path).await?.size) {
                (0, 0) => Ok(Piece { bytes: Bytes::new(), length: 0 }),
                (_, length) if length <= range.start => Err(too_short(key, length, &range)),
                _ => Err(failure.into_error(Some(key))),
            },
            result => result.map_err(|failure| failure.into_error(Some(key))),
        }
    }

    async fn list(
        &self,
        below: Option<ObjectKey>,
        after: Option<ObjectKey>,
        limit: usize,
    ) -> Result<Vec<ObjectInfo>, StoreError> {
        let folder = match (&below, &self.prefix) {
            (Some(key), _) => Some(format!("{}/", self.path(key)?)),
            (None, Some(prefix)) => Some(format!("{prefix}/")),
            (None, None) => None,
        };
        let offset = after.as_ref().map(|key| self.path(key)).transpose()?.map(String::from);
        let mut found = Vec::new();
        let mut page_token = None;
        loop {
            let options = PaginatedListOptions {
                offset: offset.clone(),
                max_keys: Some((limit - found.len()).min(BATCH)),
                page_token,
                ..PaginatedListOptions::default()
            };
            let page = self.attempts.run(|_| {
                let (folder, options) = (folder.as_deref(), options.clone());
                async move { Ok(self.api.list_paginated(folder, options).await?) }
            });
            let page = page.await.map_err(|failure| failure.into_error(None))?;
            // Some stores count the offset among the objects after it.
            let infos = page.result.objects.iter().filter_map(|meta| self.info(meta));
            found.extend(infos.filter(|info| after.as_ref().is_none_or(|after| info.key > *after)));
            page_token = page.page_token;
            if page_token.is_none() || found.len() >= limit {
                break;
            }
        }
        found.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        found.truncate(limit);
        Ok(found)
    }

    fn info(&self, meta: &ObjectMeta) -> Option<ObjectInfo> {
        let modified = Timestamp::from_micros(meta.last_modified.timestamp_micros());
        self.key(&meta.location).map(|key| ObjectInfo { key, length: meta.size, modified })
    }

    async fn remove(&self, paths: Vec<Path>) -> Result<(), StoreError> {
        let removed = self.attempts.run(|_| {
            let paths = paths.clone();
            async move {
                let mut results = self.api.delete_stream(futures_util::stream::iter(paths.into_iter().map(Ok)).boxed());
                while let Some(result) = results.next().await {
                    match result {
                        Ok(_) => {}
                        Err(object_store::Error::NotFound { .. }) if self.reports_absent => {}
                        Err(error) => return Err(Failed::from(error)),
                    }
                }
                Ok(())
            }
        });
        removed.await.map_err(|failure| failure.into_error(None))
    }
}

fn too_short(key: &ObjectKey, length: u64, wanted: &Range<u64>) -> StoreError {
    StoreError::damaged(key, format!("it has {length} bytes, and {wanted:?} were wanted"))
}

/// An object that is being stored by several requests.
#[derive(Clone)]
struct Upload {
    bucket: Bucket,
    key: ObjectKey,
    path: Path,
}

impl Upload {
    async fn create(&self) -> Result<MultipartId, StoreError> {
        let Self { bucket, key, path } = self;
        let created = bucket.attempts.run(|_| async move { Ok(bucket.api.create_multipart(path).await?) });
        created.await.map_err(|failure| failure.into_error(Some(key)))
    }

    async fn put(&self, id: MultipartId, number: usize, piece: Bytes) -> Result<PartId, StoreError> {
        let Self { bucket, key, path } = self;
        let id = &id;
        let stored = bucket.attempts.run(|_| {
            let piece = PutPayload::from(piece.clone());
            async move { Ok(bucket.api.put_part(path, id, number, piece).await?) }
        });
        stored.await.map_err(|failure| failure.into_error(Some(key)))
    }

    async fn complete(&self, id: MultipartId, parts: Vec<PartId>, digest: ObjectDigest) -> Result<(), StoreError> {
        let Self { bucket, key, path } = self;
        let (id, parts) = (&id, &parts);
        let completed = bucket
            .attempts
            .run(|is_repeated| async move {
                match bucket.api.complete_multipart(path, id, parts.clone()).await {
                    Ok(_) => Ok(true),
                    // The upload is gone because an attempt ended it.
                    Err(object_store::Error::NotFound { .. } | object_store::Error::AlreadyExists { .. })
                        if is_repeated =>
                    {
                        Ok(false)
                    }
                    Err(error) => Err(Failed::from(error)),
                }
            })
            .await
            .map_err(|failure| failure.into_error(Some(key)))?;
        if !completed {
            return match bucket.holds(key, path, &digest).await? {
                true => Ok(()),
                false => Err(StoreError::Exists(key.clone())),
            };
        }
        match bucket.meta(key, path).await?.size {
            length if length == digest.length => Ok(()),
            length => Err(StoreError::damaged(key, format!("{length} of {} bytes were stored", digest.length))),
        }
    }

    async fn abort(&self, id: MultipartId) -> Result<(), StoreError> {
        let Self { bucket, key, path } = self;
        let id = &id;
        let aborted = bucket.attempts.run(|_| async move { Ok(bucket.api.abort_multipart(path, id).await?) });
        aborted.await.map_err(|failure| failure.into_error(Some(key)))
    }
}

impl DatabaseStore for CloudStore {
    fn put(&self, key: &ObjectKey, mut bytes: &[u8]) -> Result<ObjectDigest, StoreError> {
        match u64::try_from(bytes.len()) {
            Ok(length) if length > SINGLE_MAX => self.put_parts(key, length, &mut bytes),
            _ => {
                let (bucket, key, bytes) = (self.bucket.clone(), key.clone(), Bytes::copy_from_slice(bytes));
                let path = bucket.path(&key)?;
                self.requests.wait(async move { bucket.put(&key, &path, bytes).await })
            }
        }
    }

    fn put_from(&self, key: &ObjectKey, length: u64, from: &mut dyn Read) -> Result<ObjectDigest, StoreError> {
        if length > SINGLE_MAX {
            return self.put_parts(key, length, from);
        }
        let bytes = read_piece(from, length)?;
        let (bucket, key) = (self.bucket.clone(), key.clone());
        let path = bucket.path(&key)?;
        self.requests.wait(async move { bucket.put(&key, &path, bytes).await })
    }

    fn replace(&self, key: &ObjectKey, bytes: &[u8]) -> Result<(), StoreError> {
        let (bucket, key, bytes) = (self.bucket.clone(), key.clone(), Bytes::copy_from_slice(bytes));
        let path = bucket.path(&key)?;
        self.requests.wait(async move { bucket.replace(&key, &path, bytes).await })
    }

    fn info(&self, key: &ObjectKey) -> Result<ObjectInfo, StoreError> {
        let (bucket, key) = (self.bucket.clone(), key.clone());
        let path = bucket.path(&key)?;
        self.requests.wait(async move {
            let meta = bucket.meta(&key, &path).await?;
            bucket.info(&meta).ok_or(StoreError::NotFound(key))
        })
    }

    fn read(&self, key: &ObjectKey, range: Range<u64>) -> Result<Vec<u8>, StoreError> {
        let path = self.bucket.path(key)?;
        let mut bytes = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min(at + PIECE);
            let piece = self.begin_piece(key, &path, at..end).wait()?;
            // Before memory is taken for the whole range.
            if piece.length < range.end {
                return Err(too_short(key, piece.length, &range));
            }
            bytes.extend_from_slice(&piece.bytes);
            at = end;
        }
        Ok(bytes)
    }

    fn read_into(&self, key: &ObjectKey, to: &mut dyn Write) -> Result<ObjectDigest, StoreError> {
        let path = self.bucket.path(key)?;
        let mut hasher = Hasher::default();
        let mut piece = self.begin_piece(key, &path, 0..PIECE).wait()?;
        let length = piece.length;
        let mut at = PIECE;
        loop {
            // The next piece is on its way while this one is written.
            let next = (at < length).then(|| self.begin_piece(key, &path, at..length.min(at + PIECE)));
            hasher.update(&piece.bytes);
            to.write_all(&piece.bytes)?;
            let Some(next) = next else { break };
            piece = next.wait()?;
            if piece.length != length {
                return Err(StoreError::damaged(key, "its length changed while it was read"));
            }
            at += PIECE;
        }
        Ok(hasher.finish())
    }

    fn list(
        &self,
        below: Option<&ObjectKey>,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Result<Vec<ObjectInfo>, StoreError> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let (bucket, below, after) = (self.bucket.clone(), below.cloned(), after.cloned());
        self.requests.wait(async move { bucket.list(below, after, limit).await })
    }

    fn remove(&self, keys: &[ObjectKey]) -> Result<(), StoreError> {
        for batch in keys.chunks(BATCH) {
            let paths = batch.iter().map(|key| self.bucket.path(key)).collect::<Result<Vec<_>, _>>()?;
            let bucket = self.bucket.clone();
            self.requests.wait(async move { bucket.remove(paths).await })?;
        }
        Ok(())
    }
}
