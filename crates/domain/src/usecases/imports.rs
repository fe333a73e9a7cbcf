//! Uploads in parts, and imports of uploaded files.

use crate::access::visibility::live;
use crate::ports::{Durability, WriteKey, WriteKeys};
use std::collections::{BTreeMap, HashSet};
use std::io::{self, Read};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use data_encoding::HEXLOWER;
use md5::{Digest as _, Md5};
use sha2::Sha256;

use super::deadline::FileDeadline;
use super::operations::{enqueue, save_queued};
use super::quotas::check_bytes;
use super::{IdempotencyRecord, Inner, idempotency};
use crate::access::{DatabaseAccess, Write};
use crate::entities::{
    Database, FileType, ImportMode, ImportOptions, ImportRequest, Operation, TextEncoding, Upload, UploadPart, Work,
};
use crate::errors::{ImportError, ImportField, OperationError, PortError};
use crate::values::{LongText, RefName, TableName, UploadId};

/// The properties of a new upload session.
#[derive(Debug, Clone, Copy)]
pub struct NewUpload {
    /// Size of the file in bytes.
    pub content_length: u64,
    /// Number of parts.
    pub num_parts: u64,
    /// Format of the file.
    pub file_type: FileType,
}

/// A new upload session with its secret, which is readable only now.
#[derive(Debug)]
pub struct OpenedUpload {
    /// The session.
    pub upload: Upload,
    /// The secret that an import of the upload has to present.
    pub secret: String,
}

/// A part as named by the importing caller.
#[derive(Debug, Clone)]
pub struct CompletedPart {
    /// Number of the part, from 1.
    pub number: u64,
    /// MD5 digest in hexadecimal, with or without quotes.
    pub etag: String,
}

/// The settings of an import. Nothing has been checked yet.
#[derive(Debug, Clone)]
pub struct NewImport {
    /// Secret of the upload session.
    pub secret: String,
    /// Id of the upload session; `None` if the caller's text is not a valid id.
    pub upload: Option<UploadId>,
    /// Name of an existing branch to import into.
    pub branch: String,
    /// Name of the table. May be empty for an SQL script.
    pub table: String,
    /// Name of the file.
    pub file_name: String,
    /// Size of the file in bytes.
    pub file_size: u64,
    /// Format of the file.
    pub file_type: FileType,
    /// How to treat the table.
    pub mode: ImportMode,
    /// All parts of the file.
    pub parts: Vec<CompletedPart>,
    /// Checksum over the parts: base64(md5(concatenation of base64(md5(part)), in part order)), as v2 §5.5 defines.
    pub checksum: String,
    /// Columns of the primary key.
    pub primary_keys: Vec<String>,
    /// Commit message. A default is used if it is absent or blank.
    pub message: Option<String>,
    /// Branch to import into instead, from which a pull request against `branch` is opened.
    pub pull_branch: Option<String>,
    /// Maps columns of the file to columns of the table.
    pub column_map: BTreeMap<String, String>,
    /// How the file is read.
    pub options: ImportOptions,
    /// The columns of the file, if they are known ([`Imports::file_columns`]).
    pub file_columns: Option<Vec<String>>,
}

/// Use cases of uploads and imports.
pub struct Imports<'a>(pub(super) &'a Inner);

