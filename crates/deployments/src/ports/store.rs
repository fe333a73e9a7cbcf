//! The metadata store's part for deployments: their rows, the ledger, backups, samples, operations.
#![expect(clippy::missing_errors_doc, reason = "said once for all repositories in the head of `metadata`")]

use super::metrics::Sample;
use crate::entities::{
    Backup, Deployment, DeploymentCollaborator, DeploymentOperation, DeploymentRole, Instance, Interval, Metered,
    RunState,
};
use crate::values::{BackupId, DeploymentId, DeploymentName, InstanceId};
use branchyard_domain::ports::{Metadata, MetadataError, OperationState, Transaction};
use branchyard_domain::values::{AccountId, OperationId, OwnerName, Timestamp};

type Result<T> = std::result::Result<T, MetadataError>;

/// The store of deployments, which is the hub's metadata store, too. Its transactions are those of the hub's metadata: what both change in one becomes visible and durable together.
pub trait DeploymentStore: Metadata {
    /// Begins a transaction that only reads; it sees one state.
    fn read_deployments(&self) -> Result<Box<dyn DeploymentTransaction + '_>>;

    /// Begins a transaction that may write, as [`branchyard_domain::ports::Metadata::write`] does.
    fn write_deployments(&self) -> Result<Box<dyn DeploymentTransaction + '_>>;
}

/// A transaction on deployments and on everything of the hub.
pub trait DeploymentTransaction: Transaction + DeploymentRepositories {}

impl<T: Transaction + DeploymentRepositories> DeploymentTransaction for T {}

/// The repositories of a transaction for deployments.
pub trait DeploymentRepositories {
    /// Deployments.
    fn deployments(&mut self) -> &mut dyn DeploymentRepository;
    /// Collaborators of deployments.
    fn deployment_collaborators(&mut self) -> &mut dyn DeploymentCollaboratorRepository;
    /// Instances of deployments.
    fn instances(&mut self) -> &mut dyn InstanceRepository;
    /// The ledger: metered intervals.
    fn ledger(&mut self) -> &mut dyn LedgerRepository;
    /// Backups.
    fn backups(&mut self) -> &mut dyn BackupRepository;
    /// Samples of metrics.
    fn samples(&mut self) -> &mut dyn SampleRepository;
    /// Operations on deployments.
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

/// Deployments.
pub trait DeploymentRepository {
    /// Adds a deployment. `Taken` when its owner has one of that name.
    fn add(&mut self, deployment: &Deployment) -> Result<()>;
    /// A deployment by owner and name, whatever the case; not a deleted one.
    fn by_name(&mut self, owner: &OwnerName, name: &DeploymentName) -> Result<Option<Deployment>>;
    /// Id and owner of a deployment that is not removed, by owner and name, whatever the case. The rest of it is not looked at, so
    /// that this takes as long for one that is there as for one that is not.
    fn identity(&mut self, owner: &OwnerName, name: &DeploymentName) -> Result<Option<(DeploymentId, AccountId)>>;
    /// A deployment by id, deleted ones included.
    fn get(&mut self, id: DeploymentId) -> Result<Option<Deployment>>;
    /// Changes everything but id, owner, name and creation, if the version still is `deployment.version`; the version then
    /// counts up. Gives whether it was changed.
    fn update(&mut self, deployment: &Deployment) -> Result<bool>;
    /// Deployments of an owner that are not removed, newest first, before `before`.
    fn list(
        &mut self,
        owner: AccountId,
        state: Option<RunState>,
        before: Option<DeploymentId>,
        limit: usize,
    ) -> Result<Vec<Deployment>>;
    /// Deployments of an owner that are not stopped.
    fn count_active(&mut self, owner: AccountId) -> Result<u64>;
    /// Ids of a node's deployments that are not stopped, or that have an unsettled operation; ascending.
    fn busy(&mut self, node: &str) -> Result<Vec<DeploymentId>>;
}

/// Collaborators of deployments.
pub trait DeploymentCollaboratorRepository {
    /// Adds or changes a collaborator; gives whether it was added.
    fn put(&mut self, deployment: DeploymentId, user: AccountId, role: DeploymentRole, at: Timestamp) -> Result<bool>;
    /// A collaborator.
    fn get(&mut self, deployment: DeploymentId, user: AccountId) -> Result<Option<DeploymentCollaborator>>;
    /// Removes a collaborator; gives it as it was.
    fn remove(&mut self, deployment: DeploymentId, user: AccountId) -> Result<Option<DeploymentCollaborator>>;
    /// All collaborators, by lower-case name.
    fn list(&mut self, deployment: DeploymentId) -> Result<Vec<DeploymentCollaborator>>;
}

/// Instances of deployments.
pub trait InstanceRepository {
    /// Adds an instance. `Taken` when another one that is not stopped has its port.
    fn add(&mut self, instance: &Instance) -> Result<()>;
    /// Changes everything but id, deployment and index; gives whether it is there. `Taken` as in adding.
    fn update(&mut self, instance: &Instance) -> Result<bool>;
    /// An instance.
    fn get(&mut self, id: InstanceId) -> Result<Option<Instance>>;
    /// Instances of a deployment, stopped ones included, oldest first.
    fn list(&mut self, deployment: DeploymentId) -> Result<Vec<Instance>>;
    /// All instances that are not stopped, each with its owner and zone, by id.
    fn active(&mut self) -> Result<Vec<(Instance, AccountId, String)>>;
}

/// The ledger: metered intervals.
pub trait LedgerRepository {
    /// Opens an interval.
    fn open(&mut self, interval: &Interval) -> Result<()>;
    /// The open interval of an instance and kind.
    fn current(&mut self, instance: InstanceId, kind: Metered) -> Result<Option<Interval>>;
    /// When the last closed interval of an instance and kind ended.
    fn last_end(&mut self, instance: InstanceId, kind: Metered) -> Result<Option<Timestamp>>;
    /// Closes the open interval of an instance and kind; gives whether there was one.
    fn close(&mut self, instance: InstanceId, kind: Metered, at: Timestamp) -> Result<bool>;
    /// Notes that the process behind an open interval of compute lives.
    fn prove(&mut self, instance: InstanceId, at: Timestamp) -> Result<()>;
    /// Intervals of a deployment that are open or ended after `from`, and began before `to`; by instance index, instance,
    /// kind and start.
    fn list(&mut self, deployment: DeploymentId, from: Timestamp, to: Timestamp) -> Result<Vec<Interval>>;
    /// The same of all deployments of an owner, by deployment, deleted ones included.
    fn list_of_owner(&mut self, owner: AccountId, from: Timestamp, to: Timestamp) -> Result<Vec<Interval>>;
}

/// Backups.
pub trait BackupRepository {
    /// Adds a backup. `Taken` when there is one of that name.
    fn add(&mut self, backup: &Backup) -> Result<()>;
    /// A backup.
    fn get(&mut self, deployment: DeploymentId, id: BackupId) -> Result<Option<Backup>>;
    /// Backups of a deployment, newest first.
    fn list(&mut self, deployment: DeploymentId) -> Result<Vec<Backup>>;
    /// Removes a backup; gives whether there was one.
    fn remove(&mut self, deployment: DeploymentId, id: BackupId) -> Result<bool>;
}

/// How far apart samples are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resolution {
    /// 15 s, as measured.
    Fine,
    /// 300 s.
    Coarse,
}

