//! `/{owner}/{database}/tables/{table}/edit`: a form to add, change or delete one row. It works without JavaScript.

use askama::Template;
use branchyard_domain::access::{DatabaseAccess, Write};
use branchyard_domain::entities::{EditedValue, FailureKind, OperationStatus, RowEdit, TableKind, TableSchema};
use branchyard_domain::errors::{OperationError, PortError, ReadError};
use branchyard_domain::usecases::{LookEnd, NewEdit};
use branchyard_domain::values::{CommitHash, CommitPrefix, LongText, RefName};

use crate::database::{self, DatabaseFrame, DatabaseTab};
use crate::error_page::{PageError, sentence};
use crate::format;
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::new_branch;
use crate::page_context::{PageContext, PageResult};
use crate::paths;
use crate::rows::{CellKind, CellView};
use crate::settled;
use crate::table_page::{RowsFound, RowsQuery};
use crate::table_query::Looking;

/// Characters of a cell that can be edited.
const EDITABLE: usize = 20_000;
/// Characters from which on a value is edited in several lines.
const LONG: usize = 60;

/// A column in the form.
struct EditField {
    name: String,
    declared_type: String,
    is_key: bool,
    is_nullable: bool,
    /// The text in the field.
    value: String,
    is_null: bool,
    /// What the row has, to find out what was changed.
    was: String,
    was_null: bool,
    /// Why the value cannot be changed here.
    locked: Option<&'static str>,
}

impl EditField {
    fn is_long(&self) -> bool {
        self.value.len() > LONG || self.value.contains('\n')
    }
}

#[derive(Template)]
#[template(path = "row_edit.html")]
struct RowEditPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    table: String,
    path: String,
    branch: String,
    base: String,
    /// Whether the row exists already.
    is_update: bool,
    fields: Vec<EditField>,
    /// The values of the primary key, in its order.
    key: Vec<String>,
    form: Filled,
    /// What others changed meanwhile, worded for the editor.
    conflicts: Vec<String>,
}

/// What the form is about.
struct EditedRow {
    access: DatabaseAccess<Write>,
    frame: DatabaseFrame,
    branch: String,
    head: CommitHash,
    schema: TableSchema,
    /// The row at the head. `None` for a new row.
    cells: Option<Vec<CellView>>,
}

/// Reads the branch, the table, and the row that the query or the submitted key names.
async fn load(visit: &PageContext, looking: Looking) -> Result<EditedRow, PageError> {
    let (access, frame) = database::open::<Write>(visit, DatabaseTab::Tables).await?;
    let (branch, head) = database::branch_head(visit, &access, &frame).await?;
    let (seen, state, commit, table) = (access.clone(), visit.state.clone(), head.clone(), visit.segment("table"));
    let is_new = looking.tests.is_empty();
    let (schema, cells) = visit
        .run(&visit.state.sql, move |hub| -> Result<_, ReadError> {
            if is_new {
                return Ok((hub.browse().table(&seen, &commit, &table)?, None));
            }
            let wanted = RowsQuery {
                state: &state,
                access: &seen,
                commit: &commit,
                table: &table,
                looking: &looking,
                page_rows: Some(1),
                characters: EDITABLE,
            };
            let RowsFound { schema, grid, ended, .. } = wanted.find(hub)?;
            let cells = match ended {
                LookEnd::Done(_) => grid.rows.into_iter().next(),
                LookEnd::Failed(_) => None,
            };
            Ok((schema, cells))
        })
        .await?;
    if schema.kind == TableKind::View {
        return Err(PageError::nothing_here());
    }
    Ok(EditedRow { access, frame, branch, head, schema, cells })
}

