//! The differences between two commits: definitions first, then rows, table by table.

use branchyard_domain::Hub;
use branchyard_domain::access::{DatabaseAccess, Level};
use branchyard_domain::entities::{
    Cell, Change, ObjectChange, ObjectKind, RowChange, TableChange, TableColumn, TableKind, TableSchema, brought,
};
use branchyard_domain::errors::ReadError;
use branchyard_domain::ports::WritePreview;
use branchyard_domain::values::CommitHash;
use branchyard_http_common::{Listed, RowKey, bound, changed_rows_from, open_token, token};

use crate::format;
use crate::page_context::PageContext;
use crate::pages::schema::is_automatic;
use crate::paths;
use crate::rows;

/// Tables shown with definitions and rows. Further tables are only listed.
const TABLES: usize = 8;
/// Tables listed by name.
const NAMED: usize = 300;
/// Rows shown per table when the page covers several tables.
const SOME_ROWS: usize = 10;
/// Rows per page when the page covers one table.
const PAGE_ROWS: usize = 100;
/// Columns shown per row.
const COLUMNS: usize = 30;
/// Indexes and triggers per table that are shown with their statements.
const OBJECTS: usize = 50;
/// Characters shown of the statement of an index or trigger.
const STATEMENT: usize = 20_000;
/// Characters shown of a cell.
pub(crate) const CHARACTERS: usize = 200;

/// The position of a page of changed rows: both commits, pinned for all pages, and a key within the rows of a table.
pub(crate) type ChangesCursor = (String, String, RowKey);

/// The changes that a page shows.
#[derive(Debug, Clone)]
pub(crate) struct ChangesQuery {
    pub(crate) from: CommitHash,
    pub(crate) to: CommitHash,
    /// Restricts the page to one table.
    pub(crate) table: Option<String>,
    place: Option<RowKey>,
}

impl ChangesQuery {
    /// Reads the request's query for a page about these two commits. A page token overrides both commits.
    pub(crate) fn of<L: Level>(
        visit: &PageContext,
        access: &DatabaseAccess<L>,
        from: CommitHash,
        to: CommitHash,
    ) -> Self {
        match pinned(visit, access) {
            Some((from, to, place)) => Self { from, to, table: Some(place.table.clone()), place: Some(place) },
            None => Self { from, to, table: visit.parameter("table"), place: None },
        }
    }
}

/// Returns the commits and the position that the page token contains, if the token is valid.
fn pinned<L: Level>(visit: &PageContext, access: &DatabaseAccess<L>) -> Option<(CommitHash, CommitHash, RowKey)> {
    let (from, to, place): ChangesCursor =
        open_token(&visit.state.keys, &bound_of(visit, access), &visit.parameter("page")?)?;
    Some((CommitHash::parse(&from).ok()?, CommitHash::parse(&to).ok()?, place))
}

fn bound_of<L: Level>(visit: &PageContext, access: &DatabaseAccess<L>) -> String {
    bound(&["changes", &access.database().id.to_string(), visit.request().path()])
}

/// The changes found between two commits.
pub(crate) struct ChangesPage {
    tables: Vec<TableChange>,
    details: Vec<Detail>,
}

struct Detail {
    change: TableChange,
    before: Option<TableSchema>,
    after: Option<TableSchema>,
    rows: Vec<RowChange>,
    next: Option<RowKey>,
}

