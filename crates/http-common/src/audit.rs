//! Lines of the audit log: what is done with special rights, and by whom.

use std::fmt::Display;

use branchyard_domain::entities::DatabaseLocator;

/// Records that a user gave a database another name or owner. `was` is its former address.
pub fn database_moved(by: &dyn Display, was: &DatabaseLocator, now: &DatabaseLocator) {
    let is_transfer = !was.owner.as_str().eq_ignore_ascii_case(now.owner.as_str());
    let action = if is_transfer { "transfer-database" } else { "rename-database" };
    tracing::info!(target: "audit", %by, action, on = %was, to = %now, "a database has a new address");
}

/// Records that a user discards the data of a deployment without a backup.
pub fn data_discarded(by: &dyn Display, deployment: &dyn Display) {
    tracing::warn!(
        target: "audit",
        %by,
        action = "discard-data",
        on = %deployment,
        "the data of a deployment is discarded without a backup"
    );
}
