use std::cell::Cell;

use branchyard_domain::access::{Admin, Read};
use branchyard_domain::entities::Visibility;
use branchyard_domain::errors::DatabaseError;
use branchyard_domain::ports::DatabaseFilter;
use branchyard_domain::usecases::{DatabaseView, EditDatabase, NewDatabase, NewMirror};
use branchyard_domain::values::{DatabaseName, Description, OwnerName, RefName};
use branchyard_http_common::{
    ApiResponse, Endpoint, FieldText as _, Fields, NO_FIELDS, RequestBody, RequestContext, Urls, Words, audit, bound,
    page, section,
};

use super::mirrors::new_mirror;
use super::{HandlerResult, accepted, page_of, unchanged, urls};
use crate::openapi::examples;
use crate::{waiting, wire};
use branchyard_http_common::methods::{delete, get, patch, post};
use branchyard_openapi::{Credential, Success, one};
use serde_json::json;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section("Database", "/databases", vec![
get("", "listDatabases", "Databases that the caller can see", list_databases).credential(Credential::Optional).query(&["of_owner", "q", "visibility", "page_token", "page_size"]).responds(200, Success::List("Database"), "L").shows(|| json!({"data": [examples::database()], "meta": {"next_page_token": "Yy1kZ0x"}})),
post("", "createDatabase", "Create a database", create_database).json(&CREATE_DATABASE).responds(201, Success::One("Database"), ("BK", &[403, 409, 422])).describe("The database starts with one branch that holds one empty commit by the caller. With `mirror_of`, it then follows a database of \
                     another server, beginning at once, with the operation `mirror_sync`."),
get("/{owner}/{database}", "getDatabase", "A database", get_database).credential(Credential::Optional).responds(200, Success::One("Database"), "D"),
patch("/{owner}/{database}", "updateDatabase", "Change name, owner, description, visibility, default branch or anonymous SQL", update_database).json(&UPDATE_DATABASE).responds(200, Success::One("Database"), ("DBPM", &[409, 422])).describe("`null` or an empty text clears `description`. A new visibility takes effect at once; forks keep theirs. A new \
                     `name` renames the database, and a new `owner` transfers it. Requests to the address that it had are served as if they were made to the new one, until a database is created or renamed \
                     there, or this one is deleted. The 20 newest such addresses are kept.").shows(|| one(examples::public_database())),
delete("/{owner}/{database}", "deleteDatabase", "Delete a database", delete_database).responds(200, Success::One("Database"), "DPM").describe("From then on, the database and everything below it are answered 404, and its name is free. Forks \
                     are kept. Queued and running operations of the database end as `CANCELED`."),
post("/{owner}/{database}/purge", "purgeDatabase", "Remove deleted history", purge_database).responds(202, Success::One("OperationRef"), ("DKP", &[])).describe("Removes everything that no branch, tag, pull request or release reaches from the file of the database. Runs as \
                     an operation. Its result names the forks that keep some of it."),
])
}

const VISIBILITIES: Words<Visibility> =
    Words::component("Visibility", &[("public", Visibility::Public), ("private", Visibility::Private)]);

/// Handles `GET /databases`.
pub(crate) async fn list_databases(call: RequestContext) -> HandlerResult {
    let (page_request, owner, contains, visibility) = call.query(|q| {
        let page = page_of(&call, q);
        let owner = q.optional("owner").map(str::to_owned);
        let contains = q.parsed("q", |text| match text.chars().count() {
            1..=200 => Ok(text.to_owned()),
            _ => Err("must have 1 to 200 characters"),
        });
        let visibility = q.choice("visibility", VISIBILITIES.choices());
        Some((page?, owner, contains, visibility))
    })?;
    let seen_as = match visibility {
        None => "",
        Some(Visibility::Public) => "public",
        Some(Visibility::Private) => "private",
    };
    let bound =
        bound(&["databases", owner.as_deref().unwrap_or_default(), contains.as_deref().unwrap_or_default(), seen_as]);
    let after: Option<(String, String)> = call.page_key(&page_request, &bound)?;
    let owner = match owner.map(|text| OwnerName::parse(&text)) {
        None => None,
        Some(Ok(owner)) => Some(owner),
        // An owner with an invalid name cannot exist, so the list is empty.
        Some(Err(_)) => return page(&call.state, &page_request, &bound, Vec::<DatabaseView>::new(), shown, key),
    };
    let (caller, fetch) = (call.caller.clone(), page_request.fetch());
    let filter = DatabaseFilter { owner, contains, visibility, ..DatabaseFilter::default() };
    let found = call
        .read(move |hub| {
            let after = after.as_ref().map(|(owner, name)| (owner.as_str(), name.as_str()));
            hub.databases().list(&caller, &filter, after, fetch)
        })
        .await?;
    page(&call.state, &page_request, &bound, found, shown, key)
}

fn shown(view: &DatabaseView) -> wire::Database {
    view.into()
}

fn key(view: &DatabaseView) -> (String, String) {
    (view.database.locator.owner.key(), view.database.locator.name.key())
}

