use actix_web::HttpResponse;
use branchyard_domain::Hub;
use branchyard_domain::access::{Read, Write};
use branchyard_domain::entities::Branch;
use branchyard_domain::usecases::NewBranch;
use branchyard_domain::values::RefName;
use branchyard_http_common::{ApiError, HandlerError};

use super::start;
use crate::access::access;
use crate::legacy_errors::LegacyError;
use crate::listing;
use crate::request::{LegacyRequest, Statuses};
use crate::wire::{BranchEcho, BranchItem, Done, NewBranchEcho, Place};

/// Handles `GET /{owner}/{database}/branches`.
pub(crate) async fn list_branches(asked: LegacyRequest) -> HttpResponse {
    let mut place = asked.place();
    let listed = list(&asked, &mut place).await;
    listed.unwrap_or_else(|failure| asked.refuse(Statuses::Flat, &failure, &place.echo()))
}

async fn list(asked: &LegacyRequest, place: &mut Place) -> Result<HttpResponse, HandlerError> {
    let call = asked.call()?;
    let access = access::<Read>(call, place, "listing branches").await?;
    let fetch = move |hub: &Hub, last: Option<&Branch>, limit| {
        hub.branches().list(&access, last.map(|b| b.name.as_str()), limit).map_err(|error| LegacyError(error).into())
    };
    let wire = |branch: &Branch| BranchItem { branch_name: branch.name.to_string() };
    listing::whole(call, &Done::new(place.echo()), "branches", fetch, wire).await
}

/// Handles `POST /{owner}/{database}/branches`.
pub(crate) async fn create_branch(asked: LegacyRequest) -> HttpResponse {
    let mut place = asked.place();
    let created = create(&asked, &mut place).await;
    let echo = NewBranchEcho {
        database: place.echo(),
        new_branch_name: asked.sent("newBranchName"),
        revision_type: super::sent_revision_type(&asked),
        revision_name: asked.sent("revisionName"),
    };
    asked.answer(created.map(|()| Done::new(&echo)), &echo)
}

async fn create(asked: &LegacyRequest, place: &mut Place) -> Result<(), HandlerError> {
    let call = asked.call()?;
    let access = access::<Write>(call, place, "creating a branch").await?;
    let (from, name) = call.open_body(|fields| {
        let from = start(fields);
        let name = fields.required_as("newBranchName", RefName::parse);
        Some((from?, name?))
    })?;
    call.write(move |hub| -> Result<(), ApiError> {
        let from = from.revision(hub, &access)?;
        hub.branches().create(&access, NewBranch { name, from }, None).map_err(LegacyError)?;
        Ok(())
    })
    .await
}

/// Handles `DELETE /{owner}/{database}/branches/{branch}`.
pub(crate) async fn delete_branch(asked: LegacyRequest) -> HttpResponse {
    let mut place = asked.place();
    let deleted = delete(&asked, &mut place).await;
    let echo = BranchEcho { database: place.echo(), branch_name: asked.segment("branch") };
    asked.answer(deleted.map(|()| Done::new(&echo)), &echo)
}

async fn delete(asked: &LegacyRequest, place: &mut Place) -> Result<(), HandlerError> {
    let call = asked.call()?;
    let access = access::<Write>(call, place, "deleting a branch").await?;
    let name = asked.segment("branch");
    call.write(move |hub| hub.branches().delete(&access, &name, None).map(drop).map_err(LegacyError)).await
}
