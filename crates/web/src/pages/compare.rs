//! `/{owner}/{database}/compare/{from}...{to}`: the differences between two refs.

use askama::Template;
use branchyard_domain::access::Read;
use branchyard_domain::errors::{ReadError, RefError};
use branchyard_domain::values::CommitHash;
use branchyard_http_common::segment;

use crate::changes::{self, Changes, ChangesQuery};
use crate::database::{self, DatabaseFrame, DatabaseTab};
use crate::error_page::PageError;
use crate::layout::LayoutContext;
use crate::log::{self, CommitLine};
use crate::page_context::{PageContext, PageResult};
use crate::paths;
use crate::suggestions;

/// Commits shown.
const COMMITS: usize = 100;

/// The comparison of two refs.
struct Compared {
    commits: Vec<CommitLine>,
    has_more_commits: bool,
    changes: Changes,
    /// Whether the changes since the merge base are shown, rather than the differences between both refs.
    since_parting: bool,
    /// The path of the other kind of comparison.
    other: String,
    /// The path of the form for a pull request, if both refs are branches.
    pull: Option<String>,
}

#[derive(Template)]
#[template(path = "compare.html")]
struct ComparePage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    from: String,
    to: String,
    /// Branches and tags that the form suggests.
    branches: Vec<String>,
    compared: Option<Compared>,
}

/// `GET /{owner}/{database}/compare?from=…&to=…`: the form.
pub(crate) async fn choose(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Read>(&visit, DatabaseTab::Commits).await?;
    if let (Some(from), Some(to)) = (visit.parameter("from"), visit.parameter("to")) {
        return visit.redirect(&address(&frame, from.trim(), "...", to.trim()));
    }
    let branches = suggestions::refs(&visit, &access).await?;
    let (from, to) = (frame.default_branch.clone(), String::new());
    visit.page(|shell| ComparePage { shell, frame, from, to, branches, compared: None })
}

/// Both refs, resolved.
struct ComparedRefs {
    from: CommitHash,
    to: CommitHash,
    parted: Option<CommitHash>,
    are_branches: bool,
}

/// `GET /{owner}/{database}/compare/{from}...{to}`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Read>(&visit, DatabaseTab::Commits).await?;
    let range = visit.segment("range");
    let split =
        range.split_once("...").map(|ends| (ends, true)).or_else(|| range.split_once("..").map(|ends| (ends, false)));
    let Some(((from, to), since_parting)) = split.filter(|((from, to), _)| !from.is_empty() && !to.is_empty()) else {
        return Err(PageError::nothing_here());
    };
    let (from, to) = (from.to_owned(), to.to_owned());
    let ends = ends(&visit, &access, &frame, (&from, &to)).await?;
    let base = ends.parted.clone().filter(|_| since_parting).unwrap_or_else(|| ends.from.clone());
    let asked = ChangesQuery::of(&visit, &access, base.clone(), ends.to.clone());
    let (of, wanted, head) = (access.clone(), asked.clone(), ends.to.clone());
    let parted = ends.parted.clone();
    let (found, commits, is_cut) = visit
        .read(move |hub| -> Result<_, ReadError> {
            let found = changes::find(hub, &of, &wanted)?;
            let (commits, is_cut) = match parted {
                Some(parted) => log::since(hub, &of, &parted, &head)?,
                None => (Vec::new(), false),
            };
            Ok((found, commits, is_cut))
        })
        .await?;
    let now = visit.state.services.now();
    let path = address(&frame, &from, if since_parting { "..." } else { ".." }, &to);
    let compared = Compared {
        has_more_commits: is_cut || commits.len() > COMMITS,
        commits: commits.iter().take(COMMITS).map(|entry| CommitLine::new(entry, &frame, now)).collect(),
        changes: Changes::new(&visit, &access, &asked, &found, &path),
        since_parting: since_parting && ends.parted.is_some(),
        other: address(&frame, &from, if since_parting { ".." } else { "..." }, &to),
        // Nothing is left to merge if the branches parted at the head of the compared one.
        pull: (ends.are_branches && from != to && ends.parted.as_ref() != Some(&ends.to))
            .then(|| paths::with_query(&format!("{}/pulls/new", frame.path), &[("from", &to), ("to", &from)])),
    };
    let branches = suggestions::refs(&visit, &access).await?;
    visit.page(|shell| ComparePage { shell, frame, from, to, branches, compared: Some(compared) })
}

async fn ends(
    visit: &PageContext,
    access: &branchyard_domain::access::DatabaseAccess<Read>,
    frame: &DatabaseFrame,
    (from, to): (&str, &str),
) -> Result<ComparedRefs, PageError> {
    let (access, from, to) = (access.clone(), from.to_owned(), to.to_owned());
    let found = visit
        .read(move |hub| -> Result<_, ReadError> {
            let mut commits = Vec::new();
            for name in [&from, &to] {
                match hub.history().resolve(&access, Some(name)) {
                    Ok(commit) => commits.push(commit),
                    Err(ReadError::Ref(RefError::NoSuchRef { name, .. })) => return Ok(Err(name)),
                    Err(other) => return Err(other),
                }
            }
            let (Some(head), Some(base)) = (commits.pop(), commits.pop()) else { return Ok(Err(from)) };
            let parted = hub.history().merge_base(&access, &base, &head)?;
            let are_branches = hub.branches().get(&access, &from).is_ok() && hub.branches().get(&access, &to).is_ok();
            Ok(Ok(ComparedRefs { from: base, to: head, parted, are_branches }))
        })
        .await?;
    found.map_err(|name| PageError::NoSuchRef { name, database: frame.path.clone() })
}

fn address(frame: &DatabaseFrame, from: &str, dots: &str, to: &str) -> String {
    format!("{}/compare/{}{dots}{}", frame.path, segment(from), segment(to))
}
