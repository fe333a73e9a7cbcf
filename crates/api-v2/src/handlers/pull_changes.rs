use branchyard_domain::Hub;
use branchyard_domain::access::{DatabaseAccess, Read};
use branchyard_domain::entities::{Conflict, Pull, PullState, TableChange};
use branchyard_domain::errors::PullError;
use branchyard_domain::usecases::PullEdges;
use branchyard_domain::values::CommitHash;
use branchyard_http_common::{
    ApiError, Endpoint, HandlerError, PageRequest, RequestContext, RowKey, bound, page, section,
};
use serde::{Deserialize, Serialize};

use super::pulls::number_of;
use super::rows::{self, DiffKey, WalkedRow};
use super::{HandlerResult, page_of};
use crate::wire;
use branchyard_http_common::methods::get;
use branchyard_openapi::{Credential, Success};

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section("Database", "/databases/{owner}/{database}/pulls/{pull_number}", vec![
get("/diff", "listPullDiff", "Rows a pull request changes", list_pull_diff).credential(Credential::Optional).query(&["of_table", "page_token", "page_size"]).responds(200, Success::List("RowDiff"), ("DL", &[422])).describe("Compares the merge base of both branches with the head of `from_branch`: for a closed pull request, \
                 the heads at which it was closed; for a merged one, the commits that the merge took. 503 while the \
                 source is being fetched."),
get("/diff/tables", "listPullDiffTables", "Tables a pull request changes", list_pull_diff_tables).credential(Credential::Optional).query(&["of_table", "page_token", "page_size"]).responds(200, Success::List("TableDiff"), ("DL", &[422])).describe("Compares the merge base of both branches with the head of `from_branch`: for a closed pull request, \
                 the heads at which it was closed; for a merged one, the commits that the merge took. 503 while the \
                 source is being fetched."),
get("/conflicts", "listPullConflicts", "Conflicts of a trial merge", list_pull_conflicts).credential(Credential::Optional).query(&["of_table", "page_token", "page_size"]).responds(200, Success::List("Conflict"), ("DL", &[422])).describe("Empty if the pull request merges cleanly or is already merged. Also answered 503 while the source is \
                 being fetched, and if the trial merge takes longer than 60 s."),
])
}

/// A list request for the rows, tables or conflicts of a pull request.
struct List {
    access: DatabaseAccess<Read>,
    pull: Pull,
    page: PageRequest,
    table: Option<String>,
    bound: String,
}

async fn list(call: &RequestContext, name: &str) -> Result<List, HandlerError> {
    let number = call.segment("pull_number");
    let (access, pull) = call
        .access_to::<Read, _, ApiError>(move |hub, access| Ok(hub.pulls().get(access, number_of(&number)?)?))
        .await?;
    let (page, table) = call.query(|q| {
        let page = page_of(call, q);
        Some((page?, q.text("table").map(str::to_owned)))
    })?;
    let (id, number) = (access.database().id.to_string(), pull.number.to_string());
    let bound = bound(&[name, &id, &number, table.as_deref().unwrap_or_default()]);
    Ok(List { access, pull, page, table, bound })
}

impl List {
    /// Checks that the next page may still be shown, and returns `true`. The changes of a pull request that is not merged may
    /// have become hidden since the first page.
    fn is_shown(&self) -> Result<bool, ApiError> {
        if !matches!(self.pull.state, PullState::Merged { .. }) {
            self.pull.shown().map_err(PullError::from)?;
        }
        Ok(true)
    }

    /// Returns the merge base and the head of the source, as pinned by the page token. The first page resolves both.
    fn ends<K>(&self, hub: &Hub, start: Option<&DiffKey<K>>) -> Result<(CommitHash, CommitHash), ApiError> {
        if let Some(start) = start
            && self.is_shown()?
            && let (Ok(from), Ok(to)) = (CommitHash::parse(&start.from), CommitHash::parse(&start.to))
        {
            return Ok((from, to));
        }
        let PullEdges { base, ours: _, theirs } = hub.pulls().edges(&self.access, &self.pull)?;
        Ok((base, theirs))
    }
}

