//! `/{owner}/{database}/schema`: the definitions of tables and views at a ref, and a diagram of their references.

use askama::Template;
use branchyard_domain::access::Read;
use branchyard_domain::entities::{Index, TableKind, TableSchema};

use crate::database::{self, DatabaseFrame, DatabaseTab, ShownVersion};
use crate::diagram;
use crate::format::Markup;
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};

struct DefinitionView {
    name: String,
    href: String,
    is_view: bool,
    columns: Vec<ColumnLine>,
    indexes: Vec<String>,
    references: Vec<(String, String, String)>,
    /// Name and statement.
    triggers: Vec<(String, String)>,
    statement: String,
}

struct ColumnLine {
    name: String,
    declared_type: String,
    is_key: bool,
    nullable: bool,
    default: Option<String>,
}

#[derive(Template)]
#[template(path = "schema.html")]
struct SchemaPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    at: ShownVersion,
    drawing: Option<Markup>,
    left_out: usize,
    tables: Vec<DefinitionView>,
}

/// `GET /{owner}/{database}/schema?ref=…`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Read>(&visit, DatabaseTab::Tables).await?;
    let at = database::at(&visit, &access, &frame).await?;
    let commit = at.commit.clone();
    let schemas = visit.read(move |hub| hub.history().tables(&access, &commit)).await?;
    let tables: Vec<&TableSchema> = schemas.iter().filter(|schema| schema.kind == TableKind::Table).collect();
    let shown: Vec<&TableSchema> = tables.iter().copied().take(diagram::MOST_TABLES).collect();
    let left_out = tables.len() - shown.len();
    let drawing = (!shown.is_empty()).then(|| diagram::draw(&shown, |table| frame.table(table)));
    let tables = schemas.iter().map(|schema| definition(&frame, schema)).collect();
    visit.page(|shell| SchemaPage { shell, frame, at, drawing, left_out, tables })
}

/// Returns `true` for an index that the engine creates for a key or a UNIQUE constraint. Its name says nothing to readers.
pub(crate) fn is_automatic(index: &Index) -> bool {
    index.name.starts_with("sqlite_autoindex_")
}

fn definition(frame: &DatabaseFrame, schema: &TableSchema) -> DefinitionView {
    let columns = schema.columns.iter().map(|column| ColumnLine {
        name: column.name.clone(),
        declared_type: column.declared_type.clone(),
        is_key: column.in_primary_key,
        nullable: column.nullable,
        default: column.default.clone(),
    });
    let indexes = schema.indexes.iter().filter(|index| !is_automatic(index)).map(|index| {
        let unique = if index.unique { ", unique" } else { "" };
        format!("{} ({}{unique})", index.name, index.columns.join(", "))
    });
    let references = schema.foreign_keys.iter().map(|key| {
        let to = key.references_columns.join(", ");
        let target =
            if to.is_empty() { key.references_table.clone() } else { format!("{} ({to})", key.references_table) };
        (key.columns.join(", "), target, frame.table(&key.references_table))
    });
    DefinitionView {
        name: schema.name.clone(),
        href: frame.table(&schema.name),
        is_view: schema.kind == TableKind::View,
        columns: columns.collect(),
        indexes: indexes.collect(),
        references: references.collect(),
        triggers: schema.triggers.iter().map(|it| (it.name.clone(), it.create_statement.clone())).collect(),
        statement: schema.create_statement.clone(),
    }
}
