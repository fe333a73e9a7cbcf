//! `/{owner}/{database}/operations`: queued, running and recent operations.

mod progress;
mod view;

use askama::Template;
use branchyard_domain::access::{DatabaseAccess, Read};
use branchyard_domain::entities::{Operation, OperationKind, Work};
use branchyard_domain::errors::OperationError;
use branchyard_domain::ports::OperationFilter;
use branchyard_domain::values::OperationId;

use self::progress::ProgressView;
pub(crate) use self::view::OperationView;
use crate::database::{self, DatabaseFrame, DatabaseTab};
use crate::error_page::PageError;
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::paths;

/// Operations per page.
const PAGE: usize = 50;

#[derive(Template)]
#[template(path = "operations.html")]
struct OperationsPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    title: &'static str,
    is_imports: bool,
    operations: Vec<OperationView>,
    is_live: bool,
    next: Option<String>,
}

/// `GET /{owner}/{database}/operations`
pub(crate) async fn list(visit: PageContext) -> PageResult {
    listed(visit, DatabaseTab::Operations, "Operations", None).await
}

/// `GET /{owner}/{database}/imports`
pub(crate) async fn list_imports(visit: PageContext) -> PageResult {
    listed(visit, DatabaseTab::Imports, "Imports", Some(&[OperationKind::Import])).await
}

async fn listed(
    visit: PageContext,
    tab: DatabaseTab,
    title: &'static str,
    kinds: Option<&'static [OperationKind]>,
) -> PageResult {
    let (access, frame) = database::open::<Read>(&visit, tab).await?;
    let before = visit.parameter("after").and_then(|id| OperationId::parse(&id).ok());
    let filter = OperationFilter { state: None, kinds };
    let mut found = visit.read(move |hub| hub.operations().list(&access, filter, before, PAGE + 1)).await?;
    let here = visit.request().path();
    let next = paths::next_page(&mut found, PAGE, here, |last| last.id.to_string());
    let now = visit.state.services.now();
    let is_live = found.iter().any(|operation| !operation.settled());
    let operations = found.iter().map(|operation| OperationView::of(operation, &frame, now, true)).collect();
    let is_imports = tab == DatabaseTab::Imports;
    visit.page(|shell| OperationsPage { shell, frame, title, is_imports, operations, is_live, next })
}

#[derive(Template)]
#[template(path = "operation.html")]
struct OperationPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    view: OperationView,
    /// How far it is, if it says so.
    progress: Option<ProgressView>,
    /// The path that cancels the operation, if the viewer can cancel it.
    cancel: Option<String>,
    form: Filled,
}

/// Returns the database and the operation named in the path.
async fn named(visit: &PageContext) -> Result<(DatabaseAccess<Read>, DatabaseFrame, Operation), PageError> {
    let (access, frame) = database::open::<Read>(visit, DatabaseTab::Operations).await?;
    let (caller, database) = (visit.caller.clone(), access.database().id);
    let id = OperationId::parse(&visit.segment("operation")).map_err(|_| PageError::nothing_here())?;
    let operation = visit.read(move |hub| hub.operations().get(&caller, id)).await?;
    if operation.database_id != database {
        return Err(PageError::nothing_here());
    }
    let tab = match operation.work {
        Work::Import(_) => DatabaseTab::Imports,
        Work::Fork { .. } => DatabaseTab::Forks,
        Work::SqlWrite { .. }
        | Work::Edit(_)
        | Work::Merge { .. }
        | Work::Purge
        | Work::Push(_)
        | Work::MirrorSync
        | Work::Restore { .. } => DatabaseTab::Operations,
    };
    Ok((access, frame.on(tab), operation))
}

/// `GET /{owner}/{database}/operations/{operation}`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let page = load_page(&visit, Filled::default()).await?;
    visit.page(|shell| OperationPage { shell, ..page })
}

async fn load_page(visit: &PageContext, form: Filled) -> Result<OperationPage, PageError> {
    let (_, frame, operation) = named(visit).await?;
    let (caller, seen) = (visit.caller.clone(), operation.clone());
    let sees_result = visit.read(move |hub| hub.operations().sees_result(&caller, &seen)).await?;
    let now = visit.state.services.now();
    let view = OperationView::of(&operation, &frame, now, sees_result);
    let progress = visit.state.services.operations().progress(operation.id).filter(|_| !view.is_settled);
    let progress = progress.map(|progress| ProgressView::of(&progress, now));
    let is_mine = visit.caller.user().is_some_and(|user| user.id == operation.created_by);
    let may_cancel = operation.cancelable() && (is_mine || frame.may_write);
    let cancel = may_cancel.then(|| format!("{}/cancel", view.href));
    Ok(OperationPage { shell: LayoutContext::default(), frame, view, progress, cancel, form })
}

/// `POST /{owner}/{database}/operations/{operation}/cancel`
pub(crate) async fn cancel(posted: FormPost) -> PageResult {
    let user = posted.user()?;
    let (_, frame, operation) = named(&posted).await?;
    let id = operation.id;
    let canceled =
        posted.write_always(move |hub| -> Result<_, OperationError> { hub.operations().cancel(&user, id, None) });
    match canceled.await {
        Ok(_) => posted.redirect_saying(&format!("{}/operations/{id}", frame.path), "Operation canceled."),
        Err(failure) => {
            let page = load_page(&posted, Filled::default().refused(failure, &[])?).await?;
            posted.refuse(|shell| OperationPage { shell, ..page })
        }
    }
}
