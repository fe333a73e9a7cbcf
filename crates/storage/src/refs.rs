//! Branches and tags.

use branchyard_domain::entities::{Branch, RefChange, RefKind, Tag, Tagger};
use branchyard_domain::ports::{
    BranchRepository, DatabaseCounts, MetadataError, RefRepository, TagRepository, WriteKey,
};
use branchyard_domain::values::{CommitHash, DatabaseId, RefName, Timestamp};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};

use crate::convert::{Read, all, limit, one, read, time};
use crate::durable::share_segments;
use crate::prepared::{Parameter, PreparedSql};
use crate::schema::{branches, tags};
use crate::transaction::SqlTransaction;
use crate::update::update;

type Result<T> = std::result::Result<T, MetadataError>;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = branches)]
struct BranchRow {
    database_id: String,
    name: String,
    head: String,
    updated_at: i64,
}

impl BranchRow {
    fn branch(self) -> Read<Branch> {
        Ok(Branch {
            name: read("branches.name", self.name)?,
            head: read("branches.head", self.head)?,
            updated_at: time(self.updated_at),
        })
    }
}

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = tags)]
struct TagRow {
    database_id: String,
    name: String,
    commit_hash: String,
    message: Option<String>,
    tagged_at: i64,
    tagger_name: Option<String>,
    tagger_email: Option<String>,
}

impl TagRow {
    fn tag(self) -> Read<Tag> {
        Ok(Tag {
            name: read("tags.name", self.name)?,
            commit: read("tags.commit_hash", self.commit_hash)?,
            message: self.message,
            tagger: self.tagger_name.zip(self.tagger_email).map(|(name, email)| Tagger { name, email }),
            tagged_at: time(self.tagged_at),
        })
    }
}

/// The part that [`NAMED_COMMITS`] and [`KEPT_COMMITS`] share.
macro_rules! refs_and_merges {
    () => {
        "\
SELECT hash FROM (
    SELECT * FROM (SELECT DISTINCT head AS hash FROM branches WHERE database_id = ? AND head > ? ORDER BY head LIMIT ?) AS b
    UNION
    SELECT * FROM (SELECT DISTINCT commit_hash AS hash FROM tags WHERE database_id = ? AND commit_hash > ?
        ORDER BY commit_hash LIMIT ?) AS t
    UNION
    SELECT merged_commit FROM pulls WHERE database_id = ? AND state = 'merged' AND merged_commit > ?
    UNION
    SELECT merged_base FROM pulls WHERE database_id = ? AND state = 'merged' AND merged_base > ?
    UNION
    SELECT merged_source FROM pulls WHERE database_id = ? AND state = 'merged' AND merged_source > ?
    UNION
"
    };
}

/// A page of the commits that branches, tags and pull requests name. The parts for branches and tags are index ranges
/// limited to the page size, so their cost does not depend on the position of the page.
const NAMED_COMMITS: &str = concat!(
    refs_and_merges!(),
    "\
    SELECT from_head FROM pulls WHERE database_id = ? AND state <> 'merged' AND fetch_due_at IS NULL AND from_head > ?
        AND NOT EXISTS (SELECT 1 FROM databases AS d WHERE d.id = pulls.from_database_id AND d.id <> pulls.database_id
            AND d.quarantined_at IS NOT NULL)
    UNION
    SELECT to_head FROM pulls WHERE database_id = ? AND state <> 'merged' AND fetch_due_at IS NULL AND to_head > ?
) AS named ORDER BY hash LIMIT ?"
);

/// As [`NAMED_COMMITS`], with the heads of all pull requests and the commits that refs left behind.
const KEPT_COMMITS: &str = concat!(
    refs_and_merges!(),
    "\
    SELECT from_head FROM pulls WHERE database_id = ? AND from_head > ?
    UNION
    SELECT to_head FROM pulls WHERE database_id = ? AND to_head > ?
    UNION
    SELECT old_commit FROM ref_log WHERE is_left_behind AND database_id = ? AND old_commit > ? AND changed_at > ?
) AS named ORDER BY hash LIMIT ?"
);

/// Counts branches, tags, releases and open pull requests, each by a range of an index up to a limit.
const COUNTS: &str = "\
SELECT (SELECT count(*) FROM (SELECT 1 FROM branches WHERE database_id = ? LIMIT ?) AS b),
    (SELECT count(*) FROM (SELECT 1 FROM tags WHERE database_id = ? LIMIT ?) AS t),
    (SELECT count(*) FROM (SELECT 1 FROM releases WHERE database_id = ? LIMIT ?) AS r),
    (SELECT count(*) FROM (SELECT 1 FROM pulls WHERE database_id = ? AND state = 'open' LIMIT ?) AS p)";

