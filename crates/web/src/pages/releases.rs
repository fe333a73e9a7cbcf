//! `/{owner}/{database}/releases`: releases and their notes.

use askama::Template;
use branchyard_domain::access::{DatabaseAccess, Level, Read, Write};
use branchyard_domain::entities::Release;
use branchyard_domain::errors::{RefError, ReleaseError};
use branchyard_domain::usecases::{EditRelease, NewRelease};
use branchyard_domain::values::{LongText, RefName, Timestamp, Title};
use branchyard_http_common::{ApiError, segment};

use super::confirm::{self, ConfirmQuestion};
use crate::database::{self, DatabaseFrame, DatabaseTab};
use crate::error_page::PageError;
use crate::format::{self, Markup};
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::markdown;
use crate::page_context::{PageContext, PageResult};
use crate::paths;
use crate::suggestions;

/// Releases per page.
const PAGE: usize = 20;
const FIELDS: &[&str] = &["tag", "from", "title", "description"];

/// A release as pages show it.
struct ReleaseView {
    title: String,
    tag: String,
    href: String,
    at_tag: String,
    commit: String,
    short: String,
    when: Markup,
    notes: Option<Markup>,
}

fn shown(frame: &DatabaseFrame, release: &Release, now: Timestamp) -> ReleaseView {
    let tag = release.tag.as_str();
    ReleaseView {
        title: release.title.clone(),
        tag: tag.to_owned(),
        href: address(frame, tag),
        at_tag: paths::with_query(&frame.path, &[("ref", tag)]),
        commit: frame.commit(&release.commit),
        short: format::short(&release.commit),
        when: format::when(release.created_at, now),
        notes: release.description.as_deref().map(markdown::render),
    }
}

/// Returns the path of the page of a tag's release.
fn address(frame: &DatabaseFrame, tag: &str) -> String {
    format!("{}/releases/tag/{}", frame.path, segment(tag))
}

#[derive(Template)]
#[template(path = "releases.html")]
struct ReleasesPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    releases: Vec<ReleaseView>,
    next: Option<String>,
}

/// `GET /{owner}/{database}/releases`
pub(crate) async fn list(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Read>(&visit, DatabaseTab::Releases).await?;
    // `after` contains a time in microseconds and a tag, which order the list.
    let after = visit.parameter("after");
    let after = after.as_deref().and_then(|key| key.split_once('_'));
    let after = after.and_then(|(at, tag)| Some((Timestamp::from_micros(at.parse().ok()?), tag.to_owned())));
    let mut found = visit
        .read(move |hub| {
            let after = after.as_ref().map(|(at, tag)| (*at, tag.as_str()));
            hub.releases().list(&access, after, PAGE + 1)
        })
        .await?;
    let key = |release: &Release| format!("{}_{}", release.created_at.as_micros(), release.tag);
    let next = paths::next_page(&mut found, PAGE, &format!("{}/releases", frame.path), key);
    let now = visit.state.services.now();
    let releases = found.iter().map(|release| shown(&frame, release, now)).collect();
    visit.page(|shell| ReleasesPage { shell, frame, releases, next })
}

#[derive(Template)]
#[template(path = "release.html")]
struct ReleasePage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    release: ReleaseView,
}

/// Returns the database and the release named in the path.
async fn named<L: Level>(visit: &PageContext) -> Result<(DatabaseAccess<L>, DatabaseFrame, Release), PageError> {
    let (access, frame) = database::open::<L>(visit, DatabaseTab::Releases).await?;
    let (tag, seen) = (visit.segment("tag"), access.clone());
    let release = visit.read(move |hub| hub.releases().get(&seen, &tag)).await?;
    Ok((access, frame, release))
}

/// `GET /{owner}/{database}/releases/tag/{tag}`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (_, frame, release) = named::<Read>(&visit).await?;
    let release = shown(&frame, &release, visit.state.services.now());
    visit.page(|shell| ReleasePage { shell, frame, release })
}

#[derive(Template)]
#[template(path = "release_form.html")]
struct ReleaseFormPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    form: Filled,
    /// The tag of the release being edited; `None` for a new release.
    edited: Option<String>,
    back: String,
    /// Branches and tags that the form suggests.
    names: Vec<String>,
}

/// `GET /{owner}/{database}/releases/new?tag=`
pub(crate) async fn ask_new(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Write>(&visit, DatabaseTab::Releases).await?;
    let names = suggestions::refs(&visit, &access).await?;
    let tag = visit.parameter("tag").unwrap_or_default();
    let from = if tag.is_empty() { frame.default_branch.clone() } else { String::new() };
    let form = Filled::default().with("tag", tag).with("from", from);
    let back = format!("{}/releases", frame.path);
    visit.page(|shell| ReleaseFormPage { shell, frame, form, edited: None, back, names })
}

