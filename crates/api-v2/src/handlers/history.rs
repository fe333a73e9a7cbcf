use branchyard_domain::Hub;
use branchyard_domain::access::{DatabaseAccess, Read};
use branchyard_domain::entities::{LogEntry, LogPosition, TableSchema};
use branchyard_domain::errors::ReadError;
use branchyard_domain::values::CommitHash;
use branchyard_http_common::{
    ApiError, Endpoint, HandlerError, PageRequest, RequestContext, RowKey, bound, page, section,
};
use branchyard_problem_details::{ErrorCode, Problem};

use super::rows::{self, DiffKey, WalkedRow};
use super::{HandlerResult, page_of};
use crate::wire;
use branchyard_http_common::methods::get;
use branchyard_openapi::{Credential, Success};

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section(
        "Database",
        "/databases/{owner}/{database}",
        vec![
            get("/commits", "listCommits", "Commits reachable from a ref", list_commits)
                .credential(Credential::Optional)
                .query(&["ref", "page_token", "page_size"])
                .responds(200, Success::List("Commit"), ("DL", &[422]))
                .describe(
                    "Children before parents, then newest first. All pages show the history of the commit that `ref` \
                 named on the first.",
                ),
            get("/diff", "listDiff", "Rows that differ between two refs", list_diff)
                .credential(Credential::Optional)
                .query(&["from", "to", "of_table", "merge_base", "page_token", "page_size"])
                .responds(200, Success::List("RowDiff"), ("DL", &[422]))
                .describe("All pages compare the commits that the refs named on the first."),
            get("/diff/tables", "listDiffTables", "Tables that differ between two refs", list_diff_tables)
                .credential(Credential::Optional)
                .query(&["from", "to", "of_table", "merge_base", "page_token", "page_size"])
                .responds(200, Success::List("TableDiff"), ("DL", &[422]))
                .describe("All pages compare the commits that the refs named on the first."),
            get("/schema", "listSchema", "Tables and views at a ref", list_schema)
                .credential(Credential::Optional)
                .query(&["ref", "of_table", "page_token", "page_size"])
                .responds(200, Success::List("TableSchema"), ("DL", &[422])),
        ],
    )
}

/// Parses a commit that a page token pins.
pub(crate) fn pinned(text: &str) -> Result<CommitHash, HandlerError> {
    CommitHash::parse(text).map_err(|_| HandlerError::parameter("page_token", "is not a token of this list"))
}

/// Handles `GET …/commits`.
pub(crate) async fn list_commits(call: RequestContext) -> HandlerResult {
    let access = call.access::<Read>().await?;
    let (page_request, name) = call.query(|q| {
        let page = page_of(&call, q);
        Some((page?, q.text("ref").map(str::to_owned)))
    })?;
    let bound = bound(&["commits", &access.database().id.to_string(), name.as_deref().unwrap_or_default()]);
    let start: Option<(String, Option<String>)> = call.page_key(&page_request, &bound)?;
    let start = match start {
        Some((from, after)) => {
            Some(LogPosition { from: pinned(&from)?, after: after.as_deref().map(pinned).transpose()? })
        }
        None => None,
    };
    let fetch = page_request.fetch();
    let found = call
        .read(move |hub| -> Result<_, ReadError> {
            let at = match start {
                Some(at) => at,
                None => hub.history().resolve(&access, name.as_deref())?.into(),
            };
            hub.history().commits(&access, &at, fetch)
        })
        .await?;
    let key = |entry: &LogEntry| (entry.next.from.to_string(), entry.next.after.as_ref().map(ToString::to_string));
    page(&call.state, &page_request, &bound, found, |entry| wire::Commit::from(&entry.commit), key)
}

/// Handles `GET …/schema`.
pub(crate) async fn list_schema(call: RequestContext) -> HandlerResult {
    let access = call.access::<Read>().await?;
    let (page_request, name, table) = call.query(|q| {
        let page = page_of(&call, q);
        Some((page?, q.text("ref").map(str::to_owned), q.optional("table").map(str::to_owned)))
    })?;
    let id = access.database().id.to_string();
    let bound = bound(&["schema", &id, name.as_deref().unwrap_or_default(), table.as_deref().unwrap_or_default()]);
    let start: Option<(String, String)> = call.page_key(&page_request, &bound)?;
    let start = match start {
        Some((at, after)) => Some((pinned(&at)?, after)),
        None => None,
    };
    let (at, found) = call
        .read(move |hub| -> Result<_, ReadError> {
            let (at, after) = match start {
                Some((at, after)) => (at, Some(after)),
                None => (hub.history().resolve(&access, name.as_deref())?, None),
            };
            let mut found = hub.history().tables(&access, &at)?;
            if let Some(table) = table {
                found.retain(|known| known.name == table);
                if found.is_empty() {
                    return Err(ReadError::NoSuchTable(table));
                }
            }
            found.retain(|known| after.as_ref().is_none_or(|after| known.name > *after));
            Ok((at, found))
        })
        .await?;
    let key = |table: &TableSchema| (at.to_string(), table.name.clone());
    page(&call.state, &page_request, &bound, found, |table| wire::TableSchema::from(table), key)
}

