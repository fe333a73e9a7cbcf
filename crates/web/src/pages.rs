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

use crate::assets;
use crate::error_page::PageError;
use crate::page_context::{PageContext, PageResult};

/// Registers all pages. The first matching route wins, so more specific routes come first.
pub(crate) fn routes(config: &mut web::ServiceConfig) {
    config
        .route("/static/{file}", web::get().to(assets::get))
        .route("/", web::get().to(home::show))
        .route("/explore", web::get().to(explore::show))
        .route("/docs/errors", web::get().to(docs::errors::list))
        .route("/docs/errors/{suffix}", web::get().to(docs::errors::show))
        .route("/docs/api/{name}", web::get().to(docs::api::show))
        .service(web::resource("/sign-in").get(sign_in::show).post(sign_in::send))
        .service(web::resource("/sign-up").get(sign_up::show).post(sign_up::send))
        .service(web::resource("/sign-out").post(sign_out::send))
        .service(web::resource("/settings/theme").post(theme::send))
        .service(web::resource("/new").get(new_database::show).post(new_database::receive))
        .route("/new/uploads", web::post().to(new_database::open_upload))
        .route("/settings", web::get().to(settings::index))
        .service(web::resource("/settings/confirm").get(settings::confirm::show).post(settings::confirm::send))
        .service(web::resource("/settings/profile").get(settings::profile::show).post(settings::profile::send))
        .service(web::resource("/settings/profile/emails").post(settings::profile::add_email))
        .service(web::resource("/settings/profile/emails/remove").post(settings::profile::remove_email))
        .service(web::resource("/settings/profile/emails/primary").post(settings::profile::choose_email))
        .service(web::resource("/settings/password").get(settings::password::show).post(settings::password::send))
        .route("/settings/sessions", web::get().to(settings::sessions::show))
        .service(web::resource("/settings/sessions/end").post(settings::sessions::end))
        .service(web::resource("/settings/sessions/end-all").post(settings::sessions::end_all))
        .service(web::resource("/settings/keys").get(settings::keys::show).post(settings::keys::add))
        .service(web::resource("/settings/keys/{id}/remove").get(settings::keys::ask).post(settings::keys::remove))
        .service(web::resource("/settings/tokens").get(settings::tokens::show).post(settings::tokens::create))
        .service(
            web::resource("/settings/tokens/{id}/delete").get(settings::tokens::ask).post(settings::tokens::delete),
        )
        .service(
            web::resource("/settings/invitations").get(settings::invitations::show).post(settings::invitations::create),
        )
        .service(web::resource("/settings/invitations/revoke").post(settings::invitations::revoke))
        .route("/settings/usage", web::get().to(settings::usage::show))
        .configure(of_administrators)
        .configure(of_organizations)
        .configure(deployments::routes)
        .configure(of_repositories)
        .route("/{owner}", web::get().to(owner::show))
        .route("/{owner}/{database}", web::get().to(database::show))
        .service(web::resource("/{owner}/{database}/star").post(stars::set))
        .service(web::resource("/{owner}/{database}/sync").post(branch_standing::sync))
        .service(web::resource("/{owner}/{database}/sample").post(sample::load))
        .route("/{owner}/{database}/stargazers", web::get().to(stars::list))
        .route("/{owner}/{database}/export", web::get().to(downloads::export))
        .route("/{owner}/{database}/open", web::get().to(open_in::show))
        .route("/{owner}/{database}/zip", web::get().to(downloads::archive))
        .route("/{owner}/{database}/schema", web::get().to(schema::show))
        .route("/{owner}/{database}/tables/{table}/csv", web::get().to(downloads::table))
        .route("/{owner}/{database}/tables/{table}/row", web::get().to(row::show))
        .service(web::resource("/{owner}/{database}/tables/{table}/edit").get(row_edit::show).post(row_edit::send))
        .route("/{owner}/{database}/tables/{table}/history", web::get().to(row_history::show))
        .route("/{owner}/{database}/tables/{table}/values", web::get().to(column_values::show))
        .route("/{owner}/{database}/tables/{table}/cell", web::get().to(cell::show))
        .configure(of_table_editor)
        .route("/{owner}/{database}/tables/{table}", web::get().to(table::show))
        .configure(sql_and_history)
        .configure(of_pulls)
        .configure(refs)
        .configure(work)
        .configure(of_settings)
        .default_service(web::to(nowhere));
}

