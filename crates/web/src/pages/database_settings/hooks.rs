//! `/{owner}/{database}/settings/hooks`: the webhooks of a database.

mod view;

use std::collections::BTreeSet;

use askama::Template;
use branchyard_domain::access::{Admin, DatabaseAccess};
use branchyard_domain::entities::HookEvent;
use branchyard_domain::errors::HookError;
use branchyard_domain::usecases::{EditHook, HookView, NewHook, SecretHook};
use branchyard_domain::values::HookId;

pub(super) use self::view::{DeliveryItem, HookItem};
use super::{DatabaseSettingsNav, DatabaseSettingsSection};
use crate::database::{self, DatabaseFrame, DatabaseTab};
use crate::error_page::PageError;
use crate::forms::{Filled, Form, FormPost};
use crate::layout::{LayoutContext, never_stored};
use crate::page_context::{PageContext, PageResult};
use crate::pages::confirm::{self, ConfirmQuestion};
use crate::paths;

/// Webhooks per page, and recent deliveries on the page of a webhook.
const PAGE: usize = 50;
const RECENT: usize = 10;
const FIELDS: &[&str] = &["url", "events"];

/// The events: names in forms, events and labels.
pub(super) const EVENTS: &[(&str, HookEvent, &str)] = &[
    ("push", HookEvent::Push, "Pushes: a branch moves to another commit"),
    ("pull_request", HookEvent::PullRequest, "Pull requests: opened, closed, reopened, merged"),
    ("branch", HookEvent::Branch, "Branches: created, deleted"),
];

/// The checkbox of an event.
struct EventBox {
    name: &'static str,
    text: &'static str,
    is_checked: bool,
}

fn boxes(checked: &BTreeSet<HookEvent>) -> Vec<EventBox> {
    let one = |(name, event, text): &(&'static str, HookEvent, &'static str)| EventBox {
        name,
        text,
        is_checked: checked.contains(event),
    };
    EVENTS.iter().map(one).collect()
}

fn checked(form: &Form) -> BTreeSet<HookEvent> {
    EVENTS.iter().filter(|(name, ..)| form.is_checked(name)).map(|(_, event, _)| *event).collect()
}

/// Returns the path of the list of webhooks.
pub(super) fn address(frame: &DatabaseFrame) -> String {
    format!("{}/settings/hooks", frame.path)
}

#[derive(Template)]
#[template(path = "hooks.html")]
struct HooksPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    sections: DatabaseSettingsNav,
    hooks: Vec<HookItem>,
    next: Option<String>,
}

/// `GET /{owner}/{database}/settings/hooks`
pub(crate) async fn list(visit: PageContext) -> PageResult {
    let (access, frame) = database::open::<Admin>(&visit, DatabaseTab::Settings).await?;
    let after = visit.parameter("after").and_then(|id| HookId::parse(&id).ok());
    let mut found = visit.read(move |hub| hub.hooks().list(&access, after, PAGE + 1)).await?;
    let next = paths::next_page(&mut found, PAGE, &address(&frame), |last| last.hook.id.to_string());
    let now = visit.state.services.now();
    let hooks = found.iter().map(|view| HookItem::of(view, &frame, now)).collect();
    let sections = DatabaseSettingsNav::of(&frame, DatabaseSettingsSection::Hooks);
    visit.page(|shell| HooksPage { shell, frame, sections, hooks, next })
}

#[derive(Template)]
#[template(path = "hook_form.html")]
struct HookFormPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    sections: DatabaseSettingsNav,
    form: Filled,
    events: Vec<EventBox>,
    is_active: bool,
    is_new: bool,
    back: String,
}

/// `GET /{owner}/{database}/settings/hooks/new`
pub(crate) async fn ask_new(visit: PageContext) -> PageResult {
    let (_, frame) = database::open::<Admin>(&visit, DatabaseTab::Settings).await?;
    let (sections, back) = (DatabaseSettingsNav::of(&frame, DatabaseSettingsSection::Hooks), address(&frame));
    let events = boxes(&BTreeSet::from([HookEvent::Push]));
    let form = Filled::default();
    visit.page(|shell| HookFormPage { shell, frame, sections, form, events, is_active: true, is_new: true, back })
}

