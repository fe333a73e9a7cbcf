//! `/{owner}/{database}/tags`: lists and creates tags.

use askama::Template;
use branchyard_domain::access::{DatabaseAccess, Read, Write};
use branchyard_domain::entities::Tag;
use branchyard_domain::usecases::NewTag;
use branchyard_domain::values::{LongText, RefName, Revision};
use branchyard_http_common::{ApiError, segment};

use super::branches::PAGE;
use crate::database::{self, DatabaseFrame, DatabaseTab};
use crate::error_page::PageError;
use crate::format::{self, Markup};
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::paths;
use crate::suggestions;

const FIELDS: &[&str] = &["name", "from", "message"];

struct TagItem {
    name: String,
    href: String,
    message: Option<String>,
    commit: String,
    short: String,
    when: Markup,
    release: String,
    delete: String,
}

#[derive(Template)]
#[template(path = "tags.html")]
struct TagsPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    rows: Vec<TagItem>,
    next: Option<String>,
    form: Filled,
    names: Vec<String>,
}

/// `GET /{owner}/{database}/tags`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Read>(&visit, DatabaseTab::Branches).await?;
    let form = Filled::default().with("from", frame.default_branch.clone());
    let names = suggestions::refs(&visit, &access).await?;
    let (rows, next) = rows(&visit, access, &frame).await?;
    visit.page(|shell| TagsPage { shell, frame, rows, next, form, names })
}

async fn rows(
    visit: &PageContext,
    access: DatabaseAccess<Read>,
    frame: &DatabaseFrame,
) -> Result<(Vec<TagItem>, Option<String>), PageError> {
    let after = visit.parameter("after");
    let mut found = visit.read(move |hub| hub.tags().list(&access, after.as_deref(), PAGE + 1)).await?;
    let next = paths::next_page(&mut found, PAGE, &format!("{}/tags", frame.path), |last| last.name.to_string());
    let now = visit.state.services.now();
    let row = |tag: &Tag| {
        let name = tag.name.as_str();
        TagItem {
            name: name.to_owned(),
            href: paths::with_query(&frame.path, &[("ref", name)]),
            message: tag.message.clone(),
            commit: frame.commit(&tag.commit),
            short: format::short(&tag.commit),
            when: format::when(tag.tagged_at, now),
            release: paths::with_query(&format!("{}/releases/new", frame.path), &[("tag", name)]),
            delete: format!("{}/tags/{}/delete", frame.path, segment(name)),
        }
    };
    Ok((found.iter().map(row).collect(), next))
}

/// `POST /{owner}/{database}/tags`
pub(crate) async fn create(posted: FormPost) -> PageResult {
    let (access, frame) = database::open::<Write>(&posted, DatabaseTab::Branches).await?;
    let mut form = posted.form.again();
    let name = form.checked("name", RefName::parse(&posted.form.line("name")));
    let message = form.checked("message", LongText::parse(posted.form.text("message")));
    let from = posted.form.line("from");
    let mut failed = None;
    if let (Some(name), Some(message)) = (name, message) {
        let message = Some(message).filter(|message| !message.as_str().trim().is_empty());
        let created = posted.write(move |hub| -> Result<_, ApiError> {
            let commit = hub.sql().resolve(&access, Some(from.as_str()).filter(|from| !from.is_empty()))?;
            Ok(hub.tags().create(&access, NewTag { name, from: Revision::Commit(commit.into()), message }, None)?)
        });
        match created.await {
            Ok(tag) => {
                return posted.redirect_saying(&format!("{}/tags", frame.path), &format!("Tag {} created.", tag.name));
            }
            Err(failure) => failed = Some(failure),
        }
    }
    let form = match failed {
        Some(failure) => form.refused(failure, FIELDS)?,
        None => form,
    };
    let (access, _) = database::open::<Read>(&posted, DatabaseTab::Branches).await?;
    let names = suggestions::refs(&posted, &access).await?;
    let (rows, next) = rows(&posted, access, &frame).await?;
    posted.refuse(|shell| TagsPage { shell, frame, rows, next, form, names })
}
