//! `/{owner}/{database}`: the tables at a ref, and how to connect to the database.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use askama::Template;
use branchyard_domain::Hub;
use branchyard_domain::access::{DatabaseAccess, Read};
use branchyard_domain::entities::{LogPosition, TableKind, TableSchema};
use branchyard_domain::errors::ReadError;
use branchyard_domain::ports::{CancellationToken, Selection};
use branchyard_domain::usecases::TableSize;
use branchyard_domain::values::CommitHash;

use super::branch_standing::{self, RecentPushView, StandingView, SyncChoice};
use super::downloads::DownloadMenu;
use super::empty_version::{EmptyVersion, refs_with_tables};
use crate::database::{self, DatabaseFrame, DatabaseTab, ShownVersion};
use crate::format::{self, Markup};
use crate::layout::LayoutContext;
use crate::markdown;
use crate::page_context::{PageContext, PageResult};
use crate::rows::{CellKind, Grid};

use super::table::COUNT_PATIENCE;

/// The name of the table or view that introduces the database.
const README: &str = "README";
/// Characters shown of the README.
const README_CHARACTERS: usize = 65_536;
/// Time limit for reading the README, which may be a view.
const README_PATIENCE: Duration = Duration::from_millis(500);

/// Time limit for counting the rows of all tables. Further tables are shown without a count.
const ALL_PATIENCE: Duration = Duration::from_millis(600);

/// A table or view in the list.
struct TableItem {
    name: String,
    href: String,
    is_view: bool,
    columns: String,
    rows: Option<String>,
    size: Option<String>,
}

/// The latest commit.
struct LastCommitView {
    href: String,
    short: String,
    message: String,
    author: String,
    when: Markup,
}

#[derive(Template)]
#[template(path = "tables.html")]
struct TablesPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    at: ShownVersion,
    head: Option<LastCommitView>,
    tables: Vec<TableItem>,
    readme: Option<Markup>,
    /// The menu of downloads.
    download: DownloadMenu,
    /// How far the branch is from the one that it contributes to.
    standing: Option<StandingView>,
    /// Another branch that the viewer wrote to a short while ago.
    recent: Option<RecentPushView>,
    origin: String,
    /// How clients of the engine use the database. `None` if the server has no remotes.
    remote: Option<RemotePanel>,
    /// What to do if there are no tables.
    empty: Option<EmptyVersion>,
}

/// How clients of the engine use a database.
struct RemotePanel {
    url: String,
    /// The default branch as a part of a string of SQL.
    branch: String,
    /// Whether clients send credentials: they do it over TLS only.
    is_secure: bool,
    /// The address of the database that this one was forked from.
    upstream: Option<String>,
}

impl RemotePanel {
    fn new(frame: &DatabaseFrame, origin: &str) -> Self {
        Self {
            url: format!("{origin}{}", frame.path),
            branch: frame.default_branch.replace('\'', "''"),
            is_secure: origin.starts_with("https://"),
            upstream: frame.parent.as_ref().map(|(_, path)| format!("{origin}{path}")),
        }
    }
}

fn size_text(size: &TableSize) -> String {
    let bytes = format::size(size.bytes);
    if size.is_estimate { format!("about {bytes}") } else { bytes }
}

/// Returns the first text of the table or view named `README`, rendered as Markdown.
fn readme(
    hub: &Hub,
    access: &DatabaseAccess<Read>,
    at: &CommitHash,
    schemas: &[TableSchema],
) -> Result<Option<Markup>, ReadError> {
    let Some(table) = schemas.iter().find(|schema| schema.name.eq_ignore_ascii_case(README)) else { return Ok(None) };
    let wanted = Selection {
        table: &table.name,
        tests: &[],
        order: None,
        backwards: false,
        after: None,
        skip: 0,
        limit: 1,
        timeout: README_PATIENCE,
        canceled: CancellationToken::default(),
    };
    let mut grid = Grid::cutting(README_CHARACTERS);
    hub.browse().rows(access, at, &wanted, &mut grid)?;
    let text = grid.rows.iter().flatten().find(|cell| cell.kind == CellKind::Text);
    Ok(text.map(|cell| markdown::render(&cell.text)))
}

/// `GET /{owner}/{database}?ref=…`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Read>(&visit, DatabaseTab::Tables).await?;
    let at = database::at(&visit, &access, &frame).await?;
    let standing = branch_standing::of(&visit, &access, &frame, &at).await?;
    let recent = branch_standing::recent_push(&visit, &access, &frame).await?;
    let recent = recent.filter(|push| push.branch != at.name);
    let commit = at.commit.clone();
    let (schemas, log, sizes, readme, others) = visit
        .run(&visit.state.sql, move |hub| -> Result<_, ReadError> {
            let schemas = hub.history().tables(&access, &commit)?;
            let log = hub.history().commits(&access, &LogPosition::from(commit.clone()), 1)?;
            let (began, mut sizes) = (Instant::now(), BTreeMap::new());
            for schema in schemas.iter().filter(|schema| schema.kind == TableKind::Table) {
                let left = ALL_PATIENCE.saturating_sub(began.elapsed()).min(COUNT_PATIENCE);
                if left.is_zero() {
                    break;
                }
                if let Some(size) = hub.browse().size(&access, &commit, schema, left)? {
                    sizes.insert(schema.name.clone(), size);
                }
            }
            let readme = readme(hub, &access, &commit, &schemas)?;
            let others = if schemas.is_empty() { refs_with_tables(hub, &access, &commit)? } else { Vec::new() };
            Ok((schemas, log, sizes, readme, others))
        })
        .await?;
    let now = visit.state.services.now();
    let head = log.into_iter().next().map(|entry| LastCommitView {
        href: frame.commit(&entry.commit.hash),
        short: format::short(&entry.commit.hash),
        message: format::first_line(&entry.commit.message),
        author: entry.commit.author.name,
        when: format::when(entry.commit.author.at, now),
    });
    let tables: Vec<_> = schemas
        .iter()
        .map(|schema| TableItem {
            name: schema.name.clone(),
            href: frame.table(&schema.name),
            is_view: schema.kind == TableKind::View,
            columns: format::counted(schema.columns.len() as u64, "column", "columns"),
            rows: sizes.get(&schema.name).map(|size| format::counted(size.rows, "row", "rows")),
            size: sizes.get(&schema.name).map(size_text),
        })
        .collect();
    let origin = visit.state.config.public_url.clone();
    let download = DownloadMenu::of_database(&frame);
    let remote = visit.state.config.remotes.enabled.then(|| RemotePanel::new(&frame, &origin));
    let empty = tables.is_empty().then(|| EmptyVersion::new(&visit, &frame, &at, others));
    visit.page(|shell| TablesPage {
        shell,
        frame,
        at,
        head,
        tables,
        readme,
        download,
        standing,
        recent,
        origin,
        remote,
        empty,
    })
}
