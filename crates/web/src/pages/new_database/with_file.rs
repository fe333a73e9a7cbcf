//! A new database that begins with a file. The file's import starts at once if there is nothing to choose.

use std::sync::Arc;

use actix_web::{HttpRequest, HttpResponse, web};
use branchyard_domain::Hub;
use branchyard_domain::access::{Caller, DatabaseAccess, Write};
use branchyard_domain::entities::{DatabaseLocator, FileType, User};
use branchyard_domain::errors::ImportError;
use branchyard_domain::values::{OperationId, UploadId};
use branchyard_http_common::{ApiError, AppState, HandlerError, Multipart, UploadReader, upload_channel};
use serde_json::json;

use super::creation::{WantedDatabase, create};
use super::{fill, without_file};
use crate::csrf;
use crate::error_page::PageError;
use crate::forms::{Filled, Form, FormPost};
use crate::page_context::{PageContext, PageResult};
use crate::pages::imports::upload::{self, EMPTY_FILE, broken};
use crate::pages::imports::{format_of, start_proposed};
use crate::paths;

/// Fields of the form, and bytes of each.
const FIELDS: usize = 20;
const FIELD_BYTES: usize = 16 << 10;

/// A form that was read, as far as it was.
enum ReadForm {
    /// It lacks the token of this session.
    Foreign,
    /// It has no file.
    WithoutFile(Form),
    /// It has errors. No database was created.
    Refused(Filled),
    /// A database was created.
    Created(DatabaseLocator, FileEnd),
}

/// What became of the file.
enum FileEnd {
    /// Its import has started.
    Importing(OperationId),
    /// It was uploaded, and its preview has to be looked at.
    Uploaded(UploadId, String),
    /// It could not be uploaded.
    Failed(ImportError),
}

/// Reads a form with its fields first, then the file, which is stored while it arrives.
pub(super) async fn receive(request: &HttpRequest, payload: web::Payload, boundary: Vec<u8>) -> PageResult {
    let (body, reader) = upload_channel(payload);
    let (visit, user) = match ready(request).await {
        Ok(ready) => ready,
        Err(stop) => {
            drop(reader);
            upload::let_it_end(body).await;
            return Err(stop);
        }
    };
    let (state, secret) = (visit.state.clone(), visit.secret.expose().to_owned());
    let read = visit.run(&visit.state.uploads, move |hub| read(hub, &state, &secret, &user, reader, &boundary));
    let (locator, end) = match upload::while_sent(&visit, body, read).await? {
        ReadForm::Foreign => return Err(PageError::ForeignForm),
        ReadForm::WithoutFile(form) => return without_file(&visit, &form).await,
        ReadForm::Refused(form) => {
            let page = fill(&visit, form).await?;
            return visit.refuse(page);
        }
        ReadForm::Created(locator, end) => (locator, end),
    };
    let (path, created) = (paths::database(&locator), format!("{locator} was created."));
    match end {
        FileEnd::Importing(operation) => visit.redirect_saying(&format!("{path}/operations/{operation}"), &created),
        FileEnd::Uploaded(upload, file_name) => {
            visit.redirect_saying(&upload::next(&path, upload, &file_name), &created)
        }
        FileEnd::Failed(error) => {
            let why = match error {
                ImportError::EmptyFile => EMPTY_FILE.to_owned(),
                error => upload::upload_error(HandlerError::of(error.into(), request))?,
            };
            visit
                .redirect_saying(&format!("{path}/imports/new"), &format!("{created} The file was not imported. {why}"))
        }
    }
}

async fn ready(request: &HttpRequest) -> Result<(PageContext, Arc<User>), PageError> {
    let visit = PageContext::begin(request).await?;
    if !csrf::is_from_here(&visit.state, request) {
        return Err(PageError::ForeignForm);
    }
    let user = visit.user()?;
    visit.check_writable()?;
    Ok((visit, user))
}

fn read(
    hub: &Hub,
    state: &AppState,
    secret: &str,
    user: &Arc<User>,
    reader: UploadReader,
    boundary: &[u8],
) -> Result<ReadForm, ApiError> {
    let mut parts = Multipart::new(reader, boundary);
    let mut fields: Vec<(String, String)> = Vec::new();
    let mut is_ours = false;
    while let Some(part) = parts.next_part().map_err(broken)? {
        if part.name == csrf::FIELD {
            let token = parts.part_text(FIELD_BYTES).map_err(broken)?;
            is_ours = csrf::is_token(state, secret, &String::from_utf8_lossy(&token));
            continue;
        }
        if !is_ours {
            return Ok(ReadForm::Foreign);
        }
        if part.name != "file" {
            let text = parts.part_text(FIELD_BYTES).map_err(broken)?;
            if fields.len() < FIELDS {
                fields.push((part.name, String::from_utf8_lossy(&text).into_owned()));
            }
            continue;
        }
        // Browsers send the field without a name if no file was chosen.
        if !part.file_name.is_empty() {
            return with_file(hub, user, &Form::from(fields), &part.file_name, parts);
        }
    }
    Ok(if is_ours { ReadForm::WithoutFile(fields.into()) } else { ReadForm::Foreign })
}

