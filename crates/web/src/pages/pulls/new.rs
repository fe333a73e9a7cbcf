//! `/{owner}/{database}/pulls/new`: choose two branches, preview the pull request, open it.

use askama::Template;
use branchyard_domain::access::{DatabaseAccess, Participate, Read};
use branchyard_domain::entities::DatabaseLocator;
use branchyard_domain::errors::{PortError, PullError};
use branchyard_domain::usecases::{NewPull, PreviewStage, PullEdges, PullPreview};
use branchyard_domain::values::{LongText, PullNumber, Title};
use branchyard_http_common::ApiError;

use super::trouble;
use crate::changes::{self, Changes, ChangesQuery};
use crate::database::{self, DatabaseFrame, DatabaseTab};
use crate::error_page::{PageError, sentence};
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::log::{self, CommitLine};
use crate::page_context::{PageContext, PageResult};

/// Branches, or forks, that the form suggests. Others can be typed.
const OFFERED: usize = 100;
/// Commits shown.
const COMMITS: usize = 50;

/// The chosen source and target.
#[derive(Debug, Clone, Default)]
struct ChosenRefs {
    /// Owner and name of the source database.
    source: (String, String),
    from: String,
    to: String,
}

impl ChosenRefs {
    fn new(frame: &DatabaseFrame, source: &str, from: String, to: String) -> Self {
        let own = || (frame.owner.clone(), frame.name.clone());
        let source = source.trim().split_once('/').map(|(owner, name)| (owner.to_owned(), name.to_owned()));
        let to = if to.is_empty() { frame.default_branch.clone() } else { to };
        Self { source: source.unwrap_or_else(own), from, to }
    }
}

/// Whether the branches can be merged.
enum Merges {
    Cleanly,
    /// The target already has all commits of the source.
    NothingToDo,
    WithConflicts,
    Unknown(String),
}

/// The preview of the pull request.
struct PullPreviewView {
    commits: Vec<CommitLine>,
    has_more_commits: bool,
    changes: Changes,
    merges: Merges,
}

/// The outcome of the preview.
enum CompareOutcome {
    /// No source branch has been chosen yet.
    NotYet,
    At(Box<PullPreviewView>),
    /// The commits of the source must be fetched first.
    Unprepared,
    /// The commits of the source are being fetched.
    Preparing,
    /// A pull request between these branches is not possible, for this reason.
    Refused(String),
    /// This pull request between the branches is already open.
    Duplicate(PullNumber),
}

#[derive(Template)]
#[template(path = "pull_new.html")]
struct NewPullPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    ends: ChosenRefs,
    sources: Vec<String>,
    from_branches: Vec<String>,
    to_branches: Vec<String>,
    looked: CompareOutcome,
    /// Whether the pull request makes a private branch public.
    publishes: bool,
    form: Filled,
}

/// `GET /{owner}/{database}/pulls/new?source=…&from=…&to=…`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Participate>(&visit, DatabaseTab::Pulls).await?;
    let asked = |name: &str| visit.parameter(name).map(|text| text.trim().to_owned()).unwrap_or_default();
    let ends = ChosenRefs::new(&frame, &asked("source"), asked("from"), asked("to"));
    let page = page(&visit, &access, frame, ends, Filled::default()).await?;
    visit.page(page)
}

/// `POST /{owner}/{database}/pulls/new/prepare`: fetches the commits that the preview needs.
pub(crate) async fn prepare(posted: FormPost) -> PageResult {
    let (access, frame) = database::open::<Participate>(&posted, DatabaseTab::Pulls).await?;
    let line = |name: &str| posted.form.line(name);
    let ends = ChosenRefs::new(&frame, &line("source"), line("from"), line("to"));
    let path = address(&frame, &ends);
    let prepared = posted
        .write(move |hub| Ok::<_, PortError>(hub.pulls().prepare(&access, &ends.source, &ends.from, &ends.to)))
        .await?;
    match prepared {
        Ok(()) => posted.redirect(&path),
        // The page shows why these branches cannot be compared.
        Err(error) => match refused(error) {
            Ok(_) => posted.redirect(&path),
            Err(error @ PullError::TooManyPreviews) => posted.redirect_saying(&path, &format!("No preview: {error}.")),
            Err(error) => Err(PageError::refused(error.into(), posted.request())),
        },
    }
}

