//! Beginning a new generation: collecting garbage in a copy.

use super::ship::boundary;
use super::store::Writing;
use super::{DatabaseFile, Error, Ports};
use crate::key::Purpose;
use crate::ports::{Draft, FileError, LocalFile, Nonces, Objects, Records, RecordsError, Switched};
use crate::record::{Commit, Epoch, Generation, Known, Record, Segment, Switch};
use crate::status::State;
use std::sync::Arc;

/// How often commits that appeared meanwhile are brought over before the attempt is given up. Each round brings over those of the
/// round before, which takes far less time than it takes to make as many.
const ROUNDS: u32 = 8;

/// A new generation that is not prepared yet.
#[derive(Debug)]
pub struct NextGeneration<R, O, F, N> {
    ports: Arc<Ports<R, O, F, N>>,
    generation: Generation,
    epoch: Epoch,
}

/// A new generation whose bytes are in the store, but for those that were committed since it was prepared.
#[derive(Debug)]
pub struct ReadyGeneration<D> {
    /// The generation that is to end.
    generation: Generation,
    /// The epoch in which the bytes were stored. In a later one they may have been deleted, as nothing named them.
    epoch: Epoch,
    draft: D,
    segments: Vec<Segment>,
}

/// The outcome of [`DatabaseFile::switch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The next generation is in force, and the unit is saved.
    Switched,
    /// The old generation is in force, and the unit is not saved.
    NotSwitched,
    /// Which generation is in force is not known. The next [`DatabaseFile::lead`] or [`DatabaseFile::follow`] finds out.
    Unknown,
}

impl<R: Records, O: Objects, F: LocalFile, N: Nonces> DatabaseFile<R, O, F, N> {
    /// Returns the next generation, to be prepared without the turn.
    ///
    /// # Errors
    ///
    /// The node does not lead the database.
    pub fn next_generation(&self) -> Result<NextGeneration<R, O, F, N>, Error> {
        let (known, epoch) = self.leading()?;
        Ok(NextGeneration { ports: self.ports.clone(), generation: known.generation, epoch })
    }

    /// Lets a prepared generation take effect: brings over what was committed since, and replaces all segments of the row. The
    /// unit is what else is to be saved with it, such as the end of the operation that asked for it.
    ///
    /// Commits that were not shipped, or that no unit names, are lost. The bytes of the old generation can be collected after a
    /// while, but nodes may still read them.
    ///
    /// # Errors
    ///
    /// The old generation is in force, and the unit is not saved. Or, if the error is about the file, the new one is, and the local
    /// file is replaced at its next use.
    pub async fn switch(&mut self, ready: ReadyGeneration<F::Draft>, unit: &R::Unit) -> Result<Outcome, Error> {
        let (known, epoch) = self.leading()?;
        let ReadyGeneration { generation, epoch: prepared_in, mut draft, mut segments } = ready;
        if generation != known.generation || epoch != prepared_in {
            return Ok(Outcome::NotSwitched);
        }
        let ports = self.ports.clone();
        let mut heads = ports.records.heads().await?;
        for _ in 0..ROUNDS {
            if let Err(error) = bring_over(&mut draft, &heads).await {
                // What the metadata name may have been written by a successor.
                return match self.has_successor(known, epoch).await? {
                    true => Ok(Outcome::NotSwitched),
                    false => Err(self.file_error(error)),
                };
            }
            let stored = segments.last().map_or(0, |last| last.end);
            let writing = Writing { generation: Generation(generation.0 + 1), epoch, first: Purpose::Part };
            let read = async |range| draft.read(range).await;
            segments.extend(ports.store(writing, stored..draft.length().await?, read).await?);
            let switch = Switch { epoch, generation, from: known.length, segments, heads };
            match ports.records.switch(&switch, unit).await {
                Ok(Switched::Switched) => {
                    self.install(&switch, draft, epoch).await?;
                    return Ok(Outcome::Switched);
                }
                Ok(Switched::Fenced) => {
                    self.status.set(State::Dirty(known));
                    return Ok(Outcome::NotSwitched);
                }
                Ok(Switched::Lacking(more)) => Switch { segments, heads, .. } = switch_with(switch, more),
                Err(error @ RecordsError::Unavailable(_)) => return Err(error.into()),
                Err(RecordsError::Unknown(_)) => return self.look_switched(known, &switch, draft).await,
            }
        }
        Ok(Outcome::NotSwitched)
    }

