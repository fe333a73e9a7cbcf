use std::io::Read as _;

use actix_web::http::header;
use actix_web::web::{Bytes, Data, block};
use actix_web::{HttpResponse, Responder as _};
use branchyard_api_common::{Answer, Call, Failure};
use branchyard_domain::access::{Manage, Observe};
use branchyard_domain::ports::ReadSeek;
use futures_util::stream;

use super::{Outcome, accepted, whole};
use crate::{Settings, convert};

/// Bytes of a file that are read at a time.
const PIECE: usize = 256 << 10;

/// `GET …/backups`
pub(crate) async fn list_backups(call: Call) -> Outcome {
    let access = call.deployment::<Observe>().await?;
    let backups = call.read(move |hub| hub.deployments().backups(&access)).await?;
    Ok(whole(&backups.iter().map(convert::backup).collect::<Vec<_>>()))
}

/// `POST …/backups`
pub(crate) async fn create_backup(call: Call, settings: Data<Settings>) -> Outcome {
    let access = call.deployment::<Manage>().await?;
    let key = call.key(access.who()).await?;
    call.effect(
        key,
        move |hub, once| hub.deployments().back_up(&access, once),
        move |operation| accepted(operation, &settings),
    )
    .await
}

/// `DELETE …/backups/{backup_id}`
pub(crate) async fn delete_backup(call: Call) -> Outcome {
    let access = call.deployment::<Manage>().await?;
    let id = call.segment("backup_id");
    let backup = call.write(move |hub| hub.deployments().remove_backup(&access, &id)).await?;
    Ok(Answer::data(200, &convert::backup(&backup)))
}

/// `GET …/backups/{backup_id}/databases/{database}`: the file itself.
pub(crate) async fn download_backup(call: Call, request: actix_web::HttpRequest) -> Result<HttpResponse, Failure> {
    let access = call.deployment::<Manage>().await?;
    let (id, database) = (call.segment("backup_id"), call.segment("database"));
    let file = call.read(move |hub| hub.deployments().read_backup(&access, &id, &database)).await?;
    let etag = format!("\"{}\"", file.sha256);
    if call.if_none_match().matches(&etag) {
        let unmodified = Answer::with_body(200, String::new()).tagged(Some(etag));
        return Ok(unmodified.respond_to(&request));
    }
    Ok(HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, "application/octet-stream"))
        .insert_header((header::ETAG, etag))
        .no_chunking(file.size_bytes)
        .streaming(pieces(file.bytes)))
}

/// The bytes, read off the worker thread piece by piece.
fn pieces(bytes: Box<dyn ReadSeek>) -> impl futures_util::Stream<Item = std::io::Result<Bytes>> {
    stream::try_unfold(bytes, |mut bytes| async move {
        let read = block(move || {
            let mut piece = Vec::with_capacity(PIECE);
            let limit = u64::try_from(PIECE).unwrap_or(u64::MAX);
            bytes.by_ref().take(limit).read_to_end(&mut piece)?;
            Ok::<_, std::io::Error>((piece, bytes))
        });
        let (piece, bytes) = read.await.map_err(std::io::Error::other)??;
        Ok((!piece.is_empty()).then_some((Bytes::from(piece), bytes)))
    })
}
