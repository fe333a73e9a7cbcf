//! Describes recent activity in databases.

use branchyard_domain::entities::{ActivityKind, PullAction};
use branchyard_domain::usecases::News;
use branchyard_domain::values::Timestamp;
use branchyard_http_common::segment;

use crate::format::{self, Markup};
use crate::paths;

/// An activity as a page shows it: `by` `did` [`what`], in `database`.
pub(crate) struct ActivityItem {
    pub(crate) by: String,
    pub(crate) did: &'static str,
    /// The branch, tag or pull request, and its page.
    pub(crate) what: String,
    pub(crate) href: Option<String>,
    /// Additional text, such as the title of the pull request.
    pub(crate) more: Option<String>,
    pub(crate) database: String,
    pub(crate) database_href: String,
    pub(crate) when: Markup,
}

/// Returns the verb for what was done to a pull request.
pub(crate) const fn done(action: PullAction) -> &'static str {
    match action {
        PullAction::Opened => "opened",
        PullAction::Closed => "closed",
        PullAction::Reopened => "reopened",
        PullAction::Merged => "merged",
    }
}

/// Describes an activity.
pub(crate) fn tell(news: News, now: Timestamp) -> ActivityItem {
    let News { activity, database, pull_title, head } = news;
    let path = paths::database(&database);
    let at_ref = |name: &str| Some(paths::with_query(&path, &[("ref", name)]));
    let (did, what, href, more) = match activity.kind {
        ActivityKind::Pushed { branch, .. } => {
            let commit = head.as_ref().map(|head| format!("{path}/commits/{head}"));
            ("committed to", branch.to_string(), commit, head.as_ref().map(format::short))
        }
        ActivityKind::BranchCreated { branch } => ("created branch", branch.to_string(), at_ref(branch.as_str()), None),
        ActivityKind::BranchDeleted { branch } => ("deleted branch", branch.to_string(), None, None),
        ActivityKind::Released { tag } => {
            let release = format!("{path}/releases/tag/{}", segment(tag.as_str()));
            ("published release", tag.to_string(), Some(release), None)
        }
        ActivityKind::Pull { number, action } => {
            let page = format!("{path}/pulls/{number}");
            (done(action), format!("pull request #{number}"), Some(page), pull_title)
        }
    };
    ActivityItem {
        by: activity.by_name.to_string(),
        did,
        what,
        href,
        more,
        database: database.to_string(),
        database_href: path,
        when: format::when(activity.at, now),
    }
}
