//! The pages, one file each, and their routes.

mod commit;
mod commits;
mod compare;
mod csv;
mod database;
mod explore;
mod home;
mod new_database;
mod owner;
mod pulls;
mod row;
mod schema;
mod settings;
mod sign_in;
mod sign_out;
mod sign_up;
mod sql;
mod table;
mod theme;

use actix_web::http::Method;
use actix_web::{HttpRequest, web};

use crate::assets;
use crate::error_page::Stop;
use crate::visit::{Answer, Visit};

/// Every page. The first route that fits answers, so the more exact ones come first.
pub(crate) fn routes(config: &mut web::ServiceConfig) {
    config
        .route("/static/{file}", web::get().to(assets::get))
        .route("/", web::get().to(home::show))
        .route("/explore", web::get().to(explore::show))
        .service(web::resource("/sign-in").get(sign_in::show).post(sign_in::send))
        .service(web::resource("/sign-up").get(sign_up::show).post(sign_up::send))
        .service(web::resource("/sign-out").post(sign_out::send))
        .service(web::resource("/settings/theme").post(theme::send))
        .service(web::resource("/new").get(new_database::show).post(new_database::send))
        .route("/settings", web::get().to(settings::index))
        .service(web::resource("/settings/profile").get(settings::profile::show).post(settings::profile::send))
        .service(web::resource("/settings/password").get(settings::password::show).post(settings::password::send))
        .route("/settings/sessions", web::get().to(settings::sessions::show))
        .service(web::resource("/settings/sessions/end").post(settings::sessions::end))
        .service(web::resource("/settings/sessions/end-all").post(settings::sessions::end_all))
        .service(web::resource("/settings/tokens").get(settings::tokens::show).post(settings::tokens::create))
        .service(
            web::resource("/settings/tokens/{id}/delete").get(settings::tokens::ask).post(settings::tokens::delete),
        )
        .service(
            web::resource("/settings/invitations").get(settings::invitations::show).post(settings::invitations::create),
        )
        .service(web::resource("/settings/invitations/revoke").post(settings::invitations::revoke))
        .route("/{owner}", web::get().to(owner::show))
        .route("/{owner}/{database}", web::get().to(database::show))
        .route("/{owner}/{database}/schema", web::get().to(schema::show))
        .route("/{owner}/{database}/tables/{table}/csv", web::get().to(csv::get))
        .route("/{owner}/{database}/tables/{table}/row", web::get().to(row::show))
        .route("/{owner}/{database}/tables/{table}", web::get().to(table::show))
        .route("/{owner}/{database}/sql", web::get().to(sql::read::show))
        .route("/{owner}/{database}/sql.csv", web::get().to(sql::csv::get))
        .service(web::resource("/{owner}/{database}/sql/write").get(sql::write::show).post(sql::write::send))
        .route("/{owner}/{database}/sql/writes/{operation}", web::get().to(sql::written::show))
        .route("/{owner}/{database}/commits", web::get().to(commits::show))
        .route("/{owner}/{database}/commits/{commit}", web::get().to(commit::show))
        .route("/{owner}/{database}/compare", web::get().to(compare::choose))
        .route("/{owner}/{database}/compare/{range:.+}", web::get().to(compare::show))
        .route("/{owner}/{database}/pulls", web::get().to(pulls::list::show))
        .service(web::resource("/{owner}/{database}/pulls/new").get(pulls::new::show).post(pulls::new::send))
        .route("/{owner}/{database}/pulls/{number}", web::get().to(pulls::conversation::show))
        .route("/{owner}/{database}/pulls/{number}/commits", web::get().to(pulls::commits::show))
        .route("/{owner}/{database}/pulls/{number}/diff", web::get().to(pulls::diff::show))
        .route("/{owner}/{database}/pulls/{number}/conflicts", web::get().to(pulls::conflicts::show))
        .route("/{owner}/{database}/pulls/{number}/merge", web::post().to(pulls::merge::send))
        .route("/{owner}/{database}/pulls/{number}/comments", web::post().to(pulls::conversation::comment))
        .route("/{owner}/{database}/pulls/{number}/state", web::post().to(pulls::edit::set_state))
        .service(
            web::resource("/{owner}/{database}/pulls/{number}/edit").get(pulls::edit::show).post(pulls::edit::send),
        )
        .default_service(web::to(nowhere));
}

/// Any other address.
async fn nowhere(request: HttpRequest) -> Answer {
    let visit = Visit::begin(&request).await?;
    let path = request.path();
    // A slash at the end is no part of a name.
    let trimmed = path.trim_end_matches('/');
    if *request.method() == Method::GET
        && trimmed.len() + 1 == path.len()
        && !trimmed.starts_with("//")
        && !trimmed.is_empty()
    {
        return visit.redirect(trimmed);
    }
    Err(Stop::nothing_here())
}
