//! Errors of the use cases. They contain no HTTP terms, and keep the cause as `source`.

use branchyard_domain::errors::{AccessError, ExternalFault, PortError};
use branchyard_domain::ports::{BlobsError, EngineError, MetadataError};

use crate::ports::ProvisionError;
use crate::values::Usd;

/// A property of a deployment or an instance that a caller chooses. Adapters know the name of its field in their API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeploymentField {
    /// The cloud.
    Cloud,
    /// The zone of the cloud.
    Zone,
    /// The instance type.
    InstanceType,
    /// The storage option.
    VolumeType,
    /// The size of the volume.
    VolumeSize,
    /// The backup that an instance starts from.
    Backup,
    /// The name of the first database.
    Database,
}

/// An error of a use case of deployments.
#[derive(Debug, thiserror::Error)]
pub enum DeploymentError {
    /// The call needs a credential and has none.
    #[error("this needs a credential")]
    SignInRequired,
    /// The deployment is absent, deleted or hidden. The caller cannot distinguish these cases.
    #[error("no deployment {0}")]
    NoSuchDeployment(String),
    /// The owner does not exist, or the caller may not list its deployments.
    #[error("no owner {0}")]
    NoSuchOwner(String),
    /// The deployment is visible, but the caller's role is too low. The value names the role that is needed.
    #[error("this needs the {0} role on the deployment")]
    Denied(&'static str),
    /// The deployment is visible, but only its owning user, or an owner of its organization, may do this.
    #[error("only the user who owns the deployment, or an owner of its organization, may discard its data")]
    OwnerOnly,
    /// The caller may not create deployments for this owner. The owner may or may not exist.
    #[error("you may not create deployments for '{0}'")]
    MayNotCreateFor(String),
    /// The database to clone, or its ref, is absent or hidden.
    #[error("no database {0} that you can read")]
    NoSuchSource(String),
    /// A part of the deployment does not exist.
    #[error("no {what} {name} in the deployment")]
    Absent {
        /// The kind of part, such as `backup`.
        what: &'static str,
        /// The name or id in the request.
        name: String,
    },
    /// The operation does not exist, or the caller may not read it.
    #[error("no such operation")]
    NoSuchOperation,
    /// The owner already has a deployment of this name, or the deployment already has a database of this name.
    #[error("'{0}' already exists")]
    NameTaken(String),
    /// A field is well-formed, but its value is not acceptable.
    #[error("{why}")]
    Field {
        /// The property that the value belongs to.
        field: DeploymentField,
        /// Explanation for the caller.
        why: String,
    },
    /// A field breaks a rule that depends on the state of the deployment.
    #[error("{why}")]
    BadField {
        /// The property that the value belongs to.
        field: DeploymentField,
        /// Explanation for the caller.
        why: String,
    },
    /// Settings that do not exist, or that cannot have the requested value: the key and an explanation of each.
    #[error("{} of the settings are invalid", .0.len())]
    Settings(Vec<(String, String)>),
    /// The request is well-formed but not possible. The text explains why.
    #[error("{0}")]
    Unprocessable(String),
    /// The request conflicts with the current state of the deployment. A later request may succeed.
    #[error("{0}")]
    Conflict(String),
    /// The server does not offer the requested feature.
    #[error("{0}")]
    Unsupported(String),
    /// The instance would exceed the spending limit of the owner. All amounts are per month.
    #[error(
        "the monthly limit of the owner is {limit} USD: {committed} USD are committed, and this would add {requested} USD"
    )]
    Spending {
        /// Spending limit of the owner.
        limit: Usd,
        /// Cost of what already runs.
        committed: Usd,
        /// Cost of the requested instance.
        requested: Usd,
    },
    /// The server or the owner's quota has no room for another instance.
    #[error("{0}")]
    Capacity(String),
    /// The text that confirms a destructive request does not match. The value is the expected text.
    #[error("must be '{0}' to confirm; nothing was changed")]
    Unconfirmed(String),
    /// The deployment is not in the state that the caller expected.
    #[error("the deployment changed since it was read")]
    Changed,
    /// Access to the database to clone failed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

impl From<ProvisionError> for DeploymentError {
    fn from(error: ProvisionError) -> Self {
        match error {
            ProvisionError::Refused(why) => Self::Unprocessable(why),
            ProvisionError::Gone => Self::Conflict("the instance is not running at the moment; try again".to_owned()),
            missing @ ProvisionError::NoData { .. } => Self::Conflict(format!("{missing}; try again once it is back")),
            unavailable @ ProvisionError::Unavailable { .. } => Self::Port(unavailable.into()),
        }
    }
}

impl From<ProvisionError> for PortError {
    fn from(error: ProvisionError) -> Self {
        let is_temporary = !matches!(error, ProvisionError::Refused(_));
        Self::External(ExternalFault::new(error, is_temporary))
    }
}

impl From<MetadataError> for DeploymentError {
    fn from(error: MetadataError) -> Self {
        Self::Port(error.into())
    }
}

impl From<EngineError> for DeploymentError {
    fn from(error: EngineError) -> Self {
        Self::Port(error.into())
    }
}

impl From<BlobsError> for DeploymentError {
    fn from(error: BlobsError) -> Self {
        Self::Port(error.into())
    }
}