/// Finds the changes between the two commits.
pub(crate) fn find<L: Level>(
    hub: &Hub,
    access: &DatabaseAccess<L>,
    asked: &ChangesQuery,
) -> Result<ChangesPage, ReadError> {
    let (from, to) = (&asked.from, &asked.to);
    let mut tables = hub.history().changed_tables(access, from, to)?;
    // Tables with added or changed triggers and views come first, then other changes of definitions.
    tables.sort_by_key(|change| (brought(&change.objects).is_empty(), !has_other_definition(change)));
    let (before, after) = (hub.history().tables(access, from)?, hub.history().tables(access, to)?);
    let wanted: Vec<&TableChange> = match &asked.table {
        Some(name) => vec![
            tables.iter().find(|change| change.table == *name).ok_or_else(|| ReadError::NoSuchTable(name.clone()))?,
        ],
        None => tables.iter().take(TABLES).collect(),
    };
    let limit = if asked.table.is_some() { PAGE_ROWS } else { SOME_ROWS };
    let mut details = Vec::new();
    for change in wanted {
        let named = |schemas: &[TableSchema]| schemas.iter().find(|schema| schema.name == change.table).cloned();
        let (before, after) = (named(&before), named(&after));
        let is_view = after.as_ref().or(before.as_ref()).is_some_and(|schema| schema.kind == TableKind::View);
        let place = asked.place.clone().unwrap_or_else(|| RowKey::before(&change.table));
        let mut found = Listed::from(Vec::new());
        if !is_view {
            found = changed_rows_from(hub, access, (from, to), &place, limit + 1)?;
        }
        let has_more = found.more || found.items.len() > limit;
        found.items.truncate(limit);
        let next = found.items.last().filter(|_| has_more).map(|(_, place)| place.clone());
        let rows = found.items.into_iter().map(|(row, _)| row).collect();
        details.push(Detail { change: change.clone(), before, after, rows, next });
    }
    Ok(ChangesPage { tables, details })
}

fn has_other_definition(change: &TableChange) -> bool {
    change.schema_changed || change.change != Change::Modified
}

/// A table in the list of changed tables.
#[derive(Debug)]
pub(crate) struct TableLine {
    pub(crate) name: String,
    pub(crate) href: String,
    /// `added`, `removed` or `changed`.
    pub(crate) word: &'static str,
    pub(crate) has_other_definition: bool,
    /// Kinds of its objects that differ: `index`, `trigger`, `view`.
    pub(crate) kinds: Vec<&'static str>,
    pub(crate) counts: Option<ChangeCounts>,
}

impl TableLine {
    fn new(change: &TableChange, href: String) -> Self {
        Self {
            name: change.table.clone(),
            href,
            word: word(change.change),
            has_other_definition: has_other_definition(change),
            kinds: kinds(&change.objects),
            counts: change.rows.map(|(added, removed, changed)| ChangeCounts {
                added: format::count(added),
                removed: format::count(removed),
                changed: format::count(changed),
            }),
        }
    }

    /// Returns `true` for a view: only views list an object of kind `view`.
    pub(crate) fn is_view(&self) -> bool {
        self.kinds.contains(&"view")
    }
}

/// Numbers of changed rows, formatted with thousands separators.
#[derive(Debug)]
pub(crate) struct ChangeCounts {
    pub(crate) added: String,
    pub(crate) removed: String,
    pub(crate) changed: String,
}

/// A line of a changed definition.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SchemaLine {
    /// `added` or `removed`.
    pub(crate) kind: &'static str,
    pub(crate) text: String,
}

/// A statement, possibly truncated.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StatementView {
    pub(crate) text: String,
    /// Whether the statement is longer than `text`.
    pub(crate) is_cut: bool,
}

/// An index or trigger that differs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ObjectLine {
    /// `added`, `removed` or `changed`.
    pub(crate) word: &'static str,
    /// `index` or `trigger`.
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) before: Option<StatementView>,
    pub(crate) after: Option<StatementView>,
}

/// A cell of a changed row.
#[derive(Debug)]
pub(crate) struct CellChange {
    pub(crate) before: Option<rows::CellView>,
    pub(crate) after: Option<rows::CellView>,
}

impl CellChange {
    /// Returns the value to show if the cell did not change.
    pub(crate) fn same(&self) -> Option<&rows::CellView> {
        match (&self.before, &self.after) {
            (Some(one), None) | (None, Some(one)) => Some(one),
            _ => None,
        }
    }
}

