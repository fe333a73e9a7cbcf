//! The pages, one file each, and their routes.

mod database;
mod explore;
mod home;
mod owner;
mod sign_in;
mod sign_out;
mod sign_up;
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
        .route("/{owner}", web::get().to(owner::show))
        .route("/{owner}/{database}", web::get().to(database::show))
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