/// Registers the pages of administrators.
fn of_administrators(config: &mut web::ServiceConfig) {
    config
        .route("/admin", web::get().to(admin::index))
        .route("/admin/users", web::get().to(admin::users::show))
        .route("/admin/users/{user}", web::get().to(admin::user::show))
        .service(web::resource("/admin/users/{user}/suspend").post(admin::user::suspend))
        .service(web::resource("/admin/users/{user}/resume").post(admin::user::resume))
        .service(web::resource("/admin/users/{user}/make-admin").post(admin::user::make_admin))
        .service(web::resource("/admin/users/{user}/tokens/revoke").post(admin::user::revoke_tokens))
        .service(web::resource("/admin/users/{user}/sessions/end").post(admin::user::end_sessions))
        .route("/admin/databases", web::get().to(admin::databases::show))
        .service(web::resource("/admin/databases/quarantine").post(admin::databases::quarantine))
        .service(web::resource("/admin/databases/release").post(admin::databases::release))
        .route("/admin/nodes", web::get().to(admin::nodes::show))
        .service(web::resource("/admin/nodes/drain").post(admin::nodes::drain))
        .service(web::resource("/admin/nodes/end-drain").post(admin::nodes::end_drain))
        .service(web::resource("/admin/nodes/remove").post(admin::nodes::remove));
}

/// Registers the pages of organizations, except the profile page that all owners share.
fn of_organizations(config: &mut web::ServiceConfig) {
    use organizations::{creation, members, settings};
    let at = |below: &str| web::resource(format!("/organizations{below}"));
    config
        .service(at("/new").get(creation::ask).post(creation::create))
        .service(at("/{organization}/settings").get(settings::show).post(settings::edit))
        .service(at("/{organization}/settings/delete").post(settings::delete))
        .service(at("/{organization}/members").get(members::show).post(members::put))
        .service(at("/{organization}/members/remove").post(members::remove));
}

/// Registers the addresses of DoltHub, which redirect to pages.
fn of_repositories(config: &mut web::ServiceConfig) {
    config
        .route("/repositories/{owner}/{database}", web::get().to(repositories::database))
        .route("/repositories/{owner}/{database}/pulls", web::get().to(repositories::pulls))
        .route("/repositories/{owner}/{database}/pulls/{number}", web::get().to(repositories::pull))
        .route("/repositories/{owner}/{database}/data/{branch}", web::get().to(repositories::data))
        .route("/repositories/{owner}/{database}/releases", web::get().to(repositories::releases));
}

/// Registers the pages of branches, tags and releases.
fn refs(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/{owner}/{database}/branches").get(branches::show).post(branches::create))
        .route("/{owner}/{database}/branches/restore", web::post().to(branches::restore))
        .route("/{owner}/{database}/branches/restore-to-time", web::post().to(branches::restore_to_time))
        .service(
            web::resource("/{owner}/{database}/branches/{branch}/delete")
                .get(ref_deletion::ask::<Branch>)
                .post(ref_deletion::delete::<Branch>),
        )
        .service(
            web::resource("/{owner}/{database}/branches/{branch}/reset")
                .get(branch_reset::ask)
                .post(branch_reset::reset),
        )
        .service(web::resource("/{owner}/{database}/tags").get(tags::show).post(tags::create))
        .service(
            web::resource("/{owner}/{database}/tags/{tag}/delete")
                .get(ref_deletion::ask::<Tag>)
                .post(ref_deletion::delete::<Tag>),
        )
        .route("/{owner}/{database}/releases", web::get().to(releases::list))
        .service(web::resource("/{owner}/{database}/releases/new").get(releases::ask_new).post(releases::create))
        .route("/{owner}/{database}/releases/tag/{tag}", web::get().to(releases::show))
        .service(
            web::resource("/{owner}/{database}/releases/tag/{tag}/edit").get(releases::ask_edit).post(releases::edit),
        )
        .service(
            web::resource("/{owner}/{database}/releases/tag/{tag}/delete")
                .get(releases::ask_delete)
                .post(releases::delete),
        );
}

/// Registers the pages of forks, imports and operations.
fn work(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/{owner}/{database}/forks").get(forks::show).post(forks::fork))
        .route("/{owner}/{database}/imports", web::get().to(operations::list_imports))
        .service(web::resource("/{owner}/{database}/imports/new").get(imports::choose).post(imports::receive))
        .service(web::resource("/{owner}/{database}/imports/uploads").post(imports::open))
        .service(web::resource("/{owner}/{database}/imports/uploads/{upload}").get(imports::show).post(imports::start))
        .route("/{owner}/{database}/imports/uploads/{upload}/start", web::post().to(imports::start_at_once))
        .service(web::resource("/{owner}/{database}/imports/uploads/{upload}/{part}").put(imports::put_part))
        .route("/{owner}/{database}/live", web::get().to(live::of_database))
        .route("/{owner}/{database}/operations", web::get().to(operations::list))
        .route("/{owner}/{database}/operations/{operation}", web::get().to(operations::show))
        .route("/{owner}/{database}/operations/{operation}/cancel", web::post().to(operations::cancel));
}