impl BranchRepository for SqlTransaction {
    fn add(&mut self, database: DatabaseId, branch: &Branch, change: Option<RefChange>) -> Result<()> {
        self.needs(WriteKey::Database(database));
        self.run_apart_from_rights_unless_taken("add a branch", |conn| {
            let row = BranchRow {
                database_id: database.to_string(),
                name: branch.name.to_string(),
                head: branch.head.to_string(),
                updated_at: branch.updated_at.as_micros(),
            };
            diesel::insert_into(branches::table).values(row).execute(conn)?;
            Ok(())
        })?;
        self.log_ref(database, RefKind::Branch, &branch.name, (None, Some(&branch.head)), change)
    }

    fn get(&mut self, database: DatabaseId, name: &RefName) -> Result<Option<Branch>> {
        self.run_apart_from_rights("read a branch", |conn| {
            let row = branches::table
                .find((database.to_string(), name.as_str()))
                .select(BranchRow::as_select())
                .first(conn)
                .optional()?;
            one(row, BranchRow::branch)
        })
    }

    fn move_head(
        &mut self,
        database: DatabaseId,
        name: &RefName,
        expected: &CommitHash,
        head: &CommitHash,
        at: Timestamp,
        change: Option<RefChange>,
    ) -> Result<bool> {
        self.needs(WriteKey::Database(database));
        let has_moved = self.run_apart_from_rights("move a branch", |conn| {
            let moved = update(
                branches::table
                    .filter(branches::database_id.eq(database.to_string()))
                    .filter(branches::name.eq(name.as_str()))
                    .filter(branches::head.eq(expected.as_str())),
            )
            .set((branches::head.eq(head.as_str()), branches::updated_at.eq(at.as_micros())))
            .execute(conn)?;
            Ok(moved > 0)
        })?;
        if has_moved {
            self.log_ref(database, RefKind::Branch, name, (Some(expected), Some(head)), change)?;
        }
        Ok(has_moved)
    }

    fn remove(
        &mut self,
        database: DatabaseId,
        name: &RefName,
        expected: &CommitHash,
        change: Option<RefChange>,
    ) -> Result<bool> {
        self.needs(WriteKey::Database(database));
        let is_removed = self.run_apart_from_rights("remove a branch", |conn| {
            let removed = diesel::delete(
                branches::table
                    .filter(branches::database_id.eq(database.to_string()))
                    .filter(branches::name.eq(name.as_str()))
                    .filter(branches::head.eq(expected.as_str())),
            )
            .execute(conn)?;
            Ok(removed > 0)
        })?;
        if is_removed {
            self.log_ref(database, RefKind::Branch, name, (Some(expected), None), change)?;
        }
        Ok(is_removed)
    }

    fn list(&mut self, database: DatabaseId, after: Option<&str>, most: usize) -> Result<Vec<Branch>> {
        self.run_apart_from_rights("list branches", |conn| {
            let mut query = branches::table.filter(branches::database_id.eq(database.to_string())).into_boxed();
            if let Some(after) = after {
                query = query.filter(branches::name.gt(after.to_owned()));
            }
            let rows = query.order(branches::name).limit(limit(most)).select(BranchRow::as_select()).load(conn)?;
            all(rows, BranchRow::branch)
        })
    }
}

impl TagRepository for SqlTransaction {
    fn add(&mut self, database: DatabaseId, tag: &Tag, change: Option<RefChange>) -> Result<()> {
        self.needs(WriteKey::Database(database));
        self.run_apart_from_rights_unless_taken("add a tag", |conn| {
            let row = TagRow {
                database_id: database.to_string(),
                name: tag.name.to_string(),
                commit_hash: tag.commit.to_string(),
                message: tag.message.clone(),
                tagged_at: tag.tagged_at.as_micros(),
                tagger_name: tag.tagger.as_ref().map(|tagger| tagger.name.clone()),
                tagger_email: tag.tagger.as_ref().map(|tagger| tagger.email.clone()),
            };
            diesel::insert_into(tags::table).values(row).execute(conn)?;
            Ok(())
        })?;
        self.log_ref(database, RefKind::Tag, &tag.name, (None, Some(&tag.commit)), change)
    }

    fn get(&mut self, database: DatabaseId, name: &RefName) -> Result<Option<Tag>> {
        self.run_apart_from_rights("read a tag", |conn| {
            let row = tags::table
                .find((database.to_string(), name.as_str()))
                .select(TagRow::as_select())
                .first(conn)
                .optional()?;
            one(row, TagRow::tag)
        })
    }

