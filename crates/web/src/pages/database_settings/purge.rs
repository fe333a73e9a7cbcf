//! `/{owner}/{database}/settings/purge`: removes what no branch, tag, pull request or release reaches.

use branchyard_domain::access::Admin;

use crate::database::{self, DatabaseFrame, DatabaseTab};
use crate::forms::{Filled, FormPost};
use crate::page_context::{PageContext, PageResult};
use crate::pages::confirm::{self, ConfirmQuestion};

fn question(frame: &DatabaseFrame) -> ConfirmQuestion {
    ConfirmQuestion {
        title: "Purge deleted history?".to_owned(),
        text: format!(
            "This permanently removes every commit that no branch, tag, pull request or release reaches, such as those of deleted branches. \
             Deleted branches can't be restored afterwards. Forks keep what they have. The database uses {}, of which about {} can be freed.",
            frame.size, frame.garbage
        ),
        button: "Purge deleted history",
        back: format!("{}/settings", frame.path),
        hidden: Vec::new(),
    }
}

/// `GET /{owner}/{database}/settings/purge`
pub(crate) async fn ask(visit: PageContext) -> PageResult {
    let (_, frame) = database::open::<Admin>(&visit, DatabaseTab::Settings).await?;
    let question = question(&frame);
    confirm::ask(&visit, frame, question)
}

/// `POST /{owner}/{database}/settings/purge`
pub(crate) async fn purge(posted: FormPost) -> PageResult {
    let (access, frame) = database::open::<Admin>(&posted, DatabaseTab::Settings).await?;
    posted.confirmed(&format!("/{}/{}/settings/purge", frame.owner, frame.name))?;
    let question = question(&frame);
    match posted.write(move |hub| hub.operations().purge(&access, None)).await {
        Ok(operation) => posted.redirect(&format!("{}/operations/{}", frame.path, operation.id)),
        Err(failure) => {
            let form = Filled::default().refused(failure, &[])?;
            confirm::ask_again(&posted, frame, question, form)
        }
    }
}
