use branchyard_domain::access::{Read, Write};
use branchyard_domain::entities::Tag;
use branchyard_domain::usecases::NewTag;
use branchyard_domain::values::{LongText, RefName};
use branchyard_http_common::{ApiResponse, Endpoint, Fields, RequestBody, RequestContext, bound, page, section};

use super::{HandlerResult, page_of, revision, unchanged, urls};
use crate::openapi::examples;
use crate::wire;
use branchyard_http_common::methods::{delete, get, post};
use branchyard_openapi::{Credential, Success};
use serde_json::json;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section(
        "Database",
        "/databases/{owner}/{database}/tags",
        vec![
            get("", "listTags", "Tags, by name", list_tags)
                .credential(Credential::Optional)
                .query(&["page_token", "page_size"])
                .responds(200, Success::List("Tag"), "DL"),
            post("", "createTag", "Create a tag", create_tag).json(&CREATE_TAG).responds(
                201,
                Success::One("Tag"),
                ("DBKP", &[409, 422]),
            ),
            get("/{tag:.+}", "getTag", "A tag", get_tag).credential(Credential::Optional).responds(
                200,
                Success::One("Tag"),
                "D",
            ),
            delete("/{tag:.+}", "deleteTag", "Delete a tag", delete_tag).responds(
                200,
                Success::One("Tag"),
                ("DPM", &[409]),
            ),
        ],
    )
}

/// Handles `GET …/tags`.
pub(crate) async fn list_tags(call: RequestContext) -> HandlerResult {
    let access = call.access::<Read>().await?;
    let page_request = call.query(|q| page_of(&call, q))?;
    let bound = bound(&["tags", &access.database().id.to_string()]);
    let after: Option<String> = call.page_key(&page_request, &bound)?;
    let fetch = page_request.fetch();
    let found = call.read(move |hub| hub.tags().list(&access, after.as_deref(), fetch)).await?;
    page(&call.state, &page_request, &bound, found, |tag| wire::Tag::from(tag), |tag| tag.name.to_string())
}

/// Handles `POST …/tags`.
pub(crate) async fn create_tag(call: RequestContext) -> HandlerResult {
    let access = call.access::<Write>().await?;
    let key = call.key(access.who()).await?;
    let wanted = call.json(&CREATE_TAG)?;
    let (urls, locator) = (urls(&call.state), access.database().locator.clone());
    let created = move |tag: &Tag| {
        ApiResponse::resource(201, &wire::Tag::from(tag)).at(urls.below(&locator, "tags", tag.name.as_str()))
    };
    call.effect(key, move |hub, once| hub.tags().create(&access, wanted, once), created).await
}

const CREATE_TAG: RequestBody<NewTag> = RequestBody::closed("CreateTagRequest", new_tag)
    .example(|| json!({"name": "v1", "from": {"commit": examples::HEAD}, "message": "First cut"}));

fn new_tag(fields: &Fields<'_>) -> Option<NewTag> {
    let name = fields.doc("At most 200 bytes, under git's rules for refs.").required::<RefName>("name");
    let from = fields.component("RevisionRef").required_object("from", revision);
    let message = fields.doc("Makes the tag an annotated tag.").optional::<LongText>("message");
    Some(NewTag { name: name?, from: from?, message })
}

/// Handles `GET …/tags/{tag}`.
pub(crate) async fn get_tag(call: RequestContext) -> HandlerResult {
    let name = call.segment("tag");
    let (_, tag) = call.access_to::<Read, _, _>(move |hub, access| hub.tags().get(access, &name)).await?;
    Ok(ApiResponse::resource(200, &wire::Tag::from(&tag)))
}

/// Handles `DELETE …/tags/{tag}`.
pub(crate) async fn delete_tag(call: RequestContext) -> HandlerResult {
    let name = call.segment("tag");
    let (access, found) = call.access_to::<Write, _, _>(move |hub, access| hub.tags().get(access, &name)).await?;
    let if_match = call.if_match();
    let tag = call
        .write(move |hub| {
            let as_seen = |tag: &Tag| unchanged(if_match.as_ref(), &wire::Tag::from(tag));
            hub.tags().delete(&access, found.name.as_str(), Some(&as_seen))
        })
        .await?;
    Ok(ApiResponse::data(200, &wire::Tag::from(&tag)))
}
