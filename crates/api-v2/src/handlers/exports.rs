use actix_web::HttpResponse;
use branchyard_domain::access::Read;
use branchyard_domain::usecases::ExportedRows;
use branchyard_http_common::{Endpoint, Export, ExportFormat, HandlerError, Query, RequestContext, section};

use branchyard_http_common::methods::get;
use branchyard_openapi::{Credential, Success};

/// Declares the endpoint of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section(
        "Database",
        "/databases/{owner}/{database}",
        vec![
            get("/export", "exportDatabase", "Export a commit or a table as a file", export)
                .credential(Credential::Optional)
                .query(&["export_format", "export_table", "ref", "safe"])
                .responds(200, Success::File, ("DL", &[422]))
                .describe(
                    "`sqlite`, `sql` and `zip` hold all tables, without history; `csv`, `json`, `parquet` and `xlsx` \
                     hold the table or view that `table` names. SQLite, Parquet and XLSX files are made before they \
                     are sent: they have a `Content-Length`, and `Range` is honored (206, 416). The others are \
                     streamed; one that breaks off closes the connection early. The `ETag` names the commit, except \
                     for views, which have none. A table that the format cannot hold is answered 422.",
                ),
        ],
    )
}

struct ExportRequest {
    format: ExportFormat,
    table: Option<String>,
    at: Option<String>,
    is_safe: bool,
}

fn asked(query: &Query<'_>) -> Option<ExportRequest> {
    let format = match query.required_text("format") {
        Some(_) => query.choice("format", &ExportFormat::ALL),
        None => None,
    };
    let table = query.text("table").map(str::to_owned);
    if let Some(format) = format {
        match (format.is_of_table(), &table) {
            (true, None) if !query.has("table") => query.fault("table", "names the table; this format holds one"),
            (false, Some(_)) => query.fault("table", "must be absent; this format holds all tables"),
            _ => {}
        }
    }
    let at = query.text("ref").map(str::to_owned);
    let is_safe = query.choice("safe", &[("true", true), ("false", false)]).unwrap_or(false);
    Some(ExportRequest { format: format?, table, at, is_safe })
}

/// Handles `GET …/export`.
pub(crate) async fn export(call: RequestContext) -> Result<HttpResponse, HandlerError> {
    let asked = call.query(asked);
    // The access error takes precedence over the error of the request.
    let access = call.access::<Read>().await?;
    let ExportRequest { format, table, at, is_safe } = asked?;
    let (seen, named) = (access.clone(), at.clone());
    let commit = call.read(move |hub| hub.sql().resolve(&seen, named.as_deref())).await?;
    let rows = ExportedRows { table: table.unwrap_or_default(), ..ExportedRows::default() };
    let at = at.unwrap_or_else(|| access.database().default_branch.to_string());
    Export { format, rows, is_safe, at }.send(&call, access, commit).await
}
