//! The row of a database in the metadata, and what each of its changes demands.
//!
//! The methods of [`Record`] are the reference for [`Records`](crate::Records): an implementation in SQL does in one transaction
//! what they do, with the same conditions.

use std::time::Duration;

/// The number of a file's byte sequence. Within one generation, bytes below a durable length never change. A collection of garbage
/// begins the next generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Generation(pub u64);

/// The number of an acquisition of a database's lease. Each acquisition has a higher one than all before, also if the holder stays
/// the same, so that requests which an earlier acquisition left under way have no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(pub u64);

/// A commit's hash.
pub type Commit = [u8; 20];

/// A SHA-256 hash.
pub type Sha256 = [u8; 32];

/// A run of a node. Its databases' leases hold while the lease of this run does.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Holder {
    /// The node's id.
    pub node: String,
    /// A random number of this run. A start, and a lease that ended, have another one.
    pub incarnation: u128,
}

/// A range of a file, and where its bytes are in the object store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The offset in the file of the first byte.
    pub start: u64,
    /// The offset in the file behind the last byte.
    pub end: u64,
    /// The name of the object.
    pub object: String,
    /// The offset of the first byte in the object. It is not 0 if a fork uses a part of its source's object.
    pub object_offset: u64,
    /// The hash of the range's bytes.
    pub sha256: Sha256,
}

/// The first bytes of a file that are known to be durable bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Their generation.
    pub generation: Generation,
    /// Their number.
    pub length: u64,
}

/// The row of a database.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    /// The generation in force.
    pub generation: Generation,
    /// The number of durable bytes; 0 if the file was not made yet. It is the end of a record of the engine.
    pub durable_length: u64,
    /// The newest epoch.
    pub epoch: Epoch,
    /// The holder that has this epoch. `None` if it released the lease, or if there was none yet.
    pub owner: Option<Holder>,
    /// The durable bytes in their order, without gaps; or the last of them, if the caller already has the others
    /// ([`since`](Self::since)).
    pub segments: Vec<Segment>,
}

/// What a reader's file must contain: the state of the row when the reader looked up the head it reads.
///
/// All three values, and the head, must come from one read of the metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// [`Record::generation`].
    pub generation: Generation,
    /// [`Record::durable_length`].
    pub durable_length: u64,
    /// [`Record::epoch`].
    pub epoch: Epoch,
}

/// Bytes that become durable, together with a unit of work that names commits in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extension {
    /// The epoch in which the bytes were written.
    pub epoch: Epoch,
    /// The generation of the file, which is also the one in which the unit's commits were seen.
    pub generation: Generation,
    /// The durable length behind which the segments begin.
    pub from: u64,
    /// The segments in their order. There are none if only the unit is saved.
    pub segments: Vec<Segment>,
}

impl Extension {
    /// Returns the durable length afterwards.
    #[must_use]
    pub fn to(&self) -> u64 {
        self.segments.last().map_or(self.from, |last| last.end)
    }
}

/// Segments that hold the bytes of other segments in fewer objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swap {
    /// The epoch of the row when the compaction began, which is also the one in the names of the new objects.
    pub epoch: Epoch,
    /// The generation of the bytes.
    pub generation: Generation,
    /// The segments that go: neighbors in the row, exactly as they are there.
    pub replaced: Vec<Segment>,
    /// The segments that take their place.
    pub by: Vec<Segment>,
}

/// A new generation that takes effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switch {
    /// The epoch of the lease holder.
    pub epoch: Epoch,
    /// The generation that ends.
    pub generation: Generation,
    /// Its durable length.
    pub from: u64,
    /// All bytes of the next generation.
    pub segments: Vec<Segment>,
    /// The commits that were proved to be in the new file.
    pub heads: Vec<Commit>,
}

impl Switch {
    /// Returns the generation that begins.
    #[must_use]
    pub fn next(&self) -> Generation {
        Generation(self.generation.0 + 1)
    }
}

