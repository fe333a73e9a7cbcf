//! The preview of an uploaded file, and the options of its import.

use askama::Template;
use branchyard_domain::Hub;
use branchyard_domain::access::{DatabaseAccess, Write};
use branchyard_domain::entities::{
    Cell, FileType, ImportOptions, RowProblem, TableKind, TableSchema, TextOptions, Upload,
};
use branchyard_domain::errors::{ImportError, ReadError};
use branchyard_domain::usecases::{ArrivedImport, Preview, PreviewOptions};
use branchyard_domain::values::UploadId;

use super::columns::{PreviewColumn, type_named};
use super::text_options::{self, DELIMITERS, ENCODINGS};
use super::{MODES, format_name};
use crate::database::{self, DatabaseFrame, DatabaseTab};
use crate::error_page::{PageError, sentence};
use crate::format;
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::paths;

/// Rows previewed, and characters shown of a value.
const ROWS: usize = 10;
const VALUE: usize = 80;
const FIELDS: &[&str] = &[
    "table_name",
    "branch_name",
    "import_operation",
    "primary_keys",
    "commit_message",
    "pull_request_branch_name",
    "delimiter",
    "encoding",
];
/// The fields of a typed delimiter and encoding, which the import repeats.
const TEXT_FIELDS: [&str; 3] = ["delimiter", "delimiter_typed", "encoding"];

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

/// A table in the file.
struct FileTable {
    name: String,
    href: String,
    is_shown: bool,
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
    /// The tables of a file that has several to choose from.
    tables: Vec<FileTable>,
    modes: Vec<(&'static str, &'static str)>,
    has_text_options: bool,
    delimiters: &'static [(&'static str, &'static str)],
    encodings: &'static [(&'static str, &'static str)],
    action: String,
}

/// Returns the database and the upload named in the path.
pub(super) async fn named(visit: &PageContext) -> Result<(DatabaseAccess<Write>, DatabaseFrame, Upload), PageError> {
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
    let mut form = Filled::default().with("file_name", file_name.clone());
    for field in TEXT_FIELDS {
        form = form.with(field, visit.parameter(field).unwrap_or_default());
    }
    let preview = look(&visit, &access, &upload, &mut form, visit.parameter("table")).await?;
    let at = access.clone();
    let existing = visit
        .read(move |hub| -> Result<_, ReadError> {
            let commit = hub.sql().resolve(&at, None)?;
            hub.history().tables(&at, &commit)
        })
        .await?;
    let (table, mode) = destination(&preview, &existing);
    let own_branch = {
        let id = upload.id.to_string();
        let name = visit.user()?.name.to_string();
        format!("{name}/import-{}", id.rsplit('-').next().unwrap_or_default())
    };
    let form = form
        .with("table_name", table)
        .with("import_operation", mode)
        .with("branch_name", frame.default_branch.clone())
        .with("landing", "branch")
        .with("pull_request_branch_name", own_branch);
    let page = page(frame, &upload, form, preview);
    visit.page(|shell| UploadPage { shell, ..page })
}

/// A preview of one table of a file.
pub(super) struct LookedAt {
    /// The table that was looked for.
    pub(super) table: String,
    /// The tables of the file, if the format has tables.
    pub(super) tables: Vec<String>,
    pub(super) preview: Preview,
}

impl LookedAt {
    /// Previews a file. `table` selects a table of the file; without one, it is named after the file.
    pub(super) fn of(
        hub: &Hub,
        access: &DatabaseAccess<Write>,
        upload: &Upload,
        (file_name, table): (&str, Option<String>),
        text: TextOptions,
    ) -> Result<Self, ImportError> {
        let is_sqlite = upload.file_type == FileType::Sqlite;
        let tables = if is_sqlite { hub.imports().file_tables(access, upload.id)? } else { Vec::new() };
        let named_after_file = table_named(file_name);
        let table = table.unwrap_or_else(|| match tables.as_slice() {
            // A table of the file that has the file's name, or else the first.
            [first, ..] => {
                let is_named = |name: &&String| name.eq_ignore_ascii_case(&named_after_file);
                tables.iter().find(is_named).unwrap_or(first).clone()
            }
            [] => named_after_file,
        });
        let options = PreviewOptions { table: table.clone(), text, limit: ROWS };
        let preview = hub.imports().preview(access, upload.id, &options)?;
        Ok(Self { table, tables, preview })
    }
}

/// Previews the file with the text options of the form, as [`LookedAt::of`] does.
async fn look(
    visit: &PageContext,
    access: &DatabaseAccess<Write>,
    upload: &Upload,
    form: &mut Filled,
    table: Option<String>,
) -> Result<LookedAt, PageError> {
    let (access, upload, file_name) = (access.clone(), upload.clone(), form.value("file_name").to_owned());
    let text = if upload.file_type.has_text_options() { text_options::chosen(form) } else { TextOptions::default() };
    let looking = move |hub: &Hub| LookedAt::of(hub, &access, &upload, (&file_name, table), text);
    Ok(visit.run(&visit.state.uploads, move |hub| looking(hub)).await?)
}

