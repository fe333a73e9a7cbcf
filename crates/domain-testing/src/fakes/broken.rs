//! A metadata store that cannot be used.

use branchyard_deployments::ports::{DeploymentStore, DeploymentTransaction};
use branchyard_domain::ports::{Metadata, MetadataError, Transaction};

/// A metadata store that fails whatever it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokenMetadata {
    /// It is at fault.
    Faulty,
    /// It cannot be reached.
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

    fn write_deployments(&self) -> Result<Box<dyn DeploymentTransaction + '_>, MetadataError> {
        Err(self.error())
    }
}

impl Metadata for BrokenMetadata {
    fn read(&self) -> Result<Box<dyn Transaction + '_>, MetadataError> {
        Err(self.error())
    }

    fn write(&self) -> Result<Box<dyn Transaction + '_>, MetadataError> {
        Err(self.error())
    }

    fn version(&self) -> Option<u64> {
        None
    }
}