/// `POST /{owner}/{database}/settings/hooks/new`
pub(crate) async fn create(posted: FormPost) -> PageResult {
    let (access, frame) = database::open::<Admin>(&posted, DatabaseTab::Settings).await?;
    let mut form = posted.form.again();
    let (events, is_active) = (checked(&posted.form), posted.form.is_checked("active"));
    if events.is_empty() {
        form.fault("events", "Choose at least one event.");
    } else {
        let made = async {
            let url = posted.hook_address(&access, &posted.form.line("url")).await?;
            let wanted = NewHook { url, events: events.clone(), active: is_active };
            posted.write(move |hub| hub.hooks().create(&access, wanted, None)).await
        };
        match made.await {
            Ok(made) => return with_secret(&posted, frame, &made, "Webhook created"),
            Err(failure) => form = form.refused(failure, FIELDS)?,
        }
    }
    let (sections, back, events) =
        (DatabaseSettingsNav::of(&frame, DatabaseSettingsSection::Hooks), address(&frame), boxes(&events));
    posted.refuse(|shell| HookFormPage { shell, frame, sections, form, events, is_active, is_new: true, back })
}

#[derive(Template)]
#[template(path = "hook_secret.html")]
struct SecretPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    sections: DatabaseSettingsNav,
    said: &'static str,
    secret: String,
    hook: HookItem,
}

/// Shows the signing secret. It cannot be shown again.
fn with_secret(posted: &FormPost, frame: DatabaseFrame, made: &SecretHook, said: &'static str) -> PageResult {
    let hook = HookItem::of(&made.view, &frame, posted.state.services.now());
    let (sections, secret) =
        (DatabaseSettingsNav::of(&frame, DatabaseSettingsSection::Hooks), made.secret.expose().to_owned());
    posted.page(|shell| SecretPage { shell, frame, sections, said, secret, hook }).map(never_stored)
}

/// Parses the id of a webhook. A malformed id is reported as a missing webhook.
pub(super) fn hook_of(text: &str) -> Result<HookId, HookError> {
    HookId::parse(text).map_err(|_| HookError::NoSuchHook)
}

/// Returns the database and the webhook named in the path.
pub(super) async fn named(visit: &PageContext) -> Result<(DatabaseAccess<Admin>, DatabaseFrame, HookView), PageError> {
    let (access, frame) = database::open::<Admin>(visit, DatabaseTab::Settings).await?;
    let (id, seen) = (visit.segment("hook"), access.clone());
    let view = visit.read(move |hub| hub.hooks().get(&seen, hook_of(&id)?)).await?;
    Ok((access, frame, view))
}

#[derive(Template)]
#[template(path = "hook.html")]
struct HookPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    sections: DatabaseSettingsNav,
    hook: HookItem,
    hook_id: HookId,
    deliveries: Vec<DeliveryItem>,
    has_more: bool,
    is_live: bool,
    form: Filled,
}

/// `GET /{owner}/{database}/settings/hooks/{hook}`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let page = filled(&visit, Filled::default()).await?;
    visit.page(|shell| HookPage { shell, ..page })
}

async fn filled(visit: &PageContext, form: Filled) -> Result<HookPage, PageError> {
    let (access, frame, view) = named(visit).await?;
    let id = view.hook.id;
    let mut found = visit.read(move |hub| hub.deliveries().list(&access, id, None, None, RECENT + 1)).await?;
    let has_more = found.len() > RECENT;
    found.truncate(RECENT);
    let now = visit.state.services.now();
    let hook = HookItem::of(&view, &frame, now);
    // A delivery that waits minutes for its next attempt is not polled.
    let is_live = found.iter().any(|delivery| delivery.is_pending() && delivery.run_attempts == 0);
    let deliveries = found.iter().map(|delivery| DeliveryItem::of(delivery, &frame, now)).collect();
    let sections = DatabaseSettingsNav::of(&frame, DatabaseSettingsSection::Hooks);
    Ok(HookPage {
        shell: LayoutContext::default(),
        frame,
        sections,
        hook,
        hook_id: id,
        deliveries,
        has_more,
        is_live,
        form,
    })
}

/// `GET /{owner}/{database}/settings/hooks/{hook}/edit`
pub(crate) async fn ask_edit(visit: PageContext) -> PageResult {
    let (_, frame, view) = named(&visit).await?;
    let form =
        Filled::default().with("url", view.hook.url.clone()).with("seen", view.hook.updated_at.as_micros().to_string());
    let (sections, back) = (
        DatabaseSettingsNav::of(&frame, DatabaseSettingsSection::Hooks),
        format!("{}/{}", address(&frame), view.hook.id),
    );
    let (events, is_active) = (boxes(&view.hook.events), view.hook.active);
    visit.page(|shell| HookFormPage { shell, frame, sections, form, events, is_active, is_new: false, back })
}