/// A change's conditions do not hold: the lease went to another epoch, or the file changed otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the database was changed by another lease holder")]
pub struct Fenced;

/// The lease is held by another run of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The holder.
    pub owner: Holder,
    /// The time until its lease ends if it is not renewed.
    pub remaining: Duration,
}

impl Record {
    /// Takes the lease, in the next epoch.
    ///
    /// `remaining` returns for a run of a node how long its lease still holds by the clock of the records, or `None` if it has
    /// ended ([`NodeRecord::remaining`](crate::NodeRecord::remaining)). No other clock counts: the holder stops to rely on its lease
    /// before it ends there, so a successor that waits until then knows that the holder relies on nothing.
    ///
    /// # Errors
    ///
    /// The lease of another holder holds.
    pub fn acquire(
        &mut self,
        holder: &Holder,
        remaining: impl FnOnce(&Holder) -> Option<Duration>,
    ) -> Result<(), Held> {
        if let Some(owner) = self.owner.as_ref().filter(|owner| *owner != holder)
            && let Some(remaining) = remaining(owner)
        {
            return Err(Held { owner: owner.clone(), remaining });
        }
        self.epoch = Epoch(self.epoch.0 + 1);
        self.owner = Some(holder.clone());
        Ok(())
    }

    /// Makes bytes durable.
    ///
    /// # Errors
    ///
    /// The epoch, the generation or the durable length is not that of the row. Nothing is changed, and the unit must not be saved.
    pub fn extend(&mut self, extension: &Extension) -> Result<(), Fenced> {
        self.is_in_force(extension.epoch, extension.generation, extension.from)?;
        self.durable_length = extension.to();
        self.segments.extend_from_slice(&extension.segments);
        Ok(())
    }

    /// Checks that commits which were seen in this generation are still there. Each unit that stores a commit's hash must pass this
    /// check in its transaction, or [`extend`](Self::extend), which contains it.
    ///
    /// # Errors
    ///
    /// Another generation is in force, which may lack the commits. The caller looks them up again.
    pub fn saw(&self, generation: Generation) -> Result<(), Fenced> {
        if self.generation != generation {
            return Err(Fenced);
        }
        Ok(())
    }

    /// Replaces segments by others with the same bytes. No lease is needed: the row says whether the replaced segments are there.
    /// The epoch must be that of the row, so that no object of an earlier epoch is named any more ([`may_be_named`](Self::may_be_named)).
    ///
    /// # Errors
    ///
    /// The replaced segments are no longer there, or the lease was acquired meanwhile. Nothing is changed.
    pub fn swap(&mut self, swap: &Swap) -> Result<(), Fenced> {
        self.saw(swap.generation)?;
        if self.epoch != swap.epoch {
            return Err(Fenced);
        }
        let first = swap.replaced.first().ok_or(Fenced)?;
        let at = self.segments.iter().position(|segment| segment == first).ok_or(Fenced)?;
        let range = at..at + swap.replaced.len();
        if self.segments.get(range.clone()) != Some(&swap.replaced[..]) {
            return Err(Fenced);
        }
        self.segments.splice(range, swap.by.iter().cloned());
        Ok(())
    }

    /// Begins the next generation. The implementation also compares all commits that the metadata names with
    /// [`Switch::heads`], in the same transaction ([`Records::switch`](crate::Records::switch)).
    ///
    /// # Errors
    ///
    /// The epoch, the generation or the durable length is not that of the row. Nothing is changed.
    pub fn switch(&mut self, switch: &Switch) -> Result<(), Fenced> {
        self.is_in_force(switch.epoch, switch.generation, switch.from)?;
        self.generation = switch.next();
        self.durable_length = switch.segments.last().map_or(0, |last| last.end);
        self.segments.clone_from(&switch.segments);
        Ok(())
    }

    /// Ends the lease, if it still has this epoch.
    pub fn release(&mut self, epoch: Epoch) {
        if self.epoch == epoch {
            self.owner = None;
        }
    }