    /// Looks whether the lease went to another holder.
    async fn has_successor(&mut self, known: Known, epoch: Epoch) -> Result<bool, Error> {
        let row = self.ports.records.load(Some(known)).await?;
        let is_over = row.is_in_force(epoch, known.generation, known.length).is_err();
        if is_over {
            self.status.set(State::Dirty(known));
        }
        Ok(is_over)
    }

    /// Finds out whether a switch took effect whose answer was lost, as for an extension.
    async fn look_switched(&mut self, known: Known, switch: &Switch, draft: F::Draft) -> Result<Outcome, Error> {
        let Some(ended) = self.next_epoch(known).await else {
            return Ok(Outcome::Unknown);
        };
        let has_landed = has_switched(&ended.row, switch);
        let is_next = has_landed && ended.row.durable_length == length(switch);
        let is_same = ended.row.generation == known.generation && ended.row.durable_length == known.length;
        match ended.led {
            Some(epoch) if is_next => self.install(switch, draft, epoch).await?,
            Some(epoch) if is_same => self.status.set(State::Leading(known, epoch)),
            _ => {}
        }
        Ok(match has_landed {
            true => Outcome::Switched,
            false if ended.row.generation == known.generation => Outcome::NotSwitched,
            false => Outcome::Unknown,
        })
    }

    /// Puts the file of the generation that is now in force in place.
    async fn install(&mut self, switch: &Switch, draft: F::Draft, epoch: Epoch) -> Result<(), Error> {
        let known = Known { generation: switch.next(), length: length(switch) };
        let holder = self.status.holder();
        let old = Known { generation: switch.generation, length: switch.from };
        // The file of the old generation stays readable until it is replaced, but is not written to.
        self.status.set(State::Dirty(old));
        let last = draft.read(boundary(known.length)).await?;
        self.ports.file.install(draft).await?;
        self.last = last;
        match holder {
            Some(holder) => self.status.lead(known, epoch, &holder),
            None => self.status.set(State::Dirty(known)),
        }
        Ok(())
    }
}

impl<R: Records, O: Objects, F: LocalFile, N: Nonces> NextGeneration<R, O, F, N> {
    /// Collects what the metadata name into a new file, and stores its bytes. Reads and writes of the database go on meanwhile.
    ///
    /// # Errors
    ///
    /// Nothing changed, except that the store may have objects that no row names.
    pub async fn prepare(self) -> Result<ReadyGeneration<F::Draft>, Error> {
        let Self { ports, generation, epoch } = self;
        let heads = ports.records.heads().await?;
        let draft = ports.file.collect(&heads).await?;
        let writing = Writing { generation: Generation(generation.0 + 1), epoch, first: Purpose::Part };
        let length = draft.length().await?;
        let segments = ports.store(writing, 0..length, async |range| draft.read(range).await).await?;
        Ok(ReadyGeneration { generation, epoch, draft, segments })
    }
}

async fn bring_over(draft: &mut impl Draft, heads: &[Commit]) -> Result<(), FileError> {
    draft.bring_over(heads).await?;
    draft.prove(heads).await
}

/// Returns the switch with further commits that are to be in the new file.
fn switch_with(mut switch: Switch, more: Vec<Commit>) -> Switch {
    switch.heads.extend(more);
    switch
}

fn length(switch: &Switch) -> u64 {
    switch.segments.last().map_or(0, |last| last.end)
}

/// Returns `true` if the row's generation is the one that the switch began.
fn has_switched(row: &Record, switch: &Switch) -> bool {
    let is_first = |(there, ours): (&Segment, &Segment)| there.object == ours.object;
    row.generation == switch.next() && row.segments.first().zip(switch.segments.first()).is_some_and(is_first)
}
