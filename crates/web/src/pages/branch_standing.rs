//! How far the shown branch and the one that it contributes to are apart, and `POST /{owner}/{database}/sync`.

use branchyard_domain::access::{DatabaseAccess, Read, Write};
use branchyard_domain::entities::OperationStatus;
use branchyard_domain::errors::{PortError, PullError, RefError};
use branchyard_domain::usecases::pull_rules::OpeningError;
use branchyard_domain::usecases::{BranchStanding, CommitCount, Synced};
use branchyard_domain::values::RefName;

use crate::database::{self, DatabaseFrame, DatabaseTab, ShownVersion};
use crate::error_page::PageError;
use crate::format::{self, Markup};
use crate::forms::FormPost;
use crate::page_context::{PageContext, PageResult};
use crate::{paths, settled};

/// What a viewer can do about commits of the parent that a branch of a fork lacks.
pub(crate) enum SyncChoice {
    /// There are none, or the viewer cannot write to the fork.
    Nothing,
    /// Sync, by the form with this action.
    Form(String),
    /// Open a pull request on this page, which asks for consent.
    PullRequest(String),
    /// Ask for the write role on the parent, which is private.
    NeedsRole,
}

/// A branch beside the one that it contributes to.
pub(crate) struct StandingView {
    /// The branch.
    pub(crate) branch: String,
    /// The other branch: `main`, or `ada/rivers:main` if it is in the parent of a fork.
    pub(crate) other: String,
    pub(crate) other_href: String,
    /// The parent of the fork. Empty if the other branch is in the same database.
    pub(crate) parent: String,
    /// Numbers of commits, formatted.
    pub(crate) ahead: String,
    pub(crate) behind: String,
    pub(crate) is_even: bool,
    /// Number and page of the open pull request from the branch to the other one.
    pub(crate) pull: Option<(String, String)>,
    /// The form that opens a pull request, if the viewer is signed in and the branch has something to contribute.
    pub(crate) contribute: Option<String>,
    pub(crate) sync: SyncChoice,
}

/// A branch that the viewer wrote to a short while ago.
pub(crate) struct RecentPushView {
    pub(crate) branch: String,
    pub(crate) when: Markup,
    /// The form that opens a pull request.
    pub(crate) href: String,
}

impl StandingView {
    fn new(visit: &PageContext, frame: &DatabaseFrame, branch: &RefName, standing: &BranchStanding) -> Self {
        let parent = standing.parent.as_ref();
        let path = parent.map_or_else(|| frame.path.clone(), paths::database);
        let to_branch = standing.to_branch.as_str();
        let is_signed_in = visit.caller.user().is_some();
        let has_more = is_signed_in && standing.pull.is_none() && !standing.ahead.is_zero();
        Self {
            branch: branch.to_string(),
            other: parent.map_or_else(|| to_branch.to_owned(), |parent| format!("{parent}:{to_branch}")),
            other_href: paths::with_query(&path, &[("ref", to_branch)]),
            parent: parent.map(ToString::to_string).unwrap_or_default(),
            ahead: commits(standing.ahead),
            behind: commits(standing.behind),
            is_even: standing.ahead.is_zero() && standing.behind.is_zero(),
            pull: standing.pull.map(|number| (number.to_string(), format!("{path}/pulls/{number}"))),
            contribute: has_more.then(|| contribution(frame, branch, standing)),
            sync: sync_choice(frame, branch, standing),
        }
    }
}

/// Returns the form that opens a pull request from a branch to the one that it contributes to.
fn contribution(frame: &DatabaseFrame, branch: &RefName, standing: &BranchStanding) -> String {
    let (path, source) = match &standing.parent {
        Some(parent) => (paths::database(parent), format!("{}/{}", frame.owner, frame.name)),
        None => (frame.path.clone(), String::new()),
    };
    let query = [("source", source.as_str()), ("from", branch.as_str()), ("to", standing.to_branch.as_str())];
    paths::with_query(&format!("{path}/pulls/new"), &query)
}

