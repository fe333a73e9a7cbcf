//! Ports: the traits through which the domain of deployments uses the outside world.

mod backup_files;
mod metrics;
mod provisioner;
mod store;
mod watches;

pub use backup_files::BackupFiles;
pub use metrics::{Metric, Sample, Series, Summary};
pub use provisioner::{
    Authorized, Authorizer, BackupFile, CopiedDatabase, DatabaseSeed, InstanceEvent, InstanceHandle, InstanceSpec,
    OutputLine, OutputPosition, OutputQuery, ProvisionError, Provisioner, SqlCaller, SupervisorEvent, Towards,
    ZoneFeatures,
};
pub use store::{
    BackupRepository, DeploymentCollaboratorRepository, DeploymentOperationFilter, DeploymentOperationKind,
    DeploymentOperationRepository, DeploymentRepositories, DeploymentRepository, DeploymentStore,
    DeploymentTransaction, InstanceRepository, LedgerRepository, Resolution, SampleRepository,
};
pub use watches::{DeploymentWatchKey, DeploymentWatchMarks};
