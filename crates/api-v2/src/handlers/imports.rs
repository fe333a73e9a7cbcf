use actix_web::http::header;
use actix_web::{HttpRequest, HttpResponse, web};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use branchyard_domain::access::Write;
use branchyard_domain::entities::{
    FileType, ImportMode, ImportOptions, ImportType, Operation, TextEncoding, TextOptions,
};
use branchyard_domain::errors::ImportError;
use branchyard_domain::usecases::{CompletedPart, NewImport, NewUpload, OpenedUpload};
use branchyard_domain::values::{LongText, RefName, Timestamp, UploadId};
use branchyard_http_common::{
    ApiError, ApiResponse, AppState, Endpoint, FieldText as _, Fields, HandlerError, Pumped, RequestBody,
    RequestContext, Urls, Words, section, uncounted, upload_channel,
};
use branchyard_problem_details::{ErrorCode, Problem};
use data_encoding::HEXLOWER;
use futures_util::future::join;

use super::{HandlerResult, accepted, urls};
use crate::openapi::MD5_PATTERN;
use crate::{waiting, wire};
use branchyard_http_common::methods::{post, put};
use branchyard_openapi::{Credential, Success};
use serde_json::json;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section(
        "Database",
        "",
        vec![
            post(
                "/databases/{owner}/{database}/imports/uploads",
                "createImportUpload",
                "Open an upload session",
                create_import_upload,
            )
            .json(&CREATE_IMPORT_UPLOAD)
            .responds(201, Success::One("ImportUpload"), ("DBKP", &[422]))
            .describe(
                "Announces a file and returns a URL for each part. The session is valid for one hour, the URLs for \
                 ten minutes. Both contain secrets.",
            ),
            post("/databases/{owner}/{database}/imports", "createImport", "Import an uploaded file", create_import)
                .json(&CREATE_IMPORT)
                .responds(202, Success::One("OperationRef"), ("DBKP", &[409, 422]))
                .describe(
                    "Runs as an operation: the whole file becomes one commit, or nothing changes. `file_parts_md5` is \
                     the base64-encoded MD5 of the concatenated base64-encoded MD5s of the parts, in order.",
                ),
            put("/uploads/{upload_id}/{part_number}", "putImportPart", "Upload a part to a URL of a session", put_part)
                .headers(&["Content-MD5"])
                .credential(Credential::Ignored)
                .query(&["expires", "signature"])
                .bytes()
                .responds(200, Success::Nothing, &[400, 403, 409, 413])
                .describe(
                    "Send the raw bytes to the URL exactly as the session returned it. The URL is the credential: \
                 `Authorization` is ignored, and the request does not count against rate limits. A later complete \
                 upload of a part replaces the earlier one; an upload that is cut short changes nothing.",
                ),
        ],
    )
}

const FILE_TYPES: Words<FileType> = Words::component(
    "ImportFileType",
    &[
        ("csv", FileType::Csv),
        ("psv", FileType::Psv),
        ("tsv", FileType::Tsv),
        ("xlsx", FileType::Xlsx),
        ("json", FileType::Json),
        ("sql", FileType::Sql),
        ("yaml", FileType::Yaml),
        ("parquet", FileType::Parquet),
        ("sqlite", FileType::Sqlite),
    ],
);

const COLUMN_TYPES: Words<ImportType> = Words::component(
    "ImportColumnType",
    &[
        ("INTEGER", ImportType::Integer),
        ("REAL", ImportType::Real),
        ("NUMERIC", ImportType::Numeric),
        ("TEXT", ImportType::Text),
        ("BLOB", ImportType::Blob),
    ],
);

const ENCODINGS: Words<TextEncoding> = Words::component(
    "ImportEncoding",
    &[("utf-8", TextEncoding::Utf8), ("utf-16", TextEncoding::Utf16), ("windows-1252", TextEncoding::Windows1252)],
);

