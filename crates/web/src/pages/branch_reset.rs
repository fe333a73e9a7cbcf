//! `/{owner}/{database}/branches/{branch}/reset?to=…`: asks, then moves a branch back to an earlier commit if it has not moved.

use branchyard_domain::access::{DatabaseAccess, Write};
use branchyard_domain::errors::RefError;
use branchyard_domain::usecases::{Branches, ResetPreview};
use branchyard_domain::values::CommitHash;
use branchyard_http_common::{ApiError, segment};

use super::confirm::{self, AffectedItem, ConfirmQuestion};
use crate::database::{self, DatabaseFrame, DatabaseTab};
use crate::error_page::PageError;
use crate::format;
use crate::forms::{Filled, FormPost};
use crate::page_context::{PageContext, PageResult};
use crate::paths;

/// Returns the address of the question whether to reset a branch to a commit.
pub(crate) fn address(frame: &DatabaseFrame, branch: &str, to: &CommitHash) -> String {
    let path = format!("{}/branches/{}/reset", frame.path, segment(branch));
    paths::with_query(&path, &[("to", to.as_str())])
}

async fn preview(visit: &PageContext, access: &DatabaseAccess<Write>, to: String) -> Result<ResetPreview, PageError> {
    let (access, name) = (access.clone(), visit.segment("branch"));
    let found = visit.read(move |hub| -> Result<_, ApiError> {
        let to = hub.history().resolve(&access, Some(&to))?;
        Ok(hub.branches().reset_preview(&access, &name, &to)?)
    });
    Ok(found.await?)
}

fn question(frame: &DatabaseFrame, found: &ResetPreview) -> (ConfirmQuestion, Vec<AffectedItem>) {
    let (branch, to) = (found.branch.name.as_str(), format::short(&found.to));
    let question = ConfirmQuestion {
        title: format!("Reset {branch} to {to}?"),
        text: format!("Branch {branch} moves back from {} to {to}. {}", format::short(&found.branch.head), loss(found)),
        button: "Reset branch",
        back: paths::with_query(&format!("{}/commits", frame.path), &[("ref", branch)]),
        hidden: vec![("to", found.to.to_string()), ("head", found.branch.head.to_string())],
    };
    let affected = found.lost.iter().map(|commit| AffectedItem {
        label: format!("{} {}", format::short(&commit.hash), format::first_line(&commit.message)),
        href: frame.commit(&commit.hash),
    });
    (question, affected.collect())
}

/// Says how many commits no branch or tag would reach any more. A list of them may follow.
fn loss(found: &ResetPreview) -> String {
    if found.count.is_zero() {
        return "Its later commits stay in other branches or tags.".to_owned();
    }
    let counted = format::counted(found.count.counted as u64, "commit", "commits");
    let counted = match (found.count.is_more, found.is_exact) {
        (true, _) => format!("More than {counted}"),
        (false, false) => format!("Up to {counted}"),
        (false, true) => counted,
    };
    let undo = match found.restorable_seconds > 0 {
        true => "An administrator can undo this for a while, on the page of branches.",
        false => "This can't be undone.",
    };
    let end = match found.count.is_more || found.count.counted > Branches::MOST_LOST {
        true => format!(". The latest {}:", Branches::MOST_LOST),
        false => ":".to_owned(),
    };
    format!("{undo} {counted} would no longer be in any branch or tag{end}")
}

/// `GET`
pub(crate) async fn ask(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Write>(&visit, DatabaseTab::Branches).await?;
    let found = preview(&visit, &access, visit.parameter("to").unwrap_or_default()).await?;
    let (question, affected) = question(&frame, &found);
    confirm::ask_about(&visit, frame, question, affected)
}

/// `POST`
pub(crate) async fn reset(posted: FormPost) -> PageResult {
    let (access, frame) = database::open::<Write>(&posted, DatabaseTab::Branches).await?;
    let (of, name, sent) = (access.clone(), posted.segment("branch"), posted.form.line("to"));
    let (to, head) = (CommitHash::parse(&sent), CommitHash::parse(&posted.form.line("head")));
    let done = posted.write(move |hub| -> Result<_, RefError> {
        let (Ok(to), Ok(head)) = (to, head) else { return Err(RefError::Changed) };
        hub.branches().reset(&of, &name, &to, &head)
    });
    match done.await {
        Ok(branch) => {
            let commits = paths::with_query(&format!("{}/commits", frame.path), &[("ref", branch.name.as_str())]);
            posted.redirect_saying(
                &commits,
                &format!("Branch {} is at {} again.", branch.name, format::short(&branch.head)),
            )
        }
        Err(failure) => {
            let form = Filled::default().refused(failure, &[])?;
            let found = preview(&posted, &access, sent).await?;
            let (question, affected) = question(&frame, &found);
            confirm::ask_again_about(&posted, frame, question, affected, form)
        }
    }
}
