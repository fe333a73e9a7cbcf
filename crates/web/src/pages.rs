//! The pages, one file each, and their routes.

mod admin;
mod branch_reset;
mod branch_standing;
mod branches;
mod cell;
mod column_values;
mod commit;
mod commits;
mod compare;
mod confirm;
mod database;
mod database_settings;
pub(crate) mod deployments;
mod docs;
mod downloads;
mod empty_version;
mod explore;
mod forks;
mod home;
mod imports;
pub(crate) mod live;
mod new_database;
mod oauth;
mod open_in;
mod operations;
mod organizations;
mod owner;
mod pulls;
mod ref_deletion;
mod releases;
mod repositories;
mod row;
mod row_edit;
mod row_history;
mod sample;
pub(crate) mod schema;
mod settings;
mod sign_in;
mod sign_out;
mod sign_up;
mod sql;
mod stars;
mod table;
mod table_editor;
mod tags;
mod theme;
mod versions;

use actix_web::http::Method;
use actix_web::{HttpRequest, web};
use branchyard_domain::entities::{Branch, Tag};
use branchyard_http_common::get_route as get;

use crate::assets;
use crate::error_page::PageError;
use crate::page_context::{PageContext, PageResult};

/// Registers all pages. The first matching route wins, so more specific routes come first.
pub(crate) fn routes(config: &mut web::ServiceConfig) {
    config
        .route("/static/{file}", get().to(assets::get))
        .route("/", get().to(home::show))
        .route("/explore", get().to(explore::show))
        .route("/docs/errors", get().to(docs::errors::list))
        .route("/docs/errors/{suffix}", get().to(docs::errors::show))
        .route("/docs/api/{name}", get().to(docs::api::show))
        .service(web::resource("/sign-in").route(get().to(sign_in::show)).post(sign_in::send))
        .service(web::resource("/sign-up").route(get().to(sign_up::show)).post(sign_up::send))
        .service(web::resource("/sign-out").post(sign_out::send))
        .service(web::resource("/settings/theme").post(theme::send))
        .service(web::resource("/new").route(get().to(new_database::show)).post(new_database::receive))
        .route("/new/uploads", web::post().to(new_database::open_upload))
        .route("/settings", get().to(settings::index))
        .service(
            web::resource("/settings/confirm").route(get().to(settings::confirm::show)).post(settings::confirm::send),
        )
        .service(
            web::resource("/settings/profile").route(get().to(settings::profile::show)).post(settings::profile::send),
        )
        .service(web::resource("/settings/profile/emails").post(settings::profile::add_email))
        .service(web::resource("/settings/profile/emails/remove").post(settings::profile::remove_email))
        .service(web::resource("/settings/profile/emails/primary").post(settings::profile::choose_email))
        .service(
            web::resource("/settings/password")
                .route(get().to(settings::password::show))
                .post(settings::password::send),
        )
        .route("/settings/sessions", get().to(settings::sessions::show))
        .service(web::resource("/settings/sessions/end").post(settings::sessions::end))
        .service(web::resource("/settings/sessions/end-all").post(settings::sessions::end_all))
        .service(web::resource("/settings/keys").route(get().to(settings::keys::show)).post(settings::keys::add))
        .service(
            web::resource("/settings/keys/{id}/remove")
                .route(get().to(settings::keys::ask))
                .post(settings::keys::remove),
        )
        .service(
            web::resource("/settings/tokens").route(get().to(settings::tokens::show)).post(settings::tokens::create),
        )
        .service(
            web::resource("/settings/tokens/{id}/delete")
                .route(get().to(settings::tokens::ask))
                .post(settings::tokens::delete),
        )
        .service(
            web::resource("/settings/invitations")
                .route(get().to(settings::invitations::show))
                .post(settings::invitations::create),
        )
        .service(web::resource("/settings/invitations/revoke").post(settings::invitations::revoke))
        .route("/settings/usage", get().to(settings::usage::show))
        .configure(of_applications)
        .configure(of_administrators)
        .configure(of_organizations)
        .configure(deployments::routes)
        .configure(of_repositories)
        .route("/{owner}", get().to(owner::show))
        .route("/{owner}/{database}", get().to(database::show))
        .service(web::resource("/{owner}/{database}/star").post(stars::set))
        .service(web::resource("/{owner}/{database}/sync").post(branch_standing::sync))
        .service(web::resource("/{owner}/{database}/sample").post(sample::load))
        .route("/{owner}/{database}/stargazers", get().to(stars::list))
        .route("/{owner}/{database}/export", get().to(downloads::export))
        .route("/{owner}/{database}/open", get().to(open_in::show))
        .route("/{owner}/{database}/zip", get().to(downloads::archive))
        .route("/{owner}/{database}/schema", get().to(schema::show))
        .route("/{owner}/{database}/tables/{table}/csv", get().to(downloads::table))
        .route("/{owner}/{database}/tables/{table}/row", get().to(row::show))
        .service(
            web::resource("/{owner}/{database}/tables/{table}/edit")
                .route(get().to(row_edit::show))
                .post(row_edit::send),
        )
        .route("/{owner}/{database}/tables/{table}/history", get().to(row_history::show))
        .route("/{owner}/{database}/tables/{table}/values", get().to(column_values::show))
        .route("/{owner}/{database}/tables/{table}/cell", get().to(cell::show))
        .configure(of_table_editor)
        .route("/{owner}/{database}/tables/{table}", get().to(table::show))
        .configure(sql_and_history)
        .configure(of_pulls)
        .configure(refs)
        .configure(work)
        .configure(of_settings)
        .default_service(web::to(nowhere));
}

