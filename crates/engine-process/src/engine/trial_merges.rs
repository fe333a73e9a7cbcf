//! Trial merges on private copies.

use branchyard_domain::ports::{Engine as _, EngineError};
use branchyard_domain::values::{CommitHash, DatabaseId};
use branchyard_engine_doltlite::{ConflictQuery, ConflictWindow, HeadPair, TrialMerges};

use super::{ProcessEngine, SHORT};
use crate::messages::Call;

impl TrialMerges for ProcessEngine {
    fn trial_base(&self, pair: &HeadPair) -> Result<Option<CommitHash>, EngineError> {
        self.merge_base(pair.database, &pair.ours, &pair.theirs)
    }

    fn is_long(&self, database: DatabaseId) -> bool {
        let length = std::fs::metadata(self.files.path(database)).map_or(0, |file| file.len());
        length > self.options.engine.trial_copy_bytes
    }

    fn try_merge(
        &self,
        pair: &HeadPair,
        base: &CommitHash,
        queries: &[ConflictQuery],
        wait_for_copy: bool,
    ) -> Result<Option<Vec<ConflictWindow>>, EngineError> {
        let engine = &self.options.engine;
        let most = if wait_for_copy { u64::MAX } else { engine.trial_copy_bytes };
        let call = Call::Trial { pair: pair.clone(), base: base.clone(), queries: queries.to_vec() };
        let mut is_second = false;
        loop {
            let Some(copy) = self.private_copy(pair.database, most)? else { return Ok(None) };
            match self.in_file(pair.database, &copy, &call, engine.trial_merge_timeout + SHORT) {
                // The file may have been replaced or cut off during the copy.
                Err(EngineError::NoSuchCommit(_) | EngineError::Damaged(_) | EngineError::DamagedCommit { .. })
                    if !is_second =>
                {
                    is_second = true;
                }
                merged => return merged.map(Some),
            }
        }
    }
}
