//! What all nodes share: the metadata store with its clock, the object store, the faults, and the oracle.

use crate::engine::{Hash, Index};
use crate::random::Random;
use branchyard_segments::{
    Acquired, Commit, Epoch, Examined, Extension, Generation, Holder, NodeRecord, Position, Record, Renewal, Saved,
    Segment, Swap, Switch, Switched,
};
use sha2::{Digest, Sha256};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

pub(crate) const NODES: usize = 3;
/// How long a lease holds, in milliseconds of the records' clock.
pub(crate) const LEASE: u64 = 300;

pub(crate) fn to_commit(hash: Hash) -> Commit {
    let mut commit = [0; 20];
    commit[..8].copy_from_slice(&hash.to_le_bytes());
    commit
}

pub(crate) fn to_hash(commit: &Commit) -> Hash {
    u64::from_le_bytes(commit[..8].try_into().unwrap())
}

/// What a client's write changes in the metadata.
#[derive(Debug, Clone)]
pub(crate) enum Unit {
    /// Moves the main branch, to which these ids were appended.
    Append { ids: Vec<u32>, base: Hash, head: Hash },
    /// Moves the side branch. Its old commit becomes garbage.
    Side(Hash),
    /// The operation was canceled meanwhile.
    Canceled,
    /// The end of a collection.
    Nothing,
}

/// How likely each fault is, in 1,000.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    pub(crate) records: u64,
    pub(crate) objects: u64,
    pub(crate) bytes: u64,
    pub(crate) files: u64,
    pub(crate) freeze: u64,
    pub(crate) crash: u64,
    /// A disk changes what a commit just wrote.
    pub(crate) damage: u64,
    /// A disk changes any byte.
    pub(crate) rot: u64,
    /// An answer takes long.
    pub(crate) slow: u64,
}

/// What happens to a request.
pub(crate) enum Fate {
    Done,
    Refused,
    RequestLost,
    AnswerLost,
    Late,
}

/// How often something happened that a simulation must reach.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) acknowledged: u64,
    pub(crate) reads: u64,
    pub(crate) reads_from_memory: u64,
    pub(crate) epochs: u64,
    pub(crate) fenced: u64,
    pub(crate) lost: u64,
    pub(crate) unknown: u64,
    pub(crate) refused: u64,
    pub(crate) swaps: u64,
    pub(crate) generations: u64,
    pub(crate) lacking: u64,
    pub(crate) tags: u64,
    pub(crate) stale_tags: u64,
    pub(crate) crashes: u64,
    pub(crate) freezes: u64,
    pub(crate) ended_leases: u64,
    pub(crate) proofs_failed: u64,
    pub(crate) late: u64,
    pub(crate) drains: u64,
    pub(crate) collected: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, (_, count)) in self.fields().into_iter().zip(other.named()) {
            *sum += count;
        }
    }

    fn fields(&mut self) -> [&mut u64; 20] {
        [
            &mut self.acknowledged,
            &mut self.reads,
            &mut self.reads_from_memory,
            &mut self.epochs,
            &mut self.fenced,
            &mut self.lost,
            &mut self.unknown,
            &mut self.refused,
            &mut self.swaps,
            &mut self.generations,
            &mut self.lacking,
            &mut self.tags,
            &mut self.stale_tags,
            &mut self.crashes,
            &mut self.freezes,
            &mut self.ended_leases,
            &mut self.proofs_failed,
            &mut self.late,
            &mut self.drains,
            &mut self.collected,
        ]
    }

    pub(crate) fn named(mut self) -> Vec<(&'static str, u64)> {
        let names = [
            "writes acknowledged",
            "reads",
            "reads from memory",
            "epochs",
            "holders fenced",
            "units lost",
            "units unknown",
            "units refused",
            "compactions",
            "generations",
            "switches that lacked commits",
            "tags",
            "tags of an old generation",
            "crashes",
            "freezes",
            "leases ended",
            "proofs failed",
            "requests carried out late",
            "drains",
            "objects collected",
        ];
        names.into_iter().zip(self.fields().map(|count| *count)).collect()
    }
}