/// Registers the pages of applications, and of what users grant to them.
fn of_applications(config: &mut web::ServiceConfig) {
    use oauth::{authorize, device};
    use settings::applications;
    config
        .service(web::resource("/oauth/authorize").route(get().to(authorize::show)).post(authorize::send))
        .service(web::resource("/oauth/device").route(get().to(device::show)).post(device::send))
        .service(
            web::resource("/settings/applications").route(get().to(applications::show)).post(applications::register),
        )
        .service(web::resource("/settings/applications/grants/{id}/revoke").post(applications::revoke))
        .service(
            web::resource("/settings/applications/{id}/delete")
                .route(get().to(applications::ask))
                .post(applications::delete),
        );
}

/// Registers the pages of administrators.
fn of_administrators(config: &mut web::ServiceConfig) {
    config
        .route("/admin", get().to(admin::index))
        .route("/admin/users", get().to(admin::users::show))
        .route("/admin/users/{user}", get().to(admin::user::show))
        .service(web::resource("/admin/users/{user}/suspend").post(admin::user::suspend))
        .service(web::resource("/admin/users/{user}/resume").post(admin::user::resume))
        .service(web::resource("/admin/users/{user}/make-admin").post(admin::user::make_admin))
        .service(web::resource("/admin/users/{user}/tokens/revoke").post(admin::user::revoke_tokens))
        .service(web::resource("/admin/users/{user}/sessions/end").post(admin::user::end_sessions))
        .service(web::resource("/admin/users/{user}/grants/{id}/revoke").post(admin::user::revoke_grant))
        .route("/admin/applications", get().to(admin::applications::show))
        .service(web::resource("/admin/applications/{id}/delete").post(admin::applications::delete))
        .route("/admin/databases", get().to(admin::databases::show))
        .service(web::resource("/admin/databases/quarantine").post(admin::databases::quarantine))
        .service(web::resource("/admin/databases/release").post(admin::databases::release))
        .route("/admin/nodes", get().to(admin::nodes::show))
        .service(web::resource("/admin/nodes/drain").post(admin::nodes::drain))
        .service(web::resource("/admin/nodes/end-drain").post(admin::nodes::end_drain))
        .service(web::resource("/admin/nodes/remove").post(admin::nodes::remove));
}

/// Registers the pages of organizations, except the profile page that all owners share.
fn of_organizations(config: &mut web::ServiceConfig) {
    use organizations::{creation, members, settings};
    let at = |below: &str| web::resource(format!("/organizations{below}"));
    config
        .service(at("/new").route(get().to(creation::ask)).post(creation::create))
        .service(at("/{organization}/settings").route(get().to(settings::show)).post(settings::edit))
        .service(at("/{organization}/settings/delete").post(settings::delete))
        .service(at("/{organization}/members").route(get().to(members::show)).post(members::put))
        .service(at("/{organization}/members/remove").post(members::remove));
}

