//! `/{owner}/{database}/sql/write`: statements that change data. They are previewed, then committed to a branch, or to a new branch
//! for a pull request.

use std::collections::BTreeSet;

use actix_web::http::StatusCode;
use askama::Template;
use branchyard_domain::access::{DatabaseAccess, Write};
use branchyard_domain::errors::{OperationError, PortError, ReadError, RefError};
use branchyard_domain::usecases::SqlWrite;
use branchyard_domain::values::{CommitHash, LongText, RefName};
use branchyard_http_common::HandlerError;
use branchyard_problem_details::ErrorCode;

use super::kept_statements::{self, KeptStatements};
use super::preview::{self, PreviewView, Tried};
use super::{Outlines, outlines};
use crate::database::{self, DatabaseFrame, DatabaseTab};
use crate::error_page::{PageError, sentence};
use crate::format;
use crate::forms::{CheckedPost, Filled, FormPost};
use crate::layout::LayoutContext;
use crate::new_branch;
use crate::page_context::{PageContext, PageResult};
use crate::pages::sign_in;
use crate::settled;

/// Branches that the form suggests. Others can be typed.
const OFFERED: usize = 100;
/// Names that are tried for a new branch.
const NAMES: usize = 100;

#[derive(Template)]
#[template(path = "sql_write.html")]
struct WritePage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    form: Filled,
    branches: Vec<String>,
    outlines: Outlines,
    base: WriteBase,
    /// The author of the text, sealed.
    author: String,
    preview: Option<PreviewView>,
}

/// Where the statements run.
pub(super) enum WriteBase {
    /// On a branch.
    Branch {
        /// The requested name.
        name: String,
        /// Whether there is such a branch.
        exists: bool,
    },
    /// On a commit, for which a new branch is created.
    Version {
        /// The commit.
        commit: CommitHash,
        /// The name of a tag, or the abbreviated commit.
        name: String,
    },
}

/// The suggestions of the form, and where the statements run.
struct WriteForm {
    branches: Vec<String>,
    outlines: Outlines,
    base: WriteBase,
    /// A free name for a new branch.
    proposed: String,
}

impl WriteForm {
    /// Returns the page with a form.
    fn page(
        self,
        shell: LayoutContext,
        frame: DatabaseFrame,
        form: Filled,
        author: String,
        preview: Option<PreviewView>,
    ) -> WritePage {
        let Self { branches, outlines, base, .. } = self;
        WritePage { shell, frame, form, branches, outlines, base, author, preview }
    }
}

/// Looks up where statements run: on the commit `version`, or on `branch`, which is a branch, or else a tag or commit.
async fn prepare(
    visit: &PageContext,
    access: &DatabaseAccess<Write>,
    branch: &str,
    version: &str,
) -> Result<WriteForm, PageError> {
    let (access, branch, version) = (access.clone(), branch.to_owned(), version.to_owned());
    let user = visit.user()?.name.to_string();
    let prepared = visit
        .read(move |hub| -> Result<_, ReadError> {
            let branches = hub.branches().list(&access, None, OFFERED)?;
            let head = match hub.branches().get(&access, &branch) {
                Ok(found) if version.is_empty() => Some(found.head),
                Ok(_) | Err(RefError::NoSuchBranch(_)) => None,
                Err(other) => return Err(other.into()),
            };
            let asked = if version.is_empty() { &branch } else { &version };
            let (base, commit) = match head {
                Some(head) => (WriteBase::Branch { name: branch, exists: true }, head),
                None => match hub.sql().resolve(&access, Some(asked)) {
                    Ok(commit) => {
                        let is_hash = branch.is_empty() || CommitHash::looks_like(&branch);
                        let name = if is_hash { format::short(&commit) } else { branch };
                        (WriteBase::Version { commit: commit.clone(), name }, commit)
                    }
                    Err(ReadError::Ref(RefError::NoSuchRef { .. })) => {
                        (WriteBase::Branch { name: branch, exists: false }, hub.sql().resolve(&access, None)?)
                    }
                    Err(other) => return Err(other),
                },
            };
            let outlines = outlines(hub, &access, &commit)?;
            let branches: Vec<_> = branches.into_iter().map(|branch| branch.name.to_string()).collect();
            let taken: BTreeSet<&str> = branches.iter().map(String::as_str).collect();
            let mut names = (1..=NAMES).map(|number| format!("{user}-edit-{number}"));
            let is_free = |name: &String| {
                !taken.contains(name.as_str())
                    && matches!(hub.branches().get(&access, name), Err(RefError::NoSuchBranch(_)))
            };
            let proposed = names.find(is_free).unwrap_or_default();
            Ok(WriteForm { branches, outlines, base, proposed })
        })
        .await?;
    Ok(prepared)
}

