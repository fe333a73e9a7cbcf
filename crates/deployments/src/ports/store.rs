//! The deployment part of the metadata store: deployments, the ledger, backups, samples and operations.
#![expect(clippy::missing_errors_doc, reason = "said once for all repositories in the head of `metadata`")]

use super::metrics::Sample;
use super::watches::{self, DeploymentWatchKey, DeploymentWatchMarks};
use crate::entities::{
    Backup, Deployment, DeploymentCollaborator, DeploymentOperation, DeploymentRole, Instance, Interval, Metered,
    RunState,
};
use crate::values::{BackupId, DeploymentId, DeploymentName, InstanceId};
use branchyard_domain::ports::{Metadata, MetadataError, OperationState, Transaction, WriteKeys};
use branchyard_domain::values::{AccountId, OperationId, OwnerName, Timestamp};

type Result<T> = std::result::Result<T, MetadataError>;

/// The store of deployments, which is also the hub's metadata store. Both share their transactions: changes made to
/// both in one transaction become visible and durable together.
pub trait DeploymentStore: Metadata {
    /// Begins a read-only transaction, which sees one consistent state.
    fn read_deployments(&self) -> Result<Box<dyn DeploymentTransaction + '_>>;

    /// Begins a transaction that may write, as [`branchyard_domain::ports::Metadata::write`] does.
    fn write_deployments(&self, keys: &WriteKeys) -> Result<Box<dyn DeploymentTransaction + '_>>;

    /// Returns a mark for each of `keys` that exists, as [`Metadata::watch_marks`] does.
    fn deployment_marks(&self, keys: &[DeploymentWatchKey]) -> Result<DeploymentWatchMarks> {
        watches::look_up(self.read_deployments()?.as_mut(), keys)
    }
}

/// A transaction on deployments and on all data of the hub.
pub trait DeploymentTransaction: Transaction + DeploymentRepositories {}

impl<T: Transaction + DeploymentRepositories> DeploymentTransaction for T {}

/// The repositories of a transaction, for deployments.
pub trait DeploymentRepositories {
    /// Returns the repository of deployments.
    fn deployments(&mut self) -> &mut dyn DeploymentRepository;
    /// Returns the repository of collaborators of deployments.
    fn deployment_collaborators(&mut self) -> &mut dyn DeploymentCollaboratorRepository;
    /// Returns the repository of instances.
    fn instances(&mut self) -> &mut dyn InstanceRepository;
    /// Returns the repository of metered intervals.
    fn ledger(&mut self) -> &mut dyn LedgerRepository;
    /// Returns the repository of backups.
    fn backups(&mut self) -> &mut dyn BackupRepository;
    /// Returns the repository of metric samples.
    fn samples(&mut self) -> &mut dyn SampleRepository;
    /// Returns the repository of operations on deployments.
    fn deployment_operations(&mut self) -> &mut dyn DeploymentOperationRepository;
}

impl<
    T: DeploymentRepository
        + DeploymentCollaboratorRepository
        + InstanceRepository
        + LedgerRepository
        + BackupRepository
        + SampleRepository
        + DeploymentOperationRepository,
> DeploymentRepositories for T
{
    fn deployments(&mut self) -> &mut dyn DeploymentRepository {
        self
    }

    fn deployment_collaborators(&mut self) -> &mut dyn DeploymentCollaboratorRepository {
        self
    }

    fn instances(&mut self) -> &mut dyn InstanceRepository {
        self
    }

    fn ledger(&mut self) -> &mut dyn LedgerRepository {
        self
    }

    fn backups(&mut self) -> &mut dyn BackupRepository {
        self
    }

    fn samples(&mut self) -> &mut dyn SampleRepository {
        self
    }

    fn deployment_operations(&mut self) -> &mut dyn DeploymentOperationRepository {
        self
    }
}

