//! `/{owner}/{database}/pulls`: lists pull requests by state and searches them.

use askama::Template;
use branchyard_domain::access::Read;
use branchyard_domain::ports::{PullFilter, PullStanding};
use branchyard_domain::values::PullNumber;

use super::state_of;
use crate::database::{self, DatabaseFrame, DatabaseTab};
use crate::format::{self, Markup};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::pages::branch_standing::{self, RecentPushView};
use crate::paths;

const PAGE: usize = 30;

/// The states: values of `state`, labels and filters.
const STATES: [(&str, &str, Option<PullStanding>); 4] = [
    ("open", "Open", Some(PullStanding::Open)),
    ("merged", "Merged", Some(PullStanding::Merged)),
    ("closed", "Closed", Some(PullStanding::Closed)),
    ("all", "All", None),
];

/// A pull request in the list.
struct PullItem {
    number: PullNumber,
    title: String,
    href: String,
    state: &'static str,
    author: String,
    from: String,
    to: String,
    when: Markup,
}

/// A link to a state: label, path, and whether it is selected.
type Choice = (&'static str, String, bool);

#[derive(Template)]
#[template(path = "pulls.html")]
struct PullsPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    state: &'static str,
    states: Vec<Choice>,
    search: String,
    pulls: Vec<PullItem>,
    /// A branch that the viewer wrote to a short while ago.
    recent: Option<RecentPushView>,
    next: Option<String>,
}

/// `GET /{owner}/{database}/pulls?state=…&q=…&before=…`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Read>(&visit, DatabaseTab::Pulls).await?;
    let recent = branch_standing::recent_push(&visit, &access, &frame).await?;
    let path = format!("{}/pulls", frame.path);
    let asked = visit.parameter("state").unwrap_or_default();
    let (state, _, standing) = STATES.into_iter().find(|(name, _, _)| *name == asked).unwrap_or(STATES[0]);
    let search = visit.parameter("q").unwrap_or_default().trim().to_owned();
    let filter = PullFilter { standing, contains: Some(search.clone()).filter(|text| !text.is_empty()) };
    let before = visit.parameter("before").and_then(|text| PullNumber::parse(&text).ok());
    let mut found = visit.read(move |hub| hub.pulls().list(&access, &filter, before, PAGE + 1)).await?;
    let has_more = found.len() > PAGE;
    found.truncate(PAGE);
    let last = found.last().filter(|_| has_more).map(|pull| pull.number.to_string());
    let state_asked = if state == "open" { "" } else { state };
    let next = last.map(|last| paths::with_query(&path, &[("state", state_asked), ("q", &search), ("before", &last)]));
    let now = visit.state.services.now();
    let pulls = found.into_iter().map(|pull| PullItem {
        href: format!("{path}/{}", pull.number),
        number: pull.number,
        state: state_of(&pull.state),
        author: pull.creator.to_string(),
        from: if pull.from_database_id == pull.database_id {
            pull.from_branch.to_string()
        } else {
            format!("{}:{}", pull.from_locator, pull.from_branch)
        },
        to: pull.to_branch.to_string(),
        when: format::when(pull.created_at, now),
        title: pull.title,
    });
    let pulls = pulls.collect();
    let choice = |(name, label, _): (&str, &'static str, _)| {
        let asked = if name == "open" { "" } else { name };
        (label, paths::with_query(&path, &[("state", asked), ("q", &search)]), name == state)
    };
    let states = STATES.into_iter().map(choice).collect();
    visit.page(|shell| PullsPage { shell, frame, state, states, search, pulls, recent, next })
}