/// Registers the addresses of DoltHub, which redirect to pages.
fn of_repositories(config: &mut web::ServiceConfig) {
    config
        .route("/repositories/{owner}/{database}", get().to(repositories::database))
        .route("/repositories/{owner}/{database}/pulls", get().to(repositories::pulls))
        .route("/repositories/{owner}/{database}/pulls/{number}", get().to(repositories::pull))
        .route("/repositories/{owner}/{database}/data/{branch}", get().to(repositories::data))
        .route("/repositories/{owner}/{database}/releases", get().to(repositories::releases));
}

/// Registers the pages of branches, tags and releases.
fn refs(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/{owner}/{database}/branches").route(get().to(branches::show)).post(branches::create))
        .route("/{owner}/{database}/branches/restore", web::post().to(branches::restore))
        .route("/{owner}/{database}/branches/restore-to-time", web::post().to(branches::restore_to_time))
        .service(
            web::resource("/{owner}/{database}/branches/{branch}/delete")
                .route(get().to(ref_deletion::ask::<Branch>))
                .post(ref_deletion::delete::<Branch>),
        )
        .service(
            web::resource("/{owner}/{database}/branches/{branch}/reset")
                .route(get().to(branch_reset::ask))
                .post(branch_reset::reset),
        )
        .service(web::resource("/{owner}/{database}/tags").route(get().to(tags::show)).post(tags::create))
        .service(
            web::resource("/{owner}/{database}/tags/{tag}/delete")
                .route(get().to(ref_deletion::ask::<Tag>))
                .post(ref_deletion::delete::<Tag>),
        )
        .route("/{owner}/{database}/releases", get().to(releases::list))
        .service(
            web::resource("/{owner}/{database}/releases/new").route(get().to(releases::ask_new)).post(releases::create),
        )
        .route("/{owner}/{database}/releases/tag/{tag}", get().to(releases::show))
        .service(
            web::resource("/{owner}/{database}/releases/tag/{tag}/edit")
                .route(get().to(releases::ask_edit))
                .post(releases::edit),
        )
        .service(
            web::resource("/{owner}/{database}/releases/tag/{tag}/delete")
                .route(get().to(releases::ask_delete))
                .post(releases::delete),
        );
}

/// Registers the pages of forks, imports and operations.
fn work(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/{owner}/{database}/forks").route(get().to(forks::show)).post(forks::fork))
        .route("/{owner}/{database}/imports", get().to(operations::list_imports))
        .service(
            web::resource("/{owner}/{database}/imports/new").route(get().to(imports::choose)).post(imports::receive),
        )
        .service(web::resource("/{owner}/{database}/imports/uploads").post(imports::open))
        .service(
            web::resource("/{owner}/{database}/imports/uploads/{upload}")
                .route(get().to(imports::show))
                .post(imports::start),
        )
        .route("/{owner}/{database}/imports/uploads/{upload}/start", web::post().to(imports::start_at_once))
        .service(web::resource("/{owner}/{database}/imports/uploads/{upload}/{part}").put(imports::put_part))
        .route("/{owner}/{database}/live", get().to(live::of_database))
        .route("/{owner}/{database}/operations", get().to(operations::list))
        .route("/{owner}/{database}/operations/{operation}", get().to(operations::show))
        .route("/{owner}/{database}/operations/{operation}/cancel", web::post().to(operations::cancel));
}

/// Registers the settings of a database.
fn of_settings(config: &mut web::ServiceConfig) {
    use database_settings::{collaborators, deletion, deliveries, general, hooks, mirror, purge, transfer};
    let at = |below: &str| web::resource(format!("/{{owner}}/{{database}}/settings{below}"));
    config
        .service(at("").route(get().to(general::show)).post(general::edit))
        .service(at("/rename").post(general::rename))
        .service(at("/transfer").route(get().to(transfer::ask)).post(transfer::send))
        .service(at("/visibility").route(get().to(general::ask_visibility)).post(general::change_visibility))
        .service(at("/delete").route(get().to(deletion::ask)).post(deletion::delete))
        .service(at("/purge").route(get().to(purge::ask)).post(purge::purge))
        .service(at("/mirror").route(get().to(mirror::show)).post(mirror::edit))
        .service(at("/mirror/sync").post(mirror::sync))
        .service(at("/mirror/stop").route(get().to(mirror::ask_stop)).post(mirror::stop))
        .service(at("/collaborators").route(get().to(collaborators::show)).post(collaborators::put))
        .service(at("/collaborators/remove").post(collaborators::remove))
        .service(at("/hooks").route(get().to(hooks::list)))
        .service(at("/hooks/new").route(get().to(hooks::ask_new)).post(hooks::create))
        .service(at("/hooks/{hook}").route(get().to(hooks::show)))
        .service(at("/hooks/{hook}/edit").route(get().to(hooks::ask_edit)).post(hooks::edit))
        .service(at("/hooks/{hook}/ping").post(hooks::ping))
        .service(at("/hooks/{hook}/rotate").route(get().to(hooks::ask_rotate)).post(hooks::rotate))
        .service(at("/hooks/{hook}/delete").route(get().to(hooks::ask_delete)).post(hooks::delete))
        .service(at("/hooks/{hook}/deliveries").route(get().to(deliveries::list)))
        .service(at("/hooks/{hook}/deliveries/{delivery}").route(get().to(deliveries::show)))
        .service(at("/hooks/{hook}/deliveries/{delivery}/redeliver").post(deliveries::redeliver));
}