impl EditedRow {
    /// Returns the columns of the form. `posted` has what was submitted, if the form is shown again.
    fn fields(&self, posted: Option<&Filled>) -> Vec<EditField> {
        let column = |(at, column): (usize, &branchyard_domain::entities::TableColumn)| {
            let cell = self.cells.as_ref().and_then(|cells| cells.get(at));
            let is_null = cell.map_or(column.nullable && column.default.is_none(), |cell| cell.kind == CellKind::Null);
            let was = cell.filter(|_| !is_null).map(|cell| cell.text.clone()).unwrap_or_default();
            let locked = match cell {
                Some(cell) if cell.kind == CellKind::Blob => Some("Binary values are changed with SQL or the API."),
                Some(cell) if cell.is_cut => Some("This value is too long to edit here. Use SQL or the API."),
                _ => None,
            };
            let (value, now_null) = match posted {
                Some(form) => (form.value(&format!("value-{at}")).to_owned(), form.has(&format!("null-{at}"), "yes")),
                None => (was.clone(), is_null),
            };
            EditField {
                name: column.name.clone(),
                declared_type: column.declared_type.clone(),
                is_key: column.in_primary_key,
                is_nullable: column.nullable,
                value,
                is_null: now_null,
                was,
                was_null: is_null,
                locked,
            }
        };
        self.schema.columns.iter().enumerate().map(column).collect()
    }

    /// Returns the values of the primary key. `None` if they do not identify the row.
    fn key(&self) -> Option<Vec<String>> {
        let cells = self.cells.as_ref()?;
        let value = |name: &String| {
            let at = self.schema.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name))?;
            cells.get(at).filter(|cell| cell.is_findable()).map(|cell| cell.text.clone())
        };
        if self.schema.primary_key.is_empty() { None } else { self.schema.primary_key.iter().map(value).collect() }
    }

    /// Returns the page. `posted` is the base of a form that is shown again.
    fn page(
        self,
        form: Filled,
        posted: Option<String>,
        conflicts: Vec<String>,
    ) -> Result<impl FnOnce(LayoutContext) -> RowEditPage, PageError> {
        let is_update = self.cells.is_some();
        let key = match (is_update, self.key()) {
            (false, _) => Vec::new(),
            (true, key) => key.ok_or_else(PageError::nothing_here)?,
        };
        let fields = self.fields(posted.as_ref().map(|_| &form));
        let Self { frame, branch, head, schema, .. } = self;
        let path = paths::with_query(&frame.table_path(&schema.name), &[("ref", &frame.asked_ref)]);
        let (table, base) = (schema.name, posted.unwrap_or_else(|| head.to_string()));
        Ok(move |shell| RowEditPage {
            shell,
            frame,
            table,
            path,
            branch,
            base,
            is_update,
            fields,
            key,
            form,
            conflicts,
        })
    }
}

/// `GET /{owner}/{database}/tables/{table}/edit?ref=…&column=…&test=eq&value=…`
///
/// Without a filter, the form is for a new row.
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let looking = Looking::of(&visit);
    let is_new = looking.tests.is_empty();
    let row = load(&visit, looking).await?;
    if !is_new && row.cells.is_none() {
        return Err(PageError::nothing_here());
    }
    let form = Filled::default().with("target", "branch");
    let page = row.page(form, None, Vec::new())?;
    visit.page(page)
}