/// Returns the table and the mode that are proposed: those that can succeed, and change least.
fn destination(looked: &LookedAt, existing: &[TableSchema]) -> (String, &'static str) {
    let table = looked.table.clone();
    let Some(found) = existing.iter().find(|one| one.name.eq_ignore_ascii_case(&table)) else {
        return (table, "create");
    };
    let Preview::Rows { columns, .. } = &looked.preview else { return (table, "overwrite") };
    let has = |name: &String| columns.iter().any(|column| column.name.eq_ignore_ascii_case(name));
    let fits = found.kind == TableKind::Table
        && columns.iter().all(|column| found.columns.iter().any(|one| one.name.eq_ignore_ascii_case(&column.name)));
    if fits && !found.primary_key.is_empty() && found.primary_key.iter().all(has) {
        return (table, "update");
    }
    if fits {
        return (table, "replace");
    }
    // The name selects the table of a file that has several, so it stays.
    if looked.tables.len() > 1 {
        return (table, "overwrite");
    }
    let is_free = |name: &String| !existing.iter().any(|one| one.name.eq_ignore_ascii_case(name));
    let free = (2..1_000).map(|number| format!("{table}_{number}")).find(is_free);
    (free.unwrap_or(table), "create")
}

fn page(frame: DatabaseFrame, upload: &Upload, form: Filled, looked: LookedAt) -> UploadPage {
    let action = format!("{}/imports/uploads/{}", frame.path, upload.id);
    let file_name = form.value("file_name").to_owned();
    let table = |name: &String| FileTable {
        href: paths::with_query(&action, &[("name", file_name.as_str()), ("table", name.as_str())]),
        is_shown: name.eq_ignore_ascii_case(&looked.table),
        name: name.clone(),
    };
    UploadPage {
        shell: LayoutContext::default(),
        tables: looked.tables.iter().map(table).collect(),
        looked: outcome(looked.preview, &form),
        file_name,
        form,
        format: format_name(upload.file_type),
        size: format::size(upload.content_length),
        modes: MODES.iter().map(|(name, _, text)| (*name, *text)).collect(),
        has_text_options: upload.file_type.has_text_options(),
        delimiters: &DELIMITERS,
        encodings: &ENCODINGS,
        action,
        frame,
    }
}

fn outcome(preview: Preview, form: &Filled) -> PreviewOutcome {
    match preview {
        Preview::Rows { columns, primary_key, spelling, rows } => {
            let chosen = form.all("column_types");
            let column = |(at, column): (usize, branchyard_domain::ports::InferredColumn)| {
                let is_key = primary_key.contains(&column.name) || form.has("primary_keys", &column.name);
                PreviewColumn::new(column, spelling.get(at), is_key, chosen.get(at).copied())
            };
            PreviewOutcome::Rows {
                columns: columns.into_iter().enumerate().map(column).collect(),
                rows: rows.iter().map(|row| row.iter().map(value).collect()).collect(),
            }
        }
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
    let mut form = posted.form.again();
    let text =
        if upload.file_type.has_text_options() { text_options::chosen(&mut form) } else { TextOptions::default() };
    let is_script = upload.file_type == FileType::Sql;
    let word = if is_script { "create".to_owned() } else { posted.form.line("import_operation") };
    let mode = MODES.iter().find(|(name, ..)| *name == word);
    let form = match mode {
        None => form.wrong("import_operation", "Choose a mode from the list."),
        Some(_) if form.has_faults() => form,
        Some((name, mode, _)) => {
            let typed = posted.form.line("primary_keys_typed");
            let typed = typed.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
            // An existing table keeps the types of its columns.
            let is_new = matches!(*name, "create" | "overwrite") && !is_script;
            let types = posted.form.all("columns").into_iter().zip(posted.form.all("column_types"));
            let types = types.filter_map(|(column, name)| Some((column, type_named(&name)?)));
            let wanted = ArrivedImport {
                branch: posted.form.line("branch_name"),
                table: if is_script { String::new() } else { posted.form.line("table_name") },
                file_name: posted.form.line("file_name"),
                mode: *mode,
                primary_keys: posted.form.all("primary_keys").into_iter().chain(typed).collect(),
                message: Some(posted.form.line("commit_message")),
                pull_branch: (posted.form.line("landing") == "pull")
                    .then(|| posted.form.line("pull_request_branch_name")),
                options: ImportOptions { column_types: types.filter(|_| is_new).collect(), text },
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
    let mut form = form;
    let table = Some(form.value("table_name").to_owned()).filter(|table| !table.is_empty());
    let looked = look(&posted, &access, &upload, &mut form, table).await?;
    let page = page(frame, &upload, form, looked);
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
