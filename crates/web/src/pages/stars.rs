//! Starring a database, and the list of its stars (`/{owner}/{database}/stargazers`).

use askama::Template;
use branchyard_domain::access::{Participate, Read};
use branchyard_domain::errors::DatabaseError;

use crate::database::{self, DatabaseFrame, DatabaseTab};
use crate::format::{self, Markup};
use crate::forms::FormPost;
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::paths;

const PAGE: usize = 100;

/// A user who starred the database.
struct Gazer {
    name: String,
    when: Markup,
}

#[derive(Template)]
#[template(path = "stargazers.html")]
struct StargazersPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    gazers: Vec<Gazer>,
    next: Option<String>,
}

/// `GET /{owner}/{database}/stargazers`
pub(crate) async fn list(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Read>(&visit, DatabaseTab::Tables).await?;
    let after = visit.parameter("after");
    let mut found = visit.read(move |hub| hub.stars().list(&access, after.as_deref(), PAGE + 1)).await?;
    let path = format!("{}/stargazers", frame.path);
    let next = paths::next_page(&mut found, PAGE, &path, |last| last.username.key());
    let now = visit.state.services.now();
    let gazers = found
        .into_iter()
        .map(|star| Gazer { name: star.username.to_string(), when: format::when(star.starred_at, now) })
        .collect();
    visit.page(|shell| StargazersPage { shell, frame, gazers, next })
}

/// `POST /{owner}/{database}/star`: adds a star with `star=1`, and removes it otherwise.
pub(crate) async fn set(posted: FormPost) -> PageResult {
    let (access, frame) = database::open::<Participate>(&posted, DatabaseTab::Tables).await?;
    let wanted = posted.form.line("star") == "1";
    let changed = posted.write(move |hub| -> Result<_, DatabaseError> {
        if wanted { hub.stars().add(&access) } else { hub.stars().remove(&access).map(|_| ()) }
    });
    changed.await?;
    let next = posted.form.line("next");
    let to = if next.is_empty() { frame.path.as_str() } else { paths::local(Some(&next)) };
    posted.redirect(to)
}
