//! `/{owner}/{database}/settings/hooks/{hook}/deliveries`: requests, responses and redelivery.

use askama::Template;
use branchyard_domain::access::{Admin, DatabaseAccess};
use branchyard_domain::entities::{Attempt, AttemptError, DeliveryDetails};
use branchyard_domain::errors::HookError;
use branchyard_domain::ports::DeliveryState;
use branchyard_domain::values::{DeliveryId, HookId, Timestamp};

use super::hooks::{self, DeliveryItem, HookItem, address, hook_of};
use super::{DatabaseSettingsNav, DatabaseSettingsSection};
use crate::database::{self, DatabaseFrame, DatabaseTab};
use crate::error_page::PageError;
use crate::format::{self, Markup};
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::paths;

/// Deliveries per page.
const PAGE: usize = 50;

const STATES: &[(&str, &str, Option<DeliveryState>)] = &[
    ("", "All", None),
    ("pending", "Pending", Some(DeliveryState::Pending)),
    ("delivered", "Delivered", Some(DeliveryState::Delivered)),
    ("failed", "Failed", Some(DeliveryState::Failed)),
];

#[derive(Template)]
#[template(path = "deliveries.html")]
struct DeliveriesPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    sections: DatabaseSettingsNav,
    hook: HookItem,
    /// Label, path, and whether the filter is selected.
    states: Vec<(&'static str, String, bool)>,
    deliveries: Vec<DeliveryItem>,
    next: Option<String>,
}

/// `GET /{owner}/{database}/settings/hooks/{hook}/deliveries?status=…`
pub(crate) async fn list(visit: PageContext) -> PageResult {
    let (access, frame, view) = hooks::named(&visit).await?;
    let asked = visit.parameter("status").unwrap_or_default();
    let state = STATES.iter().find(|(name, ..)| *name == asked).and_then(|(.., state)| *state);
    let before = visit.parameter("after").and_then(|id| DeliveryId::parse(&id).ok());
    let id = view.hook.id;
    let mut found = visit.read(move |hub| hub.deliveries().list(&access, id, state, before, PAGE + 1)).await?;
    let here = format!("{}/{id}/deliveries", address(&frame));
    let more = found.len() > PAGE;
    found.truncate(PAGE);
    let last = found.last().filter(|_| more).map(|last| last.id.to_string());
    let next = last.map(|last| paths::with_query(&here, &[("status", &asked), ("after", &last)]));
    let states = STATES.iter().map(|(name, label, of)| {
        let href = paths::with_query(&here, &[("status", name)]);
        (*label, href, *of == state)
    });
    let (states, now) = (states.collect(), visit.state.services.now());
    let deliveries = found.iter().map(|delivery| DeliveryItem::of(delivery, &frame, now)).collect();
    let (hook, sections) =
        (HookItem::of(&view, &frame, now), DatabaseSettingsNav::of(&frame, DatabaseSettingsSection::Hooks));
    visit.page(|shell| DeliveriesPage { shell, frame, sections, hook, states, deliveries, next })
}

/// An attempt of a delivery.
struct Try {
    number: usize,
    when: Markup,
    took: String,
    /// The response status, or the error.
    result: String,
    class: &'static str,
    headers: Vec<(String, String)>,
    body: Option<String>,
}

#[derive(Template)]
#[template(path = "delivery.html")]
struct DeliveryPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    sections: DatabaseSettingsNav,
    hook: String,
    hook_id: HookId,
    delivery: DeliveryItem,
    /// Whether the delivery is expected to change soon.
    is_live: bool,
    url: String,
    headers: Vec<(String, String)>,
    body: String,
    tries: Vec<Try>,
    form: Filled,
}

type DeliveryPath = (DatabaseAccess<Admin>, DatabaseFrame, DeliveryDetails);

/// Returns the database and the delivery named in the path.
async fn named(visit: &PageContext) -> Result<DeliveryPath, PageError> {
    let (access, frame) = database::open::<Admin>(visit, DatabaseTab::Settings).await?;
    let (hook, id, seen) = (visit.segment("hook"), visit.segment("delivery"), access.clone());
    let details = visit
        .read(move |hub| {
            let id = DeliveryId::parse(&id).map_err(|_| HookError::NoSuchDelivery)?;
            hub.deliveries().get(&seen, hook_of(&hook)?, id)
        })
        .await?;
    Ok((access, frame, details))
}

/// `GET /{owner}/{database}/settings/hooks/{hook}/deliveries/{delivery}`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (_, frame, details) = named(&visit).await?;
    let page = page(frame, details, visit.state.services.now(), Filled::default());
    visit.page(|shell| DeliveryPage { shell, ..page })
}

fn page(frame: DatabaseFrame, details: DeliveryDetails, now: Timestamp, form: Filled) -> DeliveryPage {
    let delivery = DeliveryItem::of(&details.delivery, &frame, now);
    let tries = details.attempts.iter().enumerate().map(|(index, attempt)| tried(index + 1, attempt, now));
    DeliveryPage {
        shell: LayoutContext::default(),
        sections: DatabaseSettingsNav::of(&frame, DatabaseSettingsSection::Hooks),
        hook: format!("{}/{}", address(&frame), details.delivery.hook_id),
        hook_id: details.delivery.hook_id,
        is_live: details.delivery.is_pending() && details.delivery.run_attempts == 0,
        delivery,
        url: details.request.url,
        headers: details.request.headers,
        body: details.body,
        tries: tries.collect(),
        form,
        frame,
    }
}

fn tried(number: usize, attempt: &Attempt, now: Timestamp) -> Try {
    let (result, class) = match (attempt.response_status, attempt.error) {
        (_, Some(error)) => (told(error).to_owned(), "bad"),
        (Some(status), None) if (200..300).contains(&status) => (format!("HTTP {status}"), "good"),
        (Some(status), None) => (format!("HTTP {status}"), "bad"),
        (None, None) => ("No response".to_owned(), "bad"),
    };
    Try {
        number,
        when: format::when(attempt.started_at, now),
        took: format!("{} ms", attempt.duration_ms),
        result,
        class,
        headers: attempt.response_headers.clone().unwrap_or_default(),
        body: attempt.response_body.clone().filter(|body| !body.is_empty()),
    }
}

const fn told(error: AttemptError) -> &'static str {
    match error {
        AttemptError::Timeout => "Timed out",
        AttemptError::Refused => "Connection refused",
        AttemptError::Dns => "Host name not found",
        AttemptError::Tls => "TLS certificate not trusted",
        AttemptError::BlockedAddress => "The address is in a network that webhooks can't reach",
        AttemptError::Redirect => "Responded with a redirect, which is not followed",
        AttemptError::Connection => "Connection lost",
    }
}

/// `POST /{owner}/{database}/settings/hooks/{hook}/deliveries/{delivery}/redeliver`
pub(crate) async fn redeliver(posted: FormPost) -> PageResult {
    let (access, frame, details) = named(&posted).await?;
    let (hook, id) = (details.delivery.hook_id, details.delivery.id);
    match posted.write(move |hub| hub.deliveries().redeliver(&access, hook, id, None)).await {
        Ok(_) => posted.redirect_saying(&format!("{}/{hook}/deliveries/{id}", address(&frame)), "Redelivery started."),
        Err(failure) => {
            let form = Filled::default().refused(failure, &[])?;
            let page = page(frame, details, posted.state.services.now(), form);
            posted.refuse(|shell| DeliveryPage { shell, ..page })
        }
    }
}
