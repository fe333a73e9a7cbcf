//! The table of routes.

use actix_web::middleware::from_fn;
use actix_web::{HttpResponse, web};
use branchyard_api_common::{Endpoint, Failure, layer};

use crate::handlers::{
    branches, collaborators, databases, deliveries, document, forks, history, hooks, imports, members, operations,
    organizations, pull_changes, pulls, releases, sql, tags, tokens, user,
};

/// Mounts the API. Needs `web::Data<AppState>` in the application's data.
pub fn configure(config: &mut web::ServiceConfig) {
    let mut scope = web::scope(crate::BASE).wrap(from_fn(layer));
    for endpoint in endpoints() {
        scope = scope.service(endpoint.into_resource());
    }
    config.service(scope.default_service(web::to(no_route)));
}

async fn no_route() -> Result<HttpResponse, Failure> {
    Err(Failure::not_found("no such route"))
}

/// Every route as a method and a path below [`crate::BASE`], for tests that go through all of them.
pub fn routes() -> Vec<(&'static str, String)> {
    let of = |endpoint: Endpoint| {
        let path = endpoint.path().replace(":.+}", "}");
        let methods: Vec<&'static str> =
            endpoint.methods().iter().copied().filter(|method| *method != "HEAD").collect();
        methods.into_iter().map(move |method| (method, path.clone()))
    };
    endpoints().into_iter().flat_map(of).collect()
}

/// Every route. Those whose last segment may hold raw slashes come after those that such a segment would swallow.
fn endpoints() -> Vec<Endpoint> {
    const D: &str = "/databases/{owner}/{database}";
    let at = |rest: &str| Endpoint::at(&format!("{D}{rest}"));
    vec![
        Endpoint::at("/openapi.json").get(document::get_openapi_document),
        Endpoint::at("/user").get(user::get_current_user),
        Endpoint::at("/user/tokens").get(tokens::list_user_tokens).post(tokens::create_user_token),
        Endpoint::at("/user/tokens/{token_id}").delete(tokens::delete_user_token),
        Endpoint::at("/user/organizations").get(organizations::list_user_organizations),
        Endpoint::at("/organizations").post(organizations::create_organization),
        Endpoint::at("/organizations/{organization}")
            .get(organizations::get_organization)
            .patch(organizations::update_organization)
            .delete(organizations::delete_organization),
        Endpoint::at("/organizations/{organization}/members").get(members::list_organization_members),
        Endpoint::at("/organizations/{organization}/members/{username}")
            .put(members::put_organization_member)
            .delete(members::remove_organization_member),
        Endpoint::at("/databases").get(databases::list_databases).post(databases::create_database),
        at("").get(databases::get_database).patch(databases::update_database).delete(databases::delete_database),
        at("/collaborators").get(collaborators::list_collaborators),
        at("/collaborators/{username}").put(collaborators::put_collaborator).delete(collaborators::remove_collaborator),
        at("/branches").get(branches::list_branches).post(branches::create_branch),
        at("/branches/{branch:.+}").get(branches::get_branch).delete(branches::delete_branch),
        at("/tags").get(tags::list_tags).post(tags::create_tag),
        at("/tags/{tag:.+}").get(tags::get_tag).delete(tags::delete_tag),
        at("/forks").get(forks::list_forks).post(forks::create_fork),
        at("/releases").get(releases::list_releases).post(releases::create_release),
        at("/releases/{tag:.+}")
            .get(releases::get_release)
            .patch(releases::update_release)
            .delete(releases::delete_release),
        at("/pulls").get(pulls::list_pulls).post(pulls::create_pull),
        at("/pulls/{pull_number}").get(pulls::get_pull).patch(pulls::update_pull),
        at("/pulls/{pull_number}/comments").get(pulls::list_pull_comments).post(pulls::create_pull_comment),
        at("/pulls/{pull_number}/merge").post(pulls::merge_pull),
        at("/pulls/{pull_number}/diff").get(pull_changes::list_pull_diff),
        at("/pulls/{pull_number}/diff/tables").get(pull_changes::list_pull_diff_tables),
        at("/pulls/{pull_number}/conflicts").get(pull_changes::list_pull_conflicts),
        at("/commits").get(history::list_commits),
        at("/diff").get(history::list_diff),
        at("/diff/tables").get(history::list_diff_tables),
        at("/schema").get(history::list_schema),
        at("/hooks").get(hooks::list_hooks).post(hooks::create_hook),
        at("/hooks/{hook_id}").get(hooks::get_hook).patch(hooks::update_hook).delete(hooks::delete_hook),
        at("/hooks/{hook_id}/ping").post(hooks::ping_hook),
        at("/hooks/{hook_id}/rotate-secret").post(hooks::rotate_hook_secret),
        at("/hooks/{hook_id}/deliveries").get(deliveries::list_hook_deliveries),
        at("/hooks/{hook_id}/deliveries/{delivery_id}").get(deliveries::get_hook_delivery),
        at("/hooks/{hook_id}/deliveries/{delivery_id}/redeliver").post(deliveries::redeliver),
        at("/operations").get(operations::list_operations),
        at("/imports").post(imports::create_import),
        at("/imports/uploads").post(imports::create_import_upload),
        at("/sql").get(sql::run_sql_read_query).post(sql::run_sql_read_query_post),
        at("/sql-writes").post(sql::run_sql_write_query),
        Endpoint::at("/uploads/{upload_id}/{part_number}").put(imports::put_part),
        Endpoint::at("/operations/{operation_id:.+}/cancel").post(operations::cancel_operation),
        Endpoint::at("/operations/{operation_id:.+}").get(operations::get_operation),
    ]
}