/// A changed row.
#[derive(Debug)]
pub(crate) struct RowLine {
    /// `added`, `removed` or `changed`.
    pub(crate) kind: &'static str,
    pub(crate) sign: &'static str,
    pub(crate) cells: Vec<CellChange>,
}

/// Definition and rows of a changed table.
#[derive(Debug)]
pub(crate) struct TableDetail {
    pub(crate) line: TableLine,
    pub(crate) schema: Vec<SchemaLine>,
    pub(crate) before: Option<String>,
    pub(crate) after: Option<String>,
    pub(crate) objects: Vec<ObjectLine>,
    /// Number of further indexes and triggers.
    pub(crate) hidden_objects: usize,
    pub(crate) columns: Vec<(String, bool)>,
    /// For each column, whether the rows show only numbers and NULL in it.
    pub(crate) numbers: Vec<bool>,
    pub(crate) hidden_columns: usize,
    pub(crate) rows: Vec<RowLine>,
    pub(crate) next: Option<String>,
}

/// Whether the changes add or change triggers or views, which run code after a merge.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Brings {
    pub(crate) trigger: bool,
    pub(crate) view: bool,
}

impl Brings {
    pub(crate) fn of(kinds: &[ObjectKind]) -> Self {
        Self { trigger: kinds.contains(&ObjectKind::Trigger), view: kinds.contains(&ObjectKind::View) }
    }
}

/// The changes as a page shows them.
#[derive(Debug)]
pub(crate) struct Changes {
    pub(crate) tables: Vec<TableLine>,
    pub(crate) total: String,
    /// Number of further tables that are not listed.
    pub(crate) unnamed: usize,
    pub(crate) details: Vec<TableDetail>,
    /// Added or changed triggers and views.
    pub(crate) brings: Brings,
    /// The page about all tables, if this page is about one.
    pub(crate) all: Option<String>,
}

impl Changes {
    /// Builds the view of the changes, with links to further pages at `path`.
    pub(crate) fn new<L: Level>(
        visit: &PageContext,
        access: &DatabaseAccess<L>,
        asked: &ChangesQuery,
        found: &ChangesPage,
        path: &str,
    ) -> Self {
        let line = |change: &TableChange| TableLine::new(change, paths::with_query(path, &[("table", &change.table)]));
        let details = found.details.iter().map(|detail| {
            let next = detail.next.as_ref().map(|place| {
                let place: ChangesCursor = (asked.from.to_string(), asked.to.to_string(), place.clone());
                let page = token(&visit.state, &bound_of(visit, access), &place);
                paths::with_query(path, &[("page", &page)])
            });
            let next = match asked.table {
                Some(_) => next,
                None => next.map(|_| paths::with_query(path, &[("table", &detail.change.table)])),
            };
            show(detail, line(&detail.change), next)
        });
        Self {
            tables: found.tables.iter().take(NAMED).map(line).collect(),
            total: format::counted(found.tables.len() as u64, "table", "tables"),
            unnamed: found.tables.len().saturating_sub(NAMED),
            details: details.collect(),
            brings: Brings::of(&brought(found.tables.iter().flat_map(|change| &change.objects))),
            all: asked.table.as_ref().map(|_| path.to_owned()),
        }
    }
}

impl Changes {
    /// Builds the view of what a write would change. `path` returns the page of a table.
    pub(crate) fn of_preview(preview: WritePreview, path: impl Fn(&str) -> String) -> Self {
        let line = |change: &TableChange| TableLine::new(change, path(&change.table));
        let changes = || preview.tables.iter().map(|table| &table.change);
        let (tables, total) = (changes().take(NAMED).map(line).collect(), changes().count());
        let brings = Brings::of(&brought(changes().flat_map(|change| &change.objects)));
        let details = preview.tables.iter().take(TABLES).map(|table| {
            let (before, after) = table.definitions.clone();
            let (change, rows) = (table.change.clone(), table.rows.rows.clone());
            show(&Detail { change, before, after, rows, next: None }, line(&table.change), None)
        });
        Self {
            tables,
            total: format::counted(total as u64, "table", "tables"),
            unnamed: total.saturating_sub(NAMED),
            details: details.collect(),
            brings,
            all: None,
        }
    }
}

