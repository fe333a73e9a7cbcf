//! A node: what it does for its clients, with the protocol as a server uses it.

use crate::engine::{EngineError, Hash};
use crate::ports::{Disk, Shared, SimFile, SimNonces, SimObjects, SimRecords, pause};
use crate::world::{LEASE, Unit, to_commit};
use branchyard_segments::{
    Access, DatabaseFile, Error, FileError, FileStatus, Holder, Known, Lead, Limits, NodeLease, Outcome, Ports,
    Position, Renewal, Shipped, State, Term,
};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

type File = DatabaseFile<SimRecords, SimObjects, SimFile, SimNonces>;

/// What a task waits for, when it is more than its next turn to be polled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Wait {
    #[default]
    Nothing,
    /// The turn of the node's database.
    Turn,
    /// This time of the records' clock.
    Until(u64),
}

pub(crate) struct Node {
    pub(crate) index: usize,
    world: Shared,
    records: SimRecords,
    pub(crate) file: SimFile,
    /// The protocol's value, while no task holds the turn.
    turn: RefCell<Option<File>>,
    pub(crate) status: FileStatus,
    lease: RefCell<NodeLease>,
    /// The head of the main branch, as a leader remembers it.
    memory: Cell<Option<(Term, Hash)>>,
    /// How the node's clock differs from the records': its rate in 1/1,000, and its offset.
    clock: (u64, u64),
    /// What the task that is being polled waits for.
    pub(crate) wait: Rc<Cell<Wait>>,
}

/// The result of a client's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// All of the write's ids were appended, or the request had its effect.
    Done,
    /// The main branch.
    List(Vec<u32>),
    /// Nothing was done. Another node leads the database, if it is named.
    Failed(Option<usize>),
    /// Perhaps it was done.
    Unknown,
}

fn limits(world: &Shared) -> Limits {
    let random = &mut world.borrow_mut().random;
    Limits {
        object_bytes: 60 + random.below(400),
        gets: 1 + random.below(4) as usize,
        small_segments: 1 + random.below(4) as usize,
        small_bytes: 400,
    }
}

struct TurnGuard<'a> {
    node: &'a Node,
    file: Option<File>,
}

impl Deref for TurnGuard<'_> {
    type Target = File;

    fn deref(&self) -> &File {
        self.file.as_ref().unwrap()
    }
}

impl DerefMut for TurnGuard<'_> {
    fn deref_mut(&mut self) -> &mut File {
        self.file.as_mut().unwrap()
    }
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        self.node.turn.replace(self.file.take());
    }
}

impl Node {
    /// Starts a node on a disk. `known` is what it noted at a clean end.
    pub(crate) fn new(
        world: &Shared,
        index: usize,
        disk: Rc<Disk>,
        known: Option<Known>,
        wait: &Rc<Cell<Wait>>,
    ) -> Self {
        let file = SimFile { world: world.clone(), disk };
        let ports = Ports {
            database: "d".to_owned(),
            records: SimRecords(world.clone()),
            objects: SimObjects(world.clone()),
            file: file.clone(),
            nonces: SimNonces(world.clone()),
            limits: limits(world),
        };
        let value = match known {
            Some(known) => DatabaseFile::with_known(ports, Some(known)),
            None => DatabaseFile::new(ports),
        };
        let (rate, offset) = {
            let random = &mut world.borrow_mut().random;
            (920 + random.below(161), random.below(3_600_000))
        };
        let lease = NodeLease::new(holder(world, index), Duration::from_millis(LEASE));
        Self {
            index,
            world: world.clone(),
            records: SimRecords(world.clone()),
            file,
            status: value.status(),
            turn: RefCell::new(Some(value)),
            lease: RefCell::new(lease),
            memory: Cell::new(None),
            clock: (rate, offset),
            wait: wait.clone(),
        }
    }

    fn clock(&self) -> Duration {
        let (rate, offset) = self.clock;
        Duration::from_micros(offset * 1_000 + self.world.borrow().now * rate)
    }

    pub(crate) fn has_free_turn(&self) -> bool {
        self.turn.borrow().is_some()
    }

