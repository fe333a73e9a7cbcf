//! The pages of pull requests.

pub(super) mod commits;
pub(super) mod conflicts;
pub(super) mod conversation;
pub(super) mod diff;
pub(super) mod edit;
pub(super) mod list;
pub(super) mod merge;
pub(super) mod new;

use branchyard_domain::access::{DatabaseAccess, Level};
use branchyard_domain::entities::{Pull, PullState};
use branchyard_domain::errors::{PortError, PullError};
use branchyard_domain::ports::EngineError;
use branchyard_domain::usecases::{PullEdges, ShownPull};
use branchyard_domain::values::PullNumber;

use crate::changes::Brings;
use crate::database::{self, DatabaseFrame, DatabaseTab};
use crate::error_page::{PageError, sentence};
use crate::format::{self, Markup};
use crate::page_context::PageContext;
use crate::paths;

/// The tabs of a pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PullTab {
    Conversation,
    Commits,
    Changes,
    Conflicts,
}

/// The frame of the pages of a pull request.
struct PullHeader {
    number: PullNumber,
    title: String,
    /// The path of the pull request's page.
    path: String,
    state: &'static str,
    author: String,
    opened: Markup,
    /// The target branch, and its page.
    to: (String, String),
    /// The source branch, and its page.
    from: (String, String),
    is_open: bool,
    /// Whether the viewer can edit, close and reopen the pull request.
    may_edit: bool,
    /// Whether a merge is in progress.
    is_changing: bool,
    /// Triggers and views that the pull request adds or changes.
    brings: Brings,
    active: PullTab,
}

impl PullHeader {
    fn new(visit: &PageContext, frame: &DatabaseFrame, pull: &Pull, brings: Brings, active: PullTab) -> Self {
        let at = |path: &str, branch: &str| paths::with_query(path, &[("ref", branch)]);
        let is_within = pull.from_database_id == pull.database_id;
        let from = match is_within {
            true => pull.from_branch.to_string(),
            false => format!("{}:{}", pull.from_locator, pull.from_branch),
        };
        let source = if is_within { frame.path.clone() } else { paths::database(&pull.from_locator) };
        Self {
            number: pull.number,
            title: pull.title.clone(),
            path: format!("{}/pulls/{}", frame.path, pull.number),
            state: state_of(&pull.state),
            author: pull.creator.to_string(),
            opened: format::when(pull.created_at, visit.state.services.now()),
            to: (pull.to_branch.to_string(), at(&frame.path, pull.to_branch.as_str())),
            from: (from, at(&source, pull.from_branch.as_str())),
            is_open: pull.state == PullState::Open,
            may_edit: frame.may_write || visit.caller.user().is_some_and(|user| user.id == pull.creator_id),
            is_changing: false,
            brings,
            active,
        }
    }

    /// Returns the tabs: label, path, and whether the tab is shown.
    fn tabs(&self) -> Vec<(&'static str, String, bool)> {
        let tab = |label, below: &str, tab| (label, format!("{}{below}", self.path), self.active == tab);
        let mut tabs = vec![
            tab("Conversation", "", PullTab::Conversation),
            tab("Commits", "/commits", PullTab::Commits),
            tab("Changes", "/diff", PullTab::Changes),
        ];
        if self.is_open || self.active == PullTab::Conflicts {
            tabs.push(tab("Conflicts", "/conflicts", PullTab::Conflicts));
        }
        tabs
    }
}

fn state_of(state: &PullState) -> &'static str {
    match state {
        PullState::Open => "open",
        PullState::Closed { .. } => "closed",
        PullState::Merged { .. } => "merged",
    }
}

/// Opens the database named in the path with access level `L`, and reads the pull request named in the path.
async fn open<L: Level>(
    visit: &PageContext,
    active: PullTab,
) -> Result<(DatabaseAccess<L>, DatabaseFrame, Pull, PullHeader), PageError> {
    let (access, frame) = database::open::<L>(visit, DatabaseTab::Pulls).await?;
    let (pull, head) = read(visit, &access, &frame, active).await?;
    Ok((access, frame, pull, head))
}

async fn read<L: Level>(
    visit: &PageContext,
    access: &DatabaseAccess<L>,
    frame: &DatabaseFrame,
    active: PullTab,
) -> Result<(Pull, PullHeader), PageError> {
    let number = PullNumber::parse(&visit.segment("number")).map_err(|_| PageError::nothing_here())?;
    let of = access.clone();
    let (pull, brings) = visit
        .read(move |hub| -> Result<_, PullError> {
            let pull = hub.pulls().get(&of, number)?;
            let brings = match hub.pulls().shown(&of, &pull).and_then(|shown| hub.pulls().brought(&of, &shown.edges)) {
                Err(PullError::Port(PortError::Engine(EngineError::NoSuchCommit(_)))) => Vec::new(),
                Err(error @ PullError::Port(_)) => return Err(error),
                // What is wrong with the pull request is shown where its commits would be.
                Err(_) => Vec::new(),
                Ok(brings) => brings,
            };
            Ok((pull, brings))
        })
        .await?;
    let head = PullHeader::new(visit, frame, &pull, Brings::of(&brings), active);
    Ok((pull, head))
}

/// Shown while the commits of the source are being fetched.
const FETCHING: &str = "The commits of the source branch are still being fetched. Reload the page in a moment.";

/// Returns the commits that the pull request compares, or the reason why there are none.
async fn edges<L: Level>(
    visit: &PageContext,
    access: &DatabaseAccess<L>,
    pull: &Pull,
) -> Result<Result<PullEdges, String>, PageError> {
    Ok(shown(visit, access, pull).await?.map(|shown| shown.edges))
}

/// Returns what the pull request shows, or the reason why that is nothing.
async fn shown<L: Level>(
    visit: &PageContext,
    access: &DatabaseAccess<L>,
    pull: &Pull,
) -> Result<Result<ShownPull, String>, PageError> {
    let (access, pull) = (access.clone(), pull.clone());
    let found = visit
        .read(move |hub| match hub.pulls().shown(&access, &pull) {
            Err(PullError::BranchMissing(text)) => Ok(Err(sentence(&text))),
            Err(error @ PullError::NotShown(_)) => Ok(Err(format!("Changes are hidden: {error}."))),
            Err(PullError::Preparing) => Ok(Err(FETCHING.to_owned())),
            other => other.map(Ok),
        })
        .await?;
    Ok(found)
}

/// Returns the message for the user if a merge preview failed without conflicts. Other errors are returned unchanged.
fn trouble(error: PullError) -> Result<String, PullError> {
    match error {
        PullError::Port(PortError::Engine(EngineError::CannotMerge(text))) => {
            Ok(format!("These branches can't be merged: {text}"))
        }
        PullError::TooSlow => Ok("Checking for conflicts took too long. Try again later.".to_owned()),
        other => Err(other),
    }
}
