//! Operations of deployments.

use super::DeploymentLocator;
use crate::ports::DeploymentOperationKind;
use crate::values::{BackupId, DeploymentId, InstanceId};
use branchyard_domain::ports::OperationState;
use branchyard_domain::values::{AccountId, OperationId, OwnerName, Timestamp};

/// What is to be done.
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
    /// Which kind of work it is.
    pub fn kind(self) -> DeploymentOperationKind {
        match self {
            Self::RebootInstance(_) => DeploymentOperationKind::RebootInstance,
            Self::CreateBackup => DeploymentOperationKind::CreateBackup,
            Self::Delete => DeploymentOperationKind::Delete,
        }
    }
}

/// Why an operation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeploymentFailureKind {
    /// It could not begin in time.
    Expired,
    /// It did not succeed.
    Failed,
    /// A fault of the server.
    Internal,
}

/// Why an operation failed, in words for its creator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentFailure {
    /// The class of the failure.
    pub kind: DeploymentFailureKind,
    /// A word for programs.
    pub reason: String,
    /// What happened.
    pub detail: String,
}

impl DeploymentFailure {
    /// A failure.
    pub fn new(kind: DeploymentFailureKind, reason: &str, detail: impl Into<String>) -> Self {
        Self { kind, reason: reason.to_owned(), detail: detail.into() }
    }
}

/// Where an operation stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeploymentProgress {
    /// Accepted, not begun.
    Queued,
    /// Being worked on.
    Running,
    /// Done; with the backup that was made.
    Succeeded(Option<BackupId>),
    /// Not done.
    Failed(DeploymentFailure),
}

/// Accepted work on a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentOperation {
    /// Its id.
    pub id: OperationId,
    /// The deployment.
    pub deployment_id: DeploymentId,
    /// How that is called.
    pub locator: DeploymentLocator,
    /// What to do.
    pub work: DeploymentWork,
    /// Where it stands.
    pub progress: DeploymentProgress,
    /// Who asked for it.
    pub created_by: AccountId,
    /// The name of who asked for it.
    pub created_by_name: OwnerName,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When it was begun or settled.
    pub updated_at: Option<Timestamp>,
}

impl DeploymentProgress {
    /// Where it stands, without what belongs to it.
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
    /// Whether it is over.
    pub fn settled(&self) -> bool {
        matches!(self.progress, DeploymentProgress::Succeeded(_) | DeploymentProgress::Failed(_))
    }
}
