//! Reads and writes chunks of a file, through the table of functions that the engine's file remotes have.
//!
//! The engine declares neither the functions nor the table in its header, so they are declared here, for the version that
//! `Cargo.toml` pins. A test holds that version.
#![expect(unsafe_code, reason = "the functions for chunks have no safe wrapper")]

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::slice;

use branchyard_domain::values::ChunkHash;
use rusqlite::ffi;

use crate::connection::wait_a_little;
use crate::idle_connections::Idle;
use crate::memory::Allocated;

/// Number of times that a file which cannot be opened is tried again, for 50 ms in all. A writer may have locked it for a moment.
const OPENED_AGAIN: i32 = 200;

/// The start of the engine's structure `DoltliteRemote`.
#[repr(C)]
struct Remote {
    get_chunk: *const c_void,
    put_chunk: unsafe extern "C" fn(*mut Remote, *const ChunkHash, *const u8, c_int) -> c_int,
    has_chunks: unsafe extern "C" fn(*mut Remote, *const ChunkHash, c_int, *mut u8) -> c_int,
    get_chunks: unsafe extern "C" fn(*mut Remote, *const ChunkHash, c_int, *mut *mut u8, *mut c_int) -> c_int,
    get_refs: unsafe extern "C" fn(*mut Remote, *mut *mut u8, *mut c_int) -> c_int,
    set_refs: *const c_void,
    set_refs_if: *const c_void,
    check_refs_if: *const c_void,
    commit: unsafe extern "C" fn(*mut Remote) -> c_int,
    close: unsafe extern "C" fn(*mut Remote),
}

unsafe extern "C" {
    #[link_name = "doltliteFsRemoteOpen"]
    fn open_file(vfs: *mut ffi::sqlite3_vfs, path: *const c_char) -> *mut Remote;
    #[link_name = "doltliteRemoteOpenReadOnly"]
    fn open_url(vfs: *mut ffi::sqlite3_vfs, url: *const c_char) -> *mut Remote;
}

/// An open file of which single chunks are read and written. What was put and not committed is gone when it is dropped.
pub(crate) struct ChunkFile {
    remote: NonNull<Remote>,
    /// Memory that the file holds, in bytes, as far as it was measured.
    held: Cell<i64>,
}

// SAFETY: the engine binds a remote to no thread, and one that is not shared is used by one thread at a time.
unsafe impl Send for ChunkFile {}

impl Idle for ChunkFile {
    fn held(&self) -> i64 {
        self.held.get()
    }
}

impl ChunkFile {
    /// Opens an existing file for reading. It shows what the file holds now.
    pub(crate) fn open(path: &Path) -> rusqlite::Result<Self> {
        Self::open_with(open_url, &[b"file://", path.as_os_str().as_bytes()].concat())
    }

    /// Opens a file for writing. The caller has the write turn of the file, and no transaction of this process is open in it.
    pub(crate) fn open_for_writing(path: &Path) -> rusqlite::Result<Self> {
        Self::open_with(open_file, path.as_os_str().as_bytes())
    }

    fn open_with(
        open: unsafe extern "C" fn(*mut ffi::sqlite3_vfs, *const c_char) -> *mut Remote,
        name: &[u8],
    ) -> rusqlite::Result<Self> {
        let name = CString::new(name)?;
        // SAFETY: may be called at any time.
        check(unsafe { ffi::sqlite3_initialize() })?;
        // SAFETY: a null name asks for the default VFS, which is never freed.
        let vfs = unsafe { ffi::sqlite3_vfs_find(ptr::null()) };
        let before = Allocated::now();
        let mut attempt = 0;
        loop {
            // SAFETY: the VFS and the name are valid.
            let remote = unsafe { open(vfs, name.as_ptr()) };
            if let Some(remote) = NonNull::new(remote) {
                return Ok(Self { remote, held: Cell::new(before.grown()) });
            }
            // The engine does not say why.
            if attempt == OPENED_AGAIN || !wait_a_little(attempt) {
                return Err(failure(ffi::SQLITE_CANTOPEN));
            }
            attempt += 1;
        }
    }

    /// Looks for what was added to the file since it was opened.
    pub(crate) fn refresh(&self) -> rusqlite::Result<()> {
        let before = Allocated::now();
        let mut attempt = 0;
        let outcome = loop {
            let (mut start, mut length) = (ptr::null_mut(), 0);
            // SAFETY: the remote is open until this is dropped. The refs are freed, since only the look counts.
            let outcome = unsafe {
                let outcome = (self.functions().get_refs)(self.remote.as_ptr(), &raw mut start, &raw mut length);
                ffi::sqlite3_free(start.cast());
                outcome
            };
            if outcome != ffi::SQLITE_BUSY || !wait_a_little(attempt) {
                break outcome;
            }
            attempt += 1;
        };
        self.held.set(self.held.get() + before.grown());
        check(outcome)
    }

    /// Returns whether the file holds each chunk.
    pub(crate) fn has(&self, hashes: &[ChunkHash]) -> rusqlite::Result<Vec<bool>> {
        let mut found = vec![0; hashes.len()];
        let count = length(hashes.len())?;
        // SAFETY: the remote is open until this is dropped, and both arrays have `count` elements.
        check(unsafe {
            (self.functions().has_chunks)(self.remote.as_ptr(), hashes.as_ptr(), count, found.as_mut_ptr())
        })?;
        Ok(found.into_iter().map(|found| found != 0).collect())
    }

