//! `/{owner}/{database}/pulls/{number}/diff`: what the pull changes.

use askama::Template;
use branchyard_domain::access::Read;

use super::{Head, PullTab, edges, open};
use crate::changes::{self, Asked, Changes};
use crate::database::Frame;
use crate::layout::Shell;
use crate::visit::{Answer, Visit};

#[derive(Template)]
#[template(path = "pull_diff.html")]
struct DiffPage {
    shell: Shell,
    frame: Frame,
    head: Head,
    changes: Result<Changes, String>,
}

/// `GET /{owner}/{database}/pulls/{number}/diff?table=…&page=…`
pub(crate) async fn show(visit: Visit) -> Answer {
    let (access, frame, pull, head) = open::<Read>(&visit, PullTab::Changes).await?;
    let changes = match edges(&visit, &access, &pull).await? {
        Err(text) => Err(text),
        Ok(edges) => {
            let asked = Asked::of(&visit, &access, edges.base, edges.theirs);
            let (of, wanted) = (access.clone(), asked.clone());
            let found = visit.read(move |hub| changes::find(hub, &of, &wanted)).await?;
            Ok(Changes::new(&visit, &access, &asked, &found, &format!("{}/diff", head.path)))
        }
    };
    visit.page(|shell| DiffPage { shell, frame, head, changes })
}
