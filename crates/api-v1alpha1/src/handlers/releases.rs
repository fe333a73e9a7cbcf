use actix_web::HttpResponse;
use branchyard_domain::Hub;
use branchyard_domain::access::{Read, Write};
use branchyard_domain::entities::Release;
use branchyard_domain::usecases::NewRelease;
use branchyard_domain::values::Title;
use branchyard_http_common::{ApiError, HandlerError, rfc3339};

use super::tags::{TagSource, echo, head, wanted};
use crate::access::access;
use crate::legacy_errors::{LegacyError, field};
use crate::listing;
use crate::request::{LegacyRequest, Statuses};
use crate::wire::{Done, Place, TagItem};

/// Handles `GET /{owner}/{database}/releases`.
pub(crate) async fn list_releases(asked: LegacyRequest) -> HttpResponse {
    let mut place = asked.place();
    let listed = list(&asked, &mut place).await;
    listed.unwrap_or_else(|failure| asked.refuse(Statuses::Flat, &failure, &place.echo()))
}

async fn list(asked: &LegacyRequest, place: &mut Place) -> Result<HttpResponse, HandlerError> {
    let call = asked.call()?;
    let access = access::<Read>(call, place, "listing releases").await?;
    let fetch = move |hub: &Hub, last: Option<&Release>, limit| {
        let after = last.map(|release| (release.created_at, release.tag.as_str()));
        hub.releases().list(&access, after, limit).map_err(|error| LegacyError(error).into())
    };
    let wire = |release: &Release| TagItem {
        tag_name: release.tag.to_string(),
        tag_description: release.description.clone().unwrap_or_default(),
        tagged_at: rfc3339(release.created_at),
    };
    listing::whole(call, &head(place), "releases", fetch, wire).await
}

/// Handles `POST /{owner}/{database}/releases`.
pub(crate) async fn create_release(asked: LegacyRequest) -> HttpResponse {
    let mut place = asked.place();
    let created = create(&asked, &mut place).await;
    let echo = echo(&asked, &place);
    asked.answer(created.map(|()| Done::new(&echo)), &echo)
}

async fn create(asked: &LegacyRequest, place: &mut Place) -> Result<(), HandlerError> {
    let call = asked.call()?;
    let access = access::<Write>(call, place, "creating a release").await?;
    let TagSource { name, message, from } = call.open_body(wanted)?;
    let title = Title::parse(name.as_str()).map_err(|error| field("tagName", error.to_string()))?;
    call.write(move |hub| -> Result<(), ApiError> {
        let commit = from.commit(hub, &access)?;
        let wanted = NewRelease { tag: name, title, commit, description: Some(message), create_tag: true };
        hub.releases().create(&access, wanted, None).map_err(LegacyError)?;
        Ok(())
    })
    .await
}