/// `POST /{owner}/{database}/releases/new`
pub(crate) async fn create(posted: FormPost) -> PageResult {
    let (access, frame) = database::open::<Write>(&posted, DatabaseTab::Releases).await?;
    let names = suggestions::refs(&posted, &access).await?;
    let mut form = posted.form.again();
    let tag = form.checked("tag", RefName::parse(&posted.form.line("tag")));
    let title = form.checked("title", Title::parse(posted.form.line("title")));
    let notes = form.checked("description", LongText::parse(posted.form.text("description")));
    let from = posted.form.line("from");
    if let (Some(tag), Some(title), Some(notes)) = (tag, title, notes) {
        let created = posted.write(move |hub| -> Result<_, ApiError> {
            let existing = match hub.tags().get(&access, tag.as_str()) {
                Ok(tag) => Some(tag.commit),
                Err(RefError::NoSuchTag(_)) => None,
                Err(other) => return Err(other.into()),
            };
            // An existing tag determines the commit if the form names no target. A different target is rejected.
            let commit = match existing.filter(|_| from.is_empty()) {
                Some(commit) => commit,
                None => hub.sql().resolve(&access, Some(from.as_str()).filter(|from| !from.is_empty()))?,
            };
            let wanted = NewRelease { tag, title, commit: commit.into(), description: Some(notes), create_tag: true };
            Ok(hub.releases().create(&access, wanted, None)?)
        });
        match created.await {
            Ok(release) => {
                let to = address(&frame, release.tag.as_str());
                return posted.redirect_saying(&to, &format!("Release {} published.", release.title));
            }
            Err(failure) => form = form.refused(failure, FIELDS)?,
        }
    }
    let back = format!("{}/releases", frame.path);
    posted.refuse(|shell| ReleaseFormPage { shell, frame, form, edited: None, back, names })
}

/// `GET /{owner}/{database}/releases/tag/{tag}/edit`
pub(crate) async fn ask_edit(visit: PageContext) -> PageResult {
    let (_, frame, release) = named::<Write>(&visit).await?;
    let tag = release.tag.to_string();
    let form = Filled::default()
        .with("title", release.title)
        .with("description", release.description.unwrap_or_default())
        .with("seen", release.updated_at.as_micros().to_string());
    let back = address(&frame, &tag);
    visit.page(|shell| ReleaseFormPage { shell, frame, form, edited: Some(tag), back, names: Vec::new() })
}

/// `POST /{owner}/{database}/releases/tag/{tag}/edit`
pub(crate) async fn edit(posted: FormPost) -> PageResult {
    let (access, frame, release) = named::<Write>(&posted).await?;
    let tag = release.tag.to_string();
    let mut form = posted.form.again();
    let title = form.checked("title", Title::parse(posted.form.line("title")));
    let description = form.checked("description", LongText::parse(posted.form.text("description")));
    let back = address(&frame, &tag);
    if let (Some(title), Some(description)) = (title, description) {
        let (of, seen) = (tag.clone(), posted.form.line("seen"));
        let edited = posted.write(move |hub| -> Result<_, ReleaseError> {
            let as_seen = |release: &Release| release.updated_at.as_micros().to_string() == seen;
            let edit = EditRelease { title: Some(title), description: Some(description) };
            hub.releases().edit(&access, &of, edit, Some(&as_seen))
        });
        match edited.await {
            Ok(_) => return posted.redirect_saying(&back, "Release saved."),
            Err(failure) => form = form.refused(failure, FIELDS)?,
        }
    }
    posted.refuse(|shell| ReleaseFormPage { shell, frame, form, edited: Some(tag), back, names: Vec::new() })
}

fn question(frame: &DatabaseFrame, release: &Release) -> ConfirmQuestion {
    ConfirmQuestion {
        title: format!("Delete release {}?", release.title),
        text: format!("This deletes the title and notes. Tag {} and its commit are kept.", release.tag),
        button: "Delete release",
        back: address(frame, release.tag.as_str()),
        hidden: Vec::new(),
    }
}

/// `GET /{owner}/{database}/releases/tag/{tag}/delete`
pub(crate) async fn ask_delete(visit: PageContext) -> PageResult {
    let (_, frame, release) = named::<Write>(&visit).await?;
    let question = question(&frame, &release);
    confirm::ask(&visit, frame, question)
}

/// `POST /{owner}/{database}/releases/tag/{tag}/delete`
pub(crate) async fn delete(posted: FormPost) -> PageResult {
    let (access, frame, release) = named::<Write>(&posted).await?;
    let tag = release.tag.clone();
    match posted.write_always(move |hub| hub.releases().delete(&access, tag.as_str(), None)).await {
        Ok(release) => {
            let to = format!("{}/releases", frame.path);
            posted.redirect_saying(&to, &format!("Release {} deleted.", release.title))
        }
        Err(failure) => {
            let (question, form) = (question(&frame, &release), Filled::default().refused(failure, &[])?);
            confirm::ask_again(&posted, frame, question, form)
        }
    }
}