/// Returns the word for what happened to a row.
pub(crate) fn word(change: Change) -> &'static str {
    match change {
        Change::Added => "added",
        Change::Removed => "removed",
        Change::Modified => "changed",
    }
}

fn kind(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Index => "index",
        ObjectKind::Trigger => "trigger",
        ObjectKind::View => "view",
    }
}

fn kinds(changes: &[ObjectChange]) -> Vec<&'static str> {
    let mut kinds: Vec<_> = changes.iter().map(|change| kind(change.kind)).collect();
    kinds.dedup();
    kinds
}

fn object_line(change: &ObjectChange) -> ObjectLine {
    let statement = |text: &Option<String>| {
        text.as_ref().map(|text| {
            let end = text.char_indices().nth(STATEMENT).map(|(at, _)| at);
            StatementView { text: text[..end.unwrap_or(text.len())].to_owned(), is_cut: end.is_some() }
        })
    };
    ObjectLine {
        word: word(change.change),
        kind: kind(change.kind),
        name: change.name.clone(),
        before: statement(&change.from),
        after: statement(&change.to),
    }
}

fn show(detail: &Detail, line: TableLine, next: Option<String>) -> TableDetail {
    let statement = |schema: &Option<TableSchema>| schema.as_ref().map(|schema| schema.create_statement.clone());
    let (before, after) = (statement(&detail.before), statement(&detail.after));
    let differs = before != after;
    let columns = columns(&detail.rows);
    let hidden_columns = columns.len().saturating_sub(COLUMNS);
    let columns: Vec<(String, bool)> = columns.into_iter().take(COLUMNS).collect();
    let rows: Vec<RowLine> = detail.rows.iter().map(|row| row_line(row, &columns)).collect();
    let cells = |at: usize| rows.iter().filter_map(move |row| row.cells.get(at));
    let values = |at: usize| cells(at).flat_map(|cell| cell.before.iter().chain(&cell.after));
    let numbers = (0..columns.len()).map(|at| rows::are_numbers(values(at))).collect();
    // The statement of a view is shown as its definition.
    let objects: Vec<_> = detail.change.objects.iter().filter(|change| change.kind != ObjectKind::View).collect();
    let has_statement = |line: &SchemaLine| !objects.iter().any(|change| is_index(line, change));
    let schema = schema_lines(detail.before.as_ref(), detail.after.as_ref());
    TableDetail {
        line,
        schema: schema.into_iter().filter(has_statement).collect(),
        hidden_objects: objects.len().saturating_sub(OBJECTS),
        objects: objects.iter().take(OBJECTS).map(|change| object_line(change)).collect(),
        before: before.filter(|_| differs),
        after: after.filter(|_| differs),
        columns,
        numbers,
        hidden_columns,
        rows,
        next,
    }
}

type Cells = Option<Vec<(String, Cell)>>;

fn cell_of<'a>(cells: &'a Cells, column: &str) -> Option<&'a Cell> {
    cells.as_ref()?.iter().find(|(name, _)| name == column).map(|(_, cell)| cell)
}

/// Returns the names of all columns of the rows, in table order, and whether each is part of the primary key. If there are more
/// than `COLUMNS`, columns of the key and changed columns come first.
fn columns(rows: &[RowChange]) -> Vec<(String, bool)> {
    let mut columns: Vec<(String, bool)> = Vec::new();
    for row in rows {
        for (name, _) in row.to.iter().chain(&row.from).flatten() {
            if !columns.iter().any(|(known, _)| known == name) {
                let is_key = row.primary_key.iter().any(|(key, _)| key == name);
                columns.push((name.clone(), is_key));
            }
        }
    }
    if columns.len() > COLUMNS {
        let changed = |name: &str| {
            let mut modified = rows.iter().filter(|row| row.change == Change::Modified);
            modified.any(|row| cell_of(&row.from, name) != cell_of(&row.to, name))
        };
        columns.sort_by_cached_key(|(name, is_key)| (!is_key, !changed(name)));
    }
    columns
}