impl<'a> Imports<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Opens an upload session.
    ///
    /// # Errors
    /// [`ImportError::TooLarge`]; [`ImportError::Fields`] with all validation errors; [`ImportError::TooManyUploads`] if the
    /// user has as many open sessions as allowed.
    pub fn open_upload(
        &self,
        access: &DatabaseAccess<Write>,
        wanted: NewUpload,
        once: Option<&IdempotencyRecord<'_, OpenedUpload>>,
    ) -> Result<OpenedUpload, ImportError> {
        let limits = &self.0.limits;
        if wanted.content_length > limits.import_bytes {
            return Err(ImportError::TooLarge { size: wanted.content_length, limit: limits.import_bytes });
        }
        let mut wrong = Vec::new();
        if wanted.content_length == 0 {
            wrong.push((ImportField::ContentLength, "must be at least 1".to_owned()));
        }
        let num_parts = u32::try_from(wanted.num_parts).ok().filter(|n| (1..=limits.import_parts).contains(n));
        let num_parts = match num_parts {
            Some(n) if u64::from(n) <= wanted.content_length.max(1) => n,
            _ => {
                wrong.push((
                    ImportField::PartCount,
                    format!("must be 1 to {} and not more than the bytes of the file", limits.import_parts),
                ));
                0
            }
        };
        if !self.0.ports.reads_files_as(wanted.file_type) {
            wrong.push((ImportField::FileType, "this server cannot read that format".to_owned()));
        }
        if !wrong.is_empty() {
            return Err(ImportError::Fields(wrong));
        }
        let now = self.0.now();
        let mut random = [0; 32];
        self.0.ports.ids.fill(&mut random);
        let secret = format!("up_{}", URL_SAFE_NO_PAD.encode(random));
        let upload = Upload {
            id: UploadId::from_uuid(self.0.ports.ids.uuid(now)),
            database_id: access.database().id,
            user_id: access.who().id,
            secret_hash: Sha256::digest(secret.as_bytes()).into(),
            content_length: wanted.content_length,
            num_parts,
            file_type: wanted.file_type,
            created_at: now,
            expires_at: now.plus_seconds(limits.upload_session_seconds),
            used_by: None,
            parts: Vec::new(),
        };
        if self.0.free_space.is_low() {
            return Err(PortError::StorageLow.into());
        }
        let mut tx = self.0.ports.metadata.write(&WriteKeys::account(upload.user_id))?;
        live(tx.as_mut(), upload.database_id)?;
        check_bytes::<ImportError>(self.0, tx.as_mut(), access.database().owner_id, wanted.content_length)?;
        if tx.uploads().count_open(upload.user_id, now)? >= limits.open_uploads_per_user {
            return Err(ImportError::TooManyUploads(limits.open_uploads_per_user));
        }
        tx.uploads().add(&upload)?;
        let opened = OpenedUpload { upload, secret };
        idempotency::keep(self.0, tx.as_mut(), once, &opened, now)?;
        tx.commit(Durability::Synced)?;
        Ok(opened)
    }

    /// Stores a part and returns its MD5 digest. The bytes are durable when this method returns. If the transfer is cut
    /// short, nothing changes.
    ///
    /// # Errors
    /// [`ImportError::NoSuchUpload`] if the session does not exist or has expired, or the part number is out of range;
    /// [`ImportError::UploadUsed`] if an import uses the session; [`ImportError::EmptyPart`]; [`ImportError::PartTooLarge`]
    /// if the parts exceed the announced size; [`ImportError::PartChecksum`] if the digest is not `expected_md5`;
    /// [`ImportError::PartCutShort`] if reading `bytes` fails.
    pub fn put_part(
        &self,
        id: UploadId,
        number: u32,
        expected_md5: Option<[u8; 16]>,
        bytes: &mut dyn Read,
    ) -> Result<[u8; 16], ImportError> {
        let upload = self.open_session(id, number)?;
        let others: u64 = upload.parts.iter().filter(|part| part.number != number).map(|part| part.size).sum();
        let room = upload.content_length.saturating_sub(others);
        let mut counted = CountedPart::new(bytes, room, expected_md5);
        if let Err(error) = self.0.ports.blobs.put_part(id, number, &mut counted) {
            return Err(match counted.refused.take() {
                Some(PartRefusal::TooLarge) => ImportError::PartTooLarge(upload.content_length),
                Some(PartRefusal::Empty) => ImportError::EmptyPart,
                Some(PartRefusal::Checksum) => ImportError::PartChecksum,
                Some(PartRefusal::CutShort(error)) => ImportError::PartCutShort(error),
                None => error.into(),
            });
        }
        let part = counted.part(number);
        let mut tx = self.0.ports.metadata.write(&WriteKeys::account(upload.user_id))?;
        let now_open = tx.uploads().get(id)?.ok_or(ImportError::NoSuchUpload)?;
        if let Some(operation) = now_open.used_by {
            return Err(ImportError::UploadUsed(operation.to_string()));
        }
        let others: u64 = now_open.parts.iter().filter(|p| p.number != number).map(|p| p.size).sum();
        if others + part.size > upload.content_length {
            return Err(ImportError::PartTooLarge(upload.content_length));
        }
        tx.uploads().put_part(id, &part)?;
        tx.commit(Durability::Synced)?;
        Ok(part.md5)
    }

    fn open_session(&self, id: UploadId, number: u32) -> Result<Upload, ImportError> {
        if self.0.free_space.is_low() {
            return Err(PortError::StorageLow.into());
        }
        let mut tx = self.0.ports.metadata.read()?;
        let upload = tx.uploads().get(id)?.ok_or(ImportError::NoSuchUpload)?;
        // The address of a part holds no credential, so it serves neither a suspended user nor a quarantined database.
        let is_open = |database: Database| database.deleted_at.is_none() && database.quarantined_at.is_none();
        if !tx.databases().get(upload.database_id)?.is_some_and(is_open)
            || tx.users().get(upload.user_id)?.is_none_or(|user| user.suspended_at.is_some())
        {
            return Err(ImportError::NoSuchUpload);
        }
        if let Some(operation) = upload.used_by {
            return Err(ImportError::UploadUsed(operation.to_string()));
        }
        if upload.expires_at <= self.0.now() || number == 0 || number > upload.num_parts {
            return Err(ImportError::NoSuchUpload);
        }
        Ok(upload)
    }

    /// Returns the columns of the file of an import whose settings name columns. Returns `None` if they name none, the caller may not
    /// use the upload, the file is invalid, or its columns cannot be read within [`super::Limits::import_columns_timeout_ms`]: the
    /// import then finds what is wrong.
    ///
    /// # Errors
    /// [`ImportError::Port`].
    pub fn file_columns(
        &self,
        access: &DatabaseAccess<Write>,
        wanted: &NewImport,
    ) -> Result<Option<Vec<String>>, ImportError> {
        let Some(id) = wanted.upload.filter(|_| !wanted.options.column_types.is_empty()) else { return Ok(None) };
        let Ok(session) = self.arrived(access, id) else { return Ok(None) };
        let secret_hash: [u8; 32] = Sha256::digest(wanted.secret.as_bytes()).into();
        let is_theirs = session.secret_hash == secret_hash && session.file_type == wanted.file_type;
        if !is_theirs || session.file_type == FileType::Sql {
            return Ok(None);
        }
        let deadline = FileDeadline::start(self.0, self.0.limits.import_columns_timeout_ms);
        let input = self.input(&session, wanted.options.text, &wanted.table, &deadline);
        Ok(self.0.ports.formats.columns(input).ok())
    }

    /// Queues an import as an operation.
    ///
    /// # Errors
    /// [`ImportError::Fields`] with all validation errors; [`ImportError::NoSuchBranch`]; [`ImportError::UploadUsed`];
    /// [`ImportError::QueueFull`].
    pub fn start(
        &self,
        access: &DatabaseAccess<Write>,
        wanted: NewImport,
        once: Option<&IdempotencyRecord<'_, Operation>>,
    ) -> Result<Operation, ImportError> {
        let secret_hash: [u8; 32] = Sha256::digest(wanted.secret.as_bytes()).into();
        self.begin(access, wanted, once, &|session| session.secret_hash == secret_hash)
    }

    /// Queues an import whose upload session belongs to the access holder and this database, and passes `genuine`.
    pub(super) fn begin(
        &self,
        access: &DatabaseAccess<Write>,
        wanted: NewImport,
        once: Option<&IdempotencyRecord<'_, Operation>>,
        genuine: &dyn Fn(&Upload) -> bool,
    ) -> Result<Operation, ImportError> {
        let now = self.0.now();
        let keys = WriteKeys::account(access.who().id).and(WriteKey::Database(access.database().id));
        let mut tx = self.0.ports.metadata.write(&keys)?;
        let database = live(tx.as_mut(), access.database().id)?;
        let session = match wanted.upload {
            Some(id) => tx.uploads().get(id)?,
            None => None,
        };
        // A session is visible only to its owner. To other callers it does not exist.
        let session = session.filter(|s| s.user_id == access.who().id && s.database_id == database.id);
        let (request, session) = check(&wanted, session, genuine, now)?;
        let branch = tx.branches().get(database.id, &request.branch)?;
        branch.ok_or_else(|| ImportError::NoSuchBranch(request.branch.to_string()))?;
        if let Some(operation) = session.used_by {
            let id = format!("databases/{}/operations/{operation}", database.locator);
            return Err(ImportError::UploadUsed(id));
        }
        let upload_id = session.id;
        let operation = enqueue(self.0, tx.as_mut(), &database, access.who(), Work::Import(request), now);
        let operation = operation.map_err(not_queued)?;
        if !tx.uploads().bind(upload_id, operation.id)? {
            return Err(ImportError::Port(PortError::Unsettled("the upload was used meanwhile")));
        }
        idempotency::keep(self.0, tx.as_mut(), once, &operation, now)?;
        save_queued(self.0, tx)?;
        Ok(operation)
    }
}

