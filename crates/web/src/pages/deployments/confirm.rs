//! Confirmation pages of deployments.

use actix_web::http::StatusCode;
use askama::Template;

use crate::deployment::DeploymentFrame;
use crate::forms::Filled;
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::pages::confirm::ConfirmQuestion;

#[derive(Template)]
#[template(path = "deployments/confirm.html")]
struct DeploymentConfirmPage {
    shell: LayoutContext,
    frame: DeploymentFrame,
    question: ConfirmQuestion,
    form: Filled,
}

/// Shows the question. The form is sent to the URL of this page.
pub(super) fn ask(visit: &PageContext, frame: DeploymentFrame, question: ConfirmQuestion) -> PageResult {
    visit.page(|shell| DeploymentConfirmPage { shell, frame, question, form: Filled::default() })
}

/// Shows the question again, with the reason why the action failed.
pub(super) fn ask_again(
    visit: &PageContext,
    frame: DeploymentFrame,
    question: ConfirmQuestion,
    form: Filled,
) -> PageResult {
    visit.render(StatusCode::UNPROCESSABLE_ENTITY, |shell| DeploymentConfirmPage { shell, frame, question, form })
}
