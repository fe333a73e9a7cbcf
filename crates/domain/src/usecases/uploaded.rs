//! Files that have arrived completely: kept, previewed, then imported. The user who sent a file needs no secret to continue.

use std::collections::BTreeMap;
use std::io::{self, Read};

use data_encoding::HEXLOWER;

use super::deadline::{FileDeadline, TimedFile};
use super::imports::{self, Imports};
use super::{CompletedPart, NewImport, StoredFile};
use crate::access::visibility::live;
use crate::access::{DatabaseAccess, Write};
use crate::entities::{Cell, FileType, ImportMode, ImportOptions, Operation, RowProblem, TextOptions, Upload};
use crate::errors::{ImportError, ImportField, PortError};
use crate::ports::{
    ColumnSpelling, Durability, FormatError, FormatInput, InferredColumn, ReadSeek, TargetColumn, WriteKeys,
};
use crate::values::UploadId;

/// The settings of an import of an arrived file. Nothing has been checked yet.
#[derive(Debug, Clone)]
pub struct ArrivedImport {
    /// Name of an existing branch to import into.
    pub branch: String,
    /// Name of the table. May be empty for an SQL script.
    pub table: String,
    /// Name of the file.
    pub file_name: String,
    /// How to treat the table.
    pub mode: ImportMode,
    /// Columns of the primary key.
    pub primary_keys: Vec<String>,
    /// Commit message. A default is used if it is absent or blank.
    pub message: Option<String>,
    /// Branch to import into instead, from which a pull request against `branch` is opened.
    pub pull_branch: Option<String>,
    /// How the file is read.
    pub options: ImportOptions,
}

/// How an arrived file is previewed.
#[derive(Debug, Clone, Default)]
pub struct PreviewOptions {
    /// Selects one of the sheets or tables in the file.
    pub table: String,
    /// How the file is written, for delimited text.
    pub text: TextOptions,
    /// Maximum number of records.
    pub limit: usize,
}

/// The content of a file, as far as it is known before an import.
#[derive(Debug, Clone, PartialEq)]
pub enum Preview {
    /// The file holds records.
    Rows {
        /// The columns, with the types that a new table would have.
        columns: Vec<InferredColumn>,
        /// The columns of the primary key, for formats that define one.
        primary_key: Vec<String>,
        /// What types would do with the values of each column. Empty for formats with typed values.
        spelling: Vec<ColumnSpelling>,
        /// The first records.
        rows: Vec<Vec<Cell>>,
    },
    /// The file is an SQL script, whose content only an import interprets.
    Script,
    /// An import of the file would fail.
    Refused {
        /// The reason.
        detail: String,
        /// The invalid records, if the reason lies in records. Not all of them are listed if there are many.
        problems: Vec<RowProblem>,
    },
    /// Reading the file exceeds the time limit of a preview. An import has more time.
    TooSlow,
}

impl<'a> Imports<'a> {
    /// Keeps a stored file for a later import, for the lifetime of an upload session.
    ///
    /// # Errors
    /// [`ImportError::Fields`] if this server cannot read the format; [`ImportError::TooManyUploads`].
    pub fn keep_file(
        &self,
        access: &DatabaseAccess<Write>,
        mut file: StoredFile<'_>,
        file_type: FileType,
    ) -> Result<Upload, ImportError> {
        let now = self.0.now();
        if !self.0.ports.reads_files_as(file_type) {
            return Err(ImportError::Fields(vec![(
                ImportField::FileType,
                "this server cannot read that format".to_owned(),
            )]));
        }
        let session = Upload { file_type, ..file.session(access.database().id, access.who().id, now) };
        let mut tx = self.0.ports.metadata.write(&WriteKeys::account(session.user_id))?;
        live(tx.as_mut(), session.database_id)?;
        let limit = self.0.limits.open_uploads_per_user;
        if tx.uploads().count_open(session.user_id, now)? >= limit {
            return Err(ImportError::TooManyUploads(limit));
        }
        tx.uploads().add(&Upload { parts: Vec::new(), ..session.clone() })?;
        for part in &session.parts {
            tx.uploads().put_part(session.id, part)?;
        }
        tx.commit(Durability::Synced)?;
        file.taken = true;
        Ok(session)
    }

    /// Stores a part of an upload session that the access holder opened for this database.
    ///
    /// # Errors
    /// As [`Imports::put_part`].
    pub fn put_own_part(
        &self,
        access: &DatabaseAccess<Write>,
        id: UploadId,
        number: u32,
        bytes: &mut dyn Read,
    ) -> Result<[u8; 16], ImportError> {
        self.theirs(access, id)?;
        self.put_part(id, number, None, bytes)
    }

    /// Returns an upload session of the access holder for this database.
    fn theirs(&self, access: &DatabaseAccess<Write>, id: UploadId) -> Result<Upload, ImportError> {
        let session = self.0.ports.metadata.read()?.uploads().get(id)?;
        let theirs = session.filter(|s| s.user_id == access.who().id && s.database_id == access.database().id);
        theirs.ok_or(ImportError::NoSuchUpload)
    }

