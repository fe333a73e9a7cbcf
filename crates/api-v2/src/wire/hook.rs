use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use super::{AttemptError, DeliveryStatus, DisabledReason, EventName, HookEvent};

/// The newest delivery of a hook.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LastDelivery {
    pub(crate) id: String,
    pub(crate) status: DeliveryStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) finished_at: Option<String>,
}

/// A URL that is notified of events in a database.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Hook {
    pub(crate) id: String,
    pub(crate) url: String,
    pub(crate) events: Vec<HookEvent>,
    pub(crate) active: bool,
    /// The reason why the server switched the hook off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) disabled_reason: Option<DisabledReason>,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_delivery: Option<LastDelivery>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<String>,
}

/// A delivery in a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeliverySummary {
    pub(crate) id: String,
    pub(crate) event_name: EventName,
    pub(crate) status: DeliveryStatus,
    pub(crate) created_at: String,
    pub(crate) attempt_count: u32,
    /// Present while `pending`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_attempt_at: Option<String>,
    /// Present if `delivered` or `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) finished_at: Option<String>,
}

/// The request of the last attempt.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeliveryRequest {
    pub(crate) url: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// One request of a delivery.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeliveryAttempt {
    pub(crate) id: String,
    pub(crate) started_at: String,
    pub(crate) duration_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) response_status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) response_headers: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) response_body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<AttemptError>,
}

/// The delivery of one event to one hook.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Delivery {
    #[serde(flatten)]
    pub(crate) summary: DeliverySummary,
    pub(crate) request: DeliveryRequest,
    /// The latest 50, oldest first.
    pub(crate) attempts: Vec<DeliveryAttempt>,
}
