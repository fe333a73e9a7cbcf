use actix_web::web::Data;
use branchyard_deployments::access::{Manage, Observe};
use branchyard_deployments::entities::{Deployment, RunState};
use branchyard_deployments::values::{DeploymentId, DeploymentName, ServedName};
use branchyard_deployments::{DeploymentView, NewDeployment};
use branchyard_domain::usecases::IdempotencyRecord;
use branchyard_domain::values::Timestamp;
use branchyard_http_common::{
    ApiResponse, Endpoint, Fields, HandlerError, RequestBody, RequestContext, Services, Words, audit, bound, page,
    section,
};
use branchyard_problem_details::{ErrorCode, FieldError, Problem};

use super::user::{month_of, start_of};
use super::{HandlerResult, accepted, served_name, source, time, unchanged, unsupported};
use crate::convert::{self, STATES, run_state};
use crate::openapi::examples;
use crate::{Settings, wire};
use branchyard_http_common::methods::{delete, get, patch, post};
use branchyard_openapi::Success;
use serde_json::json;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section(
        "Deployments",
        "",
        vec![
            get("/deployment-options", "getDeploymentOptions", "Options for new deployments", get_options)
                .query(&["cloud", "zone", "instance_type_id"])
                .responds(200, Success::One("DeploymentOptions"), &[400, 422]),
            post("/deployments", "createDeployment", "Create a deployment; incurs cost", create_deployment)
                .json(&CREATE_DEPLOYMENT)
                .responds(202, Success::One("Deployment"), &[400, 403, 404, 409, 413, 415, 422]),
            get(
                "/deployments/{owner}",
                "listDeployments",
                "Deployments of an owner on which the caller has a role",
                list_deployments,
            )
            .query(&["state", "page_token", "page_size"])
            .responds(200, Success::List("DeploymentSummary"), &[400, 404]),
            get("/deployments/{owner}/{deployment}", "getDeployment", "A deployment", get_deployment).responds(
                200,
                Success::One("Deployment"),
                &[404],
            ),
            patch("/deployments/{owner}/{deployment}", "updateDeployment", "Change a deployment", update_deployment)
                .json(&UPDATE_DEPLOYMENT)
                .responds(200, Success::One("Deployment"), &[400, 403, 404, 412, 413, 415]),
            delete(
                "/deployments/{owner}/{deployment}",
                "deleteDeployment",
                "Delete a stopped deployment with its backups",
                delete_deployment,
            )
            .responds(202, Success::One("OperationRef"), &[403, 404, 409]),
            post(
                "/deployments/{owner}/{deployment}/disable",
                "disableDeployment",
                "Shut a deployment down; creates a final backup and stops all charges",
                disable_deployment,
            )
            .optional_json(&DISABLE_DEPLOYMENT)
            .responds(202, Success::One("DeploymentState"), &[400, 403, 404, 409, 413, 415, 422]),
            patch(
                "/deployments/{owner}/{deployment}/expose",
                "exposeService",
                "Expose a further service",
                expose_service,
            )
            .json(&EXPOSE_SERVICE)
            .responds(202, Success::One("ExposeState"), &[400, 403, 404, 413, 415, 422]),
            get("/deployments/{owner}/{deployment}/cost", "getDeploymentCost", "Cost of a deployment", get_cost)
                .query(&["start_time", "end_time"])
                .responds(200, Success::One("Cost"), &[400, 404]),
            get(
                "/deployments/{owner}/{deployment}/database-version",
                "getDatabaseVersion",
                "The running engine version and the available ones",
                get_versions,
            )
            .responds(200, Success::One("DatabaseVersions"), &[404]),
            post(
                "/deployments/{owner}/{deployment}/database-version",
                "updateDatabaseVersion",
                "Change the engine version; not offered yet",
                update_version,
            )
            .json(&UPDATE_VERSION)
            .refuses(&[400, 403, 404, 409, 413, 415, 422]),
        ],
    )
}

const VOLUME: std::ops::RangeInclusive<u64> = 1..=2_147_483_647;
/// The longest time range of a cost report, in days.
const COST_DAYS: i64 = 366;

