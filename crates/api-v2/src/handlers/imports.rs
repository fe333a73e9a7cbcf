use actix_web::http::header;
use actix_web::{HttpRequest, HttpResponse, web};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use branchyard_domain::access::Write;
use branchyard_domain::entities::{FileType, ImportMode, Operation};
use branchyard_domain::usecases::{CompletedPart, NewImport, NewUpload, OpenedUpload};
use branchyard_domain::values::{Timestamp, UploadId};
use branchyard_http_common::{
    ApiError, ApiResponse, AppState, Fields, HandlerError, Pumped, RequestContext, Urls, uncounted, upload_channel,
};
use branchyard_problem_details::{ErrorCode, Problem};
use futures_util::future::join;

use super::{HandlerResult, accepted, urls};
use crate::wire;

const FILE_TYPES: &[(&str, FileType)] = &[
    ("csv", FileType::Csv),
    ("psv", FileType::Psv),
    ("xlsx", FileType::Xlsx),
    ("json", FileType::Json),
    ("sql", FileType::Sql),
    ("yaml", FileType::Yaml),
    ("parquet", FileType::Parquet),
    ("sqlite", FileType::Sqlite),
];

const MODES: &[(&str, ImportMode)] = &[
    ("create", ImportMode::Create),
    ("overwrite", ImportMode::Overwrite),
    ("update", ImportMode::Update),
    ("replace", ImportMode::Replace),
];

/// How the contents of a session are called.
const CONTENTS: &str = "imports/";

/// `POST …/imports/uploads`
pub(crate) async fn create_import_upload(call: RequestContext) -> HandlerResult {
    let access = call.access::<Write>().await?;
    let key = call.key(access.who()).await?;
    let wanted = call.body(|fields| {
        let content_length = fields.required_int("content_length", &(1..=u64::MAX));
        let num_parts = fields.required_int("num_parts", &(1..=u64::MAX));
        let file_type = fields.required_choice("file_type", FILE_TYPES);
        Some(NewUpload { content_length: content_length?, num_parts: num_parts?, file_type: file_type? })
    })?;
    let (state, urls) = (call.state.clone(), urls(&call.state));
    let opened = move |opened: &OpenedUpload| ApiResponse::data(201, &session(opened, &state, &urls)).secret();
    call.effect(key, move |hub, once| hub.imports().open_upload(&access, wanted, once), opened).await
}

fn session(opened: &OpenedUpload, state: &AppState, urls: &Urls) -> wire::ImportUpload {
    let OpenedUpload { upload, secret } = opened;
    let now: Timestamp = upload.created_at;
    let parts = (1..=upload.num_parts).map(|number| wire::ImportUploadPart {
        part_number: number,
        url: state.part_url(urls, upload.id, number, now),
    });
    wire::ImportUpload {
        token: secret.clone(),
        contents_key: format!("{CONTENTS}{}", upload.id),
        parts: parts.collect(),
        http_method: "PUT",
        headers: std::collections::BTreeMap::new(),
    }
}

/// `PUT /uploads/{upload_id}/{part_number}`: the address is the credential; `Authorization` is not looked at.
pub(crate) async fn put_part(
    state: web::Data<AppState>,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, HandlerError> {
    uncounted(&request);
    let segment = |name: &str| request.match_info().get(name).unwrap_or_default();
    let (upload, number) = state.part_of(segment("upload_id"), segment("part_number"), request.query_string())?;
    let expected = content_md5(&request)?;
    let (body, mut reader) = upload_channel(payload);
    let hub = state.hub.clone();
    let stored = state.uploads.run(state.address_key(&request), move || {
        hub.imports().put_part(upload, number, expected, &mut reader).map_err(ApiError::from)
    });
    let patience = &state.config.patience;
    let (stored, pumped) = join(stored, body.pump(patience)).await;
    if pumped == Pumped::TooSlow {
        let (stall, pace) = (patience.stall.as_secs_f32(), patience.bytes_per_second);
        let detail =
            format!("the part came too slowly: nothing for {stall} seconds, or less than {pace} bytes a second");
        return Err(Problem::new(ErrorCode::ValidationFailed, detail).into());
    }
    let md5 = stored?.map_err(|refusal| HandlerError::of(refusal, &request))?;
    let hex: String = md5.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(HttpResponse::Ok().insert_header((header::ETAG, format!("\"{hex}\""))).finish())
}

fn content_md5(request: &HttpRequest) -> Result<Option<[u8; 16]>, HandlerError> {
    let Some(value) = request.headers().get("content-md5") else { return Ok(None) };
    let digest = value.to_str().ok().and_then(|text| STANDARD.decode(text.trim()).ok());
    let digest: Option<[u8; 16]> = digest.and_then(|bytes| bytes.try_into().ok());
    digest.map(Some).ok_or_else(|| HandlerError::parameter("Content-MD5", "must be 16 bytes in base64"))
}

/// `POST …/imports`
pub(crate) async fn create_import(call: RequestContext) -> HandlerResult {
    let access = call.access::<Write>().await?;
    let key = call.key(access.who()).await?;
    let wanted = call.body(new_import)?;
    let urls = urls(&call.state);
    let started = move |operation: &Operation| accepted(operation, &urls);
    call.effect(key, move |hub, once| hub.imports().start(&access, wanted, once), started).await
}

fn new_import(fields: &Fields<'_>) -> Option<NewImport> {
    let secret = fields.required_string("token");
    let contents_key = fields.required_string("contents_key");
    let branch = fields.required_string("branch_name");
    let table = fields.required_string("table_name");
    let file_name = fields.required_string("file_name");
    let file_size = fields.required_int("file_size", &(0..=u64::MAX));
    let file_type = fields.required_choice("file_type", FILE_TYPES);
    let mode = fields.required_choice("import_operation", MODES);
    let parts = fields.required_objects("completed_parts", |part| {
        let number = part.required_int("part_number", &(1..=u64::MAX));
        let etag = part.required_string("etag");
        Some(CompletedPart { number: number?, etag: etag? })
    });
    let checksum = fields.required_string("file_parts_md5");
    let primary_keys = fields.required_strings("primary_keys");
    let message = fields.optional_string("commit_message");
    let pull_branch = fields.optional_string("pull_request_branch_name");
    let column_map = fields.string_map("column_map");
    Some(NewImport {
        secret: secret?,
        upload: contents_key?.strip_prefix(CONTENTS).and_then(|id| UploadId::parse(id).ok()),
        branch: branch?,
        table: table?,
        file_name: file_name?,
        file_size: file_size?,
        file_type: file_type?,
        mode: mode?,
        parts: parts?,
        checksum: checksum?,
        primary_keys: primary_keys?,
        message,
        pull_branch,
        column_map: column_map?,
    })
}
