use actix_web::HttpResponse;
use actix_web::http::header;
use branchyard_domain::access::{Participate, Read};
use branchyard_domain::entities::DatabaseLocator;
use branchyard_http_common::{HandlerError, RequestContext, segment};

use super::polled;
use crate::access::access;
use crate::legacy_errors::LegacyError;
use crate::request::{LegacyRequest, Statuses, body, done, signed_in};
use crate::wire::{DatabaseRef, Done, ForkEcho, ForkRefused, ForkStarted, Forks, NamedEcho, Place};
use crate::{convert, listing, names, successor};

/// Handles `GET /{owner}/{database}/forks`.
pub(crate) async fn list_forks(asked: LegacyRequest) -> HttpResponse {
    let mut place = asked.place();
    let listed = list(&asked, &mut place).await;
    listed.unwrap_or_else(|failure| asked.refuse(Statuses::Flat, &failure, &place.echo()))
}

async fn list(asked: &LegacyRequest, place: &mut Place) -> Result<HttpResponse, HandlerError> {
    let call = asked.call()?;
    let access = access::<Read>(call, place, "listing forks").await?;
    let (view, access) = call
        .read(move |hub| match hub.databases().get(&access) {
            Ok(view) => Ok((view, access)),
            Err(error) => Err(LegacyError(error)),
        })
        .await?;
    let text = |locator: Option<&DatabaseLocator>| match locator {
        Some(DatabaseLocator { owner, name }) => (owner.to_string(), name.to_string()),
        None => (String::new(), String::new()),
    };
    let is_root = view.database.network_id == view.database.id;
    let (parent_owner, parent_database_name) = text(view.parent.as_ref());
    let root = if is_root { Some(&view.database.locator) } else { view.network_root.as_ref() };
    let (network_root_owner, network_root_database_name) = text(root);
    let head = Done::new(Forks {
        echo: place.echo(),
        parent_owner,
        parent_database_name,
        network_root_owner,
        network_root_database_name,
        fork_network_count: view.fork_network_count,
    });
    let wire = |fork: &DatabaseLocator| DatabaseRef {
        database_owner: fork.owner.to_string(),
        database_name: fork.name.to_string(),
    };
    let fetch = move |hub: &branchyard_domain::Hub, last: Option<&DatabaseLocator>, limit| {
        let after = last.map(|fork| (fork.owner.key(), fork.name.key()));
        let after = after.as_ref().map(|(owner, name)| (owner.as_str(), name.as_str()));
        hub.databases().forks(&access, after, limit).map_err(|error| LegacyError(error).into())
    };
    listing::whole(call, &head, "forks", fetch, wire).await
}

/// Handles `POST /{owner}/{database}/forks`.
pub(crate) async fn create_fork(asked: LegacyRequest) -> HttpResponse {
    let mut parent = asked.place();
    let forked_owner = asked.sent("ownerName");
    let started = match asked.call() {
        Ok(call) => fork(call, &mut parent).await,
        Err(failure) => Err(failure),
    };
    answer(&asked, parent, forked_owner, started)
}

/// Handles `POST /fork`.
pub(crate) async fn fork_database(asked: LegacyRequest) -> HttpResponse {
    let mut parent = Place { owner: asked.sent("parentOwnerName"), name: asked.sent("parentDatabaseName") };
    let forked_owner = asked.sent("ownerName");
    if !parent.owner.is_empty() && !parent.name.is_empty() {
        let path = format!("/databases/{}/{}/forks", segment(&parent.owner), segment(&parent.name));
        successor::remember(&asked.request, path);
    }
    let started = fork_named(&asked, &mut parent).await;
    answer(&asked, parent, forked_owner, started)
}

async fn fork_named(asked: &LegacyRequest, parent: &mut Place) -> Result<String, HandlerError> {
    let call = asked.call()?;
    signed_in(call)?;
    *parent = call.open_body(|fields| {
        let owner = fields.required_string("parentOwnerName");
        let name = fields.required_string("parentDatabaseName");
        fields.required_string("ownerName")?;
        Some(Place { owner: owner?, name: name? })
    })?;
    fork(call, parent).await
}

async fn fork(call: &RequestContext, parent: &mut Place) -> Result<String, HandlerError> {
    let access = access::<Participate>(call, parent, "forking").await?;
    let owner = call.open_body(|fields| fields.required_string("ownerName"))?;
    let started = call.write(move |hub| hub.operations().fork(&access, &owner, None).map_err(LegacyError)).await?;
    Ok(names::of_fork(&started))
}

fn answer(
    asked: &LegacyRequest,
    Place { owner, name }: Place,
    forked_owner: String,
    started: Result<String, HandlerError>,
) -> HttpResponse {
    let echo = ForkEcho { parent_owner: owner, parent_database: name, forked_owner };
    match started {
        Ok(operation_name) => done(&Done::new(ForkStarted { echo, operation_name })),
        Err(failure) => asked.refuse(Statuses::Flat, &failure, &echo),
    }
}

/// Handles `GET /fork?operationName=`.
pub(crate) async fn poll_fork(asked: LegacyRequest) -> HttpResponse {
    let name = asked.parameter("operationName");
    let found = match asked.call() {
        Ok(call) => polled(call, &asked, None).await,
        Err(failure) => Err(failure),
    };
    let polled = match found {
        Ok(polled) => polled,
        Err(failure) => return asked.refuse(Statuses::Flat, &failure, &NamedEcho { operation_name: name }),
    };
    match convert::fork_poll(&polled.operation, polled.sees_result, &name) {
        Ok(poll) => {
            let mut response = HttpResponse::Ok();
            if !poll.done {
                response.insert_header((header::RETRY_AFTER, "1"));
            }
            body(response, &poll)
        }
        Err(message) => {
            let failed = ForkRefused { status: "Error", message, operation_name: name, done: true };
            body(HttpResponse::BadRequest(), &failed)
        }
    }
}
