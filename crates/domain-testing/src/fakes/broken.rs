//! A metadata store that always fails.

use branchyard_deployments::ports::{DeploymentStore, DeploymentTransaction};
use branchyard_domain::ports::{Metadata, MetadataError, Transaction, WriteKeys};

/// A metadata store whose transactions cannot begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokenMetadata {
    /// Every call returns [`MetadataError::Fault`].
    Faulty,
    /// Every call returns [`MetadataError::Unavailable`].
    Unreachable,
}

impl BrokenMetadata {
    fn error(self) -> MetadataError {
        match self {
            Self::Faulty => MetadataError::Fault { context: "begin", source: "planned by a test".into() },
            Self::Unreachable => MetadataError::Unavailable("planned by a test".into()),
        }
    }
}

impl DeploymentStore for BrokenMetadata {
    fn read_deployments(&self) -> Result<Box<dyn DeploymentTransaction + '_>, MetadataError> {
        Err(self.error())
    }

    fn write_deployments(&self, _: &WriteKeys) -> Result<Box<dyn DeploymentTransaction + '_>, MetadataError> {
        Err(self.error())
    }
}

impl Metadata for BrokenMetadata {
    fn read(&self) -> Result<Box<dyn Transaction + '_>, MetadataError> {
        Err(self.error())
    }

    fn write(&self, _: &WriteKeys) -> Result<Box<dyn Transaction + '_>, MetadataError> {
        Err(self.error())
    }

    fn version(&self) -> Option<u64> {
        None
    }

    fn scrub(&self) -> Result<(), MetadataError> {
        Err(self.error())
    }
}
