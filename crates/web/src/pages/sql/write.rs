//! `/{owner}/{database}/sql/write`: commits statements that change data to a branch, or to a new branch for a pull request.

use askama::Template;
use branchyard_domain::access::{DatabaseAccess, Write};
use branchyard_domain::errors::{OperationError, PortError, ReadError, RefError};
use branchyard_domain::usecases::SqlWrite;
use branchyard_domain::values::{LongText, RefName};

use super::{Outlines, outlines};
use crate::database::{self, DatabaseFrame, DatabaseTab};
use crate::error_page::{PageError, sentence};
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::settled;

/// Branches that the form suggests. Others can be typed.
const OFFERED: usize = 100;

#[derive(Template)]
#[template(path = "sql_write.html")]
struct WritePage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    form: Filled,
    branches: Vec<String>,
    outlines: Outlines,
}

/// The suggestions of the form, and whether the requested ref is a branch.
struct WriteForm {
    branches: Vec<String>,
    outlines: Outlines,
    is_branch: bool,
}

async fn prepare(visit: &PageContext, access: &DatabaseAccess<Write>, branch: &str) -> Result<WriteForm, PageError> {
    let (access, branch) = (access.clone(), branch.to_owned());
    let prepared = visit
        .read(move |hub| -> Result<_, ReadError> {
            let branches = hub.branches().list(&access, None, OFFERED)?;
            let head = match hub.branches().get(&access, &branch) {
                Ok(branch) => Some(branch.head),
                Err(RefError::NoSuchBranch(_)) => None,
                Err(other) => return Err(other.into()),
            };
            let is_branch = head.is_some();
            let commit = match head {
                Some(head) => head,
                None => hub.sql().resolve(&access, None)?,
            };
            let outlines = outlines(hub, &access, &commit)?;
            let branches = branches.into_iter().map(|branch| branch.name.to_string()).collect();
            Ok(WriteForm { branches, outlines, is_branch })
        })
        .await?;
    Ok(prepared)
}

/// `GET /{owner}/{database}/sql/write?q=…&ref=…`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Write>(&visit, DatabaseTab::Sql).await?;
    let asked = visit.parameter("ref").unwrap_or_else(|| frame.default_branch.clone());
    let WriteForm { branches, outlines, is_branch } = prepare(&visit, &access, &asked).await?;
    let branch = if is_branch { asked } else { frame.default_branch.clone() };
    let q = visit.parameter("q").unwrap_or_default();
    let form = Filled::default().with("q", q).with("branch", branch).with("target", "branch");
    visit.page(|shell| WritePage { shell, frame, form, branches, outlines })
}

/// `POST /{owner}/{database}/sql/write`
pub(crate) async fn send(posted: FormPost) -> PageResult {
    let (access, frame) = database::open::<Write>(&posted, DatabaseTab::Sql).await?;
    let (q, branch) = (posted.form.text("q"), posted.form.line("branch"));
    let mut form = posted.form.again();
    let max = posted.state.config.sql.max_statement_bytes;
    if q.trim().is_empty() {
        form.fault("q", "Enter at least one statement.");
    } else if q.len() > max {
        form.fault("q", format!("Statements can have at most {max} bytes; these have {}.", q.len()));
    }
    let message = form.checked("message", LongText::parse(posted.form.text("message")));
    let WriteForm { branches, outlines, is_branch } = prepare(&posted, &access, &branch).await?;
    if !is_branch {
        form.fault("branch", format!("There is no branch '{branch}'."));
    }
    let to_branch = match posted.form.line("target") == "pull" {
        true => fresh_branch(&posted, &access, &mut form).await?,
        false => form.checked("branch", RefName::parse(&branch)),
    };
    let writes = format!("{}/sql/writes", frame.path);
    let refuse = |form: Filled| posted.refuse(|shell| WritePage { shell, frame, form, branches, outlines });
    let (Some(to_branch), Some(message), false) = (to_branch, message, form.has_faults()) else { return refuse(form) };
    let message = Some(message.into_string());
    let wanted = SqlWrite { from_branch: branch, to_branch, statements: q, message };
    let accepted =
        posted.write(move |hub| Ok::<_, PortError>(hub.operations().sql_write(&access, wanted, None))).await?;
    match accepted {
        Ok(operation) => {
            settled::soon(&posted, operation.id).await;
            posted.redirect(&format!("{writes}/{}", operation.id))
        }
        Err(error @ (OperationError::QueueFull(_) | OperationError::Quota(_) | OperationError::NoSuchBranch(_))) => {
            refuse(form.wrong("", sentence(&error.to_string())))
        }
        Err(error) => Err(PageError::refused(error.into(), posted.request())),
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
    let (access, wanted) = (access.clone(), name.clone());
    let is_taken = posted
        .read(move |hub| match hub.branches().get(&access, &wanted) {
            Ok(_) => Ok(true),
            Err(RefError::NoSuchBranch(_)) => Ok(false),
            Err(other) => Err(other),
        })
        .await?;
    if is_taken {
        form.fault("new_branch", format!("Branch '{name}' already exists. Choose another name."));
    }
    Ok(Some(parsed))
}
