//! `/{owner}/{database}/branches`: lists and creates branches.

use askama::Template;
use branchyard_domain::access::{Admin, DatabaseAccess, Read, Write};
use branchyard_domain::entities::Branch;
use branchyard_domain::errors::RefError;
use branchyard_domain::usecases::{Branches, DeletedBranch, Divergence, NewBranch, RestoreBranch};
use branchyard_domain::values::{CommitHash, RefLogId, RefName, Revision};
use branchyard_http_common::{ApiError, segment};

use crate::database::{self, DatabaseFrame, DatabaseTab};
use crate::error_page::PageError;
use crate::format::{self, Markup};
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::paths;
use crate::suggestions;

/// Branches, or tags, per page.
pub(crate) const PAGE: usize = 50;
const FIELDS: &[&str] = &["name", "from"];
const RESTORE_FIELDS: &[&str] = &["branch", "at", "to_branch"];

/// Number of deleted branches shown.
const RESTORABLE: usize = 50;

/// A deleted branch that can be restored.
struct RestorableBranch {
    id: String,
    name: String,
    deleted: Markup,
    until: Markup,
}

struct BranchItem {
    name: String,
    href: String,
    is_default: bool,
    commit: String,
    short: String,
    when: Markup,
    /// How many commits the branch has that the default one has not, and the other way round. `None` if that is not counted.
    apart: Option<(String, String)>,
    delete: String,
}

#[derive(Template)]
#[template(path = "branches.html")]
struct BranchesPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    rows: Vec<BranchItem>,
    next: Option<String>,
    restorable: Vec<RestorableBranch>,
    form: Filled,
    restore: Option<RestoreForm>,
    names: Vec<String>,
}

/// The form that restores a branch to a time.
struct RestoreForm {
    form: Filled,
    since: Markup,
}

/// `GET /{owner}/{database}/branches`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Read>(&visit, DatabaseTab::Branches).await?;
    let form = Filled::default().with("from", frame.default_branch.clone());
    let names = suggestions::refs(&visit, &access).await?;
    let (rows, next) = rows(&visit, access, &frame).await?;
    let restorable = restorable(&visit, &frame).await?;
    let restore = restore_form(&visit, &frame, None).await?;
    visit.page(|shell| BranchesPage { shell, frame, rows, next, restorable, form, restore, names })
}

/// Returns the branches deleted last that a writer can restore.
async fn restorable(visit: &PageContext, frame: &DatabaseFrame) -> Result<Vec<RestorableBranch>, PageError> {
    if !frame.may_write {
        return Ok(Vec::new());
    }
    let (access, _) = database::open::<Write>(visit, DatabaseTab::Branches).await?;
    let found = visit.read(move |hub| hub.branches().restorable(&access, None, RESTORABLE)).await?;
    let now = visit.state.services.now();
    let row = |kept: &DeletedBranch| RestorableBranch {
        id: kept.id.to_string(),
        name: kept.name.to_string(),
        deleted: format::when(kept.deleted_at, now),
        until: format::when(kept.until, now),
    };
    Ok(found.iter().map(row).collect())
}

async fn rows(
    visit: &PageContext,
    access: DatabaseAccess<Read>,
    frame: &DatabaseFrame,
) -> Result<(Vec<BranchItem>, Option<String>), PageError> {
    let (after, counted) = (visit.parameter("after"), access.clone());
    let mut found = visit.read(move |hub| hub.branches().list(&access, after.as_deref(), PAGE + 1)).await?;
    let next = paths::next_page(&mut found, PAGE, &format!("{}/branches", frame.path), |last| last.name.to_string());
    let now = visit.state.services.now();
    let heads: Vec<CommitHash> = found.iter().map(|branch| branch.head.clone()).collect();
    let apart = visit.read(move |hub| hub.branches().divergences(&counted, &heads)).await?;
    let row = |(branch, apart): (&Branch, Option<Divergence>)| {
        let name = branch.name.as_str();
        let is_default = name == frame.default_branch;
        let asked = if is_default { "" } else { name };
        BranchItem {
            name: name.to_owned(),
            href: paths::with_query(&frame.path, &[("ref", asked)]),
            is_default,
            commit: frame.commit(&branch.head),
            short: format::short(&branch.head),
            when: format::when(branch.updated_at, now),
            apart: apart.filter(|_| !is_default).map(|apart| (commits(apart.ahead), commits(apart.behind))),
            delete: format!("{}/branches/{}/delete", frame.path, segment(name)),
        }
    };
    Ok((found.iter().zip(apart).map(row).collect(), next))
}