    /// Returns an upload of the access holder to this database that is complete and unused.
    ///
    /// # Errors
    /// [`ImportError::NoSuchUpload`] if the upload does not exist, has expired or is incomplete;
    /// [`ImportError::UploadUsed`].
    pub fn arrived(&self, access: &DatabaseAccess<Write>, id: UploadId) -> Result<Upload, ImportError> {
        let session = self.theirs(access, id)?;
        if let Some(operation) = session.used_by {
            return Err(ImportError::UploadUsed(operation.to_string()));
        }
        let size: u64 = session.parts.iter().map(|part| part.size).sum();
        if session.expires_at <= self.0.now() || size != session.content_length {
            return Err(ImportError::NoSuchUpload);
        }
        Ok(session)
    }

    /// Returns the columns and the first records of an arrived file. Scans the whole file, for at most
    /// [`super::Limits::preview_timeout_ms`].
    ///
    /// # Errors
    /// As [`Imports::arrived`]. Defects of the file are returned as [`Preview::Refused`].
    pub fn preview(
        &self,
        access: &DatabaseAccess<Write>,
        id: UploadId,
        options: &PreviewOptions,
    ) -> Result<Preview, ImportError> {
        let session = self.arrived(access, id)?;
        if session.file_type == FileType::Sql {
            return Ok(Preview::Script);
        }
        let deadline = FileDeadline::start(self.0, self.0.limits.preview_timeout_ms);
        let input = self.input(&session, options.text, &options.table, &deadline);
        match self.look(FormatInput { counts_spelling: true, ..input }, options.limit) {
            Ok(preview) => Ok(preview),
            Err(FormatError::File(detail)) => Ok(Preview::Refused { detail, problems: Vec::new() }),
            Err(error @ FormatError::Rows(_)) => {
                let detail = error.to_string();
                let FormatError::Rows(problems) = error else { return Ok(Preview::TooSlow) };
                Ok(Preview::Refused { detail, problems })
            }
            Err(FormatError::Io(_)) if deadline.left().is_zero() => Ok(Preview::TooSlow),
            Err(error @ FormatError::Io(_)) => Err(PortError::from(error).into()),
        }
    }

    /// Returns the names of the tables in an arrived SQLite file, or of the sheets in a workbook. Empty for other formats, and if they
    /// cannot be read.
    ///
    /// # Errors
    /// As [`Imports::arrived`].
    pub fn file_tables(&self, access: &DatabaseAccess<Write>, id: UploadId) -> Result<Vec<String>, ImportError> {
        let session = self.arrived(access, id)?;
        let deadline = FileDeadline::start(self.0, self.0.limits.preview_timeout_ms);
        let input = self.input(&session, TextOptions::default(), "", &deadline);
        Ok(self.0.ports.formats.tables(input).unwrap_or_default())
    }

    /// Returns an arrived file as the readers of formats take it.
    pub(super) fn input<'i>(
        &self,
        session: &Upload,
        text: TextOptions,
        table: &'i str,
        deadline: &FileDeadline,
    ) -> FormatInput<'i>
    where
        'a: 'i,
    {
        let (inner, id, parts, clock) = (self.0, session.id, session.num_parts, deadline.clone());
        let open = move || {
            let file = inner.ports.blobs.open(id, parts).map_err(io::Error::other)?;
            Ok(Box::new(TimedFile::new(file, clock.clone())) as Box<dyn ReadSeek>)
        };
        FormatInput {
            file_type: session.file_type,
            text,
            counts_spelling: false,
            table,
            open: Box::new(open),
            timeout: deadline.left(),
        }
    }

    fn look(&self, input: FormatInput<'_>, limit: usize) -> Result<Preview, FormatError> {
        let file = self.0.ports.formats.scan(input)?;
        let columns = file.columns().to_vec();
        // Where the file's own spelling is known, it is shown, and not what the proposed type would make of it.
        let is_spelled = !file.spelling().is_empty();
        let target = |column: &InferredColumn| match column.declared_type.as_str() {
            "INTEGER" | "REAL" if is_spelled => TargetColumn::Typed(String::new()),
            declared => TargetColumn::Typed(declared.to_owned()),
        };
        let targets: Vec<TargetColumn> = columns.iter().map(target).collect();
        let mut source = file.rows(&targets)?;
        let (mut rows, mut row) = (Vec::new(), Vec::new());
        while rows.len() < limit && source.next(&mut row)?.is_some() {
            rows.push(std::mem::take(&mut row));
        }
        let (primary_key, spelling) = (file.primary_key().to_vec(), file.spelling().to_vec());
        Ok(Preview::Rows { columns, primary_key, spelling, rows })
    }

    /// Queues the import of an arrived file as an operation.
    ///
    /// # Errors
    /// As [`Imports::arrived`] and [`Imports::start`].
    pub fn start_arrived(
        &self,
        access: &DatabaseAccess<Write>,
        id: UploadId,
        wanted: ArrivedImport,
    ) -> Result<Operation, ImportError> {
        let session = self.arrived(access, id)?;
        let ArrivedImport { branch, table, file_name, mode, primary_keys, message, pull_branch, options } = wanted;
        let parts = session.parts.iter();
        let request = NewImport {
            secret: String::new(),
            upload: Some(id),
            branch,
            table,
            file_name,
            file_size: session.content_length,
            file_type: session.file_type,
            mode,
            parts: parts.map(|p| CompletedPart { number: p.number.into(), etag: HEXLOWER.encode(&p.md5) }).collect(),
            checksum: imports::checksum(&session.parts),
            primary_keys,
            message,
            pull_branch,
            column_map: BTreeMap::new(),
            options,
            file_columns: None,
        };
        self.begin(access, request, None, &|_| true)
    }
}