/// Converts the error of queueing an operation.
pub(super) fn not_queued(error: OperationError) -> ImportError {
    match error {
        OperationError::QueueFull(limit) => ImportError::QueueFull(limit),
        OperationError::Quota(error) => ImportError::Quota(error),
        OperationError::Port(fault) => ImportError::Port(fault),
        _ => ImportError::Port(PortError::Unsettled("an import could not be queued")),
    }
}

/// Checks all fields and reports every validation error at once.
pub(super) fn check(
    wanted: &NewImport,
    session: Option<Upload>,
    genuine: &dyn Fn(&Upload) -> bool,
    now: crate::values::Timestamp,
) -> Result<(ImportRequest, Upload), ImportError> {
    let mut wrong: Vec<(ImportField, String)> = Vec::new();
    let branch = RefName::parse(&wanted.branch);
    if wanted.branch.is_empty() {
        wrong.push((ImportField::Branch, "must not be empty".to_owned()));
    }
    let scripted = wanted.file_type == FileType::Sql;
    if !(scripted && wanted.table.is_empty())
        && let Err(error) = TableName::parse(&wanted.table)
    {
        wrong.push((ImportField::Table, error.0));
    }
    if wanted.file_name.is_empty() || wanted.file_name.len() > 255 || wanted.file_name.contains('/') {
        wrong.push((ImportField::FileName, "has 1 to 255 bytes and no '/'".to_owned()));
    }
    let pull_branch = match wanted.pull_branch.as_deref().map(RefName::parse).transpose() {
        Ok(Some(name)) if name.as_str() == wanted.branch => {
            wrong.push((ImportField::PullBranch, "must differ from the target branch".to_owned()));
            None
        }
        Ok(name) => name,
        Err(error) => {
            wrong.push((ImportField::PullBranch, error.0));
            None
        }
    };
    let message =
        wanted.message.clone().filter(|m| !m.trim().is_empty()).unwrap_or_else(|| match wanted.table.as_str() {
            "" => format!("Import {}", wanted.file_name),
            table => format!("Import {} into {table}", wanted.file_name),
        });
    if message.len() > LongText::MAX {
        wrong.push((ImportField::Message, format!("is longer than {} bytes", LongText::MAX)));
    }
    if scripted && !wanted.primary_keys.is_empty() {
        wrong.push((ImportField::PrimaryKeys, "must be empty for a script".to_owned()));
    }
    if scripted && !wanted.column_map.is_empty() {
        wrong.push((ImportField::ColumnMap, "must be empty for a script".to_owned()));
    }
    check_options(wanted, &mut wrong);
    let session = session.filter(|s| s.used_by.is_some() || s.expires_at > now);
    match &session {
        None => wrong.push((ImportField::Upload, "unknown, expired, or of another caller or database".to_owned())),
        Some(session) if !genuine(session) => {
            wrong.push((ImportField::UploadToken, "not the token of this upload".to_owned()));
        }
        Some(session) if session.used_by.is_none() => check_parts(wanted, session, &mut wrong),
        Some(_) => {}
    }
    match (session, wrong.is_empty()) {
        (Some(session), true) => {
            let branch = branch.map_err(|_| ImportError::NoSuchBranch(wanted.branch.clone()))?;
            let request = ImportRequest {
                upload_id: session.id,
                branch,
                table: wanted.table.clone(),
                file_name: wanted.file_name.clone(),
                file_type: wanted.file_type,
                mode: wanted.mode,
                primary_keys: wanted.primary_keys.clone(),
                message,
                pull_branch,
                column_map: wanted.column_map.clone(),
                options: wanted.options.clone(),
            };
            Ok((request, session))
        }
        _ => Err(ImportError::Fields(wrong)),
    }
}