/// Registers the SQL workbench, commits and comparisons.
fn sql_and_history(config: &mut web::ServiceConfig) {
    config
        .route("/{owner}/{database}/sql", get().to(sql::read::show))
        .route("/{owner}/{database}/sql.csv", get().to(sql::csv::get))
        .service(
            web::resource("/{owner}/{database}/sql/write").route(get().to(sql::write::show)).post(sql::write::send),
        )
        .route("/{owner}/{database}/sql/writes/{operation}", get().to(sql::written::show))
        .route("/{owner}/{database}/commits", get().to(commits::show))
        .route("/{owner}/{database}/versions", get().to(versions::list))
        .route("/{owner}/{database}/commits/{commit}", get().to(commit::show))
        .route("/{owner}/{database}/compare", get().to(compare::choose))
        .route("/{owner}/{database}/compare/{range:.+}", get().to(compare::show));
}

/// Registers what the editor of the grid asks for.
fn of_table_editor(config: &mut web::ServiceConfig) {
    config
        .route("/{owner}/{database}/tables/{table}/sheet", get().to(table_editor::sheet))
        .route("/{owner}/{database}/tables/{table}/choices", get().to(table_editor::choices))
        .route("/{owner}/{database}/tables/{table}/edits", web::post().to(table_editor::commit))
        .route("/{owner}/{database}/tables/{table}/edits/check", web::post().to(table_editor::check));
}

/// Registers the pages of pull requests.
fn of_pulls(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/{owner}/{database}/pulls").route(get().to(pulls::list::show)).post(pulls::new::send))
        .route("/{owner}/{database}/pulls/new", get().to(pulls::new::show))
        .route("/{owner}/{database}/pulls/new/prepare", web::post().to(pulls::new::prepare))
        .route("/{owner}/{database}/pulls/{number}", get().to(pulls::conversation::show))
        .route("/{owner}/{database}/pulls/{number}/commits", get().to(pulls::commits::show))
        .route("/{owner}/{database}/pulls/{number}/diff", get().to(pulls::diff::show))
        .route("/{owner}/{database}/pulls/{number}/conflicts", get().to(pulls::conflicts::show))
        .route("/{owner}/{database}/pulls/{number}/restore-branch", web::post().to(pulls::conversation::restore_branch))
        .route("/{owner}/{database}/pulls/{number}/merge", web::post().to(pulls::merge::send))
        .route("/{owner}/{database}/pulls/{number}/comments", web::post().to(pulls::conversation::comment))
        .route("/{owner}/{database}/pulls/{number}/state", web::post().to(pulls::edit::set_state))
        .service(
            web::resource("/{owner}/{database}/pulls/{number}/withdraw")
                .route(get().to(pulls::edit::ask_to_withdraw))
                .post(pulls::edit::withdraw),
        )
        .service(
            web::resource("/{owner}/{database}/pulls/{number}/edit")
                .route(get().to(pulls::edit::show))
                .post(pulls::edit::send),
        );
}

/// Handles all other URLs: removes a trailing slash, or responds with the error page.
async fn nowhere(request: HttpRequest) -> PageResult {
    let visit = PageContext::begin(&request).await?;
    let path = request.path();
    let trimmed = path.trim_end_matches('/');
    if matches!(*request.method(), Method::GET | Method::HEAD)
        && trimmed.len() + 1 == path.len()
        && !trimmed.starts_with("//")
        && !trimmed.is_empty()
    {
        return visit.redirect(trimmed);
    }
    Err(PageError::nothing_here())
}
