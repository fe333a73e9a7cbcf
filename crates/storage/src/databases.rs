//! Databases.

use std::collections::BTreeMap;

use branchyard_domain::entities::{Database, DatabaseLocator, FileState, Visibility};
use branchyard_domain::ports::{
    BranchFacts, DatabaseFilter, DatabaseRepository, MetadataError, Ranking, SizeChange, WriteKey,
};
use branchyard_domain::values::{AccountId, DatabaseId, DatabaseName, OwnerName, RefName, Timestamp};
use diesel::dsl::{count_star, exists};
use diesel::prelude::*;
use diesel::sql_types::BigInt;

use crate::connection::MultiBackend;
use crate::convert::{LONGEST_SEARCH, Read, StoredWord, all, anywhere, count, limit, one, read, read_if, time};
use crate::deferred::Deferred;
use crate::facts;
use crate::former_names;
use crate::schema::{collaborators, databases, members, operations, stars, uploads, users};
use crate::static_sql::fixed;
use crate::transaction::SqlTransaction;
use crate::update::update;

type Result<T> = std::result::Result<T, MetadataError>;
type Boxed<'q> = databases::BoxedQuery<'q, MultiBackend>;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = databases)]
pub(crate) struct DatabaseRow {
    id: String,
    owner_id: String,
    owner_name: String,
    owner_key: String,
    name: String,
    name_key: String,
    description: Option<String>,
    search_key: String,
    visibility: String,
    default_branch: String,
    anonymous_sql: bool,
    is_mirror: bool,
    parent_id: Option<String>,
    network_id: String,
    created_at: i64,
    last_write_at: Option<i64>,
    size_bytes: i64,
    live_bytes: i64,
    engine_format: i64,
    star_count: i64,
    version: i64,
    generation: i64,
    deleted_at: Option<i64>,
    quarantined_at: Option<i64>,
}

/// Returns the lower-case name and description, separated by a character that occurs in neither.
pub(crate) fn search_key(database: &Database) -> String {
    let description = database.description.as_deref().unwrap_or_default();
    format!("{}\u{1f}{}", database.locator.name.key(), description.to_lowercase())
}

impl DatabaseRow {
    fn new(database: &Database) -> Self {
        Self {
            id: database.id.to_string(),
            owner_id: database.owner_id.to_string(),
            owner_name: database.locator.owner.to_string(),
            owner_key: database.locator.owner.key(),
            name: database.locator.name.to_string(),
            name_key: database.locator.name.key(),
            description: database.description.clone(),
            search_key: search_key(database),
            visibility: database.visibility.word().to_owned(),
            default_branch: database.default_branch.to_string(),
            anonymous_sql: database.anonymous_sql,
            is_mirror: database.is_mirror,
            parent_id: database.parent_id.map(|id| id.to_string()),
            network_id: database.network_id.to_string(),
            created_at: database.created_at.as_micros(),
            last_write_at: database.last_write_at.map(Timestamp::as_micros),
            size_bytes: database.size_bytes,
            live_bytes: database.live_bytes,
            engine_format: database.engine_format.into(),
            star_count: database.star_count,
            version: database.version,
            generation: database.generation,
            deleted_at: database.deleted_at.map(Timestamp::as_micros),
            quarantined_at: database.quarantined_at.map(Timestamp::as_micros),
        }
    }

    pub(crate) fn database(self) -> Read<Database> {
        Ok(Database {
            id: read("databases.id", self.id)?,
            owner_id: read("databases.owner_id", self.owner_id)?,
            locator: DatabaseLocator {
                owner: read("databases.owner_name", self.owner_name)?,
                name: read("databases.name", self.name)?,
            },
            description: self.description,
            visibility: read("databases.visibility", self.visibility)?,
            default_branch: read("databases.default_branch", self.default_branch)?,
            anonymous_sql: self.anonymous_sql,
            is_mirror: self.is_mirror,
            parent_id: read_if("databases.parent_id", self.parent_id)?,
            network_id: read("databases.network_id", self.network_id)?,
            created_at: time(self.created_at),
            last_write_at: self.last_write_at.map(time),
            size_bytes: self.size_bytes,
            live_bytes: self.live_bytes,
            engine_format: read("databases.engine_format", self.engine_format)?,
            star_count: self.star_count,
            version: self.version,
            generation: self.generation,
            deleted_at: self.deleted_at.map(time),
            quarantined_at: self.quarantined_at.map(time),
        })
    }
}

