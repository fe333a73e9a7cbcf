//! `/new`: a new database, which may begin with a file, with sample data, or as a mirror.

mod creation;
mod with_file;

use actix_web::dev::Payload;
use actix_web::http::header;
use actix_web::{FromRequest as _, HttpRequest, web};
use askama::Template;
use branchyard_domain::entities::Mirror;
use branchyard_domain::values::DatabaseName;
use branchyard_http_common::form_boundary;

use self::creation::{WantedDatabase, create};
pub(crate) use self::with_file::open_upload;
use super::imports::upload::FileField;
use super::sample;
use crate::error_page::PageError;
use crate::forms::{Filled, Form, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::paths;

/// Seconds between two syncs that the form offers, and what it calls them.
const INTERVALS: [(&str, &str); 4] =
    [("600", "Every 10 minutes"), (HOURLY, "Every hour"), ("86400", "Every day"), ("0", "Once, then write to it here")];
const HOURLY: &str = "3600";
/// Organizations that the form offers as owners.
const OFFERED: usize = 100;

#[derive(Template)]
#[template(path = "new_database.html")]
struct NewDatabasePage {
    shell: LayoutContext,
    form: Filled,
    file: FileField,
    has_sample: bool,
    owners: Vec<String>,
    intervals: [(&'static str, &'static str); 4],
}

async fn fill(
    visit: &PageContext,
    form: Filled,
) -> Result<impl FnOnce(LayoutContext) -> NewDatabasePage + use<>, PageError> {
    let user = visit.user()?;
    let mut owners = vec![user.name.to_string()];
    let views = visit.read(move |hub| hub.organizations().list(&user, None, OFFERED)).await?;
    owners.extend(views.into_iter().map(|view| view.organization.name.to_string()));
    let (file, has_sample) = (FileField::new(visit, false), sample::is_offered(visit));
    Ok(move |shell| NewDatabasePage { shell, form, file, has_sample, owners, intervals: INTERVALS })
}

/// `GET /new?owner=…`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let owner = visit.parameter("owner").unwrap_or_default();
    let form = Filled::default().with("owner", owner).with("visibility", "public").with("interval", HOURLY);
    let page = fill(&visit, form).await?;
    visit.page(page)
}

/// `POST /new`: the form of the page, with or without a file.
pub(crate) async fn receive(request: HttpRequest, payload: web::Payload) -> PageResult {
    let content_type = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if let Some(boundary) = form_boundary(content_type.unwrap_or_default()) {
        return with_file::receive(&request, payload, boundary).await;
    }
    let mut payload: Payload = payload.into_inner();
    let posted = FormPost::from_request(&request, &mut payload).await?;
    without_file(&posted, &posted.form).await
}

/// Creates a database whose form has no file.
async fn without_file(visit: &PageContext, form: &Form) -> PageResult {
    let user = visit.user()?;
    let mut filled = form.again();
    let Some(wanted) = WantedDatabase::read(form, &mut filled, None) else {
        let page = fill(visit, filled).await?;
        return visit.refuse(page);
    };
    let has_sample = wanted.has_sample;
    match visit.write(move |hub| create(hub, &user, &wanted)).await? {
        Ok(locator) if has_sample => sample::begin(visit, &locator).await,
        Ok(locator) => visit.redirect(&paths::database(&locator)),
        Err((field, why)) => {
            let page = fill(visit, filled.wrong(field, why)).await?;
            visit.refuse(page)
        }
    }
}

/// Proposes the name of a database for a file: its stem, with `-` for what a name cannot hold.
fn named_after(file_name: &str) -> Option<DatabaseName> {
    let stem = file_name.rsplit_once('.').map_or(file_name, |(stem, _)| stem);
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c.to_ascii_lowercase() } else { '-' };
    let words: Vec<String> = stem
        .chars()
        .map(plain)
        .collect::<String>()
        .split('-')
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect();
    // Leaves room for the number of a name that is taken.
    let name: String = words.join("-").chars().take(60).collect();
    DatabaseName::parse(if name.is_empty() { "data" } else { &name }).ok()
}

/// Returns the interval of a mirror in seconds.
fn interval(form: &Form) -> i64 {
    form.line("interval").parse().unwrap_or(Mirror::DEFAULT_INTERVAL_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::named_after;

    #[test]
    fn databases_are_named_after_files() {
        let cases = [
            ("Rivers of Europe.csv", "rivers-of-europe"),
            ("a.b.json", "a-b"),
            ("..csv", "data"),
            ("Flüsse (neu).xlsx", "fl-sse-neu"),
            ("trees_2024", "trees_2024"),
        ];
        for (file, name) in cases {
            assert_eq!(named_after(file).unwrap().as_str(), name, "{file}");
        }
        assert_eq!(named_after(&"x".repeat(500)).unwrap().as_str().len(), 60);
    }
}