fn check_options(wanted: &NewImport, wrong: &mut Vec<(ImportField, String)>) {
    let ImportOptions { column_types, text } = &wanted.options;
    if wanted.file_type == FileType::Sql && !column_types.is_empty() {
        wrong.push((ImportField::ColumnTypes, "must be empty for a script".to_owned()));
    }
    if matches!(text.delimiter, Some('"' | '\r' | '\n' | '\0')) {
        wrong.push((ImportField::Delimiter, "must not be a quote, a line end or NUL".to_owned()));
    }
    if !wanted.file_type.has_text_options() {
        if text.delimiter.is_some() {
            wrong.push((ImportField::Delimiter, "only csv and tsv have a delimiter to choose".to_owned()));
        }
        if text.encoding != TextEncoding::default() {
            wrong.push((ImportField::Encoding, "only csv and tsv have an encoding to choose".to_owned()));
        }
    }
    let Some(columns) = &wanted.file_columns else { return };
    let mut typed = HashSet::new();
    for name in column_types.keys() {
        let text = match column_place(columns, name, |column| column) {
            None => "the file has no such column",
            Some(place) if !typed.insert(place) => "another member names the same column",
            Some(_) => continue,
        };
        wrong.push((ImportField::ColumnType(name.clone()), text.to_owned()));
    }
}

