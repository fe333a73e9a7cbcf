//! `/{owner}/{database}`: its tables at a ref, and how to reach it from elsewhere.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use askama::Template;
use branchyard_domain::access::Read;
use branchyard_domain::entities::{LogPosition, TableKind};
use branchyard_domain::errors::ReadError;

use crate::database::{self, At, Frame, Tab};
use crate::format::{self, Markup};
use crate::layout::Shell;
use crate::visit::{Answer, Visit};

use super::table::COUNT_PATIENCE;

/// How long all tables together may be counted; the rest goes without a number.
const ALL_PATIENCE: Duration = Duration::from_millis(600);

/// A table or view in the list.
struct Listed {
    name: String,
    href: String,
    is_view: bool,
    columns: String,
    rows: Option<String>,
}

/// The last commit.
struct Head {
    href: String,
    short: String,
    message: String,
    author: String,
    when: Markup,
}

#[derive(Template)]
#[template(path = "tables.html")]
struct TablesPage {
    shell: Shell,
    frame: Frame,
    at: At,
    head: Option<Head>,
    tables: Vec<Listed>,
    origin: String,
}

/// `GET /{owner}/{database}?ref=…`
pub(crate) async fn show(visit: Visit) -> Answer {
    let (access, frame) = database::open::<Read>(&visit, Tab::Tables).await?;
    let at = database::at(&visit, &access, &frame).await?;
    let commit = at.commit.clone();
    let slot = visit.read_slot()?;
    let (schemas, log, counts) = visit
        .run(&visit.state.sql, move |hub| -> Result<_, ReadError> {
            let schemas = hub.history().tables(&access, &commit)?;
            let log = hub.history().commits(&access, &LogPosition::from(commit.clone()), 1)?;
            let _slot = slot;
            let (began, mut counts) = (Instant::now(), BTreeMap::new());
            for schema in schemas.iter().filter(|schema| schema.kind == TableKind::Table) {
                let left = ALL_PATIENCE.saturating_sub(began.elapsed()).min(COUNT_PATIENCE);
                if left.is_zero() {
                    break;
                }
                if let Some(count) = hub.browse().count(&access, &commit, &schema.name, &[], left)? {
                    counts.insert(schema.name.clone(), count);
                }
            }
            Ok((schemas, log, counts))
        })
        .await?;
    let now = visit.state.hub.now();
    let head = log.into_iter().next().map(|entry| Head {
        href: frame.commit(&entry.commit.hash),
        short: format::short(&entry.commit.hash),
        message: format::first_line(&entry.commit.message),
        author: entry.commit.author.name,
        when: format::when(entry.commit.author.at, now),
    });
    let tables = schemas
        .iter()
        .map(|schema| Listed {
            name: schema.name.clone(),
            href: frame.table(&schema.name),
            is_view: schema.kind == TableKind::View,
            columns: format::counted(schema.columns.len() as u64, "column", "columns"),
            rows: counts.get(&schema.name).map(|count| format::counted(*count, "row", "rows")),
        })
        .collect();
    let origin = visit.state.config.public_url.clone();
    visit.page(|shell| TablesPage { shell, frame, at, head, tables, origin })
}