/// Registers the settings of a database.
fn of_settings(config: &mut web::ServiceConfig) {
    use database_settings::{collaborators, deletion, deliveries, general, hooks, mirror, purge, transfer};
    let at = |below: &str| web::resource(format!("/{{owner}}/{{database}}/settings{below}"));
    config
        .service(at("").get(general::show).post(general::edit))
        .service(at("/rename").post(general::rename))
        .service(at("/transfer").get(transfer::ask).post(transfer::send))
        .service(at("/visibility").get(general::ask_visibility).post(general::change_visibility))
        .service(at("/delete").get(deletion::ask).post(deletion::delete))
        .service(at("/purge").get(purge::ask).post(purge::purge))
        .service(at("/mirror").get(mirror::show).post(mirror::edit))
        .service(at("/mirror/sync").post(mirror::sync))
        .service(at("/mirror/stop").get(mirror::ask_stop).post(mirror::stop))
        .service(at("/collaborators").get(collaborators::show).post(collaborators::put))
        .service(at("/collaborators/remove").post(collaborators::remove))
        .service(at("/hooks").get(hooks::list))
        .service(at("/hooks/new").get(hooks::ask_new).post(hooks::create))
        .service(at("/hooks/{hook}").get(hooks::show))
        .service(at("/hooks/{hook}/edit").get(hooks::ask_edit).post(hooks::edit))
        .service(at("/hooks/{hook}/ping").post(hooks::ping))
        .service(at("/hooks/{hook}/rotate").get(hooks::ask_rotate).post(hooks::rotate))
        .service(at("/hooks/{hook}/delete").get(hooks::ask_delete).post(hooks::delete))
        .service(at("/hooks/{hook}/deliveries").get(deliveries::list))
        .service(at("/hooks/{hook}/deliveries/{delivery}").get(deliveries::show))
        .service(at("/hooks/{hook}/deliveries/{delivery}/redeliver").post(deliveries::redeliver));
}

/// Registers the SQL workbench, commits and comparisons.
fn sql_and_history(config: &mut web::ServiceConfig) {
    config
        .route("/{owner}/{database}/sql", web::get().to(sql::read::show))
        .route("/{owner}/{database}/sql.csv", web::get().to(sql::csv::get))
        .service(web::resource("/{owner}/{database}/sql/write").get(sql::write::show).post(sql::write::send))
        .route("/{owner}/{database}/sql/writes/{operation}", web::get().to(sql::written::show))
        .route("/{owner}/{database}/commits", web::get().to(commits::show))
        .route("/{owner}/{database}/versions", web::get().to(versions::list))
        .route("/{owner}/{database}/commits/{commit}", web::get().to(commit::show))
        .route("/{owner}/{database}/compare", web::get().to(compare::choose))
        .route("/{owner}/{database}/compare/{range:.+}", web::get().to(compare::show));
}

/// Registers what the editor of the grid asks for.
fn of_table_editor(config: &mut web::ServiceConfig) {
    config
        .route("/{owner}/{database}/tables/{table}/sheet", web::get().to(table_editor::sheet))
        .route("/{owner}/{database}/tables/{table}/choices", web::get().to(table_editor::choices))
        .route("/{owner}/{database}/tables/{table}/edits", web::post().to(table_editor::commit))
        .route("/{owner}/{database}/tables/{table}/edits/check", web::post().to(table_editor::check));
}

/// Registers the pages of pull requests.
fn of_pulls(config: &mut web::ServiceConfig) {
    config
        .service(web::resource("/{owner}/{database}/pulls").get(pulls::list::show).post(pulls::new::send))
        .route("/{owner}/{database}/pulls/new", web::get().to(pulls::new::show))
        .route("/{owner}/{database}/pulls/new/prepare", web::post().to(pulls::new::prepare))
        .route("/{owner}/{database}/pulls/{number}", web::get().to(pulls::conversation::show))
        .route("/{owner}/{database}/pulls/{number}/commits", web::get().to(pulls::commits::show))
        .route("/{owner}/{database}/pulls/{number}/diff", web::get().to(pulls::diff::show))
        .route("/{owner}/{database}/pulls/{number}/conflicts", web::get().to(pulls::conflicts::show))
        .route("/{owner}/{database}/pulls/{number}/restore-branch", web::post().to(pulls::conversation::restore_branch))
        .route("/{owner}/{database}/pulls/{number}/merge", web::post().to(pulls::merge::send))
        .route("/{owner}/{database}/pulls/{number}/comments", web::post().to(pulls::conversation::comment))
        .route("/{owner}/{database}/pulls/{number}/state", web::post().to(pulls::edit::set_state))
        .service(
            web::resource("/{owner}/{database}/pulls/{number}/withdraw")
                .get(pulls::edit::ask_to_withdraw)
                .post(pulls::edit::withdraw),
        )
        .service(
            web::resource("/{owner}/{database}/pulls/{number}/edit").get(pulls::edit::show).post(pulls::edit::send),
        );
}

/// Handles all other URLs: removes a trailing slash, or responds with the error page.
async fn nowhere(request: HttpRequest) -> PageResult {
    let visit = PageContext::begin(&request).await?;
    let path = request.path();
    let trimmed = path.trim_end_matches('/');
    if *request.method() == Method::GET
        && trimmed.len() + 1 == path.len()
        && !trimmed.starts_with("//")
        && !trimmed.is_empty()
    {
        return visit.redirect(trimmed);
    }
    Err(PageError::nothing_here())
}
