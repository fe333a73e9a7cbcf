//! Searches histories with what the server remembers of them.

use branchyard_domain::ports::EngineError;
use branchyard_domain::values::{CommitHash, DatabaseId};
use branchyard_engine_doltlite::{Ancestry, CommitParents};

/// Number of commits of the first look-up, and maximum of a later one. Each look-up doubles the number of the one before.
const FIRST: usize = 16;
const MOST: usize = 2048;

/// Returns for each of `commits` whether one of `heads` is it or descends from it. `look_up` returns commits of a history
/// with their parents, nearest first.
pub(crate) fn reached(
    ancestry: &Ancestry,
    database: DatabaseId,
    heads: &[CommitHash],
    commits: &[CommitHash],
    look_up: &mut dyn FnMut(&CommitHash, usize) -> Result<CommitParents, EngineError>,
) -> Result<Vec<bool>, EngineError> {
    ancestry.reached(database, heads, commits, &mut looked_up(ancestry, database, look_up))
}

/// Returns a function that looks up the parents of commits, many of a history at once, and remembers them. `look_up` is as for
/// [`reached`].
pub(crate) fn looked_up<'a>(
    ancestry: &'a Ancestry,
    database: DatabaseId,
    mut look_up: impl FnMut(&CommitHash, usize) -> Result<CommitParents, EngineError> + 'a,
) -> impl FnMut(&CommitHash) -> Result<Option<Vec<CommitHash>>, EngineError> + 'a {
    let mut limit = FIRST;
    move |at: &CommitHash| {
        let found = look_up(at, limit)?;
        limit = (limit * 2).min(MOST);
        for (commit, parents) in &found {
            ancestry.note(database, commit, parents);
        }
        Ok(found.into_iter().next().filter(|(commit, _)| commit == at).map(|(_, parents)| parents))
    }
}