/// Returns the path of this page with both branches chosen.
fn address(frame: &DatabaseFrame, ends: &ChosenRefs) -> String {
    let source = format!("{}/{}", ends.source.0, ends.source.1);
    let path = format!("{}/pulls/new", frame.path);
    crate::paths::with_query(&path, &[("source", &source), ("from", &ends.from), ("to", &ends.to)])
}

/// `POST /{owner}/{database}/pulls`
pub(crate) async fn send(posted: FormPost) -> PageResult {
    let (access, frame) = database::open::<Participate>(&posted, DatabaseTab::Pulls).await?;
    let line = |name: &str| posted.form.line(name);
    let ends = ChosenRefs::new(&frame, &line("source"), line("from"), line("to"));
    let mut form = posted.form.again();
    let title = form.checked("title", Title::parse(line("title")));
    let description = form.checked("description", LongText::parse(posted.form.text("description")));
    let pulls = format!("{}/pulls", frame.path);
    if let (Some(title), Some(description)) = (title, description) {
        let wanted = NewPull {
            title,
            description: Some(description),
            from_database: ends.source.clone(),
            from_branch: ends.from.clone(),
            to_database: (frame.owner.clone(), frame.name.clone()),
            to_branch: ends.to.clone(),
            publish: posted.form.is_checked("publish"),
        };
        let of = access.clone();
        match posted.write(move |hub| Ok::<_, PortError>(hub.pulls().open(&of, wanted, None))).await? {
            Ok(pull) => return posted.redirect(&format!("{pulls}/{}", pull.number)),
            Err(error) => match refused(error) {
                Ok(CompareOutcome::Refused(text)) => form.fault("", text),
                Ok(_) => form.fault("", "A pull request for these branches is already open."),
                Err(error) => return Err(PageError::refused(error.into(), posted.request())),
            },
        }
    }
    let page = page(&posted, &access, frame, ends, form).await?;
    posted.refuse(page)
}

/// Converts errors that the user can act on to an outcome of the preview. Other errors are returned unchanged.
fn refused(error: PullError) -> Result<CompareOutcome, PullError> {
    match error {
        PullError::Duplicate(number) => Ok(CompareOutcome::Duplicate(number)),
        PullError::NoSuchSource => {
            Ok(CompareOutcome::Refused("The source database doesn't exist, or you don't have access.".to_owned()))
        }
        error @ (PullError::OtherNetwork(_)
        | PullError::SameBranch
        | PullError::NoSuchBranch { .. }
        | PullError::OtherTarget(_)
        | PullError::SourceDenied
        | PullError::BranchMissing(_)) => Ok(CompareOutcome::Refused(sentence(&error.to_string()))),
        PullError::NeedsPublish => Ok(CompareOutcome::Refused(
            "The source database is private. Select the box that makes the branch visible to everyone, then open the pull request.".to_owned(),
        )),
        other => Err(other),
    }
}

async fn page(
    visit: &PageContext,
    access: &DatabaseAccess<Participate>,
    frame: DatabaseFrame,
    ends: ChosenRefs,
    form: Filled,
) -> Result<impl FnOnce(LayoutContext) -> NewPullPage, PageError> {
    let offered = offered(visit, access, &ends).await?;
    let (looked, publishes) = match ends.from.is_empty() {
        true => (CompareOutcome::NotYet, false),
        false => look(visit, access, &frame, &ends).await?,
    };
    let form = match &looked {
        CompareOutcome::Unprepared | CompareOutcome::Preparing
            if form.value("title").is_empty() && !form.has_faults() =>
        {
            form.with("title", ends.from.clone())
        }
        CompareOutcome::At(preview) if form.value("title").is_empty() && !form.has_faults() => {
            form.with("title", suggested(preview, &ends))
        }
        _ => form,
    };
    let Offered { sources, from_branches, to_branches } = offered;
    Ok(move |shell| NewPullPage { shell, frame, ends, sources, from_branches, to_branches, looked, publishes, form })
}

