//! Editing a table in the grid (`assets/table_editor/`): JSON for the script of the page of a table.
//!
//! Everything that it does is possible without a script, too: [`super::row_edit`] has a form for each row.

mod cells;
mod choices;
mod send;
mod sheet;

pub(crate) use choices::show as choices;
pub(crate) use send::{check, commit};
pub(crate) use sheet::show as sheet;

use crate::page_context::PageContext;
use crate::table_query::Looking;

/// What the script needs to know about the page.
pub(crate) struct EditorPlace {
    /// The account of the viewer. Edits that are not committed are kept in the browser under it.
    pub(crate) person: String,
    /// The branch that is edited.
    pub(crate) branch: String,
    /// The address of the rows of the page.
    pub(crate) sheet: String,
    /// The address that edits are sent to.
    pub(crate) edits: String,
}

impl EditorPlace {
    /// Returns the place of the editor on the page of a table. `None` for viewers who are not signed in.
    pub(crate) fn of(visit: &PageContext, path: &str, branch: &str, looking: &Looking) -> Option<Self> {
        let user = visit.caller.user()?;
        Some(Self {
            person: user.id.to_string(),
            branch: branch.to_owned(),
            sheet: looking.address(&format!("{path}/sheet"), branch),
            edits: format!("{path}/edits"),
        })
    }
}
