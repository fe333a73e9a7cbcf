//! `POST /{owner}/{database}/pulls/{number}/merge`

use std::collections::BTreeMap;

use branchyard_domain::access::Write;
use branchyard_domain::entities::Side;
use branchyard_domain::errors::{PortError, PullError};
use branchyard_domain::usecases::MergePull;
use branchyard_domain::values::LongText;

use super::{PullTab, open};
use crate::error_page::PageError;
use crate::forms::{Form, FormPost};
use crate::page_context::PageResult;
use crate::settled;

/// Queues the merge. The page of the pull request shows its progress.
pub(crate) async fn send(posted: FormPost) -> PageResult {
    let (access, _, pull, head) = open::<Write>(&posted, PullTab::Conversation).await?;
    let message = match LongText::parse(posted.form.text("message")) {
        Ok(message) => message,
        Err(error) => return posted.redirect_saying(&head.path, &format!("Not merged: {error}.")),
    };
    let how = MergePull { message: Some(message), resolve: decisions(&posted.form) };
    let accepted =
        posted.write(move |hub| Ok::<_, PortError>(hub.pulls().merge(&access, pull.number, how, None))).await?;
    match accepted {
        Ok(operation) => {
            settled::soon(&posted, operation.id).await;
            posted.redirect(&head.path)
        }
        Err(
            error @ (PullError::Merging(_)
            | PullError::State(_)
            | PullError::BranchMissing(_)
            | PullError::QueueFull(_)
            | PullError::Quota(_)),
        ) => posted.redirect_saying(&head.path, &format!("Not merged: {error}.")),
        Err(error) => Err(PageError::refused(error.into(), posted.request())),
    }
}

/// Returns the chosen side per table, from the fields `table-0` and `side-0`, `table-1` and `side-1`, and so on.
fn decisions(form: &Form) -> BTreeMap<String, Side> {
    let fields = (0..).map_while(|at| {
        let table = form.text(&format!("table-{at}"));
        (!table.is_empty()).then(|| (table, form.line(&format!("side-{at}"))))
    });
    let decided = fields.filter_map(|(table, side)| match side.as_str() {
        "ours" => Some((table, Side::Ours)),
        "theirs" => Some((table, Side::Theirs)),
        _ => None,
    });
    decided.collect()
}
