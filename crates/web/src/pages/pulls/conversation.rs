//! `/{owner}/{database}/pulls/{number}`: what is said about a pull, and whether it can be merged.

use askama::Template;
use branchyard_api_common::{bound, open_token, token};
use branchyard_domain::access::{DatabaseAccess, Level, Participate, Read};
use branchyard_domain::entities::{Operation, OperationKind, OperationStatus, Pull, PullComment, PullState, Work};
use branchyard_domain::errors::{OperationError, PullError};
use branchyard_domain::ports::OperationFilter;
use branchyard_domain::values::{CommentId, LongText, Timestamp};

use super::{Head, PullTab, edges, open, trouble};
use crate::database::Frame;
use crate::error_page::Stop;
use crate::format::{self, Markup};
use crate::forms::{Filled, Posted};
use crate::layout::Shell;
use crate::markdown;
use crate::paths;
use crate::visit::{Answer, Visit};

/// Comments of a page.
const PAGE: usize = 100;
/// Merges among which the last one of this pull is looked for.
const MERGES: usize = 50;

/// A comment.
struct Said {
    id: String,
    author: String,
    when: Markup,
    text: Markup,
}

/// How it ended, if it did.
struct End {
    word: &'static str,
    by: Option<String>,
    when: Markup,
    /// The commit of the merge and its page.
    commit: Option<(String, String)>,
}

/// Whether and how it can be merged.
enum Merging {
    /// It is closed or merged.
    Over,
    /// The operation is under way.
    UnderWay(&'static str),
    Cleanly,
    NothingToDo,
    WithConflicts,
    /// There is no telling, or it cannot be done.
    Trouble(String),
}

#[derive(Template)]
#[template(path = "pull.html")]
struct PullPage {
    shell: Shell,
    frame: Frame,
    head: Head,
    description: Option<Markup>,
    comments: Vec<Said>,
    first: Option<String>,
    next: Option<String>,
    end: Option<End>,
    merging: Merging,
    /// Why the last merge failed.
    failed: Option<String>,
    message: String,
    form: Filled,
}

/// `GET /{owner}/{database}/pulls/{number}?page=…`
pub(crate) async fn show(visit: Visit) -> Answer {
    let (access, frame, pull, head) = open::<Read>(&visit, PullTab::Conversation).await?;
    let page = page(&visit, &access, frame, pull, head, Filled::default()).await?;
    visit.page(page)
}

/// `POST /{owner}/{database}/pulls/{number}/comments`
pub(crate) async fn comment(posted: Posted) -> Answer {
    let (access, frame, pull, head) = open::<Participate>(&posted, PullTab::Conversation).await?;
    let mut form = posted.form.again();
    let text = posted.form.text("body");
    let body = match text.trim().is_empty() {
        true => {
            form.fault("body", "write something first");
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
    visit: &Visit,
    access: &DatabaseAccess<L>,
    frame: Frame,
    pull: Pull,
    head: Head,
    form: Filled,
) -> Result<impl FnOnce(Shell) -> PullPage, Stop> {
    let bound = bound(&["comments page", &access.database().id.to_string(), &pull.number.to_string()]);
    let key: Option<(i64, String)> =
        visit.parameter("page").and_then(|page| open_token(&visit.state.keys, &bound, &page));
    let first = key.is_some().then(|| head.path.clone());
    let after = key.and_then(|(at, id)| Some((Timestamp::from_micros(at), CommentId::parse(&id).ok()?)));
    let (of, number) = (access.clone(), pull.number);
    let mut comments = visit.read(move |hub| hub.pulls().comments(&of, number, after, PAGE + 1)).await?;
    let has_more = comments.len() > PAGE;
    comments.truncate(PAGE);
    let next = comments.last().filter(|_| has_more).map(|last| {
        let key = (last.created_at.as_micros(), last.id.to_string());
        paths::with_query(&head.path, &[("page", &token(&visit.state, &bound, &key))])
    });
    let (merging, failed) = merging(visit, access, &pull).await?;
    let now = visit.state.hub.now();
    let said = |comment: PullComment| Said {
        id: comment.id.to_string(),
        author: comment.author.to_string(),
        when: format::when(comment.created_at, now),
        text: markdown::render(&comment.body),
    };
    let comments = comments.into_iter().map(said).collect();
    let end = end(&frame, &pull, now);
    let message = format!("Merge pull request #{}: {}", pull.number, pull.title);
    let description = pull.description.as_deref().map(markdown::render);
    let head = Head { is_changing: matches!(merging, Merging::UnderWay(_)), ..head };
    Ok(move |shell| PullPage {
        shell,
        frame,
        head,
        description,
        comments,
        first,
        next,
        end,
        merging,
        failed,
        message,
        form,
    })
}

fn end(frame: &Frame, pull: &Pull, now: Timestamp) -> Option<End> {
    match &pull.state {
        PullState::Open => None,
        PullState::Closed { at } => Some(End { word: "closed", by: None, when: format::when(*at, now), commit: None }),
        PullState::Merged { at, by, commit, .. } => Some(End {
            word: "merged",
            by: Some(by.to_string()),
            when: format::when(*at, now),
            commit: Some((format::short(commit), frame.commit(commit))),
        }),
    }
}

/// How a merge stands; and why the last one failed.
async fn merging<L: Level>(
    visit: &Visit,
    access: &DatabaseAccess<L>,
    pull: &Pull,
) -> Result<(Merging, Option<String>), Stop> {
    if pull.state != PullState::Open {
        return Ok((Merging::Over, None));
    }
    let failed = match last_merge(visit, access, pull).await?.map(|operation| operation.status) {
        Some(OperationStatus::Queued) => return Ok((Merging::UnderWay("The merge waits for its turn."), None)),
        Some(OperationStatus::Running) => return Ok((Merging::UnderWay("The pull is being merged."), None)),
        Some(OperationStatus::Failed(failure)) => Some(failure.detail),
        Some(OperationStatus::Succeeded(_)) | None => None,
    };
    let edges = match edges(visit, access, pull).await? {
        Ok(edges) => edges,
        Err(text) => return Ok((Merging::Trouble(text), failed)),
    };
    if edges.base == edges.theirs {
        return Ok((Merging::NothingToDo, failed));
    }
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
    Ok((found, failed))
}

/// The newest merge of this pull.
async fn last_merge<L: Level>(
    visit: &Visit,
    access: &DatabaseAccess<L>,
    pull: &Pull,
) -> Result<Option<Operation>, Stop> {
    let (access, number) = (access.clone(), pull.number);
    let found = visit
        .read(move |hub| -> Result<_, OperationError> {
            let filter = OperationFilter { state: None, kinds: Some(&[OperationKind::Merge]) };
            let merges = hub.operations().list(&access, filter, None, MERGES)?;
            let is_of_pull =
                |operation: &Operation| matches!(&operation.work, Work::Merge { pull, .. } if *pull == number);
            Ok(merges.into_iter().find(is_of_pull))
        })
        .await?;
    Ok(found)
}
