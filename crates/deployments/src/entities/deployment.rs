//! Deployments: databases served to ordinary clients by a supervised process.

use crate::ports::CopiedDatabase;
use crate::values::{BackupId, DeploymentId, DeploymentName, ServedName, Settings};
use branchyard_domain::values::{AccountId, CommitHash, DatabaseId, OwnerName, Timestamp};

use branchyard_domain::entities::DatabaseLocator;

/// The role of a user on a deployment. Roles are ordered; each includes the ones before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeploymentRole {
    /// May read.
    Reader,
    /// May also open pull requests.
    ReaderAndPulls,
    /// May also write.
    Writer,
    /// May do everything.
    Admin,
}

/// The state of a deployment or an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunState {
    /// Coming up.
    Starting,
    /// Serving.
    Started,
    /// Shutting down.
    Stopping,
    /// Shut down; the data is removed.
    Stopped,
}

/// A state transition that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the deployment is {from:?}; it cannot become {to:?}")]
pub struct NoSuchMove {
    /// The current state.
    pub from: RunState,
    /// The requested state.
    pub to: RunState,
}

impl RunState {
    /// Changes to another state.
    ///
    /// # Errors
    /// [`NoSuchMove`] if no such transition exists; the state is unchanged.
    pub fn go(&mut self, to: Self) -> Result<(), NoSuchMove> {
        let allowed = matches!(
            (*self, to),
            (Self::Starting, Self::Started | Self::Stopping)
                | (Self::Started, Self::Starting | Self::Stopping)
                | (Self::Stopping, Self::Stopped)
                | (Self::Stopped, Self::Starting)
        );
        if !allowed {
            return Err(NoSuchMove { from: *self, to });
        }
        *self = to;
        Ok(())
    }
}

/// The health of a deployment or an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// Serving.
    Ok,
    /// Coming up.
    Starting,
    /// Ending repeatedly soon after each start.
    CrashLoop,
    /// Serving with a full volume.
    DiskFull,
    /// Shutting down.
    Stopping,
    /// Shut down.
    Stopped,
}

/// The owner and the name of a deployment, as users write them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentLocator {
    /// The owner's name, in the spelling chosen at creation.
    pub owner: OwnerName,
    /// The deployment's name, in the spelling chosen at creation.
    pub name: DeploymentName,
}

impl std::fmt::Display for DeploymentLocator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

/// The hub database that a deployment was cloned from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentOrigin {
    /// Id of the database. Deployments from before ids were recorded have only its name.
    pub database_id: Option<DatabaseId>,
    /// The owner and the name of the database at the time of the clone.
    pub database: DatabaseLocator,
    /// The requested ref, or the default branch if none was requested.
    pub reference: String,
    /// The commit that the ref resolved to.
    pub commit: CommitHash,
}

/// A database server for ordinary clients, run and metered by the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployment {
    /// Unique id.
    pub id: DeploymentId,
    /// The account that owns the deployment and pays for it.
    pub owner_id: AccountId,
    /// Owner and name.
    pub locator: DeploymentLocator,
    /// The state of the primary.
    pub state: RunState,
    /// Id of the cloud.
    pub cloud: String,
    /// Zone of that cloud.
    pub zone: String,
    /// Node of the server that runs the deployment: the server that accepted it and stores its data. Servers that share
    /// a metadata store have distinct nodes.
    pub node: String,
    /// Name of the user that created the deployment.
    pub created_by: OwnerName,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Names of the databases; the first one is the default.
    pub databases: Vec<ServedName>,
    /// The hub database that the deployment was cloned from, if any.
    pub origin: Option<DeploymentOrigin>,
    /// Settings in force.
    pub settings: Settings,
    /// Whether the instances serve `GET metrics`.
    pub expose_stats: bool,
    /// Whether TLS with a public certificate was requested.
    pub public_tls: bool,
    /// Whether service windows leave the engine version unchanged.
    pub keeps_version: bool,
    /// The engine version that ran last.
    pub database_version: Option<String>,
    /// Time at which the deployment was disabled, and name of the user who disabled it. `None` unless it is disabled.
    pub disabled: Option<(Timestamp, OwnerName)>,
    /// The last error.
    pub last_error: Option<String>,
    /// Number of changes to the row; used to detect lost updates, and to order settings that are pushed to processes.
    pub version: i64,
    /// Time at which the removal was accepted. The deployment is hidden from then on.
    pub removed_at: Option<Timestamp>,
    /// Time at which the removal was completed. The name is free from then on.
    pub deleted_at: Option<Timestamp>,
}

/// A user with a role of their own on a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentCollaborator {
    /// Account of the user.
    pub user_id: AccountId,
    /// Name of the user.
    pub username: OwnerName,
    /// Role on the deployment.
    pub role: DeploymentRole,
    /// Time at which the user became a collaborator.
    pub added_at: Timestamp,
}

/// The reason for a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackupKind {
    /// The nightly schedule.
    Nightly,
    /// A request.
    Manual,
    /// The shutdown of the deployment.
    Final,
}

/// A complete, verified backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// The deployment that was backed up.
    pub deployment_id: DeploymentId,
    /// The id, which is also the time of the backup.
    pub id: BackupId,
    /// The reason for the backup.
    pub kind: BackupKind,
    /// The copied databases, in the order of the deployment's databases.
    pub databases: Vec<CopiedDatabase>,
    /// Time from which the backup may be removed.
    pub expires_at: Timestamp,
}

impl Backup {
    /// Returns the total size of the files in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.databases.iter().map(|database| database.size_bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_six_moves_and_no_others() {
        const ALL: [RunState; 4] = [RunState::Starting, RunState::Started, RunState::Stopping, RunState::Stopped];
        let mut moves = Vec::new();
        for from in ALL {
            for to in ALL {
                let mut state = from;
                match state.go(to) {
                    Ok(()) => moves.push((from, state)),
                    Err(refused) => assert_eq!((state, refused), (from, NoSuchMove { from, to })),
                }
            }
        }
        use RunState::{Started, Starting, Stopped, Stopping};
        let expected = [
            (Starting, Started),
            (Starting, Stopping),
            (Started, Starting),
            (Started, Stopping),
            (Stopping, Stopped),
            (Stopped, Starting),
        ];
        assert_eq!(moves, expected);
    }
}
