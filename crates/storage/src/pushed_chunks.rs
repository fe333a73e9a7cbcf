//! The chunks of pushes, in a folder of files that only this process uses.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use branchyard_domain::ports::{BlobsError, NextChunk, PushedChunks, PushedChunksLoad, Pusher};
use branchyard_domain::values::{AccountId, ChunkHash, Timestamp};
use parking_lot::Mutex;

use crate::blobs::failed;

/// Size that each chunk has at least for the limit of a pusher, in bytes. It bounds the memory for the hashes of tiny chunks.
const LEAST_SIZE: u64 = 4_096;
/// Number of databases for which a user may have chunks at once. The ones that were used least recently go first.
const MOST_OF_USER: usize = 4;
/// Length of what is written at once, in bytes. Most chunks have a few thousand.
const WRITTEN_AT_ONCE: usize = 256 << 10;

/// The chunks of pushes in a folder.
#[derive(Debug)]
pub struct FolderPushedChunks {
    dir: PathBuf,
    all: Mutex<HashMap<Pusher, Arc<Mutex<Uploads>>>>,
}

/// The chunks of a pusher.
#[derive(Debug)]
struct Uploads {
    /// Set once there is a chunk.
    file: Option<File>,
    hashes: HashSet<ChunkHash>,
    /// Length of the file.
    length: u64,
    /// Size for the limit.
    size: u64,
    last_used: Timestamp,
    /// Whether they were removed, so that nothing may be added.
    is_removed: bool,
}

impl FolderPushedChunks {
    /// Opens the folder. Creates it if it does not exist.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be created.
    pub fn open(dir: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&dir)?;
        Ok(Self { dir, all: Mutex::default() })
    }

    /// Removes what a former process left in the folder. Only the process that serves the folder may call this, and only before it
    /// uses the folder.
    ///
    /// # Errors
    /// Returns an error if something cannot be removed.
    pub fn clear(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.dir)? {
            fs::remove_file(entry?.path())?;
        }
        Ok(())
    }

    fn path(&self, pusher: Pusher) -> PathBuf {
        self.dir.join(format!("{}-{}", pusher.database, pusher.user))
    }

    fn of(&self, pusher: Pusher) -> Option<Arc<Mutex<Uploads>>> {
        self.all.lock().get(&pusher).map(Arc::clone)
    }

    /// Returns the chunks of a pusher, who may have none yet.
    fn begin(&self, pusher: Pusher, now: Timestamp) -> Arc<Mutex<Uploads>> {
        let mut all = self.all.lock();
        if let Some(found) = all.get(&pusher) {
            return Arc::clone(found);
        }
        self.make_room(&mut all, pusher.user);
        let new = Uploads { file: None, hashes: HashSet::new(), length: 0, size: 0, last_used: now, is_removed: false };
        let new = Arc::new(Mutex::new(new));
        all.insert(pusher, Arc::clone(&new));
        new
    }

    /// Removes chunks of a user, so that there is room for another database.
    fn make_room(&self, all: &mut HashMap<Pusher, Arc<Mutex<Uploads>>>, user: AccountId) {
        let mut of_user: Vec<_> = all
            .iter()
            .filter(|(pusher, _)| pusher.user == user)
            // One in use was used last.
            .map(|(pusher, uploads)| {
                (uploads.try_lock().map_or(Timestamp::from_micros(i64::MAX), |uploads| uploads.last_used), *pusher)
            })
            .collect();
        of_user.sort_by_key(|(used, _)| *used);
        let excess = (of_user.len() + 1).saturating_sub(MOST_OF_USER);
        for (_, pusher) in of_user.into_iter().take(excess) {
            if let Some(uploads) = all.remove(&pusher) {
                self.discard(pusher, &uploads);
            }
        }
    }

    fn discard(&self, pusher: Pusher, uploads: &Mutex<Uploads>) {
        let mut uploads = uploads.lock();
        uploads.is_removed = true;
        if uploads.file.take().is_some()
            && let Err(error) = fs::remove_file(self.path(pusher))
        {
            tracing::warn!(%error, "the chunks of a push could not be removed");
        }
    }
}

/// Chunks that have arrived, and are not added yet.
struct Batch {
    file: BufWriter<File>,
    hashes: HashSet<ChunkHash>,
    length: u64,
    size: u64,
}

impl Batch {
    fn add(&mut self, hash: ChunkHash, content: &[u8]) -> io::Result<()> {
        if !self.hashes.insert(hash) {
            return Ok(());
        }
        let length = u32::try_from(content.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let length = length.to_le_bytes();
        for part in [&hash.as_bytes()[..], &length, content] {
            self.file.write_all(part)?;
            self.length += part.len() as u64;
        }
        self.size += (content.len() as u64).max(LEAST_SIZE);
        Ok(())
    }
}

impl Uploads {
    /// Appends chunks. After a failure, the file is as before.
    fn append(&mut self, path: PathBuf, batch: &mut Batch) -> io::Result<()> {
        if self.file.is_none() {
            // It holds what a user may not have published yet.
            let mut options = OpenOptions::new();
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            self.file = Some(options.read(true).write(true).create(true).truncate(false).open(path)?);
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        batch.file.rewind()?;
        file.seek(SeekFrom::Start(self.length))?;
        // The system copies between files, unless one of them was opened to append.
        if let Err(error) = io::copy(batch.file.get_mut(), file) {
            file.set_len(self.length)?;
            return Err(error);
        }
        self.length += batch.length;
        Ok(())
    }
}

impl PushedChunks for FolderPushedChunks {
    fn holds(&self, pusher: Pusher, hashes: &[ChunkHash]) -> Vec<bool> {
        match self.of(pusher) {
            Some(uploads) => {
                let uploads = uploads.lock();
                hashes.iter().map(|hash| uploads.hashes.contains(hash)).collect()
            }
            None => vec![false; hashes.len()],
        }
    }

