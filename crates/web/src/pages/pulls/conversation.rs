//! `/{owner}/{database}/pulls/{number}`: the conversation about a pull request, and whether it can be merged.

use askama::Template;
use branchyard_domain::access::{DatabaseAccess, Level, Participate, Read, Write};
use branchyard_domain::entities::{
    Activity, ActivityKind, Operation, OperationKind, OperationStatus, Pull, PullAction, PullComment, PullState, Work,
};
use branchyard_domain::errors::{AccessError, OperationError, PortError, PullError, RefError};
use branchyard_domain::ports::OperationFilter;
use branchyard_domain::usecases::{GoneBranch, ShownPull};
use branchyard_domain::values::{CommentId, LongText, Timestamp};
use branchyard_http_common::{bound, open_token, segment, token};

use super::{PullHeader, PullTab, open, read, shown, trouble};
use crate::activity_feed;
use crate::database::DatabaseFrame;
use crate::error_page::{PageError, sentence};
use crate::format::{self, Markup};
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::markdown;
use crate::page_context::{PageContext, PageResult};
use crate::paths;

/// Comments per page.
const PAGE: usize = 100;
/// Recent merges of the database that are searched for one of this pull request.
const MERGES: usize = 50;

/// Maximum number of events shown besides comments, latest first.
const EVENTS: usize = 200;

/// A comment.
struct CommentView {
    id: String,
    author: String,
    when: Markup,
    text: Markup,
}

/// An event of the pull request.
struct ActivityView {
    by: String,
    word: &'static str,
    when: Markup,
}

/// An entry of the conversation, which is ordered by time.
enum ConversationEntry {
    Said(CommentView),
    Done(ActivityView),
}

/// The merge of the pull request.
struct MergeView {
    by: String,
    when: Markup,
    /// The merge commit.
    commit: String,
    /// The page of the merge commit.
    href: String,
    /// The question whether to delete the source branch, if it has nothing that was not merged and the viewer can delete it.
    delete: Option<String>,
}

/// Whether the pull request can be merged.
enum Merging {
    /// The pull request is closed or merged.
    Over,
    /// The pull request is closed, and its source branch was deleted. Holds whether the viewer can create it again.
    ClosedWithoutSource(bool),
    /// The pull request is closed, and its target branch was deleted.
    ClosedWithoutTarget,
    /// An operation on the pull request is in progress.
    UnderWay(&'static str),
    Cleanly,
    NothingToDo,
    WithConflicts,
    /// The source branch was deleted. Holds whether the viewer can create it again.
    SourceGone(bool),
    /// The target branch was deleted.
    TargetGone,
    /// It is unknown whether the branches can be merged, or they cannot be merged.
    Trouble(String),
}

#[derive(Template)]
#[template(path = "pull.html")]
struct PullPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    head: PullHeader,
    description: Option<Markup>,
    entries: Vec<ConversationEntry>,
    first: Option<String>,
    next: Option<String>,
    end: Option<MergeView>,
    merging: Merging,
    /// Why the last merge failed.
    failed: Option<String>,
    /// Whether the target can move to the source without a merge commit.
    is_fast_forward: bool,
    /// The head of the source branch that is shown, and its page.
    shown: Option<(String, String)>,
    /// Why the changes are hidden.
    hidden: Option<String>,
    /// Whether reopening requires consent to make the branch public.
    asks_to_publish: bool,
    /// Whether the viewer can withdraw the pull request.
    may_withdraw: bool,
    message: String,
    form: Filled,
}

/// `GET /{owner}/{database}/pulls/{number}?page=…`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame, pull, head) = open::<Read>(&visit, PullTab::Conversation).await?;
    let page = page(&visit, &access, frame, pull, head, Filled::default()).await?;
    visit.page(page)
}

