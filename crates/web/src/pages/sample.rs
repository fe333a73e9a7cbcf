//! `/{owner}/{database}/sample`: fills an empty database with sample data, as one commit of the viewer.

use branchyard_domain::Hub;
use branchyard_domain::access::{DatabaseAccess, Write};
use branchyard_domain::entities::{DatabaseLocator, Operation, OperationStatus};
use branchyard_domain::usecases::SqlWrite;
use branchyard_http_common::ApiError;

use crate::database::{self, DatabaseTab};
use crate::forms::FormPost;
use crate::page_context::{PageContext, PageResult};
use crate::{paths, settled};

/// The message of the commit.
const MESSAGE: &str = "Load sample data";

/// Returns `true` if the server has sample data.
pub(super) fn is_offered(visit: &PageContext) -> bool {
    !visit.state.config.sample_script.is_empty()
}

/// `POST /{owner}/{database}/sample`
pub(crate) async fn load(posted: FormPost) -> PageResult {
    let (access, _) = database::open::<Write>(&posted, DatabaseTab::Tables).await?;
    fill(&posted, access).await
}

/// Fills a database that the viewer has just created.
pub(super) async fn begin(visit: &PageContext, locator: &DatabaseLocator) -> PageResult {
    let (caller, of) = (visit.caller.clone(), locator.clone());
    let access = visit.read(move |hub| hub.databases().access(&caller, of.owner.as_str(), of.name.as_str())).await?;
    fill(visit, access).await
}

async fn fill(visit: &PageContext, access: DatabaseAccess<Write>) -> PageResult {
    let (path, statements) = (paths::database(&access.database().locator), visit.state.config.sample_script);
    let started = visit.write(move |hub| start(hub, &access, statements)).await?;
    let Some(operation) = started else {
        return visit.redirect_saying(&path, "The sample data was not loaded: this database has tables.");
    };
    let operation = settled::read_soon(visit, operation.id).await?;
    match operation.status {
        OperationStatus::Succeeded(_) => visit.redirect_saying(&path, "The sample data was loaded."),
        _ => visit.redirect(&format!("{path}/operations/{}", operation.id)),
    }
}

/// Queues the write of the sample data to the default branch. Returns `None` if the branch has tables, or if there is no sample data.
fn start(hub: &Hub, access: &DatabaseAccess<Write>, statements: &str) -> Result<Option<Operation>, ApiError> {
    let head = hub.sql().resolve(access, None)?;
    if statements.is_empty() || !hub.history().tables(access, &head)?.is_empty() {
        return Ok(None);
    }
    let branch = access.database().default_branch.clone();
    let wanted = SqlWrite {
        from_branch: branch.to_string(),
        to_branch: branch,
        statements: statements.to_owned(),
        message: Some(MESSAGE.to_owned()),
        // What others wrote meanwhile is left alone.
        expected_head: Some(head),
        start: None,
    };
    Ok(Some(hub.operations().sql_write(access, wanted, None)?))
}