    fn add(&self, pusher: Pusher, next: &mut NextChunk<'_>, at_most: u64, now: Timestamp) -> Result<bool, BlobsError> {
        let failed = || failed("keep the chunks of a push");
        let size = self.of(pusher).map_or(0, |uploads| uploads.lock().size);
        // Nothing is locked while the client sends.
        let file = tempfile::tempfile_in(&self.dir).map_err(failed())?;
        let file = BufWriter::with_capacity(WRITTEN_AT_ONCE, file);
        let mut batch = Batch { file, hashes: HashSet::new(), length: 0, size: 0 };
        while let Some((hash, content)) = next().map_err(failed())? {
            if self.holds(pusher, &[hash]) == [false] {
                batch.add(hash, &content).map_err(failed())?;
            }
            if size.saturating_add(batch.size) > at_most {
                return Ok(false);
            }
        }
        loop {
            let uploads = self.begin(pusher, now);
            let mut uploads = uploads.lock();
            if uploads.is_removed {
                continue;
            }
            if uploads.size.saturating_add(batch.size) > at_most {
                return Ok(false);
            }
            if batch.length > 0 {
                uploads.append(self.path(pusher), &mut batch).map_err(failed())?;
            }
            uploads.hashes.extend(batch.hashes);
            uploads.size += batch.size;
            uploads.last_used = now;
            return Ok(true);
        }
    }

    fn open(&self, pusher: Pusher) -> Result<Option<File>, BlobsError> {
        let Some(uploads) = self.of(pusher) else { return Ok(None) };
        let uploads = uploads.lock();
        // Not a duplicate: readers have a position of their own, and may not write.
        match &uploads.file {
            Some(_) => File::open(self.path(pusher)).map(Some).map_err(failed("open the chunks of a push")),
            None => Ok(None),
        }
    }

    fn remove(&self, pusher: Pusher) {
        let mut all = self.all.lock();
        if let Some(uploads) = all.remove(&pusher) {
            self.discard(pusher, &uploads);
        }
    }

    fn remove_taken(&self, pusher: Pusher, bytes: u64) {
        let mut all = self.all.lock();
        // An upload holds the lock.
        let is_same = |uploads: &Arc<Mutex<Uploads>>| uploads.try_lock().is_some_and(|uploads| uploads.length == bytes);
        if all.get(&pusher).is_some_and(is_same)
            && let Some(uploads) = all.remove(&pusher)
        {
            self.discard(pusher, &uploads);
        }
    }

    fn remove_unused(&self, unused_since: Timestamp) -> u64 {
        let mut all = self.all.lock();
        let is_unused =
            |uploads: &Arc<Mutex<Uploads>>| uploads.try_lock().is_some_and(|uploads| uploads.last_used <= unused_since);
        let unused: Vec<Pusher> =
            all.iter().filter(|(_, uploads)| is_unused(uploads)).map(|(pusher, _)| *pusher).collect();
        for pusher in &unused {
            if let Some(uploads) = all.remove(pusher) {
                self.discard(*pusher, &uploads);
            }
        }
        unused.len() as u64
    }