/// Leaves quarantined databases out of a query, unless the viewer administers the server. A macro, because
/// the types of the queries differ.
macro_rules! unwithheld {
    ($query:expr, $viewer:expr) => {{
        let is_admin = users::table.filter(users::id.eq(String::clone($viewer))).filter(users::is_admin.eq(true));
        $query.filter(databases::quarantined_at.is_null().or(exists(is_admin)))
    }};
}

/// Narrows a query down to live databases that a viewer may see. A macro for the same reason.
macro_rules! visible {
    ($query:expr, $viewer:expr) => {{
        let live = $query.filter(databases::deleted_at.is_null());
        match $viewer.map(|viewer| AccountId::to_string(&viewer)) {
            None => live
                .filter(databases::visibility.eq(Visibility::Public.word()))
                .filter(databases::quarantined_at.is_null()),
            Some(viewer) => unwithheld!(live, &viewer).filter(
                databases::visibility
                    .eq(Visibility::Public.word())
                    .or(databases::quarantined_at.is_not_null())
                    .or(databases::owner_id.eq(viewer.clone()))
                    .or(exists(
                        members::table
                            .filter(members::organization_id.eq(databases::owner_id))
                            .filter(members::user_id.eq(viewer.clone())),
                    ))
                    .or(exists(
                        collaborators::table
                            .filter(collaborators::database_id.eq(databases::id))
                            .filter(collaborators::user_id.eq(viewer)),
                    )),
            ),
        }
    }};
}

/// Returns the query for live databases that `viewer` may see.
fn visible<'q>(viewer: Option<AccountId>) -> Boxed<'q> {
    visible!(databases::table.into_boxed(), viewer)
}

/// Returns the query for a page of databases, sorted by owner and name, after a pair of keys.
fn page<'q>(mut query: Boxed<'q>, after: Option<(&str, &str)>, most: usize) -> Boxed<'q> {
    if let Some((owner, name)) = after {
        // The first filter is redundant, but lets the index scan start at the owner.
        query = query
            .filter(databases::owner_key.ge(owner.to_owned()))
            .filter(databases::owner_key.gt(owner.to_owned()).or(databases::name_key.gt(name.to_owned())));
    }
    query.order((databases::owner_key, databases::name_key)).limit(limit(most))
}

/// Narrows a query down by a filter. Returns `None` if no database can match.
fn filtered<'q>(mut query: Boxed<'q>, filter: &DatabaseFilter) -> Option<Boxed<'q>> {
    if let Some(owner) = &filter.owner {
        query = query.filter(databases::owner_key.eq(owner.key()));
    }
    if let Some(visibility) = filter.visibility {
        query = query.filter(databases::visibility.eq(visibility.word()));
    }
    if let Some(user) = filter.starred_by {
        let of_user = stars::table.filter(stars::user_id.eq(user.to_string())).select(stars::database_id);
        query = query.filter(databases::id.eq_any(of_user));
    }
    query = match filter.is_quarantined {
        Some(true) => query.filter(databases::quarantined_at.is_not_null()),
        Some(false) => query.filter(databases::quarantined_at.is_null()),
        None => query,
    };
    if let Some(text) = &filter.contains {
        if text.len() > LONGEST_SEARCH {
            return None;
        }
        query = query.filter(databases::search_key.like(anywhere(text)).escape('\\'));
    }
    Some(query)
}

/// Sums in bytes. The casts give both stores the same type.
const FILE_BYTES: &str = "CAST(COALESCE(SUM(databases.size_bytes), 0) AS BIGINT)";
const UPLOAD_BYTES: &str = "CAST(COALESCE(SUM(uploads.content_length), 0) AS BIGINT)";
const TEXT_BYTES: &str = "CAST(COALESCE(SUM(OCTET_LENGTH(operations.work)), 0) AS BIGINT)";

/// Spelled exactly as in the index.
const LAST_WRITE: &str = "COALESCE(databases.last_write_at, 0)";