fn sync_choice(frame: &DatabaseFrame, branch: &RefName, standing: &BranchStanding) -> SyncChoice {
    let Some(parent) = standing.parent.as_ref().filter(|_| frame.may_write && !standing.behind.is_zero()) else {
        return SyncChoice::Nothing;
    };
    match standing.sync {
        Ok(()) => SyncChoice::Form(format!("{}/sync", frame.path)),
        Err(OpeningError::NeedsPublish) => {
            let source = parent.to_string();
            let query = [("source", source.as_str()), ("from", standing.to_branch.as_str()), ("to", branch.as_str())];
            SyncChoice::PullRequest(paths::with_query(&format!("{}/pulls/new", frame.path), &query))
        }
        Err(OpeningError::Hidden | OpeningError::NeedsWrite) => SyncChoice::NeedsRole,
    }
}

fn commits(count: CommitCount) -> String {
    let counted = format::count(count.counted as u64);
    if count.is_more { format!("more than {counted}") } else { counted }
}

/// Returns how far the branch that a page shows is from the one that it contributes to. `None` for a tag or a commit, and if there is
/// no other branch.
pub(crate) async fn of(
    visit: &PageContext,
    access: &DatabaseAccess<Read>,
    frame: &DatabaseFrame,
    at: &ShownVersion,
) -> Result<Option<StandingView>, PageError> {
    let Ok(branch) = RefName::parse(&at.name) else { return Ok(None) };
    if at.kind != "branch" {
        return Ok(None);
    }
    let (access, name) = (access.clone(), branch.clone());
    let found = visit.read(move |hub| hub.branches().standing(&access, &name)).await?;
    Ok(found.map(|standing| StandingView::new(visit, frame, &branch, &standing)))
}

/// Returns the branch that the viewer wrote to a short while ago and may want to contribute.
pub(crate) async fn recent_push(
    visit: &PageContext,
    access: &DatabaseAccess<Read>,
    frame: &DatabaseFrame,
) -> Result<Option<RecentPushView>, PageError> {
    if visit.caller.user().is_none() {
        return Ok(None);
    }
    let access = access.clone();
    let found = visit.read(move |hub| -> Result<_, RefError> { hub.branches().recent_push(&access) }).await?;
    let now = visit.state.services.now();
    Ok(found.map(|push| RecentPushView {
        branch: push.branch.to_string(),
        when: format::when(push.at, now),
        href: contribution(frame, &push.branch, &push.standing),
    }))
}

/// `POST /{owner}/{database}/sync`: merges what the parent of a fork has into a branch of the fork.
pub(crate) async fn sync(posted: FormPost) -> PageResult {
    let (access, frame) = database::open::<Write>(&posted, DatabaseTab::Tables).await?;
    let branch = posted.form.line("branch");
    let asked = if branch == frame.default_branch { "" } else { branch.as_str() };
    let back = paths::with_query(&frame.path, &[("ref", asked)]);
    let wanted = branch.clone();
    let synced = posted.write(move |hub| Ok::<_, PortError>(hub.pulls().sync(&access, &wanted))).await?;
    let (pull, operation) = match synced {
        Ok(Synced::Merging { pull, operation }) => (pull, operation),
        Ok(Synced::UpToDate) => {
            return posted.redirect_saying(&back, &format!("Branch {branch} has all commits of the parent."));
        }
        Err(PullError::NoSuchSource) => return Err(PageError::nothing_here()),
        Err(PullError::NeedsPublish | PullError::SourceDenied) => {
            let text =
                "Not synced: the parent is private. Open a pull request from it, or ask for the write role on it.";
            return posted.redirect_saying(&back, text);
        }
        Err(
            error @ (PullError::BranchGone(_)
            | PullError::BranchMissing(_)
            | PullError::State(_)
            | PullError::QueueFull(_)
            | PullError::Quota(_)),
        ) => return posted.redirect_saying(&back, &format!("Not synced: {error}.")),
        Err(error) => return Err(PageError::refused(error.into(), posted.request())),
    };
    match settled::read_soon(&posted, operation).await?.status {
        OperationStatus::Succeeded(_) => {
            posted.redirect_saying(&back, &format!("Branch {branch} has all commits of the parent now."))
        }
        // The page shows how the merge goes on, and its conflicts.
        _ => posted.redirect(&format!("{}/pulls/{pull}", frame.path)),
    }
}
