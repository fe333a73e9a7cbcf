use actix_web::web::Data;
use branchyard_deployments::NewInstance;
use branchyard_deployments::access::{Manage, Observe};
use branchyard_deployments::values::{BackupId, InstanceId};
use branchyard_http_common::{ApiResponse, Fields, RequestContext};

use super::{HandlerResult, accepted, unsupported, whole};
use crate::convert::{self, run_state};
use crate::{Settings, wire};

/// `GET …/instances`
pub(crate) async fn list_instances(call: RequestContext) -> HandlerResult {
    let access = call.deployment::<Observe>().await?;
    let instances = call.read(move |hub| hub.deployments().instances(&access)).await?;
    Ok(whole(&instances.iter().map(convert::instance).collect::<Vec<_>>()))
}

/// `POST …/instances`
pub(crate) async fn create_instance(call: RequestContext) -> HandlerResult {
    let access = call.deployment::<Manage>().await?;
    let key = call.key(access.who()).await?;
    let wanted = call.open_body(new_instance)?;
    call.effect(
        key,
        move |hub, once| hub.deployments().start(&access, &wanted, once),
        |instance| ApiResponse::data(202, &convert::instance(instance)),
    )
    .await
}

fn new_instance(fields: &Fields<'_>) -> Option<NewInstance> {
    let instance_type = fields.required_string("instance_type_id");
    let volume_type = fields.required_string("volume_type_id");
    let volume_gb =
        fields.required_int("volume_size_gb", &(1..=2_147_483_647)).and_then(|size| u32::try_from(size).ok());
    let backup = fields.optional_as("backup_id", BackupId::parse);
    Some(NewInstance { instance_type: instance_type?, volume_type: volume_type?, volume_gb: volume_gb?, backup })
}

/// `DELETE …/instances/{instance_id}`
pub(crate) async fn delete_instance(call: RequestContext) -> HandlerResult {
    let access = call.deployment::<Manage>().await?;
    let id = call.segment("instance_id");
    let instance = call.write(move |hub| hub.deployments().remove_instance(&access, &id)).await?;
    let state = wire::InstanceState { id: instance.id.to_string(), state: run_state(instance.state) };
    Ok(ApiResponse::data(202, &state))
}

/// `POST …/instances/{instance_id}/reboot`
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

/// `POST …/change-primary`: there are no replicas to change to.
pub(crate) async fn change_primary(call: RequestContext) -> HandlerResult {
    let access = call.deployment::<Manage>().await?;
    let _key = call.key(access.who()).await?;
    call.body(|fields| fields.required_as("current_primary_id", InstanceId::parse))?;
    Err(unsupported("read replicas, so the primary cannot change"))
}
