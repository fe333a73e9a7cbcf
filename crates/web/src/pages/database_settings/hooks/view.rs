//! Hooks and deliveries in words.

use branchyard_domain::entities::{Delivery, DeliveryStatus, DisabledReason, EventName};
use branchyard_domain::usecases::HookView;
use branchyard_domain::values::Timestamp;

use super::{EVENTS, address};
use crate::database::DatabaseFrame;
use crate::format::{self, Markup};

/// A hook as pages show it.
pub(crate) struct HookItem {
    pub(crate) url: String,
    pub(crate) href: String,
    /// The state in a word, and as a class of the style sheet.
    pub(crate) state: &'static str,
    pub(crate) class: &'static str,
    /// Explanation of the state, if a word is not enough.
    pub(crate) why: Option<&'static str>,
    pub(crate) events: String,
    pub(crate) created: Markup,
    /// Time until which deliveries are also signed with the previous secret.
    pub(crate) previous_until: Option<Markup>,
    pub(crate) last: Option<DeliveryItem>,
}

impl HookItem {
    pub(crate) fn of(view: &HookView, frame: &DatabaseFrame, now: Timestamp) -> Self {
        let hook = &view.hook;
        let (state, class, why) = match (hook.active, hook.disabled_reason) {
            (true, _) if hook.failing_since.is_some() => {
                ("Failing", "bad", Some("Deliveries are failing. We'll keep retrying."))
            }
            (true, _) => ("Active", "good", None),
            (false, Some(DisabledReason::Gone)) => (
                "Disabled",
                "bad",
                Some("The receiver responded with 410 Gone. When it is back, edit the webhook and activate it."),
            ),
            (false, Some(DisabledReason::Failing)) => (
                "Disabled",
                "bad",
                Some(
                    "Every delivery failed for days. Fix the receiver, test it with a ping, then edit the webhook and activate it.",
                ),
            ),
            (false, None) => ("Inactive", "waits", Some("No events are sent or kept while the webhook is inactive.")),
        };
        let events = EVENTS.iter().filter(|(_, event, _)| hook.events.contains(event));
        let events: Vec<&str> = events.map(|(_, _, text)| text.split(':').next().unwrap_or_default()).collect();
        let previous = hook.previous_secret.as_ref().filter(|previous| previous.until > now);
        Self {
            url: hook.url.clone(),
            href: format!("{}/{}", address(frame), hook.id),
            state,
            class,
            why,
            events: events.join(", "),
            created: format::when(hook.created_at, now),
            previous_until: previous.map(|previous| format::when(previous.until, now)),
            last: view.last_delivery.as_ref().map(|delivery| DeliveryItem::of(delivery, frame, now)),
        }
    }
}

/// A delivery as lists show it.
pub(crate) struct DeliveryItem {
    pub(crate) id: String,
    pub(crate) href: String,
    pub(crate) event: &'static str,
    pub(crate) state: &'static str,
    pub(crate) class: &'static str,
    pub(crate) is_pending: bool,
    pub(crate) created: Markup,
    pub(crate) attempts: String,
    /// Time of the next attempt.
    pub(crate) next_attempt: Option<Markup>,
}

impl DeliveryItem {
    pub(crate) fn of(delivery: &Delivery, frame: &DatabaseFrame, now: Timestamp) -> Self {
        let (state, class) = match delivery.status {
            DeliveryStatus::Pending { .. } => ("Pending", "runs"),
            DeliveryStatus::Delivered { .. } => ("Delivered", "good"),
            DeliveryStatus::Failed { .. } => ("Failed", "bad"),
        };
        let next_attempt = match delivery.status {
            DeliveryStatus::Pending { next_attempt_at } => Some(format::when(next_attempt_at, now)),
            DeliveryStatus::Delivered { .. } | DeliveryStatus::Failed { .. } => None,
        };
        Self {
            id: delivery.id.to_string(),
            href: format!("{}/{}/deliveries/{}", address(frame), delivery.hook_id, delivery.id),
            event: match delivery.event {
                EventName::Push => "push",
                EventName::PullRequest => "pull request",
                EventName::Branch => "branch",
                EventName::Ping => "ping",
            },
            state,
            class,
            is_pending: delivery.is_pending(),
            created: format::when(delivery.created_at, now),
            attempts: format::counted(delivery.attempt_count.into(), "attempt", "attempts"),
            next_attempt,
        }
    }
}