/// `POST /{owner}/{database}/pulls/{number}/comments`
pub(crate) async fn comment(posted: FormPost) -> PageResult {
    let (access, frame, pull, head) = open::<Participate>(&posted, PullTab::Conversation).await?;
    let mut form = posted.form.again();
    let text = posted.form.text("body");
    let body = match text.trim().is_empty() {
        true => {
            form.fault("body", "Enter a comment first.");
            None
        }
        false => form.checked("body", LongText::parse(text)),
    };
    let Some(body) = body else {
        let page = page(&posted, &access, frame, pull, head, form).await?;
        return posted.refuse(page);
    };
    let comment = posted.write(move |hub| hub.pulls().comment(&access, pull.number, body, None)).await?;
    posted.redirect(&format!("{}#comment-{}", head.path, comment.id))
}

async fn page<L: Level>(
    visit: &PageContext,
    access: &DatabaseAccess<L>,
    frame: DatabaseFrame,
    pull: Pull,
    head: PullHeader,
    form: Filled,
) -> Result<impl FnOnce(LayoutContext) -> PullPage, PageError> {
    let bound = bound(&["comments page", &access.database().id.to_string(), &pull.number.to_string()]);
    let key: Option<(i64, String)> =
        visit.parameter("page").and_then(|page| open_token(&visit.state.keys, &bound, &page));
    let first = key.is_some().then(|| head.path.clone());
    let after = key.and_then(|(at, id)| Some((Timestamp::from_micros(at), CommentId::parse(&id).ok()?)));
    let (of, number, withdrawn) = (access.clone(), pull.number, pull.clone());
    let (mut comments, done, may_withdraw) = visit
        .read(move |hub| -> Result<_, PullError> {
            let comments = hub.pulls().comments(&of, number, after, PAGE + 1)?;
            let may_withdraw = hub.pulls().may_withdraw(of.caller(), &withdrawn)?;
            Ok((comments, hub.activities().of_pull(&of, number, EVENTS)?, may_withdraw))
        })
        .await?;
    let has_more = comments.len() > PAGE;
    comments.truncate(PAGE);
    let next = comments.last().filter(|_| has_more).map(|last| {
        let key = (last.created_at.as_micros(), last.id.to_string());
        paths::with_query(&head.path, &[("page", &token(&visit.state, &bound, &key))])
    });
    let last = match pull.state {
        PullState::Open => last_merge(visit, access, &pull).await?,
        PullState::Closed { .. } | PullState::Merged { .. } => None,
    };
    // A merge that succeeded since has changed the pull request.
    let (pull, head) = match last {
        Some(OperationStatus::Succeeded(_)) => read(visit, access, &frame, PullTab::Conversation).await?,
        _ => (pull, head),
    };
    let (merging, failed, is_fast_forward) = merging(visit, access, &pull, last).await?;
    let now = visit.state.services.now();
    // Events between the comments of this page, and after them on the last page.
    let (begin, stop) = (after.map(|(at, _)| at), comments.last().filter(|_| has_more).map(|last| last.created_at));
    let is_here = |at: Timestamp| begin.is_none_or(|begin| at > begin) && stop.is_none_or(|stop| at <= stop);
    let said = comments.into_iter().map(|comment| (comment.created_at, ConversationEntry::Said(said(comment, now))));
    let done = done.into_iter().filter(|activity| is_here(activity.at)).rev();
    let mut entries: Vec<(Timestamp, ConversationEntry)> = said
        .chain(done.filter_map(|activity| Some((activity.at, ConversationEntry::Done(trace(activity, now)?)))))
        .collect();
    entries.sort_by_key(|(at, _)| *at);
    let entries = entries.into_iter().map(|(_, entry)| entry).collect();
    let end = end(visit, access, &frame, &pull).await?;
    let message = format!("Merge pull request #{}: {}", pull.number, pull.title);
    let description = pull.description.as_deref().map(markdown::render);
    let shown = pull.content.heads.as_ref().filter(|_| pull.content.fetch_due_at.is_none());
    let shown = shown.map(|heads| (format::short(&heads.from), frame.commit(&heads.from)));
    let hidden = match pull.state {
        PullState::Closed { .. } => pull.shown().err().map(|why| why.to_string()),
        PullState::Open | PullState::Merged { .. } => None,
    };
    let asks_to_publish = !pull.is_within() && !frame.is_private;
    let head = PullHeader { is_changing: matches!(merging, Merging::UnderWay(_)), ..head };
    Ok(move |shell| PullPage {
        shell,
        frame,
        head,
        description,
        entries,
        first,
        next,
        end,
        merging,
        failed,
        is_fast_forward,
        shown,
        hidden,
        asks_to_publish,
        may_withdraw,
        message,
        form,
    })
}

