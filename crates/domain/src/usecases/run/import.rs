//! Imports of files.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use super::super::deadline::{FileDeadline, TimedFile};
use super::super::imports::column_place;
use super::super::progress::{CountedFile, ProgressStage, StageCounter};
use super::super::pulls;
use super::prefetch::ahead;
use super::{LeasedRun, RunError, blame, failed, reached};
use crate::entities::{
    Database, FailureKind, FileType, ImportMode, ImportRequest, ImportType, Outcome, PullAction, Role, TableSchema,
    Upload, User,
};
use crate::errors::PullError;
use crate::ports::{
    EngineError, FormatError, FormatInput, ImportColumn, ImportFile, ImportJob, ImportTarget, ReadSeek, ScriptJob,
    TargetColumn, Transaction,
};
use crate::values::{CommitHash, RefName, Timestamp, Title};

pub(super) fn run(run: &LeasedRun<'_>, request: &ImportRequest) -> Result<(), RunError> {
    let inner = run.inner;
    let mut tx = inner.ports.metadata.read()?;
    let (database, user) = run.begin(tx.as_mut(), Role::Write)?;
    let target = tx.branches().get(database.id, &request.branch)?;
    let from = target.ok_or_else(|| failed(FailureKind::NotFound, format!("no branch '{}'", request.branch)))?.head;
    let branch = request.pull_branch.as_ref().unwrap_or(&request.branch);
    let was = tx.branches().get(database.id, branch)?.map(|branch| branch.head);
    let upload = tx.uploads().get(request.upload_id)?;
    let upload = upload.ok_or_else(|| failed(FailureKind::NotFound, "the uploaded file is gone"))?;
    tx.discard();

    let base = was.as_ref().unwrap_or(&from);
    let head = bring_in(run, request, &database, &user, base, &upload)?;

    let made_at = if head == *base { None } else { Some(run.made_at(&head)?) };
    let now = inner.now();
    let mut tx = inner.ports.metadata.write(&run.keys())?;
    run.begin(tx.as_mut(), Role::Write)?;
    if let Some(made_at) = made_at {
        run.move_branch(tx.as_mut(), branch, reached(was.as_ref()), &from, (&head, made_at), now)?;
    }
    let pull = match &request.pull_branch {
        Some(_) if made_at.is_some() || was.as_ref().is_some_and(|was| *was != from) => {
            Some(open_pull(run, tx.as_mut(), request, &database, &user, now)?)
        }
        _ => None,
    };
    let previous = Some(base.clone());
    run.succeed(tx, Outcome { commit: Some(head), previous, pull, ..Outcome::default() }, now)?;
    // If this fails, the bytes are collected later.
    let _ = inner.ports.blobs.remove(upload.id);
    Ok(())
}

fn bring_in(
    run: &LeasedRun<'_>,
    request: &ImportRequest,
    database: &Database,
    user: &User,
    base: &CommitHash,
    upload: &Upload,
) -> Result<CommitHash, RunError> {
    let inner = run.inner;
    let engine = inner.ports.engine.as_ref();
    let deadline = FileDeadline::start(inner, inner.limits.import_timeout_ms);
    let is_script = request.file_type == FileType::Sql;
    let stage = if is_script { ProgressStage::RunningScript } else { ProgressStage::CheckingFile };
    // The count exists before the first byte is read.
    let reading = begin(run, stage, Some(upload.content_length));
    let (id, parts, clock, bytes) = (upload.id, upload.num_parts, deadline.clone(), reading.bytes());
    let open = move || {
        let file = inner.ports.blobs.open(id, parts).map_err(io::Error::other)?;
        let file = Box::new(TimedFile::new(file, clock.clone()));
        Ok(Box::new(CountedFile::new(file, Arc::clone(&bytes))) as Box<dyn ReadSeek>)
    };
    let author = user.signature(inner.now());
    let blame = |error| match error {
        EngineError::Import(FormatError::Io(_)) | EngineError::TimedOut(_) if deadline.left().is_zero() => {
            blame(EngineError::TimedOut(inner.limits.import_timeout_ms), false)
        }
        error => blame(error, false),
    };
    if is_script {
        let target = (!request.table.is_empty()).then_some((request.table.as_str(), request.mode));
        let job = ScriptJob {
            base,
            target,
            statement_bytes: inner.limits.import_value_bytes,
            message: &request.message,
            author: &author,
            timeout: deadline.left(),
        };
        let mut script = open().map_err(|error| blame(EngineError::Import(FormatError::Io(error))))?;
        return engine.run_script(database.id, &job, &mut script).map_err(blame);
    }
    let tables = engine.tables(database.id, base)?;
    let existing = tables.iter().find(|table| table.name.eq_ignore_ascii_case(&request.table));
    let input = FormatInput {
        file_type: request.file_type,
        text: request.options.text,
        counts_spelling: false,
        table: &request.table,
        open: Box::new(open),
        timeout: deadline.left(),
    };
    let file = inner.ports.formats.scan(input).map_err(|error| blame(EngineError::Import(error)))?;
    let plan = plan(request, file.as_ref(), existing)?;
    let targets = plan.targets();
    let job = ImportJob {
        base,
        table: existing.map_or(request.table.as_str(), |table| table.name.as_str()),
        target: &plan.target,
        columns: &plan.columns,
        message: &request.message,
        author: &author,
        timeout: deadline.left(),
    };
    let writing = begin(run, ProgressStage::WritingRows, file.row_count());
    ahead(file, &targets, |rows| engine.import(database.id, &job, &mut writing.rows(rows)).map_err(blame))
}

