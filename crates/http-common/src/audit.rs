//! Lines of the audit log: what is done with special rights, and by whom.

use std::fmt::Display;

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
