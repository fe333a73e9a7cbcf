//! What has to be confirmed before it is done to a deployment, as a page.

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

/// Asks; the answer is sent to the address of this page.
pub(super) fn ask(visit: &PageContext, frame: DeploymentFrame, question: ConfirmQuestion) -> PageResult {
    visit.page(|shell| DeploymentConfirmPage { shell, frame, question, form: Filled::default() })
}

/// Says why it was not done, and asks again.
pub(super) fn ask_again(
    visit: &PageContext,
    frame: DeploymentFrame,
    question: ConfirmQuestion,
    form: Filled,
) -> PageResult {
    visit.render(StatusCode::UNPROCESSABLE_ENTITY, |shell| DeploymentConfirmPage { shell, frame, question, form })
}
