//! The import of a new database's first file, which starts without a question if there is nothing to choose.

use actix_web::HttpResponse;
use branchyard_domain::Hub;
use branchyard_domain::access::{DatabaseAccess, Write};
use branchyard_domain::entities::{ImportMode, ImportOptions, Operation, TextOptions, Upload};
use branchyard_domain::errors::ImportError;
use branchyard_domain::ports::{ColumnSpelling, InferredColumn};
use branchyard_domain::usecases::{ArrivedImport, Preview};
use serde_json::json;

use super::columns::{changes_values, proposed, type_named};
use super::preview::{LookedAt, named};
use super::upload::next;
use crate::forms::FormPost;
use crate::page_context::PageResult;
use crate::session;

/// The name of a column of integers that is taken for the primary key if the format defines none.
const KEY: &str = "id";

/// Starts the import of an arrived file with what its preview proposes. Returns `None` if the preview has to be looked at: the file
/// cannot be imported as it is, has several tables or values that a column would spell differently, or is too long for a preview.
pub(in crate::pages) fn start_proposed(
    hub: &Hub,
    access: &DatabaseAccess<Write>,
    upload: &Upload,
    file_name: &str,
) -> Result<Option<Operation>, ImportError> {
    let looked = LookedAt::of(hub, access, upload, (file_name, None), TextOptions::default())?;
    if looked.tables.len() > 1 {
        return Ok(None);
    }
    let (table, primary_keys, column_types) = match looked.preview {
        Preview::Script => (String::new(), Vec::new(), Vec::new()),
        Preview::Rows { columns, primary_key, spelling, .. } => {
            let types = columns.iter().enumerate().map(|(at, column)| (column, proposal(column, spelling.get(at))));
            let types: Vec<(&InferredColumn, String)> = types.collect();
            if types.iter().enumerate().any(|(at, (_, name))| changes_values(spelling.get(at), name)) {
                return Ok(None);
            }
            let key = if primary_key.is_empty() { likely_key(&types) } else { primary_key };
            let types = types.iter().filter_map(|(column, name)| Some((column.name.clone(), type_named(name)?)));
            let types = types.collect();
            (looked.table, key, types)
        }
        Preview::Refused { .. } | Preview::TooSlow => return Ok(None),
    };
    let wanted = ArrivedImport {
        branch: access.database().default_branch.to_string(),
        table,
        file_name: file_name.to_owned(),
        mode: ImportMode::Create,
        primary_keys,
        message: None,
        pull_branch: None,
        options: ImportOptions { column_types: column_types.into_iter().collect(), text: TextOptions::default() },
    };
    match hub.imports().start_arrived(access, upload.id, wanted) {
        Ok(operation) => Ok(Some(operation)),
        // Such as a table name that is reserved.
        Err(ImportError::Fields(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn proposal(column: &InferredColumn, spelling: Option<&ColumnSpelling>) -> String {
    proposed(&column.declared_type, spelling)
}

/// Returns the column that is named as keys are, if it holds integers.
fn likely_key(types: &[(&InferredColumn, String)]) -> Vec<String> {
    let is_key =
        |(column, name): &&(&InferredColumn, String)| column.name.eq_ignore_ascii_case(KEY) && name == "INTEGER";
    types.iter().find(is_key).map(|(column, _)| column.name.clone()).into_iter().collect()
}

/// `POST /{owner}/{database}/imports/uploads/{upload}/start`: starts the import of a file that a script uploaded for a new database.
/// Answers with the page to go on with.
pub(crate) async fn start_at_once(posted: FormPost) -> PageResult {
    let (access, frame, upload) = named(&posted).await?;
    posted.check_writable()?;
    let file_name = posted.form.line("file_name");
    let preview = next(&frame.path, upload.id, &file_name);
    let started =
        posted.run(&posted.state.uploads, move |hub| start_proposed(hub, &access, &upload, &file_name)).await?;
    let next = started.map_or(preview, |operation| format!("{}/operations/{}", frame.path, operation.id));
    let notice = session::notice(&posted.state, &format!("{}/{} was created.", frame.owner, frame.name));
    let header = (actix_web::http::header::SET_COOKIE, notice);
    Ok(HttpResponse::Ok().append_header(header).json(json!({"next": next})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_of_integers_that_is_called_id_is_the_key() {
        let column = |name: &str| InferredColumn { name: name.to_owned(), declared_type: String::new() };
        let (name, id) = (column("name"), column("Id"));
        let key = |of: &str| likely_key(&[(&name, "INTEGER".to_owned()), (&id, of.to_owned())]);
        assert_eq!(key("INTEGER"), ["Id"]);
        assert!(key("TEXT").is_empty());
    }
}