fn delimiter(text: &str) -> Result<char, &'static str> {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some('"' | '\r' | '\n' | '\0'), None) => Err("must not be a quote, a line end or NUL"),
        (Some(delimiter), None) => Ok(delimiter),
        _ => Err("must be one character"),
    }
}

const MODES: Words<ImportMode> = Words::component(
    "ImportOperation",
    &[
        ("create", ImportMode::Create),
        ("overwrite", ImportMode::Overwrite),
        ("update", ImportMode::Update),
        ("replace", ImportMode::Replace),
    ],
);

/// Prefix of the `contents_key` of an upload session. The id of the session follows.
const CONTENTS: &str = "imports/";

const CREATE_IMPORT_UPLOAD: RequestBody<NewUpload> = RequestBody::closed("CreateImportUploadRequest", |fields| {
    let content_length = fields
        .schema(|| json!({"maximum": 1_i64 << 30, "description": "Bytes of the file."}))
        .required_int("content_length", &(1..=u64::MAX));
    let num_parts = fields
        .schema(|| json!({"maximum": 1_000, "description": "At most one part per byte."}))
        .required_int("num_parts", &(1..=u64::MAX));
    let file_type = fields.required_choice("file_type", &FILE_TYPES);
    Some(NewUpload { content_length: content_length?, num_parts: num_parts?, file_type: file_type? })
})
.example(|| json!({"content_length": 16, "num_parts": 1, "file_type": "csv"}));