/// The repository of deployments.
pub trait DeploymentRepository {
    /// Adds a deployment. Fails with `Taken` if its owner already has a deployment of that name.
    fn add(&mut self, deployment: &Deployment) -> Result<()>;
    /// Returns a deployment by owner and name, ignoring case. Ignores deleted deployments.
    fn by_name(&mut self, owner: &OwnerName, name: &DeploymentName) -> Result<Option<Deployment>>;
    /// Returns the id and the owner of a deployment that is not removed, by owner and name, ignoring case. Reads no
    /// other data of the deployment, so the call takes equally long whether or not the deployment exists.
    fn identity(&mut self, owner: &OwnerName, name: &DeploymentName) -> Result<Option<(DeploymentId, AccountId)>>;
    /// Returns a deployment by id, including deleted deployments.
    fn get(&mut self, id: DeploymentId) -> Result<Option<Deployment>>;
    /// Updates everything except id, owner, name and creation, and increments the version. Returns `false` and changes
    /// nothing if the stored version differs from `deployment.version`.
    fn update(&mut self, deployment: &Deployment) -> Result<bool>;
    /// Returns the deployments of an owner that are not removed, newest first, starting after `before`.
    fn list(
        &mut self,
        owner: AccountId,
        state: Option<RunState>,
        before: Option<DeploymentId>,
        limit: usize,
    ) -> Result<Vec<Deployment>>;
    /// Returns the number of deployments of an owner that are not stopped.
    fn count_active(&mut self, owner: AccountId) -> Result<u64>;
    /// Returns the ids of a node's deployments that are not stopped or that have an unsettled operation, in ascending
    /// order.
    fn busy(&mut self, node: &str) -> Result<Vec<DeploymentId>>;
}

/// The repository of collaborators of deployments.
pub trait DeploymentCollaboratorRepository {
    /// Adds a collaborator or changes its role. Returns `true` if the collaborator was added.
    fn put(&mut self, deployment: DeploymentId, user: AccountId, role: DeploymentRole, at: Timestamp) -> Result<bool>;
    /// Returns a collaborator.
    fn get(&mut self, deployment: DeploymentId, user: AccountId) -> Result<Option<DeploymentCollaborator>>;
    /// Removes a collaborator and returns its last state.
    fn remove(&mut self, deployment: DeploymentId, user: AccountId) -> Result<Option<DeploymentCollaborator>>;
    /// Returns all collaborators, sorted by lower-case name.
    fn list(&mut self, deployment: DeploymentId) -> Result<Vec<DeploymentCollaborator>>;
}

/// The repository of instances of deployments.
pub trait InstanceRepository {
    /// Adds an instance. Fails with `Taken` if another instance that is not stopped has the same port.
    fn add(&mut self, instance: &Instance) -> Result<()>;
    /// Updates everything except id, deployment and index. Returns `false` if the instance does not exist. Fails with
    /// `Taken` as [`InstanceRepository::add`] does.
    fn update(&mut self, instance: &Instance) -> Result<bool>;
    /// Returns an instance.
    fn get(&mut self, id: InstanceId) -> Result<Option<Instance>>;
    /// Returns the instances of a deployment, including stopped ones, oldest first.
    fn list(&mut self, deployment: DeploymentId) -> Result<Vec<Instance>>;
    /// Returns all instances that are not stopped, each with its owner and zone, sorted by id.
    fn active(&mut self) -> Result<Vec<(Instance, AccountId, String)>>;
}

/// The ledger: the repository of metered intervals.
pub trait LedgerRepository {
    /// Opens an interval.
    fn open(&mut self, interval: &Interval) -> Result<()>;
    /// Returns the open interval of an instance and resource.
    fn current(&mut self, instance: InstanceId, kind: Metered) -> Result<Option<Interval>>;
    /// Returns the end of the last closed interval of an instance and resource.
    fn last_end(&mut self, instance: InstanceId, kind: Metered) -> Result<Option<Timestamp>>;
    /// Closes the open interval of an instance and resource. Returns `false` if there is none.
    fn close(&mut self, instance: InstanceId, kind: Metered, at: Timestamp) -> Result<bool>;
    /// Records that the process of an open compute interval was alive at `at`.
    fn prove(&mut self, instance: InstanceId, at: Timestamp) -> Result<()>;
    /// Returns the intervals of a deployment that overlap the range from `from` to `to`. Sorted by instance index,
    /// instance, resource and begin.
    fn list(&mut self, deployment: DeploymentId, from: Timestamp, to: Timestamp) -> Result<Vec<Interval>>;
    /// Returns the intervals of all deployments of an owner, including deleted ones, that overlap the range from `from`
    /// to `to`. Sorted by deployment first, then as [`LedgerRepository::list`].
    fn list_of_owner(&mut self, owner: AccountId, from: Timestamp, to: Timestamp) -> Result<Vec<Interval>>;
}

