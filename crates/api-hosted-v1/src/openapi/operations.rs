//! The table of operations.

/// What `data` is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sends {
    /// Not in an envelope.
    Document,
    /// A file.
    File,
    /// Always refused.
    Nothing,
    One(&'static str),
    List(&'static str),
}

/// One operation.
#[derive(Debug)]
pub(super) struct Docs {
    pub(super) path: &'static str,
    pub(super) method: &'static str,
    pub(super) id: &'static str,
    pub(super) tag: &'static str,
    pub(super) summary: &'static str,
    pub(super) query: &'static [&'static str],
    pub(super) body: Option<&'static str>,
    pub(super) status: u16,
    pub(super) sends: Sends,
    /// Statuses of refusals besides 401, 405, 429, 500, 503.
    pub(super) own: &'static [u16],
}

macro_rules! operations {
    ($($path:literal {$(
        $method:ident $id:literal $tag:literal $summary:literal [$($query:literal),*] $body:expr => $status:literal $sends:expr, [$($own:literal),*];
    )+})+) => {
        pub(super) const OPERATIONS: &[Docs] = &[$($(Docs {
            path: $path,
            method: stringify!($method),
            id: $id,
            tag: $tag,
            summary: $summary,
            query: &[$($query),*],
            body: $body,
            status: $status,
            sends: $sends,
            own: &[$($own),*],
        },)+)+];
    };
}

use Sends::{Document, File, List, Nothing, One};

