//! `/deployments/{owner}/{deployment}/operations`: queued, running and recent operations.

use askama::Template;
use branchyard_deployments::access::Observe;
use branchyard_deployments::entities::{
    DeploymentFailureKind, DeploymentOperation, DeploymentProgress, DeploymentWork,
};
use branchyard_deployments::ports::DeploymentOperationFilter;
use branchyard_domain::values::{OperationId, Timestamp};

use crate::deployment::{self, DeploymentFrame, DeploymentTab};
use crate::format::{self, Markup};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::paths;

/// Operations per page.
const PAGE: usize = 30;

struct DeploymentOperationListRow {
    id: String,
    title: &'static str,
    status: &'static str,
    class: &'static str,
    by: String,
    created: Markup,
    failure: Option<String>,
    backup: Option<String>,
}

/// Describes why an operation failed. Returns `None` if it did not fail.
pub(super) fn failure(operation: &DeploymentOperation) -> Option<String> {
    let DeploymentProgress::Failed(failure) = &operation.progress else { return None };
    Some(match failure.kind {
        DeploymentFailureKind::Expired => "It could not start in time. Try again.".to_owned(),
        DeploymentFailureKind::Internal => {
            "Something went wrong on the server; its log has the details. Try again, or tell your administrator."
                .to_owned()
        }
        DeploymentFailureKind::Failed => crate::error_page::sentence(&failure.detail),
    })
}

impl DeploymentOperationListRow {
    fn of(operation: &DeploymentOperation, now: Timestamp) -> Self {
        let (status, class, backup) = match &operation.progress {
            DeploymentProgress::Queued => ("Queued", "runs", None),
            DeploymentProgress::Running => ("Running", "runs", None),
            DeploymentProgress::Succeeded(backup) => ("Succeeded", "good", backup.map(|id| id.to_string())),
            DeploymentProgress::Failed(_) => ("Failed", "bad", None),
        };
        Self {
            id: operation.id.to_string(),
            title: match operation.work {
                DeploymentWork::RebootInstance(_) => "Reboot",
                DeploymentWork::CreateBackup => "Backup",
                DeploymentWork::Delete => "Deletion",
            },
            status,
            class,
            by: operation.created_by_name.to_string(),
            created: format::when(operation.created_at, now),
            failure: failure(operation),
            backup,
        }
    }
}

#[derive(Template)]
#[template(path = "deployments/operations.html")]
struct DeploymentOperationsPage {
    shell: LayoutContext,
    frame: DeploymentFrame,
    rows: Vec<DeploymentOperationListRow>,
    is_live: bool,
    next: Option<String>,
}

/// `GET …/operations`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, _, frame) = deployment::open::<Observe>(&visit, DeploymentTab::Operations).await?;
    let before = visit.parameter("after").and_then(|id| OperationId::parse(&id).ok());
    let filter = DeploymentOperationFilter::default();
    let mut found = visit.read(move |hub| hub.deployments().operations(&access, filter, before, PAGE + 1)).await?;
    let path = format!("{}/operations", frame.path);
    let next = paths::next_page(&mut found, PAGE, &path, |last| last.id.to_string());
    let now = visit.state.services.now();
    let is_live = found.iter().any(|operation| !operation.settled());
    let rows = found.iter().map(|operation| DeploymentOperationListRow::of(operation, now)).collect();
    visit.page(|shell| DeploymentOperationsPage { shell, frame, rows, is_live, next })
}