/// `POST /{owner}/{database}/tables/{table}/edit?ref=…&column=…&test=eq&value=…`
pub(crate) async fn send(posted: FormPost) -> PageResult {
    let row = load(&posted, Looking::of(&posted)).await?;
    let mut form = posted.form.again();
    let message = form.checked("message", LongText::parse(posted.form.text("message")));
    let to_branch = match posted.form.line("target") == "pull" {
        true => form.checked("new_branch", RefName::parse(&posted.form.line("new_branch"))).map(Some),
        false => Some(None),
    };
    if let Some(Some(name)) = &to_branch
        && let Some(fault) = new_branch::fault(&posted, &row.access, name).await?
    {
        form.fault("new_branch", fault);
    }
    let base = CommitPrefix::parse(&posted.form.line("base"));
    let base = form.checked("", base.map_err(|_| "Reload the page: it doesn't say which version of the row it shows."));
    let edit = edited(&posted, &row.schema);
    if edit.is_none() {
        form.fault("", "Nothing was changed.");
    }
    let (Some(message), Some(to_branch), Some(base), Some(edit), false) =
        (message, to_branch, base, edit, form.has_faults())
    else {
        return again(&posted, row, form, Vec::new());
    };
    let wanted = NewEdit {
        branch: row.branch.clone(),
        to_branch: to_branch.clone(),
        base,
        table: row.schema.name.clone(),
        rows: vec![edit],
        message: Some(message),
    };
    let access = row.access.clone();
    let accepted = posted.write(move |hub| Ok::<_, PortError>(hub.operations().edit(&access, wanted, None))).await?;
    let operation = match accepted {
        Ok(operation) => operation,
        Err(OperationError::Port(fault)) => {
            return Err(PageError::refused(OperationError::Port(fault).into(), posted.request()));
        }
        Err(error) => {
            form.fault("", sentence(&error.to_string()));
            return again(&posted, row, form, Vec::new());
        }
    };
    match settled::read_soon(&posted, operation.id).await?.status {
        OperationStatus::Queued | OperationStatus::Running => {
            posted.redirect(&format!("{}/operations/{}", row.frame.path, operation.id))
        }
        OperationStatus::Succeeded(outcome) => {
            let commit = outcome.commit.as_ref().map(format::short).unwrap_or_default();
            if let Some(to_branch) = to_branch {
                let form = format!("{}/pulls/new", row.frame.path);
                return posted
                    .redirect(&paths::with_query(&form, &[("from", to_branch.as_str()), ("to", &row.branch)]));
            }
            let table = paths::with_query(&row.frame.table_path(&row.schema.name), &[("ref", &row.frame.asked_ref)]);
            posted.redirect_saying(&table, &format!("Committed to {} as {commit}.", row.branch))
        }
        OperationStatus::Failed(failure) => {
            let lines = failure.rows.iter().map(|problem| match &problem.column {
                Some(column) => format!("{column}: {}", problem.detail),
                None => problem.detail.clone(),
            });
            let lines = lines.collect();
            if failure.kind == FailureKind::MergeConflict {
                form.fault(
                    "",
                    "Someone else changed this row meanwhile. Compare the values, then commit again to replace theirs.",
                );
            } else {
                form.fault("", sentence(&failure.detail));
            }
            again(&posted, row, form, lines)
        }
    }
}

/// Shows the form again with the submitted values. After a conflict, the base becomes the current head, whose values are shown. Otherwise
/// the base stays the same, so that changes by others are still detected.
fn again(posted: &FormPost, row: EditedRow, form: Filled, conflicts: Vec<String>) -> PageResult {
    let base = if conflicts.is_empty() { posted.form.line("base") } else { row.head.to_string() };
    let page = row.page(form, Some(base), conflicts)?;
    posted.refuse(page)
}

/// Returns what the form changes. `None` for nothing.
fn edited(posted: &FormPost, schema: &TableSchema) -> Option<RowEdit> {
    let form = &posted.form;
    let is_update = form.is_checked("key-0");
    let key = || {
        let names = schema.primary_key.iter().enumerate();
        names.map(|(at, name)| (name.clone(), EditedValue::Text(form.text(&format!("key-{at}"))))).collect::<Vec<_>>()
    };
    if is_update && form.line("action") == "delete" {
        return Some(RowEdit::Delete { key: key() });
    }
    let mut set = Vec::new();
    for (at, column) in schema.columns.iter().enumerate() {
        if !form.is_checked(&format!("value-{at}")) {
            continue;
        }
        let (value, is_checked) = (form.text(&format!("value-{at}")), form.is_checked(&format!("null-{at}")));
        let (was, was_null) = (form.text(&format!("was-{at}")), form.is_checked(&format!("was-null-{at}")));
        // A value that was typed beside a box that was checked before counts.
        let is_null = is_checked && (!was_null || value.is_empty());
        let is_same = is_null == was_null && (is_null || value == was);
        // A new row leaves out what was not filled in, so that defaults apply.
        if is_same && (is_update || value.is_empty()) {
            continue;
        }
        set.push((column.name.clone(), if is_null { EditedValue::Null } else { EditedValue::Text(value) }));
    }
    match is_update {
        true if set.is_empty() => None,
        true => Some(RowEdit::Update { key: key(), set }),
        false => Some(RowEdit::Insert { set }),
    }
}
