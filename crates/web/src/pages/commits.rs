//! `/{owner}/{database}/commits`: the history of a ref with its graph.

use std::collections::HashMap;

use askama::Template;
use branchyard_domain::access::Read;
use branchyard_domain::entities::{LogEntry, LogPosition};
use branchyard_domain::errors::ReadError;
use branchyard_domain::values::CommitHash;
use branchyard_http_common::{bound, open_token, token};

use super::branch_reset;
use crate::database::{self, DatabaseFrame, DatabaseTab, ShownVersion};
use crate::format::Markup;
use crate::graph;
use crate::layout::LayoutContext;
use crate::log::CommitLine;
use crate::page_context::{PageContext, PageResult};
use crate::paths;

/// Minimum number of commits per page, if there are more.
const PAGE: usize = 50;
/// Commits that are read to find a good place to end the page.
const LOOKED_AT: usize = 80;
/// Branches, or tags, that are read to label commits.
const NAMES: usize = 200;

/// A commit with its part of the graph.
struct Drawn {
    line: CommitLine,
    graph: Markup,
    /// Branches that point to the commit, with their pages.
    branches: Vec<(String, String)>,
    /// Tags that point to the commit, with their pages.
    tags: Vec<(String, String)>,
    /// The question whether to reset the shown branch to the commit, if the viewer can.
    reset: Option<String>,
}

#[derive(Template)]
#[template(path = "commits.html")]
struct CommitsPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    at: ShownVersion,
    commits: Vec<Drawn>,
    newest: Option<String>,
    older: Option<String>,
}

/// `GET /{owner}/{database}/commits?ref=…&page=…`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Read>(&visit, DatabaseTab::Commits).await?;
    let at = database::at(&visit, &access, &frame).await?;
    let bound = bound(&["commits page", &access.database().id.to_string()]);
    let sealed = visit.parameter("page").and_then(|page| open_token(&visit.state.keys, &bound, &page));
    let goes_on = sealed.is_some();
    let begin = sealed.and_then(position).unwrap_or_else(|| LogPosition::from(at.commit.clone()));
    let is_whole_line = goes_on && begin.after.is_none();
    let resets = (frame.may_write && at.kind == "branch").then(|| at.name.clone());
    let (entries, branches, tags, resets) = visit
        .read(move |hub| -> Result<_, ReadError> {
            let entries = hub.history().commits(&access, &begin, LOOKED_AT)?;
            let branches = hub.branches().list(&access, None, NAMES)?;
            let tags = hub.tags().list(&access, None, NAMES)?;
            // An expression such as `main~2` is no branch that can be moved.
            let resets = resets.and_then(|name| hub.branches().get(&access, &name).ok());
            Ok((entries, branches, tags, resets.map(|branch| branch.name)))
        })
        .await?;
    let (shown, next) = cut(&entries);
    let link = |name: &str| (name.to_owned(), paths::with_query(&frame.path, &[("ref", name)]));
    let mut names: HashMap<&CommitHash, (Vec<_>, Vec<_>)> = HashMap::new();
    for branch in &branches {
        names.entry(&branch.head).or_default().0.push(link(branch.name.as_str()));
    }
    for tag in &tags {
        names.entry(&tag.commit).or_default().1.push(link(tag.name.as_str()));
    }
    let drawn = graph::draw(shown.iter().map(|entry| (&entry.commit.hash, &entry.commit.parents[..])), is_whole_line);
    let now = visit.state.services.now();
    let commits = shown.iter().zip(drawn).map(|(entry, graph)| {
        let (branches, tags) = names.remove(&entry.commit.hash).unwrap_or_default();
        let hash = &entry.commit.hash;
        let branch = resets.as_ref().filter(|_| *hash != at.commit);
        let reset = branch.map(|branch| branch_reset::address(&frame, branch.as_str(), hash));
        Drawn { line: CommitLine::new(entry, &frame, now), graph, branches, tags, reset }
    });
    let commits = commits.collect();
    let older = next.map(|next| {
        let key = (next.from.to_string(), next.after.as_ref().map(CommitHash::to_string));
        paths::with_query(&at.action, &[("ref", &frame.asked_ref), ("page", &token(&visit.state, &bound, &key))])
    });
    let newest = goes_on.then(|| frame.at_ref(&at.action));
    visit.page(|shell| CommitsPage { shell, frame, at, commits, newest, older })
}

fn position((from, after): (String, Option<String>)) -> Option<LogPosition> {
    let after = match after {
        Some(after) => Some(CommitHash::parse(&after).ok()?),
        None => None,
    };
    Some(LogPosition { from: CommitHash::parse(&from).ok()?, after })
}

/// Returns the commits of a page, and the position of the next page. A page preferably ends where the history is a single line,
/// so that the graph of the next page continues it.
fn cut(entries: &[LogEntry]) -> (&[LogEntry], Option<&LogPosition>) {
    if entries.len() <= PAGE {
        return (entries, None);
    }
    let line = entries.iter().skip(PAGE - 1).position(|entry| entry.next.after.is_none());
    let end = line.map_or(PAGE, |beyond| PAGE + beyond);
    let goes_on = end < entries.len() || entries.len() == LOOKED_AT;
    let shown = entries.get(..end).unwrap_or(entries);
    (shown, shown.last().filter(|_| goes_on).map(|entry| &entry.next))
}
