//! `/{owner}/{database}/pulls/{number}/conflicts`: the conflicts of a pull request, resolved by a side per table, or a version or values
//! per row.

use askama::Template;
use branchyard_domain::access::Read;
use branchyard_domain::entities::{Cell, Conflict, ConflictKind, PullState};
use branchyard_domain::errors::PullError;
use branchyard_http_common::key_parameter;

use super::{PullHeader, PullTab, edges, open, trouble};
use crate::changes::CHARACTERS;
use crate::database::DatabaseFrame;
use crate::format;
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::paths;
use crate::rows;

/// Conflicts read to find the tables that have conflicts.
const LOOKED_AT: usize = 1_000;
/// Conflicts shown per table when the page covers several tables.
const SOME: usize = 10;
/// Conflicts per page when the page covers one table.
const PAGE: usize = 50;
/// Maximum number of tables that can be resolved at once.
const TABLES: usize = 50;
/// Maximum number of columns of a row whose values can be typed.
const TYPED_COLUMNS: usize = 10;
/// Columns shown per row.
const COLUMNS: usize = 30;

/// A cell of one side.
struct SideCell {
    cell: Option<rows::CellView>,
    /// Whether the value differs from the base.
    is_changed: bool,
}

/// A row of one side.
struct SideRow {
    label: &'static str,
    branch: String,
    /// `None` if the row does not exist on this side.
    cells: Option<Vec<SideCell>>,
}

/// A conflict.
struct ConflictView {
    key: String,
    detail: Option<String>,
    columns: Vec<String>,
    /// For each column, whether all sides have only numbers and NULL in it.
    numbers: Vec<bool>,
    hidden_columns: usize,
    sides: Vec<SideRow>,
    choice: Option<RowChoice>,
}

/// The choice of a version of a row, or of values.
struct RowChoice {
    /// Number of the choice on the page.
    number: usize,
    /// The key as the form sends it.
    key: String,
    /// The columns in which both sides differ, if the row can have values of its own.
    values: Vec<ValueField>,
}

/// A column whose value can be typed.
struct ValueField {
    column: String,
    value: String,
    is_null: bool,
}

/// The conflicts of a table.
struct ConflictTable {
    name: String,
    count: String,
    /// Whether choosing a side resolves all conflicts of the table.
    has_sides: bool,
    /// Whether the page shows each conflict of the table with a choice of its own.
    has_choices: bool,
    conflicts: Vec<ConflictView>,
    more: Option<String>,
}

#[derive(Template)]
#[template(path = "pull_conflicts.html")]
struct ConflictsPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    head: PullHeader,
    tables: Vec<ConflictTable>,
    unnamed: usize,
    /// Whether choosing sides resolves all conflicts of the pull request.
    can_be_settled: bool,
    trouble: Option<String>,
    /// The table, if the page covers only one.
    only: Option<String>,
    message: String,
}

/// `GET /{owner}/{database}/pulls/{number}/conflicts?table=…&skip=…`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame, pull, head) = open::<Read>(&visit, PullTab::Conflicts).await?;
    let only = visit.parameter("table");
    let skip = visit.parameter("skip").and_then(|text| text.parse::<usize>().ok()).unwrap_or(0);
    let limit = if only.is_some() { PAGE + 1 } else { LOOKED_AT };
    let found = match edges(&visit, &access, &pull).await? {
        Err(text) => Err(text),
        Ok(_) if matches!(pull.state, PullState::Merged { .. }) => Ok(Vec::new()),
        Ok(edges) => {
            let (table, skip) = (only.clone(), if only.is_some() { skip } else { 0 });
            visit
                .read(move |hub| -> Result<_, PullError> {
                    match hub.pulls().conflicts(&access, &edges, table.as_deref(), skip, limit) {
                        Ok(found) => Ok(Ok(found)),
                        Err(error) => trouble(error).map(Err),
                    }
                })
                .await?
        }
    };
    let (found, trouble) = match found {
        Ok(found) => (found, None),
        Err(text) => (Vec::new(), Some(text)),
    };
    let path = format!("{}/conflicts", head.path);
    let branches = (head.to.0.clone(), head.from.0.clone());
    let all = match &only {
        Some(table) => vec![one_table(table, &found, skip, &path, &branches)],
        None => tables(&found, &path, &branches),
    };
    let can_be_settled =
        only.is_none() && !all.is_empty() && all.len() <= TABLES && all.iter().all(|table| table.has_sides);
    let unnamed = all.len().saturating_sub(TABLES);
    let tables = all.into_iter().take(TABLES).collect();
    let message = super::merge::default_message(&pull);
    visit.page(|shell| ConflictsPage { shell, frame, head, tables, unnamed, can_be_settled, trouble, only, message })
}

/// Groups the conflicts, which are ordered by table.
fn tables(found: &[Conflict], path: &str, branches: &(String, String)) -> Vec<ConflictTable> {
    let is_cut = found.len() == LOOKED_AT;
    let groups: Vec<&[Conflict]> = found.chunk_by(|a, b| a.table == b.table).collect();
    let last = groups.len();
    let mut number = 0;
    let table = |(at, group): (usize, &[Conflict])| {
        let name = group.first().map(|conflict| conflict.table.clone()).unwrap_or_default();
        let count = format::counted(group.len() as u64, "conflict", "conflicts");
        let mut conflicts = Vec::with_capacity(group.len().min(SOME));
        for conflict in group.iter().take(SOME) {
            let choice = choice(conflict, number);
            number += usize::from(choice.is_some());
            conflicts.push(ConflictView { choice, ..shown(conflict, branches) });
        }
        ConflictTable {
            count: if is_cut && at + 1 == last { format!("at least {count}") } else { count },
            has_sides: group.iter().all(|conflict| matches!(conflict.kind, ConflictKind::Row | ConflictKind::Object)),
            has_choices: group.len() <= SOME && conflicts.iter().all(|conflict| conflict.choice.is_some()),
            conflicts,
            more: (group.len() > SOME).then(|| paths::with_query(path, &[("table", &name)])),
            name,
        }
    };
    groups.into_iter().enumerate().map(table).collect()
}

