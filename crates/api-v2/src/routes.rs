//! The table of routes.

use actix_web::middleware::from_fn;
use actix_web::{HttpResponse, Scope, web};
use branchyard_http_common::{AnonymousBodies, Endpoint, HandlerError, layer};

use crate::handlers::{
    branches, collaborators, databases, deliveries, document, forks, history, hooks, imports, members, operations,
    organizations, pull_changes, pulls, releases, sql, tags, tokens, user,
};

/// Where a database is.
const DATABASE: &str = "/databases/{owner}/{database}";

/// Mounts the API. Needs `web::Data<AppState>` in the application's data.
pub fn configure(config: &mut web::ServiceConfig) {
    // A scope of its own: owner and name are matched once, not once for each route until one fits.
    let database = mount(web::scope(DATABASE), of_database());
    config.service(mount(web::scope(crate::BASE).service(database), endpoints()).wrap(from_fn(layer)));
}

fn mount(scope: Scope, endpoints: Vec<Endpoint>) -> Scope {
    let mounted = endpoints.into_iter().fold(scope, |scope, endpoint| scope.service(endpoint.into_resource()));
    mounted.default_service(web::to(no_route))
}

async fn no_route() -> Result<HttpResponse, HandlerError> {
    Err(HandlerError::not_found("no such route"))
}

/// Every route as a method and a path below [`crate::BASE`], for tests that go through all of them.
pub fn routes() -> Vec<(&'static str, String)> {
    let of = |(scope, endpoint): (&str, Endpoint)| {
        let path = format!("{scope}{}", endpoint.path().replace(":.+}", "}"));
        let methods: Vec<&'static str> =
            endpoint.methods().iter().copied().filter(|method| *method != "HEAD").collect();
        methods.into_iter().map(move |method| (method, path.clone()))
    };
    let above = endpoints().into_iter().map(|endpoint| ("", endpoint));
    above.chain(of_database().into_iter().map(|endpoint| (DATABASE, endpoint))).flat_map(of).collect()
}

/// Routes that are not of one database. Those whose last segment may hold raw slashes come after those that such a segment would
/// swallow.
fn endpoints() -> Vec<Endpoint> {
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
        Endpoint::at("/uploads/{upload_id}/{part_number}").put(imports::put_part),
        Endpoint::at("/operations/{operation_id:.+}/cancel").post(operations::cancel_operation),
        Endpoint::at("/operations/{operation_id:.+}").get(operations::get_operation),
    ]
}

/// Routes of a database, below [`DATABASE`]: first those that are told by comparing, then those with a pattern.
fn of_database() -> Vec<Endpoint> {
    vec![
        Endpoint::at("")
            .get(databases::get_database)
            .patch(databases::update_database)
            .delete(databases::delete_database),
        Endpoint::at("/collaborators").get(collaborators::list_collaborators),
        Endpoint::at("/branches").get(branches::list_branches).post(branches::create_branch),
        Endpoint::at("/tags").get(tags::list_tags).post(tags::create_tag),
        Endpoint::at("/forks").get(forks::list_forks).post(forks::create_fork),
        Endpoint::at("/releases").get(releases::list_releases).post(releases::create_release),
        Endpoint::at("/pulls").get(pulls::list_pulls).post(pulls::create_pull),
        Endpoint::at("/commits").get(history::list_commits),
        Endpoint::at("/diff").get(history::list_diff),
        Endpoint::at("/diff/tables").get(history::list_diff_tables),
        Endpoint::at("/schema").get(history::list_schema),
        Endpoint::at("/hooks").get(hooks::list_hooks).post(hooks::create_hook),
        Endpoint::at("/operations").get(operations::list_operations),
        Endpoint::at("/imports").post(imports::create_import),
        Endpoint::at("/imports/uploads").post(imports::create_import_upload),
        Endpoint::at("/sql")
            .get(sql::run_sql_read_query)
            .post(sql::run_sql_read_query_post)
            .anonymous_bodies(AnonymousBodies::Whole),
        Endpoint::at("/sql-writes").post(sql::run_sql_write_query),
        Endpoint::at("/collaborators/{username}")
            .put(collaborators::put_collaborator)
            .delete(collaborators::remove_collaborator),
        Endpoint::at("/branches/{branch:.+}").get(branches::get_branch).delete(branches::delete_branch),
        Endpoint::at("/tags/{tag:.+}").get(tags::get_tag).delete(tags::delete_tag),
        Endpoint::at("/releases/{tag:.+}")
            .get(releases::get_release)
            .patch(releases::update_release)
            .delete(releases::delete_release),
        Endpoint::at("/pulls/{pull_number}").get(pulls::get_pull).patch(pulls::update_pull),
        Endpoint::at("/pulls/{pull_number}/comments").get(pulls::list_pull_comments).post(pulls::create_pull_comment),
        Endpoint::at("/pulls/{pull_number}/merge").post(pulls::merge_pull),
        Endpoint::at("/pulls/{pull_number}/withdraw").post(pulls::withdraw_pull),
        Endpoint::at("/pulls/{pull_number}/diff").get(pull_changes::list_pull_diff),
        Endpoint::at("/pulls/{pull_number}/diff/tables").get(pull_changes::list_pull_diff_tables),
        Endpoint::at("/pulls/{pull_number}/conflicts").get(pull_changes::list_pull_conflicts),
        Endpoint::at("/hooks/{hook_id}").get(hooks::get_hook).patch(hooks::update_hook).delete(hooks::delete_hook),
        Endpoint::at("/hooks/{hook_id}/ping").post(hooks::ping_hook),
        Endpoint::at("/hooks/{hook_id}/rotate-secret").post(hooks::rotate_hook_secret),
        Endpoint::at("/hooks/{hook_id}/deliveries").get(deliveries::list_hook_deliveries),
        Endpoint::at("/hooks/{hook_id}/deliveries/{delivery_id}").get(deliveries::get_hook_delivery),
        Endpoint::at("/hooks/{hook_id}/deliveries/{delivery_id}/redeliver").post(deliveries::redeliver),
    ]
}
