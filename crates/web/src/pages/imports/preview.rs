//! The preview of an uploaded file, and the options of its import.

use askama::Template;
use branchyard_domain::access::{DatabaseAccess, Write};
use branchyard_domain::entities::{Cell, RowProblem, Upload};
use branchyard_domain::errors::{ImportError, ReadError};
use branchyard_domain::usecases::{ArrivedImport, Preview};
use branchyard_domain::values::UploadId;

use super::{MODES, format_name};
use crate::database::{self, DatabaseFrame, DatabaseTab};
use crate::error_page::{PageError, sentence};
use crate::format;
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};

/// Rows previewed, and characters shown of a value.
const ROWS: usize = 10;
const VALUE: usize = 80;
const FIELDS: &[&str] =
    &["table_name", "branch_name", "import_operation", "primary_keys", "commit_message", "pull_request_branch_name"];

/// A column of the file.
struct PreviewColumn {
    name: String,
    declared_type: String,
    is_key: bool,
}

/// A value of the file, possibly truncated.
struct PreviewValue {
    text: String,
    is_null: bool,
}

/// The outcome of the preview.
enum PreviewOutcome {
    Rows { columns: Vec<PreviewColumn>, rows: Vec<Vec<PreviewValue>> },
    Script,
    Refused { detail: String, problems: Vec<RowProblem> },
    TooSlow,
}

#[derive(Template)]
#[template(path = "import_upload.html")]
struct UploadPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    form: Filled,
    file_name: String,
    format: &'static str,
    size: String,
    looked: PreviewOutcome,
    modes: Vec<(&'static str, &'static str)>,
    action: String,
}

/// Returns the database and the upload named in the path.
async fn named(visit: &PageContext) -> Result<(DatabaseAccess<Write>, DatabaseFrame, Upload), PageError> {
    let (access, frame) = database::open::<Write>(visit, DatabaseTab::Imports).await?;
    let id = UploadId::parse(&visit.segment("upload")).map_err(|_| PageError::nothing_here())?;
    let seen = access.clone();
    let upload = visit
        .read(move |hub| match hub.imports().arrived(&seen, id) {
            Err(ImportError::NoSuchUpload) => Ok(None),
            other => other.map(Some),
        })
        .await?;
    Ok((access, frame, upload.ok_or_else(PageError::nothing_here)?))
}

/// `GET /{owner}/{database}/imports/uploads/{upload}?name=…&table=…`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame, upload) = named(&visit).await?;
    let file_name = visit.parameter("name").unwrap_or_else(|| "file".to_owned());
    let table = visit.parameter("table").unwrap_or_else(|| table_named(&file_name));
    let (at, wanted) = (access.clone(), table.clone());
    let exists = visit
        .read(move |hub| -> Result<_, ReadError> {
            let commit = hub.sql().resolve(&at, None)?;
            Ok(hub.history().tables(&at, &commit)?.iter().any(|one| one.name.eq_ignore_ascii_case(&wanted)))
        })
        .await?;
    let own_branch = {
        let id = upload.id.to_string();
        let name = visit.user()?.name.to_string();
        format!("{name}/import-{}", id.rsplit('-').next().unwrap_or_default())
    };
    let form = Filled::default()
        .with("file_name", file_name)
        .with("table_name", table)
        .with("import_operation", if exists { "update" } else { "create" })
        .with("branch_name", frame.default_branch.clone())
        .with("landing", "branch")
        .with("pull_request_branch_name", own_branch);
    let page = page(&visit, access, frame, &upload, form).await?;
    visit.page(|shell| UploadPage { shell, ..page })
}

async fn page(
    visit: &PageContext,
    access: DatabaseAccess<Write>,
    frame: DatabaseFrame,
    upload: &Upload,
    form: Filled,
) -> Result<UploadPage, PageError> {
    let (id, table) = (upload.id, form.value("table_name").to_owned());
    let preview = visit.run(&visit.state.uploads, move |hub| hub.imports().preview(&access, id, &table, ROWS)).await?;
    Ok(UploadPage {
        shell: LayoutContext::default(),
        file_name: form.value("file_name").to_owned(),
        form,
        format: format_name(upload.file_type),
        size: format::size(i64::try_from(upload.content_length).unwrap_or(i64::MAX)),
        looked: looked(preview),
        modes: MODES.iter().map(|(name, _, text)| (*name, *text)).collect(),
        action: format!("{}/imports/uploads/{}", frame.path, upload.id),
        frame,
    })
}

