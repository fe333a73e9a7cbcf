//! Cost and usage, computed from the ledger.

use std::collections::BTreeMap;

use super::capacity::spending_limit;
use super::{Deployments, live, role_through_owner, view};
use crate::access::{DeploymentAccess, DeploymentLevel};
use crate::entities::{DeploymentRole, Interval, Metered, RunState};
use crate::errors::DeploymentError;
use crate::ports::DeploymentTransaction;
use crate::values::{DeploymentId, InstanceId, Usd};
use branchyard_domain::entities::User;
use branchyard_domain::errors::PortError;
use branchyard_domain::values::{AccountId, OwnerName, Timestamp};

/// The use of one resource of an instance at one price.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostItem {
    /// The instance.
    pub instance_id: InstanceId,
    /// Index of the instance.
    pub instance_index: u32,
    /// The resource.
    pub kind: Metered,
    /// Id of the instance type or the storage option.
    pub type_id: String,
    /// Price per hour.
    pub rate: Usd,
    /// Duration of use in milliseconds.
    pub millis: i64,
    /// Cost of the use.
    pub amount: Usd,
    /// Begin of the first interval.
    pub first_at: Timestamp,
    /// Whether the use continues.
    pub open: bool,
}

/// The cost of a deployment in a range of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    /// Begin of the range, inclusive.
    pub from: Timestamp,
    /// End of the range, exclusive.
    pub to: Timestamp,
    /// Sum of the items.
    pub amount: Usd,
    /// Current price per hour.
    pub hourly_cost: Usd,
    /// Items, sorted by instance index, instance, resource and price.
    pub items: Vec<CostItem>,
}

/// The cost of an owner's deployments in a range of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerUsage {
    /// Name of the owner.
    pub owner: OwnerName,
    /// Sum over the deployments.
    pub amount: Usd,
    /// Cost per month of the instances that run now.
    pub committed_monthly: Usd,
    /// Monthly spending limit. `None` means unlimited.
    pub limit: Option<Usd>,
    /// Name, state and cost of each deployment. Deleted deployments are listed as stopped.
    pub deployments: Vec<(String, RunState, Usd)>,
}

/// The usage of all owners that a user administers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// The user first, then organizations sorted by name.
    pub owners: Vec<OwnerUsage>,
}

/// Sums intervals per instance, resource and price within a range.
fn items(intervals: &[Interval], from: Timestamp, to: Timestamp, now: Timestamp) -> Vec<CostItem> {
    let mut items: BTreeMap<(u32, InstanceId, Metered, Usd), CostItem> = BTreeMap::new();
    for interval in intervals {
        let key = (interval.instance_index, interval.instance_id, interval.kind, interval.rate);
        let item = items.entry(key).or_insert_with(|| CostItem {
            instance_id: interval.instance_id,
            instance_index: interval.instance_index,
            kind: interval.kind,
            type_id: interval.type_id.clone(),
            rate: interval.rate,
            millis: 0,
            amount: Usd::ZERO,
            first_at: interval.opened_at.max(from),
            open: false,
        });
        item.millis += interval.millis_within(from, to, now);
        item.amount += interval.amount_within(from, to, now);
        item.first_at = item.first_at.min(interval.opened_at.max(from));
        item.open |= interval.closed_at.is_none();
    }
    items.into_values().collect()
}

impl Deployments {
    /// Returns the cost of a deployment from `from` to `to`. Open intervals count up to now.
    ///
    /// # Errors
    /// [`DeploymentError::Port`] if the store fails.
    pub fn cost<L: DeploymentLevel>(
        &self,
        access: &DeploymentAccess<L>,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Cost, DeploymentError> {
        let now = self.0.now();
        let mut tx = self.0.ports.store.read_deployments()?;
        let deployment = live(tx.as_mut(), access)?;
        let items = items(&tx.ledger().list(deployment.id, from, to)?, from, to, now);
        let hourly_cost = view(tx.as_mut(), deployment, access.role())?.hourly_cost;
        Ok(Cost { from, to, amount: items.iter().map(|item| item.amount).sum(), hourly_cost, items })
    }

    /// Returns the cost, from `from` to `to`, of the deployments of all owners that `user` administers.
    ///
    /// # Errors
    /// [`DeploymentError::Port`] if the store fails.
    pub fn usage(&self, user: &User, from: Timestamp, to: Timestamp) -> Result<Usage, DeploymentError> {
        const PAGE: usize = 100;
        let mut tx = self.0.ports.store.read_deployments()?;
        let mut accounts = vec![(user.id, user.name.clone())];
        let mut after: Option<String> = None;
        loop {
            let page = tx.organizations().list(user.id, after.as_deref(), PAGE)?;
            after = page.last().map(|(organization, _)| organization.name.key());
            let is_last = page.len() < PAGE;
            for (organization, _) in page {
                if role_through_owner(tx.as_mut(), user.id, organization.id)? == Some(DeploymentRole::Admin) {
                    accounts.push((organization.id, organization.name));
                }
            }
            if is_last {
                break;
            }
        }
        let owners = accounts.into_iter().map(|(id, name)| self.usage_of(tx.as_mut(), id, name, from, to));
        Ok(Usage { owners: owners.collect::<Result<_, _>>()? })
    }

    fn usage_of(
        &self,
        tx: &mut dyn DeploymentTransaction,
        id: AccountId,
        owner: OwnerName,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<OwnerUsage, PortError> {
        let now = self.0.now();
        let mut amounts: BTreeMap<DeploymentId, Usd> = BTreeMap::new();
        for interval in tx.ledger().list_of_owner(id, from, to)? {
            *amounts.entry(interval.deployment_id).or_default() += interval.amount_within(from, to, now);
        }
        let active = tx.instances().active()?;
        let rates = active.iter().filter(|(_, holder, _)| *holder == id).map(|(instance, ..)| instance.size.rate());
        let committed: Usd = rates.sum();
        let mut deployments = Vec::new();
        for (deployment, amount) in &amounts {
            if let Some(deployment) = tx.deployments().get(*deployment)? {
                deployments.push((deployment.locator.name.to_string(), deployment.state, *amount));
            }
        }
        Ok(OwnerUsage {
            limit: spending_limit(&self.0, &owner),
            owner,
            amount: amounts.values().copied().sum(),
            committed_monthly: committed.per_month(),
            deployments,
        })
    }
}