/// Handles `GET /deployment-options`.
pub(crate) async fn get_options(call: RequestContext) -> HandlerResult {
    call.signed_in()?;
    let (cloud, zone, kind) = call.query(|query| {
        let cloud = query.required_text("cloud").map(str::to_owned);
        let zone = query.optional("zone").map(str::to_owned);
        let kind = query.optional("instance_type_id").map(str::to_owned);
        if kind.is_some() && zone.is_none() {
            query.fault("instance_type_id", "needs zone");
        }
        Some((cloud?, zone, kind))
    })?;
    let offered = call.read(move |hub| hub.deployments().options(&cloud, zone.as_deref(), kind.as_deref())).await?;
    Ok(ApiResponse::resource(200, &convert::options(&offered)))
}

/// Handles `POST /deployments`.
pub(crate) async fn create_deployment(call: RequestContext, settings: Data<Settings>) -> HandlerResult {
    let user = call.signed_in()?;
    let key = call.key(&user).await?;
    let wanted = call.json(&CREATE_DEPLOYMENT)?;
    call.effect(
        key,
        move |hub, once| hub.deployments().create(&user, wanted, once),
        move |view| {
            let location = settings.deployment(&view.deployment.locator);
            ApiResponse::data(202, &convert::deployment(view, &settings)).at(location)
        },
    )
    .await
}

const CLUSTERS: Words<&str> = Words::inline(&[
    ("dolt", "dolt"),
    ("doltgres", "doltgres"),
    ("mysql_with_dolt_replicas", "mysql_with_dolt_replicas"),
]);

const CREATE_DEPLOYMENT: RequestBody<NewDeployment> = RequestBody::open("CreateDeploymentRequest", new_deployment)
    .example(|| {
        json!({
            "owner": "ada", "name": "gauges", "cloud": "local", "zone": "local", "instance_type_id": "local.small",
            "volume_type_id": "local.standard", "volume_size_gb": 10, "from_database": examples::origin(),
        })
    });

fn new_deployment(fields: &Fields<'_>) -> Option<NewDeployment> {
    fields.describe_object(|| json!({"description": "A deployment to create."}));
    let owner = fields.required_string("owner");
    let name = fields.schema(|| json!({"pattern": "^[-a-zA-Z0-9_]{3,32}$"})).required_as("name", DeploymentName::parse);
    let cloud = fields.required_string("cloud");
    let zone = fields.required_string("zone");
    let instance_type = fields.required_string("instance_type_id");
    let volume_type = fields.required_string("volume_type_id");
    let volume_gb = fields
        .schema(|| json!({"format": "int32"}))
        .required_int("volume_size_gb", &VOLUME)
        .and_then(|size| u32::try_from(size).ok());
    let cluster = fields
        .doc("`dolt`. `doltgres` and `mysql_with_dolt_replicas` are refused as unsupported.")
        .optional_choice("cluster_type", &CLUSTERS);
    let replicas = fields
        .schema(|| json!({"format": "int32", "maximum": null}))
        .optional_int("replicas", &(0..=1_000))
        .and_then(|count| u32::try_from(count).ok());
    let public_tls = fields.optional_bool("webpki_cert").unwrap_or(false);
    let remotesapi = fields.optional_bool("expose_remotesapi_endpoint").unwrap_or(false);
    let mcp = fields.optional_bool("expose_mcp").unwrap_or(false);
    let stats = fields.optional_bool("expose_stats").unwrap_or(false);
    let source = source(fields);
    let database =
        fields.schema(served_name).doc("Name of the first database.").optional_as("database", ServedName::parse);
    if remotesapi && !public_tls {
        fields.fault("expose_remotesapi_endpoint", "needs webpki_cert");
    }
    Some(NewDeployment {
        owner: owner?,
        name: name?,
        cloud: cloud?,
        zone: zone?,
        instance_type: instance_type?,
        volume_type: volume_type?,
        volume_gb: volume_gb?,
        other_cluster: cluster.filter(|cluster| *cluster != "dolt").map(str::to_owned),
        replicas: replicas.unwrap_or(0),
        public_tls,
        remotesapi,
        mcp,
        stats,
        source: source?,
        database,
    })
}