/// `POST /{owner}/{database}/settings/hooks/{hook}/edit`
pub(crate) async fn edit(posted: FormPost) -> PageResult {
    let (access, frame, view) = named(&posted).await?;
    let id = view.hook.id;
    let mut form = posted.form.again();
    let (events, is_active) = (checked(&posted.form), posted.form.is_checked("active"));
    let back = format!("{}/{id}", address(&frame));
    if events.is_empty() {
        form.fault("events", "Choose at least one event.");
    } else {
        let seen = posted.form.line("seen");
        let edited = async {
            let url = posted.hook_address(&access, &posted.form.line("url")).await?;
            let edit = EditHook { url: Some(url), events: Some(events.clone()), active: Some(is_active) };
            posted
                .write(move |hub| {
                    let as_seen = |view: &HookView| view.hook.updated_at.as_micros().to_string() == seen;
                    hub.hooks().edit(&access, id, edit, Some(&as_seen))
                })
                .await
        };
        match edited.await {
            Ok(_) => return posted.redirect_saying(&back, "Webhook saved."),
            Err(failure) => form = form.refused(failure, FIELDS)?,
        }
    }
    let (sections, events) = (DatabaseSettingsNav::of(&frame, DatabaseSettingsSection::Hooks), boxes(&events));
    posted.refuse(|shell| HookFormPage { shell, frame, sections, form, events, is_active, is_new: false, back })
}

/// `POST /{owner}/{database}/settings/hooks/{hook}/ping`
pub(crate) async fn ping(posted: FormPost) -> PageResult {
    let (access, frame, view) = named(&posted).await?;
    let id = view.hook.id;
    let details = posted.write(move |hub| hub.hooks().ping(&access, id, None)).await?;
    posted.redirect(&format!("{}/{id}/deliveries/{}", address(&frame), details.delivery.id))
}

fn rotation(frame: &DatabaseFrame, view: &HookView) -> ConfirmQuestion {
    ConfirmQuestion {
        title: "Rotate the secret?".to_owned(),
        text: "Deliveries are signed with both the old and the new secret for one day, so that you can update the receiver. \
               After that, only the new one is used."
            .to_owned(),
        button: "Rotate secret",
        back: format!("{}/{}", address(frame), view.hook.id),
        hidden: Vec::new(),
    }
}

/// `GET /{owner}/{database}/settings/hooks/{hook}/rotate`
pub(crate) async fn ask_rotate(visit: PageContext) -> PageResult {
    let (_, frame, view) = named(&visit).await?;
    let question = rotation(&frame, &view);
    confirm::ask(&visit, frame, question)
}

/// `POST /{owner}/{database}/settings/hooks/{hook}/rotate`
pub(crate) async fn rotate(posted: FormPost) -> PageResult {
    let (access, frame, view) = named(&posted).await?;
    let id = view.hook.id;
    let made = posted.write(move |hub| hub.hooks().rotate_secret(&access, id, None)).await?;
    with_secret(&posted, frame, &made, "Secret rotated")
}

fn deletion(frame: &DatabaseFrame, view: &HookView) -> ConfirmQuestion {
    ConfirmQuestion {
        title: "Delete this webhook?".to_owned(),
        text: format!(
            "{} will receive no more deliveries, and the delivery log is deleted. This can't be undone.",
            view.hook.url
        ),
        button: "Delete webhook",
        back: format!("{}/{}", address(frame), view.hook.id),
        hidden: Vec::new(),
    }
}

/// `GET /{owner}/{database}/settings/hooks/{hook}/delete`
pub(crate) async fn ask_delete(visit: PageContext) -> PageResult {
    let (_, frame, view) = named(&visit).await?;
    let question = deletion(&frame, &view);
    confirm::ask(&visit, frame, question)
}

/// `POST /{owner}/{database}/settings/hooks/{hook}/delete`
pub(crate) async fn delete(posted: FormPost) -> PageResult {
    let (access, frame, view) = named(&posted).await?;
    let id = view.hook.id;
    posted.write_always(move |hub| hub.hooks().delete(&access, id, None)).await?;
    posted.redirect_saying(&address(&frame), "Webhook deleted.")
}