/// The query parameters of the lists of changed rows and changed tables.
struct DiffQuery {
    page: PageRequest,
    from: String,
    to: String,
    table: Option<String>,
    merge_base: bool,
}

fn diff_query(call: &RequestContext) -> Result<DiffQuery, HandlerError> {
    call.query(|q| {
        let page = page_of(call, q);
        let from = q.required_text("from").map(str::to_owned);
        let to = q.required_text("to").map(str::to_owned);
        let table = q.text("table").map(str::to_owned);
        let merge_base = q.choice("merge_base", &[("true", true), ("false", false)]).unwrap_or(false);
        Some(DiffQuery { page: page?, from: from?, to: to?, table, merge_base })
    })
}

impl DiffQuery {
    fn bound(&self, list: &str, access: &DatabaseAccess<Read>) -> String {
        let merge_base = if self.merge_base { "true" } else { "false" };
        let table = self.table.as_deref().unwrap_or_default();
        bound(&[list, &access.database().id.to_string(), &self.from, &self.to, table, merge_base])
    }

    /// Returns the two commits to compare: the pinned commits of the page token, or the commits that the refs currently resolve
    /// to.
    fn ends<K>(
        &self,
        hub: &Hub,
        access: &DatabaseAccess<Read>,
        start: Option<&DiffKey<K>>,
    ) -> Result<(CommitHash, CommitHash), ApiError> {
        if let Some(start) = start
            && let (Ok(from), Ok(to)) = (CommitHash::parse(&start.from), CommitHash::parse(&start.to))
        {
            return Ok((from, to));
        }
        let from = hub.history().resolve(access, Some(&self.from))?;
        let to = hub.history().resolve(access, Some(&self.to))?;
        if !self.merge_base {
            return Ok((from, to));
        }
        let base = hub.history().merge_base(access, &from, &to)?;
        let base = base.ok_or_else(|| Problem::new(ErrorCode::Unprocessable, "the two refs have no common history"))?;
        Ok((base, to))
    }
}

/// Handles `GET …/diff`.
pub(crate) async fn list_diff(call: RequestContext) -> HandlerResult {
    let access = call.access::<Read>().await?;
    let query = diff_query(&call)?;
    let bound = query.bound("diff", &access);
    let start: Option<DiffKey<RowKey>> = call.page_key(&query.page, &bound)?;
    let page_request = query.page.clone();
    let fetch = page_request.fetch();
    let ((from, to), found) = call
        .read(move |hub| -> Result<_, ApiError> {
            let (from, to) = query.ends(hub, &access, start.as_ref())?;
            let tables = rows::tables(hub, &access, (&from, &to), query.table.as_deref())?;
            let found = rows::walk(hub, &access, (&from, &to), &tables, start.as_ref().map(|start| &start.at), fetch)?;
            Ok(((from, to), found))
        })
        .await?;
    let key = |row: &WalkedRow| DiffKey { from: from.to_string(), to: to.to_string(), at: row.key.clone() };
    page(&call.state, &page_request, &bound, found, |row| row.shown.clone(), key)
}

/// Handles `GET …/diff/tables`.
pub(crate) async fn list_diff_tables(call: RequestContext) -> HandlerResult {
    let access = call.access::<Read>().await?;
    let query = diff_query(&call)?;
    let bound = query.bound("diff/tables", &access);
    let start: Option<DiffKey<String>> = call.page_key(&query.page, &bound)?;
    let page_request = query.page.clone();
    let ((from, to), found) = call
        .read(move |hub| -> Result<_, ApiError> {
            let (from, to) = query.ends(hub, &access, start.as_ref())?;
            let after = start.as_ref().map(|start| start.at.as_str());
            let found = rows::changed_tables(hub, &access, (&from, &to), query.table.as_deref(), after)?;
            Ok(((from, to), found))
        })
        .await?;
    let key = |change: &branchyard_domain::entities::TableChange| DiffKey {
        from: from.to_string(),
        to: to.to_string(),
        at: change.table.clone(),
    };
    page(&call.state, &page_request, &bound, found, |change| wire::TableDiff::from(change), key)
}