/// The repository of backups.
pub trait BackupRepository {
    /// Adds a backup. Fails with `Taken` if the deployment already has a backup of that id.
    fn add(&mut self, backup: &Backup) -> Result<()>;
    /// Returns a backup.
    fn get(&mut self, deployment: DeploymentId, id: BackupId) -> Result<Option<Backup>>;
    /// Returns the backups of a deployment, newest first.
    fn list(&mut self, deployment: DeploymentId) -> Result<Vec<Backup>>;
    /// Removes a backup. Returns `false` if there was none.
    fn remove(&mut self, deployment: DeploymentId, id: BackupId) -> Result<bool>;
}

/// The distance between two samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resolution {
    /// 15 s, the distance of measurements.
    Fine,
    /// 300 s.
    Coarse,
}

impl Resolution {
    /// Returns the distance between two samples in seconds.
    pub const fn seconds(self) -> i64 {
        match self {
            Self::Fine => 15,
            Self::Coarse => 300,
        }
    }

    /// Returns the retention of samples in seconds.
    pub const fn kept_seconds(self) -> i64 {
        match self {
            Self::Fine => 48 * 3_600,
            Self::Coarse => 31 * 86_400,
        }
    }
}

/// The repository of metric samples.
pub trait SampleRepository {
    /// Stores a sample, replacing an existing one of the same time.
    fn put(&mut self, instance: InstanceId, resolution: Resolution, at: Timestamp, sample: &Sample) -> Result<()>;
    /// Returns the samples from `from` (inclusive) to `to` (exclusive), oldest first.
    fn list(
        &mut self,
        instance: InstanceId,
        resolution: Resolution,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<(Timestamp, Sample)>>;
    /// Removes samples older than `before` and returns their number.
    fn purge(&mut self, resolution: Resolution, before: Timestamp) -> Result<u64>;
    /// Removes all samples of a deployment.
    fn clear(&mut self, deployment: DeploymentId) -> Result<()>;
}

/// A filter on the operations of a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeploymentOperationFilter {
    /// Only operations in this state.
    pub state: Option<OperationState>,
    /// Only operations of this kind.
    pub kind: Option<DeploymentOperationKind>,
}

/// The kind of an operation on a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeploymentOperationKind {
    /// See [`crate::entities::DeploymentWork::RebootInstance`].
    RebootInstance,
    /// See [`crate::entities::DeploymentWork::CreateBackup`].
    CreateBackup,
    /// See [`crate::entities::DeploymentWork::Delete`].
    Delete,
}

/// The repository of operations on deployments.
pub trait DeploymentOperationRepository {
    /// Adds an operation.
    fn add(&mut self, operation: &DeploymentOperation) -> Result<()>;
    /// Returns an operation.
    fn get(&mut self, id: OperationId) -> Result<Option<DeploymentOperation>>;
    /// Updates the progress of an operation. Returns `false` and changes nothing if the operation is settled.
    fn update(&mut self, operation: &DeploymentOperation) -> Result<bool>;
    /// Returns the operations of a deployment, newest first, starting after `before`.
    fn list(
        &mut self,
        deployment: DeploymentId,
        filter: DeploymentOperationFilter,
        before: Option<OperationId>,
        limit: usize,
    ) -> Result<Vec<DeploymentOperation>>;
    /// Returns the unsettled operations of a deployment, oldest first.
    fn pending(&mut self, deployment: DeploymentId) -> Result<Vec<DeploymentOperation>>;
    /// Removes operations that were settled before `before` and returns their number.
    fn purge(&mut self, before: Timestamp) -> Result<u64>;
}
