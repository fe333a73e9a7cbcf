//! What has to be confirmed before it is done, as a page: without JavaScript there is no other way to ask.

use actix_web::http::StatusCode;
use askama::Template;

use crate::database::DatabaseFrame;
use crate::forms::Filled;
use crate::layout::Shell;
use crate::page_context::{PageContext, PageResult};

/// The question.
pub(crate) struct ConfirmQuestion {
    /// What is asked, as a title.
    pub(crate) title: String,
    /// What follows from it.
    pub(crate) text: String,
    /// What the button says.
    pub(crate) button: &'static str,
    /// Where to go otherwise.
    pub(crate) back: String,
    /// What the form carries besides: names and values.
    pub(crate) hidden: Vec<(&'static str, String)>,
}

#[derive(Template)]
#[template(path = "confirm.html")]
struct ConfirmPage {
    shell: Shell,
    frame: DatabaseFrame,
    question: ConfirmQuestion,
    form: Filled,
}

/// Asks; the answer is sent to the address of this page.
pub(crate) fn ask(visit: &PageContext, frame: DatabaseFrame, question: ConfirmQuestion) -> PageResult {
    visit.page(|shell| ConfirmPage { shell, frame, question, form: Filled::default() })
}

/// Says why it was not done, and asks again.
pub(crate) fn ask_again(
    visit: &PageContext,
    frame: DatabaseFrame,
    question: ConfirmQuestion,
    form: Filled,
) -> PageResult {
    visit.render(StatusCode::UNPROCESSABLE_ENTITY, |shell| ConfirmPage { shell, frame, question, form })
}
