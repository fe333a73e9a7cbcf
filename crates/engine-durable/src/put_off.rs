//! Copies that are put off: until a copy is used, its row names the segments of its source.
//!
//! The node that uses a copy first takes its lease, brings those bytes, writes a file of what the copy's own refs reach, and makes it
//! the next generation. Nothing is read from the bytes of the source.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use branchyard_domain::ports::EngineError;
use branchyard_domain::values::DatabaseId;
use branchyard_segments::{Records as _, run};

use crate::engine::{DurableEngine, Entry, RecordSource, of_protocol};

/// How long a call waits for another one, or another node, to make a copy.
const WAIT: Duration = Duration::from_secs(30);
/// Time between two looks whether another node has made it.
const LOOK_EVERY: Duration = Duration::from_millis(200);

impl<S: RecordSource> DurableEngine<S> {
    /// Makes the file of a database if its copy was put off.
    pub(crate) fn make_ready(&self, database: DatabaseId) -> Result<(), EngineError> {
        self.make_ready_entry(database, &self.entry(database))
    }

    pub(crate) fn make_ready_entry(&self, database: DatabaseId, entry: &Entry<S::Records>) -> Result<(), EngineError> {
        if entry.is_made.load(Ordering::SeqCst) {
            return Ok(());
        }
        let until = Instant::now() + WAIT;
        let Some(_making) = entry.making.try_lock_until(until) else { return Err(still_being_made()) };
        if entry.is_made.load(Ordering::SeqCst) {
            return Ok(());
        }
        while self.is_row_put_off(database)? {
            let Err(error) = self.make_put_off(database, entry) else { break };
            // The other node that leads it makes it.
            if !self.is_led_elsewhere(database)? {
                return Err(error);
            }
            if Instant::now() >= until {
                return Err(still_being_made());
            }
            thread::sleep(LOOK_EVERY);
        }
        entry.is_made.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Returns `true` if the row of a database names the segments of its source.
    pub(crate) fn is_row_put_off(&self, database: DatabaseId) -> Result<bool, EngineError> {
        self.ports.records.is_put_off(database).map_err(|error| of_protocol(error.into()))
    }

    fn is_led_elsewhere(&self, database: DatabaseId) -> Result<bool, EngineError> {
        let row = run(self.ports.records.records(database).load(None)).map_err(|error| of_protocol(error.into()))?;
        Ok(row.owner.is_some_and(|owner| self.ports.node.as_ref().is_some_and(|node| node.holder() != owner)))
    }

    fn make_put_off(&self, database: DatabaseId, entry: &Entry<S::Records>) -> Result<(), EngineError> {
        let write = || {
            self.ports.files.put_off(database)?;
            self.inner().make_copy(database)
        };
        if self.ports.node.is_some() {
            return self.make(database, write);
        }
        // A command brings databases to a folder of its own, and writes none.
        entry.follow()?;
        write()
    }
}

fn still_being_made() -> EngineError {
    EngineError::Unavailable(
        "the file of this fork is being made before its first use; try again in a moment".to_owned(),
    )
}
