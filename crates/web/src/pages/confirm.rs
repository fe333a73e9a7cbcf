//! Confirmation pages. They work without JavaScript.

use actix_web::http::StatusCode;
use askama::Template;

use crate::database::DatabaseFrame;
use crate::forms::Filled;
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};

/// The content of a confirmation page.
pub(crate) struct ConfirmQuestion {
    /// The question, as the title.
    pub(crate) title: String,
    /// The consequences of the action.
    pub(crate) text: String,
    /// The label of the button that confirms.
    pub(crate) button: &'static str,
    /// Where *Cancel* leads.
    pub(crate) back: String,
    /// Hidden fields: names and values.
    pub(crate) hidden: Vec<(&'static str, String)>,
}

/// Something that the action affects.
pub(crate) struct AffectedItem {
    pub(crate) label: String,
    pub(crate) href: String,
}

#[derive(Template)]
#[template(path = "confirm.html")]
struct ConfirmPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    question: ConfirmQuestion,
    affected: Vec<AffectedItem>,
    form: Filled,
}

/// Shows the question. The form is sent to the URL of this page.
pub(crate) fn ask(visit: &PageContext, frame: DatabaseFrame, question: ConfirmQuestion) -> PageResult {
    ask_about(visit, frame, question, Vec::new())
}

/// Shows the question with what the action affects, which the text announces.
pub(crate) fn ask_about(
    visit: &PageContext,
    frame: DatabaseFrame,
    question: ConfirmQuestion,
    affected: Vec<AffectedItem>,
) -> PageResult {
    visit.page(|shell| ConfirmPage { shell, frame, question, affected, form: Filled::default() })
}

/// Shows the question again, with the reason why the action failed.
pub(crate) fn ask_again(
    visit: &PageContext,
    frame: DatabaseFrame,
    question: ConfirmQuestion,
    form: Filled,
) -> PageResult {
    ask_again_about(visit, frame, question, Vec::new(), form)
}

/// Shows the question again, with what the action affects and the reason why it failed.
pub(crate) fn ask_again_about(
    visit: &PageContext,
    frame: DatabaseFrame,
    question: ConfirmQuestion,
    affected: Vec<AffectedItem>,
    form: Filled,
) -> PageResult {
    let status = StatusCode::UNPROCESSABLE_ENTITY;
    visit.render(status, |shell| ConfirmPage { shell, frame, question, affected, form })
}
