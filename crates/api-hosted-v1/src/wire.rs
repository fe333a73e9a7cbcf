//! The JSON types of the hosted API. No domain type appears here.
//!
//! The doc comments of types and fields are published as descriptions in the OpenAPI document.

mod backup;
mod config;
mod cost;
mod deployment;
mod instance;
mod observe;
mod operation;
mod options;
mod people;
mod pull;

pub(crate) use backup::{Backup, BackupHead};
pub(crate) use config::{DatabaseVersions, DeploymentConfig, DeploymentSetting, ServiceWindow};
pub(crate) use cost::{Cost, CostItem, DeploymentUsage, OwnerUsage, Usage};
pub(crate) use deployment::{
    Collaborator, Deployment, DeploymentDatabase, DeploymentOrigin, DeploymentState, DeploymentSummary, ExposeState,
};
pub(crate) use instance::{DeploymentInstance, InstanceState};
pub(crate) use observe::{LogLine, Metric, MetricData, MetricSeries};
pub(crate) use operation::{Operation, OperationDeployment, OperationError, OperationRef, OperationResult};
pub(crate) use options::{DeploymentOptions, InstanceType, StorageOption};
pub(crate) use people::{EmailAddress, User};
pub(crate) use pull::Pull;
