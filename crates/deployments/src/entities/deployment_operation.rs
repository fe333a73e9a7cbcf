//! Operations of deployments.

use super::DeploymentLocator;
use crate::ports::DeploymentOperationKind;
use crate::values::{BackupId, DeploymentId, InstanceId};
use branchyard_domain::ports::OperationState;
use branchyard_domain::values::{AccountId, OperationId, OwnerName, Timestamp};

/// The work of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeploymentWork {
    /// Drain an instance and start it again.
    RebootInstance(InstanceId),
    /// Make a backup.
    CreateBackup,
    /// Remove the deployment.
    Delete,
}

impl DeploymentWork {
    /// Returns the kind of work, without its parameters.
    pub fn kind(self) -> DeploymentOperationKind {
        match self {
            Self::RebootInstance(_) => DeploymentOperationKind::RebootInstance,
            Self::CreateBackup => DeploymentOperationKind::CreateBackup,
            Self::Delete => DeploymentOperationKind::Delete,
        }
    }
}

/// The class of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeploymentFailureKind {
    /// The operation could not begin in time.
    Expired,
    /// The operation ran and did not succeed.
    Failed,
    /// The server is at fault.
    Internal,
}

/// The failure of an operation, described for its creator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentFailure {
    /// Class of the failure.
    pub kind: DeploymentFailureKind,
    /// Machine-readable reason, in upper snake case.
    pub reason: String,
    /// Human-readable explanation.
    pub detail: String,
}

impl DeploymentFailure {
    /// Creates a failure.
    pub fn new(kind: DeploymentFailureKind, reason: &str, detail: impl Into<String>) -> Self {
        Self { kind, reason: reason.to_owned(), detail: detail.into() }
    }
}

/// The progress of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeploymentProgress {
    /// Accepted, not begun.
    Queued,
    /// Begun, not settled.
    Running,
    /// Succeeded, with the backup if one was made.
    Succeeded(Option<BackupId>),
    /// Failed.
    Failed(DeploymentFailure),
}

/// Accepted work on a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentOperation {
    /// Unique id.
    pub id: OperationId,
    /// The deployment to work on.
    pub deployment_id: DeploymentId,
    /// Owner and name of that deployment.
    pub locator: DeploymentLocator,
    /// The work to do.
    pub work: DeploymentWork,
    /// Progress so far.
    pub progress: DeploymentProgress,
    /// Account of the user that requested the operation.
    pub created_by: AccountId,
    /// Name of the user that requested the operation.
    pub created_by_name: OwnerName,
    /// Time of acceptance.
    pub created_at: Timestamp,
    /// Time of the last change of progress. `None` if the operation has not begun.
    pub updated_at: Option<Timestamp>,
}

impl DeploymentProgress {
    /// Returns the state without its data.
    pub fn state(&self) -> OperationState {
        match self {
            Self::Queued => OperationState::Queued,
            Self::Running => OperationState::Running,
            Self::Succeeded(_) => OperationState::Succeeded,
            Self::Failed(_) => OperationState::Failed,
        }
    }
}

impl DeploymentOperation {
    /// Returns `true` if the operation has succeeded or failed.
    pub fn settled(&self) -> bool {
        matches!(self.progress, DeploymentProgress::Succeeded(_) | DeploymentProgress::Failed(_))
    }
}