/// Creates the database, then reads the file into it.
fn with_file(
    hub: &Hub,
    user: &Arc<User>,
    form: &Form,
    file_name: &str,
    mut parts: Multipart<UploadReader>,
) -> Result<ReadForm, ApiError> {
    let mut filled = form.again();
    let file_type = match format_of("", file_name) {
        Ok(file_type) => file_type,
        Err(_) => return Ok(ReadForm::Refused(filled.wrong("file", UNKNOWN_FORMAT))),
    };
    let Some(wanted) = WantedDatabase::read(form, &mut filled, Some(file_name)) else {
        return Ok(ReadForm::Refused(filled));
    };
    let locator = match create(hub, user, &wanted)? {
        Ok(locator) => locator,
        Err((field, why)) => return Ok(ReadForm::Refused(filled.wrong(field, why))),
    };
    let access = access_to(hub, user, &locator)?;
    let end = import(hub, &access, &mut parts, file_type, file_name).unwrap_or_else(FileEnd::Failed);
    // Reads to the end of the form, so that the client has finished sending.
    while parts.next_part().map_err(broken)?.is_some() {}
    Ok(ReadForm::Created(locator, end))
}

const UNKNOWN_FORMAT: &str = "The format can't be detected from the file name. Create the database without the file, then import it and choose a format.";

fn access_to(hub: &Hub, user: &Arc<User>, locator: &DatabaseLocator) -> Result<DatabaseAccess<Write>, ApiError> {
    let caller = Caller::User(Arc::clone(user));
    Ok(hub.databases().access(&caller, locator.owner.as_str(), locator.name.as_str())?)
}

fn import(
    hub: &Hub,
    access: &DatabaseAccess<Write>,
    parts: &mut Multipart<UploadReader>,
    file_type: FileType,
    file_name: &str,
) -> Result<FileEnd, ImportError> {
    let kept = upload::keep(hub, access, &mut parts.part(), file_type)?;
    Ok(match start_proposed(hub, access, &kept, file_name)? {
        Some(operation) => FileEnd::Importing(operation.id),
        None => FileEnd::Uploaded(kept.id, file_name.to_owned()),
    })
}

/// `POST /new/uploads`: creates a database and opens the upload of its file, for a script that uploads it in parts.
pub(crate) async fn open_upload(posted: FormPost) -> PageResult {
    let user = posted.user()?;
    let opening = match upload::announced(&posted) {
        Ok(opening) => opening,
        Err(why) => return Ok(upload::cannot_upload(why)),
    };
    let limit = posted.state.services.limits().import_bytes;
    if opening.content_length > limit {
        return Ok(upload::cannot_upload(format!("This file is larger than the limit of {limit} bytes.")));
    }
    let file_name = posted.form.line("file_name");
    let mut filled = posted.form.again();
    let Some(wanted) = WantedDatabase::read(&posted.form, &mut filled, Some(&file_name)) else {
        return Ok(upload::cannot_upload(filled.all_errors()));
    };
    let opened = posted.write(move |hub| -> Result<_, ApiError> {
        let locator = match create(hub, &user, &wanted)? {
            Ok(locator) => locator,
            Err((_, why)) => return Ok(Err(why)),
        };
        let opened = hub.imports().open_upload(&access_to(hub, &user, &locator)?, opening, None);
        Ok(Ok((locator, opened)))
    });
    let (locator, opened) = match opened.await? {
        Ok(opened) => opened,
        Err(why) => return Ok(upload::cannot_upload(crate::error_page::sentence(&why))),
    };
    let path = paths::database(&locator);
    match opened {
        Ok(opened) => {
            let parts = upload::part_paths(&path, &opened.upload);
            let start = format!("{path}/imports/uploads/{}/start", opened.upload.id);
            Ok(HttpResponse::Created().json(json!({"parts": parts, "start": start, "created": path})))
        }
        Err(error) => {
            let why = upload::upload_error(HandlerError::of(error.into(), posted.request()))?;
            Ok(HttpResponse::UnprocessableEntity().json(json!({"error": why, "created": path})))
        }
    }
}