/// Sorts a query by `$place` in descending order, and starts after a place and an id. A macro, because the types of the
/// places differ.
macro_rules! ranked {
    ($query:expr, $place:expr, $after:expr) => {{
        let mut query = $query;
        if let Some((place, id)) = $after {
            // The first filter is redundant, but lets the index scan start at the place.
            query = query
                .filter($place.le(place))
                .filter($place.lt(place).or(databases::id.lt(DatabaseId::to_string(&id))));
        }
        query.order(($place.desc(), databases::id.desc()))
    }};
}

impl DatabaseRepository for SqlTransaction {
    fn add(&mut self, database: &Database) -> Result<()> {
        self.needs(WriteKey::Account(database.owner_id));
        self.run_unless_taken("add a database", |conn| {
            let row = DatabaseRow::new(database);
            former_names::take_over(conn, &row.owner_id, &row.name_key)?;
            diesel::insert_into(databases::table).values(row).execute(conn)?;
            Ok(())
        })
    }

    fn by_name(&mut self, owner: &OwnerName, name: &DatabaseName) -> Result<Option<Database>> {
        self.run("find a database", |conn| {
            let row = databases::table
                .filter(databases::owner_key.eq(owner.key()))
                .filter(databases::name_key.eq(name.key()))
                .filter(databases::deleted_at.is_null())
                .select(DatabaseRow::as_select())
                .first(conn)
                .optional()?;
            one(row, DatabaseRow::database)
        })
    }

    fn get(&mut self, id: DatabaseId) -> Result<Option<Database>> {
        self.run_apart_from_rights("read a database", |conn| {
            let row = databases::table.find(id.to_string()).select(DatabaseRow::as_select()).first(conn).optional()?;
            one(row, DatabaseRow::database)
        })
    }

    fn branch_facts(
        &mut self,
        id: DatabaseId,
        branch: &RefName,
        user: AccountId,
        now: Timestamp,
    ) -> Result<Option<BranchFacts>> {
        facts::of_branch(self, id, branch, user, now)
    }

    fn get_all(&mut self, ids: &[DatabaseId]) -> Result<Vec<Database>> {
        self.run("read databases", |conn| {
            let rows = databases::table
                .filter(databases::id.eq_any(ids.iter().map(ToString::to_string)))
                .select(DatabaseRow::as_select())
                .load(conn)?;
            all(rows, DatabaseRow::database)
        })
    }

    fn update(&mut self, database: &Database) -> Result<bool> {
        self.needs(WriteKey::Database(database.id));
        self.run_unless_taken("change a database", |conn| {
            let changed = diesel::update(
                databases::table
                    .filter(databases::id.eq(database.id.to_string()))
                    .filter(databases::version.eq(database.version)),
            )
            .set((
                databases::description.eq(database.description.as_deref()),
                databases::search_key.eq(search_key(database)),
                databases::visibility.eq(database.visibility.word()),
                databases::default_branch.eq(database.default_branch.as_str()),
                databases::anonymous_sql.eq(database.anonymous_sql),
                databases::is_mirror.eq(database.is_mirror),
                databases::last_write_at.eq(database.last_write_at.map(Timestamp::as_micros)),
                databases::size_bytes.eq(database.size_bytes),
                databases::deleted_at.eq(database.deleted_at.map(Timestamp::as_micros)),
                databases::quarantined_at.eq(database.quarantined_at.map(Timestamp::as_micros)),
                databases::version.eq(database.version.saturating_add(1)),
            ))
            .execute(conn)?;
            Ok(changed > 0)
        })
    }

    fn rename(&mut self, database: &Database, most: usize) -> Result<bool> {
        former_names::rename(self, database, most)
    }

    fn by_former_name(&mut self, owner: &OwnerName, name: &DatabaseName) -> Result<Option<Database>> {
        former_names::find(self, owner, name)
    }

    fn former_names(&mut self, id: DatabaseId) -> Result<Vec<DatabaseLocator>> {
        former_names::list(self, id)
    }

    fn clear_former_names(&mut self, id: DatabaseId) -> Result<()> {
        former_names::clear(self, id)
    }