/// Handles `POST …/imports/uploads`.
pub(crate) async fn create_import_upload(call: RequestContext) -> HandlerResult {
    let access = call.access::<Write>().await?;
    let key = call.key(access.who()).await?;
    let wanted = call.json(&CREATE_IMPORT_UPLOAD)?;
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

/// Handles `PUT /uploads/{upload_id}/{part_number}`. The signed URL is the credential. `Authorization` is ignored.
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
    let services = state.services.clone();
    let stored = state.uploads.run(state.address_key(&request), move || {
        services.imports().put_part(upload, number, expected, &mut reader).map_err(ApiError::from)
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
    Ok(HttpResponse::Ok().insert_header((header::ETAG, format!("\"{}\"", HEXLOWER.encode(&md5)))).finish())
}

fn content_md5(request: &HttpRequest) -> Result<Option<[u8; 16]>, HandlerError> {
    let Some(value) = request.headers().get("content-md5") else { return Ok(None) };
    let digest = value.to_str().ok().and_then(|text| STANDARD.decode(text.trim()).ok());
    let digest: Option<[u8; 16]> = digest.and_then(|bytes| bytes.try_into().ok());
    digest.map(Some).ok_or_else(|| HandlerError::parameter("Content-MD5", "must be 16 bytes in base64"))
}

/// Handles `POST …/imports`.
pub(crate) async fn create_import(call: RequestContext) -> HandlerResult {
    let queued = queue_import(&call).await;
    waiting::completed(call, queued).await
}

async fn queue_import(call: &RequestContext) -> HandlerResult {
    let access = call.access::<Write>().await?;
    let key = call.key(access.who()).await?;
    let mut wanted = call.json(&CREATE_IMPORT)?;
    if !wanted.options.column_types.is_empty() {
        let seen = access.clone();
        wanted = call
            .run(&call.state.uploads, move |hub| -> Result<_, ImportError> {
                let file_columns = hub.imports().file_columns(&seen, &wanted)?;
                Ok(NewImport { file_columns, ..wanted })
            })
            .await?;
    }
    let urls = urls(&call.state);
    let started = move |operation: &Operation| accepted(operation, &urls);
    call.effect(key, move |hub, once| hub.imports().start(&access, wanted, once), started).await
}

const CREATE_IMPORT: RequestBody<NewImport> = RequestBody::closed("CreateImportRequest", new_import).example(|| json!({
            "branch_name": "main", "table_name": "people", "file_name": "people.csv", "file_size": 16, "file_type": "csv",
            "import_operation": "create", "token": "up_9f3c", "contents_key": "imports/0199c3a9-0000-7000-8000-000000000001",
            "completed_parts": [{"part_number": 1, "etag": "\"0b13d5cd7d263ccb7c6425a348112f13\""}],
            "file_parts_md5": "pIX9YH40aFyNTQB/HPa4iw==", "primary_keys": ["id"], "commit_message": "Import people",
        }));

fn new_import(fields: &Fields<'_>) -> Option<NewImport> {
    // Lists the required fields in the published order, which differs from the order in which fields are read and errors are
    // reported.
    fields.describe_object(|| {
        json!({"required": [
            "branch_name", "table_name", "file_name", "file_size", "file_type", "import_operation", "token", "contents_key",
            "completed_parts", "file_parts_md5", "primary_keys",
        ]})
    });
    let secret = fields.doc("As the session returned it.").required_string("token");
    let contents_key = fields.doc("As the session returned it.").required_string("contents_key");
    let branch =
        fields.schema(|| json!({"minLength": 1, "description": "An existing branch."})).required_string("branch_name");
    let table = fields
        .doc("Does not begin with `sqlite_` or `dolt_`. May be empty for `sql`.")
        .schema(|| json!({"maxLength": 128}))
        .required_string("table_name");
    let file_name = fields
        .schema(|| json!({"minLength": 1, "maxLength": 255, "pattern": r"^[^/\u0000]*$"}))
        .required_string("file_name");
    let file_size = fields
        .schema(|| json!({"minimum": 1, "description": "Equal to `content_length` of the session."}))
        .required_int("file_size", &(0..=u64::MAX));
    let file_type = fields.required_choice("file_type", &FILE_TYPES);
    let mode = fields.required_choice("import_operation", &MODES);
    let parts = fields
        .component("CompletedPart")
        .schema(|| json!({"minItems": 1, "maxItems": 1_000, "description": "Each part once, in any order."}))
        .required_objects("completed_parts", |part| {
            let number = part.required_int("part_number", &(1..=u64::MAX));
            let etag = part
                .schema(|| json!({"minLength": 1, "description": "`ETag` of the part, with or without quotes."}))
                .required_string("etag");
            Some(CompletedPart { number: number?, etag: etag? })
        });
    let checksum = fields
        .doc("Base64-encoded MD5 of the concatenated base64-encoded MD5s of the parts, in order.")
        .schema(|| json!({"pattern": MD5_PATTERN}))
        .required_string("file_parts_md5");
    let primary_keys = fields.doc("Key columns; may be empty, never null.").required_strings("primary_keys");
    let message = fields.schema(LongText::schema).optional_string("commit_message");
    let pull_branch = fields
        .schema(RefName::schema)
        .doc("The data is committed to this branch, and a pull request into `branch_name` is opened.")
        .optional_string("pull_request_branch_name");
    let column_map = fields.doc("New names for columns of the file.").string_map("column_map");
    let column_types = fields
        .doc(
            "Types of columns of the file; the others get theirs from the values. In a new table they are the declared types; in an \
             existing table, values have to fit them too. `BLOB` is base64 in text. A value that does not fit is a row error.",
        )
        .word_map("column_types", &COLUMN_TYPES);
    let delimiter = fields
        .schema(|| json!({"minLength": 1, "maxLength": 1}))
        .doc("One character, only for `csv` and `tsv`; not a quote or a line end. Default: a comma, or a tab.")
        .optional_as("delimiter", delimiter);
    let encoding = fields
        .doc("Only for `csv` and `tsv`. Default: `utf-8`.")
        .optional_choice("encoding", &ENCODINGS)
        .unwrap_or_default();
    Some(NewImport {
        options: ImportOptions { column_types: column_types?, text: TextOptions { delimiter, encoding } },
        file_columns: None,
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
