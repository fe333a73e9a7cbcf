use actix_web::web::Data;
use branchyard_deployments::NewInstance;
use branchyard_deployments::access::{Manage, Observe};
use branchyard_deployments::values::{BackupId, InstanceId};
use branchyard_http_common::{ApiResponse, Endpoint, Fields, RequestBody, RequestContext, section};

use super::{HandlerResult, accepted, unsupported, whole};
use crate::convert::{self, run_state};
use crate::openapi::examples;
use crate::{Settings, wire};
use branchyard_http_common::methods::{delete, get, post};
use branchyard_openapi::Success;
use serde_json::json;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section(
        "Instances",
        "/deployments/{owner}/{deployment}",
        vec![
            get("/instances", "listInstances", "Instances that are not stopped", list_instances).responds(
                200,
                Success::List("DeploymentInstance"),
                &[404],
            ),
            post("/instances", "createInstance", "Start a stopped deployment again; incurs cost", create_instance)
                .json(&CREATE_INSTANCE)
                .responds(202, Success::One("DeploymentInstance"), &[400, 403, 404, 409, 413, 415, 422]),
            delete(
                "/instances/{instance_id}",
                "deleteInstance",
                "Remove an instance; removing the primary shuts the deployment down",
                delete_instance,
            )
            .responds(202, Success::One("InstanceState"), &[403, 404, 409, 422]),
            post(
                "/instances/{instance_id}/reboot",
                "rebootInstance",
                "Reboot an instance after draining it",
                reboot_instance,
            )
            .responds(202, Success::One("OperationRef"), &[400, 403, 404, 409, 413, 415, 422]),
            post("/change-primary", "changePrimary", "Promote a replica to primary; not offered yet", change_primary)
                .json(&CHANGE_PRIMARY)
                .refuses(&[400, 403, 404, 409, 413, 415, 422]),
        ],
    )
}

/// Handles `GET …/instances`.
pub(crate) async fn list_instances(call: RequestContext) -> HandlerResult {
    let access = call.deployment::<Observe>().await?;
    let instances = call.read(move |hub| hub.deployments().instances(&access)).await?;
    Ok(whole(&instances.iter().map(convert::instance).collect::<Vec<_>>()))
}

/// Handles `POST …/instances`.
pub(crate) async fn create_instance(call: RequestContext) -> HandlerResult {
    let access = call.deployment::<Manage>().await?;
    let key = call.key(access.who()).await?;
    let wanted = call.json(&CREATE_INSTANCE)?;
    call.effect(
        key,
        move |hub, once| hub.deployments().start(&access, &wanted, once),
        |instance| ApiResponse::data(202, &convert::instance(instance)),
    )
    .await
}

const CREATE_INSTANCE: RequestBody<NewInstance> =
    RequestBody::open("CreateInstanceRequest", new_instance).example(|| {
        json!({
            "instance_type_id": "local.small", "volume_type_id": "local.standard", "volume_size_gb": 10,
            "backup_id": "20261120T020000.000",
        })
    });

fn new_instance(fields: &Fields<'_>) -> Option<NewInstance> {
    fields.describe_object(|| json!({"description": "The instance with which a stopped deployment starts again."}));
    let instance_type = fields.required_string("instance_type_id");
    let volume_type = fields.required_string("volume_type_id");
    let volume_gb = fields
        .schema(|| json!({"format": "int32"}))
        .required_int("volume_size_gb", &(1..=2_147_483_647))
        .and_then(|size| u32::try_from(size).ok());
    let backup = fields
        .doc("The backup to start from. Default: start empty.")
        .schema(|| json!({"pattern": r"^\d{8}T\d{6}\.\d{3}$"}))
        .optional_as("backup_id", BackupId::parse);
    Some(NewInstance { instance_type: instance_type?, volume_type: volume_type?, volume_gb: volume_gb?, backup })
}

/// Handles `DELETE …/instances/{instance_id}`.
pub(crate) async fn delete_instance(call: RequestContext) -> HandlerResult {
    let access = call.deployment::<Manage>().await?;
    let id = call.segment("instance_id");
    let instance = call.write(move |hub| hub.deployments().remove_instance(&access, &id)).await?;
    let state = wire::InstanceState { id: instance.id.to_string(), state: run_state(instance.state) };
    Ok(ApiResponse::data(202, &state))
}

/// Handles `POST …/instances/{instance_id}/reboot`.
pub(crate) async fn reboot_instance(call: RequestContext, settings: Data<Settings>) -> HandlerResult {
    let access = call.deployment::<Manage>().await?;
    let key = call.key(access.who()).await?;
    let id = call.segment("instance_id");
    call.effect(
        key,
        move |hub, once| hub.deployments().reboot(&access, &id, once),
        move |operation| accepted(operation, &settings),
    )
    .await
}

const CHANGE_PRIMARY: RequestBody<InstanceId> = RequestBody::closed("ChangePrimaryRequest", |fields| {
    fields.describe_object(|| json!({"description": "A change of the primary."}));
    fields.schema(|| json!({"format": "uuid"})).required_as("current_primary_id", InstanceId::parse)
})
.example(|| json!({"current_primary_id": examples::INSTANCE}));

/// Handles `POST …/change-primary`. Not supported, because deployments have no replicas.
pub(crate) async fn change_primary(call: RequestContext) -> HandlerResult {
    let access = call.deployment::<Manage>().await?;
    let _key = call.key(access.who()).await?;
    call.json(&CHANGE_PRIMARY)?;
    Err(unsupported("read replicas, so the primary cannot change"))
}
