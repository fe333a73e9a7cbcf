//! The table of routes.

use actix_web::middleware::from_fn;
use actix_web::{HttpRequest, HttpResponse, web};
use branchyard_http_common::{Endpoint, HandlerError, RequestContext, layer};

use crate::handlers::{
    backups, collaborators, config, credentials, databases, deployments, document, instances, logs, metrics,
    operations, pulls, user, windows,
};

/// Mounts the API. Needs `web::Data<AppState>` and `web::Data<Settings>` in the application's data.
pub fn configure(config: &mut web::ServiceConfig) {
    let mut scope = web::scope(crate::BASE).wrap(from_fn(layer));
    for endpoint in endpoints() {
        scope = scope.service(endpoint.into_resource());
    }
    config.service(scope.default_service(web::to(no_route)));
}

/// The credential is looked at first, as everywhere else.
async fn no_route(request: HttpRequest) -> Result<HttpResponse, HandlerError> {
    RequestContext::without_body(&request).await?;
    Err(HandlerError::not_found("no such route"))
}

/// Every route as a method and a path below [`crate::BASE`], for tests that go through all of them.
pub fn routes() -> Vec<(&'static str, String)> {
    let of = |endpoint: Endpoint| {
        let path = endpoint.path().to_owned();
        let methods: Vec<&'static str> =
            endpoint.methods().iter().copied().filter(|method| *method != "HEAD").collect();
        methods.into_iter().map(move |method| (method, path.clone()))
    };
    endpoints().into_iter().flat_map(of).collect()
}

fn endpoints() -> Vec<Endpoint> {
    const D: &str = "/deployments/{owner}/{deployment}";
    let at = |rest: &str| Endpoint::at(&format!("{D}{rest}"));
    vec![
        Endpoint::at("/openapi.json").get(document::get_openapi_document),
        Endpoint::at("/user").get(user::get_user),
        Endpoint::at("/user/usage").get(user::get_usage),
        Endpoint::at("/deployment-options").get(deployments::get_options),
        Endpoint::at("/deployments").post(deployments::create_deployment),
        Endpoint::at("/deployments/{owner}").get(deployments::list_deployments),
        at("")
            .get(deployments::get_deployment)
            .patch(deployments::update_deployment)
            .delete(deployments::delete_deployment),
        at("/disable").post(deployments::disable_deployment),
        at("/expose").patch(deployments::expose_service),
        at("/cost").get(deployments::get_cost),
        at("/database-version").get(deployments::get_versions).post(deployments::update_version),
        at("/instances").get(instances::list_instances).post(instances::create_instance),
        at("/instances/{instance_id}").delete(instances::delete_instance),
        at("/instances/{instance_id}/reboot").post(instances::reboot_instance),
        at("/change-primary").post(instances::change_primary),
        at("/backups").get(backups::list_backups).post(backups::create_backup),
        at("/backups/{backup_id}").delete(backups::delete_backup),
        at("/backups/{backup_id}/databases/{database}").get(backups::download_backup),
        at("/config").get(config::get_config).patch(config::update_config),
        at("/dolt-credentials")
            .get(credentials::none_of_them)
            .delete(credentials::none_of_them)
            .post(credentials::create_credentials),
        at("/dolt-credentials/reroll").post(credentials::none_of_them),
        at("/logs").get(logs::list_logs),
        at("/service-windows").get(windows::list_windows).put(windows::put_windows),
        at("/metrics").get(metrics::list_metrics),
        at("/metrics/{metric}").get(metrics::get_metric),
        at("/collaborators").get(collaborators::list_collaborators),
        at("/collaborators/{username}").put(collaborators::put_collaborator).delete(collaborators::remove_collaborator),
        at("/databases").get(databases::list_databases).post(databases::create_database),
        at("/databases/{database}").delete(databases::drop_database),
        at("/pulls").get(pulls::list_pulls).post(pulls::create_pull),
        at("/pulls/{pull_id}").get(pulls::no_pull).patch(pulls::no_pull),
        at("/pulls/{pull_id}/comments").get(pulls::no_pull).post(pulls::no_pull),
        at("/pulls/{pull_id}/logs").get(pulls::no_pull),
        at("/pulls/{pull_id}/merge").post(pulls::no_pull),
        at("/operations").get(operations::list_operations),
        Endpoint::at("/operations/{operation_id}").get(operations::get_operation),
    ]
}
