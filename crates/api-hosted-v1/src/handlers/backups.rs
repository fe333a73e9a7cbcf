use actix_web::http::header;
use actix_web::web::Data;
use actix_web::{HttpResponse, Responder as _};
use branchyard_deployments::access::{Manage, Observe};
use branchyard_http_common::{ApiResponse, Endpoint, HandlerError, RequestContext, file_pieces, section};

use super::{HandlerResult, accepted, whole};
use crate::{Settings, convert};
use branchyard_http_common::methods::{delete, get, post};
use branchyard_openapi::Success;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section(
        "Backups",
        "/deployments/{owner}/{deployment}/backups",
        vec![
            get("", "listBackups", "Complete and verified backups", list_backups).responds(
                200,
                Success::List("Backup"),
                &[404],
            ),
            post("", "createBackup", "Create a backup", create_backup).responds(
                202,
                Success::One("OperationRef"),
                &[400, 403, 404, 409, 413, 415, 422],
            ),
            delete("/{backup_id}", "deleteBackup", "Remove a backup", delete_backup).responds(
                200,
                Success::One("Backup"),
                &[403, 404, 409],
            ),
            get("/{backup_id}/databases/{database}", "downloadBackup", "The file of a database", download_backup)
                .responds(200, Success::File, &[403, 404]),
        ],
    )
}

/// Handles `GET …/backups`.
pub(crate) async fn list_backups(call: RequestContext) -> HandlerResult {
    let access = call.deployment::<Observe>().await?;
    let backups = call.read(move |hub| hub.deployments().backups(&access)).await?;
    Ok(whole(&backups.iter().map(convert::backup).collect::<Vec<_>>()))
}

/// Handles `POST …/backups`.
pub(crate) async fn create_backup(call: RequestContext, settings: Data<Settings>) -> HandlerResult {
    let access = call.deployment::<Manage>().await?;
    let key = call.key(access.who()).await?;
    call.effect(
        key,
        move |hub, once| hub.deployments().back_up(&access, once),
        move |operation| accepted(operation, &settings),
    )
    .await
}

/// Handles `DELETE …/backups/{backup_id}`.
pub(crate) async fn delete_backup(call: RequestContext) -> HandlerResult {
    let access = call.deployment::<Manage>().await?;
    let id = call.segment("backup_id");
    let backup = call.write(move |hub| hub.deployments().remove_backup(&access, &id)).await?;
    Ok(ApiResponse::data(200, &convert::backup(&backup)))
}

/// Handles `GET …/backups/{backup_id}/databases/{database}`. Streams the file.
pub(crate) async fn download_backup(
    call: RequestContext,
    request: actix_web::HttpRequest,
) -> Result<HttpResponse, HandlerError> {
    let access = call.deployment::<Manage>().await?;
    let (id, database) = (call.segment("backup_id"), call.segment("database"));
    let file = call.read(move |hub| hub.deployments().read_backup(&access, &id, &database)).await?;
    let etag = format!("\"{}\"", file.sha256);
    if call.if_none_match().matches(&etag) {
        let unmodified = ApiResponse::with_body(200, String::new()).tagged(Some(etag));
        return Ok(unmodified.respond_to(&request));
    }
    Ok(HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, "application/octet-stream"))
        .insert_header((header::ETAG, etag))
        .no_chunking(file.size_bytes)
        .streaming(file_pieces(file.bytes)))
}
