//! Errors. No HTTP words; the cause is kept as `source`.

use branchyard_domain::errors::{AccessError, ExternalFault, Fault};
use branchyard_domain::ports::{BlobsError, EngineError, MetadataError};

use crate::ports::ProvisionError;
use crate::values::Usd;

/// Deployments.
#[derive(Debug, thiserror::Error)]
pub enum DeploymentError {
    /// A credential is needed and there is none.
    #[error("this needs a credential")]
    SignInRequired,
    /// Absent, deleted or hidden: the caller cannot tell which.
    #[error("no deployment {0}")]
    NoSuchDeployment(String),
    /// Nobody of that name, or nobody whose deployments the caller may list.
    #[error("no owner {0}")]
    NoSuchOwner(String),
    /// Visible, but the role is too low.
    #[error("this needs the {0} role on the deployment")]
    Denied(&'static str),
    /// The caller may not create for this owner, whether it exists or not.
    #[error("you may not create deployments for '{0}'")]
    MayNotCreateFor(String),
    /// The database to start from, or its ref, is absent or hidden.
    #[error("no database {0} that you can read")]
    NoSuchSource(String),
    /// Something of the deployment is not there.
    #[error("no {what} {name} in the deployment")]
    Absent {
        /// What.
        what: &'static str,
        /// How it was named.
        name: String,
    },
    /// No such operation, or not for this caller.
    #[error("no such operation")]
    NoSuchOperation,
    /// The owner has a deployment of that name, or the deployment a database.
    #[error("'{0}' exists already")]
    NameTaken(String),
    /// A field that is well-formed and cannot be as it is.
    #[error("{why}")]
    Field {
        /// JSON pointer of the field.
        pointer: String,
        /// What is wrong.
        why: String,
    },
    /// A field that breaks a rule which only the state tells.
    #[error("{why}")]
    BadField {
        /// JSON pointer of the field.
        pointer: String,
        /// What is wrong.
        why: String,
    },
    /// Settings that do not exist, or values they cannot have.
    #[error("{} of the settings cannot be as given", .0.len())]
    Settings(Vec<(String, String)>),
    /// The state forbids it.
    #[error("{0}")]
    Unprocessable(String),
    /// Something else holds the state.
    #[error("{0}")]
    Conflict(String),
    /// Not offered here.
    #[error("{0}")]
    Unsupported(String),
    /// It would cost more than the owner may spend; amounts per month.
    #[error("the owner may spend {limit} USD a month; {committed} are committed, and this would add {requested}")]
    Spending {
        /// The limit.
        limit: Usd,
        /// What runs already.
        committed: Usd,
        /// What this would add.
        requested: Usd,
    },
    /// There is no room.
    #[error("{0}")]
    Capacity(String),
    /// It is not as the caller saw it.
    #[error("the deployment changed since it was read")]
    Changed,
    /// Getting at the database to start from failed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A port failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl From<ProvisionError> for DeploymentError {
    fn from(error: ProvisionError) -> Self {
        match error {
            ProvisionError::Refused(why) => Self::Unprocessable(why),
            ProvisionError::Gone => Self::Conflict("the instance is not running just now; try again".to_owned()),
            unavailable @ ProvisionError::Unavailable { .. } => Self::Fault(unavailable.into()),
        }
    }
}

impl From<ProvisionError> for Fault {
    fn from(error: ProvisionError) -> Self {
        let is_temporary = !matches!(error, ProvisionError::Refused(_));
        Self::External(ExternalFault::new(error, is_temporary))
    }
}

impl From<MetadataError> for DeploymentError {
    fn from(error: MetadataError) -> Self {
        Self::Fault(error.into())
    }
}

impl From<EngineError> for DeploymentError {
    fn from(error: EngineError) -> Self {
        Self::Fault(error.into())
    }
}

impl From<BlobsError> for DeploymentError {
    fn from(error: BlobsError) -> Self {
        Self::Fault(error.into())
    }
}