/// Handles `GET …/pulls/{pull_number}/diff`.
pub(crate) async fn list_pull_diff(call: RequestContext) -> HandlerResult {
    let list = list(&call, "pull diff").await?;
    let start: Option<DiffKey<RowKey>> = call.page_key(&list.page, &list.bound)?;
    let (page_request, bound, fetch) = (list.page.clone(), list.bound.clone(), list.page.fetch());
    let ((from, to), found) = call
        .read(move |hub| -> Result<_, ApiError> {
            let (from, to) = list.ends(hub, start.as_ref())?;
            let tables = rows::tables(hub, &list.access, (&from, &to), list.table.as_deref())?;
            let found =
                rows::walk(hub, &list.access, (&from, &to), &tables, start.as_ref().map(|start| &start.at), fetch)?;
            Ok(((from, to), found))
        })
        .await?;
    let key = |row: &WalkedRow| DiffKey { from: from.to_string(), to: to.to_string(), at: row.key.clone() };
    page(&call.state, &page_request, &bound, found, |row| row.shown.clone(), key)
}

/// Handles `GET …/pulls/{pull_number}/diff/tables`.
pub(crate) async fn list_pull_diff_tables(call: RequestContext) -> HandlerResult {
    let list = list(&call, "pull diff/tables").await?;
    let start: Option<DiffKey<String>> = call.page_key(&list.page, &list.bound)?;
    let (page_request, bound) = (list.page.clone(), list.bound.clone());
    let ((from, to), found) = call
        .read(move |hub| -> Result<_, ApiError> {
            let (from, to) = list.ends(hub, start.as_ref())?;
            let after = start.as_ref().map(|start| start.at.as_str());
            let found = rows::changed_tables(hub, &list.access, (&from, &to), list.table.as_deref(), after)?;
            Ok(((from, to), found))
        })
        .await?;
    let key = |change: &TableChange| DiffKey { from: from.to_string(), to: to.to_string(), at: change.table.clone() };
    page(&call.state, &page_request, &bound, found, |change| wire::TableDiff::from(change), key)
}

/// The page key of conflicts: the commits of the trial merge, which all pages share, and the number of conflicts already shown.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct ConflictKey {
    base: String,
    ours: String,
    theirs: String,
    skip: usize,
}

impl ConflictKey {
    fn edges(&self) -> Option<PullEdges> {
        let parse = |text: &str| CommitHash::parse(text).ok();
        Some(PullEdges { base: parse(&self.base)?, ours: parse(&self.ours)?, theirs: parse(&self.theirs)? })
    }
}

/// Handles `GET …/pulls/{pull_number}/conflicts`.
pub(crate) async fn list_pull_conflicts(call: RequestContext) -> HandlerResult {
    let list = list(&call, "conflicts").await?;
    let start: Option<ConflictKey> = call.page_key(&list.page, &list.bound)?;
    let (page_request, bound, fetch) = (list.page.clone(), list.bound.clone(), list.page.fetch());
    let (edges, found) = call
        .read(move |hub| -> Result<_, ApiError> {
            let skip = start.as_ref().map_or(0, |start| start.skip);
            let edges = match start.as_ref().and_then(ConflictKey::edges) {
                Some(edges) if list.is_shown()? => edges,
                _ => hub.pulls().edges(&list.access, &list.pull)?,
            };
            if matches!(list.pull.state, PullState::Merged { .. }) {
                return Ok((edges, Vec::new()));
            }
            let found = hub.pulls().conflicts(&list.access, &edges, list.table.as_deref(), skip, fetch)?;
            let numbered = found.into_iter().enumerate().map(|(n, conflict)| (skip + n + 1, conflict));
            Ok((edges, numbered.collect()))
        })
        .await?;
    let key = |(shown, _): &(usize, Conflict)| ConflictKey {
        base: edges.base.to_string(),
        ours: edges.ours.to_string(),
        theirs: edges.theirs.to_string(),
        skip: *shown,
    };
    page(&call.state, &page_request, &bound, found, |(_, conflict)| wire::Conflict::from(conflict), key)
}