/// Suggests a title: the message of a single commit, otherwise the name of the branch.
fn suggested(preview: &PullPreviewView, ends: &ChosenRefs) -> String {
    match &preview.commits[..] {
        [only] => only.message.chars().take(Title::MAX).collect(),
        _ => ends.from.clone(),
    }
}

struct Offered {
    sources: Vec<String>,
    from_branches: Vec<String>,
    to_branches: Vec<String>,
}

async fn offered(
    visit: &PageContext,
    access: &DatabaseAccess<Participate>,
    ends: &ChosenRefs,
) -> Result<Offered, PageError> {
    let (access, (owner, name), caller) = (access.clone(), ends.source.clone(), visit.caller.clone());
    let offered = visit
        .read(move |hub| -> Result<_, ApiError> {
            let names = |branches: Vec<branchyard_domain::entities::Branch>| -> Vec<String> {
                branches.into_iter().map(|branch| branch.name.to_string()).collect()
            };
            let view = hub.databases().get(&access)?;
            let mut sources = vec![view.database.locator.to_string()];
            sources.extend(view.parent.iter().map(DatabaseLocator::to_string));
            let forks = hub.databases().forks(&access, None, OFFERED)?;
            sources.extend(forks.iter().map(DatabaseLocator::to_string));
            let from_branches = match hub.databases().access::<Read>(&caller, &owner, &name) {
                Ok(source) => names(hub.branches().list(&source, None, OFFERED)?),
                // The preview reports the error.
                Err(_) => Vec::new(),
            };
            let to_branches = names(hub.branches().list(&access, None, OFFERED)?);
            Ok(Offered { sources, from_branches, to_branches })
        })
        .await?;
    Ok(offered)
}

/// The data of the preview.
struct PullComparison {
    edges: PullEdges,
    entries: Vec<branchyard_domain::entities::LogEntry>,
    is_cut: bool,
    merges: Merges,
    publishes: bool,
}

/// Previews the pull request. Also returns whether opening it would make the branch public.
async fn look(
    visit: &PageContext,
    access: &DatabaseAccess<Participate>,
    frame: &DatabaseFrame,
    ends: &ChosenRefs,
) -> Result<(CompareOutcome, bool), PageError> {
    let (of, wanted) = (access.clone(), ends.clone());
    let found = visit
        .read(move |hub| -> Result<_, ApiError> {
            let PullPreview { publishes, stage } =
                match hub.pulls().preview(&of, &wanted.source, &wanted.from, &wanted.to) {
                    Ok(preview) => preview,
                    Err(error) => return Ok(Err((refused(error)?, false))),
                };
            let edges = match stage {
                PreviewStage::Ready(edges) => edges,
                PreviewStage::Preparing => return Ok(Err((CompareOutcome::Preparing, publishes))),
                PreviewStage::Unprepared => return Ok(Err((CompareOutcome::Unprepared, publishes))),
            };
            let (entries, is_cut) = log::since(hub, &of, &edges.base, &edges.theirs)?;
            let merges = if edges.base == edges.theirs {
                Merges::NothingToDo
            } else {
                match hub.pulls().conflicts(&of, &edges, None, 0, 1) {
                    Ok(found) if found.is_empty() => Merges::Cleanly,
                    Ok(_) => Merges::WithConflicts,
                    Err(error) => Merges::Unknown(trouble(error)?),
                }
            };
            Ok(Ok(PullComparison { edges, entries, is_cut, merges, publishes }))
        })
        .await?;
    let PullComparison { edges, entries, is_cut, merges, publishes } = match found {
        Ok(found) => found,
        Err(looked) => return Ok(looked),
    };
    let asked = ChangesQuery::of(visit, access, edges.base, edges.theirs);
    let (of, wanted) = (access.clone(), asked.clone());
    let found = visit.read(move |hub| changes::find(hub, &of, &wanted)).await?;
    let path = address(frame, ends);
    let now = visit.state.services.now();
    let preview = PullPreviewView {
        has_more_commits: is_cut || entries.len() > COMMITS,
        commits: entries.iter().take(COMMITS).map(|entry| CommitLine::new(entry, frame, now)).collect(),
        changes: Changes::new(visit, access, &asked, &found, &path),
        merges,
    };
    Ok((CompareOutcome::At(Box::new(preview)), publishes))
}
