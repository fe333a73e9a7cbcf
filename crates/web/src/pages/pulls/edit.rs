//! `/{owner}/{database}/pulls/{number}/edit`, `…/state` for closing and reopening, and `…/withdraw`, which asks for confirmation.

use askama::Template;
use branchyard_domain::access::Participate;
use branchyard_domain::errors::{PortError, PullError};
use branchyard_domain::usecases::{EditPull, WantedState};
use branchyard_domain::values::{LongText, Title};

use super::{PullHeader, PullTab, open};
use crate::database::DatabaseFrame;
use crate::error_page::PageError;
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::pages::confirm::{self, ConfirmQuestion};

#[derive(Template)]
#[template(path = "pull_edit.html")]
struct EditPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    head: PullHeader,
    form: Filled,
}

/// `GET /{owner}/{database}/pulls/{number}/edit`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame, pull, head) = open::<Participate>(&visit, PullTab::Conversation).await?;
    let pull = visit.read(move |hub| hub.pulls().editable(&access, pull.number)).await?;
    let form = Filled::default().with("title", pull.title).with("description", pull.description.unwrap_or_default());
    visit.page(|shell| EditPage { shell, frame, head, form })
}

/// `POST /{owner}/{database}/pulls/{number}/edit`
pub(crate) async fn send(posted: FormPost) -> PageResult {
    let (access, frame, pull, head) = open::<Participate>(&posted, PullTab::Conversation).await?;
    let mut form = posted.form.again();
    let title = form.checked("title", Title::parse(posted.form.line("title")));
    let description = form.checked("description", LongText::parse(posted.form.text("description")));
    if form.has_faults() {
        return posted.refuse(|shell| EditPage { shell, frame, head, form });
    }
    let edit = EditPull { title, description, ..EditPull::default() };
    posted.write(move |hub| hub.pulls().edit(&access, pull.number, edit, None)).await?;
    posted.redirect(&head.path)
}

/// `POST /{owner}/{database}/pulls/{number}/state`
pub(crate) async fn set_state(posted: FormPost) -> PageResult {
    let (access, _, pull, head) = open::<Participate>(&posted, PullTab::Conversation).await?;
    let state = match posted.form.line("state").as_str() {
        "open" => WantedState::Open,
        "closed" => WantedState::Closed,
        _ => return Err(PageError::nothing_here()),
    };
    let publish = posted.form.is_checked("publish");
    let edit = EditPull { state: Some(state), publish, ..EditPull::default() };
    let edited =
        posted.write(move |hub| Ok::<_, PortError>(hub.pulls().edit(&access, pull.number, edit, None))).await?;
    match edited {
        Ok(_) => posted.redirect(&head.path),
        Err(
            error @ (PullError::State(_)
            | PullError::Merging(_)
            | PullError::Duplicate(_)
            | PullError::NotShown(_)
            | PullError::SourceDenied
            | PullError::BranchMissing(_)),
        ) => posted.redirect_saying(&head.path, &format!("Nothing was changed: {error}.")),
        Err(PullError::NeedsPublish) => posted.redirect_saying(
            &head.path,
            "Nothing was changed: the source database is private. Select the box that makes its branch visible to everyone, then reopen the pull request.",
        ),
        Err(error) => Err(PageError::refused(error.into(), posted.request())),
    }
}

/// `GET /{owner}/{database}/pulls/{number}/withdraw`
pub(crate) async fn ask_to_withdraw(visit: PageContext) -> PageResult {
    let (access, frame, pull, head) = open::<Participate>(&visit, PullTab::Conversation).await?;
    let (owner, name) = (frame.owner.clone(), frame.name.clone());
    visit.read(move |hub| hub.pulls().withdrawable(access.caller(), &owner, &name, pull.number)).await?;
    let question = ConfirmQuestion {
        title: format!("Withdraw pull request #{}?", head.number),
        text: "Its commits and changes are hidden right away. The pull request is closed and can't be reopened."
            .to_owned(),
        button: "Withdraw pull request",
        back: head.path,
        hidden: Vec::new(),
    };
    confirm::ask(&visit, frame, question)
}

/// `POST /{owner}/{database}/pulls/{number}/withdraw`
pub(crate) async fn withdraw(posted: FormPost) -> PageResult {
    let (access, frame, pull, head) = open::<Participate>(&posted, PullTab::Conversation).await?;
    let withdrawn = posted
        .write(move |hub| {
            let caller = access.caller();
            let withdrawable = hub.pulls().withdrawable(caller, &frame.owner, &frame.name, pull.number)?;
            hub.pulls().withdraw(&withdrawable, None)
        })
        .await;
    withdrawn?;
    posted.redirect_saying(&head.path, "Pull request withdrawn. Its changes are hidden.")
}
