//! Releases.

use branchyard_domain::entities::Release;
use branchyard_domain::ports::{MetadataError, ReleaseRepository, WriteKey};
use branchyard_domain::values::{DatabaseId, RefName, Timestamp};
use diesel::prelude::*;

use crate::convert::{Read, all, limit, one, read, time};
use crate::schema::releases;
use crate::transaction::SqlTransaction;

type Result<T> = std::result::Result<T, MetadataError>;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = releases)]
struct ReleaseRow {
    id: String,
    database_id: String,
    tag: String,
    title: String,
    commit_hash: String,
    description: Option<String>,
    created_at: i64,
    updated_at: i64,
}

impl ReleaseRow {
    fn release(self) -> Read<Release> {
        Ok(Release {
            id: read("releases.id", self.id)?,
            tag: read("releases.tag", self.tag)?,
            title: self.title,
            commit: read("releases.commit_hash", self.commit_hash)?,
            description: self.description,
            created_at: time(self.created_at),
            updated_at: time(self.updated_at),
        })
    }
}

impl ReleaseRepository for SqlTransaction {
    fn add(&mut self, database: DatabaseId, release: &Release) -> Result<()> {
        self.needs(WriteKey::Database(database));
        self.run_unless_taken("add a release", |conn| {
            let row = ReleaseRow {
                id: release.id.to_string(),
                database_id: database.to_string(),
                tag: release.tag.to_string(),
                title: release.title.clone(),
                commit_hash: release.commit.to_string(),
                description: release.description.clone(),
                created_at: release.created_at.as_micros(),
                updated_at: release.updated_at.as_micros(),
            };
            diesel::insert_into(releases::table).values(row).execute(conn)?;
            Ok(())
        })
    }

    fn get(&mut self, database: DatabaseId, tag: &RefName) -> Result<Option<Release>> {
        self.run("read a release", |conn| {
            let row = releases::table
                .filter(releases::database_id.eq(database.to_string()))
                .filter(releases::tag.eq(tag.as_str()))
                .select(ReleaseRow::as_select())
                .first(conn)
                .optional()?;
            one(row, ReleaseRow::release)
        })
    }

    fn list(&mut self, database: DatabaseId, after: Option<(Timestamp, &str)>, most: usize) -> Result<Vec<Release>> {
        self.run("list releases", |conn| {
            let mut query = releases::table.filter(releases::database_id.eq(database.to_string())).into_boxed();
            if let Some((at, tag)) = after {
                let at = at.as_micros();
                query = query
                    .filter(releases::created_at.le(at))
                    .filter(releases::created_at.lt(at).or(releases::tag.gt(tag.to_owned())));
            }
            let rows = query
                .order((releases::created_at.desc(), releases::tag))
                .limit(limit(most))
                .select(ReleaseRow::as_select())
                .load(conn)?;
            all(rows, ReleaseRow::release)
        })
    }

    fn update(&mut self, database: DatabaseId, release: &Release) -> Result<bool> {
        self.needs(WriteKey::Database(database));
        self.run("change a release", |conn| {
            let changed = diesel::update(
                releases::table
                    .filter(releases::database_id.eq(database.to_string()))
                    .filter(releases::tag.eq(release.tag.as_str())),
            )
            .set((
                releases::title.eq(&release.title),
                releases::description.eq(release.description.as_deref()),
                releases::updated_at.eq(release.updated_at.as_micros()),
            ))
            .execute(conn)?;
            Ok(changed > 0)
        })
    }

    fn remove(&mut self, database: DatabaseId, tag: &RefName) -> Result<bool> {
        self.needs(WriteKey::Database(database));
        self.run("remove a release", |conn| {
            let removed = diesel::delete(
                releases::table
                    .filter(releases::database_id.eq(database.to_string()))
                    .filter(releases::tag.eq(tag.as_str())),
            )
            .execute(conn)?;
            Ok(removed > 0)
        })
    }
}
