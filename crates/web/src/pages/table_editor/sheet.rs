//! `/{owner}/{database}/tables/{table}/sheet`: a page of rows to edit, and the rules of their columns.

use actix_web::HttpResponse;
use branchyard_domain::access::Write;
use branchyard_domain::entities::{ForeignKey, TableKind, TableSchema};
use branchyard_domain::errors::ReadError;
use branchyard_domain::usecases::{LookEnd, Operations};
use serde_json::{Value, json};

use super::cells;
use crate::database::{self, DatabaseFrame, DatabaseTab};
use crate::error_page::PageError;
use crate::links::referred;
use crate::page_context::{PageContext, PageResult};
use crate::paths;
use crate::table_page::{RowsFound, RowsQuery};
use crate::table_query::Looking;

/// Characters of all cells of a page, beyond which their texts are cut earlier.
const PAGE_CHARACTERS: u64 = 4 << 20;
/// Characters that are shown of every cell.
const LEAST_CHARACTERS: u64 = 120;

/// `GET /{owner}/{database}/tables/{table}/sheet?ref=…&base=…&column=…&test=…&value=…&sort=…&desc=1&rows=…&page=…`
///
/// Sends the rows of the branch `ref` at the commit `base`, without it at the head of the branch.
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Write>(&visit, DatabaseTab::Tables).await?;
    let (branch, head) = database::branch_head(&visit, &access, &frame).await?;
    let (name, looking, wanted) = (visit.segment("table"), Looking::of(&visit), visit.parameter("base"));
    let (state, at) = (visit.state.clone(), head.clone());
    let (base, found) = visit
        .run(&visit.state.sql, move |hub| -> Result<_, ReadError> {
            let base = match wanted {
                Some(text) => hub.sql().resolve(&access, Some(&text))?,
                None => at,
            };
            let columns = hub.browse().table(&access, &base, &name)?.columns.len();
            let cells = looking.rows_for(columns).saturating_mul(columns as u64).max(1);
            let whole = cells::MOST_CHARACTERS as u64;
            let characters = (PAGE_CHARACTERS / cells).clamp(LEAST_CHARACTERS, whole);
            let query = RowsQuery {
                state: &state,
                access: &access,
                commit: &base,
                table: &name,
                looking: &looking,
                page_rows: None,
                characters: usize::try_from(characters).unwrap_or(cells::MOST_CHARACTERS),
            };
            let found = query.find(hub)?;
            Ok((base, found))
        })
        .await?;
    let RowsFound { schemas, schema, place, grid, ended, .. } = found;
    if schema.kind == TableKind::View {
        return Err(PageError::nothing_here());
    }
    if let LookEnd::Failed(failure) = ended {
        return Ok(HttpResponse::UnprocessableEntity().json(json!({"error": failure.to_string()})));
    }
    let mut rows: Vec<Value> = grid.rows.iter().map(|row| row.iter().map(cells::of_view).collect()).collect();
    if place.backwards {
        rows.reverse();
    }
    let unique = schema.indexes.iter().filter(|index| index.unique && index.columns.len() == 1);
    let unique: Vec<&str> = unique.filter_map(|index| index.columns.first()).map(String::as_str).collect();
    let base = base.to_string();
    let body = json!({
        "branch": branch,
        "head": head.to_string(),
        "base": base,
        "table": schema.name,
        "columns": columns(&frame, &schemas, &schema, &base),
        "key": schema.primary_key,
        "unique": unique,
        "rows": rows,
        "choices": choices(&frame, &schema.name, &base),
        "pulls": format!("{}/pulls/new", frame.path),
        "most_rows": Operations::MOST_EDITED_ROWS,
    });
    Ok(HttpResponse::Ok().json(body))
}

/// Returns the address of the values of a table's columns at the base.
fn choices(frame: &DatabaseFrame, table: &str, base: &str) -> String {
    paths::with_query(&format!("{}/choices", frame.table_path(table)), &[("ref", base)])
}

fn columns(frame: &DatabaseFrame, schemas: &[TableSchema], schema: &TableSchema, base: &str) -> Vec<Value> {
    let is_alone = schema.primary_key.len() == 1;
    let column = |column: &branchyard_domain::entities::TableColumn| {
        // The engine numbers rows whose only key is declared so.
        let is_numbered = is_alone && column.in_primary_key && column.declared_type.eq_ignore_ascii_case("INTEGER");
        json!({
            "name": column.name,
            "type": column.declared_type,
            "affinity": cells::affinity(&column.declared_type),
            "nullable": column.nullable,
            "default": column.default,
            "key": column.in_primary_key,
            "numbered": is_numbered,
            "generated": column.is_generated,
            "refers": reference(frame, schemas, schema, &column.name, base),
        })
    };
    schema.columns.iter().map(column).collect()
}

/// Returns the column that a column refers to, if a foreign key of one column says so.
fn reference(
    frame: &DatabaseFrame,
    schemas: &[TableSchema],
    schema: &TableSchema,
    column: &str,
    base: &str,
) -> Option<Value> {
    let is_of = |key: &&ForeignKey| key.columns.len() == 1 && key.columns[0].eq_ignore_ascii_case(column);
    let key = schema.foreign_keys.iter().find(is_of)?;
    let table = schemas.iter().find(|table| table.name.eq_ignore_ascii_case(&key.references_table))?;
    let [referred] = referred(key, table) else { return None };
    Some(json!({"table": table.name, "column": referred, "choices": choices(frame, &table.name, base)}))
}