    fn remove(&mut self, database: DatabaseId, name: &RefName, change: Option<RefChange>) -> Result<bool> {
        self.needs(WriteKey::Database(database));
        let Some(tag) = TagRepository::get(self, database, name)? else { return Ok(false) };
        self.run_apart_from_rights("remove a tag", |conn| {
            diesel::delete(tags::table.find((database.to_string(), name.as_str()))).execute(conn)?;
            Ok(())
        })?;
        self.log_ref(database, RefKind::Tag, name, (Some(&tag.commit), None), change)?;
        Ok(true)
    }

    fn list(&mut self, database: DatabaseId, after: Option<&str>, most: usize) -> Result<Vec<Tag>> {
        self.run_apart_from_rights("list tags", |conn| {
            let mut query = tags::table.filter(tags::database_id.eq(database.to_string())).into_boxed();
            if let Some(after) = after {
                query = query.filter(tags::name.gt(after.to_owned()));
            }
            let rows = query.order(tags::name).limit(limit(most)).select(TagRow::as_select()).load(conn)?;
            all(rows, TagRow::tag)
        })
    }
}

impl RefRepository for SqlTransaction {
    fn counts(&mut self, database: DatabaseId, most: usize) -> Result<DatabaseCounts> {
        self.run_apart_from_rights("count branches, tags, releases and pull requests", |conn| {
            let pair = |_| [Parameter::Text(database.to_string()), Parameter::Number(limit(most))];
            let parameters = (0..4).flat_map(pair).collect();
            let statement = PreparedSql::<(BigInt, BigInt, BigInt, BigInt)>::new(COUNTS, parameters);
            let (branches, tags, releases, open_pulls): (i64, i64, i64, i64) = statement.get_result(conn)?;
            let count = |number: i64| usize::try_from(number).unwrap_or_default();
            Ok(DatabaseCounts {
                branches: count(branches),
                tags: count(tags),
                releases: count(releases),
                open_pulls: count(open_pulls),
            })
        })
    }

    fn copy_all(&mut self, from: DatabaseId, to: DatabaseId) -> Result<()> {
        self.needs(WriteKey::Database(to));
        self.run_apart_from_rights("copy branches and tags", |conn| {
            for copy in [
                "INSERT INTO branches (database_id, name, head, updated_at) \
                 SELECT $1, name, head, updated_at FROM branches WHERE database_id = $2",
                "INSERT INTO tags (database_id, name, commit_hash, message, tagged_at, tagger_name, tagger_email) \
                 SELECT $1, name, commit_hash, message, tagged_at, tagger_name, tagger_email FROM tags WHERE database_id = $2",
            ] {
                diesel::sql_query(copy)
                    .bind::<Text, _>(to.to_string())
                    .bind::<Text, _>(from.to_string())
                    .execute(conn)?;
            }
            // After the refs, so that the bytes have what these name.
            share_segments(conn, from, to)
        })
    }

    fn named_commits(
        &mut self,
        database: DatabaseId,
        after: Option<&CommitHash>,
        most: usize,
    ) -> Result<Vec<CommitHash>> {
        commits_of(self, NAMED_COMMITS, database, None, after, most)
    }

    fn kept_commits(
        &mut self,
        database: DatabaseId,
        left_since: Option<Timestamp>,
        after: Option<&CommitHash>,
        most: usize,
    ) -> Result<Vec<CommitHash>> {
        let left_since = left_since.map_or(i64::MAX, Timestamp::as_micros);
        commits_of(self, KEPT_COMMITS, database, Some(left_since), after, most)
    }
}

/// Runs [`NAMED_COMMITS`] or [`KEPT_COMMITS`].
fn commits_of(
    tx: &mut SqlTransaction,
    query: &'static str,
    database: DatabaseId,
    left_since: Option<i64>,
    after: Option<&CommitHash>,
    most: usize,
) -> Result<Vec<CommitHash>> {
    tx.run("list named commits", |conn| {
        let database = Parameter::Text(database.to_string());
        let after = Parameter::Text(after.map(CommitHash::as_str).unwrap_or_default().to_owned());
        let most = Parameter::Number(limit(most));
        let refs = [&database, &after, &most].repeat(2);
        let pulls = [&database, &after].repeat(5);
        let left_since = left_since.map(Parameter::Number);
        let left: Vec<&Parameter> = left_since.iter().flat_map(|since| [&database, &after, since]).collect();
        let parameters = refs.into_iter().chain(pulls).chain(left).chain([&most]).cloned().collect();
        let rows: Vec<String> = PreparedSql::<Text>::new(query, parameters).load(conn)?;
        all(rows, |hash| read("a named commit", hash))
    })
}
