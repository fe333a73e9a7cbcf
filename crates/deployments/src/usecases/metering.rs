//! Metering: the ledger entries that state transitions write.

use crate::entities::{Deployment, Instance, Interval, Metered};
use crate::ports::DeploymentTransaction;
use branchyard_domain::errors::PortError;
use branchyard_domain::values::Timestamp;

/// Opens an interval, unless one is open. The interval begins no earlier than the previous one ended, even if the clock
/// was set back.
pub(super) fn open(
    tx: &mut dyn DeploymentTransaction,
    deployment: &Deployment,
    instance: &Instance,
    kind: Metered,
    now: Timestamp,
) -> Result<(), PortError> {
    if tx.ledger().current(instance.id, kind)?.is_some() {
        return Ok(());
    }
    let last_end = tx.ledger().last_end(instance.id, kind)?;
    let (type_id, rate) = match kind {
        Metered::Compute => (instance.size.type_id.clone(), instance.size.compute_rate),
        Metered::Storage => (instance.size.volume_type_id.clone(), instance.size.storage_rate),
    };
    let opened_at = last_end.map_or(now, |end| now.max(end));
    tx.ledger().open(&Interval {
        owner_id: deployment.owner_id,
        deployment_id: deployment.id,
        instance_id: instance.id,
        instance_index: instance.index,
        kind,
        type_id,
        rate,
        opened_at,
        proven_at: (kind == Metered::Compute).then_some(opened_at),
        closed_at: None,
    })?;
    Ok(())
}

/// Closes the open interval. If the clock was set back, the interval ends where it began.
pub(super) fn close(
    tx: &mut dyn DeploymentTransaction,
    instance: &Instance,
    kind: Metered,
    at: Timestamp,
) -> Result<(), PortError> {
    tx.ledger().close(instance.id, kind, at)?;
    Ok(())
}

/// Closes the compute interval of a process that is gone. Charges only up to the last time at which the process was
/// proven alive.
pub(super) fn close_at_proof(tx: &mut dyn DeploymentTransaction, instance: &Instance) -> Result<(), PortError> {
    if let Some(open) = tx.ledger().current(instance.id, Metered::Compute)? {
        let proven = open.proven_at.unwrap_or(open.opened_at);
        tx.ledger().close(instance.id, Metered::Compute, proven)?;
    }
    Ok(())
}