    fn record_write(&mut self, id: DatabaseId, at: Timestamp, file: FileState) -> Result<()> {
        self.needs(WriteKey::Database(id));
        let FileState { size_bytes, engine_format } = file;
        let live = databases::live_bytes - databases::size_bytes + size_bytes.into_sql::<BigInt>();
        let statement = update(databases::table.find(id.to_string())).set((
            databases::last_write_at.eq(at.as_micros()),
            databases::live_bytes.eq(live),
            databases::size_bytes.eq(size_bytes),
            databases::engine_format.eq(i64::from(engine_format)),
        ));
        self.run_deferred("note a write to a database", Deferred::Change("databases"), statement)
    }

    fn record_file(&mut self, id: DatabaseId, file: FileState, change: SizeChange) -> Result<()> {
        self.needs(WriteKey::Database(id));
        let FileState { size_bytes, engine_format } = file;
        self.run("note the file of a database", |conn| {
            let row = databases::table.find(id.to_string());
            let size = (databases::size_bytes.eq(size_bytes), databases::engine_format.eq(i64::from(engine_format)));
            match change {
                SizeChange::Added => {
                    let live = databases::live_bytes - databases::size_bytes + size_bytes.into_sql::<BigInt>();
                    update(row).set((databases::live_bytes.eq(live), size)).execute(conn)?
                }
                SizeChange::Wasted => update(row).set(size).execute(conn)?,
                SizeChange::Collected => update(row).set((databases::live_bytes.eq(size_bytes), size)).execute(conn)?,
            };
            Ok(())
        })
    }

    fn next_generation(&mut self, id: DatabaseId) -> Result<()> {
        self.needs(WriteKey::Database(id));
        self.run("count a garbage collection", |conn| {
            update(databases::table.find(id.to_string()))
                .set(databases::generation.eq(databases::generation + 1))
                .execute(conn)?;
            Ok(())
        })
    }

    fn list_network(&mut self, network: DatabaseId, after: Option<DatabaseId>, most: usize) -> Result<Vec<Database>> {
        self.run("list a fork network", |conn| {
            let rows = databases::table
                .filter(databases::network_id.eq(network.to_string()))
                .filter(databases::deleted_at.is_null())
                .filter(databases::id.gt(after.map(|id| id.to_string()).unwrap_or_default()))
                .order(databases::id)
                .limit(limit(most))
                .select(DatabaseRow::as_select())
                .load(conn)?;
            all(rows, DatabaseRow::database)
        })
    }

    fn list(
        &mut self,
        viewer: Option<AccountId>,
        filter: &DatabaseFilter,
        after: Option<(&str, &str)>,
        most: usize,
    ) -> Result<Vec<Database>> {
        let Some(query) = filtered(page(visible(viewer), after, most), filter) else { return Ok(Vec::new()) };
        self.run("list databases", |conn| {
            all(query.select(DatabaseRow::as_select()).load(conn)?, DatabaseRow::database)
        })
    }

    fn list_all(&mut self, filter: &DatabaseFilter, after: Option<(&str, &str)>, most: usize) -> Result<Vec<Database>> {
        let live = databases::table.filter(databases::deleted_at.is_null()).into_boxed();
        let Some(query) = filtered(page(live, after, most), filter) else { return Ok(Vec::new()) };
        self.run("list all databases", |conn| {
            all(query.select(DatabaseRow::as_select()).load(conn)?, DatabaseRow::database)
        })
    }

    fn list_ranked(
        &mut self,
        viewer: Option<AccountId>,
        filter: &DatabaseFilter,
        ranking: Ranking,
        after: Option<(i64, DatabaseId)>,
        most: usize,
    ) -> Result<Vec<Database>> {
        let Some(query) = filtered(visible(viewer), filter) else { return Ok(Vec::new()) };
        let query = match ranking {
            Ranking::Stars => ranked!(query, databases::star_count, after),
            Ranking::LastWrite => ranked!(query, fixed::<BigInt>(LAST_WRITE), after),
            Ranking::Creation => ranked!(query, databases::created_at, after),
        };
        self.run("rank databases", |conn| {
            all(query.limit(limit(most)).select(DatabaseRow::as_select()).load(conn)?, DatabaseRow::database)
        })
    }

