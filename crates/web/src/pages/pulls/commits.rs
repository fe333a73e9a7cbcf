//! `/{owner}/{database}/pulls/{number}/commits`: the commits of a pull request.

use askama::Template;
use branchyard_domain::access::Read;

use super::{PullHeader, PullTab, edges, open};
use crate::database::DatabaseFrame;
use crate::layout::LayoutContext;
use crate::log::{self, CommitLine};
use crate::page_context::{PageContext, PageResult};

/// Commits shown.
const COMMITS: usize = 200;

#[derive(Template)]
#[template(path = "pull_commits.html")]
struct PullCommitsPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    head: PullHeader,
    commits: Vec<CommitLine>,
    has_more: bool,
    missing: Option<String>,
}

/// `GET /{owner}/{database}/pulls/{number}/commits`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame, pull, head) = open::<Read>(&visit, PullTab::Commits).await?;
    let (entries, is_cut, missing) = match edges(&visit, &access, &pull).await? {
        Err(text) => (Vec::new(), false, Some(text)),
        Ok(edges) => {
            let found = visit.read(move |hub| log::since(hub, &access, &edges.base, &edges.theirs)).await?;
            (found.0, found.1, None)
        }
    };
    let now = visit.state.services.now();
    let has_more = is_cut || entries.len() > COMMITS;
    let commits = entries.iter().take(COMMITS).map(|entry| CommitLine::new(entry, &frame, now)).collect();
    visit.page(|shell| PullCommitsPage { shell, frame, head, commits, has_more, missing })
}
