//! `/{owner}/{database}/open`: recipes that open a table, or all tables, in other programs.

use askama::Template;
use branchyard_domain::access::Read;
use branchyard_domain::errors::ReadError;

use crate::database::{self, DatabaseFrame, DatabaseTab, ShownVersion};
use crate::error_page::PageError;
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::paths;
use crate::recipes::{Recipe, RecipeSource};

/// Tables and views listed.
const TABLES: usize = 200;

/// A table or view to choose.
struct TableChoice {
    name: String,
    href: String,
    is_shown: bool,
}

#[derive(Template)]
#[template(path = "open_in.html")]
struct OpenInPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    at: ShownVersion,
    /// The table or view. `None` for all tables.
    table: Option<String>,
    tables: Vec<TableChoice>,
    has_more: bool,
    recipes: Vec<Recipe>,
    needs_token: bool,
}

/// Returns the path of the page for a table or view, or for all tables if `table` is empty.
pub(super) fn address(frame: &DatabaseFrame, table: &str) -> String {
    paths::with_query(&format!("{}/open", frame.path), &[("table", table), ("ref", &frame.asked_ref)])
}

/// `GET /{owner}/{database}/open?table=…&ref=…`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Read>(&visit, DatabaseTab::Tables).await?;
    let at = database::at(&visit, &access, &frame).await?;
    let commit = at.commit.clone();
    let schemas = visit.read(move |hub| -> Result<_, ReadError> { hub.history().tables(&access, &commit) }).await?;
    let table = match visit.parameter("table") {
        None => None,
        Some(asked) => {
            let found = schemas.iter().find(|schema| schema.name.eq_ignore_ascii_case(&asked));
            Some(found.ok_or_else(PageError::nothing_here)?.name.clone())
        }
    };
    let choice = |name: &String| TableChoice {
        href: address(&frame, name),
        is_shown: table.as_ref() == Some(name),
        name: name.clone(),
    };
    let tables = schemas.iter().take(TABLES).map(|schema| choice(&schema.name)).collect();
    let needs_token = frame.is_private;
    let source = RecipeSource {
        origin: &visit.state.config.public_url,
        database: &frame.path,
        at: &frame.asked_ref,
        needs_token,
    };
    let recipes = match &table {
        Some(table) => source.of_table(table),
        None => source.of_database(&frame.name),
    };
    let has_more = schemas.len() > TABLES;
    visit.page(|shell| OpenInPage { shell, frame, at, table, tables, has_more, recipes, needs_token })
}
