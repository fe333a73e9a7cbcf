//! The traits of the protocol on the models. Each call yields to the scheduler before it takes effect and before its answer
//! arrives.

use crate::engine::{self, Connection, EngineError, Hash, Inode, ROOT};
use crate::world::{Fate, Unit, World, to_hash};
use branchyard_segments::{
    Acquired, Commit, Draft, Epoch, Extension, FileError, Holder, Known, LocalFile, Nodes, Nonces, Objects,
    ObjectsError, Record, Records, RecordsError, Renewal, Saved, Swap, Switch, Switched,
};
use std::cell::RefCell;
use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

pub(crate) type Shared = Rc<RefCell<World>>;

/// Yields to the scheduler once.
pub(crate) async fn pause() {
    let mut is_done = false;
    poll_fn(|_| if std::mem::replace(&mut is_done, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

/// Sends a request to the metadata store.
async fn request<T: 'static>(
    world: &Shared,
    effect: impl FnOnce(&mut World) -> T + 'static,
) -> Result<T, RecordsError> {
    pause().await;
    let share = world.borrow().faults.records;
    let fate = world.borrow_mut().fate(share);
    let unknown = Err(RecordsError::Unknown(String::new()));
    match fate {
        Fate::Done => {
            let result = effect(&mut world.borrow_mut());
            // Some answers take long, while other nodes already see the effect.
            let pauses = {
                let mut world = world.borrow_mut();
                let share = world.faults.slow;
                if world.random.chance(share) { 1 + world.random.below(80) } else { 1 }
            };
            for _ in 0..pauses {
                pause().await;
            }
            Ok(result)
        }
        Fate::Refused => Err(RecordsError::Unavailable(String::new())),
        Fate::RequestLost => unknown,
        Fate::AnswerLost => {
            effect(&mut world.borrow_mut());
            pause().await;
            unknown
        }
        Fate::Late => {
            world.borrow_mut().defer(|world| drop(effect(world)));
            pause().await;
            unknown
        }
    }
}

pub(crate) struct SimRecords(pub(crate) Shared);

impl Records for SimRecords {
    type Unit = Unit;
    type Refusal = &'static str;

    async fn acquire(&self, holder: &Holder, known: Option<Known>) -> Result<Acquired, RecordsError> {
        let holder = holder.clone();
        request(&self.0, move |world| world.acquire(&holder, known)).await
    }

    async fn load(&self, known: Option<Known>) -> Result<Record, RecordsError> {
        request(&self.0, move |world| world.load(known)).await
    }

    async fn extend(&self, extension: &Extension, unit: &Unit) -> Result<Saved<&'static str>, RecordsError> {
        let (extension, unit) = (extension.clone(), unit.clone());
        request(&self.0, move |world| world.extend(&extension, &unit)).await
    }

    async fn swap(&self, swap: &Swap) -> Result<bool, RecordsError> {
        let swap = swap.clone();
        request(&self.0, move |world| world.swap(&swap)).await
    }

    async fn heads(&self) -> Result<Vec<Commit>, RecordsError> {
        request(&self.0, |world| world.heads()).await
    }

    async fn switch(&self, switch: &Switch, _unit: &Unit) -> Result<Switched, RecordsError> {
        let switch = switch.clone();
        request(&self.0, move |world| world.switch(&switch)).await
    }

    async fn release(&self, epoch: Epoch) -> Result<(), RecordsError> {
        self.0.borrow_mut().releasing(epoch);
        request(&self.0, move |world| world.release(epoch)).await
    }
}

impl SimRecords {
    /// Reads the position and both heads at once, as a reader does.
    pub(crate) async fn resolve(&self) -> Result<(branchyard_segments::Position, Hash, Hash), RecordsError> {
        request(&self.0, |world| world.resolve()).await
    }

    pub(crate) async fn tag(&self, seen: branchyard_segments::Generation, commit: Hash) -> Result<bool, RecordsError> {
        request(&self.0, move |world| world.tag(seen, commit)).await
    }
}

impl Nodes for SimRecords {
    async fn start(&self, holder: &Holder, lease: Duration) -> Result<Renewal, RecordsError> {
        let holder = holder.clone();
        request(&self.0, move |world| world.start(&holder, lease)).await
    }

    async fn renew(&self, holder: &Holder, lease: Duration) -> Result<Renewal, RecordsError> {
        let holder = holder.clone();
        request(&self.0, move |world| world.renew(&holder, lease)).await
    }

    async fn stop(&self, holder: &Holder) -> Result<(), RecordsError> {
        let holder = holder.clone();
        request(&self.0, move |world| world.stop(&holder)).await
    }
}

pub(crate) struct SimObjects(pub(crate) Shared);

pub(crate) struct Get {
    object: String,
    range: Range<u64>,
}

impl Objects for SimObjects {
    type Get = Get;

    async fn put(&self, object: &str, bytes: Vec<u8>) -> Result<(), ObjectsError> {
        pause().await;
        let share = self.0.borrow().faults.objects;
        let fate = self.0.borrow_mut().fate(share);
        let object = object.to_owned();
        let error = Err(ObjectsError::Unavailable(String::new()));
        match fate {
            Fate::Done => {
                self.0.borrow_mut().put(object, bytes);
                pause().await;
                Ok(())
            }
            Fate::Refused | Fate::RequestLost => error,
            Fate::AnswerLost => {
                self.0.borrow_mut().put(object, bytes);
                error
            }
            Fate::Late => {
                self.0.borrow_mut().defer(|world| world.put(object, bytes));
                error
            }
        }
    }

    fn get(&self, object: &str, range: Range<u64>) -> Get {
        Get { object: object.to_owned(), range }
    }

    async fn finish(&self, get: Get) -> Result<Vec<u8>, ObjectsError> {
        pause().await;
        let mut world = self.0.borrow_mut();
        let (objects, bytes) = (world.faults.objects, world.faults.bytes);
        if world.random.chance(objects) {
            return Err(ObjectsError::Unavailable(String::new()));
        }
        let found = world.object(&get.object, get.range.start, get.range.end);
        let mut found = found.ok_or(ObjectsError::Absent(get.object))?;
        if world.random.chance(bytes) && !found.is_empty() {
            let at = world.random.below(found.len() as u64) as usize;
            if world.random.chance(500) {
                found.truncate(at);
            } else {
                found[at] ^= 1 << world.random.below(8);
            }
        }
        Ok(found)
    }
}

pub(crate) struct SimNonces(pub(crate) Shared);

impl Nonces for SimNonces {
    fn next(&self) -> u128 {
        u128::from(self.0.borrow_mut().random.next())
    }
}

/// A node's disk and its connections to the file of the database.
#[derive(Default)]
pub(crate) struct Disk {
    pub(crate) inode: RefCell<Option<Rc<Inode>>>,
    writer: RefCell<Option<Connection>>,
    reader: RefCell<Option<Connection>>,
}

/// A node's file as the protocol and the node's engine see it.
#[derive(Clone)]
pub(crate) struct SimFile {
    pub(crate) world: Shared,
    pub(crate) disk: Rc<Disk>,
}

fn file_error(error: EngineError) -> FileError {
    match error {
        EngineError::Failed => FileError::Failed(String::new()),
        other => FileError::Damaged(format!("{other:?}")),
    }
}

impl SimFile {
    fn inode(&self) -> Result<Rc<Inode>, FileError> {
        self.disk.inode.borrow().clone().ok_or_else(|| FileError::Damaged("there is no file".to_owned()))
    }

    fn bytes(&self, range: Range<u64>) -> Result<Vec<u8>, FileError> {
        let inode = self.inode()?;
        let bytes = inode.bytes.borrow();
        let range = range.start as usize..range.end as usize;
        bytes.get(range).map(<[u8]>::to_vec).ok_or_else(|| FileError::Damaged("the file is shorter".to_owned()))
    }

    pub(crate) fn is_damaged(&self) -> bool {
        self.disk.inode.borrow().as_ref().is_some_and(|inode| inode.is_damaged.get())
    }

    fn fails(&self) -> bool {
        let mut world = self.world.borrow_mut();
        let share = world.faults.files;
        world.random.chance(share)
    }

    /// Creates the file, as the engine does for a new database.
    pub(crate) async fn create(&self) {
        pause().await;
        let id = self.world.borrow_mut().random.next();
        self.disk.inode.replace(Some(Inode::new(engine::header(id, engine::HEADER))));
    }

    /// Commits a write on top of a commit. The caller holds the turn.
    pub(crate) async fn write(&self, base: Hash, id: u32) -> Result<Hash, EngineError> {
        pause().await;
        let inode = self.disk.inode.borrow().clone().ok_or(EngineError::Malformed("there is no file"))?;
        let mut writer = self.disk.writer.take();
        if writer.is_none() {
            writer = Some(Connection::open(&inode)?);
        }
        let mut writer = writer.ok_or(EngineError::Failed)?;
        let result = self.write_on(&mut writer, base, id).await;
        self.disk.writer.replace(Some(writer));
        result
    }

    async fn write_on(&self, writer: &mut Connection, base: Hash, id: u32) -> Result<Hash, EngineError> {
        let inode = writer.inode.clone();
        writer.begin()?;
        if base != 0 {
            writer.index.list(base)?;
        }
        if writer.index.head != base {
            inode.append(&engine::root(inode.len(), base));
            writer.wrote()?;
        }
        let before = inode.len();
        let (nonce, filler) = {
            let random = &mut self.world.borrow_mut().random;
            (random.next() as u32, random.below(40) as usize)
        };
        // A large transaction appends before it commits.
        if filler > 20 {
            let (_, drained) = engine::chunk(&vec![7; filler]);
            let half = drained.len() / 2;
            inode.append(&drained[..half]);
            pause().await;
            if self.fails() {
                inode.bytes.borrow_mut().truncate(before);
                writer.wrote()?;
                return Err(EngineError::Failed);
            }
            inode.append(&drained[half..]);
        }
        let (hash, bytes) = engine::commit(id, nonce, base);
        inode.append(&bytes);
        pause().await;
        inode.append(&engine::root(inode.len(), hash));
        writer.wrote()?;
        self.damage(&inode, before);
        pause().await;
        Ok(hash)
    }

    /// Perhaps changes what was just written, or the root before it, as a failing disk does. The connections do not notice.
    fn damage(&self, inode: &Inode, written: usize) {
        let mut world = self.world.borrow_mut();
        let share = world.faults.damage;
        if world.random.chance(share) {
            let first = written.saturating_sub(ROOT);
            let at = first + world.random.below((inode.len() - first) as u64) as usize;
            inode.damage(at, &mut world.random);
        }
    }

    /// Reads the main branch at a commit, on a new or on a pooled connection.
    pub(crate) async fn read_list(&self, commit: Hash, pooled: bool) -> Result<Vec<u32>, EngineError> {
        pause().await;
        let inode = self.disk.inode.borrow().clone().ok_or(EngineError::NoSuchCommit)?;
        if !pooled {
            return Connection::open(&inode)?.index.list(commit);
        }
        let mut pool = self.disk.reader.borrow_mut();
        if pool.is_none() {
            *pool = Some(Connection::open(&inode)?);
        }
        let reader = pool.as_mut().ok_or(EngineError::NoSuchCommit)?;
        reader.refresh()?;
        reader.index.list(commit)
    }

    /// Opens the file for writing and closes it again, as a check does.
    pub(crate) async fn open_and_close_writer(&self) {
        pause().await;
        let inode = self.disk.inode.borrow().clone();
        if let Some(writer) = inode.and_then(|inode| Connection::open(&inode).ok()) {
            pause().await;
            writer.close_writer();
        }
    }

    fn evict(&self) {
        self.disk.reader.take();
        if let Some(writer) = self.disk.writer.take() {
            writer.close_writer();
        }
    }
}

impl LocalFile for SimFile {
    type Draft = SimDraft;

    async fn length(&self) -> Result<Option<u64>, FileError> {
        pause().await;
        Ok(self.disk.inode.borrow().as_ref().map(|inode| inode.len() as u64))
    }

    async fn read(&self, range: Range<u64>) -> Result<Vec<u8>, FileError> {
        pause().await;
        self.bytes(range)
    }

    async fn append(&self, at: u64, bytes: &[u8]) -> Result<(), FileError> {
        pause().await;
        let inode = self.inode()?;
        // The bytes arrive in pieces, and readers see them.
        let half = if self.fails() { Some(bytes.len() / 2) } else { None };
        for part in [0..bytes.len() / 2, bytes.len() / 2..bytes.len()] {
            inode.write(at as usize + part.start, &bytes[part.clone()]);
            pause().await;
            if half == Some(part.end) {
                return Err(FileError::Failed(String::new()));
            }
        }
        Ok(())
    }

    async fn close_all(&self) -> Result<(), FileError> {
        pause().await;
        self.evict();
        pause().await;
        Ok(())
    }

    async fn ends_record(&self, at: u64) -> Result<bool, FileError> {
        pause().await;
        let inode = self.inode()?;
        let bytes = inode.bytes.borrow();
        Ok(engine::ends_record(&bytes, at as usize))
    }

    async fn prove(&self, tail: Range<u64>, heads: &[Commit]) -> Result<(), FileError> {
        pause().await;
        let inode = self.inode()?;
        let (start, end) = (tail.start as usize, tail.end as usize);
        let result = prove(&inode.bytes.borrow(), start, end, heads);
        if let Err(error) = &result {
            let mut world = self.world.borrow_mut();
            world.counts.proofs_failed += 1;
            if !inode.is_damaged.get() {
                world.violate(|| format!("a proof failed, and nothing damaged the file: {error:?}"));
            }
        }
        pause().await;
        result.map_err(file_error)
    }

    async fn draft(&self, keep: u64) -> Result<SimDraft, FileError> {
        pause().await;
        let (bytes, is_damaged) = match keep {
            0 => (Vec::new(), false),
            keep => (self.bytes(0..keep)?, self.is_damaged()),
        };
        Ok(SimDraft { file: self.clone(), bytes, is_damaged })
    }

    async fn collect(&self, heads: &[Commit]) -> Result<SimDraft, FileError> {
        pause().await;
        let inode = self.inode()?;
        let copy = {
            let bytes = inode.bytes.borrow();
            let end = engine::Index::open(&bytes).map_err(file_error)?.end;
            bytes[..end].to_vec()
        };
        pause().await;
        let heads: Vec<Hash> = heads.iter().map(to_hash).collect();
        let id = self.world.borrow_mut().random.next();
        let bytes = engine::collect(&copy, &heads, id).map_err(file_error)?;
        Ok(SimDraft { file: self.clone(), bytes, is_damaged: false })
    }

    async fn install(&self, draft: SimDraft) -> Result<(), FileError> {
        pause().await;
        if self.fails() {
            return Err(FileError::Failed(String::new()));
        }
        let inode = Inode::new(draft.bytes);
        inode.is_damaged.set(draft.is_damaged);
        self.disk.inode.replace(Some(inode));
        self.evict();
        pause().await;
        Ok(())
    }
}

fn prove(bytes: &[u8], start: usize, end: usize, heads: &[Commit]) -> Result<(), EngineError> {
    let index = engine::Index::open(bytes)?;
    if index.end != end || start > 0 && !engine::ends_record(bytes, start) || !engine::ends_record(bytes, end) {
        return Err(EngineError::Malformed("the tail does not end in a root"));
    }
    heads.iter().try_for_each(|head| index.list(to_hash(head)).map(drop))
}

pub(crate) struct SimDraft {
    file: SimFile,
    bytes: Vec<u8>,
    is_damaged: bool,
}

impl Draft for SimDraft {
    async fn append(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        pause().await;
        if self.file.fails() {
            return Err(FileError::Failed(String::new()));
        }
        self.bytes.extend(bytes);
        Ok(())
    }

    async fn length(&self) -> Result<u64, FileError> {
        Ok(self.bytes.len() as u64)
    }

    async fn read(&self, range: Range<u64>) -> Result<Vec<u8>, FileError> {
        Ok(self.bytes[range.start as usize..range.end as usize].to_vec())
    }

    async fn bring_over(&mut self, heads: &[Commit]) -> Result<(), FileError> {
        pause().await;
        let heads: Vec<Hash> = heads.iter().map(to_hash).collect();
        let inode = self.file.inode()?;
        let source = inode.bytes.borrow();
        engine::bring_over(&mut self.bytes, &source, &heads).map_err(file_error)
    }

    async fn prove(&self, heads: &[Commit]) -> Result<(), FileError> {
        pause().await;
        prove(&self.bytes, 0, self.bytes.len(), heads).map_err(file_error)
    }
}
