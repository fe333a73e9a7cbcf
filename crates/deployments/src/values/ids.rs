//! Identifiers.

branchyard_domain::id_types! {
    /// A deployment.
    DeploymentId,
    /// A process of a deployment.
    InstanceId,
}
