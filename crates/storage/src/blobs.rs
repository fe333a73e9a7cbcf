//! The blob port as a folder: `<dir>/<upload>/<part>`.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use branchyard_domain::ports::{Blobs, BlobsError};
use branchyard_domain::values::UploadId;

/// Uploads in flight, in a folder of this process alone.
#[derive(Debug)]
pub struct FolderBlobs {
    dir: PathBuf,
}

impl FolderBlobs {
    /// Uses `dir`, making it when it is not there.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn open(dir: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&dir)?;
        Ok(Self { dir })
    }

    fn folder(&self, upload: UploadId) -> PathBuf {
        self.dir.join(upload.to_string())
    }

    fn part(&self, upload: UploadId, number: u32) -> PathBuf {
        self.folder(upload).join(number.to_string())
    }
}

fn failed(context: impl Into<String>) -> impl FnOnce(io::Error) -> BlobsError {
    let context = context.into();
    move |source| BlobsError { context, full: source.kind() == io::ErrorKind::StorageFull, source }
}

/// A name in the folder is durable only once the folder itself is synced.
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

impl Blobs for FolderBlobs {
    fn put_part(&self, upload: UploadId, number: u32, bytes: &mut dyn Read) -> Result<u64, BlobsError> {
        let folder = self.folder(upload);
        fs::create_dir_all(&folder).map_err(failed("make the folder of an upload"))?;
        // Under a name of its own: two attempts at one part may overlap, and the last complete one wins.
        let mut temporary = tempfile::NamedTempFile::new_in(&folder).map_err(failed("begin a part"))?;
        let size = io::copy(bytes, temporary.as_file_mut()).map_err(failed("write a part"))?;
        temporary.as_file().sync_all().map_err(failed("sync a part"))?;
        temporary.persist(self.part(upload, number)).map_err(|error| failed("name a part")(error.error))?;
        sync_folder(&folder).and_then(|()| sync_folder(&self.dir)).map_err(failed("sync the folder of an upload"))?;
        Ok(size)
    }

    fn open(&self, upload: UploadId, parts: u32) -> Result<Box<dyn Read + Send>, BlobsError> {
        let paths = (1..=parts).map(|number| self.part(upload, number)).collect();
        Ok(Box::new(Parts { paths, next: 0, current: None }))
    }

    fn remove(&self, upload: UploadId) -> Result<(), BlobsError> {
        match fs::remove_dir_all(self.folder(upload)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove an upload")(error)),
            _ => Ok(()),
        }
    }

    fn list(&self) -> Result<Vec<UploadId>, BlobsError> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(failed("list uploads"))? {
            let name = entry.map_err(failed("list uploads"))?.file_name();
            if let Some(id) = name.to_str().and_then(|name| UploadId::parse(name).ok()) {
                found.push(id);
            }
        }
        found.sort_unstable();
        Ok(found)
    }
}

/// Part after part, with one file open at a time.
struct Parts {
    paths: Vec<PathBuf>,
    next: usize,
    current: Option<BufReader<File>>,
}

impl Read for Parts {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(part) = &mut self.current {
                match part.read(buffer)? {
                    0 if !buffer.is_empty() => self.current = None,
                    read => return Ok(read),
                }
            }
            let Some(path) = self.paths.get(self.next) else { return Ok(0) };
            self.current = Some(BufReader::with_capacity(1 << 16, File::open(path)?));
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use branchyard_domain::ports::Blobs;
    use branchyard_domain::values::UploadId;
    use uuid::Uuid;

    use super::FolderBlobs;

    fn folder() -> (tempfile::TempDir, FolderBlobs) {
        let dir = tempfile::tempdir().unwrap();
        let blobs = FolderBlobs::open(dir.path().join("uploads")).unwrap();
        (dir, blobs)
    }

    fn read_all(blobs: &FolderBlobs, id: UploadId, parts: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        blobs.open(id, parts).unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn parts_are_read_in_order_and_the_last_complete_one_wins() {
        let (_dir, blobs) = folder();
        let id = UploadId::from_uuid(Uuid::from_u128(7));
        blobs.put_part(id, 2, &mut "world".as_bytes()).unwrap();
        blobs.put_part(id, 1, &mut "hello ".as_bytes()).unwrap();
        blobs.put_part(id, 2, &mut "there".as_bytes()).unwrap();
        assert_eq!(read_all(&blobs, id, 2), b"hello there");
        assert_eq!(blobs.list().unwrap(), [id]);
        blobs.remove(id).unwrap();
        blobs.remove(id).unwrap();
        assert_eq!(blobs.list().unwrap(), []);
    }

    #[test]
    fn a_part_cut_short_changes_nothing() {
        struct Cut(bool);
        impl Read for Cut {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                if self.0 {
                    return Err(std::io::Error::other("gone"));
                }
                self.0 = true;
                buffer[0] = b'x';
                Ok(1)
            }
        }
        let (_dir, blobs) = folder();
        let id = UploadId::from_uuid(Uuid::from_u128(8));
        blobs.put_part(id, 1, &mut "whole".as_bytes()).unwrap();
        blobs.put_part(id, 1, &mut Cut(false)).unwrap_err();
        assert_eq!(read_all(&blobs, id, 1), b"whole");
        let files = std::fs::read_dir(blobs.folder(id)).unwrap().count();
        assert_eq!(files, 1, "the temporary file is gone");
    }
}
