use actix_web::HttpResponse;
use branchyard_domain::Hub;
use branchyard_domain::access::{Read, Write};
use branchyard_domain::entities::Tag;
use branchyard_domain::usecases::NewTag;
use branchyard_domain::values::{LongText, RefName};
use branchyard_http_common::{ApiError, Fields, HandlerError, rfc3339};

use super::{Start, start};
use crate::access::access;
use crate::legacy_errors::LegacyError;
use crate::listing;
use crate::request::{LegacyRequest, Statuses};
use crate::wire::{Done, Place, TagEcho, TagItem, TagsHead};

/// Handles `GET /{owner}/{database}/tags`.
pub(crate) async fn list_tags(asked: LegacyRequest) -> HttpResponse {
    let mut place = asked.place();
    let listed = list(&asked, &mut place).await;
    listed.unwrap_or_else(|failure| asked.refuse(Statuses::Flat, &failure, &place.echo()))
}

async fn list(asked: &LegacyRequest, place: &mut Place) -> Result<HttpResponse, HandlerError> {
    let call = asked.call()?;
    let access = access::<Read>(call, place, "listing tags").await?;
    let fetch = move |hub: &Hub, last: Option<&Tag>, limit| {
        hub.tags().list(&access, last.map(|tag| tag.name.as_str()), limit).map_err(|error| LegacyError(error).into())
    };
    let wire = |tag: &Tag| TagItem {
        tag_name: tag.name.to_string(),
        tag_description: tag.message.clone().unwrap_or_default(),
        tagged_at: rfc3339(tag.tagged_at),
    };
    listing::whole(call, &head(place), "tags", fetch, wire).await
}

/// Returns the fields that precede the items of a list.
pub(super) fn head(place: &Place) -> Done<TagsHead> {
    Done::new(TagsHead { database: place.echo(), next_page_token: "" })
}

/// The request for a tag or a release.
pub(super) struct TagSource {
    pub(super) name: RefName,
    pub(super) message: LongText,
    pub(super) from: Start,
}

pub(super) fn wanted(fields: &Fields<'_>) -> Option<TagSource> {
    let name = fields.required_as("tagName", RefName::parse);
    let message = fields.required_as("tagMessage", |text| LongText::parse(text));
    let from = start(fields);
    Some(TagSource { name: name?, message: message?, from: from? })
}

/// Returns the fields of the request that the response repeats.
pub(super) fn echo(asked: &LegacyRequest, place: &Place) -> TagEcho {
    TagEcho {
        database: place.echo(),
        tag_name: asked.sent("tagName"),
        tag_description: asked.sent("tagMessage"),
        revision_type: super::sent_revision_type(asked),
        revision_name: asked.sent("revisionName"),
    }
}

/// Handles `POST /{owner}/{database}/tags`.
pub(crate) async fn create_tag(asked: LegacyRequest) -> HttpResponse {
    let mut place = asked.place();
    let created = create(&asked, &mut place).await;
    let echo = echo(&asked, &place);
    asked.answer(created.map(|()| Done::new(&echo)), &echo)
}

async fn create(asked: &LegacyRequest, place: &mut Place) -> Result<(), HandlerError> {
    let call = asked.call()?;
    let access = access::<Write>(call, place, "creating a tag").await?;
    let TagSource { name, message, from } = call.open_body(wanted)?;
    call.write(move |hub| -> Result<(), ApiError> {
        let from = from.revision(hub, &access)?;
        let message = Some(message).filter(|text| !text.as_str().is_empty());
        hub.tags().create(&access, NewTag { name, from, message }, None).map_err(LegacyError)?;
        Ok(())
    })
    .await
}
