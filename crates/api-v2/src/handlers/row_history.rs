//! The history of rows: the changes of a row or of all rows of a table, and the commits that the cells of a row are from.

use branchyard_domain::access::Read;
use branchyard_domain::entities::Cell;
use branchyard_domain::errors::RowHistoryError;
use branchyard_domain::usecases::WantedHistory;
use branchyard_http_common::methods::get;
use branchyard_http_common::{
    ApiResponse, Endpoint, HandlerError, HistoryKey, Listed, RequestContext, bound, cut, history_from,
    parse_key_parameter, section, to_json, token,
};
use branchyard_openapi::{Credential, Success};
use branchyard_problem_details::{ErrorCode, FieldError, Problem};

use super::{HandlerResult, page_of};
use crate::convert::{row_blame, row_revision};
use crate::wire;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section(
        "Database",
        "/databases/{owner}/{database}/tables/{table}",
        vec![
            get("/history", "listRowHistory", "Changes of a row or of a table", list_row_history)
                .credential(Credential::Optional)
                .query(&["row_key", "ref", "page_token", "page_size"])
                .responds(200, Success::List("RowRevision"), ("DL", &[422]))
                .describe(
                    "Newest first: the commits that `ref` reaches and that changed the row with this `key`, or, without \
                     `key`, any row of the table. A merge is listed only if the row differs from that of all its parents. \
                     A row that was removed has a history; a row that never was is 404. A page takes 150 ms at most for \
                     looking at commits, so that it may hold few items, or none, and still have a next page; \
                     `meta.searched` says how far it looked. The history of a row ends at a commit that changed the \
                     columns of the primary key (`meta.searched.key_changed_by`). 422 for views, and for `key` if the \
                     table has no primary key.",
                ),
            get("/blame", "getRowBlame", "The commit that each cell of a row is from", get_row_blame)
                .credential(Credential::Optional)
                .query(&["needed_row_key", "ref"])
                .responds(200, Success::One("RowBlame"), ("DL", &[422]))
                .describe(
                    "Looks at commits for 2 s at most. Columns whose commit was not found by then are missing, and \
                     `complete` is false. A column that was renamed keeps its history. A cell that was not set since its \
                     column was added without a default counts to the commit that added the row. 422 as for the history.",
                ),
        ],
    )
}

/// Returns the 400 for faults of the parameter `key`.
fn key_faults(faults: impl IntoIterator<Item = String>) -> HandlerError {
    let faults: Vec<String> = faults.into_iter().collect();
    let text = faults.first().cloned().unwrap_or_default();
    let errors: Vec<FieldError> = faults.into_iter().map(|fault| FieldError::at_parameter("key", fault)).collect();
    Problem::new(ErrorCode::ValidationFailed, format!("key: {text}")).with_errors(errors).into()
}

fn parsed(key: Option<&str>) -> Result<Option<Vec<(String, Cell)>>, HandlerError> {
    key.map(parse_key_parameter).transpose().map_err(key_faults)
}

/// Handles `GET …/tables/{table}/history`.
pub(crate) async fn list_row_history(call: RequestContext) -> HandlerResult {
    let access = call.access::<Read>().await?;
    let (page_request, name, key) = call.query(|q| {
        let page = page_of(&call, q);
        Some((page?, q.text("ref").map(str::to_owned), q.text("key").map(str::to_owned)))
    })?;
    let table = call.segment("table");
    let id = access.database().id.to_string();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let bound = bound(&["row-history", &id, &text(&name), &table, &text(&key)]);
    let place: Option<HistoryKey> = call.page_key(&page_request, &bound)?;
    let (key, limit) = (parsed(key.as_deref())?, page_request.size);
    let is_of_table = key.is_none();
    let found = call
        .read(move |hub| -> Result<_, RowHistoryError> {
            let head = match place.as_ref().and_then(HistoryKey::head) {
                Some(head) => head,
                None => hub.history().resolve(&access, name.as_deref())?,
            };
            let wanted = WantedHistory { head, table, key, at: None, limit };
            history_from(hub, &access, wanted, place.as_ref())
        })
        .await?;
    let searched = wire::Searched {
        commits: found.looked.commits,
        to_commit: found.looked.last.as_ref().map(ToString::to_string),
        key_changed_by: found.looked.key_changed_by.as_ref().map(ToString::to_string),
    };
    let next = found.next.as_ref().map(|next| token(&call.state, &bound, next));
    let listed = Listed::from(found.changes);
    let shown = |(revision, _): &(_, HistoryKey)| row_revision(revision, is_of_table);
    let cut = cut(&call.state, &page_request, &bound, listed, shown, |(_, key)| key.clone())?;
    let meta = wire::HistoryMeta { next_page_token: cut.next.or(next), searched };
    let body = format!("{{\"data\":{},\"meta\":{}}}", cut.items, to_json(&meta));
    Ok(ApiResponse::with_body(200, body))
}

/// Handles `GET …/tables/{table}/blame`.
pub(crate) async fn get_row_blame(call: RequestContext) -> HandlerResult {
    let access = call.access::<Read>().await?;
    let (name, key) = call.query(|q| {
        let name = q.text("ref").map(str::to_owned);
        Some((name, q.required_text("key")?.to_owned()))
    })?;
    let (table, key) = (call.segment("table"), parse_key_parameter(&key).map_err(key_faults)?);
    let blame = call
        .read(move |hub| -> Result<_, RowHistoryError> {
            let head = hub.history().resolve(&access, name.as_deref())?;
            hub.row_histories().blame(&access, &head, &table, &key)
        })
        .await?;
    Ok(ApiResponse::resource(200, &row_blame(&blame)))
}
