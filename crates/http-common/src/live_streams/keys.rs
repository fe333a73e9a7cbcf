//! What streams follow, and the marks of it.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use branchyard_deployments::ports::DeploymentWatchKey;
use branchyard_domain::errors::PortError;
use branchyard_domain::ports::WatchKey;
use branchyard_domain::values::Timestamp;

use crate::services::Services;

/// Something that a stream follows, or that the right to follow it depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LiveKey {
    /// Of the hub.
    Hub(WatchKey),
    /// Of deployments.
    Deployment(DeploymentWatchKey),
}

/// The subject of one stream.
#[derive(Debug, Clone)]
pub struct LiveSubject {
    /// What the rights of the viewer follow from. The stream ends when it changes.
    pub rights: Vec<LiveKey>,
    /// What the page shows.
    pub content: Vec<LiveKey>,
    /// When the session of the viewer expires.
    pub until: Option<Timestamp>,
}

/// The mark of each key that was asked for; `None` if it does not exist.
pub(super) type Marks = BTreeMap<LiveKey, Option<String>>;

/// Reads the marks of these keys.
pub(super) fn marks(services: &Services, asked: &BTreeSet<LiveKey>) -> Result<Marks, PortError> {
    let (mut of_hub, mut of_deployments) = (Vec::new(), Vec::new());
    for key in asked {
        match key {
            LiveKey::Hub(key) => of_hub.push(*key),
            LiveKey::Deployment(key) => of_deployments.push(*key),
        }
    }
    let mut marks: Marks = asked.iter().map(|key| (*key, None)).collect();
    if !of_hub.is_empty() {
        let found = services.watches().marks(&of_hub)?;
        marks.extend(found.into_iter().map(|(key, mark)| (LiveKey::Hub(key), Some(mark))));
    }
    if !of_deployments.is_empty() {
        let found = services.deployments().watch_marks(&of_deployments)?;
        marks.extend(found.into_iter().map(|(key, mark)| (LiveKey::Deployment(key), Some(mark))));
    }
    Ok(marks)
}

/// Returns a number that differs if one of the marks of `keys` differs.
pub(super) fn digest(marks: &Marks, keys: &[LiveKey]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for key in keys {
        marks.get(key).hash(&mut hasher);
    }
    hasher.finish()
}

/// Returns a number that changes with the progress of the operations among `keys` that run in this process.
pub(super) fn progress(services: &Services, keys: &[LiveKey]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for key in keys {
        if let LiveKey::Hub(WatchKey::Operation(id)) = key {
            services.operations().progress(*id).hash(&mut hasher);
        }
    }
    hasher.finish()
}
