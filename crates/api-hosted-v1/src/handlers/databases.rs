use actix_web::web::Data;
use branchyard_deployments::access::{Manage, Observe};
use branchyard_deployments::values::ServedName;
use branchyard_http_common::{ApiResponse, Endpoint, RequestBody, RequestContext, section};

use super::{HandlerResult, served_name, source, whole};
use crate::openapi::examples;
use crate::{Settings, convert};
use branchyard_deployments::DeploymentSource;
use branchyard_http_common::methods::{delete, get, post};
use branchyard_openapi::Success;
use serde_json::json;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section(
        "Databases",
        "/deployments/{owner}/{deployment}/databases",
        vec![
            get("", "listDatabases", "Databases of a deployment", list_databases).responds(
                200,
                Success::List("DeploymentDatabase"),
                &[404, 409, 422],
            ),
            post("", "addDatabase", "Add a database, empty or as a clone", create_database)
                .json(&ADD_DATABASE)
                .responds(201, Success::One("DeploymentDatabase"), &[400, 403, 404, 409, 413, 415, 422]),
            delete("/{database}", "dropDatabase", "Delete a database with all of its data", drop_database).responds(
                200,
                Success::One("DeploymentDatabase"),
                &[403, 404, 409, 422],
            ),
        ],
    )
}

/// Handles `GET …/databases`.
pub(crate) async fn list_databases(call: RequestContext, settings: Data<Settings>) -> HandlerResult {
    let access = call.deployment::<Observe>().await?;
    let (view, served) = call
        .read(move |hub| {
            let view = hub.deployments().get(&access)?;
            hub.deployments().databases(&access).map(|served| (view, served))
        })
        .await?;
    Ok(whole(&served.iter().map(|database| convert::database(database, &view, &settings)).collect::<Vec<_>>()))
}

const ADD_DATABASE: RequestBody<(ServedName, Option<DeploymentSource>)> =
    RequestBody::closed("AddDatabaseRequest", |fields| {
        fields.describe_object(|| json!({"description": "A database to add."}));
        let name = fields.schema(served_name).required_as("name", ServedName::parse);
        let from = source(fields);
        Some((name?, from?))
    })
    .example(|| json!({"name": "lakes", "from_database": examples::origin()}));

/// Handles `POST …/databases`.
pub(crate) async fn create_database(call: RequestContext, settings: Data<Settings>) -> HandlerResult {
    let access = call.deployment::<Manage>().await?;
    let key = call.key(access.who()).await?;
    let (name, from) = call.json(&ADD_DATABASE)?;
    let seen = access.clone();
    let view = call.read(move |hub| hub.deployments().get(&seen)).await?;
    call.effect(
        key,
        move |hub, once| hub.deployments().add_database(&access, &name, from.as_ref(), once),
        move |served| ApiResponse::data(201, &convert::database(served, &view, &settings)),
    )
    .await
}

/// Handles `DELETE …/databases/{database}`.
pub(crate) async fn drop_database(call: RequestContext, settings: Data<Settings>) -> HandlerResult {
    let access = call.deployment::<Manage>().await?;
    let name = call.segment("database");
    let (view, served) = call
        .write(move |hub| {
            let view = hub.deployments().get(&access)?;
            hub.deployments().drop_database(&access, &name).map(|served| (view, served))
        })
        .await?;
    Ok(ApiResponse::data(200, &convert::database(&served, &view, &settings)))
}
