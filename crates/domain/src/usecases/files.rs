//! Imports of a file that arrives in one request, without an upload session.

use std::collections::BTreeMap;
use std::io::Read;

use data_encoding::HEXLOWER;

use super::imports::{self, CountedPart, PartRefusal};
use super::operations::{enqueue_as, fresh_id, save_queued};
use super::quotas::check_bytes;
use super::{CompletedPart, Imports, Inner, NewImport};
use crate::access::visibility::live;
use crate::access::{DatabaseAccess, Write};
use crate::entities::{FileType, ImportMode, ImportOptions, Operation, Upload, UploadPart, Work};
use crate::errors::{ImportError, ImportField, PortError};
use crate::ports::{WriteKey, WriteKeys};
use crate::values::{AccountId, DatabaseId, OperationId, OwnerName, Timestamp, UploadId};

/// The settings of an import of a stored file. Nothing has been checked yet.
#[derive(Debug, Clone)]
pub struct NewFileImport {
    /// Existing branch to open a pull request against. `None` imports into the default branch without a pull request.
    pub branch: Option<String>,
    /// Name of the table. May be empty for an SQL script.
    pub table: String,
    /// Name of the file.
    pub file_name: String,
    /// Format of the file.
    pub file_type: FileType,
    /// How to treat the table. `None` runs an SQL script as it is.
    pub mode: Option<ImportMode>,
    /// Columns of the primary key.
    pub primary_keys: Vec<String>,
}

/// A file in the blob store. Dropping the value removes the file unless an import uses it.
pub struct StoredFile<'a> {
    inner: &'a Inner,
    id: UploadId,
    part: UploadPart,
    pub(super) taken: bool,
}

impl StoredFile<'_> {
    /// Returns an upload session that holds the whole file. The session has no secret, so no caller can present one.
    pub(super) fn session(&self, database: DatabaseId, user: AccountId, now: Timestamp) -> Upload {
        Upload {
            id: self.id,
            database_id: database,
            user_id: user,
            secret_hash: [0; 32],
            content_length: self.part.size,
            num_parts: 1,
            file_type: FileType::Csv,
            created_at: now,
            expires_at: now.plus_seconds(self.inner.limits.upload_session_seconds),
            used_by: None,
            parts: vec![self.part.clone()],
        }
    }
}

impl Drop for StoredFile<'_> {
    fn drop(&mut self) {
        if !self.taken {
            // A file that cannot be removed now is collected at the next start.
            let _ = self.inner.ports.blobs.remove(self.id);
        }
    }
}

/// Returns the branch that the import is written to: `{user}/import-{last 12 hex digits of the operation id}`.
fn own_branch(user: &OwnerName, operation: OperationId) -> String {
    let id = operation.to_string();
    format!("{user}/import-{}", id.rsplit('-').next().unwrap_or_default())
}

impl<'a> Imports<'a> {
    /// Stores a file of at most `limit` bytes, or of [`super::Limits::import_bytes`] if that is less. The bytes are durable
    /// when this method returns. If the transfer is cut short, nothing is kept.
    ///
    /// # Errors
    /// [`ImportError::EmptyFile`]; [`ImportError::FileTooLarge`] with the limit in bytes; [`ImportError::PartCutShort`] if
    /// reading `bytes` fails.
    pub fn store_file(
        &self,
        _access: &DatabaseAccess<Write>,
        bytes: &mut dyn Read,
        limit: u64,
    ) -> Result<StoredFile<'a>, ImportError> {
        let limit = limit.min(self.0.limits.import_bytes);
        let id = UploadId::from_uuid(self.0.ports.ids.uuid(self.0.now()));
        let mut counted = CountedPart::new(bytes, limit, None);
        if let Err(error) = self.0.ports.blobs.put_part(id, 1, &mut counted) {
            return Err(match counted.refused.take() {
                Some(PartRefusal::TooLarge) => ImportError::FileTooLarge(limit),
                Some(PartRefusal::Empty) => ImportError::EmptyFile,
                Some(PartRefusal::CutShort(error)) => ImportError::PartCutShort(error),
                Some(PartRefusal::Checksum) | None => error.into(),
            });
        }
        Ok(StoredFile { inner: self.0, id, part: counted.part(1), taken: false })
    }

    /// Queues the import of a stored file as an operation.
    ///
    /// # Errors
    /// [`ImportError::Fields`] with all validation errors; [`ImportError::NoSuchBranch`]; [`ImportError::QueueFull`].
    pub fn start_file(
        &self,
        access: &DatabaseAccess<Write>,
        mut file: StoredFile<'_>,
        wanted: NewFileImport,
    ) -> Result<Operation, ImportError> {
        let now = self.0.now();
        let id = fresh_id(self.0, now);
        if !self.0.ports.reads_files_as(wanted.file_type) {
            return Err(ImportError::Fields(vec![(
                ImportField::FileType,
                "this server cannot read that format".to_owned(),
            )]));
        }
        let user = access.who();
        let mut tx =
            self.0.ports.metadata.write(&WriteKeys::account(user.id).and(WriteKey::Database(access.database().id)))?;
        let database = live(tx.as_mut(), access.database().id)?;
        // The upload counts before its import does.
        check_bytes::<ImportError>(self.0, tx.as_mut(), database.owner_id, file.part.size)?;
        let session = Upload { file_type: wanted.file_type, ..file.session(database.id, user.id, now) };
        let request = request(&session, wanted, database.default_branch.as_str(), || own_branch(&user.name, id));
        let (request, session) = imports::check(&request, Some(session), &|_| true, now)?;
        let branch = tx.branches().get(database.id, &request.branch)?;
        branch.ok_or_else(|| ImportError::NoSuchBranch(request.branch.to_string()))?;
        let operation = enqueue_as(self.0, tx.as_mut(), id, &database, user, Work::Import(request), now);
        let operation = operation.map_err(imports::not_queued)?;
        tx.uploads().add(&Upload { parts: Vec::new(), ..session })?;
        tx.uploads().put_part(file.id, &file.part)?;
        if !tx.uploads().bind(file.id, operation.id)? {
            return Err(ImportError::Port(PortError::Unsettled("a stored file was used meanwhile")));
        }
        save_queued(self.0, tx)?;
        file.taken = true;
        Ok(operation)
    }
}

/// Builds the request that an import of an upload session with the same content would have.
fn request(
    session: &Upload,
    wanted: NewFileImport,
    default_branch: &str,
    own_branch: impl FnOnce() -> String,
) -> NewImport {
    let NewFileImport { branch, table, file_name, file_type, mode, primary_keys } = wanted;
    let etags = session.parts.iter();
    NewImport {
        secret: String::new(),
        upload: Some(session.id),
        pull_branch: branch.is_some().then(own_branch),
        branch: branch.unwrap_or_else(|| default_branch.to_owned()),
        table: if mode.is_some() { table } else { String::new() },
        file_name,
        file_size: session.content_length,
        file_type,
        mode: mode.unwrap_or(ImportMode::Create),
        parts: etags.map(|p| CompletedPart { number: p.number.into(), etag: HEXLOWER.encode(&p.md5) }).collect(),
        checksum: imports::checksum(&session.parts),
        primary_keys,
        message: None,
        column_map: BTreeMap::new(),
        options: ImportOptions::default(),
        file_columns: None,
    }
}