    /// Takes the lease from its holder, if it still has this epoch. What the holder sends later has no effect, also before another one
    /// acquires the lease.
    pub fn withdraw(&mut self, epoch: Epoch) {
        if self.epoch == epoch {
            self.owner = None;
            self.epoch = Epoch(epoch.0 + 1);
        }
    }

    /// Clears the row of a database that was removed: it has no bytes, in the next epoch and the next generation.
    pub fn clear(&mut self) {
        let (epoch, generation) = (Epoch(self.epoch.0 + 1), Generation(self.generation.0 + 1));
        *self = Self { epoch, generation, ..Self::default() };
    }

    /// Returns `true` if a request that is still under way may name an object of this epoch, which no segment names yet. All changes
    /// that add segments demand the row's epoch, and epochs only rise.
    ///
    /// An object that was named before and no longer is needs no such check: each object is named by one request only.
    #[must_use]
    pub fn may_be_named(&self, epoch: Epoch) -> bool {
        epoch >= self.epoch
    }

    /// Returns the row without the segments that a caller with these bytes does not need. The last segment is always there: the caller
    /// compares it with the end of its file.
    #[must_use]
    pub fn since(&self, known: Option<Known>) -> Self {
        let has = known.filter(|known| known.generation == self.generation).map_or(0, |known| known.length);
        let missing = self.segments.partition_point(|segment| segment.end <= has);
        let first = missing.min(self.segments.len().saturating_sub(1));
        Self { owner: self.owner.clone(), segments: self.segments[first..].to_vec(), ..*self }
    }

    /// Returns what a reader's file must contain.
    #[must_use]
    pub fn position(&self) -> Position {
        Position { generation: self.generation, durable_length: self.durable_length, epoch: self.epoch }
    }

