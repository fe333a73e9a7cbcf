use branchyard_domain::access::{Read, Write};
use branchyard_domain::entities::Release;
use branchyard_domain::usecases::{EditRelease, NewRelease};
use branchyard_domain::values::{CommitPrefix, LongText, RefName, Timestamp, Title};
use branchyard_http_common::{ApiResponse, Endpoint, Fields, RequestBody, RequestContext, bound, page, section};

use super::{HandlerResult, page_of, unchanged, urls};
use crate::openapi::examples;
use crate::wire;
use branchyard_http_common::methods::{delete, get, patch, post};
use branchyard_openapi::{Credential, Success};
use serde_json::json;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section(
        "Database",
        "/databases/{owner}/{database}/releases",
        vec![
            get("", "listReleases", "Releases, newest first", list_releases)
                .credential(Credential::Optional)
                .query(&["page_token", "page_size"])
                .responds(200, Success::List("Release"), "DL"),
            post("", "createRelease", "Publish a release", create_release)
                .json(&CREATE_RELEASE)
                .responds(201, Success::One("Release"), ("DBKP", &[409, 422]))
                .describe(
                    "A tag has at most one release. With `create_tag_if_not_exists`, a missing tag is created at \
                     `commit_sha`.",
                ),
            get("/{tag:.+}", "getRelease", "The release of a tag", get_release)
                .credential(Credential::Optional)
                .responds(200, Success::One("Release"), "D"),
            patch("/{tag:.+}", "updateRelease", "Change title or notes of a release", update_release)
                .json(&UPDATE_RELEASE)
                .responds(200, Success::One("Release"), "DBPM"),
            delete("/{tag:.+}", "deleteRelease", "Delete a release and keep its tag", delete_release).responds(
                200,
                Success::One("Release"),
                "DPM",
            ),
        ],
    )
}

/// Handles `GET …/releases`.
pub(crate) async fn list_releases(call: RequestContext) -> HandlerResult {
    let access = call.access::<Read>().await?;
    let page_request = call.query(|q| page_of(&call, q))?;
    let bound = bound(&["releases", &access.database().id.to_string()]);
    let after: Option<(i64, String)> = call.page_key(&page_request, &bound)?;
    let fetch = page_request.fetch();
    let found = call
        .read(move |hub| {
            let after = after.as_ref().map(|(at, tag)| (Timestamp::from_micros(*at), tag.as_str()));
            hub.releases().list(&access, after, fetch)
        })
        .await?;
    let key = |release: &Release| (release.created_at.as_micros(), release.tag.to_string());
    page(&call.state, &page_request, &bound, found, |release| wire::Release::from(release), key)
}

/// Handles `POST …/releases`.
pub(crate) async fn create_release(call: RequestContext) -> HandlerResult {
    let access = call.access::<Write>().await?;
    let key = call.key(access.who()).await?;
    let wanted = call.json(&CREATE_RELEASE)?;
    let (urls, locator) = (urls(&call.state), access.database().locator.clone());
    let created = move |release: &Release| {
        let location = urls.below(&locator, "releases", release.tag.as_str());
        ApiResponse::resource(201, &wire::Release::from(release)).at(location)
    };
    call.effect(key, move |hub, once| hub.releases().create(&access, wanted, once), created).await
}

const CREATE_RELEASE: RequestBody<NewRelease> = RequestBody::closed("CreateReleaseRequest", new_release).example(
    || json!({"tag": "v1", "title": "Version 1", "commit_sha": examples::HEAD, "create_tag_if_not_exists": true}),
);

fn new_release(fields: &Fields<'_>) -> Option<NewRelease> {
    let tag = fields.doc("The tag of the release.").required::<RefName>("tag");
    let title = fields.required::<Title>("title");
    let commit = fields.required::<CommitPrefix>("commit_sha");
    let description = fields.optional::<LongText>("description");
    let create_tag =
        fields.schema(|| json!({"default": false})).optional_bool("create_tag_if_not_exists").unwrap_or(false);
    Some(NewRelease { tag: tag?, title: title?, commit: commit?, description, create_tag })
}

/// Handles `GET …/releases/{tag}`.
pub(crate) async fn get_release(call: RequestContext) -> HandlerResult {
    let tag = call.segment("tag");
    let (_, release) = call.access_to::<Read, _, _>(move |hub, access| hub.releases().get(access, &tag)).await?;
    Ok(ApiResponse::resource(200, &wire::Release::from(&release)))
}

/// Handles `PATCH …/releases/{tag}`.
pub(crate) async fn update_release(call: RequestContext) -> HandlerResult {
    let tag = call.segment("tag");
    let (access, found) = call.access_to::<Write, _, _>(move |hub, access| hub.releases().get(access, &tag)).await?;
    let edit = call.json(&UPDATE_RELEASE)?;
    let if_match = call.if_match();
    let release = call
        .write(move |hub| {
            let as_seen = |release: &Release| unchanged(if_match.as_ref(), &wire::Release::from(release));
            hub.releases().edit(&access, found.tag.as_str(), edit, Some(&as_seen))
        })
        .await?;
    Ok(ApiResponse::resource(200, &wire::Release::from(&release)))
}

const UPDATE_RELEASE: RequestBody<EditRelease> =
    RequestBody::patch("UpdateReleaseRequest", edit_release).example(|| json!({"title": "Version 1"}));

fn edit_release(fields: &Fields<'_>) -> Option<EditRelease> {
    let title = fields.optional::<Title>("title");
    let description = fields.clearable::<LongText>("description");
    Some(EditRelease { title, description })
}

/// Handles `DELETE …/releases/{tag}`.
pub(crate) async fn delete_release(call: RequestContext) -> HandlerResult {
    let tag = call.segment("tag");
    let (access, found) = call.access_to::<Write, _, _>(move |hub, access| hub.releases().get(access, &tag)).await?;
    let if_match = call.if_match();
    let release = call
        .write(move |hub| {
            let as_seen = |release: &Release| unchanged(if_match.as_ref(), &wire::Release::from(release));
            hub.releases().delete(&access, found.tag.as_str(), Some(&as_seen))
        })
        .await?;
    Ok(ApiResponse::data(200, &wire::Release::from(&release)))
}
