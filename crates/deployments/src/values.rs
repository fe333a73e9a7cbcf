//! Values: types that are valid by construction.

mod backup;
mod ids;
mod money;
mod names;
mod settings;

pub use backup::BackupId;
pub use ids::{DeploymentId, InstanceId};
pub use money::{HOURS_PER_MONTH, Usd};
pub use names::{DeploymentName, ServedName};
pub use settings::{Applied, Rule, Setting, Settings};
