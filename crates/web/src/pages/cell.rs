//! `/{owner}/{database}/tables/{table}/cell`: the bytes of one cell, as an image or as a file.

use std::ops::ControlFlow;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::header;
use branchyard_domain::access::Read;
use branchyard_domain::errors::ReadError;
use branchyard_domain::ports::{CancellationToken, Column, RowOrder, RowSink, Selection, ValueRef};
use branchyard_http_common::segment;
use branchyard_problem_details::{ErrorCode, Problem};

use crate::database::{self, DatabaseTab};
use crate::error_page::PageError;
use crate::page_context::{PageContext, PageResult};
use crate::row_cursor::RowCursor;
use crate::rows::image_type;
use crate::table_query::Looking;

/// Size limit of a cell, in bytes.
const BYTES: usize = 16 << 20;
/// Keeps what is in a cell from running, wherever it is opened.
const POLICY: &str = "default-src 'none'; sandbox";

/// The value of a cell, as far as it can be sent.
enum CellBytes {
    Text(Vec<u8>),
    Blob(Vec<u8>),
    TooLong,
}

/// Takes one cell of the first row.
struct OneCell {
    at: usize,
    found: Option<CellBytes>,
}

impl RowSink for OneCell {
    fn columns(&mut self, _: &[Column]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        self.found = row.get(self.at).and_then(|value| match value {
            ValueRef::Null => None,
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) if bytes.len() > BYTES => Some(CellBytes::TooLong),
            ValueRef::Text(bytes) => Some(CellBytes::Text(bytes.to_vec())),
            ValueRef::Blob(bytes) => Some(CellBytes::Blob(bytes.to_vec())),
            ValueRef::Integer(number) => Some(CellBytes::Text(number.to_string().into_bytes())),
            ValueRef::Real(number) => Some(CellBytes::Text(branchyard_http_common::real(*number).into_bytes())),
        });
        ControlFlow::Break(())
    }
}

/// `GET /{owner}/{database}/tables/{table}/cell?of=…&ref=…&column=…&test=…&value=…`
///
/// Sends the cell in column `of` of the first row that matches the filters. NULL is not found.
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Read>(&visit, DatabaseTab::Tables).await?;
    let at = database::at(&visit, &access, &frame).await?;
    let (name, looking, commit) = (visit.segment("table"), Looking::of(&visit), at.commit);
    let wanted = visit.parameter("of").ok_or_else(PageError::nothing_here)?;
    let state = visit.state.clone();
    let (column, found) = visit
        .run(&visit.state.sql, move |hub| -> Result<_, ReadError> {
            let schema = hub.browse().table(&access, &commit, &name)?;
            let place = schema.columns.iter().position(|column| column.name == wanted);
            let place = place.ok_or(ReadError::NoSuchColumn(wanted))?;
            let cursor = RowCursor::asked(&state, access.database().id, &schema, &looking, 1);
            let after = cursor.cells();
            let wanted = Selection {
                table: &schema.name,
                tests: &looking.tests,
                order: looking.sort.as_deref().map(|column| RowOrder { column, descending: looking.descending }),
                backwards: cursor.backwards,
                after: after.as_deref(),
                skip: cursor.skip,
                limit: 1,
                timeout: Duration::from_millis(state.config.sql.default_timeout_ms),
                canceled: CancellationToken::default(),
            };
            let mut cell = OneCell { at: place, found: None };
            hub.browse().rows(&access, &commit, &wanted, &mut cell)?;
            Ok((schema.columns.into_iter().nth(place).map(|column| column.name).unwrap_or_default(), cell.found))
        })
        .await?;
    let (media_type, ending, bytes) = match found.ok_or_else(PageError::nothing_here)? {
        CellBytes::Text(bytes) => ("text/plain; charset=utf-8", ".txt", bytes),
        CellBytes::Blob(bytes) => (image_type(&bytes).unwrap_or("application/octet-stream"), "", bytes),
        CellBytes::TooLong => {
            let detail = format!("this value has more than {} MiB; read it with SQL", BYTES >> 20);
            return Err(Problem::new(ErrorCode::PayloadTooLarge, detail).into());
        }
    };
    let disposition = if media_type.starts_with("image/") { "inline" } else { "attachment" };
    let name = format!("{disposition}; filename*=UTF-8''{}{ending}", segment(&column));
    Ok(HttpResponse::Ok()
        .content_type(media_type)
        .insert_header((header::CONTENT_DISPOSITION, name))
        .insert_header((header::CONTENT_SECURITY_POLICY, POLICY))
        .insert_header((header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"))
        .body(bytes))
}
