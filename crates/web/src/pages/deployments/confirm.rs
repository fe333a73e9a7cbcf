//! Confirmation pages of deployments.

use actix_web::http::StatusCode;
use askama::Template;

use crate::deployment::DeploymentFrame;
use crate::forms::Filled;
use crate::layout::Shell;
use crate::page_context::{PageContext, PageResult};
use crate::pages::confirm::ConfirmQuestion;

#[derive(Template)]
#[template(path = "deployments/confirm.html")]
struct DeploymentConfirmPage {
    shell: Shell,
    frame: DeploymentFrame,
    question: ConfirmQuestion,
    form: Filled,
}

/// Shows the question. The form is sent to the URL of this page.
pub(super) fn ask(visit: &Visit, frame: Frame, question: Question) -> Answer {
    visit.page(|shell| ConfirmPage { shell, frame, question, form: Filled::default() })
}

/// Shows the question again, with the reason why the action failed.
pub(super) fn ask_again(visit: &Visit, frame: Frame, question: Question, form: Filled) -> Answer {
    visit.render(StatusCode::UNPROCESSABLE_ENTITY, |shell| ConfirmPage { shell, frame, question, form })
}
