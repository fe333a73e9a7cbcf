//! `/{owner}/{database}/sql/writes/{operation}`: the result of a write.

use askama::Template;
use branchyard_domain::access::{DatabaseAccess, Read};
use branchyard_domain::entities::{Operation, OperationStatus, Outcome, Work};
use branchyard_domain::values::OperationId;

use crate::database::{self, DatabaseFrame, DatabaseTab};
use crate::error_page::{PageError, sentence};
use crate::format::{self, Markup};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::paths;

/// Characters shown of the statements. Longer statements are not passed back to the editor.
const SHOWN: usize = 8_192;

/// The status of the write.
enum WriteStatus {
    /// The write is queued or running.
    Waiting(&'static str),
    /// The write succeeded.
    Done(WrittenOutcome),
    /// The write succeeded, but its commit is no longer reachable, for example because the branch was deleted.
    Concealed,
    /// The write failed and changed nothing.
    Failed(String),
}

struct WrittenOutcome {
    rows: Option<String>,
    /// The new commit and its page. `None` if nothing changed.
    commit: Option<(String, String)>,
    /// The path of the form for a pull request, if the commit is on a new branch.
    pull: Option<String>,
    tables: String,
}

#[derive(Template)]
#[template(path = "sql_written.html")]
struct WrittenPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    standing: WriteStatus,
    operation: OperationId,
    branch: String,
    statements: String,
    is_cut: bool,
    author: String,
    when: Markup,
    again: String,
}

/// `GET /{owner}/{database}/sql/writes/{operation}`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Read>(&visit, DatabaseTab::Sql).await?;
    let operation = operation(&visit, &access).await?;
    let id = operation.id;
    let is_concealed = operation.is_concealed();
    let Work::SqlWrite { from_branch, to_branch, statements, start, .. } = operation.work else {
        return Err(PageError::nothing_here());
    };
    // A branch that was made for the statements is offered to the default branch.
    let from = if start.is_some() { frame.default_branch.clone() } else { from_branch.to_string() };
    let branch = to_branch.to_string();
    let standing = match operation.status {
        _ if is_concealed => WriteStatus::Concealed,
        OperationStatus::Queued => WriteStatus::Waiting("Queued…"),
        OperationStatus::Running => WriteStatus::Waiting("Running…"),
        OperationStatus::Succeeded(outcome) => WriteStatus::Done(done(&frame, outcome, &from, &branch)),
        OperationStatus::Failed(failure) => WriteStatus::Failed(sentence(&failure.detail)),
    };
    let editor = format!("{}/sql/write", frame.path);
    let end = statements.char_indices().nth(SHOWN).map(|(end, _)| end);
    let is_cut = end.is_some();
    let statements = end.and_then(|end| statements.get(..end)).unwrap_or(&statements).to_owned();
    let again = paths::with_query(&editor, &[("ref", &from), ("q", if is_cut { "" } else { &statements })]);
    let author = operation.created_by_name.to_string();
    let when = format::when(operation.created_at, visit.state.services.now());
    visit.page(|shell| WrittenPage {
        shell,
        frame,
        standing,
        operation: id,
        branch,
        statements,
        is_cut,
        author,
        when,
        again,
    })
}

/// Returns the operation named in the path, if it belongs to this database.
async fn operation(visit: &PageContext, access: &DatabaseAccess<Read>) -> Result<Operation, PageError> {
    let id = OperationId::parse(&visit.segment("operation")).map_err(|_| PageError::nothing_here())?;
    let caller = visit.caller.clone();
    let found = visit.read(move |hub| hub.operations().get(&caller, id)).await?;
    if found.database_id == access.database().id { Ok(found) } else { Err(PageError::nothing_here()) }
}

fn done(frame: &DatabaseFrame, outcome: Outcome, from: &str, branch: &str) -> WrittenOutcome {
    let changed = outcome.commit.filter(|commit| outcome.previous.as_ref() != Some(commit));
    let pulls = format!("{}/pulls/new", frame.path);
    let is_for_pull = from != branch && changed.is_some();
    WrittenOutcome {
        // Definitions change without rows.
        rows: outcome.rows_affected.filter(|rows| *rows > 0).map(|rows| format::counted(rows, "row", "rows")),
        commit: changed.map(|commit| (format::short(&commit), frame.commit(&commit))),
        pull: is_for_pull.then(|| paths::with_query(&pulls, &[("from", branch), ("to", from)])),
        tables: paths::with_query(&frame.path, &[("ref", if branch == frame.default_branch { "" } else { branch })]),
    }
}
