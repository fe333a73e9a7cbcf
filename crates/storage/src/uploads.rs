//! Upload sessions.

use branchyard_domain::entities::{Upload, UploadPart};
use branchyard_domain::ports::{MetadataError, UploadRepository, WriteKey};
use branchyard_domain::values::{AccountId, OperationId, Timestamp, UploadId};
use diesel::dsl::{exists, not};
use diesel::prelude::*;

use crate::convert::{StoredWord, all, count, limit, read, read_if, signed, time};
use crate::schema::{operations, upload_parts, uploads};
use crate::transaction::SqlTransaction;

type Result<T> = std::result::Result<T, MetadataError>;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = uploads)]
struct UploadRow {
    id: String,
    database_id: String,
    user_id: String,
    secret_hash: Vec<u8>,
    content_length: i64,
    num_parts: i64,
    file_type: String,
    created_at: i64,
    expires_at: i64,
    used_by: Option<String>,
}

impl UploadRepository for SqlTransaction {
    fn add(&mut self, upload: &Upload) -> Result<()> {
        self.needs(WriteKey::Account(upload.user_id));
        self.run("open an upload", |conn| {
            let row = UploadRow {
                id: upload.id.to_string(),
                database_id: upload.database_id.to_string(),
                user_id: upload.user_id.to_string(),
                secret_hash: upload.secret_hash.to_vec(),
                content_length: signed("uploads.content_length", upload.content_length)?,
                num_parts: upload.num_parts.into(),
                file_type: upload.file_type.word().to_owned(),
                created_at: upload.created_at.as_micros(),
                expires_at: upload.expires_at.as_micros(),
                used_by: upload.used_by.map(|id| id.to_string()),
            };
            diesel::insert_into(uploads::table).values(row).execute(conn)?;
            for part in &upload.parts {
                put_part(conn, upload.id, part)?;
            }
            Ok(())
        })
    }

    fn get(&mut self, id: UploadId) -> Result<Option<Upload>> {
        self.run("read an upload", |conn| {
            let row = uploads::table.find(id.to_string()).select(UploadRow::as_select()).first(conn).optional()?;
            let Some(row) = row else { return Ok(None) };
            let parts: Vec<(i64, i64, Vec<u8>)> = upload_parts::table
                .filter(upload_parts::upload_id.eq(id.to_string()))
                .order(upload_parts::number)
                .select((upload_parts::number, upload_parts::size, upload_parts::md5))
                .load(conn)?;
            Ok(Some(Upload {
                id,
                database_id: read("uploads.database_id", row.database_id)?,
                user_id: read("uploads.user_id", row.user_id)?,
                secret_hash: read("uploads.secret_hash", row.secret_hash)?,
                content_length: read("uploads.content_length", row.content_length)?,
                num_parts: read("uploads.num_parts", row.num_parts)?,
                file_type: read("uploads.file_type", row.file_type)?,
                created_at: time(row.created_at),
                expires_at: time(row.expires_at),
                used_by: read_if("uploads.used_by", row.used_by)?,
                parts: all(parts, |(number, size, md5)| {
                    Ok(UploadPart {
                        number: read("upload_parts.number", number)?,
                        size: read("upload_parts.size", size)?,
                        md5: read("upload_parts.md5", md5)?,
                    })
                })?,
            }))
        })
    }

    fn put_part(&mut self, id: UploadId, part: &UploadPart) -> Result<()> {
        self.run("note a part of an upload", |conn| put_part(conn, id, part))
    }

    fn bind(&mut self, id: UploadId, operation: OperationId) -> Result<bool> {
        self.run("use an upload", |conn| {
            let used = diesel::update(
                uploads::table.filter(uploads::id.eq(id.to_string())).filter(uploads::used_by.is_null()),
            )
            .set(uploads::used_by.eq(operation.to_string()))
            .execute(conn)?;
            Ok(used > 0)
        })
    }

    fn count_open(&mut self, user: AccountId, now: Timestamp) -> Result<u64> {
        self.run("count uploads", |conn| {
            let rows = uploads::table
                .filter(uploads::user_id.eq(user.to_string()))
                .filter(uploads::used_by.is_null())
                .filter(uploads::expires_at.gt(now.as_micros()))
                .count()
                .get_result(conn)?;
            Ok(count(rows))
        })
    }

    fn remove(&mut self, id: UploadId) -> Result<()> {
        self.run("remove an upload", |conn| {
            diesel::delete(uploads::table.find(id.to_string())).execute(conn)?;
            Ok(())
        })
    }

    fn abandoned(&mut self, now: Timestamp, most: usize) -> Result<Vec<UploadId>> {
        self.run("list abandoned uploads", |conn| {
            let wanted = operations::table
                .filter(operations::id.nullable().eq(uploads::used_by))
                .filter(operations::finished_at.is_null());
            let rows: Vec<String> = uploads::table
                .filter(
                    uploads::used_by
                        .is_null()
                        .and(uploads::expires_at.le(now.as_micros()))
                        .or(uploads::used_by.is_not_null().and(not(exists(wanted)))),
                )
                .order(uploads::id)
                .limit(limit(most))
                .select(uploads::id)
                .load(conn)?;
            all(rows, |id| read("uploads.id", id))
        })
    }
}

fn put_part(
    conn: &mut crate::connection::AnyConnection,
    id: UploadId,
    part: &UploadPart,
) -> std::result::Result<(), crate::error::StoreError> {
    let number = i64::from(part.number);
    let size = signed("upload_parts.size", part.size)?;
    let changed = diesel::update(upload_parts::table.find((id.to_string(), number)))
        .set((upload_parts::size.eq(size), upload_parts::md5.eq(part.md5.as_slice())))
        .execute(conn)?;
    if changed == 0 {
        diesel::insert_into(upload_parts::table)
            .values((
                upload_parts::upload_id.eq(id.to_string()),
                upload_parts::number.eq(number),
                upload_parts::size.eq(size),
                upload_parts::md5.eq(part.md5.as_slice()),
            ))
            .execute(conn)?;
    }
    Ok(())
}