/// Begins a stage of the import.
fn begin<'a>(run: &LeasedRun<'a>, stage: ProgressStage, total: Option<u64>) -> StageCounter<'a> {
    run.inner.progress.begin(run.operation.id, stage, total, run.inner.now())
}

/// The destination of each file column, and the treatment of the table.
struct ImportPlan {
    target: ImportTarget,
    columns: Vec<ImportColumn>,
    /// The chosen type of each column, if there is one.
    chosen: Vec<Option<ImportType>>,
}

impl ImportPlan {
    fn targets(&self) -> Vec<TargetColumn> {
        let target = |(column, chosen): (&ImportColumn, &Option<ImportType>)| {
            let declared = column.declared_type.clone();
            match *chosen {
                Some(chosen) => TargetColumn::Chosen { chosen, declared },
                None => TargetColumn::Typed(declared),
            }
        };
        self.columns.iter().zip(&self.chosen).map(target).collect()
    }
}

fn plan(
    request: &ImportRequest,
    file: &dyn ImportFile,
    existing: Option<&TableSchema>,
) -> Result<ImportPlan, RunError> {
    let content = |detail: String| failed(FailureKind::Content, detail);
    let mut columns: Vec<ImportColumn> = file
        .columns()
        .iter()
        .map(|column| ImportColumn { name: column.name.clone(), declared_type: column.declared_type.clone() })
        .collect();
    let mut mapped = HashSet::new();
    for (source, name) in &request.column_map {
        let place = column_place(file.columns(), source, |column| &column.name)
            .ok_or_else(|| content(format!("column_map names '{source}', which is not a column of the file")))?;
        if !mapped.insert(place) {
            return Err(content(format!("column_map names the column '{}' twice", file.columns()[place].name)));
        }
        columns[place].name.clone_from(name);
    }
    let chosen = chosen_types(request, file)?;
    for (column, chosen) in columns.iter_mut().zip(&chosen) {
        if let Some(chosen) = chosen {
            chosen.declared().clone_into(&mut column.declared_type);
        }
    }
    let mut seen = HashSet::new();
    if let Some(twice) = columns.iter().find(|column| !seen.insert(column.name.to_lowercase())) {
        return Err(content(format!("two columns go to '{}'", twice.name)));
    }
    let target = match (request.mode, existing) {
        (ImportMode::Create, Some(table)) => {
            return Err(failed(FailureKind::Conflict, format!("the database already has a table '{}'", table.name)));
        }
        (ImportMode::Create | ImportMode::Overwrite, _) => {
            let wanted = match request.primary_keys.as_slice() {
                [] => {
                    let places =
                        file.primary_key().iter().filter_map(|key| column_place(file.columns(), key, |c| &c.name));
                    places.map(|place| columns[place].name.clone()).collect()
                }
                named => named.to_vec(),
            };
            let primary_key = new_key(&wanted, &columns)?;
            ImportTarget::New { primary_key, overwrite: request.mode == ImportMode::Overwrite }
        }
        (ImportMode::Update | ImportMode::Replace, None) => {
            return Err(failed(FailureKind::NotFound, format!("table not found: {}", request.table)));
        }
        (ImportMode::Update | ImportMode::Replace, Some(table)) => {
            into_existing(table, &mut columns)?;
            check_key(request, table, &columns)?;
            if request.mode == ImportMode::Update { ImportTarget::Update } else { ImportTarget::Replace }
        }
    };
    Ok(ImportPlan { target, columns, chosen })
}