operations! {
    "/openapi.json" {
        get "getOpenapiDocument" "Document" "This document" [] None => 200 Document, [];
    }
    "/user" {
        get "getUser" "User" "The user the token stands for" [] None => 200 One("User"), [];
    }
    "/user/usage" {
        get "getUsage" "User" "Cost of all owners the caller administers, by month" ["month"] None => 200 One("Usage"), [400];
    }
    "/deployment-options" {
        get "getDeploymentOptions" "Deployments" "What deployments can be made of" ["cloud", "zone", "instance_type_id"] None => 200 One("DeploymentOptions"), [400, 422];
    }
    "/deployments" {
        post "createDeployment" "Deployments" "Create a deployment; incurs cost" [] Some("CreateDeploymentRequest") => 202 One("Deployment"), [400, 403, 404, 409, 413, 415, 422];
    }
    "/deployments/{owner}" {
        get "listDeployments" "Deployments" "Deployments of an owner that the caller has a role on" ["state", "page_token", "page_size"] None => 200 List("DeploymentSummary"), [400, 404];
    }
    "/deployments/{owner}/{deployment}" {
        get "getDeployment" "Deployments" "A deployment" [] None => 200 One("Deployment"), [404];
        patch "updateDeployment" "Deployments" "Change a deployment" [] Some("UpdateDeploymentRequest") => 200 One("Deployment"), [400, 403, 404, 412, 413, 415];
        delete "deleteDeployment" "Deployments" "Delete a stopped deployment with its backups" [] None => 202 One("OperationRef"), [403, 404, 409];
    }
    "/deployments/{owner}/{deployment}/disable" {
        post "disableDeployment" "Deployments" "Shut a deployment down; its data becomes a backup, and cost ends" [] None => 202 One("DeploymentState"), [400, 403, 404, 409, 413, 415, 422];
    }
    "/deployments/{owner}/{deployment}/expose" {
        patch "exposeService" "Deployments" "Expose a further service" [] Some("ExposeServiceRequest") => 202 One("ExposeState"), [400, 403, 404, 413, 415, 422];
    }
    "/deployments/{owner}/{deployment}/cost" {
        get "getDeploymentCost" "Deployments" "What a deployment cost" ["start_time", "end_time"] None => 200 One("Cost"), [400, 404];
    }
    "/deployments/{owner}/{deployment}/database-version" {
        get "getDatabaseVersion" "Deployments" "The engine that runs, and those that could" [] None => 200 One("DatabaseVersions"), [404];
        post "updateDatabaseVersion" "Deployments" "Run another engine; not offered yet" [] Some("UpdateVersionRequest") => 202 Nothing, [400, 403, 404, 409, 413, 415, 422];
    }
    "/deployments/{owner}/{deployment}/instances" {
        get "listInstances" "Instances" "Instances that are not stopped" [] None => 200 List("DeploymentInstance"), [404];
        post "createInstance" "Instances" "Start a stopped deployment again; incurs cost" [] Some("CreateInstanceRequest") => 202 One("DeploymentInstance"), [400, 403, 404, 409, 413, 415, 422];
    }
    "/deployments/{owner}/{deployment}/instances/{instance_id}" {
        delete "deleteInstance" "Instances" "Take an instance away; with the primary the deployment shuts down" [] None => 202 One("InstanceState"), [403, 404, 409, 422];
    }
    "/deployments/{owner}/{deployment}/instances/{instance_id}/reboot" {
        post "rebootInstance" "Instances" "Drain an instance and start it again" [] None => 202 One("OperationRef"), [400, 403, 404, 409, 413, 415, 422];
    }
    "/deployments/{owner}/{deployment}/change-primary" {
        post "changePrimary" "Instances" "Make a replica the primary; not offered yet" [] Some("ChangePrimaryRequest") => 202 Nothing, [400, 403, 404, 409, 413, 415, 422];
    }
    "/deployments/{owner}/{deployment}/backups" {
        get "listBackups" "Backups" "Complete and verified backups" [] None => 200 List("Backup"), [404];
        post "createBackup" "Backups" "Make a backup" [] None => 202 One("OperationRef"), [400, 403, 404, 409, 413, 415, 422];
    }
    "/deployments/{owner}/{deployment}/backups/{backup_id}" {
        delete "deleteBackup" "Backups" "Remove a backup" [] None => 200 One("Backup"), [403, 404, 409];
    }
    "/deployments/{owner}/{deployment}/backups/{backup_id}/databases/{database}" {
        get "downloadBackup" "Backups" "The file of a database" [] None => 200 File, [403, 404];
    }
    "/deployments/{owner}/{deployment}/config" {
        get "getConfig" "Settings" "All settings" [] None => 200 One("DeploymentConfig"), [404];
        patch "updateConfig" "Settings" "Change settings, all or none" [] Some("UpdateConfigRequest") => 200 One("DeploymentConfig"), [400, 403, 404, 412, 413, 415, 422];
    }
    "/deployments/{owner}/{deployment}/dolt-credentials" {
        get "getDoltCredentials" "Settings" "Credentials for another hub; there are none" [] None => 200 Nothing, [403, 404];
        post "createDoltCredentials" "Settings" "Make credentials for another hub; not offered" [] None => 202 Nothing, [400, 403, 404, 413, 415, 422];
        delete "deleteDoltCredentials" "Settings" "Remove credentials for another hub; there are none" [] None => 202 Nothing, [403, 404];
    }
    "/deployments/{owner}/{deployment}/dolt-credentials/reroll" {
        post "rerollDoltCredentials" "Settings" "Exchange credentials for another hub; there are none" [] None => 202 Nothing, [400, 403, 404, 413, 415];
    }
    "/deployments/{owner}/{deployment}/logs" {
        get "listLogs" "Observation" "What an instance wrote" ["of_instance", "lines", "start_time", "end_time", "page_token", "prev_page_token"] None => 200 List("LogLine"), [400, 404];
    }
    "/deployments/{owner}/{deployment}/service-windows" {
        get "listServiceWindows" "Settings" "When healthy instances may be restarted unasked" [] None => 200 List("ServiceWindow"), [404];
        put "updateServiceWindows" "Settings" "Own service windows; not offered yet" [] Some("UpdateServiceWindowsRequest") => 200 Nothing, [400, 403, 404, 413, 415, 422];
    }
    "/deployments/{owner}/{deployment}/metrics" {
        get "listMetrics" "Observation" "Metrics there are" [] None => 200 List("Metric"), [404];
    }
    "/deployments/{owner}/{deployment}/metrics/{metric}" {
        get "getMetric" "Observation" "A metric over time" ["of_instance", "start_time", "end_time"] None => 200 One("MetricData"), [400, 404];
    }
    "/deployments/{owner}/{deployment}/collaborators" {
        get "listCollaborators" "Collaborators" "People with a role of their own" [] None => 200 List("Collaborator"), [403, 404];
    }
    "/deployments/{owner}/{deployment}/collaborators/{username}" {
        put "putCollaborator" "Collaborators" "Give somebody a role" [] Some("PutCollaboratorRequest") => 200 One("Collaborator"), [400, 403, 404, 413, 415, 422];
        delete "removeCollaborator" "Collaborators" "Take somebody's role away, or leave" [] None => 200 One("Collaborator"), [403, 404];
    }
    "/deployments/{owner}/{deployment}/databases" {
        get "listDatabases" "Databases" "Databases of a deployment" [] None => 200 List("DeploymentDatabase"), [404, 409, 422];
        post "addDatabase" "Databases" "Add a database, empty or as a clone" [] Some("AddDatabaseRequest") => 201 One("DeploymentDatabase"), [400, 403, 404, 409, 413, 415, 422];
    }
    "/deployments/{owner}/{deployment}/databases/{database}" {
        delete "dropDatabase" "Databases" "Take a database away with all that is in it" [] None => 200 One("DeploymentDatabase"), [403, 404, 409, 422];
    }
    "/deployments/{owner}/{deployment}/pulls" {
        get "listPulls" "Pulls" "Pulls of a database; there are none yet" ["of_database", "pull_state", "query"] None => 200 List("Pull"), [400, 404];
        post "createPull" "Pulls" "Open a pull; not offered yet" [] None => 201 Nothing, [400, 403, 404, 413, 415, 422];
    }
    "/deployments/{owner}/{deployment}/pulls/{pull_id}" {
        get "getPull" "Pulls" "A pull; there are none yet" [] None => 200 Nothing, [404];
        patch "updatePull" "Pulls" "Change a pull; there are none yet" [] None => 200 Nothing, [400, 403, 404, 413, 415];
    }
    "/deployments/{owner}/{deployment}/pulls/{pull_id}/comments" {
        get "listPullComments" "Pulls" "Comments on a pull; there are none yet" [] None => 200 Nothing, [404];
        post "createPullComment" "Pulls" "Comment on a pull; there are none yet" [] None => 201 Nothing, [400, 403, 404, 413, 415];
    }
    "/deployments/{owner}/{deployment}/pulls/{pull_id}/logs" {
        get "listPullLogs" "Pulls" "What happened to a pull; there are none yet" [] None => 200 Nothing, [404];
    }
    "/deployments/{owner}/{deployment}/pulls/{pull_id}/merge" {
        post "mergePull" "Pulls" "Merge a pull; there are none yet" [] None => 202 Nothing, [400, 403, 404, 413, 415];
    }
    "/deployments/{owner}/{deployment}/operations" {
        get "listOperations" "Operations" "Operations of a deployment" ["status", "type", "page_token", "page_size"] None => 200 List("Operation"), [400, 404];
    }
    "/operations/{operation_id}" {
        get "getOperation" "Operations" "An operation" [] None => 200 One("Operation"), [404];
    }
}
