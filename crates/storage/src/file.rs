//! The SQLite metadata file.
//!
//! The SQLite in this process is DoltLite's. It creates new files (and turns zero-byte files) into DoltLite's own
//! format, with other locking and without WAL, but it opens a standard SQLite file as such. A new metadata file is
//! therefore a copy of an empty standard image, which is complete before it gets its final name.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::error::OpenError;

/// An empty database of one page, written by stock SQLite.
const EMPTY: &[u8; 4096] = include_bytes!("empty.sqlite");

const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Creates the file if it does not exist, and never overwrites an existing file. Fails if the file is not standard
/// SQLite.
pub(crate) fn prepare(path: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::File { path: path.display().to_string(), source };
    match File::open(path) {
        Ok(file) => check(file, path),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            create(path).map_err(failed)?;
            // Another process may have created the file first. In that case its file is used.
            check(File::open(path).map_err(failed)?, path)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Returns the path of the file itself if `path` is a link to it.
pub(crate) fn resolved(path: &str) -> Result<String, OpenError> {
    let failed = |source| OpenError::File { path: path.to_owned(), source };
    let resolved = std::fs::canonicalize(path).map_err(failed)?;
    // If the resolved path is not valid UTF-8, the original path is used.
    Ok(resolved.into_os_string().into_string().unwrap_or_else(|_| path.to_owned()))
}

fn check(mut file: File, path: &Path) -> Result<(), OpenError> {
    let mut head = [0; MAGIC.len()];
    match file.read_exact(&mut head) {
        Ok(()) if &head == MAGIC => Ok(()),
        Ok(()) => Err(OpenError::NotSqlite { path: path.display().to_string() }),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            Err(OpenError::NotSqlite { path: path.display().to_string() })
        }
        Err(source) => Err(OpenError::File { path: path.display().to_string(), source }),
    }
}

fn create(path: &Path) -> std::io::Result<()> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{}", std::process::id()));
    let temporary = folder.join(name);
    let made = write_all(&temporary).and_then(|()| put_in_place(&temporary, path));
    // Already gone if the file was renamed.
    match std::fs::remove_file(&temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            tracing::warn!(%error, path = %temporary.display(), "cannot remove a temporary file")
        }
        _ => {}
    }
    made?;
    File::open(&folder)?.sync_all()
}

fn write_all(path: &Path) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(EMPTY)?;
    file.sync_all()
}

/// Puts the file in place. A hard link fails if the name is taken, whereas a rename would replace the existing file.
fn put_in_place(temporary: &Path, path: &Path) -> std::io::Result<()> {
    match std::fs::hard_link(temporary, path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        // The file system has no hard links. If two processes start at the same time, both write the same empty image.
        Err(_) if !path.exists() => std::fs::rename(temporary, path),
        Err(error) => Err(error),
    }
}

/// Returns the URI with which SQLite opens exactly this file and never creates it.
pub(crate) fn uri(path: &str) -> String {
    const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    format!("file:{}?mode=rw", utf8_percent_encode(path, ESCAPED))
}

/// Returns the URI with which SQLite reads exactly this file and creates and changes none. Returns `None` if the file is
/// not standard SQLite.
pub(crate) fn uri_for_a_look(path: &str) -> Option<String> {
    check(File::open(path).ok()?, Path::new(path)).ok()?;
    let resolved = resolved(path).ok()?;
    let log = std::fs::metadata(format!("{resolved}-wal")).map_or(0, |log| log.len());
    // Without a log, SQLite need not create the files that it reads a log with.
    let end = if log == 0 { "mode=ro&immutable=1" } else { "mode=ro" };
    Some(uri(&resolved).replace("mode=rw", end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_is_a_standard_image_and_an_old_one_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("meta.sqlite");
        prepare(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), EMPTY);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file stays");
        let mut changed = EMPTY.to_vec();
        changed[4095] = 1;
        std::fs::write(&path, &changed).unwrap();
        prepare(&path).unwrap();
        create(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), changed);
    }

    #[test]
    fn other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("meta.sqlite");
        for content in [b"".as_slice(), b"SQLite", b"something that is longer than sixteen bytes"] {
            std::fs::write(&path, content).unwrap();
            assert!(matches!(prepare(&path), Err(OpenError::NotSqlite { .. })));
            assert_eq!(std::fs::read(&path).unwrap(), content);
        }
        assert!(matches!(prepare(&folder.path().join("no/such/folder")), Err(OpenError::File { .. })));
    }

    #[test]
    fn a_path_with_special_characters_stays_a_path() {
        assert_eq!(uri("/a b/c?d#e%f"), "file:/a%20b/c%3Fd%23e%25f?mode=rw");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mode=rw?");
        std::fs::write(&path, EMPTY).unwrap();
        let look = uri_for_a_look(path.to_str().unwrap()).unwrap();
        assert!(look.ends_with("/mode%3Drw%3F?mode=ro&immutable=1"), "{look}");
    }
}