    async fn turn(&self) -> TurnGuard<'_> {
        let file = poll_fn(|_| match self.turn.take() {
            Some(file) => Poll::Ready(file),
            None => {
                self.wait.set(Wait::Turn);
                Poll::Pending
            }
        })
        .await;
        TurnGuard { node: self, file: Some(file) }
    }

    async fn sleep(&self, time: u64) {
        let until = self.world.borrow().now + time;
        poll_fn(|_| {
            if self.world.borrow().now >= until {
                return Poll::Ready(());
            }
            self.wait.set(Wait::Until(until));
            Poll::Pending
        })
        .await;
    }

    fn count(&self, count: impl FnOnce(&mut crate::world::Counts)) {
        count(&mut self.world.borrow_mut().counts);
    }

    fn violate(&self, what: impl FnOnce() -> String) {
        self.world.borrow_mut().violate(|| format!("node {}: {}", self.index, what()));
    }

    /// Keeps the node's lease. A lease that ended is followed by one of another run.
    pub(crate) async fn keep_lease(self: Rc<Self>) {
        let length = Duration::from_millis(LEASE);
        let mut is_started = false;
        loop {
            let mut lease = self.lease.borrow().clone();
            let now = self.clock();
            let renewal = match is_started {
                false => lease.start(&self.records, now).await,
                true => lease.renew(&self.records, now).await,
            };
            match renewal {
                Ok(Renewal::Held) => is_started = true,
                // The id may be taken until the lease of the run before has ended.
                Ok(Renewal::Ended) => {
                    self.count(|counts| counts.ended_leases += u64::from(is_started));
                    is_started = false;
                    lease = NodeLease::new(holder(&self.world, self.index), length);
                }
                Err(_) => {}
            }
            let interval = if is_started { lease.interval().as_millis() as u64 } else { LEASE / 10 };
            self.lease.replace(lease);
            self.sleep(interval).await;
        }
    }

    fn holder(&self) -> Holder {
        self.lease.borrow().holder().clone()
    }

    fn term(&self) -> Option<Term> {
        let now = self.clock();
        self.status.leads(&self.lease.borrow(), now)
    }

    /// Has the node lead the database. Returns the reply for the client if it cannot.
    async fn lead(&self, file: &mut File) -> Result<(), Reply> {
        let holder = self.holder();
        if file.is_leading(&holder) {
            return Ok(());
        }
        self.memory.set(None);
        match file.lead(&holder).await {
            Ok(Lead::Leading(_)) => Ok(()),
            Ok(Lead::Held(held)) => Err(Reply::Failed(held.owner.node.parse().ok())),
            Ok(Lead::Ended) => Err(Reply::Failed(None)),
            Err(error) => {
                self.check_error(&error);
                Err(Reply::Failed(None))
            }
        }
    }

    /// Has the node lead the database, and returns the head of the main branch.
    async fn base(&self, file: &mut File) -> Result<Hash, Reply> {
        self.lead(file).await?;
        let Ok((position, main, _)) = self.records.resolve().await else {
            return Err(Reply::Failed(None));
        };
        // A head that the file lacks shows that the node has a successor.
        if !self.status.covers(&position) {
            if let Err(error) = file.follow(&position).await {
                self.check_error(&error);
            }
            return Err(Reply::Failed(None));
        }
        Ok(main)
    }

    /// Errors that no fault of the simulation explains.
    fn check_error(&self, error: &Error) {
        let is_explained = match error {
            Error::Records(_) | Error::Objects(_) | Error::NotLeading => true,
            Error::File(FileError::Failed(_)) => true,
            Error::File(FileError::Damaged(_)) => self.file.is_damaged(),
            // Each of several reads of a range was damaged on its way, or the part of a segment that the file has is.
            Error::Corrupt(_) => self.world.borrow().faults.bytes > 0 || self.file.is_damaged(),
            // The file was damaged between two looks at it.
            Error::Incomplete { .. } => self.file.is_damaged(),
            Error::RecordsOlder { .. } => false,
        };
        // A row whose segments are swapped or whose generation ends may name objects that are gone, but none are removed here.
        if !is_explained {
            self.violate(|| format!("{error:?}"));
        }
    }

    /// Looks at an error of the engine while the node holds the turn.
    fn check_engine(&self, file: &mut File, error: &EngineError) {
        match error {
            EngineError::Failed => {}
            _ if self.file.is_damaged() => file.distrust(),
            other => self.violate(|| format!("the engine fails on the node that leads: {other:?}")),
        }
    }

    /// Appends ids to the main branch.
    pub(crate) async fn write(self: Rc<Self>, ids: Vec<u32>) -> Reply {
        let mut file = self.turn().await;
        let base = match self.base(&mut file).await {
            Ok(base) => base,
            Err(reply) => return reply,
        };
        let mut heads = vec![base];
        for id in &ids {
            match self.file.write(heads[heads.len() - 1], *id).await {
                Ok(next) => heads.push(next),
                Err(error) => {
                    self.check_engine(&mut file, &error);
                    return Reply::Failed(None);
                }
            }
        }
        let (is_canceled, is_split) = {
            let random = &mut self.world.borrow_mut().random;
            (random.chance(30), random.chance(300))
        };
        let head = heads[ids.len()];
        if is_canceled {
            return self.ship(&mut file, head, &Unit::Canceled).await;
        }
        // Queued writes share their objects, and have one unit together or one each. Only the first one ships bytes.
        let first = if is_split { 1 } else { ids.len() };
        let unit = Unit::Append { ids: ids[..first].to_vec(), base, head: heads[first] };
        let mut reply = self.ship(&mut file, heads[first], &unit).await;
        if reply == Reply::Done && first < ids.len() {
            let unit = Unit::Append { ids: ids[first..].to_vec(), base: heads[first], head };
            reply = match self.ship(&mut file, head, &unit).await {
                Reply::Failed(_) => Reply::Unknown,
                reply => reply,
            };
        }
        if reply == Reply::Done {
            self.memory.set(self.term().map(|term| (term, head)));
        }
        reply
    }

    async fn ship(&self, file: &mut File, head: Hash, unit: &Unit) -> Reply {
        match file.ship(&[to_commit(head)], unit).await {
            Ok(Shipped::Saved) => return Reply::Done,
            Ok(Shipped::Unknown) => {
                self.count(|counts| counts.unknown += 1);
                self.memory.set(None);
                return Reply::Unknown;
            }
            Ok(Shipped::Lost) => self.count(|counts| counts.lost += 1),
            Ok(Shipped::Refused(_) | Shipped::Fenced) => {}
            Err(error) => self.check_error(&error),
        }
        Reply::Failed(None)
    }

    /// Moves the side branch to a new commit on the main branch.
    pub(crate) async fn write_side(self: Rc<Self>, id: u32) -> Reply {
        let mut file = self.turn().await;
        let base = match self.base(&mut file).await {
            Ok(base) => base,
            Err(reply) => return reply,
        };
        match self.file.write(base, id).await {
            Ok(head) => self.ship(&mut file, head, &Unit::Side(head)).await,
            Err(error) => {
                self.check_engine(&mut file, &error);
                Reply::Failed(None)
            }
        }
    }

    /// Reads the main branch: from what a leader remembers, or by a look at the metadata.
    pub(crate) async fn read(self: Rc<Self>) -> Reply {
        let (memory, pooled) = {
            let random = &mut self.world.borrow_mut().random;
            (random.chance(600), random.chance(500))
        };
        if memory && let Some(list) = self.read_from_memory(pooled).await {
            return Reply::List(list);
        }
        for _ in 0..4 {
            let Ok((position, main, _)) = self.records.resolve().await else {
                continue;
            };
            if self.follow(&position).await.is_none() {
                continue;
            }
            match self.file.read_list(main, pooled).await {
                Ok(list) => return Reply::List(list),
                Err(error) => self.check_read(&position, &error).await,
            }
        }
        Reply::Failed(None)
    }

    async fn read_from_memory(&self, pooled: bool) -> Option<Vec<u32>> {
        let (term, head) = self.memory.get()?;
        let list = self.term().filter(|present| *present == term).map(|_| head)?;
        let list = self.file.read_list(list, pooled).await.ok()?;
        self.count(|counts| counts.reads_from_memory += 1);
        Some(list)
    }

    /// Waits until the file has what a reader saw.
    async fn follow(&self, position: &Position) -> Option<()> {
        if self.status.covers(position) {
            return Some(());
        }
        let mut file = self.turn().await;
        match file.follow(position).await {
            Ok(()) => Some(()),
            Err(error) => {
                self.check_error(&error);
                None
            }
        }
    }

    /// A read fails only if the file is damaged, or if a later generation took its commit away.
    async fn check_read(&self, position: &Position, error: &EngineError) {
        if self.file.is_damaged() {
            self.turn().await.distrust();
            return;
        }
        let generation = match self.status.state() {
            // The file is being replaced or compared.
            State::Absent | State::Unknown => return,
            state => state.known().map(|known| known.generation),
        };
        let is_later = generation.is_some_and(|generation| generation > position.generation);
        if !(is_later && *error == EngineError::NoSuchCommit) {
            self.violate(|| format!("a read at {position:?} fails in the state {:?}: {error:?}", self.status.state()));
        }
    }

    /// Makes a tag at the head of a branch, some time after it was looked up. No lease is needed.
    pub(crate) async fn tag(self: Rc<Self>) -> Reply {
        let Ok((position, main, side)) = self.records.resolve().await else {
            return Reply::Failed(None);
        };
        let (is_main, pauses) = {
            let random = &mut self.world.borrow_mut().random;
            (random.chance(500), random.below(40))
        };
        let commit = if is_main { main } else { side };
        if commit == 0 {
            return Reply::Failed(None);
        }
        for _ in 0..pauses {
            pause().await;
        }
        match self.records.tag(position.generation, commit).await {
            Ok(true) => Reply::Done,
            _ => Reply::Failed(None),
        }
    }

    /// Opens the file for a check or a trial merge.
    pub(crate) async fn check(self: Rc<Self>) -> Reply {
        let file = self.turn().await;
        match file.access() {
            Access::ReadWrite => self.file.open_and_close_writer().await,
            Access::ReadOnly => pause().await,
        }
        Reply::Done
    }

    pub(crate) async fn drain(self: Rc<Self>) -> Reply {
        let mut file = self.turn().await;
        self.memory.set(None);
        match file.release().await {
            Ok(()) => self.count(|counts| counts.drains += 1),
            Err(error) => self.check_error(&error),
        }
        Reply::Done
    }

    pub(crate) async fn compact(self: Rc<Self>) -> Reply {
        let Ok(row) = branchyard_segments::Records::load(&self.records, None).await else {
            return Reply::Failed(None);
        };
        let compaction = self.turn().await.compaction(&row);
        match compaction {
            Some(compaction) => match compaction.run().await {
                Ok(_) => Reply::Done,
                Err(Error::File(FileError::Damaged(_))) => {
                    // The file may have been replaced, too.
                    if self.file.is_damaged() {
                        self.turn().await.distrust();
                    }
                    Reply::Failed(None)
                }
                Err(error) => {
                    self.check_error(&error);
                    Reply::Failed(None)
                }
            },
            None => Reply::Failed(None),
        }
    }

    /// Collects garbage into a new generation.
    pub(crate) async fn collect(self: Rc<Self>) -> Reply {
        let next = {
            let mut file = self.turn().await;
            if let Err(reply) = self.lead(&mut file).await {
                return reply;
            }
            file.next_generation()
        };
        let Ok(next) = next else {
            return Reply::Failed(None);
        };
        let ready = match next.prepare().await {
            Ok(ready) => ready,
            // The file may have been replaced by one without the commits, as the node did not hold the turn.
            Err(_) => return Reply::Failed(None),
        };
        let mut file = self.turn().await;
        match file.switch(ready, &Unit::Nothing).await {
            Ok(Outcome::Switched) => Reply::Done,
            Ok(Outcome::NotSwitched) => Reply::Failed(None),
            Ok(Outcome::Unknown) => Reply::Unknown,
            Err(error) => {
                self.check_error(&error);
                Reply::Failed(None)
            }
        }
    }

    /// Makes the database, before the faults begin.
    pub(crate) async fn found(self: Rc<Self>) -> Reply {
        let mut file = self.turn().await;
        if let Err(reply) = self.lead(&mut file).await {
            return reply;
        }
        self.file.create().await;
        match self.file.write(0, 0).await {
            Ok(head) => self.ship(&mut file, head, &Unit::Append { ids: vec![0], base: 0, head }).await,
            Err(_) => Reply::Failed(None),
        }
    }
}

fn holder(world: &Shared, index: usize) -> Holder {
    Holder { node: index.to_string(), incarnation: u128::from(world.borrow_mut().random.next()) }
}
