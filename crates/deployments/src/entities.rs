//! Entities: plain structs. States are enums, and an invalid transition is an error.

mod catalogue;
mod deployment;
mod deployment_operation;
mod instance;
mod ledger;

pub use catalogue::{Capacity, Catalogue, Cloud, InstanceType, StorageOption};
pub use deployment::{
    Backup, BackupKind, Deployment, DeploymentCollaborator, DeploymentLocator, DeploymentOrigin, DeploymentRole,
    Health, NoSuchMove, RunState,
};
pub use deployment_operation::{
    DeploymentFailure, DeploymentFailureKind, DeploymentOperation, DeploymentProgress, DeploymentWork,
};
pub use instance::{Attempts, Instance, InstanceSize, Shutdown};
pub use ledger::{Interval, Metered};
