//! `/{owner}/{database}/settings/mirror`: how a mirror follows its source.

use askama::Template;
use branchyard_domain::access::{Admin, DatabaseAccess};
use branchyard_domain::entities::Mirror;
use branchyard_domain::usecases::EditMirror;

use super::{DatabaseSettingsNav, DatabaseSettingsSection};
use crate::database::{self, DatabaseFrame, DatabaseTab};
use crate::error_page::PageError;
use crate::format::{self, Markup};
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::pages::confirm::{self, ConfirmQuestion};

const FIELDS: &[&str] = &["url", "interval_seconds"];

#[derive(Template)]
#[template(path = "database_mirror.html")]
struct DatabaseMirrorPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    sections: DatabaseSettingsNav,
    form: Filled,
    public_key: String,
    /// Whether requests to the source can be signed: they are over TLS only.
    is_secure: bool,
    synced: Option<Markup>,
    error: Option<String>,
}

async fn mirror_of(visit: &PageContext, access: &DatabaseAccess<Admin>) -> Result<Mirror, PageError> {
    let access = access.clone();
    Ok(visit.read(move |hub| hub.mirrors().get(&access)).await?)
}

fn page(
    visit: &PageContext,
    frame: DatabaseFrame,
    mirror: &Mirror,
    form: Filled,
) -> impl FnOnce(LayoutContext) -> DatabaseMirrorPage + use<> {
    let now = visit.state.services.now();
    let (public_key, error) = (mirror.public_key.to_string(), mirror.last_error.clone());
    let (synced, is_secure) = (mirror.last_sync_at.map(|at| format::when(at, now)), mirror.url.starts_with("https://"));
    let sections = DatabaseSettingsNav::of(&frame, DatabaseSettingsSection::Mirror);
    move |shell| DatabaseMirrorPage { shell, frame, sections, form, public_key, is_secure, synced, error }
}

/// `GET /{owner}/{database}/settings/mirror`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Admin>(&visit, DatabaseTab::Settings).await?;
    let mirror = mirror_of(&visit, &access).await?;
    let form =
        Filled::default().with("url", mirror.url.clone()).with("interval_seconds", mirror.interval_seconds.to_string());
    let page = page(&visit, frame, &mirror, form);
    visit.page(page)
}

/// Parses the seconds between two syncs.
pub(crate) fn interval(text: &str) -> Result<i64, &'static str> {
    text.parse().map_err(|_| "Enter a number of seconds.")
}

/// `POST /{owner}/{database}/settings/mirror`
pub(crate) async fn edit(posted: FormPost) -> PageResult {
    let (access, frame) = database::open::<Admin>(&posted, DatabaseTab::Settings).await?;
    let mut form = posted.form.again();
    if let Some(seconds) = form.checked("interval_seconds", interval(&posted.form.line("interval_seconds"))) {
        let edit = EditMirror { url: Some(posted.form.line("url")), interval_seconds: Some(seconds) };
        let of = access.clone();
        match posted.write(move |hub| hub.mirrors().edit(&of, edit)).await {
            Ok(_) => return posted.redirect_saying(&format!("{}/settings/mirror", frame.path), "Settings saved."),
            Err(failure) => form = form.refused(failure, FIELDS)?,
        }
    }
    let mirror = mirror_of(&posted, &access).await?;
    let page = page(&posted, frame, &mirror, form);
    posted.refuse(page)
}

/// `POST /{owner}/{database}/settings/mirror/sync`
pub(crate) async fn sync(posted: FormPost) -> PageResult {
    let (access, frame) = database::open::<Admin>(&posted, DatabaseTab::Settings).await?;
    let operation = posted.write(move |hub| hub.mirrors().sync(&access, None)).await?;
    posted.redirect(&format!("{}/operations/{}", frame.path, operation.id))
}

fn question(frame: &DatabaseFrame) -> ConfirmQuestion {
    ConfirmQuestion {
        title: "Stop mirroring?".to_owned(),
        text: "The database keeps its tables, branches and history, and can be written to. Its source isn't read any more, and its key is deleted: \
               a database can't become a mirror again."
            .to_owned(),
        button: "Stop mirroring",
        back: format!("{}/settings/mirror", frame.path),
        hidden: Vec::new(),
    }
}

/// `GET /{owner}/{database}/settings/mirror/stop`
pub(crate) async fn ask_stop(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Admin>(&visit, DatabaseTab::Settings).await?;
    mirror_of(&visit, &access).await?;
    let question = question(&frame);
    confirm::ask(&visit, frame, question)
}

/// `POST /{owner}/{database}/settings/mirror/stop`
pub(crate) async fn stop(posted: FormPost) -> PageResult {
    let (access, frame) = database::open::<Admin>(&posted, DatabaseTab::Settings).await?;
    posted.write(move |hub| hub.mirrors().stop(&access)).await?;
    posted.redirect_saying(&format!("{}/settings", frame.path), "This is an ordinary database now.")
}
