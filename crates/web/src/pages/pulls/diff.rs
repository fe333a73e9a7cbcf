//! `/{owner}/{database}/pulls/{number}/diff`: the changes of a pull request.

use askama::Template;
use branchyard_domain::access::Read;

use super::{PullHeader, PullTab, edges, open};
use crate::changes::{self, Changes, ChangesQuery};
use crate::database::DatabaseFrame;
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};

#[derive(Template)]
#[template(path = "pull_diff.html")]
struct DiffPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    head: PullHeader,
    changes: Result<Changes, String>,
}

/// `GET /{owner}/{database}/pulls/{number}/diff?table=…&page=…`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame, pull, head) = open::<Read>(&visit, PullTab::Changes).await?;
    let changes = match edges(&visit, &access, &pull).await? {
        Err(text) => Err(text),
        Ok(edges) => {
            let asked = ChangesQuery::of(&visit, &access, edges.base, edges.theirs);
            let (of, wanted) = (access.clone(), asked.clone());
            let found = visit.read(move |hub| changes::find(hub, &of, &wanted)).await?;
            Ok(Changes::new(&visit, &access, &asked, &found, &format!("{}/diff", head.path)))
        }
    };
    visit.page(|shell| DiffPage { shell, frame, head, changes })
}
