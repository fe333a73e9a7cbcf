//! Downloads: a commit or one of its tables as a file (`/{owner}/{database}/export?format=…`), and the menu that offers them.
//!
//! `/{owner}/{database}/zip` and `/{owner}/{database}/tables/{table}/csv` are addresses from before the menu.

use branchyard_domain::access::Read;
use branchyard_domain::usecases::ExportedRows;
use branchyard_http_common::{Export, ExportFormat};
use branchyard_problem_details::{ErrorCode, FieldError, Problem};

use super::open_in;
use crate::database::{self, DatabaseFrame, DatabaseTab, ShownVersion};
use crate::page_context::{PageContext, PageResult};
use crate::table_query::{self, Looking};

/// The formats of one table, and of all tables: values and labels.
const OF_TABLE: [(&str, &str); 4] = [("csv", "CSV"), ("xlsx", "Excel"), ("json", "JSON"), ("parquet", "Parquet")];
const OF_ALL: [(&str, &str); 3] = [("sqlite", "SQLite file"), ("sql", "SQL script"), ("zip", "ZIP of CSV files")];

/// The menu of downloads, as a form whose buttons are the formats.
pub(crate) struct DownloadMenu {
    pub(crate) action: String,
    /// Hidden fields: the version, the table, and what the page filters and sorts by.
    pub(crate) fields: Vec<(&'static str, String)>,
    pub(crate) formats: &'static [(&'static str, &'static str)],
    /// The page with recipes that open the same in other programs.
    pub(crate) open_in: String,
}

impl DownloadMenu {
    /// Returns the menu of a whole database at the shown version.
    pub(crate) fn of_database(frame: &DatabaseFrame) -> Self {
        Self::new(frame, "", Vec::new(), &OF_ALL)
    }

    /// Returns the menu of a table or view. It keeps the filter and the order of the page.
    pub(crate) fn of_table(frame: &DatabaseFrame, table: &str, looking: &Looking) -> Self {
        let mut fields = vec![("table", table.to_owned())];
        for test in &looking.tests {
            fields.push(("column", test.column.clone()));
            fields.push(("test", table_query::word(test.test).to_owned()));
            fields.push(("value", test.value.clone()));
        }
        fields.extend(looking.sort.clone().map(|sort| ("sort", sort)));
        fields.extend(looking.descending.then(|| ("desc", "1".to_owned())));
        Self::new(frame, table, fields, &OF_TABLE)
    }

    fn new(
        frame: &DatabaseFrame,
        table: &str,
        mut fields: Vec<(&'static str, String)>,
        formats: &'static [(&'static str, &'static str)],
    ) -> Self {
        fields.extend((!frame.asked_ref.is_empty()).then(|| ("ref", frame.asked_ref.clone())));
        Self { action: format!("{}/export", frame.path), fields, formats, open_in: open_in::address(frame, table) }
    }
}

/// `GET /{owner}/{database}/export?format=…&table=…&ref=…&safe=true&column=…&test=…&value=…&sort=…&desc=1`
pub(crate) async fn export(visit: PageContext) -> PageResult {
    let asked = visit.parameter("format").unwrap_or_default();
    let known = ExportFormat::ALL.iter().find(|(name, _)| *name == asked).map(|(_, format)| *format);
    let wrong = |parameter: &'static str, text: &str| {
        let entries = [FieldError::at_parameter(parameter, text)];
        Err(Problem::new(ErrorCode::ValidationFailed, format!("{parameter}: {text}")).with_errors(entries).into())
    };
    let Some(format) = known else { return wrong("format", "choose one of the formats in the menu") };
    let table = visit.parameter("table").unwrap_or_default();
    if format.is_of_table() && table.is_empty() {
        return wrong("table", "name the table to download");
    }
    send(&visit, format, table).await
}

/// `GET /{owner}/{database}/tables/{table}/csv?ref=…`
pub(crate) async fn table(visit: PageContext) -> PageResult {
    let table = visit.segment("table");
    send(&visit, ExportFormat::Csv, table).await
}

/// `GET /{owner}/{database}/zip?ref=…`
pub(crate) async fn archive(visit: PageContext) -> PageResult {
    send(&visit, ExportFormat::Zip, String::new()).await
}

async fn send(visit: &PageContext, format: ExportFormat, table: String) -> PageResult {
    let (access, frame) = database::open::<Read>(visit, DatabaseTab::Tables).await?;
    let ShownVersion { commit, name, .. } = database::at(visit, &access, &frame).await?;
    let looking = Looking::of(visit);
    let order = looking.sort.map(|sort| (sort, looking.descending));
    let rows = ExportedRows { table, tests: looking.tests, order };
    let is_safe = visit.parameter("safe").is_some_and(|value| value == "true");
    Ok(Export { format, rows, is_safe, at: name }.send(visit, access, commit).await?)
}
