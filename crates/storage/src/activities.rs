//! The activity feed.

use branchyard_domain::entities::{Activity, ActivityKind};
use branchyard_domain::ports::{ActivityRepository, MetadataError, WriteKey};
use branchyard_domain::values::{DatabaseId, PullNumber, Timestamp};
use diesel::prelude::*;

use crate::connection::AnyConnection;
use crate::convert::{Read, StoredWord, all, limit, present, read, time};
use crate::deferred::Deferred;
use crate::error::StoreError;
use crate::schema::{accounts, activities};
use crate::transaction::SqlTransaction;

type Result<T> = std::result::Result<T, MetadataError>;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = activities)]
pub(crate) struct ActivityRow {
    id: String,
    database_id: String,
    at: i64,
    by_id: String,
    kind: String,
    ref_name: Option<String>,
    head: Option<String>,
    pull_number: Option<i64>,
}

impl ActivityRow {
    fn new(activity: &Activity) -> Self {
        let (kind, ref_name, head, pull) = match &activity.kind {
            ActivityKind::Pushed { branch, head } => ("push", Some(branch), Some(head), None),
            ActivityKind::BranchCreated { branch } => ("branch_created", Some(branch), None, None),
            ActivityKind::BranchDeleted { branch } => ("branch_deleted", Some(branch), None, None),
            ActivityKind::Released { tag } => ("release", Some(tag), None, None),
            ActivityKind::Pull { number, action } => (action.word(), None, None, Some(*number)),
        };
        Self {
            id: activity.id.to_string(),
            database_id: activity.database_id.to_string(),
            at: activity.at.as_micros(),
            by_id: activity.by.to_string(),
            kind: kind.to_owned(),
            ref_name: ref_name.map(ToString::to_string),
            head: head.map(ToString::to_string),
            pull_number: pull.map(PullNumber::get),
        }
    }

    fn kind(&mut self) -> Read<ActivityKind> {
        let name = self.ref_name.take();
        let name = || read("activities.ref_name", present("activities.ref_name", name)?);
        match self.kind.as_str() {
            "push" => {
                let head = present("activities.head", self.head.take())?;
                Ok(ActivityKind::Pushed { branch: name()?, head: read("activities.head", head)? })
            }
            "branch_created" => Ok(ActivityKind::BranchCreated { branch: name()? }),
            "branch_deleted" => Ok(ActivityKind::BranchDeleted { branch: name()? }),
            "release" => Ok(ActivityKind::Released { tag: name()? }),
            _ => Ok(ActivityKind::Pull {
                number: read("activities.pull_number", present("activities.pull_number", self.pull_number)?)?,
                action: read("activities.kind", std::mem::take(&mut self.kind))?,
            }),
        }
    }
}

pub(crate) fn activity((mut row, by_name): (ActivityRow, String)) -> Read<Activity> {
    Ok(Activity {
        kind: row.kind()?,
        id: read("activities.id", row.id)?,
        database_id: read("activities.database_id", row.database_id)?,
        at: time(row.at),
        by: read("activities.by_id", row.by_id)?,
        by_name: read("accounts.name", by_name)?,
    })
}

/// Returns the activities of a database, or of one of its pull requests, newest first.
fn newest(
    conn: &mut AnyConnection,
    database: DatabaseId,
    pull: Option<PullNumber>,
    most: usize,
) -> std::result::Result<Vec<Activity>, StoreError> {
    let mut query = activities::table
        .inner_join(accounts::table.on(accounts::id.eq(activities::by_id)))
        .filter(activities::database_id.eq(database.to_string()))
        .into_boxed();
    if let Some(number) = pull {
        query = query.filter(activities::pull_number.eq(number.get()));
    }
    let query = query.order(activities::id.desc()).limit(limit(most));
    all(query.select((ActivityRow::as_select(), accounts::name)).load(conn)?, activity)
}

impl ActivityRepository for SqlTransaction {
    fn add(&mut self, activity: &Activity) -> Result<()> {
        self.needs(WriteKey::Database(activity.database_id));
        let statement = diesel::insert_into(activities::table).values(ActivityRow::new(activity));
        self.run_deferred("note an activity", Deferred::Insert("activities"), statement)
    }

    fn list(&mut self, database: DatabaseId, most: usize) -> Result<Vec<Activity>> {
        self.run_apart_from_rights("list activities", |conn| newest(conn, database, None, most))
    }

    fn list_of_pull(&mut self, database: DatabaseId, number: PullNumber, most: usize) -> Result<Vec<Activity>> {
        self.run_apart_from_rights("list activities of a pull", |conn| newest(conn, database, Some(number), most))
    }

    fn purge(&mut self, before: Timestamp) -> Result<u64> {
        self.run_apart_from_rights("purge activities", |conn| {
            let old = activities::table
                .filter(activities::at.lt(before.as_micros()))
                .filter(activities::pull_number.is_null());
            let removed = diesel::delete(old).execute(conn)?;
            Ok(removed as u64)
        })
    }

    fn clear(&mut self, database: DatabaseId) -> Result<()> {
        self.needs(WriteKey::Database(database));
        self.run_apart_from_rights("remove the activities of a database", |conn| {
            diesel::delete(activities::table.filter(activities::database_id.eq(database.to_string()))).execute(conn)?;
            Ok(())
        })
    }
}
