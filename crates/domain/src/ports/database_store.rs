//! The store of databases: where the bytes of databases, uploads and backups live durably, as objects.

use std::error::Error;
use std::fmt;
use std::io::{self, Read, Write};
use std::ops::Range;

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

use crate::values::{DataKeyId, DataKeyScope, ObjectKey, Timestamp};

/// What an object contains: its length and its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectDigest {
    /// Length in bytes.
    pub length: u64,
    /// SHA-256 of the bytes.
    pub sha256: [u8; 32],
}

impl ObjectDigest {
    /// Returns the digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self { length: u64::try_from(bytes.len()).unwrap_or(u64::MAX), sha256: Sha256::digest(bytes).into() }
    }

    /// Checks that an object with this digest is the expected one.
    ///
    /// # Errors
    /// [`StoreError::Damaged`].
    pub fn verify(&self, key: &ObjectKey, expected: &Self) -> Result<(), StoreError> {
        match self == expected {
            true => Ok(()),
            false => Err(StoreError::damaged(key, format!("it contains {self}, expected were {expected}"))),
        }
    }
}

impl fmt::Display for ObjectDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes with SHA-256 {}", self.length, HEXLOWER.encode(&self.sha256))
    }
}

/// What a store knows about an object without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectInfo {
    /// The key.
    pub key: ObjectKey,
    /// Length in bytes.
    pub length: u64,
    /// When the object was stored, by the store's clock.
    pub modified: Timestamp,
}

/// A cause of a [`StoreError`], for the operator.
type Cause = Box<dyn Error + Send + Sync>;

/// Why a call of the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such object.
    #[error("there is no object {0}")]
    NotFound(ObjectKey),
    /// There is an object with this key. It was not changed.
    #[error("there is an object {0} already")]
    Exists(ObjectKey),
    /// The store does not answer, or answers that it cannot at present. Trying again is worthwhile. Whether a change took effect
    /// is unknown.
    #[error("the object store is not available: {context}")]
    Unavailable {
        /// What failed.
        context: String,
        /// The cause.
        #[source]
        source: Option<Cause>,
    },
    /// The store refuses the request, and will refuse it again: the credentials or the configuration are wrong. The text says what
    /// to do.
    #[error("the object store refuses the request: {advice}")]
    Rejected {
        /// What to do.
        advice: String,
        /// The cause.
        #[source]
        source: Option<Cause>,
    },
    /// The object is not what it should be: its length or its checksum does not fit.
    #[error("object {key} is damaged: {reason}")]
    Damaged {
        /// The key.
        key: ObjectKey,
        /// What does not fit.
        reason: String,
    },
    /// The caller's reader or writer failed.
    #[error("the bytes of an object cannot be passed on")]
    Io(#[from] io::Error),
}

impl StoreError {
    /// Creates a [`StoreError::Unavailable`].
    pub fn unavailable(context: impl Into<String>, source: impl Into<Cause>) -> Self {
        Self::Unavailable { context: context.into(), source: Some(source.into()) }
    }

    /// Creates a [`StoreError::Rejected`].
    pub fn rejected(advice: impl Into<String>, source: impl Into<Cause>) -> Self {
        Self::Rejected { advice: advice.into(), source: Some(source.into()) }
    }

    /// Creates a [`StoreError::Damaged`].
    pub fn damaged(key: &ObjectKey, reason: impl Into<String>) -> Self {
        Self::Damaged { key: key.clone(), reason: reason.into() }
    }

    /// Returns `true` if the same call may succeed later.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    /// Returns `true` if the disk that holds the store, or the caller's, is full.
    pub fn is_full(&self) -> bool {
        let mut cause: Option<&(dyn Error + 'static)> = Some(self);
        while let Some(error) = cause {
            if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::StorageFull) {
                return true;
            }
            cause = error.source();
        }
        false
    }
}

/// A store of objects. An object is durable when the call that stored it returns, and visible to every node from then on. Objects
/// are immutable, except for the few small ones that [`DatabaseStore::replace`] stores.
///
/// Each request to the store has a limit of time, and failures that may pass are tried again within it. Calls block.
pub trait DatabaseStore: Send + Sync {
    /// Stores an object under a fresh key.
    ///
    /// If an answer of the store was lost, an object that has the same bytes counts as the one that was stored.
    ///
    /// # Errors
    /// [`StoreError::Exists`] if there is an object with this key. A store that cannot tell replaces it; no store can tell for an
    /// object of more than 16 MiB that is being stored at the same time. After [`StoreError::Unavailable`] the object may exist,
    /// or appear later.
    fn put(&self, key: &ObjectKey, bytes: &[u8]) -> Result<ObjectDigest, StoreError>;

