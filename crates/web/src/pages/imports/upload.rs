//! Uploads of files.

use actix_web::http::header;
use actix_web::{HttpRequest, HttpResponse, web};
use askama::Template;
use branchyard_domain::Hub;
use branchyard_domain::access::{DatabaseAccess, Write};
use branchyard_domain::entities::{FileType, Upload};
use branchyard_domain::errors::ImportError;
use branchyard_domain::usecases::{NewUpload, OpenedUpload};
use branchyard_domain::values::UploadId;
use branchyard_http_common::{
    ApiError, AppState, HandlerError, Multipart, Pumped, UploadBody, UploadReader, form_boundary, upload_channel,
};
use branchyard_problem_details::{ErrorCode, Problem};
use futures_util::future::join;
use serde_json::json;

use super::{FORM_FILE_BYTES, FORMATS, format_of};
use crate::csrf;
use crate::database::{self, DatabaseFrame, DatabaseTab};
use crate::error_page::PageError;
use crate::format;
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::paths;

/// Size of the parts that the script uploads, in bytes.
const PART_BYTES: u64 = 8 << 20;
const FIELDS: &[&str] = &["file", "file_type"];
pub(in crate::pages) const EMPTY_FILE: &str = "This file is empty. Choose a file with content.";

#[derive(Template)]
#[template(path = "import_new.html")]
struct NewImportPage {
    shell: LayoutContext,
    frame: DatabaseFrame,
    form: Filled,
    /// The formats: values and labels of the options.
    formats: Vec<(&'static str, &'static str)>,
    file: FileField,
}

/// The field for a file, which every form that uploads one has.
pub(in crate::pages) struct FileField {
    /// The accepted file extensions, as the `accept` attribute lists them.
    pub(in crate::pages) accept: String,
    /// The size limit without JavaScript.
    pub(in crate::pages) form_limit: String,
    /// The size limit with JavaScript.
    pub(in crate::pages) limit: String,
    /// Whether the form needs a file.
    pub(in crate::pages) is_required: bool,
}

impl FileField {
    pub(in crate::pages) fn new(visit: &PageContext, is_required: bool) -> Self {
        let endings = FORMATS.iter().flat_map(|(_, _, endings, _)| endings.iter()).map(|ending| format!(".{ending}"));
        let limit = visit.state.services.limits().import_bytes;
        Self {
            accept: endings.collect::<Vec<_>>().join(","),
            form_limit: format::size(FORM_FILE_BYTES.min(limit)),
            limit: format::size(limit),
            is_required,
        }
    }
}

fn page(visit: &PageContext, frame: DatabaseFrame, form: Filled) -> NewImportPage {
    let formats = std::iter::once(("", "Detect automatically"));
    let formats = formats.chain(FORMATS.iter().map(|(name, .., text)| (*name, *text))).collect();
    let file = FileField::new(visit, true);
    NewImportPage { shell: LayoutContext::default(), frame, form, formats, file }
}

/// `GET /{owner}/{database}/imports/new`
pub(crate) async fn choose(visit: PageContext) -> PageResult {
    let (_, frame) = database::open::<Write>(&visit, DatabaseTab::Imports).await?;
    let page = page(&visit, frame, Filled::default());
    visit.page(|shell| NewImportPage { shell, ..page })
}

/// Returns the path of the page that previews the upload. `database` is the path of the database.
pub(in crate::pages) fn next(database: &str, upload: UploadId, file_name: &str) -> String {
    paths::with_query(&format!("{database}/imports/uploads/{upload}"), &[("name", file_name)])
}