/// Returns the position of the item with exactly this name, or else of one with this name in any letter case.
pub(super) fn column_place<T>(items: &[T], name: &str, name_of: impl Fn(&T) -> &String) -> Option<usize> {
    let exact = items.iter().position(|item| name_of(item) == name);
    exact.or_else(|| items.iter().position(|item| name_of(item).eq_ignore_ascii_case(name)))
}

fn check_parts(wanted: &NewImport, session: &Upload, wrong: &mut Vec<(ImportField, String)>) {
    if wanted.file_size != session.content_length {
        wrong.push((ImportField::FileSize, format!("the upload announced {} bytes", session.content_length)));
    }
    if wanted.file_type != session.file_type {
        wrong.push((ImportField::FileType, "the upload announced another type".to_owned()));
    }
    let mut named = wanted.parts.iter().map(|part| part.number).collect::<Vec<_>>();
    named.sort_unstable();
    if named != (1..=u64::from(session.num_parts)).collect::<Vec<_>>() {
        wrong.push((ImportField::Parts, format!("must list each part from 1 to {} once", session.num_parts)));
        return;
    }
    for part in &wanted.parts {
        let arrived = session.parts.iter().find(|arrived| u64::from(arrived.number) == part.number);
        match arrived {
            None => wrong.push((ImportField::Parts, format!("part {} has not arrived", part.number))),
            Some(arrived) if HEXLOWER.encode(&arrived.md5) != part.etag.trim_matches('"') => {
                wrong.push((ImportField::Parts, format!("the ETag of part {} does not match", part.number)));
            }
            Some(_) => {}
        }
    }
    let arrived: u64 = session.parts.iter().map(|part| part.size).sum();
    if arrived != session.content_length {
        wrong.push((
            ImportField::Parts,
            format!("{arrived} of {} announced bytes have arrived", session.content_length),
        ));
    }
    if checksum(&session.parts) != wanted.checksum {
        wrong.push((ImportField::Checksum, "does not match the parts".to_owned()));
    }
}

