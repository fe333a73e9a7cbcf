//! Making commits durable.

use super::store::Writing;
use super::{DatabaseFile, Error};
use crate::key::{ObjectKey, Purpose};
use crate::ports::{Acquired, FileError, LocalFile, Nonces, Objects, Records, RecordsError, Saved};
use crate::record::{Commit, Epoch, Extension, Generation, Known, Record, Segment};
use crate::status::State;
use std::ops::Range;

/// The outcome of [`DatabaseFile::ship`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shipped<R> {
    /// The unit is saved, and all its commits are durable.
    Saved,
    /// The unit is not saved, because its own conditions do not hold. The node still leads. The commits stay in the file as garbage.
    Refused(R),
    /// The unit is not saved and never will be, because another node leads, or may. The node does not lead any more.
    Fenced,
    /// The unit is not saved and never will be, because its transaction was lost. The caller runs the work again.
    Lost,
    /// Whether the unit is saved could not be found out, or will be known only when the transaction has ended. The caller finds out by
    /// what the unit would have changed. The node may not lead any more.
    Unknown,
}

/// Whether a change whose answer was lost took effect.
pub(super) enum Landed {
    Yes,
    /// It did not, and cannot any more.
    Never,
    Unknown,
}

impl<R: Records, O: Objects, F: LocalFile, N: Nonces> DatabaseFile<R, O, F, N> {
    /// Makes all that was committed to the file durable, and saves the unit of work that names these commits, in one transaction.
    ///
    /// The caller holds the turn since before the first of the commits, and the engine's `COMMIT` has returned for each. `heads` are
    /// the commits that the unit names. The unit can stand for several queued writes, which then share the objects and the
    /// transaction.
    ///
    /// # Errors
    ///
    /// The unit is not saved. The node still leads, unless the file is damaged or was found to be behind.
    pub async fn ship(&mut self, heads: &[Commit], unit: &R::Unit) -> Result<Shipped<R::Refusal>, Error> {
        let (known, epoch) = self.leading()?;
        let ports = self.ports.clone();
        let (from, to) = (known.length, ports.file.length().await?.unwrap_or(0));
        if to < from {
            let what = format!("it has {to} bytes, and {from} are durable");
            return Err(self.file_error(FileError::Damaged(what)));
        }
        let writing = Writing { generation: known.generation, epoch, first: Purpose::Tail };
        let segments = ports.store(writing, from..to, async |range| ports.file.read(range).await).await?;
        let last = ports.file.read(boundary(to)).await?;
        // Damage that was there when the bytes were read is still there afterwards, so the proof comes second. Until the row names
        // them, the objects are garbage.
        let proof = ports.file.prove(from..to, heads).await;
        proof.map_err(|error| self.file_error(error))?;
        if ports.file.read(boundary(from)).await? != self.last {
            // A writer that found the last root damaged takes it for a torn tail and writes over it.
            let what = format!("what ends at {from} is not what was there");
            return Err(self.file_error(FileError::Damaged(what)));
        }
        let extension = Extension { epoch, generation: known.generation, from, segments };

        self.status.begin_saving();
        match ports.records.extend(&extension, unit).await {
            Ok(Saved::Saved) => {
                self.last = last;
                self.status.set(State::Leading(Known { length: to, ..known }, epoch));
                Ok(Shipped::Saved)
            }
            Ok(Saved::Fenced) => {
                self.status.set(State::Dirty(known));
                Ok(Shipped::Fenced)
            }
            Ok(Saved::Refused(refusal)) => {
                self.status.end_saving();
                Ok(Shipped::Refused(refusal))
            }
            Err(error @ RecordsError::Unavailable(_)) => {
                self.status.end_saving();
                Err(error.into())
            }
            Err(RecordsError::Unknown(_)) => Ok(match self.look(known, to, &extension.segments).await {
                Landed::Yes => {
                    self.last = last;
                    Shipped::Saved
                }
                Landed::Never => Shipped::Lost,
                Landed::Unknown => Shipped::Unknown,
            }),
        }
    }

    /// Finds out whether an extension took effect whose answer was lost.
    ///
    /// Acquiring the lease once more ends the epoch of the extension. If it did not take effect by then, it never will.
    async fn look(&mut self, known: Known, to: u64, segments: &[Segment]) -> Landed {
        let Some(record) = self.next_epoch(known).await else {
            return Landed::Unknown;
        };
        let landed = extension_landed(&record.row, known.generation, segments);
        let durable = match landed {
            Landed::Yes => Known { length: to, ..known },
            Landed::Never | Landed::Unknown => known,
        };
        let is_next = record.row.generation == known.generation && record.row.durable_length == durable.length;
        match record.led {
            // No other node added anything, so the file is still the one that continues the durable bytes.
            Some(epoch) if is_next => self.status.set(State::Leading(durable, epoch)),
            _ => self.status.set(State::Dirty(durable)),
        }
        landed
    }

    /// Ends the present epoch, or notices that it has ended. Returns `None` if neither can be had; the node then leads no longer.
    pub(super) async fn next_epoch(&mut self, known: Known) -> Option<Ended> {
        let ports = self.ports.clone();
        let State::Leading(_, epoch) = self.status.state() else {
            return None;
        };
        // Meanwhile the node does not answer from memory, nor does it write.
        self.status.set(State::Dirty(known));
        let holder = self.status.holder()?;
        let row = match ports.records.acquire(&holder, Some(known)).await {
            Ok(Acquired::Leading(row)) => return Some(Ended { led: Some(row.epoch), row }),
            Ok(Acquired::Held(_) | Acquired::Ended) => ports.records.load(Some(known)).await.ok()?,
            Err(_) => return None,
        };
        (row.epoch > epoch).then_some(Ended { led: None, row })
    }
}

/// Returns the range of the bytes before a durable length that are remembered: as many as a root of the engine has. A root is sealed
/// with its position and what it refers to, so the same root means the same bytes before it.
pub(super) fn boundary(length: u64) -> Range<u64> {
    length.saturating_sub(169)..length
}

/// The row after an epoch ended.
pub(super) struct Ended {
    pub(super) row: Record,
    /// The next epoch, if it is this node's.
    pub(super) led: Option<Epoch>,
}

/// Returns whether the segments are in the row, or were before others compacted them.
fn extension_landed(row: &Record, generation: Generation, segments: &[Segment]) -> Landed {
    // Without segments, or in another generation, nothing in the row shows what happened.
    let Some(first) = segments.first().filter(|_| row.generation == generation) else {
        return Landed::Unknown;
    };
    if row.durable_length <= first.start {
        return Landed::Never;
    }
    match row.segments.iter().find(|segment| segment.end > first.start) {
        Some(there) if there.object == first.object => Landed::Yes,
        // The bytes behind the same length were added by another holder.
        Some(there) if there.start == first.start && is_tail(&there.object) => Landed::Never,
        _ => Landed::Unknown,
    }
}

fn is_tail(object: &str) -> bool {
    object.parse().is_ok_and(|key: ObjectKey| key.purpose == Purpose::Tail)
}