/// Why an uploaded form was rejected.
enum Rejected {
    /// The form lacks this session's token.
    Foreign,
    /// The file or a field is invalid.
    Refused(ApiError),
    /// The file has no bytes.
    Empty,
    /// The format was neither chosen nor detected.
    Format(&'static str),
}

/// `POST /{owner}/{database}/imports/new`: uploads the file as a form.
pub(crate) async fn receive(request: HttpRequest, payload: web::Payload) -> PageResult {
    let (body, reader) = upload_channel(payload);
    let (visit, access, frame, boundary) = match ready(&request).await {
        Ok(ready) => ready,
        Err(stop) => {
            drop(reader);
            let_it_end(body).await;
            return Err(stop);
        }
    };
    let (state, secret) = (visit.state.clone(), visit.secret.expose().to_owned());
    let taken = visit.run(&visit.state.uploads, move |hub| {
        Ok::<_, ApiError>(take(hub, &state, &secret, &access, reader, &boundary))
    });
    let form = Filled::default();
    let form = match while_sent(&visit, body, taken).await? {
        Ok((upload, file_name)) => return visit.redirect(&next(&frame.path, upload.id, &file_name)),
        Err(Rejected::Foreign) => return Err(PageError::ForeignForm),
        Err(Rejected::Format(why)) => form.wrong("file_type", why),
        Err(Rejected::Empty) => form.wrong("file", EMPTY_FILE),
        Err(Rejected::Refused(refusal)) => form.refused(HandlerError::of(refusal, &request), FIELDS)?,
    };
    let page = page(&visit, frame, form);
    visit.refuse(|shell| NewImportPage { shell, ..page })
}

type Ready = (PageContext, DatabaseAccess<Write>, DatabaseFrame, Vec<u8>);

async fn ready(request: &HttpRequest) -> Result<Ready, PageError> {
    let visit = PageContext::begin(request).await?;
    if !csrf::is_from_here(&visit.state, request) {
        return Err(PageError::ForeignForm);
    }
    let (access, frame) = database::open::<Write>(&visit, DatabaseTab::Imports).await?;
    let content_type = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let boundary = form_boundary(content_type.unwrap_or_default()).ok_or(PageError::ForeignForm)?;
    Ok((visit, access, frame, boundary))
}

/// Reads the rest of the body. A client that is still sending might otherwise miss the response.
pub(in crate::pages) async fn let_it_end(body: UploadBody) {
    body.drain().await;
}

/// Runs `work`, which reads the body, while the client sends it.
///
/// # Errors
/// The error of `work`; 400 if the client is too slow.
pub(in crate::pages) async fn while_sent<T>(
    visit: &PageContext,
    body: UploadBody,
    work: impl Future<Output = Result<T, HandlerError>>,
) -> Result<T, PageError> {
    let (done, pumped) = join(work, body.pump(&visit.state.config.patience)).await;
    if pumped == Pumped::TooSlow {
        return Err(Problem::new(ErrorCode::ValidationFailed, "the upload was too slow; try again").into());
    }
    Ok(done?)
}

/// Returns the refusal of a form that ends early or is not well formed.
pub(in crate::pages) fn broken(error: std::io::Error) -> ApiError {
    Problem::new(ErrorCode::ValidationFailed, error.to_string()).into()
}

/// Stores a file that arrives as a part of a form, and keeps it for its import.
pub(in crate::pages) fn keep(
    hub: &Hub,
    access: &DatabaseAccess<Write>,
    bytes: &mut dyn std::io::Read,
    file_type: FileType,
) -> Result<Upload, ImportError> {
    let stored = hub.imports().store_file(access, bytes, FORM_FILE_BYTES)?;
    hub.imports().keep_file(access, stored, file_type)
}

/// Reads the form: the token first, then the format, then the file, which is stored while it arrives.
fn take(
    hub: &Hub,
    state: &AppState,
    secret: &str,
    access: &DatabaseAccess<Write>,
    reader: UploadReader,
    boundary: &[u8],
) -> Result<(Upload, String), Rejected> {
    let broken = |error| Rejected::Refused(broken(error));
    let mut form = Multipart::new(reader, boundary);
    let (mut is_ours, mut chosen) = (false, String::new());
    while let Some(part) = form.next_part().map_err(broken)? {
        let mut text = || form.part_text(1 << 10).map(|text| String::from_utf8_lossy(&text).into_owned());
        match part.name.as_str() {
            csrf::FIELD => is_ours = csrf::is_token(state, secret, &text().map_err(broken)?),
            _ if !is_ours => return Err(Rejected::Foreign),
            "file_type" => chosen = text().map_err(broken)?,
            "file" => {
                let file_type = format_of(&chosen, &part.file_name).map_err(Rejected::Format)?;
                let kept = keep(hub, access, &mut form.part(), file_type).map_err(|error| match error {
                    ImportError::EmptyFile => Rejected::Empty,
                    error => Rejected::Refused(error.into()),
                })?;
                // Reads to the end of the form, so that the client has finished sending.
                while form.next_part().map_err(broken)?.is_some() {}
                return Ok((kept, part.file_name));
            }
            _ => {}
        }
    }
    Err(Rejected::Foreign)
}

/// `POST /{owner}/{database}/imports/uploads`: starts an upload in parts.
pub(crate) async fn open(posted: FormPost) -> PageResult {
    let (access, frame) = database::open::<Write>(&posted, DatabaseTab::Imports).await?;
    let wanted = match announced(&posted) {
        Ok(wanted) => wanted,
        Err(why) => return Ok(cannot_upload(why)),
    };
    match posted.write(move |hub| hub.imports().open_upload(&access, wanted, None)).await {
        Ok(OpenedUpload { upload, .. }) => {
            let parts = part_paths(&frame.path, &upload);
            let next = next(&frame.path, upload.id, &posted.form.line("file_name"));
            Ok(HttpResponse::Created().json(json!({"parts": parts, "next": next})))
        }
        Err(failure) => Ok(cannot_upload(upload_error(failure)?)),
    }
}

/// Returns the upload that a script announces.
pub(in crate::pages) fn announced(posted: &FormPost) -> Result<NewUpload, String> {
    let file_type = format_of(&posted.form.line("file_type"), &posted.form.line("file_name"))?;
    let size = posted.form.line("file_size").parse::<u64>();
    let content_length = size.map_err(|_| "The file size is not a number.".to_owned())?;
    if content_length == 0 {
        return Err(EMPTY_FILE.to_owned());
    }
    let most = u64::from(posted.state.services.limits().import_parts);
    let num_parts = content_length.div_ceil(PART_BYTES).clamp(1, most.max(1));
    Ok(NewUpload { content_length, num_parts, file_type })
}

/// Answers a script whose file cannot be uploaded.
pub(in crate::pages) fn cannot_upload(why: impl Into<String>) -> HttpResponse {
    HttpResponse::UnprocessableEntity().json(json!({"error": why.into()}))
}

/// Describes why an upload was refused.
pub(in crate::pages) fn upload_error(failure: HandlerError) -> Result<String, PageError> {
    let form = Filled::default().refused(failure, &[])?;
    Ok(form.error("").unwrap_or("The file could not be uploaded.").to_owned())
}

/// Returns the paths that the parts of an upload are sent to.
pub(in crate::pages) fn part_paths(database: &str, upload: &Upload) -> Vec<String> {
    (1..=upload.num_parts).map(|number| format!("{database}/imports/uploads/{}/{number}", upload.id)).collect()
}

/// `PUT /{owner}/{database}/imports/uploads/{upload}/{part}`: stores a part that the script uploads.
pub(crate) async fn put_part(request: HttpRequest, payload: web::Payload) -> PageResult {
    let (body, mut reader) = upload_channel(payload);
    let (visit, access, id, number) = match part_of(&request).await {
        Ok(ready) => ready,
        Err(stop) => {
            drop(reader);
            let_it_end(body).await;
            return Err(stop);
        }
    };
    let stored = visit.run(&visit.state.uploads, move |hub| -> Result<_, ImportError> {
        hub.imports().put_own_part(&access, id, number, &mut reader)
    });
    while_sent(&visit, body, stored).await?;
    Ok(HttpResponse::NoContent().finish())
}

async fn part_of(request: &HttpRequest) -> Result<(PageContext, DatabaseAccess<Write>, UploadId, u32), PageError> {
    let visit = PageContext::begin(request).await?;
    if !csrf::is_of_script(&visit.state, request, visit.secret.expose()) {
        return Err(PageError::ForeignForm);
    }
    let (access, _) = database::open::<Write>(&visit, DatabaseTab::Imports).await?;
    let id = UploadId::parse(&visit.segment("upload")).map_err(|_| PageError::nothing_here())?;
    let number = visit.segment("part").parse().map_err(|_| PageError::nothing_here())?;
    Ok((visit, access, id, number))
}
