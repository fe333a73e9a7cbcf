//! The node's file of a database, for the protocol.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use branchyard_domain::ports::{DatabaseFiles, EngineError};
use branchyard_domain::values::DatabaseId;
use branchyard_segments::{Commit, Draft, FileError, LocalFile};
use parking_lot::Mutex;

/// The file of one database.
pub(crate) struct NodeFile {
    pub(crate) files: Arc<dyn DatabaseFiles>,
    pub(crate) database: DatabaseId,
    /// The new file of a collection that the engine runs, while it does.
    pub(crate) collected: Mutex<Option<PathBuf>>,
}

fn failed(what: &str, error: &io::Error) -> FileError {
    FileError::Failed(format!("{what}: {error}"))
}

fn of_engine(error: EngineError) -> FileError {
    match error {
        EngineError::Damaged(what) => FileError::Damaged(what),
        other => FileError::Failed(other.to_string()),
    }
}

fn read_range(path: &Path, range: Range<u64>) -> Result<Vec<u8>, FileError> {
    let file = File::open(path).map_err(|error| failed("open a database", &error))?;
    let length = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, range.start).map_err(|error| failed("read a database", &error))?;
    Ok(bytes)
}

fn length_of(path: &Path) -> Result<Option<u64>, FileError> {
    match fs::metadata(path) {
        Ok(found) => Ok(Some(found.len())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("look at a database", &error)),
    }
}

impl NodeFile {
    fn path(&self) -> PathBuf {
        self.files.path(self.database)
    }
}

impl LocalFile for NodeFile {
    type Draft = NewFile;

    async fn length(&self) -> Result<Option<u64>, FileError> {
        length_of(&self.path())
    }

    async fn read(&self, range: Range<u64>) -> Result<Vec<u8>, FileError> {
        read_range(&self.path(), range)
    }

    async fn append(&self, at: u64, bytes: &[u8]) -> Result<(), FileError> {
        let file = File::options().write(true).open(self.path()).map_err(|error| failed("open a database", &error))?;
        file.write_all_at(bytes, at).map_err(|error| failed("append to a database", &error))
    }

    async fn close_all(&self) -> Result<(), FileError> {
        self.files.close(self.database).map_err(of_engine)
    }

    async fn ends_record(&self, at: u64) -> Result<bool, FileError> {
        self.files.ends_record(self.database, at).map_err(of_engine)
    }

    /// The wrapped engine has read the heads on fresh connections before its call returned.
    async fn prove(&self, tail: Range<u64>, _heads: &[Commit]) -> Result<(), FileError> {
        for (what, at) in [("begin", tail.start), ("end", tail.end)] {
            if at > 0 && !self.files.ends_record(self.database, at).map_err(of_engine)? {
                return Err(FileError::Damaged(format!("what was appended does not {what} at a record, at {at}")));
            }
        }
        Ok(())
    }

    async fn draft(&self, keep: u64) -> Result<NewFile, FileError> {
        let path = self.files.new_path();
        let mut new = File::create_new(&path).map_err(|error| failed("create a new file", &error))?;
        let made = NewFile { path, is_kept: false };
        if keep > 0 {
            let old = File::open(self.path()).map_err(|error| failed("open a database", &error))?;
            let copied = io::copy(&mut io::Read::take(old, keep), &mut new);
            if copied.map_err(|error| failed("copy a database", &error))? != keep {
                return Err(FileError::Damaged("the file is shorter than what is known of it".to_owned()));
            }
        }
        Ok(made)
    }

    /// Returns the file that the engine's collection has written. It only keeps what the collection was asked to keep.
    async fn collect(&self, _heads: &[Commit]) -> Result<NewFile, FileError> {
        match self.collected.lock().take() {
            Some(path) => Ok(NewFile { path, is_kept: true }),
            None => Err(FileError::Failed("no collection is under way".to_owned())),
        }
    }

    async fn install(&self, draft: NewFile) -> Result<(), FileError> {
        // The engine puts the file of a collection in place itself.
        if draft.is_kept {
            return Ok(());
        }
        self.files.install(self.database, &draft.path).map_err(of_engine)
    }
}

/// A new file that is not in place yet.
pub(crate) struct NewFile {
    path: PathBuf,
    /// Whether it belongs to a collection of the engine.
    is_kept: bool,
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // It is not there once it was put in place.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Draft for NewFile {
    async fn append(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        let append = |error| failed("write a new file", &error);
        let mut file = File::options().append(true).open(&self.path).map_err(append)?;
        io::Write::write_all(&mut file, bytes).map_err(append)
    }

    async fn length(&self) -> Result<u64, FileError> {
        Ok(length_of(&self.path)?.unwrap_or(0))
    }

    async fn read(&self, range: Range<u64>) -> Result<Vec<u8>, FileError> {
        read_range(&self.path, range)
    }

    /// The engine's collection has brought over what it was asked for, and proved it. What the metadata name beyond that ends it.
    async fn bring_over(&mut self, _heads: &[Commit]) -> Result<(), FileError> {
        Ok(())
    }

    async fn prove(&self, _heads: &[Commit]) -> Result<(), FileError> {
        Ok(())
    }
}