    /// Checks that a lease holder's view of the row is the newest: its epoch, the generation and the durable length that it began
    /// with. [`extend`](Self::extend) and [`switch`](Self::switch) demand it.
    ///
    /// # Errors
    ///
    /// One of the three has changed.
    pub fn is_in_force(&self, epoch: Epoch, generation: Generation, length: u64) -> Result<(), Fenced> {
        self.saw(generation)?;
        if self.epoch != epoch {
            return Err(Fenced);
        }
        if self.durable_length != length {
            return Err(Fenced);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(node: &str, incarnation: u128) -> Holder {
        Holder { node: node.to_owned(), incarnation }
    }

    fn segment(start: u64, end: u64) -> Segment {
        Segment { start, end, object: format!("{start}-{end}"), object_offset: 0, sha256: [0; 32] }
    }

    fn extension(record: &Record, segments: &[Segment]) -> Extension {
        Extension {
            epoch: record.epoch,
            generation: record.generation,
            from: record.durable_length,
            segments: segments.to_vec(),
        }
    }

    #[test]
    fn a_lease_that_holds_keeps_others_away() {
        let mut record = Record::default();
        let (a, b) = (holder("a", 1), holder("b", 1));
        record.acquire(&a, |_| None).unwrap();
        let left = Duration::from_secs(3);
        assert_eq!(record.acquire(&b, |_| Some(left)), Err(Held { owner: a.clone(), remaining: left }));
        assert_eq!(record.acquire(&holder("a", 2), |_| Some(left)), Err(Held { owner: a.clone(), remaining: left }));
        assert_eq!((record.epoch, record.owner.as_ref()), (Epoch(1), Some(&a)));
        record.acquire(&a, |_| Some(left)).unwrap();
        assert_eq!(record.epoch, Epoch(2));
        record.acquire(&b, |_| None).unwrap();
        assert_eq!((record.epoch, record.owner), (Epoch(3), Some(b)));
    }

    #[test]
    fn a_released_lease_is_free_and_an_old_release_changes_nothing() {
        let mut record = Record::default();
        record.acquire(&holder("a", 1), |_| None).unwrap();
        record.release(Epoch(1));
        record.acquire(&holder("b", 1), |_| Some(Duration::MAX)).unwrap();
        record.release(Epoch(1));
        assert_eq!(record.owner, Some(holder("b", 1)));
    }

    #[test]
    fn a_withdrawn_lease_is_free_and_its_holder_is_fenced() {
        let mut record = Record::default();
        record.acquire(&holder("a", 1), |_| None).unwrap();
        let late = extension(&record, &[segment(0, 4)]);
        record.withdraw(Epoch(0));
        assert_eq!(record.owner, Some(holder("a", 1)), "that was another epoch");
        record.withdraw(Epoch(1));
        assert_eq!((record.owner.clone(), record.extend(&late)), (None, Err(Fenced)));
        record.acquire(&holder("b", 1), |_| Some(Duration::MAX)).unwrap();
        record.withdraw(Epoch(1));
        assert_eq!((record.epoch, record.owner), (Epoch(3), Some(holder("b", 1))));
    }

    #[test]
    fn an_extension_needs_epoch_generation_and_length() {
        let mut record = Record::default();
        record.acquire(&holder("a", 1), |_| None).unwrap();
        let first = extension(&record, &[segment(0, 4), segment(4, 9)]);
        assert_eq!(first.to(), 9);
        for wrong in [
            Extension { epoch: Epoch(0), ..first.clone() },
            Extension { generation: Generation(1), ..first.clone() },
            Extension { from: 1, ..first.clone() },
        ] {
            assert_eq!(record.extend(&wrong), Err(Fenced));
        }
        record.extend(&first).unwrap();
        assert_eq!((record.durable_length, record.segments.len()), (9, 2));
        assert_eq!(record.extend(&first), Err(Fenced), "it is saved once");
        record.extend(&extension(&record, &[])).unwrap();
        assert_eq!(record.durable_length, 9);
    }

    #[test]
    fn a_swap_needs_the_segments_that_it_replaces() {
        let mut record = Record::default();
        let parts = [segment(0, 4), segment(4, 9), segment(9, 12)];
        record.extend(&extension(&record, &parts)).unwrap();
        let swap = Swap {
            epoch: Epoch(0),
            generation: Generation(0),
            replaced: parts[1..].to_vec(),
            by: vec![segment(4, 12)],
        };
        assert_eq!(record.swap(&Swap { epoch: Epoch(1), ..swap.clone() }), Err(Fenced));
        assert_eq!(record.swap(&Swap { generation: Generation(1), ..swap.clone() }), Err(Fenced));
        assert_eq!(record.swap(&Swap { replaced: Vec::new(), ..swap.clone() }), Err(Fenced));
        record.swap(&swap).unwrap();
        assert_eq!(record.segments, [segment(0, 4), segment(4, 12)]);
        assert_eq!(record.swap(&swap), Err(Fenced));
    }

    #[test]
    fn a_switch_replaces_all_segments() {
        let mut record = Record::default();
        record.extend(&extension(&record, &[segment(0, 4)])).unwrap();
        let switch = Switch {
            epoch: Epoch(0),
            generation: Generation(0),
            from: 4,
            segments: vec![segment(0, 3)],
            heads: Vec::new(),
        };
        assert_eq!(record.switch(&Switch { from: 3, ..switch.clone() }), Err(Fenced));
        record.switch(&switch).unwrap();
        assert_eq!((record.generation, record.durable_length), (Generation(1), 3));
        assert_eq!(record.saw(Generation(0)), Err(Fenced));
        assert_eq!(record.switch(&switch), Err(Fenced));
    }

    #[test]
    fn a_caller_receives_the_segments_that_it_lacks() {
        let mut record = Record::default();
        record.extend(&extension(&record, &[segment(0, 4), segment(4, 9)])).unwrap();
        let since =
            |generation, length| record.since(Some(Known { generation: Generation(generation), length })).segments;
        assert_eq!(record.since(None).segments.len(), 2);
        assert_eq!(since(0, 4), [segment(4, 9)]);
        assert_eq!(since(0, 5), [segment(4, 9)]);
        assert_eq!(since(0, 9), [segment(4, 9)]);
        assert_eq!(since(1, 9).len(), 2);
    }
}