    fn list_of_user(&mut self, user: AccountId, most: usize) -> Result<Vec<Database>> {
        let user = user.to_string();
        let organizations = members::table.filter(members::user_id.eq(&user)).select(members::organization_id);
        let shared = collaborators::table.filter(collaborators::user_id.eq(&user)).select(collaborators::database_id);
        // Three queries, so that each can use its own index.
        let live = || unwithheld!(databases::table.filter(databases::deleted_at.is_null()).into_boxed(), &user);
        let queries: [Boxed<'_>; 3] = [
            live().filter(databases::owner_id.eq(&user)),
            live().filter(databases::owner_id.eq_any(organizations)),
            live().filter(databases::id.eq_any(shared)),
        ];
        self.run("list the databases of a user", |conn| {
            let mut found = Vec::new();
            for query in queries {
                let query = ranked!(query, fixed::<BigInt>(LAST_WRITE), None::<(i64, DatabaseId)>);
                let rows: Vec<DatabaseRow> = query.limit(limit(most)).select(DatabaseRow::as_select()).load(conn)?;
                found.extend(all(rows, DatabaseRow::database)?);
            }
            found.sort_by_key(|database| std::cmp::Reverse((Ranking::LastWrite.of(database), database.id)));
            found.dedup_by_key(|database| database.id);
            found.truncate(most);
            Ok(found)
        })
    }

    fn count(&mut self, owner: AccountId) -> Result<u64> {
        self.run("count databases", |conn| {
            let rows = databases::table
                .filter(databases::owner_id.eq(owner.to_string()))
                .filter(databases::deleted_at.is_null())
                .count()
                .get_result(conn)?;
            Ok(count(rows))
        })
    }

    fn bytes_of(&mut self, owner: AccountId) -> Result<u64> {
        self.run("sum the bytes of an owner", |conn| {
            let owned = || {
                databases::table
                    .filter(databases::owner_id.eq(owner.to_string()))
                    .filter(databases::deleted_at.is_null())
            };
            let files: i64 = owned().select(fixed::<BigInt>(FILE_BYTES)).get_result(conn)?;
            let ids = || owned().select(databases::id);
            let announced: i64 = uploads::table
                .filter(uploads::database_id.eq_any(ids()))
                .select(fixed::<BigInt>(UPLOAD_BYTES))
                .get_result(conn)?;
            let texts: i64 = operations::table
                .filter(operations::database_id.eq_any(ids()))
                .select(fixed::<BigInt>(TEXT_BYTES))
                .get_result(conn)?;
            Ok(count(files).saturating_add(count(announced)).saturating_add(count(texts)))
        })
    }

    fn list_forks(
        &mut self,
        viewer: Option<AccountId>,
        parent: DatabaseId,
        after: Option<(&str, &str)>,
        most: usize,
    ) -> Result<Vec<Database>> {
        let query = page(visible(viewer), after, most).filter(databases::parent_id.eq(parent.to_string()));
        self.run("list forks", |conn| all(query.select(DatabaseRow::as_select()).load(conn)?, DatabaseRow::database))
    }

    fn count_forks(&mut self, viewer: Option<AccountId>, networks: &[DatabaseId]) -> Result<BTreeMap<DatabaseId, u64>> {
        let forks = databases::table.group_by(databases::network_id).select((databases::network_id, count_star()));
        let forks = visible!(forks.into_boxed(), viewer)
            .filter(databases::network_id.eq_any(networks.iter().map(ToString::to_string)))
            .filter(databases::parent_id.is_not_null());
        self.run("count forks", |conn| {
            let rows: Vec<(String, i64)> = forks.load(conn)?;
            let counted = all(rows, |(network, forks)| Ok((read("databases.network_id", network)?, count(forks))))?;
            Ok(counted.into_iter().collect())
        })
    }

    fn ids(&mut self, after: Option<DatabaseId>, most: usize) -> Result<Vec<DatabaseId>> {
        self.run("list ids of databases", |conn| {
            let mut query = databases::table.filter(databases::deleted_at.is_null()).into_boxed();
            if let Some(after) = after {
                query = query.filter(databases::id.gt(after.to_string()));
            }
            let rows: Vec<String> = query.order(databases::id).limit(limit(most)).select(databases::id).load(conn)?;
            all(rows, |id| read("databases.id", id))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_means_its_text() {
        assert_eq!(anywhere("50%_Öl\\"), "%50\\%\\_öl\\\\%");
    }
}
