//! What has to be confirmed before it is done to a deployment, as a page.

use actix_web::http::StatusCode;
use askama::Template;

use crate::deployment::Frame;
use crate::forms::Filled;
use crate::layout::Shell;
use crate::pages::confirm::Question;
use crate::visit::{Answer, Visit};

#[derive(Template)]
#[template(path = "deployments/confirm.html")]
struct ConfirmPage {
    shell: Shell,
    frame: Frame,
    question: Question,
    form: Filled,
}

/// Asks; the answer is sent to the address of this page.
pub(super) fn ask(visit: &Visit, frame: Frame, question: Question) -> Answer {
    visit.page(|shell| ConfirmPage { shell, frame, question, form: Filled::default() })
}

/// Says why it was not done, and asks again.
pub(super) fn ask_again(visit: &Visit, frame: Frame, question: Question, form: Filled) -> Answer {
    visit.render(StatusCode::UNPROCESSABLE_ENTITY, |shell| ConfirmPage { shell, frame, question, form })
}
