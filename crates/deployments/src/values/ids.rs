//! Identifiers.

branchyard_domain::id_types! {
    /// The id of a deployment.
    DeploymentId,
    /// The id of an instance.
    InstanceId,
}
