//! Cost and usage, read from the ledger.

use std::collections::BTreeMap;

use super::capacity::spending_limit;
use super::{Deployments, live, role_through_owner, view};
use crate::access::{DeploymentAccess, DeploymentLevel};
use crate::entities::{DeploymentRole, Interval, Metered, RunState};
use crate::errors::DeploymentError;
use crate::ports::DeploymentTransaction;
use crate::values::{DeploymentId, InstanceId, Usd};
use branchyard_domain::entities::User;
use branchyard_domain::errors::Fault;
use branchyard_domain::values::{AccountId, OwnerName, Timestamp};

/// Use of one instance, kind and price.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostItem {
    /// The instance.
    pub instance_id: InstanceId,
    /// Its index.
    pub instance_index: u32,
    /// Compute or storage.
    pub kind: Metered,
    /// Id of the instance type or the kind of volume.
    pub type_id: String,
    /// Price of an hour.
    pub rate: Usd,
    /// Milliseconds of use.
    pub millis: i64,
    /// What they cost.
    pub amount: Usd,
    /// When the first interval began.
    pub first_at: Timestamp,
    /// Whether it goes on.
    pub open: bool,
}

/// What a deployment cost in a range of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    /// From.
    pub from: Timestamp,
    /// To.
    pub to: Timestamp,
    /// The sum of the items.
    pub amount: Usd,
    /// What an hour costs now.
    pub hourly_cost: Usd,
    /// By instance index, instance, kind and price.
    pub items: Vec<CostItem>,
}

/// What an owner's deployments cost in a month.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerUsage {
    /// The owner.
    pub owner: OwnerName,
    /// The sum.
    pub amount: Usd,
    /// What a month of what runs now costs.
    pub committed_monthly: Usd,
    /// What the owner may spend a month, if that is limited.
    pub limit: Option<Usd>,
    /// Name, state and cost of each; those deleted are stopped.
    pub deployments: Vec<(String, RunState, Usd)>,
}

/// The months of all owners that a user administers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// The user first, then organizations by name.
    pub owners: Vec<OwnerUsage>,
}

/// Intervals summed per instance, kind and price, within a range.
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
    /// What a deployment cost from `from` to `to`; what goes on counts until now.
    ///
    /// # Errors
    /// [`DeploymentError::Fault`].
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

    /// What the deployments of all owners that `user` administers cost from `from` to `to`.
    ///
    /// # Errors
    /// [`DeploymentError::Fault`].
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
    ) -> Result<OwnerUsage, Fault> {
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