/// Returns the chosen type of each column of the file.
fn chosen_types(request: &ImportRequest, file: &dyn ImportFile) -> Result<Vec<Option<ImportType>>, RunError> {
    let content = |detail: String| failed(FailureKind::Content, detail);
    let mut chosen = vec![None; file.columns().len()];
    for (name, column_type) in &request.options.column_types {
        let place = column_place(file.columns(), name, |column| &column.name)
            .ok_or_else(|| content(format!("column_types names '{name}', which is not a column of the file")))?;
        if chosen[place].replace(*column_type).is_some() {
            return Err(content(format!("column_types names the column '{}' twice", file.columns()[place].name)));
        }
    }
    Ok(chosen)
}

/// Returns the key columns of a new table, in the spelling of the columns.
fn new_key(wanted: &[String], columns: &[ImportColumn]) -> Result<Vec<String>, RunError> {
    let mut key = Vec::new();
    for name in wanted {
        let found = find(columns, name, |column| &column.name);
        let found = found
            .ok_or_else(|| failed(FailureKind::Content, format!("primary key '{name}' is not a column of the file")))?;
        if key.contains(&found.name) {
            return Err(failed(FailureKind::Content, format!("primary key '{name}' is named twice")));
        }
        key.push(found.name.clone());
    }
    Ok(key)
}

/// Replaces the name and type of every column by those of the table's column.
fn into_existing(table: &TableSchema, columns: &mut [ImportColumn]) -> Result<(), RunError> {
    for column in columns {
        let found = find(&table.columns, &column.name, |c| &c.name);
        let found = found.ok_or_else(|| {
            failed(FailureKind::Content, format!("table '{}' has no column '{}'", table.name, column.name))
        })?;
        column.name.clone_from(&found.name);
        column.declared_type.clone_from(&found.declared_type);
    }
    Ok(())
}

fn check_key(request: &ImportRequest, table: &TableSchema, columns: &[ImportColumn]) -> Result<(), RunError> {
    let content = |detail: String| failed(FailureKind::Content, detail);
    let same = |a: &String, b: &String| a.eq_ignore_ascii_case(b);
    let given = &request.primary_keys;
    let matches =
        given.len() == table.primary_key.len() && given.iter().all(|g| table.primary_key.iter().any(|k| same(g, k)));
    if !given.is_empty() && !matches {
        return Err(content(format!("the primary key of '{}' is {}", table.name, table.primary_key.join(", "))));
    }
    if request.mode == ImportMode::Update {
        if table.primary_key.is_empty() {
            return Err(content(format!("table '{}' has no primary key to update by", table.name)));
        }
        if let Some(missing) = table.primary_key.iter().find(|key| !columns.iter().any(|c| c.name == **key)) {
            return Err(content(format!("the file has no column for '{missing}' of the primary key")));
        }
    }
    Ok(())
}

/// Returns the item with exactly this name, or else one with this name in any letter case.
fn find<'a, T>(items: &'a [T], name: &str, name_of: impl Fn(&T) -> &String) -> Option<&'a T> {
    column_place(items, name, name_of).and_then(|place| items.get(place))
}

fn open_pull(
    run: &LeasedRun<'_>,
    tx: &mut dyn Transaction,
    request: &ImportRequest,
    database: &Database,
    user: &User,
    now: Timestamp,
) -> Result<crate::values::PullNumber, RunError> {
    let from = request.pull_branch.clone().unwrap_or_else(|| request.branch.clone());
    if let Some(open) = tx.pulls().find_open(database.id, database.id, &from, &request.branch)? {
        return Ok(open.number);
    }
    let first_line: String = request.message.lines().next().unwrap_or_default().chars().take(256).collect();
    let title = Title::parse(first_line).or_else(|_| Title::parse("Import"));
    let title = title.map_err(|error| failed(FailureKind::Content, error.to_string()))?;
    let missing = |name: &RefName| failed(FailureKind::NotFound, format!("branch '{name}' no longer exists"));
    let source = tx.branches().get(database.id, &from)?.ok_or_else(|| missing(&from))?;
    let target = tx.branches().get(database.id, &request.branch)?.ok_or_else(|| missing(&request.branch))?;
    let branches = (&source, &target);
    let pull = match pulls::new_pull(tx, database, database, branches, false, user, title, None, now) {
        Ok(pull) => pull,
        Err(PullError::Port(fault)) => return Err(RunError::Port(fault)),
        Err(other) => return Err(failed(FailureKind::Unprocessable, other.to_string())),
    };
    pulls::emit_pull(run.inner, tx, &pull, PullAction::Opened, user, now)?;
    Ok(pull.number)
}