impl Resolution {
    /// Seconds from one to the next.
    pub const fn seconds(self) -> i64 {
        match self {
            Self::Fine => 15,
            Self::Coarse => 300,
        }
    }

    /// Seconds they are kept.
    pub const fn kept_seconds(self) -> i64 {
        match self {
            Self::Fine => 48 * 3_600,
            Self::Coarse => 31 * 86_400,
        }
    }
}

/// Samples of metrics.
pub trait SampleRepository {
    /// Keeps a sample, replacing one of the same time.
    fn put(&mut self, instance: InstanceId, resolution: Resolution, at: Timestamp, sample: &Sample) -> Result<()>;
    /// Samples from `from` to before `to`, oldest first.
    fn list(
        &mut self,
        instance: InstanceId,
        resolution: Resolution,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<(Timestamp, Sample)>>;
    /// Removes samples older than `before`; gives how many.
    fn purge(&mut self, resolution: Resolution, before: Timestamp) -> Result<u64>;
    /// Removes all samples of a deployment.
    fn clear(&mut self, deployment: DeploymentId) -> Result<()>;
}

/// Filters of the list of operations of a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeploymentOperationFilter {
    /// Only in this state.
    pub state: Option<OperationState>,
    /// Only of this kind.
    pub kind: Option<DeploymentOperationKind>,
}

/// Which kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeploymentOperationKind {
    /// See [`crate::entities::DeploymentWork::RebootInstance`].
    RebootInstance,
    /// See [`crate::entities::DeploymentWork::CreateBackup`].
    CreateBackup,
    /// See [`crate::entities::DeploymentWork::Delete`].
    Delete,
}

/// Operations on deployments.
pub trait DeploymentOperationRepository {
    /// Adds an operation.
    fn add(&mut self, operation: &DeploymentOperation) -> Result<()>;
    /// An operation.
    fn get(&mut self, id: OperationId) -> Result<Option<DeploymentOperation>>;
    /// Changes where it stands, unless it is settled; gives whether it was changed.
    fn update(&mut self, operation: &DeploymentOperation) -> Result<bool>;
    /// Operations of a deployment, newest first, before `before`.
    fn list(
        &mut self,
        deployment: DeploymentId,
        filter: DeploymentOperationFilter,
        before: Option<OperationId>,
        limit: usize,
    ) -> Result<Vec<DeploymentOperation>>;
    /// The unsettled operations of a deployment, oldest first.
    fn pending(&mut self, deployment: DeploymentId) -> Result<Vec<DeploymentOperation>>;
    /// Removes operations settled before `before`; gives how many.
    fn purge(&mut self, before: Timestamp) -> Result<u64>;
}
