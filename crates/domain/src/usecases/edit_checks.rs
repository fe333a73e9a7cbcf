//! Checks of edits before they are queued: the statements of an edit run and are undone while the caller waits.
//!
//! A statement that fails ends the attempt, so that it names one row. The check goes on without this row, to find those of other rows.

use std::time::{Duration, Instant};

use super::edits::{self, EditFailure};
use super::write_previews::{self, PreviewEnd};
use super::{Inner, NewEdit, Operations};
use crate::access::visibility::live;
use crate::access::{DatabaseAccess, Write};
use crate::entities::{CellConflict, RowProblem};
use crate::errors::{EditError, OperationError, PortError};
use crate::ports::{PreviewRefusal, WritePreview};
use crate::values::{CommitHash, DatabaseId};

/// Maximum number of rows whose failures a check names.
const MOST_PROBLEMS: usize = 20;

/// What an edit would do.
#[derive(Debug, Clone, PartialEq)]
pub enum EditCheckEnd {
    /// It changes these rows.
    Changes(WritePreview),
    /// These rows cannot be edited so. A problem at line 0 is one of all rows together.
    Problems(Vec<RowProblem>),
    /// Others changed these cells since the base.
    Conflicts(Vec<CellConflict>),
    /// The table has another definition now, so that its rows cannot be compared with those of the base.
    Incomparable(String),
    /// The edit cannot be checked, but may be able to run.
    Refused(PreviewRefusal),
}

/// A check of an edit.
#[derive(Debug, Clone, PartialEq)]
pub struct EditCheck {
    /// The commit that the edit was tried on.
    pub head: CommitHash,
    /// The outcome.
    pub end: EditCheckEnd,
}

impl Operations<'_> {
    /// Tries an edit on the commit that it would be applied to now, and keeps nothing. Takes about 5 s at most.
    ///
    /// # Errors
    /// As [`Operations::edit`], except those of the queue; [`OperationError::Port`] with
    /// [`EngineError::Busy`](crate::ports::EngineError::Busy) as for [`Operations::preview_write`].
    pub fn check_edit(&self, access: &DatabaseAccess<Write>, wanted: NewEdit) -> Result<EditCheck, OperationError> {
        let inner = self.inner();
        let _slot = inner.previews.begin(access.who().id).map_err(PortError::from)?;
        let until = Instant::now() + write_previews::TIME;
        let base = edits::base_of(inner, access, &wanted)?;
        let table = edits::check(inner, access.database().id, &base, &wanted)?;
        let mut tx = inner.ports.metadata.read()?;
        let database = live(tx.as_mut(), access.database().id)?;
        let branch = edits::edited_branch(tx.as_mut(), &database, &wanted)?;
        let edit = edits::request(wanted, branch.name, base, table);
        let target = tx.branches().get(database.id, &edit.to_branch)?;
        drop(tx);
        let head = target.map_or(branch.head, |target| target.head);
        let engine = inner.ports.engine.as_ref();
        let end = match edits::statements(engine, database.id, &edit, &head, write_previews::TIME) {
            Ok(statements) => try_rows(inner, database.id, &head, &statements, until)?,
            Err(EditFailure::Conflicts { cells, .. }) => EditCheckEnd::Conflicts(cells),
            Err(EditFailure::Rows(rows)) => EditCheckEnd::Problems(rows),
            Err(EditFailure::Incomparable(detail)) => EditCheckEnd::Incomparable(detail),
            Err(EditFailure::NoSuchTable) => return Err(EditError::NoSuchTable(edit.table).into()),
            Err(EditFailure::Port(fault)) => return Err(fault.into()),
        };
        Ok(EditCheck { head, end })
    }
}

/// Runs the statements of rows, and again without those that failed.
fn try_rows(
    inner: &Inner,
    database: DatabaseId,
    head: &CommitHash,
    statements: &[String],
    until: Instant,
) -> Result<EditCheckEnd, PortError> {
    let run = |places: &[usize]| {
        let text: String = places.iter().filter_map(|place| statements.get(*place)).map(String::as_str).collect();
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        write_previews::try_statements(inner, database, (head, &text), left)
    };
    let mut places: Vec<usize> = (0..statements.len()).collect();
    let mut problems = Vec::new();
    while !places.is_empty() && problems.len() < MOST_PROBLEMS {
        let (failure, statement) = match run(&places)? {
            PreviewEnd::Changes(preview) if problems.is_empty() => return Ok(EditCheckEnd::Changes(preview)),
            PreviewEnd::Refused(refusal) if problems.is_empty() => return Ok(EditCheckEnd::Refused(refusal)),
            // The others can be edited, or there is no time left to find out.
            PreviewEnd::Changes(_) | PreviewEnd::Refused(_) => break,
            PreviewEnd::Failed { failure, statement } => (failure, statement),
        };
        let at = usize::try_from(statement).unwrap_or(1).saturating_sub(1).min(places.len() - 1);
        // References that are checked at the end fail with the number of the first statement, which may not be the reason.
        let is_of_first = at > 0 || places.len() == 1 || matches!(run(&places[..1])?, PreviewEnd::Failed { .. });
        let line = if is_of_first { places.remove(at) as u64 + 1 } else { 0 };
        problems.push(RowProblem { line, column: None, detail: failure.to_string() });
        if line == 0 {
            break;
        }
    }
    problems.sort_by_key(|problem| problem.line);
    Ok(EditCheckEnd::Problems(problems))
}
