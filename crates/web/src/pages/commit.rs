//! `/{owner}/{database}/commits/{hash}`: a commit and its changes.

use askama::Template;
use branchyard_domain::access::Read;
use branchyard_domain::entities::{Commit, LogPosition};
use branchyard_domain::errors::{ReadError, RefError};
use branchyard_domain::values::CommitHash;

use crate::changes::{self, Changes, ChangesQuery};
use crate::database::{self, DatabaseFrame, DatabaseTab};
use crate::error_page::PageError;
use crate::format::{self, Markup};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::paths;

/// A parent of the commit.
struct Parent {
    short: String,
    href: String,
    /// The page that compares the commit with this parent.
    compare: String,
    is_compared: bool,
}

#[derive(Template)]
#[template(path = "commit.html")]
struct CommitPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    hash: String,
    title: String,
    text: String,
    author: String,
    email: String,
    when: Markup,
    parents: Vec<Parent>,
    changes: Option<Changes>,
}

/// `GET /{owner}/{database}/commits/{hash}?parent=…&table=…&page=…`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Read>(&visit, DatabaseTab::Commits).await?;
    let name = visit.segment("commit");
    let (of, asked) = (access.clone(), name.clone());
    let found = visit
        .read(move |hub| -> Result<_, ReadError> {
            let hash = match hub.history().resolve(&of, Some(&asked)) {
                Ok(hash) => hash,
                Err(ReadError::Ref(RefError::NoSuchRef { .. })) => return Ok(None),
                Err(other) => return Err(other),
            };
            let entries = hub.history().commits(&of, &LogPosition::from(hash), 1)?;
            Ok(entries.into_iter().next().map(|entry| entry.commit))
        })
        .await?;
    let commit = found.ok_or_else(|| PageError::NoSuchRef { name: name.clone(), database: frame.path.clone() })?;
    if commit.hash.as_str() != name {
        return visit.redirect(&frame.commit(&commit.hash));
    }
    let path = frame.commit(&commit.hash);
    let nth = visit.parameter("parent").and_then(|text| text.parse::<usize>().ok()).unwrap_or(1).max(1);
    let compared = commit.parents.get(nth - 1).or(commit.parents.first()).cloned();
    let parents = parents(&commit, &frame, compared.as_ref());
    let changes = match compared {
        Some(parent) => {
            let asked = ChangesQuery::of(&visit, &access, parent, commit.hash.clone());
            let (of, wanted) = (access.clone(), asked.clone());
            let found = visit.read(move |hub| changes::find(hub, &of, &wanted)).await?;
            let nth = if nth > 1 { nth.to_string() } else { String::new() };
            let path = paths::with_query(&path, &[("parent", &nth)]);
            Some(Changes::new(&visit, &access, &asked, &found, &path))
        }
        None => None,
    };
    let title = format::first_line(&commit.message);
    let text = commit.message.split_once('\n').map(|(_, text)| text.trim().to_owned()).unwrap_or_default();
    let when = format::when(commit.author.at, visit.state.services.now());
    let Commit { hash, author, .. } = commit;
    let (hash, author, email) = (hash.to_string(), author.name, author.email);
    visit.page(|shell| CommitPage { shell, frame, hash, title, text, author, email, when, parents, changes })
}

fn parents(commit: &Commit, frame: &DatabaseFrame, compared: Option<&CommitHash>) -> Vec<Parent> {
    let parents = commit.parents.iter().enumerate().map(|(at, parent)| {
        let nth = if at == 0 { String::new() } else { (at + 1).to_string() };
        Parent {
            short: format::short(parent),
            href: frame.commit(parent),
            compare: paths::with_query(&frame.commit(&commit.hash), &[("parent", &nth)]),
            is_compared: Some(parent) == compared,
        }
    });
    parents.collect()
}
