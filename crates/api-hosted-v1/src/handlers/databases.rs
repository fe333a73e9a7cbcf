use actix_web::web::Data;
use branchyard_deployments::access::{Manage, Observe};
use branchyard_deployments::values::ServedName;
use branchyard_http_common::{ApiResponse, RequestContext};

use super::{HandlerResult, source, whole};
use crate::{Settings, convert};

/// `GET …/databases`
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

/// `POST …/databases`
pub(crate) async fn create_database(call: RequestContext, settings: Data<Settings>) -> HandlerResult {
    let access = call.deployment::<Manage>().await?;
    let key = call.key(access.who()).await?;
    let (name, from) = call.body(|fields| {
        let name = fields.required_as("name", ServedName::parse);
        let from = source(fields);
        Some((name?, from?))
    })?;
    let seen = access.clone();
    let view = call.read(move |hub| hub.deployments().get(&seen)).await?;
    call.effect(
        key,
        move |hub, once| hub.deployments().add_database(&access, &name, from.as_ref(), once),
        move |served| ApiResponse::data(201, &convert::database(served, &view, &settings)),
    )
    .await
}

/// `DELETE …/databases/{database}`
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
