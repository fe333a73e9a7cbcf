use serde::Serialize;
use utoipa::ToSchema;

/// Use of one instance, kind and price.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CostItem {
    pub(crate) instance_id: String,
    pub(crate) instance_index: u32,
    /// `compute` or `storage`.
    pub(crate) kind: &'static str,
    pub(crate) type_id: String,
    pub(crate) rate_usd_per_hour: String,
    pub(crate) milliseconds: i64,
    pub(crate) amount_usd: String,
    pub(crate) first_at: String,
    /// Whether it goes on.
    pub(crate) open: bool,
}

/// What a deployment cost in a range of time.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Cost {
    pub(crate) currency: &'static str,
    pub(crate) start_time: String,
    pub(crate) end_time: String,
    pub(crate) amount_usd: String,
    pub(crate) hourly_cost_usd: f64,
    pub(crate) items: Vec<CostItem>,
}

/// What one deployment cost in a month.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeploymentUsage {
    pub(crate) name: String,
    pub(crate) state: &'static str,
    pub(crate) amount_usd: String,
}

/// What an owner's deployments cost in a month.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OwnerUsage {
    pub(crate) owner: String,
    pub(crate) amount_usd: String,
    /// What a month of what runs now costs.
    pub(crate) committed_monthly_usd: String,
    /// Absent where spending is not limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) spending_limit_usd: Option<String>,
    /// Deleted ones included.
    pub(crate) deployments: Vec<DeploymentUsage>,
}

/// A month of all owners that the caller administers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Usage {
    pub(crate) month: String,
    pub(crate) currency: &'static str,
    pub(crate) owners: Vec<OwnerUsage>,
}