/// Handles `POST /databases`.
pub(crate) async fn create_database(call: RequestContext) -> HandlerResult {
    let user = call.signed_in()?;
    let key = call.key(&user).await?;
    let wanted = call.json(&CREATE_DATABASE)?;
    let urls = urls(&call.state);
    let act = move |hub: &branchyard_http_common::Services,
                    once: Option<&branchyard_domain::usecases::IdempotencyRecord<'_, _>>| match wanted {
        (wanted, None) => hub.databases().create(&user, wanted, once),
        (wanted, Some(mirror_of)) => hub.databases().create_mirror(&user, wanted, &mirror_of, once),
    };
    call.effect(key, act, move |view| created(view, &urls)).await
}

fn created(view: &DatabaseView, urls: &Urls) -> ApiResponse {
    ApiResponse::resource(201, &shown(view)).at(urls.database(&view.database.locator))
}

const CREATE_DATABASE: RequestBody<(NewDatabase, Option<NewMirror>)> =
    RequestBody::closed("CreateDatabaseRequest", new_database)
        .example(|| json!({"owner": "ada", "name": "rivers", "visibility": "private", "description": "River gauges"}));

fn new_database(fields: &Fields<'_>) -> Option<(NewDatabase, Option<NewMirror>)> {
    let owner = fields.schema(OwnerName::schema).required_string("owner");
    let name = fields.required::<DatabaseName>("name");
    let visibility = fields.required_choice("visibility", &VISIBILITIES);
    let description = fields.optional::<Description>("description");
    let default_branch = fields.schema(|| json!({"default": "main"})).optional::<RefName>("default_branch");
    let mirror_of = fields.optional_object("mirror_of", new_mirror)?;
    Some((NewDatabase { owner: owner?, name: name?, visibility: visibility?, description, default_branch }, mirror_of))
}

/// Handles `GET …`.
pub(crate) async fn get_database(call: RequestContext) -> HandlerResult {
    let access = call.access::<Read>().await?;
    let view = call.read(move |hub| hub.databases().get(&access)).await?;
    Ok(ApiResponse::resource(200, &shown(&view)))
}

/// Handles `PATCH …`.
pub(crate) async fn update_database(call: RequestContext) -> HandlerResult {
    let access = call.access::<Admin>().await?;
    let edit = call.json(&UPDATE_DATABASE)?;
    let if_match = call.if_match();
    let (by, is_moved) = (access.who().name.clone(), edit.name.is_some() || edit.owner.is_some());
    let (was, view) = call
        .write(move |hub| {
            // The last state before the edit, which may be newer than the access.
            let was = Cell::new(None);
            let as_seen = |view: &DatabaseView| {
                was.set(Some(view.database.locator.clone()));
                unchanged(if_match.as_ref(), &shown(view))
            };
            let view = hub.databases().edit(&access, edit, Some(&as_seen))?;
            Ok::<_, DatabaseError>((was.into_inner(), view))
        })
        .await?;
    if let Some(was) = was.filter(|was| is_moved && *was != view.database.locator) {
        audit::database_moved(&by, &was, &view.database.locator);
    }
    Ok(ApiResponse::resource(200, &shown(&view)))
}

const UPDATE_DATABASE: RequestBody<EditDatabase> = RequestBody::patch("UpdateDatabaseRequest", edit_database)
    .example(|| json!({"visibility": "public", "description": "River gauges"}));

fn edit_database(fields: &Fields<'_>) -> Option<EditDatabase> {
    let name = fields.doc("Renames the database.").optional::<DatabaseName>("name");
    let owner = fields
        .schema(OwnerName::schema)
        .doc("Transfers the database to an account that the caller may create databases for.");
    let owner = owner.optional_string("owner");
    let description = fields.clearable::<Description>("description");
    let visibility = fields.optional_choice("visibility", &VISIBILITIES);
    let default_branch = fields.doc("An existing branch.").optional_string("default_branch");
    let anonymous_sql = fields.doc("Whether callers without a credential may run SQL.").optional_bool("anonymous_sql");
    Some(EditDatabase { name, owner, description, visibility, default_branch, anonymous_sql })
}

/// Handles `DELETE …`.
pub(crate) async fn delete_database(call: RequestContext) -> HandlerResult {
    let access = call.access::<Admin>().await?;
    let if_match = call.if_match();
    let view = call
        .write(move |hub| {
            let as_seen = |view: &DatabaseView| unchanged(if_match.as_ref(), &shown(view));
            hub.databases().delete(&access, Some(&as_seen))
        })
        .await?;
    Ok(ApiResponse::data(200, &shown(&view)))
}

/// Handles `POST …/purge`.
pub(crate) async fn purge_database(call: RequestContext) -> HandlerResult {
    let queued = queue_purge(&call).await;
    waiting::completed(call, queued).await
}

async fn queue_purge(call: &RequestContext) -> HandlerResult {
    let access = call.access::<Admin>().await?;
    let key = call.key(access.who()).await?;
    call.json(&NO_FIELDS)?;
    let urls = urls(&call.state);
    let act = move |hub: &branchyard_http_common::Services,
                    once: Option<&branchyard_domain::usecases::IdempotencyRecord<'_, _>>| {
        hub.operations().purge(&access, once)
    };
    call.effect_always(key, act, move |operation| accepted(operation, &urls)).await
}