/// Returns base64(md5(concatenation of base64(md5(part)), in part order)), as v2 §5.5 defines.
pub(super) fn checksum(parts: &[UploadPart]) -> String {
    let mut parts: Vec<&UploadPart> = parts.iter().collect();
    parts.sort_unstable_by_key(|part| part.number);
    let texts: String = parts.iter().map(|part| STANDARD.encode(part.md5)).collect();
    STANDARD.encode(Md5::digest(texts.as_bytes()))
}

pub(super) enum PartRefusal {
    TooLarge,
    Empty,
    Checksum,
    CutShort(io::Error),
}

/// A reader that counts, hashes and bounds a part on its way to the store. Its errors keep the store from accepting the
/// part.
pub(super) struct CountedPart<'a> {
    bytes: &'a mut dyn Read,
    md5: Md5,
    size: u64,
    room: u64,
    pub(super) refused: Option<PartRefusal>,
    expected: Option<[u8; 16]>,
}

impl<'a> CountedPart<'a> {
    pub(super) fn new(bytes: &'a mut dyn Read, room: u64, expected: Option<[u8; 16]>) -> Self {
        Self { bytes, md5: Md5::new(), size: 0, room, refused: None, expected }
    }

    /// Returns the number, size and digest of the bytes read.
    pub(super) fn part(self, number: u32) -> UploadPart {
        UploadPart { number, size: self.size, md5: self.md5.finalize().into() }
    }

    fn refuse(&mut self, why: PartRefusal) -> io::Result<usize> {
        self.refused = Some(why);
        Err(io::Error::other("the part is refused"))
    }
}

impl Read for CountedPart<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match self.bytes.read(buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            Err(error) => return self.refuse(PartRefusal::CutShort(error)),
        };
        if read == 0 && !buffer.is_empty() {
            let md5: [u8; 16] = self.md5.clone().finalize().into();
            if self.size == 0 {
                return self.refuse(PartRefusal::Empty);
            }
            if self.expected.is_some_and(|expected| expected != md5) {
                return self.refuse(PartRefusal::Checksum);
            }
            return Ok(0);
        }
        self.md5.update(&buffer[..read]);
        self.size += u64::try_from(read).unwrap_or(u64::MAX);
        if self.size > self.room {
            return self.refuse(PartRefusal::TooLarge);
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::{UploadPart, checksum};
    use md5::{Digest as _, Md5};

    fn part(number: u32, bytes: &[u8]) -> UploadPart {
        UploadPart { number, size: 0, md5: Md5::digest(bytes).into() }
    }

    #[test]
    fn the_checksum_is_that_of_the_contract() {
        assert_eq!(checksum(&[part(1, b"id,name\n1,Alice\n")]), "pIX9YH40aFyNTQB/HPa4iw==");
        let parts = [part(2, b"tail"), part(1, &vec![b'a'; 5_242_880])];
        assert_eq!(checksum(&parts), "x+0z7a1VgDHh0N1Yq1cdcA==");
    }
}