    /// Returns the content of each chunk, or `None` if the file does not hold it. The engine has compared it with the hash.
    pub(crate) fn get(&self, hashes: &[ChunkHash]) -> rusqlite::Result<Vec<Option<ChunkContent>>> {
        let count = length(hashes.len())?;
        let (mut starts, mut lengths) = (vec![ptr::null_mut::<u8>(); hashes.len()], vec![0; hashes.len()]);
        // SAFETY: the remote is open until this is dropped, and all arrays have `count` elements.
        let outcome = unsafe {
            let (starts, lengths) = (starts.as_mut_ptr(), lengths.as_mut_ptr());
            (self.functions().get_chunks)(self.remote.as_ptr(), hashes.as_ptr(), count, starts, lengths)
        };
        let chunk = |(start, length): (_, c_int)| {
            NonNull::new(start).map(|start| ChunkContent { start, length: usize::try_from(length).unwrap_or(0) })
        };
        // Also after a failure, so that those that were read are freed.
        let chunks = starts.into_iter().zip(lengths).map(chunk).collect();
        check(outcome).map(|()| chunks)
    }

    /// Adds a chunk, unless the file holds it. The engine compares it with its hash.
    pub(crate) fn put(&self, hash: &ChunkHash, content: &[u8]) -> rusqlite::Result<()> {
        let length = length(content.len())?;
        // SAFETY: the remote is open until this is dropped, and the content has that length.
        check(unsafe { (self.functions().put_chunk)(self.remote.as_ptr(), hash, content.as_ptr(), length) })
    }

    /// Makes what was put a durable part of the file.
    pub(crate) fn commit(&self) -> rusqlite::Result<()> {
        // SAFETY: the remote is open until this is dropped.
        check(unsafe { (self.functions().commit)(self.remote.as_ptr()) })
    }

    fn functions(&self) -> &Remote {
        // SAFETY: the remote is open until this is dropped, and the engine does not change the table.
        unsafe { self.remote.as_ref() }
    }
}

impl Drop for ChunkFile {
    fn drop(&mut self) {
        // SAFETY: nothing uses the remote afterwards.
        unsafe { (self.functions().close)(self.remote.as_ptr()) }
    }
}

/// The content of a chunk, in memory of the engine.
pub(crate) struct ChunkContent {
    start: NonNull<u8>,
    length: usize,
}

impl std::ops::Deref for ChunkContent {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the engine allocated and filled this length.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl Drop for ChunkContent {
    fn drop(&mut self) {
        // SAFETY: the engine allocated it, and nothing uses it afterwards.
        unsafe { ffi::sqlite3_free(self.start.as_ptr().cast()) }
    }
}

fn length(length: usize) -> rusqlite::Result<c_int> {
    c_int::try_from(length).map_err(|_| failure(ffi::SQLITE_TOOBIG))
}

fn check(code: c_int) -> rusqlite::Result<()> {
    if code == ffi::SQLITE_OK { Ok(()) } else { Err(failure(code)) }
}

fn failure(code: c_int) -> rusqlite::Error {
    // SAFETY: the result is a text that is never freed.
    let text = unsafe { CStr::from_ptr(ffi::sqlite3_errstr(code)) };
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(text.to_string_lossy().into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first 20 bytes of the BLAKE3 hash of `abc`.
    const ABC: ChunkHash = ChunkHash::from_bytes([
        0x64, 0x37, 0xb3, 0xac, 0x38, 0x46, 0x51, 0x33, 0xff, 0xb6, 0x3b, 0x75, 0x27, 0x3a, 0x8d, 0xb5, 0x48, 0xc5,
        0x58, 0x46,
    ]);

    fn file() -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        rusqlite::Connection::open(&path).unwrap().execute_batch("create table t(a)").unwrap();
        (folder, path)
    }

    #[test]
    fn the_table_of_functions_is_that_of_this_version() {
        let version: String = rusqlite::Connection::open_in_memory()
            .unwrap()
            .query_row("select dolt_version()", [], |row| row.get(0))
            .unwrap();
        assert_eq!(version, "v0.51.6", "compare `Remote` with `struct DoltliteRemote` in doltlite.c");
    }

    #[test]
    fn a_chunk_is_there_once_it_was_committed() {
        let (_folder, path) = file();
        let put = |commit: bool| {
            let file = ChunkFile::open_for_writing(&path).unwrap();
            file.put(&ABC, b"abc").unwrap();
            assert_eq!(file.has(&[ABC, ChunkHash::NONE]).unwrap(), [true, false]);
            if commit {
                file.commit().unwrap();
            }
        };
        let found = || {
            let file = ChunkFile::open(&path).unwrap();
            let chunks = file.get(&[ChunkHash::NONE, ABC]).unwrap();
            chunks.into_iter().map(|chunk| chunk.map(|chunk| chunk.to_vec())).collect::<Vec<_>>()
        };
        put(false);
        assert_eq!(found(), [None, None]);
        put(true);
        assert_eq!(found(), [None, Some(b"abc".to_vec())]);
    }

    #[test]
    fn what_does_not_fit_its_hash_and_what_is_no_file_are_refused() {
        let (folder, path) = file();
        let file = ChunkFile::open_for_writing(&path).unwrap();
        let refused = file.put(&ABC, b"abd").unwrap_err();
        assert_eq!(refused.sqlite_error_code(), Some(rusqlite::ErrorCode::DatabaseCorrupt));
        assert_eq!(file.has(&[ABC]).unwrap(), [false]);
        assert!(ChunkFile::open(&folder.path().join("none.db")).is_err());
    }
}