    /// Stores an object of any size under a fresh key: the next `length` bytes of `from`. Only some of them are in memory at a
    /// time. Returns what was stored.
    ///
    /// # Errors
    /// As [`DatabaseStore::put`]; [`StoreError::Io`] if reading fails, or ends before `length` bytes: then nothing is stored.
    fn put_from(&self, key: &ObjectKey, length: u64, from: &mut dyn Read) -> Result<ObjectDigest, StoreError>;

    /// Stores a small object, and replaces an earlier one with this key. A reader sees one of them whole.
    ///
    /// A request whose answer was lost may take effect later, even after a further call has replaced the object: readers must
    /// accept an older object.
    ///
    /// # Errors
    /// [`StoreError`].
    fn replace(&self, key: &ObjectKey, bytes: &[u8]) -> Result<(), StoreError>;

    /// Stores a small object if there is none with this key. Returns `false` if there is one. Of several callers one stores its
    /// object.
    ///
    /// # Errors
    /// [`StoreError`].
    fn put_if_absent(&self, key: &ObjectKey, bytes: &[u8]) -> Result<bool, StoreError> {
        match self.put(key, bytes) {
            Ok(_) => Ok(true),
            Err(StoreError::Exists(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns what the store knows about an object.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; other [`StoreError`]s.
    fn info(&self, key: &ObjectKey) -> Result<ObjectInfo, StoreError>;

    /// Returns these bytes of an object. An empty range is not looked up.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Damaged`] if the object ends before the range does; other [`StoreError`]s.
    fn read(&self, key: &ObjectKey, range: Range<u64>) -> Result<Vec<u8>, StoreError>;

    /// Returns these bytes of an object, which must have this hash. Bytes that do not are read once more, because they may have
    /// been damaged on their way.
    ///
    /// # Errors
    /// As [`DatabaseStore::read`]; [`StoreError::Damaged`] if the hash is another one.
    fn read_verified(&self, key: &ObjectKey, range: Range<u64>, sha256: &[u8; 32]) -> Result<Vec<u8>, StoreError> {
        let expected = ObjectDigest { length: range.end.saturating_sub(range.start), sha256: *sha256 };
        let bytes = self.read(key, range.clone())?;
        if ObjectDigest::of(&bytes) == expected {
            return Ok(bytes);
        }
        let bytes = self.read(key, range)?;
        ObjectDigest::of(&bytes).verify(key, &expected)?;
        Ok(bytes)
    }

    /// Writes a whole object to `to`, in pieces. Returns what was written; the caller compares it with what it expects.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Damaged`] if the length is not the one that the store announced;
    /// [`StoreError::Io`] if writing fails; other [`StoreError`]s. After an error, a part of the object may be written.
    fn read_into(&self, key: &ObjectKey, to: &mut dyn Write) -> Result<ObjectDigest, StoreError>;

    /// Returns a whole object of at most `max` bytes.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Damaged`] if the object is longer; other [`StoreError`]s.
    fn read_small(&self, key: &ObjectKey, max: usize) -> Result<Vec<u8>, StoreError> {
        let mut small = Small { bytes: Vec::new(), max, is_exceeded: false };
        match self.read_into(key, &mut small) {
            Err(StoreError::Io(_)) if small.is_exceeded => {
                Err(StoreError::damaged(key, format!("it has more than {max} bytes")))
            }
            result => result.map(|_| small.bytes),
        }
    }

    /// Lists objects below a key, or all, in the order of their keys: at most `limit`, with keys after `after`. Fewer than `limit`
    /// are all that remain. Objects whose keys are no [`ObjectKey`]s are left out.
    ///
    /// # Errors
    /// [`StoreError`].
    fn list(
        &self,
        below: Option<&ObjectKey>,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Result<Vec<ObjectInfo>, StoreError>;

    /// Removes objects. Does nothing for those that are absent.
    ///
    /// # Errors
    /// [`StoreError`]. Some of the objects may have been removed.
    fn remove(&self, keys: &[ObjectKey]) -> Result<(), StoreError>;

    /// Returns the data key under which a new object is to be sealed, or `None` if objects are stored as they are. The caller names it in
    /// the key of the object ([`ObjectKey::sealed`]), from which the store knows that it is to seal the object, and to open it.
    ///
    /// # Errors
    /// [`StoreError`] if the data key of the scope cannot be had.
    fn data_key(&self, _scope: DataKeyScope) -> Result<Option<DataKeyId>, StoreError> {
        Ok(None)
    }
}

/// Takes the bytes of a small object, up to a limit.
struct Small {
    bytes: Vec<u8>,
    max: usize,
    is_exceeded: bool,
}

impl Write for Small {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.max {
            self.is_exceeded = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
