//! Previews of writes.

use branchyard_domain::ports::{EngineError, PreviewJob, PreviewPlace, PreviewRefusal, Previewed, SqlFailure};
use branchyard_domain::values::DatabaseId;

use super::{Blame, ProcessEngine, within};
use crate::call::Ends;
use crate::messages::{Call, Preview};
use crate::process::Access;

impl ProcessEngine {
    pub(super) fn preview(&self, database: DatabaseId, job: &PreviewJob<'_>) -> Result<Previewed, EngineError> {
        let call = Call::Preview(Preview {
            base: job.base.clone(),
            statements: job.statements.to_owned(),
            timeout: job.timeout,
            rows: job.rows,
            bytes: job.bytes,
        });
        let previewed = match job.place {
            PreviewPlace::File => self.preview_in_file(database, job, &call),
            PreviewPlace::Copy => self.preview_on_copy(database, job, &call),
        };
        match previewed {
            // The worker had to be killed.
            Err(EngineError::Sql { failure: SqlFailure::TimedOut(_), .. }) => {
                Ok(Previewed::Refused(PreviewRefusal::TooLong))
            }
            previewed => previewed,
        }
    }

    fn preview_in_file(
        &self,
        database: DatabaseId,
        job: &PreviewJob<'_>,
        call: &Call,
    ) -> Result<Previewed, EngineError> {
        let _turn = self.queues.enter_within(database, job.timeout).ok_or(EngineError::Busy)?;
        let (mut ends, blame) = (Ends::default(), Blame::Statement(job.statements));
        self.call(database, Access::Write, call, &within(job.timeout), &mut ends, blame)
    }

    /// Runs a preview on a worker of its own in a private copy of the file.
    fn preview_on_copy(
        &self,
        database: DatabaseId,
        job: &PreviewJob<'_>,
        call: &Call,
    ) -> Result<Previewed, EngineError> {
        let _slot = self.preview_copies.take()?;
        let mut is_second = false;
        loop {
            let copy = self.private_copy(database, self.options.engine.trial_copy_bytes)?;
            let copy = copy.ok_or(EngineError::Busy)?;
            let mut borrowed = self.pool.take_blank_for(copy.path(), database, Access::Write, self.limits_history())?;
            borrowed.worker().is_spent = true;
            let outcome = self.run(&mut borrowed, database, call, &[], &within(job.timeout), &mut Ends::default());
            drop(borrowed);
            match outcome.result {
                // The file may have been replaced or cut off during the copy.
                Ok(Err(EngineError::NoSuchCommit(_) | EngineError::Damaged(_) | EngineError::DamagedCommit { .. }))
                    if !is_second =>
                {
                    is_second = true
                }
                Ok(previewed) => return previewed,
                Err(failed) => return Err(self.report(failed, Blame::Statement(job.statements))),
            }
        }
    }
}
