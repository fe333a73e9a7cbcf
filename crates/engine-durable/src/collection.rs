//! Collections: the engine writes a new file, which becomes the next generation of the database.

use std::collections::BTreeSet;
use std::path::Path;

use branchyard_domain::ports::{EngineError, KeptHeads};
use branchyard_domain::values::CommitHash;
use branchyard_segments::{Outcome, ReadyGeneration, Records, run};
use parking_lot::MutexGuard;

use crate::engine::{Entry, File, of_protocol};
use crate::local_file::NewFile;

/// What a collection keeps. The new file is in the store, and in force, before it takes the place of the old one.
pub(crate) struct StoredCollection<'a, R: Records<Unit = ()>> {
    kept: &'a mut dyn KeptHeads,
    entry: &'a Entry<R>,
    /// The turn, from the moment on at which the new file is written but for what others add.
    turn: Option<MutexGuard<'a, File<R>>>,
    ready: Option<ReadyGeneration<NewFile>>,
    is_in_force: bool,
}

impl<'a, R: Records<Unit = ()>> StoredCollection<'a, R> {
    pub(crate) fn new(kept: &'a mut dyn KeptHeads, entry: &'a Entry<R>) -> Self {
        Self { kept, entry, turn: None, ready: None, is_in_force: false }
    }

    /// Ends a collection that failed. A new file may be in force and not in place: the file here is then compared with the store before
    /// its next use.
    pub(crate) fn failed(self) {
        if let (true, Some(mut file)) = (self.is_in_force, self.turn) {
            file.distrust();
        }
    }
}

impl<R: Records<Unit = ()>> KeptHeads for StoredCollection<'_, R> {
    fn heads(&mut self) -> Result<Vec<CommitHash>, EngineError> {
        self.kept.heads()
    }

    fn written(&mut self, new: &Path) -> Result<(), EngineError> {
        let next = {
            let file = self.entry.turn.lock();
            *file.ports().file.collected.lock() = Some(new.to_owned());
            file.next_generation().map_err(of_protocol)?
        };
        // Most of the file is stored while others write to the old one.
        self.ready = Some(run(next.prepare()).map_err(of_protocol)?);
        self.turn = Some(self.entry.turn.lock());
        Ok(())
    }

    fn approve(&mut self, covered: &BTreeSet<CommitHash>) -> Result<Vec<CommitHash>, EngineError> {
        self.kept.approve(covered)
    }

    fn install(&mut self, _new: &Path) -> Result<(), EngineError> {
        let (Some(ready), Some(file)) = (self.ready.take(), &mut self.turn) else {
            return Err(EngineError::Unavailable("the new file is not in the store".to_owned()));
        };
        match run(file.switch(ready, &())).map_err(of_protocol)? {
            Outcome::Switched => {
                self.is_in_force = true;
                Ok(())
            }
            Outcome::NotSwitched => {
                Err(EngineError::Unavailable("the database changed while its garbage was collected".to_owned()))
            }
            Outcome::Unknown => {
                file.distrust();
                Err(EngineError::Unavailable("the metadata store did not say whether the new file counts".to_owned()))
            }
        }
    }
}
