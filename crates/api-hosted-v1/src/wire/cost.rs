use serde::Serialize;
use utoipa::ToSchema;

/// Metered use of one instance, of one kind and at one price.
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
    /// Whether the use continues.
    pub(crate) open: bool,
}

/// The cost of a deployment in a period.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Cost {
    pub(crate) currency: &'static str,
    pub(crate) start_time: String,
    pub(crate) end_time: String,
    pub(crate) amount_usd: String,
    pub(crate) hourly_cost_usd: f64,
    pub(crate) items: Vec<CostItem>,
}

/// The cost of one deployment in a month.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeploymentUsage {
    pub(crate) name: String,
    pub(crate) state: &'static str,
    pub(crate) amount_usd: String,
}

/// The cost of an owner's deployments in a month.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OwnerUsage {
    pub(crate) owner: String,
    pub(crate) amount_usd: String,
    /// Monthly cost of the deployments that run now.
    pub(crate) committed_monthly_usd: String,
    /// Absent if spending is not limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) spending_limit_usd: Option<String>,
    /// Includes deleted deployments.
    pub(crate) deployments: Vec<DeploymentUsage>,
}

/// The cost of all owners that the caller administers, in a month.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Usage {
    pub(crate) month: String,
    pub(crate) currency: &'static str,
    pub(crate) owners: Vec<OwnerUsage>,
}