fn looked(preview: Preview) -> PreviewOutcome {
    match preview {
        Preview::Rows { columns, primary_key, rows } => PreviewOutcome::Rows {
            columns: columns
                .into_iter()
                .map(|column| PreviewColumn {
                    is_key: primary_key.contains(&column.name),
                    declared_type: if column.declared_type.is_empty() {
                        "any type".to_owned()
                    } else {
                        column.declared_type
                    },
                    name: column.name,
                })
                .collect(),
            rows: rows.iter().map(|row| row.iter().map(value).collect()).collect(),
        },
        Preview::Script => PreviewOutcome::Script,
        Preview::Refused { detail, problems } => PreviewOutcome::Refused { detail: sentence(&detail), problems },
        Preview::TooSlow => PreviewOutcome::TooSlow,
    }
}

fn value(cell: &Cell) -> PreviewValue {
    let text = match cell {
        Cell::Null => "NULL".to_owned(),
        Cell::Integer(number) => number.to_string(),
        Cell::Real(number) => number.to_string(),
        Cell::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Cell::Blob(bytes) => format::counted(u64::try_from(bytes.len()).unwrap_or(u64::MAX), "byte", "bytes"),
    };
    let is_cut = text.chars().count() > VALUE;
    let cut: String = text.chars().take(VALUE).chain(is_cut.then_some('…')).collect();
    PreviewValue { text: cut, is_null: matches!(cell, Cell::Null) }
}

/// Suggests a table name for a file: its stem, with `_` for characters that would need quoting.
fn table_named(file_name: &str) -> String {
    let stem = file_name.rsplit_once('.').map_or(file_name, |(stem, _)| stem);
    let plain: String = stem.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).take(60).collect();
    let plain = plain.trim_matches('_').to_lowercase();
    if plain.is_empty() { "imported".to_owned() } else { plain }
}

/// `POST /{owner}/{database}/imports/uploads/{upload}`
pub(crate) async fn start(posted: FormPost) -> PageResult {
    let (access, frame, upload) = named(&posted).await?;
    let form = posted.form.again();
    let mode = MODES.iter().find(|(name, ..)| *name == posted.form.line("import_operation"));
    let form = match mode {
        None => form.wrong("import_operation", "Choose a mode from the list."),
        Some((_, mode, _)) => {
            let typed = posted.form.line("primary_keys_typed");
            let typed = typed.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
            let wanted = ArrivedImport {
                branch: posted.form.line("branch_name"),
                table: posted.form.line("table_name"),
                file_name: posted.form.line("file_name"),
                mode: *mode,
                primary_keys: posted.form.all("primary_keys").into_iter().chain(typed).collect(),
                message: Some(posted.form.line("commit_message")),
                pull_branch: (posted.form.line("landing") == "pull")
                    .then(|| posted.form.line("pull_request_branch_name")),
            };
            let (with, id) = (access.clone(), upload.id);
            match posted.write(move |hub| hub.imports().start_arrived(&with, id, wanted)).await {
                Ok(operation) => {
                    return posted.redirect(&format!("{}/operations/{}", frame.path, operation.id));
                }
                Err(failure) => form.refused(failure, FIELDS)?,
            }
        }
    };
    let page = page(&posted, access, frame, &upload, form).await?;
    posted.refuse(|shell| UploadPage { shell, ..page })
}

#[cfg(test)]
mod tests {
    use super::table_named;

    #[test]
    fn tables_are_named_after_files() {
        for (file, table) in [
            ("Rivers 2024.csv", "rivers_2024"),
            ("a.b.json", "a_b"),
            ("..csv", "imported"),
            ("<b>.csv", "b"),
            ("Flüsse.xlsx", "flüsse"),
        ] {
            assert_eq!(table_named(file), table, "{file}");
        }
    }
}