fn row_line(row: &RowChange, columns: &[(String, bool)]) -> RowLine {
    let (kind, sign) = match row.change {
        Change::Added => ("added", "+"),
        Change::Removed => ("removed", "−"),
        Change::Modified => ("changed", "~"),
    };
    let shown = |cell: Option<&Cell>| cell.map(|cell| rows::CellView::of(cell, CHARACTERS));
    let cells = columns.iter().map(|(name, _)| {
        let (before, after) = (cell_of(&row.from, name), cell_of(&row.to, name));
        match row.change {
            Change::Modified => {
                // A column that only one side has counts as NULL on the other.
                let (before, after) = (before.unwrap_or(&Cell::Null), after.unwrap_or(&Cell::Null));
                CellChange { before: shown(Some(before).filter(|_| before != after)), after: shown(Some(after)) }
            }
            Change::Added => CellChange { before: None, after: shown(after) },
            Change::Removed => CellChange { before: shown(before), after: None },
        }
    });
    RowLine { kind, sign, cells: cells.collect() }
}

/// Returns `true` if the line describes an index whose statement is shown.
fn is_index(line: &SchemaLine, change: &ObjectChange) -> bool {
    let text = line.text.strip_prefix("UNIQUE ").unwrap_or(&line.text);
    let rest = text.strip_prefix("INDEX ").and_then(|rest| rest.strip_prefix(change.name.as_str()));
    change.kind == ObjectKind::Index && rest.is_some_and(|rest| rest.starts_with(" ("))
}

/// Compares two definitions. Each line is an added or removed column, key, index or reference.
fn schema_lines(before: Option<&TableSchema>, after: Option<&TableSchema>) -> Vec<SchemaLine> {
    let (old, new) = (before.map(parts).unwrap_or_default(), after.map(parts).unwrap_or_default());
    let gone = old.iter().filter(|part| !new.contains(part)).map(|part| ("removed", part));
    let come = new.iter().filter(|part| !old.contains(part)).map(|part| ("added", part));
    gone.chain(come).map(|(kind, text)| SchemaLine { kind, text: text.clone() }).collect()
}

fn parts(schema: &TableSchema) -> Vec<String> {
    if schema.kind == TableKind::View {
        return vec![schema.create_statement.clone()];
    }
    let mut parts: Vec<String> = schema.columns.iter().map(column).collect();
    if !schema.primary_key.is_empty() {
        parts.push(format!("PRIMARY KEY ({})", schema.primary_key.join(", ")));
    }
    for index in schema.indexes.iter().filter(|index| !is_automatic(index)) {
        let unique = if index.unique { "UNIQUE " } else { "" };
        parts.push(format!("{unique}INDEX {} ({})", index.name, index.columns.join(", ")));
    }
    for key in &schema.foreign_keys {
        let columns = match key.references_columns.is_empty() {
            true => String::new(),
            false => format!(" ({})", key.references_columns.join(", ")),
        };
        parts.push(format!("FOREIGN KEY ({}) REFERENCES {}{columns}", key.columns.join(", "), key.references_table));
    }
    parts
}

