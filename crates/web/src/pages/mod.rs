//! The pages, one file each, and their routes.

mod database;
mod explore;
mod home;
mod new_database;
mod owner;
mod row;
mod schema;
mod settings;
mod sign_in;
mod sign_out;
mod sign_up;
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
        .route("/assets/{file}", web::get().to(assets::get))
        .route("/", web::get().to(home::show))
        .route("/explore", web::get().to(explore::show))
        .service(web::resource("/sign-in").get(sign_in::show).post(sign_in::send))
        .service(web::resource("/sign-up").get(sign_up::show).post(sign_up::send))
        .service(web::resource("/sign-out").post(sign_out::send))
        .service(web::resource("/theme").post(theme::send))
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
        .route("/{owner}/{database}/tables/{table}/row", web::get().to(row::show))
        .route("/{owner}/{database}/tables/{table}", web::get().to(table::show))
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
