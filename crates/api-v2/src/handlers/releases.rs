use branchyard_domain::access::{Read, Write};
use branchyard_domain::entities::Release;
use branchyard_domain::usecases::{EditRelease, NewRelease};
use branchyard_domain::values::{CommitHash, LongText, RefName, Timestamp, Title};
use branchyard_http_common::{ApiResponse, Fields, RequestContext, bound, page};

use super::{HandlerResult, page_of, unchanged, urls};
use crate::wire;

/// `GET …/releases`
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

/// `POST …/releases`
pub(crate) async fn create_release(call: RequestContext) -> HandlerResult {
    let access = call.access::<Write>().await?;
    let key = call.key(access.who()).await?;
    let wanted = call.body(new_release)?;
    let (urls, locator) = (urls(&call.state), access.database().locator.clone());
    let created = move |release: &Release| {
        let location = urls.below(&locator, "releases", release.tag.as_str());
        ApiResponse::resource(201, &wire::Release::from(release)).at(location)
    };
    call.effect(key, move |hub, once| hub.releases().create(&access, wanted, once), created).await
}

fn new_release(fields: &Fields<'_>) -> Option<NewRelease> {
    let tag = fields.required_as("tag", RefName::parse);
    let title = fields.required_as("title", |text| Title::parse(text));
    let commit = fields.required_as("commit_sha", CommitHash::parse);
    let description = fields.optional_as("description", |text| LongText::parse(text));
    let create_tag = fields.optional_bool("create_tag_if_not_exists").unwrap_or(false);
    Some(NewRelease { tag: tag?, title: title?, commit: commit?, description, create_tag })
}

/// `GET …/releases/{tag}`
pub(crate) async fn get_release(call: RequestContext) -> HandlerResult {
    let tag = call.segment("tag");
    let (_, release) = call.access_to::<Read, _, _>(move |hub, access| hub.releases().get(access, &tag)).await?;
    Ok(ApiResponse::resource(200, &wire::Release::from(&release)))
}

/// `PATCH …/releases/{tag}`
pub(crate) async fn update_release(call: RequestContext) -> HandlerResult {
    let tag = call.segment("tag");
    let (access, found) = call.access_to::<Write, _, _>(move |hub, access| hub.releases().get(access, &tag)).await?;
    let edit = call.patch(edit_release)?;
    let if_match = call.if_match();
    let release = call
        .write(move |hub| {
            let as_seen = |release: &Release| unchanged(if_match.as_ref(), &wire::Release::from(release));
            hub.releases().edit(&access, found.tag.as_str(), edit, Some(&as_seen))
        })
        .await?;
    Ok(ApiResponse::resource(200, &wire::Release::from(&release)))
}

fn edit_release(fields: &Fields<'_>) -> Option<EditRelease> {
    let title = fields.optional_as("title", |text| Title::parse(text));
    let description = fields.clearable_as("description", |text| LongText::parse(text));
    Some(EditRelease { title, description })
}

/// `DELETE …/releases/{tag}`
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
