//! The table of routes.

use actix_web::middleware::from_fn;
use actix_web::{HttpResponse, Scope, web};
use branchyard_http_common::{AnonymousBodies, BodyTypes, Credentials, HandlerError, RequestPolicy, Route, layer};

use crate::deprecation::deprecation;
use crate::handlers::{
    branches, databases, document, exports, forks, jobs, operations, pulls, releases, sql, tags, uploads, user, writes,
};

/// The request policy of this version: three forms of the credential, and JSON bodies under most media types.
const MANNERS: RequestPolicy = RequestPolicy {
    credentials: Credentials {
        schemes: &["token", "bearer"],
        bare: true,
        malformed: Some("invalid authorization header"),
        unknown: "no token found for given API token",
    },
    bodies: BodyTypes::Lenient,
    accepts_keys: false,
    is_counted: true,
};

/// Mounts the API. Requires `web::Data<AppState>` in the application's data.
pub fn configure(config: &mut web::ServiceConfig) {
    config.service(scope(crate::BASE, api(), document()));
    config.service(scope(crate::CSV, csv(), Vec::new()));
}

/// Returns the scope of `base`: the layer that all versions share, inside the layer that adds the deprecation headers.
fn scope(base: &str, endpoints: Vec<Route>, first: Vec<Route>) -> impl actix_web::dev::HttpServiceFactory + 'static {
    // Error bodies repeat fields of the request body, also for callers without a credential.
    let mut scope: Scope = web::scope(base).app_data(MANNERS).app_data(AnonymousBodies::Short);
    for endpoint in first.into_iter().chain(endpoints) {
        scope = scope.service(endpoint.into_resource());
    }
    scope.default_service(web::to(no_route)).wrap(from_fn(layer)).wrap(from_fn(deprecation))
}

async fn no_route() -> Result<HttpResponse, HandlerError> {
    Err(HandlerError::not_found("no such route"))
}

/// Returns every route as a method and a path, for tests that cover all routes.
pub fn routes() -> Vec<(&'static str, String)> {
    let of = |base: &'static str, endpoint: Route| {
        let methods: Vec<&'static str> = endpoint.methods().iter().copied().filter(|m| *m != "HEAD").collect();
        let paths = spelled(&format!("{base}{}", endpoint.path()));
        paths.into_iter().flat_map(move |path| methods.clone().into_iter().map(move |method| (method, path.clone())))
    };
    let api = document().into_iter().chain(api()).flat_map(|endpoint| of(crate::BASE, endpoint));
    api.chain(csv().into_iter().flat_map(|endpoint| of(crate::CSV, endpoint))).collect()
}

/// Returns the documented forms of a path. A path that ends in `{rest}` has one form for each meaning of the rest. Variants
/// with a trailing slash have none.
fn spelled(path: &str) -> Vec<String> {
    if path.ends_with('/') {
        return Vec::new();
    }
    let path = path.replace("{branches:.*}", "{from_branch}/{to_branch}").replace(":.+}", "}");
    match path.strip_suffix("{rest}") {
        Some(before) => vec![format!("{before}{{ref}}"), format!("{before}{{ref}}/{{table}}")],
        None => vec![path],
    }
}

fn document() -> Vec<Route> {
    vec![Route::at("/openapi.json").get(document::get_openapi_document)]
}

/// Every route below [`crate::BASE`]. A read takes every path of two or more pieces that no other route has.
fn api() -> Vec<Route> {
    let at = |rest: &str| Route::at(&format!("/{{owner}}/{{database}}{rest}"));
    vec![
        Route::at("/user").get(user::get_user),
        Route::at("/database").post(databases::create_database),
        Route::at("/fork").get(forks::poll_fork).post(forks::fork_database),
        Route::at("/users/{username}/operations").get(operations::list_user_operations),
        at("/write").get(writes::poll_write),
        at("/write/{branches:.*}").post(writes::write),
        at("/forks").get(forks::list_forks).post(forks::create_fork),
        at("/branches").get(branches::list_branches).post(branches::create_branch),
        at("/branches/{branch:.+}").delete(branches::delete_branch),
        at("/tags").get(tags::list_tags).post(tags::create_tag),
        at("/releases").get(releases::list_releases).post(releases::create_release),
        at("/pulls").get(pulls::list_pulls).post(pulls::create_pull),
        at("/pulls/{pull_id}").get(pulls::get_pull).patch(pulls::update_pull),
        at("/pulls/{pull_id}/comments").post(pulls::create_comment),
        at("/pulls/{pull_id}/merge").get(pulls::poll_merge).post(pulls::merge_pull),
        at("/upload").get(uploads::poll_upload).post(uploads::upload),
        at("/jobs").get(jobs::list_jobs),
        at("").get(sql::read),
        at("/").get(sql::read),
        at("/{ref:.+}").get(sql::read_at),
    ]
}

/// Every route below [`crate::CSV`].
fn csv() -> Vec<Route> {
    vec![Route::at("/{owner}/{database}/{rest:.+}").get(exports::download)]
}