/// `GET /{owner}/{database}/sql/write?q=…&ref=…`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Write>(&visit, DatabaseTab::Sql).await?;
    let asked = visit.parameter("ref").unwrap_or_else(|| frame.default_branch.clone());
    let form = Filled::default().with("q", visit.parameter("q").unwrap_or_default());
    edit(&visit, &access, frame, form, &asked).await
}

/// Shows the form at a branch, tag or commit.
async fn edit(
    visit: &PageContext,
    access: &DatabaseAccess<Write>,
    frame: DatabaseFrame,
    form: Filled,
    asked: &str,
) -> PageResult {
    let prepared = prepare(visit, access, asked, "").await?;
    let (mut form, mut status) = (form, StatusCode::OK);
    match &prepared.base {
        WriteBase::Branch { exists: false, .. } => {
            form.fault("branch", format!("There is no branch, tag or commit '{asked}'. Choose a branch."));
            status = StatusCode::NOT_FOUND;
        }
        WriteBase::Branch { .. } | WriteBase::Version { .. } => {}
    }
    let form = form.with("branch", asked).with("new_branch", prepared.proposed.clone());
    let author = kept_statements::author(visit)?;
    visit.render(status, |shell| prepared.page(shell, frame, form, author, None))
}

/// `POST /{owner}/{database}/sql/write`
pub(crate) async fn send(posted: CheckedPost) -> PageResult {
    match posted {
        CheckedPost::Ours(posted) => run(posted).await,
        CheckedPost::OutOfDate(posted) => keep(posted).await,
    }
}

/// Keeps the statements of a form whose session has ended.
async fn keep(posted: FormPost) -> PageResult {
    let Some(kept) = KeptStatements::of(&posted) else { return Err(PageError::ForeignForm) };
    match posted.caller.user() {
        // The same user has signed in again meanwhile.
        Some(user) if kept.is_by(user.id) => {
            let (access, frame) = database::open::<Write>(&posted, DatabaseTab::Sql).await?;
            let form = Filled::default().with("q", kept.statements);
            let form = form.wrong("", "Your session changed. Your statements are still here; send them again.");
            edit(&posted, &access, frame, form, &kept.at).await
        }
        Some(_) => Err(PageError::ForeignForm),
        None => sign_in::keeping(&posted, &kept),
    }
}

/// What is to be done with the statements.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteAction {
    Edit,
    Preview,
    Commit,
    /// Commit to a new branch, for a pull request.
    Pull,
}

impl WriteAction {
    fn of(posted: &FormPost) -> Self {
        match (posted.form.line("action").as_str(), posted.form.line("target").as_str()) {
            ("edit", _) => Self::Edit,
            ("preview", _) => Self::Preview,
            ("pull", _) | ("", "pull") => Self::Pull,
            _ => Self::Commit,
        }
    }
}

