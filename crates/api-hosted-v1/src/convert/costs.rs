use branchyard_deployments::{Cost, CostItem, OwnerUsage, Usage};
use branchyard_http_common::rfc3339;

use super::number;
use super::words::{metered, run_state};
use crate::wire;

fn item(item: &CostItem) -> wire::CostItem {
    wire::CostItem {
        instance_id: item.instance_id.to_string(),
        instance_index: item.instance_index,
        kind: metered(item.kind),
        type_id: item.type_id.clone(),
        rate_usd_per_hour: item.rate.to_string(),
        milliseconds: item.millis,
        amount_usd: item.amount.to_string(),
        first_at: rfc3339(item.first_at),
        open: item.open,
    }
}

pub(crate) fn cost(cost: &Cost) -> wire::Cost {
    wire::Cost {
        currency: "USD",
        start_time: rfc3339(cost.from),
        end_time: rfc3339(cost.to),
        amount_usd: cost.amount.to_string(),
        hourly_cost_usd: number(cost.hourly_cost),
        items: cost.items.iter().map(item).collect(),
    }
}

fn owner(usage: &OwnerUsage) -> wire::OwnerUsage {
    let deployments = usage.deployments.iter().map(|(name, state, amount)| wire::DeploymentUsage {
        name: name.clone(),
        state: run_state(*state),
        amount_usd: amount.to_string(),
    });
    wire::OwnerUsage {
        owner: usage.owner.to_string(),
        amount_usd: usage.amount.to_string(),
        committed_monthly_usd: usage.committed_monthly.to_string(),
        spending_limit_usd: usage.limit.map(|limit| limit.to_string()),
        deployments: deployments.collect(),
    }
}

pub(crate) fn usage(month: String, usage: &Usage) -> wire::Usage {
    wire::Usage { month, currency: "USD", owners: usage.owners.iter().map(owner).collect() }
}
