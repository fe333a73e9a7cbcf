use actix_web::http::header;
use actix_web::{HttpRequest, HttpResponse, web};
use branchyard_domain::Hub;
use branchyard_domain::access::{DatabaseAccess, Write};
use branchyard_domain::entities::{FileType, ImportMode, Operation};
use branchyard_domain::usecases::{NewFileImport, StoredFile};
use branchyard_http_common::{
    ApiError, Fields, HandlerError, Multipart, Pumped, RequestContext, UploadReader, form_boundary, read_open,
    upload_channel,
};
use branchyard_problem_details::{ErrorCode, Problem};
use futures_util::future::join;

use super::{pulls, word};
use crate::access::access;
use crate::legacy_errors::{LegacyError, field};
use crate::names;
use crate::request::LegacyRequest;
use crate::wire::{Done, Place, UploadEcho, UploadStarted};

const FILE_TYPES: &[(&str, FileType)] = &[
    ("Csv", FileType::Csv),
    ("Psv", FileType::Psv),
    ("Json", FileType::Json),
    ("Xlsx", FileType::Xlsx),
    ("Sql", FileType::Sql),
];

const MODES: &[(&str, ImportMode)] = &[
    ("Create", ImportMode::Create),
    ("Update", ImportMode::Update),
    ("Overwrite", ImportMode::Overwrite),
    ("Replace", ImportMode::Replace),
];

/// Handles `GET /{owner}/{database}/upload?operationName=`.
pub(crate) async fn poll_upload(asked: LegacyRequest) -> HttpResponse {
    pulls::poll(asked, None).await
}

/// The branch and the table of the request, if they were read before an error.
#[derive(Default)]
struct SentParts {
    branch: String,
    table: String,
}

/// Handles `POST /{owner}/{database}/upload`.
pub(crate) async fn upload(request: HttpRequest, payload: web::Payload) -> HttpResponse {
    let asked = LegacyRequest::without_body(request).await;
    let mut place = asked.place();
    let (sent, started) = start(&asked, &mut place, payload).await;
    let echo = UploadEcho { database: place.echo(), branch_name: sent.branch, table_name: sent.table };
    let started = started.map(|operation| {
        Done::new(UploadStarted {
            echo: echo.clone(),
            operation_name: names::of_job(&operation),
            user_operation_name: names::of_user(&operation),
        })
    });
    asked.answer(started, &echo)
}

async fn start(
    asked: &LegacyRequest,
    place: &mut Place,
    payload: web::Payload,
) -> (SentParts, Result<Operation, HandlerError>) {
    let (body, reader) = upload_channel(payload);
    let ready = match asked.call() {
        Ok(call) => ready(call, asked, place).await.map(|(access, boundary)| (call, access, boundary)),
        Err(failure) => Err(failure),
    };
    let (call, access, boundary) = match ready {
        Ok(ready) => ready,
        Err(failure) => {
            // A client that is still sending might miss the response, so some of the body is discarded first.
            drop(reader);
            body.drain().await;
            return (SentParts::default(), Err(failure));
        }
    };
    let limits =
        UploadLimits { file: asked.settings().upload_max_bytes, params: call.state.config.max_json_body_bytes };
    let taken =
        call.run(&call.state.uploads, move |hub| Ok::<_, ApiError>(take(hub, &access, reader, &boundary, limits)));
    let patience = &call.state.config.patience;
    let (taken, pumped) = join(taken, body.pump(patience)).await;
    if pumped == Pumped::TooSlow {
        let (stall, pace) = (patience.stall.as_secs_f32(), patience.bytes_per_second);
        let text = format!("came too slowly: nothing for {stall} seconds, or less than {pace} bytes a second");
        return (SentParts::default(), Err(field("file", text).into()));
    }
    match taken {
        Ok((sent, started)) => {
            let started = match started {
                Ok(operation) => Ok(operation),
                Err(refusal) => Err(HandlerError::of(refusal, &asked.request)),
            };
            (sent, started)
        }
        Err(failure) => (SentParts::default(), Err(failure)),
    }
}

async fn ready(
    call: &RequestContext,
    asked: &LegacyRequest,
    place: &mut Place,
) -> Result<(DatabaseAccess<Write>, Vec<u8>), HandlerError> {
    let access = access::<Write>(call, place, "importing").await?;
    let content_type = asked.request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let boundary = form_boundary(content_type.unwrap_or_default());
    let boundary = boundary
        .ok_or_else(|| Problem::new(ErrorCode::UnsupportedMediaType, "a file is sent as multipart/form-data"))?;
    Ok((access, boundary))
}

/// Maximum bytes of the two parts.
#[derive(Clone, Copy)]
struct UploadLimits {
    file: u64,
    params: usize,
}

/// Reads the parts of the form in any order. The file is streamed to the blob store.
fn take(
    hub: &Hub,
    access: &DatabaseAccess<Write>,
    reader: UploadReader,
    boundary: &[u8],
    limits: UploadLimits,
) -> (SentParts, Result<Operation, ApiError>) {
    let mut sent = SentParts::default();
    let started = parts(hub, access, reader, boundary, limits, &mut sent);
    (sent, started)
}

fn parts(
    hub: &Hub,
    access: &DatabaseAccess<Write>,
    reader: UploadReader,
    boundary: &[u8],
    limits: UploadLimits,
    sent: &mut SentParts,
) -> Result<Operation, ApiError> {
    let mut form = Multipart::new(reader, boundary);
    let (mut file, mut wanted): (Option<StoredFile<'_>>, Option<NewFileImport>) = (None, None);
    let broken = |error: std::io::Error| ApiError::from(body_fault(&error.to_string()));
    while let Some(name) = form.next_part().map_err(broken)?.map(|part| part.name) {
        match name.as_str() {
            "file" if file.is_none() => {
                file = Some(hub.imports().store_file(access, &mut form.part(), limits.file).map_err(LegacyError)?);
            }
            "params" if wanted.is_none() => {
                let text = form.part_text(limits.params).map_err(broken)?;
                wanted = Some(read_open(&text, |fields| params(fields, sent))?);
            }
            _ => {}
        }
    }
    let file = file.ok_or_else(|| field("file", "is required"))?;
    let wanted = wanted.ok_or_else(|| field("params", "is required"))?;
    Ok(hub.imports().start_file(access, file, wanted).map_err(LegacyError)?)
}

fn body_fault(text: &str) -> Problem {
    use branchyard_problem_details::FieldError;
    Problem::new(ErrorCode::ValidationFailed, text).with_error(FieldError::at_pointer("", text))
}

fn params(fields: &Fields<'_>, sent: &mut SentParts) -> Option<NewFileImport> {
    let file_name = fields.required_string("fileName");
    let branch = fields.required_string("branchName");
    let file_type = fields.required_as("fileType", |text| word(text, FILE_TYPES));
    let mode = fields.optional_as("importOp", |text| word(text, MODES));
    let table = fields.optional_string("tableName");
    if file_type != Some(FileType::Sql) {
        for name in ["importOp", "tableName"] {
            if !fields.has(name) {
                fields.fault(name, "is required");
            }
        }
    }
    let primary_keys =
        if fields.has("primaryKeys") { fields.required_strings("primaryKeys") } else { Some(Vec::new()) };
    sent.branch = branch.clone().unwrap_or_default();
    sent.table = table.clone().unwrap_or_default();
    Some(NewFileImport {
        branch: branch.filter(|name| !name.is_empty()),
        table: table.unwrap_or_default(),
        file_name: file_name?,
        file_type: file_type?,
        mode,
        primary_keys: primary_keys?,
    })
}