/// Handles `GET /deployments/{owner}`.
pub(crate) async fn list_deployments(call: RequestContext) -> HandlerResult {
    let user = call.signed_in()?;
    let owner = call.segment("owner");
    let (page_request, state) = call.query(|query| {
        let page = query.page(30, 100);
        let state = query.choice("state", STATES);
        Some((page?, state))
    })?;
    let bound = bound(&["deployments", &owner.to_ascii_lowercase(), state.map_or("", run_state)]);
    let before: Option<String> = call.page_key(&page_request, &bound)?;
    let before = before.and_then(|id| DeploymentId::parse(&id).ok());
    let fetch = page_request.fetch();
    let found = call.read(move |hub| hub.deployments().list(&user, &owner, state, before, fetch)).await?;
    page(&call.state, &page_request, &bound, found, convert::summary, |view| view.deployment.id.to_string())
}

fn shown(view: &DeploymentView, settings: &Settings) -> ApiResponse {
    let answer = ApiResponse::resource(200, &convert::deployment(view, settings));
    match view.deployment.state {
        RunState::Starting | RunState::Stopping => answer.retry_after(1),
        RunState::Started | RunState::Stopped => answer,
    }
}

/// Handles `GET …`.
pub(crate) async fn get_deployment(call: RequestContext, settings: Data<Settings>) -> HandlerResult {
    let access = call.deployment::<Observe>().await?;
    let view = call.read(move |hub| hub.deployments().get(&access)).await?;
    Ok(shown(&view, &settings))
}

const UPDATE_DEPLOYMENT: RequestBody<bool> = RequestBody::closed("UpdateDeploymentRequest", |fields| {
    fields.describe_object(|| json!({"description": "Changes to a deployment."}));
    fields.required_bool("disable_automatic_dolt_updates")
})
.example(|| json!({"disable_automatic_dolt_updates": true}));

/// Handles `PATCH …`.
pub(crate) async fn update_deployment(call: RequestContext, settings: Data<Settings>) -> HandlerResult {
    let access = call.deployment::<Manage>().await?;
    let keep = call.json(&UPDATE_DEPLOYMENT)?;
    let if_match = call.if_match();
    let own = settings.clone();
    let view = call
        .write(move |hub| {
            let as_seen = |view: &DeploymentView| unchanged(if_match.as_ref(), &convert::deployment(view, &own));
            hub.deployments().keep_version(&access, keep, Some(&as_seen))
        })
        .await?;
    Ok(ApiResponse::resource(200, &convert::deployment(&view, &settings)))
}

/// Handles `DELETE …`.
pub(crate) async fn delete_deployment(call: RequestContext, settings: Data<Settings>) -> HandlerResult {
    let access = call.deployment::<Manage>().await?;
    let operation = call.write(move |hub| hub.deployments().delete(&access, None)).await?;
    Ok(accepted(&operation, &settings))
}

/// The body holds the text that confirms that the data is discarded, or `None` for a final backup.
const DISABLE_DEPLOYMENT: RequestBody<Option<String>> = RequestBody::closed("DisableDeploymentRequest", |fields| {
    fields.describe_object(|| json!({"description": "How a deployment is shut down. Default: with a final backup."}));
    let discards = fields
        .doc(
            "Remove the data without a final backup, also while the deployment is stopping. Only the owning user and \
                 owners of the owning organization may.",
        )
        .optional_bool("discard_data")
        .unwrap_or(false);
    let confirm = fields.doc("The name of the deployment. Required with `discard_data`.").optional_string("confirm");
    match (discards, confirm) {
        (true, None) => {
            fields.fault("confirm", "is required with discard_data; it is the name of the deployment");
            None
        }
        (false, Some(_)) => {
            fields.fault("confirm", "needs discard_data");
            None
        }
        (_, confirm) => Some(confirm),
    }
})
.example(|| json!({"discard_data": true, "confirm": "gauges"}));

/// Handles `POST …/disable`.
pub(crate) async fn disable_deployment(call: RequestContext) -> HandlerResult {
    let access = call.deployment::<Manage>().await?;
    let key = call.key(access.who()).await?;
    let confirm = call.json(&DISABLE_DEPLOYMENT)?;
    let render = |deployment: &Deployment| ApiResponse::data(202, &convert::state_of(deployment));
    let disable = move |hub: &Services, once: Option<&IdempotencyRecord<'_, Deployment>>| match confirm {
        None => hub.deployments().disable(&access, once),
        Some(confirm) => {
            let deployment = hub.deployments().discard(&access, &confirm, once)?;
            audit::data_discarded(&access.who().name, &deployment.locator);
            Ok(deployment)
        }
    };
    call.effect(key, disable, render).await
}

