use branchyard_domain::entities::{Change, Commit, RowChange};
use branchyard_domain::usecases::{CellBlame, RowBlame, RowRevision};
use branchyard_domain::values::PullNumber;
use branchyard_http_common::rfc3339;

use super::cells::{cell_max_bytes, row};
use crate::wire;

fn author(commit: &Commit) -> wire::CommitAuthor {
    wire::CommitAuthor { name: commit.author.name.clone(), email: commit.author.email.clone() }
}

/// Converts a change. In the history of a table it has the key of its row.
pub(crate) fn row_revision(revision: &RowRevision, is_of_table: bool) -> wire::RowRevision {
    let RowRevision { change, pull } = revision;
    let (commit, RowChange { change, primary_key, from, to, .. }) = (&change.commit, &change.row);
    let mut truncated = Vec::new();
    let cells = [from, to].into_iter().flatten().chain([primary_key]).map(Vec::len).sum();
    let most = cell_max_bytes(cells);
    wire::RowRevision {
        commit_sha: commit.hash.to_string(),
        author: author(commit),
        committed_at: rfc3339(commit.author.at),
        message: commit.message.clone(),
        pull_number: pull.map(PullNumber::get),
        primary_key: is_of_table.then(|| row(primary_key, most, &mut truncated)),
        change: match change {
            Change::Added => wire::RowChange::Added,
            Change::Removed => wire::RowChange::Removed,
            Change::Modified => wire::RowChange::Modified,
        },
        from: from.as_ref().map(|cells| row(cells, most, &mut truncated)),
        to: to.as_ref().map(|cells| row(cells, most, &mut truncated)),
        truncated_columns: truncated,
    }
}

/// Converts the commits that the cells of a row are from.
pub(crate) fn row_blame(blame: &RowBlame) -> wire::RowBlame {
    let most = cell_max_bytes(blame.cells.len());
    let column = |cell: &CellBlame| {
        let CellBlame { column, commit, from, pull } = cell;
        let mut truncated = Vec::new();
        let from = from.clone().map(|from| {
            let shown = row(&[(column.clone(), from)], most, &mut truncated);
            shown.0.into_iter().next().and_then(|(_, text)| text)
        });
        let blamed = wire::CellBlame {
            commit_sha: commit.hash.to_string(),
            author: author(commit),
            committed_at: rfc3339(commit.author.at),
            message: commit.message.clone(),
            from,
            is_truncated: !truncated.is_empty(),
            pull_number: pull.map(PullNumber::get),
        };
        (column.clone(), blamed)
    };
    wire::RowBlame {
        columns: wire::BlamedColumns(blame.cells.iter().map(column).collect()),
        complete: blame.is_complete,
        commits: blame.commits,
        key_changed_by: blame.key_changed_by.as_ref().map(ToString::to_string),
    }
}