fn said(comment: PullComment, now: Timestamp) -> CommentView {
    CommentView {
        id: comment.id.to_string(),
        author: comment.author.to_string(),
        when: format::when(comment.created_at, now),
        text: markdown::render(&comment.body),
    }
}

/// Converts closing and reopening to events. Opening and merging are shown at the start and the end of the conversation.
fn trace(activity: Activity, now: Timestamp) -> Option<ActivityView> {
    let ActivityKind::Pull { action, .. } = activity.kind else { return None };
    match action {
        PullAction::Opened | PullAction::Merged => None,
        PullAction::Closed | PullAction::Reopened => Some(ActivityView {
            by: activity.by_name.to_string(),
            word: activity_feed::done(action),
            when: format::when(activity.at, now),
        }),
    }
}

/// Returns the merge of the pull request, if it was merged.
async fn end<L: Level>(
    visit: &PageContext,
    access: &DatabaseAccess<L>,
    frame: &DatabaseFrame,
    pull: &Pull,
) -> Result<Option<MergeView>, PageError> {
    let PullState::Merged { at, by, commit, source, .. } = &pull.state else { return Ok(None) };
    let (of, branch, source) = (access.clone(), pull.from_branch.clone(), source.clone());
    let may_delete = frame.may_write && pull.is_within() && branch.as_str() != frame.default_branch;
    let is_merged = may_delete
        && visit
            .read(move |hub| match hub.branches().get(&of, branch.as_str()) {
                Ok(branch) => Ok(branch.head == source),
                Err(RefError::NoSuchBranch(_)) => Ok(false),
                Err(other) => Err(other),
            })
            .await?;
    let delete = format!("{}/branches/{}/delete", frame.path, segment(pull.from_branch.as_str()));
    Ok(Some(MergeView {
        by: by.to_string(),
        when: format::when(*at, visit.state.services.now()),
        commit: format::short(commit),
        href: frame.commit(commit),
        delete: is_merged.then_some(delete),
    }))
}

/// Determines whether the pull request can be merged, and why the last merge failed.
async fn merging<L: Level>(
    visit: &PageContext,
    access: &DatabaseAccess<L>,
    pull: &Pull,
    last: Option<OperationStatus>,
) -> Result<(Merging, Option<String>, bool), PageError> {
    if pull.state != PullState::Open {
        return Ok((over(visit, access, pull).await?, None, false));
    }
    let failed = match last {
        Some(OperationStatus::Queued) => return Ok((Merging::UnderWay("The merge is queued."), None, false)),
        Some(OperationStatus::Running) => return Ok((Merging::UnderWay("Merging…"), None, false)),
        Some(OperationStatus::Failed(failure)) => Some(sentence(&failure.detail)),
        Some(OperationStatus::Succeeded(_)) | None => None,
    };
    if pull.content.fetch_due_at.is_some() {
        return Ok((Merging::UnderWay("Fetching the commits of the source branch…"), failed, false));
    }
    let edges = match shown(visit, access, pull).await? {
        Ok(ShownPull { edges, gone: None }) => edges,
        Ok(ShownPull { gone: Some(GoneBranch::Target), .. }) => return Ok((Merging::TargetGone, failed, false)),
        Ok(ShownPull { gone: Some(GoneBranch::Source), .. }) => {
            let may_restore = source(visit, pull).await?.is_some();
            return Ok((Merging::SourceGone(may_restore), failed, false));
        }
        Err(text) => return Ok((Merging::Trouble(text), failed, false)),
    };
    if edges.base == edges.theirs {
        return Ok((Merging::NothingToDo, failed, false));
    }
    let is_fast_forward = edges.base == edges.ours;
    let access = access.clone();
    let found = visit
        .read(move |hub| -> Result<_, PullError> {
            match hub.pulls().conflicts(&access, &edges, None, 0, 1) {
                Ok(found) if found.is_empty() => Ok(Merging::Cleanly),
                Ok(_) => Ok(Merging::WithConflicts),
                Err(error) => trouble(error).map(Merging::Trouble),
            }
        })
        .await?;
    Ok((found, failed, is_fast_forward))
}