fn column(column: &TableColumn) -> String {
    let mut text = column.name.clone();
    if !column.declared_type.is_empty() {
        text.push(' ');
        text.push_str(&column.declared_type);
    }
    if !column.nullable {
        text.push_str(" NOT NULL");
    }
    if let Some(default) = &column.default {
        text.push_str(" DEFAULT ");
        text.push_str(default);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{STATEMENT, SchemaLine, columns, is_index, kinds, object_line, row_line, schema_lines};
    use branchyard_domain::entities::{
        Cell, Change, Index, ObjectChange, ObjectKind, RowChange, TableColumn, TableKind, TableSchema,
    };

    fn schema(columns: &[(&str, &str)]) -> TableSchema {
        let columns = columns.iter().map(|(name, declared)| TableColumn {
            name: (*name).to_owned(),
            declared_type: (*declared).to_owned(),
            nullable: true,
            default: None,
            in_primary_key: false,
            is_generated: false,
        });
        TableSchema {
            name: "t".to_owned(),
            kind: TableKind::Table,
            columns: columns.collect(),
            primary_key: vec!["id".to_owned()],
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
            triggers: Vec::new(),
            create_statement: String::new(),
        }
    }

    #[test]
    fn definitions_are_compared_part_by_part() {
        let (before, mut after) = (schema(&[("id", "INT"), ("a", "TEXT")]), schema(&[("id", "INT"), ("a", "REAL")]));
        after.indexes.push(Index { name: "i".to_owned(), columns: vec!["a".to_owned()], unique: true });
        let line = |kind, text: &str| SchemaLine { kind, text: text.to_owned() };
        assert_eq!(
            schema_lines(Some(&before), Some(&after)),
            [line("removed", "a TEXT"), line("added", "a REAL"), line("added", "UNIQUE INDEX i (a)")]
        );
        assert_eq!(schema_lines(None, Some(&before)).len(), 3);
        assert_eq!(schema_lines(Some(&before), Some(&before)), []);
    }

    #[test]
    fn objects_are_shown_with_their_statements_cut_where_they_are_long() {
        let change = |kind, name: &str, to: String| ObjectChange {
            kind,
            name: name.to_owned(),
            change: Change::Added,
            from: None,
            to: Some(to),
        };
        let long = change(ObjectKind::Trigger, "tr", "é".repeat(STATEMENT + 1));
        let line = object_line(&long);
        let after = line.after.unwrap();
        assert_eq!((line.word, line.kind, line.before), ("added", "trigger", None));
        assert!(after.is_cut && after.text.chars().count() == STATEMENT);
        let whole = change(ObjectKind::Index, "i", "é".repeat(STATEMENT));
        assert!(!object_line(&whole).after.unwrap().is_cut);
        let of_index = SchemaLine { kind: "added", text: "UNIQUE INDEX i (a)".to_owned() };
        let of_other = SchemaLine { kind: "added", text: "INDEX ii (a)".to_owned() };
        assert!(is_index(&of_index, &whole) && !is_index(&of_other, &whole));
        assert_eq!(kinds(&[whole.clone(), whole, long]), ["index", "trigger"]);
    }

    #[test]
    fn of_wide_rows_keys_and_changes_come_first() {
        let row = |value: i64| {
            let cells = (0..40).map(|n| (format!("c{n}"), Cell::Integer(if n == 35 { value } else { n })));
            Some(cells.collect::<Vec<_>>())
        };
        let change = RowChange {
            table: "t".to_owned(),
            change: Change::Modified,
            primary_key: vec![("c39".to_owned(), Cell::Integer(39))],
            from: row(1),
            to: row(2),
        };
        let columns = columns(std::slice::from_ref(&change));
        assert_eq!(columns.len(), 40);
        assert_eq!((columns[0].0.as_str(), columns[1].0.as_str(), columns[2].0.as_str()), ("c39", "c35", "c0"));
        let wider = [&columns[..3], &[("new".to_owned(), false)]].concat();
        let line = row_line(&change, &wider);
        assert_eq!(line.cells[3].same().unwrap().text, "NULL", "absent on both sides, or NULL on one, is no change");
        assert!(line.cells[0].same().is_some() && line.cells[1].same().is_none());
        assert_eq!(line.cells[1].before.as_ref().unwrap().text, "1");
        assert_eq!(line.cells[1].after.as_ref().unwrap().text, "2");
    }
}
