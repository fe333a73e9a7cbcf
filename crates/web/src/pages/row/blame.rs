//! The commits that the cells of a row are from.

use std::collections::HashMap;

use branchyard_domain::access::{DatabaseAccess, Read};
use branchyard_domain::entities::Cell;
use branchyard_domain::values::{CommitHash, PullNumber};

use crate::database::DatabaseFrame;
use crate::error_page::PageError;
use crate::format::{self, Markup};
use crate::page_context::PageContext;
use crate::rows::CellView;

/// Characters shown of a former value.
const CHARACTERS: usize = 200;

/// The commit that a cell is from.
pub(super) struct BlameView {
    pub(super) author: String,
    pub(super) when: Markup,
    pub(super) message: String,
    pub(super) href: String,
    /// The number of the pull request and its page.
    pub(super) pull: Option<(String, String)>,
    /// The value before.
    pub(super) before: Option<CellView>,
}

/// The commits of a row, by column.
#[derive(Default)]
pub(super) struct RowBlames {
    columns: HashMap<String, BlameView>,
    /// Says so if the commits of some cells were not found.
    pub(super) gap: Option<&'static str>,
}

impl RowBlames {
    pub(super) fn take(&mut self, column: &str) -> Option<BlameView> {
        self.columns.remove(column)
    }
}

/// Finds the commit of each cell of the row with a key.
pub(super) async fn find(
    visit: &PageContext,
    access: &DatabaseAccess<Read>,
    frame: &DatabaseFrame,
    commit: &CommitHash,
    table: &str,
    key: &[(String, String)],
) -> Result<RowBlames, PageError> {
    let cell = |(column, text): &(String, String)| (column.clone(), Cell::Text(text.clone().into_bytes()));
    let key: Vec<(String, Cell)> = key.iter().map(cell).collect();
    let (access, commit, table) = (access.clone(), commit.clone(), table.to_owned());
    let found =
        visit.run(&visit.state.sql, move |hub| hub.row_histories().blame(&access, &commit, &table, &key)).await?;
    let gap = match (found.is_complete, found.key_changed_by.is_some()) {
        (true, _) => None,
        (false, true) => {
            Some("The columns of the primary key changed, and there is no history of the row from before.")
        }
        (false, false) => {
            Some("The history is long, and not all commits were found in time. Open the row's history to look further.")
        }
    };
    let now = visit.state.services.now();
    let view = |number: PullNumber| (number.to_string(), format!("{}/pulls/{number}", frame.path));
    let columns = found.cells.into_iter().map(|cell| {
        let message = format::first_line(&cell.commit.message);
        let blame = BlameView {
            author: cell.commit.author.name,
            when: format::when(cell.commit.author.at, now),
            message: if message.trim().is_empty() { "(no message)".to_owned() } else { message },
            href: frame.commit(&cell.commit.hash),
            pull: cell.pull.map(view),
            before: cell.from.map(|before| CellView::of(&before, CHARACTERS)),
        };
        (cell.column, blame)
    });
    Ok(RowBlames { columns: columns.collect(), gap })
}