fn one_table(name: &str, found: &[Conflict], skip: usize, path: &str, branches: &(String, String)) -> ConflictTable {
    let next = (skip + PAGE).to_string();
    ConflictTable {
        name: name.to_owned(),
        count: format!("starting at conflict {}", format::count(skip as u64 + 1)),
        has_sides: false,
        has_choices: false,
        conflicts: found.iter().take(PAGE).map(|conflict| shown(conflict, branches)).collect(),
        more: (found.len() > PAGE).then(|| paths::with_query(path, &[("table", name), ("skip", &next)])),
    }
}

type ConflictCells = Option<Vec<(String, Cell)>>;

fn cell_of<'a>(row: &'a ConflictCells, column: &str) -> Option<&'a Cell> {
    row.as_ref()?.iter().find(|(name, _)| name == column).map(|(_, cell)| cell)
}

fn shown(conflict: &Conflict, (ours, theirs): &(String, String)) -> ConflictView {
    let key = conflict
        .primary_key
        .iter()
        .map(|(name, cell)| format!("{name} = {}", rows::CellView::of(cell, CHARACTERS).text));
    let key: Vec<String> = key.collect();
    let columns = columns(conflict);
    let sides = match conflict.kind {
        ConflictKind::Row => vec![
            side("Base", String::new(), &conflict.base, conflict, &columns),
            side("Ours", ours.clone(), &conflict.ours, conflict, &columns),
            side("Theirs", theirs.clone(), &conflict.theirs, conflict, &columns),
        ],
        ConflictKind::Schema | ConflictKind::Object | ConflictKind::Constraint => Vec::new(),
    };
    let cells = |at: usize| sides.iter().filter_map(move |side: &SideRow| side.cells.as_ref()?.get(at)?.cell.as_ref());
    let numbers = (0..columns.len().min(COLUMNS)).map(|at| rows::are_numbers(cells(at))).collect();
    ConflictView {
        numbers,
        key: key.join(", "),
        detail: conflict.detail.clone(),
        hidden_columns: columns.len().saturating_sub(COLUMNS),
        columns: columns.into_iter().take(COLUMNS).collect(),
        sides,
        choice: None,
    }
}

/// Returns the choice for a row, unless its key cannot be sent by a form. Values can be typed if both sides have the row and show the
/// values in which they differ in full.
fn choice(conflict: &Conflict, number: usize) -> Option<RowChoice> {
    let is_column =
        |name: &String| [&conflict.ours, &conflict.theirs].into_iter().any(|row| cell_of(row, name).is_some());
    let key: Option<Vec<(&str, String)>> = conflict
        .primary_key
        .iter()
        .map(|(name, cell)| {
            let view = rows::CellView::of(cell, CHARACTERS);
            (view.is_findable() && is_column(name)).then_some((name.as_str(), view.text))
        })
        .collect();
    let key = key.filter(|key| conflict.kind == ConflictKind::Row && !key.is_empty())?;
    let differing = conflict.ours.iter().flatten().filter(|(name, cell)| cell_of(&conflict.theirs, name) != Some(cell));
    let field = |(name, cell): &(String, Cell)| {
        let views = [Some(cell), cell_of(&conflict.theirs, name)]
            .map(|cell| cell.map(|cell| rows::CellView::of(cell, CHARACTERS)));
        let [Some(ours), Some(theirs)] = views else { return None };
        let is_shown = |view: &rows::CellView| view.is_findable() || view.kind == rows::CellKind::Null;
        let is_null = ours.kind == rows::CellKind::Null;
        let value = if is_null { String::new() } else { ours.text.clone() };
        (is_shown(&ours) && is_shown(&theirs)).then(|| ValueField { column: name.clone(), value, is_null })
    };
    let values: Option<Vec<ValueField>> = differing.map(field).collect();
    let values = values.filter(|values| values.len() <= TYPED_COLUMNS && conflict.theirs.is_some()).unwrap_or_default();
    let key = key_parameter(key.iter().map(|(name, text)| (*name, text.as_str())));
    Some(RowChoice { number, key, values })
}

/// Returns all columns. If there are more than `COLUMNS`, columns that a side changed come first.
fn columns(conflict: &Conflict) -> Vec<String> {
    let mut columns: Vec<String> = Vec::new();
    for (name, _) in [&conflict.ours, &conflict.theirs, &conflict.base].into_iter().flatten().flatten() {
        if !columns.contains(name) {
            columns.push(name.clone());
        }
    }
    if columns.len() > COLUMNS {
        let is_changed = |name: &String| {
            let base = cell_of(&conflict.base, name);
            cell_of(&conflict.ours, name) != base || cell_of(&conflict.theirs, name) != base
        };
        columns.sort_by_cached_key(|name| !is_changed(name));
    }
    columns
}

fn side(label: &'static str, branch: String, row: &ConflictCells, conflict: &Conflict, columns: &[String]) -> SideRow {
    let cells = row.as_ref().map(|_| {
        let cells = columns.iter().take(COLUMNS).map(|name| {
            let cell = cell_of(row, name);
            SideCell {
                cell: cell.map(|cell| rows::CellView::of(cell, CHARACTERS)),
                is_changed: label != "Base" && cell != cell_of(&conflict.base, name),
            }
        });
        cells.collect()
    });
    SideRow { label, branch, cells }
}