type Effect = Box<dyn FnOnce(&mut World)>;

pub(crate) struct World {
    pub(crate) random: Random,
    /// The records' clock, in milliseconds.
    pub(crate) now: u64,
    pub(crate) faults: Faults,
    row: Record,
    pub(crate) main: Hash,
    pub(crate) side: Hash,
    tags: Vec<Hash>,
    nodes: Vec<Option<NodeRecord>>,
    objects: HashMap<String, Vec<u8>>,
    /// The objects that the row named at some time.
    named_objects: HashSet<String>,
    late: Vec<(u64, Effect)>,
    /// Whether the effect that is being applied was requested long ago.
    is_late: bool,

    // The oracle.
    /// The ids on the main branch, in order.
    pub(crate) history: Vec<u32>,
    /// The number of ids that clients know to be there.
    pub(crate) seen: usize,
    /// The durable bytes of each generation.
    pub(crate) durable: Vec<Vec<u8>>,
    /// The holder of each epoch, and whether it asked to release it.
    holders: Vec<(Holder, bool)>,
    pub(crate) counts: Counts,
    pub(crate) violation: Option<String>,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            now: 1_000,
            faults: Faults::default(),
            row: Record::default(),
            main: 0,
            side: 0,
            tags: Vec::new(),
            nodes: vec![None; NODES + 1],
            objects: HashMap::new(),
            named_objects: HashSet::new(),
            late: Vec::new(),
            is_late: false,
            history: Vec::new(),
            seen: 0,
            durable: vec![Vec::new()],
            holders: vec![(Holder { node: String::new(), incarnation: 0 }, true)],
            counts: Counts::default(),
            violation: None,
        }
    }

    /// Records what must not happen. The first one counts.
    pub(crate) fn violate(&mut self, what: impl FnOnce() -> String) {
        if self.violation.is_none() {
            self.violation = Some(what());
        }
    }

    pub(crate) fn fate(&mut self, share: u64) -> Fate {
        if !self.random.chance(share) {
            return Fate::Done;
        }
        match self.random.below(4) {
            0 => Fate::Refused,
            1 => Fate::RequestLost,
            2 => Fate::AnswerLost,
            _ => Fate::Late,
        }
    }

    /// Has a request take effect later, when its sender no longer waits for it.
    pub(crate) fn defer(&mut self, effect: impl FnOnce(&mut Self) + 'static) {
        let at = self.now + 1 + self.random.below(2 * LEASE);
        self.counts.late += 1;
        self.late.push((at, Box::new(effect)));
    }

    /// Applies what is due.
    pub(crate) fn apply_late(&mut self) {
        while let Some(at) = self.late.iter().position(|(at, _)| *at <= self.now) {
            let (_, effect) = self.late.swap_remove(at);
            self.is_late = true;
            effect(self);
            self.is_late = false;
        }
    }

    pub(crate) fn next_late(&self) -> Option<u64> {
        self.late.iter().map(|(at, _)| *at).min()
    }

    pub(crate) fn apply_all_late(&mut self) {
        while let Some(at) = self.next_late() {
            self.now = self.now.max(at);
            self.apply_late();
        }
    }

    // The object store.

    pub(crate) fn put(&mut self, object: String, bytes: Vec<u8>) {
        self.objects.insert(object, bytes);
    }

    pub(crate) fn object(&self, object: &str, start: u64, end: u64) -> Option<Vec<u8>> {
        self.objects.get(object)?.get(start as usize..end as usize).map(<[u8]>::to_vec)
    }

    /// Deletes what was never named and cannot be named any more. What was named before is what readers may be fetching; the grace time
    /// of real collections is for them.
    fn collect_objects(&mut self) {
        let Self { objects, named_objects, row, .. } = self;
        let before = objects.len();
        objects.retain(|name, _| {
            let is_named = named_objects.contains(name);
            let examined = Examined { record: row.since(None), is_named, is_doomed: false };
            !examined.is_garbage(&name.parse().unwrap(), false)
        });
        self.counts.collected += (before - self.objects.len()) as u64;
    }

    /// Returns the bytes of segments, which must be there and be right as soon as a row names them.
    fn bytes_of(&mut self, segments: &[Segment], start: u64) -> Vec<u8> {
        self.named_objects.extend(segments.iter().map(|segment| segment.object.clone()));
        let mut all = Vec::new();
        let mut at = start;
        for segment in segments {
            let length = segment.end - segment.start;
            let bytes = self.object(&segment.object, segment.object_offset, segment.object_offset + length);
            let is_right =
                bytes.as_ref().is_some_and(|bytes| <[u8; 32]>::from(Sha256::digest(bytes)) == segment.sha256);
            if !is_right || segment.start != at {
                self.violate(|| format!("the row names {segment:?}, and the store has {bytes:?}"));
            }
            all.extend(bytes.unwrap_or_default());
            at = segment.end;
        }
        all
    }

    /// Checks that the durable bytes are a whole file with all that the metadata name.
    fn check_durable(&mut self) {
        let bytes = self.durable.last().unwrap();
        let checked = Index::open(bytes).and_then(|index| {
            for head in self.named() {
                index.list(head)?;
            }
            index.list(self.main)
        });
        let is_right = checked.as_ref() == Ok(&self.history) || self.main == 0;
        if !is_right {
            let wanted = &self.history;
            let what = format!("the durable bytes have {checked:?} on the main branch instead of {wanted:?}");
            self.violate(|| what);
        }
    }

    fn named(&self) -> impl Iterator<Item = Hash> {
        [self.main, self.side].into_iter().chain(self.tags.iter().copied()).filter(|hash| *hash != 0)
    }

    // The metadata store.

    fn holder_of(&self, epoch: Epoch) -> &(Holder, bool) {
        &self.holders[epoch.0 as usize]
    }

    fn remaining(&self, holder: &Holder) -> Option<Duration> {
        let node = self.nodes.get(node_index(&holder.node))?.as_ref()?;
        node.remaining(holder.incarnation, Duration::from_millis(self.now))
    }

    pub(crate) fn start(&mut self, holder: &Holder, lease: Duration) -> Renewal {
        let now = Duration::from_millis(self.now);
        NodeRecord::start(&mut self.nodes[node_index(&holder.node)], holder.incarnation, lease, now)
    }

    pub(crate) fn renew(&mut self, holder: &Holder, lease: Duration) -> Renewal {
        let now = Duration::from_millis(self.now);
        let node = self.nodes[node_index(&holder.node)].as_mut();
        node.map_or(Renewal::Ended, |node| node.renew(holder.incarnation, lease, now))
    }

    pub(crate) fn stop(&mut self, holder: &Holder) {
        let now = Duration::from_millis(self.now);
        if let Some(node) = self.nodes[node_index(&holder.node)].as_mut() {
            node.stop(holder.incarnation, now);
        }
    }

    pub(crate) fn acquire(&mut self, holder: &Holder, known: Option<branchyard_segments::Known>) -> Acquired {
        if self.remaining(holder).is_none() {
            return Acquired::Ended;
        }
        let held = self.row.owner.as_ref().and_then(|owner| self.remaining(owner));
        if let Err(held) = self.row.acquire(holder, |_| held) {
            return Acquired::Held(held);
        }
        self.holders.push((holder.clone(), false));
        self.counts.epochs += 1;
        self.collect_objects();
        Acquired::Leading(self.row.since(known))
    }

    pub(crate) fn load(&self, known: Option<branchyard_segments::Known>) -> Record {
        self.row.since(known)
    }

    /// Returns the position and the heads of both branches, from one read.
    pub(crate) fn resolve(&self) -> (Position, Hash, Hash) {
        (self.row.position(), self.main, self.side)
    }

    /// A lease that holds keeps its holder from being fenced. A request that arrives late is not the holder's any more.
    fn check_fenced(&mut self, epoch: Epoch) {
        self.counts.fenced += 1;
        let (holder, is_released) = self.holder_of(epoch);
        let by_other = self.row.owner.as_ref().is_some_and(|owner| owner.node != holder.node);
        if by_other && !is_released && !self.is_late && self.remaining(holder).is_some() {
            let what = format!("{holder:?} was fenced by {:?} while its lease holds", self.row.owner);
            self.violate(|| what);
        }
    }

    pub(crate) fn extend(&mut self, extension: &Extension, unit: &Unit) -> Saved<&'static str> {
        if let Unit::Canceled = unit
            && self.row.is_in_force(extension.epoch, extension.generation, extension.from).is_ok()
        {
            self.counts.refused += 1;
            return Saved::Refused("canceled");
        }
        if self.row.extend(extension).is_err() {
            self.check_fenced(extension.epoch);
            return Saved::Fenced;
        }
        let bytes = self.bytes_of(&extension.segments, extension.from);
        self.durable.last_mut().unwrap().extend(bytes);
        match unit {
            Unit::Append { ids, base, head } => {
                if *base != self.main {
                    let what = format!("a write of {ids:?} follows {base:x}, and the branch was at {:x}", self.main);
                    self.violate(|| what);
                }
                if ids.iter().any(|id| self.history.contains(id)) {
                    let what = format!("a write of {ids:?} took effect twice: {:?}", self.history);
                    self.violate(|| what);
                }
                self.history.extend(ids);
                self.main = *head;
            }
            Unit::Side(head) => self.side = *head,
            Unit::Canceled | Unit::Nothing => {}
        }
        self.check_durable();
        Saved::Saved
    }

    /// Makes a tag, as a node does that does not lead the database.
    pub(crate) fn tag(&mut self, seen: Generation, commit: Hash) -> bool {
        if self.row.saw(seen).is_err() {
            self.counts.stale_tags += 1;
            return false;
        }
        self.tags.push(commit);
        self.counts.tags += 1;
        self.check_durable();
        true
    }

    pub(crate) fn swap(&mut self, swap: &Swap) -> bool {
        if self.row.swap(swap).is_err() {
            return false;
        }
        self.counts.swaps += 1;
        let all = self.row.segments.clone();
        if self.bytes_of(&all, 0) != *self.durable.last().unwrap() {
            self.violate(|| "a compaction changed the durable bytes".to_owned());
        }
        true
    }

    pub(crate) fn heads(&self) -> Vec<Commit> {
        self.named().map(to_commit).collect()
    }

    pub(crate) fn switch(&mut self, switch: &Switch) -> Switched {
        if self.row.is_in_force(switch.epoch, switch.generation, switch.from).is_err() {
            self.check_fenced(switch.epoch);
            return Switched::Fenced;
        }
        let lacking: Vec<Commit> =
            self.named().map(to_commit).filter(|commit| !switch.heads.contains(commit)).collect();
        if !lacking.is_empty() {
            self.counts.lacking += 1;
            return Switched::Lacking(lacking);
        }
        if self.row.switch(switch).is_err() {
            return Switched::Fenced;
        }
        self.counts.generations += 1;
        let bytes = self.bytes_of(&switch.segments, 0);
        self.durable.push(bytes);
        self.check_durable();
        Switched::Switched
    }

    pub(crate) fn release(&mut self, epoch: Epoch) {
        self.row.release(epoch);
    }

    /// Records that the holder asked for the release of its lease. From then on it no longer relies on the lease.
    pub(crate) fn releasing(&mut self, epoch: Epoch) {
        self.holders[epoch.0 as usize].1 = true;
    }
}

pub(crate) fn node_index(name: &str) -> usize {
    name.parse().unwrap()
}