/// Returns what keeps a closed pull request from being reopened, if a branch of it was deleted.
async fn over<L: Level>(visit: &PageContext, access: &DatabaseAccess<L>, pull: &Pull) -> Result<Merging, PageError> {
    let (of, closed) = (access.clone(), pull.clone());
    match visit.read(move |hub| hub.pulls().gone_of_closed(&of, &closed)).await? {
        Some(GoneBranch::Source) => Ok(Merging::ClosedWithoutSource(source(visit, pull).await?.is_some())),
        Some(GoneBranch::Target) => Ok(Merging::ClosedWithoutTarget),
        None => Ok(Merging::Over),
    }
}

/// Returns the source database of the pull request, if the viewer can write to it.
async fn source(visit: &PageContext, pull: &Pull) -> Result<Option<DatabaseAccess<Write>>, PageError> {
    let (caller, locator, id) = (visit.caller.clone(), pull.from_locator.clone(), pull.from_database_id);
    if caller.user().is_none() {
        return Ok(None);
    }
    let found = visit.read(move |hub| {
        match hub.databases().access::<Write>(&caller, locator.owner.as_str(), locator.name.as_str()) {
            Ok(access) => Ok(Some(access).filter(|access| access.database().id == id)),
            Err(AccessError::Port(fault)) => Err(AccessError::Port(fault)),
            Err(_) => Ok(None),
        }
    });
    Ok(found.await?)
}

/// `POST /{owner}/{database}/pulls/{number}/restore-branch`
pub(crate) async fn restore_branch(posted: FormPost) -> PageResult {
    let (_, _, pull, head) = open::<Participate>(&posted, PullTab::Conversation).await?;
    let source = match pull.is_within() {
        true => open::<Write>(&posted, PullTab::Conversation).await?.0,
        false => source(&posted, &pull).await?.ok_or_else(PageError::nothing_here)?,
    };
    match posted.write(move |hub| Ok::<_, PortError>(hub.branches().restore_source_of(&source, &pull))).await? {
        Ok(branch) => posted.redirect_saying(&head.path, &format!("Branch {} restored.", branch.name)),
        Err(error @ (RefError::BranchExists(_) | RefError::NotKept)) => {
            posted.redirect_saying(&head.path, &format!("Nothing was restored: {error}."))
        }
        Err(error) => Err(PageError::refused(error.into(), posted.request())),
    }
}

/// Returns the status of the latest merge of this pull request.
async fn last_merge<L: Level>(
    visit: &PageContext,
    access: &DatabaseAccess<L>,
    pull: &Pull,
) -> Result<Option<OperationStatus>, PageError> {
    let (access, number) = (access.clone(), pull.number);
    let found = visit
        .read(move |hub| -> Result<_, OperationError> {
            let filter = OperationFilter { state: None, kinds: Some(&[OperationKind::Merge]) };
            let merges = hub.operations().list(&access, filter, None, MERGES)?;
            let is_of_pull =
                |operation: &Operation| matches!(&operation.work, Work::Merge { pull, .. } if *pull == number);
            Ok(merges.into_iter().find(is_of_pull).map(|operation| operation.status))
        })
        .await?;
    Ok(found)
}
