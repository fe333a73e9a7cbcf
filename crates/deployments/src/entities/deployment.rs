//! Deployments: databases served to ordinary clients by a supervised process.

use crate::ports::CopiedDatabase;
use crate::values::{BackupId, DeploymentId, DeploymentName, ServedName, Settings};
use branchyard_domain::values::{AccountId, CommitHash, OwnerName, Timestamp};

use branchyard_domain::entities::DatabaseLocator;

/// What a caller may do on a deployment; ordered, each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeploymentRole {
    /// Read.
    Reader,
    /// Also open pulls.
    ReaderAndPulls,
    /// Also write.
    Writer,
    /// Everything.
    Admin,
}

/// Where a deployment or an instance stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunState {
    /// Coming up.
    Starting,
    /// Serving.
    Started,
    /// Going down for good.
    Stopping,
    /// Down, its data removed.
    Stopped,
}

/// A state that does not lead to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the deployment is {from:?}; it cannot become {to:?}")]
pub struct NoSuchMove {
    /// Where it stands.
    pub from: RunState,
    /// Where it was to go.
    pub to: RunState,
}

impl RunState {
    /// Goes to another state, if there is such a move.
    ///
    /// # Errors
    /// [`NoSuchMove`].
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

/// How well a deployment does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It serves.
    Ok,
    /// It comes up.
    Starting,
    /// It ends again and again.
    CrashLoop,
    /// Its volume is full.
    DiskFull,
    /// It goes down.
    Stopping,
    /// It is down.
    Stopped,
}

/// Owner and name as people write them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentLocator {
    /// Owner, as chosen at creation.
    pub owner: OwnerName,
    /// Name, as chosen at creation.
    pub name: DeploymentName,
}

impl std::fmt::Display for DeploymentLocator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

/// The hub database a deployment began as a clone of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentOrigin {
    /// Its name then.
    pub database: DatabaseLocator,
    /// The ref that was asked for, or the default branch.
    pub reference: String,
    /// The commit it resolved to.
    pub commit: CommitHash,
}

/// A deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployment {
    /// Its id.
    pub id: DeploymentId,
    /// Who owns it.
    pub owner_id: AccountId,
    /// Owner and name.
    pub locator: DeploymentLocator,
    /// Its primary's state.
    pub state: RunState,
    /// The cloud it runs in.
    pub cloud: String,
    /// The zone of it.
    pub zone: String,
    /// Which of the servers that share the metadata store runs it: the one that accepted it, whose folder has its data.
    pub node: String,
    /// Name of who made it.
    pub created_by: OwnerName,
    /// When.
    pub created_at: Timestamp,
    /// Its databases; the first is the default one.
    pub databases: Vec<ServedName>,
    /// What it began as.
    pub origin: Option<DeploymentOrigin>,
    /// Its settings.
    pub settings: Settings,
    /// Whether it answers `GET metrics`.
    pub expose_stats: bool,
    /// Whether TLS with a public certificate was asked for.
    pub public_tls: bool,
    /// Whether the engine is left as it is in service windows.
    pub keeps_version: bool,
    /// The engine it last ran.
    pub database_version: Option<String>,
    /// When and by whom it was disabled, only while it is.
    pub disabled: Option<(Timestamp, OwnerName)>,
    /// What last went wrong.
    pub last_error: Option<String>,
    /// Counts changes to the row; lost updates are found by it.
    pub version: i64,
    /// When its removal was accepted: from then on nobody sees it.
    pub removed_at: Option<Timestamp>,
    /// When it was removed: from then on its name is free.
    pub deleted_at: Option<Timestamp>,
}

/// A user with a role of their own on a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentCollaborator {
    /// The user.
    pub user_id: AccountId,
    /// The user's name.
    pub username: OwnerName,
    /// What they may do.
    pub role: DeploymentRole,
    /// Since when.
    pub added_at: Timestamp,
}

/// Why a backup was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackupKind {
    /// Every night.
    Nightly,
    /// Asked for.
    Manual,
    /// When the deployment was shut down.
    Final,
}

/// A complete, verified backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// Of which deployment.
    pub deployment_id: DeploymentId,
    /// Its name: when it was taken.
    pub id: BackupId,
    /// Why.
    pub kind: BackupKind,
    /// What is in it, in the order of the deployment's databases.
    pub databases: Vec<CopiedDatabase>,
    /// When it may be removed.
    pub expires_at: Timestamp,
}

impl Backup {
    /// Bytes of all its files.
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