/// Writes a number of commits that was counted up to [`Branches::MOST_COUNTED`].
fn commits(count: usize) -> String {
    match count > Branches::MOST_COUNTED {
        true => format!("{}+", format::count(Branches::MOST_COUNTED as u64)),
        false => format::count(count as u64),
    }
}

/// `POST /{owner}/{database}/branches`
pub(crate) async fn create(posted: FormPost) -> PageResult {
    let (access, frame) = database::open::<Write>(&posted, DatabaseTab::Branches).await?;
    let mut form = posted.form.again();
    let name = form.checked("name", RefName::parse(&posted.form.line("name")));
    let from = posted.form.line("from");
    let mut failed = None;
    if let Some(name) = name {
        let created = posted.write(move |hub| -> Result<_, ApiError> {
            let commit = hub.sql().resolve(&access, Some(from.as_str()).filter(|from| !from.is_empty()))?;
            Ok(hub.branches().create(&access, NewBranch { name, from: Revision::Commit(commit.into()) }, None)?)
        });
        match created.await {
            Ok(branch) => {
                let to = format!("{}/branches", frame.path);
                return posted.redirect_saying(&to, &format!("Branch {} created.", branch.name));
            }
            Err(failure) => failed = Some(failure),
        }
    }
    let form = match failed {
        Some(failure) => form.refused(failure, FIELDS)?,
        None => form,
    };
    refuse(&posted, frame, form, None).await
}

/// Shows the page again, with the reason why the action failed.
async fn refuse(posted: &FormPost, frame: DatabaseFrame, form: Filled, restore: Option<Filled>) -> PageResult {
    let (access, _) = database::open::<Read>(posted, DatabaseTab::Branches).await?;
    let names = suggestions::refs(posted, &access).await?;
    let (rows, next) = rows(posted, access, &frame).await?;
    let restorable = restorable(posted, &frame).await?;
    let restore = restore_form(posted, &frame, restore).await?;
    posted.refuse(|shell| BranchesPage { shell, frame, rows, next, restorable, form, restore, names })
}

/// `POST /{owner}/{database}/branches/restore`
pub(crate) async fn restore(posted: FormPost) -> PageResult {
    let (access, frame) = database::open::<Write>(&posted, DatabaseTab::Branches).await?;
    let id = RefLogId::parse(&posted.form.line("id"));
    let restored = posted.write(move |hub| -> Result<_, ApiError> {
        let id = id.map_err(|_| RefError::NotKept)?;
        Ok(hub.branches().restore(&access, id)?)
    });
    match restored.await {
        Ok(branch) => {
            posted.redirect_saying(&format!("{}/branches", frame.path), &format!("Branch {} restored.", branch.name))
        }
        Err(failure) => {
            let form = Filled::default().with("from", frame.default_branch.clone()).refused(failure, &[])?;
            refuse(&posted, frame, form, None).await
        }
    }
}

/// Returns the form for an administrator. `None` for others, and if the server keeps no history.
async fn restore_form(
    visit: &PageContext,
    frame: &DatabaseFrame,
    form: Option<Filled>,
) -> Result<Option<RestoreForm>, PageError> {
    if !(frame.may_administer && frame.may_write) {
        return Ok(None);
    }
    let (access, _) = database::open::<Admin>(visit, DatabaseTab::Branches).await?;
    let since = visit.read(move |hub| hub.operations().restorable_since(&access)).await?;
    let now = visit.state.services.now();
    let form = form.unwrap_or_else(|| Filled::default().with("branch", frame.default_branch.clone()));
    Ok(since.map(|since| RestoreForm { form, since: format::when(since, now) }))
}

/// `POST /{owner}/{database}/branches/restore-to-time`
pub(crate) async fn restore_to_time(posted: FormPost) -> PageResult {
    let (access, frame) = database::open::<Admin>(&posted, DatabaseTab::Branches).await?;
    let mut form = posted.form.again();
    let at = format::sent_time(&posted.form.line("at")).ok_or("Enter a date and a time.");
    let at = form.checked("at", at);
    let to_branch = form.checked("to_branch", RefName::parse(&posted.form.line("to_branch")));
    if let (Some(at), Some(to_branch)) = (at, to_branch) {
        let wanted = RestoreBranch { branch: posted.form.line("branch"), at, to_branch };
        match posted.write(move |hub| hub.operations().restore(&access, wanted, None)).await {
            Ok(operation) => return posted.redirect(&format!("{}/operations/{}", frame.path, operation.id)),
            Err(failure) => form = form.refused(failure, RESTORE_FIELDS)?,
        }
    }
    let new = Filled::default().with("from", frame.default_branch.clone());
    refuse(&posted, frame, new, Some(form)).await
}
