//! `/{owner}/{database}/tables/{table}/values`: the values of a column, each as a filter.

use std::time::Duration;

use askama::Template;
use branchyard_domain::access::Read;
use branchyard_domain::entities::Cell;
use branchyard_domain::errors::ReadError;
use branchyard_domain::ports::{ColumnQuery, RowTest, Test};
use branchyard_domain::usecases::ValuesFound;

use crate::database::{self, DatabaseFrame, DatabaseTab, ShownVersion};
use crate::error_page::PageError;
use crate::format;
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::rows::CellView;
use crate::table_query::{self, Looking};

/// Values shown. The number of values that a filter can name is the same.
const VALUES: u64 = table_query::MOST_VALUES as u64;
/// Rows read. Beyond it, the page describes the first rows only.
const ROWS: u64 = 1_000_000;
/// Time limit for reading the values.
const PATIENCE: Duration = Duration::from_secs(1);

/// A value, and the rows that have it.
struct ValueLine {
    text: String,
    count: String,
    href: String,
    is_ticked: bool,
}

#[derive(Template)]
#[template(path = "column_values.html")]
struct ColumnValuesPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    at: ShownVersion,
    table: String,
    path: String,
    column: String,
    values: Vec<ValueLine>,
    more: bool,
    /// What the values are the values of.
    summary: String,
    /// The least and the greatest value.
    range: Option<(String, String)>,
    at_least: String,
    at_most: String,
    nulls: String,
    only_nulls: String,
    without_nulls: String,
    /// The filters of other columns, and the order.
    kept: Vec<(&'static str, String)>,
    back: String,
}

/// Returns the address of the page.
pub(super) fn address(frame: &DatabaseFrame, looking: &Looking, path: &str, column: &str) -> String {
    let address = looking.at_page(String::new()).address(&format!("{path}/values"), &frame.asked_ref);
    let sign = if address.contains('?') { '&' } else { '?' };
    format!("{address}{sign}of={}", branchyard_http_common::segment(column))
}

/// `GET /{owner}/{database}/tables/{table}/values?of=…&ref=…&column=…&test=…&value=…`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Read>(&visit, DatabaseTab::Tables).await?;
    let at = database::at(&visit, &access, &frame).await?;
    let (name, looking, commit) = (visit.segment("table"), Looking::of(&visit), at.commit.clone());
    let wanted = visit.parameter("of").ok_or_else(PageError::nothing_here)?;
    let (others, asked) = (looking.without_column(&wanted), wanted.clone());
    let tests = others.tests.clone();
    let (schema, found) = visit
        .run(&visit.state.sql, move |hub| -> Result<_, ReadError> {
            let schema = hub.browse().table(&access, &commit, &name)?;
            let query = ColumnQuery {
                table: &schema.name,
                column: &asked,
                tests: &tests,
                rows: ROWS,
                limit: VALUES,
                timeout: PATIENCE,
            };
            let found = hub.browse().column_values(&access, &commit, &query)?;
            Ok((schema, found))
        })
        .await?;
    let column = schema.columns.iter().find(|column| column.name.eq_ignore_ascii_case(&wanted));
    let column = column.map_or(wanted, |column| column.name.clone());
    let path = frame.table_path(&schema.name);
    let to = |looking: &Looking| looking.address(&path, &frame.asked_ref);
    let summary = summary(found.as_ref());
    let found = found.map(|found| found.found).unwrap_or_default();
    let of_column = |test: Test| {
        let same = |it: &&RowTest| it.test == test && it.column.eq_ignore_ascii_case(&column);
        looking.tests.iter().filter(same).map(|it| it.value.clone()).collect::<Vec<_>>()
    };
    let bound = |test: Test| of_column(test).into_iter().next().unwrap_or_default();
    let ticked = [of_column(Test::OneOf), of_column(Test::Equals)].concat();
    let (at_least, at_most) = (bound(Test::AtLeast), bound(Test::AtMost));
    let values = found.values.iter().map(|(cell, count)| {
        let text = text(cell);
        ValueLine {
            href: to(&others.and(&column, Test::Equals, &text)),
            is_ticked: ticked.contains(&text),
            count: format::count(*count),
            text,
        }
    });
    let values = values.collect();
    let range = found.range.as_ref().map(|(least, greatest)| (text(least), text(greatest)));
    let (only_nulls, without_nulls) =
        (to(&others.and(&column, Test::IsNull, "")), to(&others.and(&column, Test::IsNotNull, "")));
    let (kept, back) = (kept(&frame, &others), to(&looking.at_page(String::new())));
    visit.page(|shell| ColumnValuesPage {
        shell,
        at,
        table: schema.name,
        path: path.clone(),
        values,
        more: found.more,
        summary,
        range,
        at_least,
        at_most,
        nulls: format::counted(found.nulls, "row", "rows"),
        only_nulls,
        without_nulls,
        kept,
        back,
        column: column.clone(),
        frame,
    })
}

/// Returns the text of a value as filters compare it.
fn text(cell: &Cell) -> String {
    CellView::of(cell, usize::MAX).text
}

fn summary(found: Option<&ValuesFound>) -> String {
    match found {
        None => "Reading the values took too long and was stopped. Filter the rows first.".to_owned(),
        Some(found) if found.is_sample => format!("In the first {} rows", format::count(found.found.rows)),
        Some(found) => format!("In {}", format::counted(found.found.rows, "row", "rows")),
    }
}

/// Returns the fields that a form about one column keeps of the view.
fn kept(frame: &DatabaseFrame, others: &Looking) -> Vec<(&'static str, String)> {
    let mut kept = vec![("ref", frame.asked_ref.clone())];
    for test in &others.tests {
        kept.push(("column", test.column.clone()));
        kept.push(("test", table_query::word(test.test).to_owned()));
        kept.push(("value", test.value.clone()));
    }
    kept.extend(others.sort.iter().map(|sort| ("sort", sort.clone())));
    if others.descending {
        kept.push(("desc", "1".to_owned()));
    }
    if others.rows != table_query::PAGE_SIZES[0] {
        kept.push(("rows", others.rows.to_string()));
    }
    kept.retain(|(name, value)| *name != "ref" || !value.is_empty());
    kept
}

#[cfg(test)]
mod tests {
    use branchyard_domain::ports::ColumnValues;
    use branchyard_domain::usecases::ValuesFound;

    use super::summary;

    #[test]
    fn a_sample_is_called_one() {
        let of = |rows, is_sample| ValuesFound { found: ColumnValues { rows, ..ColumnValues::default() }, is_sample };
        assert_eq!(summary(Some(&of(1, false))), "In 1 row");
        assert_eq!(summary(Some(&of(5_000, true))), "In the first 5,000 rows");
        assert!(summary(None).contains("Filter the rows first"));
    }
}
