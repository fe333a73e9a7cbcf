//! `/{owner}/{database}/tables/{table}/choices`: values of a column, to choose a row that another one refers to, and to find out which
//! values exist.

use std::time::Duration;

use actix_web::HttpResponse;
use branchyard_domain::Hub;
use branchyard_domain::access::{DatabaseAccess, Write};
use branchyard_domain::entities::TableSchema;
use branchyard_domain::errors::ReadError;
use branchyard_domain::ports::{CancellationToken, RowOrder, RowTest, Selection, Test};
use branchyard_domain::usecases::LookEnd;
use branchyard_domain::values::CommitHash;
use serde_json::json;

use super::cells;
use crate::database::{self, DatabaseTab};
use crate::error_page::PageError;
use crate::page_context::{PageContext, PageResult};
use crate::rows::Grid;
use crate::table_query::MOST_VALUES;

/// Values that are offered.
const OFFERED: usize = 50;
/// Time limit for each of the reads.
const PATIENCE: Duration = Duration::from_secs(2);
/// Characters of a label.
const LABEL: usize = 80;

/// A value, and a text that says what it stands for.
type Choice = (String, Option<String>);

/// Reads choices of one column.
struct ChoicesQuery<'a> {
    access: &'a DatabaseAccess<Write>,
    commit: &'a CommitHash,
    schema: &'a TableSchema,
    column: &'a str,
    /// The position of the column.
    at: usize,
    /// The position of the column with the labels.
    label: Option<usize>,
}

impl ChoicesQuery<'_> {
    /// Returns the rows that pass the tests, by value.
    fn find(&self, hub: &Hub, tests: &[RowTest]) -> Result<Vec<Choice>, ReadError> {
        let wanted = Selection {
            table: &self.schema.name,
            tests,
            order: Some(RowOrder { column: self.column, descending: false }),
            backwards: false,
            after: None,
            skip: 0,
            limit: OFFERED as u64 + 1,
            timeout: PATIENCE,
            canceled: CancellationToken::default(),
        };
        let mut grid = Grid::cutting(cells::MOST_CHARACTERS);
        if let LookEnd::Failed(_) = hub.browse().rows(self.access, self.commit, &wanted, &mut grid)? {
            return Ok(Vec::new());
        }
        let choice = |row: &Vec<crate::rows::CellView>| {
            let value = row.get(self.at).filter(|cell| cell.is_findable())?;
            let label = self.label.and_then(|label| row.get(label)).filter(|cell| cell.is_findable());
            Some((value.text.clone(), label.map(|cell| cell.text.chars().take(LABEL).collect())))
        };
        Ok(grid.rows.iter().filter_map(choice).collect())
    }
}

/// `GET /{owner}/{database}/tables/{table}/choices?of=…&ref=…&text=…&is=…`
///
/// With `is`, repeated for at most 50 values, those of them that exist. Otherwise the values that start with `text`, and those of rows
/// whose label contains it.
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Write>(&visit, DatabaseTab::Tables).await?;
    let at = database::at(&visit, &access, &frame).await?;
    let (name, commit) = (visit.segment("table"), at.commit);
    let wanted = visit.parameter("of").ok_or_else(PageError::nothing_here)?;
    let (text, values) = (visit.parameter("text").unwrap_or_default(), visit.parameters("is"));
    let mut found = visit
        .run(&visit.state.sql, move |hub| -> Result<_, ReadError> {
            let schema = hub.browse().table(&access, &commit, &name)?;
            let place = schema.columns.iter().position(|column| column.name.eq_ignore_ascii_case(&wanted));
            let place = place.ok_or(ReadError::NoSuchColumn(wanted))?;
            let is_label = |(at, column): &(usize, &branchyard_domain::entities::TableColumn)| {
                *at != place && cells::affinity(&column.declared_type) == "text"
            };
            let label = schema.columns.iter().enumerate().find(is_label).map(|(at, _)| at);
            let column = schema.columns[place].name.as_str();
            let query = ChoicesQuery { access: &access, commit: &commit, schema: &schema, column, at: place, label };
            let test =
                |at: usize, test: Test, value: String| RowTest { column: schema.columns[at].name.clone(), test, value };
            if !values.is_empty() {
                let tests = values.into_iter().take(MOST_VALUES).map(|value| test(place, Test::OneOf, value));
                return query.find(hub, &tests.collect::<Vec<_>>());
            }
            if text.is_empty() {
                return query.find(hub, &[]);
            }
            let mut found = query.find(hub, &[test(place, Test::StartsWith, text.clone())])?;
            if let (Some(label), true) = (label, found.len() <= OFFERED) {
                for choice in query.find(hub, &[test(label, Test::Contains, text)])? {
                    if found.iter().all(|(value, _)| *value != choice.0) {
                        found.push(choice);
                    }
                }
            }
            Ok(found)
        })
        .await?;
    let more = found.len() > OFFERED;
    found.truncate(OFFERED);
    Ok(HttpResponse::Ok().json(json!({"values": found, "more": more})))
}