const EXPOSE_SERVICE: RequestBody<(&'static str, bool)> = RequestBody::closed("ExposeServiceRequest", |fields| {
    fields.describe_object(|| json!({"description": "Exactly one of the services."}));
    let remotesapi = fields.optional_bool("remotesapi");
    let mcp = fields.optional_bool("mcp");
    match (remotesapi, mcp) {
        (Some(wanted), None) => Some(("remotesapi", wanted)),
        (None, Some(wanted)) => Some(("mcp", wanted)),
        _ => {
            fields.fault_here("must have exactly one of remotesapi and mcp");
            None
        }
    }
})
.example(|| json!({"mcp": false}));

/// Handles `PATCH …/expose`.
pub(crate) async fn expose_service(call: RequestContext) -> HandlerResult {
    let access = call.deployment::<Manage>().await?;
    let (service, requested) = call.json(&EXPOSE_SERVICE)?;
    let deployment = access.deployment();
    if requested && service == "remotesapi" && !deployment.public_tls {
        let problem = Problem::new(ErrorCode::ValidationFailed, "remotesapi: needs webpki_cert");
        return Err(problem.with_error(FieldError::at_pointer("/remotesapi", "needs webpki_cert")).into());
    }
    if requested {
        return Err(unsupported(&format!("the {service} service")));
    }
    let state = wire::ExposeState {
        owner: deployment.locator.owner.to_string(),
        name: deployment.locator.name.to_string(),
        service,
        requested,
    };
    Ok(ApiResponse::data(202, &state))
}

/// Handles `GET …/cost`.
pub(crate) async fn get_cost(call: RequestContext) -> HandlerResult {
    let access = call.deployment::<Observe>().await?;
    let now = call.state.services.now();
    let month = month_of(now).map_or(now, start_of);
    let (from, to) = call.query(|query| {
        let from = time(query, "start_time").unwrap_or(month);
        let to = time(query, "end_time").unwrap_or(now);
        check_range(query, from, to, COST_DAYS);
        Some((from, to))
    })?;
    let cost = call.read(move |hub| hub.deployments().cost(&access, from, to)).await?;
    Ok(ApiResponse::resource(200, &convert::cost(&cost)))
}

/// Records a validation error if `from` is after `to`, or if the range is longer than `days` days.
pub(super) fn check_range(query: &branchyard_http_common::Query<'_>, from: Timestamp, to: Timestamp, days: i64) {
    if from > to {
        query.fault("start_time", "is after end_time");
    } else if from.plus_seconds(days * 86_400) < to {
        query.fault("start_time", format!("is more than {days} days before end_time"));
    }
}

/// Handles `GET …/database-version`.
pub(crate) async fn get_versions(call: RequestContext) -> HandlerResult {
    let access = call.deployment::<Observe>().await?;
    let (current, available) = call.read(move |hub| hub.deployments().versions(&access)).await?;
    let versions = wire::DatabaseVersions { current: current.unwrap_or_default(), available };
    Ok(ApiResponse::resource(200, &versions))
}

const UPDATE_VERSION: RequestBody<String> = RequestBody::closed("UpdateVersionRequest", |fields| {
    fields.describe_object(|| json!({"description": "The engine to run."}));
    fields.schema(|| json!({"minLength": null})).required_text("version")
})
.example(|| json!({"version": "0.51.6"}));

/// Handles `POST …/database-version`. A version that is not available is a validation error, and so far a change to an
/// available version is not supported either.
pub(crate) async fn update_version(call: RequestContext) -> Result<ApiResponse, HandlerError> {
    let access = call.deployment::<Manage>().await?;
    let _key = call.key(access.who()).await?;
    let version = call.json(&UPDATE_VERSION)?;
    let (_, available) = call.read(move |hub| hub.deployments().versions(&access)).await?;
    if !available.contains(&version) {
        let why = format!("must be one of {}", available.join(", "));
        let problem = Problem::new(ErrorCode::ValidationFailed, format!("version: {why}"));
        return Err(problem.with_error(FieldError::at_pointer("/version", why)).into());
    }
    Err(unsupported("version rolls"))
}