    fn load(&self) -> PushedChunksLoad {
        let all = self.all.lock();
        // What is being written counts the next time.
        let bytes = all.values().filter_map(|uploads| uploads.try_lock().map(|uploads| uploads.length)).sum();
        PushedChunksLoad { pushers: all.len() as u64, bytes }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use branchyard_domain::values::DatabaseId;
    use uuid::Uuid;

    use super::*;

    const MOST: u64 = 10 * LEAST_SIZE;

    fn pusher(database: u128, user: u128) -> Pusher {
        Pusher {
            database: DatabaseId::from_uuid(Uuid::from_u128(database)),
            user: AccountId::from_uuid(Uuid::from_u128(user)),
        }
    }

    fn hash(content: &str) -> ChunkHash {
        ChunkHash::of(content.as_bytes())
    }

    fn add(store: &FolderPushedChunks, pusher: Pusher, contents: &[&str], seconds: i64) -> bool {
        let mut chunks = contents.iter().map(|content| (hash(content), content.as_bytes().to_vec()));
        store.add(pusher, &mut || Ok(chunks.next()), MOST, Timestamp::from_seconds(seconds)).unwrap()
    }

    fn store() -> (tempfile::TempDir, FolderPushedChunks) {
        let folder = tempfile::tempdir().unwrap();
        let store = FolderPushedChunks::open(folder.path().join("pushes")).unwrap();
        (folder, store)
    }

    #[test]
    fn chunks_are_kept_once_and_only_for_their_pusher() {
        let (_folder, store) = store();
        assert!(add(&store, pusher(1, 1), &["one", "one"], 0));
        assert!(add(&store, pusher(1, 1), &["one", "two"], 1));
        assert_eq!(store.holds(pusher(1, 1), &[hash("one"), hash("two"), hash("x")]), [true, true, false]);
        for other in [pusher(1, 2), pusher(2, 1)] {
            assert_eq!(store.holds(other, &[hash("one")]), [false]);
            assert!(store.open(other).unwrap().is_none());
        }
        let mut bytes = Vec::new();
        store.open(pusher(1, 1)).unwrap().unwrap().read_to_end(&mut bytes).unwrap();
        let record = |content: &str| [hash(content).as_bytes(), &[3, 0, 0, 0][..], content.as_bytes()].concat();
        assert_eq!(bytes, [record("one"), record("two")].concat());
        assert_eq!(store.load(), PushedChunksLoad { pushers: 1, bytes: 54 });
    }

    #[test]
    fn the_limit_counts_tiny_chunks_as_larger_ones_and_keeps_all_or_nothing() {
        let (_folder, store) = store();
        let contents = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"];
        assert!(!add(&store, pusher(1, 1), &contents, 0));
        assert_eq!(store.holds(pusher(1, 1), &[hash("a")]), [false]);
        assert!(add(&store, pusher(1, 1), &contents[..10], 0));
        assert!(!add(&store, pusher(1, 1), &contents[10..], 0));
        assert!(add(&store, pusher(1, 1), &contents[..3], 0));
    }

    #[test]
    fn nothing_of_a_request_that_fails_is_kept() {
        let (_folder, store) = store();
        let mut chunks = [Ok(Some((hash("a"), b"a".to_vec()))), Err(io::ErrorKind::UnexpectedEof.into())].into_iter();
        let added = store.add(pusher(1, 1), &mut || chunks.next().unwrap(), MOST, Timestamp::from_seconds(0));
        assert!(added.is_err());
        assert_eq!(store.holds(pusher(1, 1), &[hash("a")]), [false]);
        assert_eq!(store.load(), PushedChunksLoad::default());
    }

    #[test]
    fn what_is_not_used_goes_and_readers_keep_what_they_opened() {
        let (folder, store) = store();
        add(&store, pusher(1, 1), &["one"], 0);
        add(&store, pusher(2, 1), &["two"], 10);
        let mut open = store.open(pusher(1, 1)).unwrap().unwrap();
        assert_eq!(store.remove_unused(Timestamp::from_seconds(9)), 1);
        assert_eq!(store.holds(pusher(1, 1), &[hash("one")]), [false]);
        let mut bytes = Vec::new();
        open.read_to_end(&mut bytes).unwrap();
        assert!(bytes.ends_with(b"one"));
        store.remove(pusher(2, 1));
        assert_eq!(store.load(), PushedChunksLoad::default());
        assert_eq!(std::fs::read_dir(folder.path().join("pushes")).unwrap().count(), 0);
    }

    #[test]
    fn what_was_taken_goes_unless_more_came() {
        let (_folder, store) = store();
        add(&store, pusher(1, 1), &["one"], 0);
        let bytes = store.open(pusher(1, 1)).unwrap().unwrap().metadata().unwrap().len();
        add(&store, pusher(1, 1), &["two"], 0);
        store.remove_taken(pusher(1, 1), bytes);
        assert_eq!(store.holds(pusher(1, 1), &[hash("one"), hash("two")]), [true, true]);
        let bytes = store.open(pusher(1, 1)).unwrap().unwrap().metadata().unwrap().len();
        store.remove_taken(pusher(1, 1), bytes);
        assert_eq!(store.load(), PushedChunksLoad::default());
        store.remove_taken(pusher(1, 1), bytes);
    }

    #[test]
    fn a_user_has_chunks_for_four_databases_at_most() {
        let (_folder, store) = store();
        for database in 0..5 {
            add(&store, pusher(database, 1), &["one"], i64::try_from(database).unwrap());
        }
        add(&store, pusher(0, 2), &["one"], 9);
        let holds = |database, user| store.holds(pusher(database, user), &[hash("one")]) == [true];
        assert_eq!((0..5).map(|database| holds(database, 1)).collect::<Vec<_>>(), [false, true, true, true, true]);
        assert!(holds(0, 2));
    }

    #[test]
    fn what_a_former_process_left_is_removed() {
        let (folder, store) = store();
        add(&store, pusher(1, 1), &["one"], 0);
        let store = FolderPushedChunks::open(folder.path().join("pushes")).unwrap();
        store.clear().unwrap();
        assert_eq!(store.holds(pusher(1, 1), &[hash("one")]), [false]);
        assert_eq!(std::fs::read_dir(folder.path().join("pushes")).unwrap().count(), 0);
    }
}