async fn run(posted: FormPost) -> PageResult {
    let (access, frame) = database::open::<Write>(&posted, DatabaseTab::Sql).await?;
    let (q, branch, version) = (posted.form.text("q"), posted.form.line("branch"), posted.form.line("version"));
    let action = WriteAction::of(&posted);
    let mut form = posted.form.again();
    if action == WriteAction::Edit {
        return edit(&posted, &access, frame, Filled::default().with("q", q), &branch).await;
    }
    let max = posted.state.config.sql.max_statement_bytes;
    if q.trim().is_empty() {
        form.fault("q", "Enter at least one statement.");
    } else if q.len() > max {
        form.fault("q", format!("Statements can have at most {max} bytes; these have {}.", q.len()));
    }
    let message = form.checked("message", LongText::parse(posted.form.text("message")));
    let prepared = prepare(&posted, &access, &branch, &version).await?;
    let author = kept_statements::author(&posted)?;
    let start = match &prepared.base {
        WriteBase::Branch { exists, .. } => {
            if !exists {
                form.fault("branch", format!("There is no branch '{branch}'."));
            }
            None
        }
        WriteBase::Version { commit, .. } => Some(commit.clone()),
    };
    let is_new = start.is_some() || action == WriteAction::Pull;
    let to_branch = match is_new {
        true => fresh_branch(&posted, &access, &mut form).await?,
        false => form.checked("branch", RefName::parse(&branch)),
    };
    let (Some(to_branch), Some(message), false) = (to_branch, message, form.has_faults()) else {
        return posted.refuse(|shell| prepared.page(shell, frame, form, author, None));
    };
    let expected_head = CommitHash::parse(&posted.form.line("expected_head")).ok();
    let from_branch = if start.is_some() { to_branch.to_string() } else { branch };
    let message = Some(message.into_string());
    let mut wanted = SqlWrite { from_branch, to_branch, statements: q, message, expected_head, start };
    let mut has_moved = false;
    if action != WriteAction::Preview {
        let (of, write) = (access.clone(), wanted.clone());
        let accepted =
            posted.write(move |hub| Ok::<_, PortError>(hub.operations().sql_write(&of, write, None))).await?;
        match accepted {
            Ok(operation) => {
                settled::soon(&posted, operation.id).await;
                return posted.redirect(&format!("{}/sql/writes/{}", frame.path, operation.id));
            }
            Err(OperationError::OtherHead(_)) => has_moved = true,
            Err(
                error @ (OperationError::QueueFull(_)
                | OperationError::Quota(_)
                | OperationError::NoSuchBranch(_)
                | OperationError::BranchExists(_)),
            ) => {
                form.fault("", sentence(&error.to_string()));
                return posted.refuse(|shell| prepared.page(shell, frame, form, author, None));
            }
            Err(error) => return Err(PageError::refused(error.into(), posted.request())),
        }
    }
    // The commit of a preview goes to the branch that the statements ran on.
    if action == WriteAction::Pull
        && let Ok(branch) = RefName::parse(&wanted.from_branch)
    {
        wanted.to_branch = branch;
    }
    wanted.expected_head = None;
    if posted.form.line("new_branch").is_empty() {
        form = form.with("new_branch", prepared.proposed.clone());
    }
    let tried = match preview::run(&posted, &access, &frame, wanted, has_moved).await {
        // The statements stay in the form.
        Err(PageError::HandlerError(HandlerError::Problem(problem)))
            if problem.code() == ErrorCode::ServiceUnavailable =>
        {
            form.fault("", "Other work keeps this preview waiting. Nothing was committed; try again in a moment.");
            let status = StatusCode::SERVICE_UNAVAILABLE;
            return posted.render(status, |shell| prepared.page(shell, frame, form, author, None));
        }
        tried => tried?,
    };
    match tried {
        Tried::Shown(preview) => posted.page(|shell| prepared.page(shell, frame, form, author, Some(*preview))),
        Tried::Failed(text) => {
            form.fault("q", text);
            posted.refuse(|shell| prepared.page(shell, frame, form, author, None))
        }
    }
}

/// Reads the name of the new branch, and records an error if the branch already exists.
async fn fresh_branch(
    posted: &FormPost,
    access: &DatabaseAccess<Write>,
    form: &mut Filled,
) -> Result<Option<RefName>, PageError> {
    let name = posted.form.line("new_branch");
    let Some(parsed) = form.checked("new_branch", RefName::parse(&name)) else { return Ok(None) };
    if let Some(fault) = new_branch::fault(posted, access, &parsed).await? {
        form.fault("new_branch", fault);
    }
    Ok(Some(parsed))
}
