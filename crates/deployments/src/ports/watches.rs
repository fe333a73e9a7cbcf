//! Marks of what open pages of deployments follow, read at once for all of them.

use std::collections::BTreeMap;

use super::DeploymentTransaction;
use crate::values::DeploymentId;
use branchyard_domain::ports::MetadataError;
use branchyard_domain::values::AccountId;

/// Something that an open page follows, or that the right to follow it depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeploymentWatchKey {
    /// What the role of a user on a deployment follows from.
    Rights(DeploymentId, AccountId),
    /// The state of a deployment, with its instances, unsettled operations and backups.
    State(DeploymentId),
}

/// A text for each key that exists. While the text stays the same, what the key stands for has not changed.
pub type DeploymentWatchMarks = BTreeMap<DeploymentWatchKey, String>;

/// Returns the marks of `keys`, by look-ups for each.
pub(super) fn look_up(
    tx: &mut dyn DeploymentTransaction,
    keys: &[DeploymentWatchKey],
) -> Result<DeploymentWatchMarks, MetadataError> {
    let mut marks = DeploymentWatchMarks::new();
    for key in keys {
        if let Some(mark) = mark(tx, *key)? {
            marks.insert(*key, mark);
        }
    }
    Ok(marks)
}

fn mark(tx: &mut dyn DeploymentTransaction, key: DeploymentWatchKey) -> Result<Option<String>, MetadataError> {
    let (DeploymentWatchKey::Rights(id, _) | DeploymentWatchKey::State(id)) = key;
    let Some(deployment) = tx.deployments().get(id)? else { return Ok(None) };
    Ok(Some(match key {
        DeploymentWatchKey::Rights(_, user) => {
            let member = tx.members().get(deployment.owner_id, user)?.map(|member| member.role);
            let collaborator = tx.deployment_collaborators().get(id, user)?.map(|collaborator| collaborator.role);
            format!("{:?} {} {member:?} {collaborator:?}", deployment.removed_at, deployment.owner_id)
        }
        DeploymentWatchKey::State(_) => {
            let instances = tx.instances().list(id)?;
            let operations = tx.deployment_operations().pending(id)?;
            let backups: Vec<_> = tx.backups().list(id)?.into_iter().map(|backup| backup.id).collect();
            format!("{} {instances:?} {operations:?} {backups:?}", deployment.version)
        }
    }))
}
