use actix_web::HttpResponse;

use crate::request::{LegacyRequest, Statuses, done, signed_in};
use crate::wire::{self, Done};

/// Handles `GET /user`.
pub(crate) async fn get_user(asked: LegacyRequest) -> HttpResponse {
    match asked.call().and_then(signed_in) {
        Ok(user) => done(&Done::new(wire::User::from(user.as_ref()))),
        Err(failure) => asked.refuse(Statuses::User, &failure, &wire::Nothing {}),
    }
}
