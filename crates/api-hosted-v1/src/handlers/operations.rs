use branchyard_deployments::access::Observe;
use branchyard_deployments::entities::DeploymentOperation;
use branchyard_deployments::ports::{DeploymentOperationFilter, DeploymentOperationKind};
use branchyard_domain::ports::OperationState;
use branchyard_domain::values::OperationId;
use branchyard_http_common::{ApiResponse, Endpoint, RequestContext, bound, page, section};

use super::HandlerResult;
use crate::convert;
use branchyard_http_common::methods::get;
use branchyard_openapi::Success;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section(
        "Operations",
        "",
        vec![
            get(
                "/deployments/{owner}/{deployment}/operations",
                "listOperations",
                "Operations of a deployment",
                list_operations,
            )
            .query(&["status", "type", "page_token", "page_size"])
            .responds(200, Success::List("Operation"), &[400, 404]),
            get("/operations/{operation_id}", "getOperation", "An operation", get_operation).responds(
                200,
                Success::One("Operation"),
                &[404],
            ),
        ],
    )
}

const STATUSES: &[(&str, OperationState)] = &[
    ("queued", OperationState::Queued),
    ("running", OperationState::Running),
    ("succeeded", OperationState::Succeeded),
    ("failed", OperationState::Failed),
];

/// All published types of operations. This server creates no operations of the types without a kind.
const TYPES: &[(&str, Option<DeploymentOperationKind>)] = &[
    ("reboot_instance", Some(DeploymentOperationKind::RebootInstance)),
    ("create_backup", Some(DeploymentOperationKind::CreateBackup)),
    ("delete_deployment", Some(DeploymentOperationKind::Delete)),
    ("restart_dolt", None),
    ("update_dolt", None),
    ("update_config", None),
    ("update_dolt_creds", None),
    ("change_primary", None),
    ("merge_pull", None),
    ("unknown", None),
];

/// Handles `GET …/operations`.
pub(crate) async fn list_operations(call: RequestContext) -> HandlerResult {
    let access = call.deployment::<Observe>().await?;
    let (page_request, state, kind, names) = call.query(|query| {
        let page = query.page(30, 100);
        let state = query.choice("status", STATUSES);
        let kind = query.choice("type", TYPES);
        let names = [query.optional("status"), query.optional("type")].map(|name| name.unwrap_or("").to_owned());
        Some((page?, state, kind, names))
    })?;
    let bound = bound(&["operations", &access.deployment().id.to_string(), &names[0], &names[1]]);
    let before: Option<String> = call.page_key(&page_request, &bound)?;
    let before = before.and_then(|id| OperationId::parse(&id).ok());
    let fetch = page_request.fetch();
    let found = match kind {
        Some(None) => Vec::new(),
        Some(Some(_)) | None => {
            let filter = DeploymentOperationFilter { state, kind: kind.flatten() };
            call.read(move |hub| hub.deployments().operations(&access, filter, before, fetch)).await?
        }
    };
    let key = |operation: &DeploymentOperation| operation.id.to_string();
    page(&call.state, &page_request, &bound, found, convert::operation, key)
}

/// Handles `GET /operations/{operation_id}`.
pub(crate) async fn get_operation(call: RequestContext) -> HandlerResult {
    let user = call.signed_in()?;
    let id = call.segment("operation_id");
    let operation = call.read(move |hub| hub.deployments().operation(&user, &id)).await?;
    let answer = ApiResponse::resource(200, &convert::operation(&operation));
    Ok(if operation.settled() { answer } else { answer.retry_after(1) })
}
