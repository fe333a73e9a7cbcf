use std::collections::BTreeMap;

use branchyard_domain::entities::{
    Attempt, AttemptError, Delivery, DeliveryDetails, DeliveryStatus, DisabledReason, EventName, Hook, HookEvent,
    HookSecret, Request,
};
use branchyard_domain::usecases::HookView;
use branchyard_domain::values::Timestamp;
use branchyard_http_common::rfc3339;

use crate::wire;

impl From<HookEvent> for wire::HookEvent {
    fn from(event: HookEvent) -> Self {
        match event {
            HookEvent::Push => Self::Push,
            HookEvent::PullRequest => Self::PullRequest,
            HookEvent::Branch => Self::Branch,
        }
    }
}

impl From<DisabledReason> for wire::DisabledReason {
    fn from(reason: DisabledReason) -> Self {
        match reason {
            DisabledReason::Gone => Self::Gone,
            DisabledReason::Failing => Self::Failing,
        }
    }
}

impl From<EventName> for wire::EventName {
    fn from(name: EventName) -> Self {
        match name {
            EventName::Push => Self::Push,
            EventName::PullRequest => Self::PullRequest,
            EventName::Branch => Self::Branch,
            EventName::Ping => Self::Ping,
        }
    }
}

impl From<AttemptError> for wire::AttemptError {
    fn from(error: AttemptError) -> Self {
        match error {
            AttemptError::Timeout => Self::Timeout,
            AttemptError::Refused => Self::Refused,
            AttemptError::Dns => Self::Dns,
            AttemptError::Tls => Self::Tls,
            AttemptError::BlockedAddress => Self::BlockedAddress,
            AttemptError::Redirect => Self::Redirect,
            AttemptError::Connection => Self::Connection,
        }
    }
}

fn status(status: DeliveryStatus) -> (wire::DeliveryStatus, Option<Timestamp>) {
    match status {
        DeliveryStatus::Pending { next_attempt_at } => (wire::DeliveryStatus::Pending, Some(next_attempt_at)),
        DeliveryStatus::Delivered { finished_at: _ } => (wire::DeliveryStatus::Delivered, None),
        DeliveryStatus::Failed { finished_at: _ } => (wire::DeliveryStatus::Failed, None),
    }
}

impl From<&HookView> for wire::Hook {
    fn from(view: &HookView) -> Self {
        let HookView { hook, last_delivery } = view;
        let Hook {
            id,
            database_id: _,
            url,
            events,
            active,
            disabled_reason,
            secret: _,
            previous_secret: _,
            failing_since: _,
            exhausted: _,
            created_at,
            updated_at,
        } = hook;
        Self {
            id: id.to_string(),
            url: url.clone(),
            events: events.iter().map(|event| (*event).into()).collect(),
            active: *active,
            disabled_reason: disabled_reason.map(Into::into),
            created_at: rfc3339(*created_at),
            updated_at: rfc3339(*updated_at),
            last_delivery: last_delivery.as_ref().map(|last| wire::LastDelivery {
                id: last.id.to_string(),
                status: status(last.status).0,
                finished_at: last.finished_at().map(rfc3339),
            }),
            secret: None,
        }
    }
}

/// Converts a hook and includes its secret, which is shown once.
pub(crate) fn hook_with_secret(view: &HookView, secret: &HookSecret) -> wire::Hook {
    wire::Hook { secret: Some(secret.expose().to_owned()), ..view.into() }
}

impl From<&Delivery> for wire::DeliverySummary {
    fn from(delivery: &Delivery) -> Self {
        let Delivery {
            id,
            hook_id: _,
            event_id: _,
            event,
            status: progress,
            created_at,
            attempt_count,
            run_attempts: _,
        } = delivery;
        let (status, next_attempt_at) = status(*progress);
        Self {
            id: id.to_string(),
            event_name: (*event).into(),
            status,
            created_at: rfc3339(*created_at),
            attempt_count: *attempt_count,
            next_attempt_at: next_attempt_at.map(rfc3339),
            finished_at: delivery.finished_at().map(rfc3339),
        }
    }
}

fn headers(headers: &[(String, String)]) -> BTreeMap<String, String> {
    headers.iter().cloned().collect()
}

impl From<&Attempt> for wire::DeliveryAttempt {
    fn from(attempt: &Attempt) -> Self {
        let Attempt { id, started_at, duration_ms, response_status, response_headers, response_body, error } = attempt;
        Self {
            id: id.to_string(),
            started_at: rfc3339(*started_at),
            duration_ms: *duration_ms,
            response_status: *response_status,
            response_headers: response_headers.as_deref().map(headers),
            response_body: response_body.clone(),
            error: error.map(Into::into),
        }
    }
}

impl From<&DeliveryDetails> for wire::Delivery {
    fn from(details: &DeliveryDetails) -> Self {
        let DeliveryDetails { delivery, request, body, attempts } = details;
        let Request { url, headers: sent } = request;
        Self {
            summary: delivery.into(),
            request: wire::DeliveryRequest { url: url.clone(), headers: headers(sent), body: body.clone() },
            attempts: attempts.iter().map(Into::into).collect(),
        }
    }
}
