//! Dumps: the content of the store as lines of JSON. A dump of either engine can be loaded into either engine.
//!
//! The first line lists the applied migrations. The last line holds the number of rows, so that a truncated file is
//! detected. Between them, each table begins with an object that names its columns, and each row is an array. Bytes are
//! hexadecimal text; times and numbers are integers.

use std::io::{self, BufRead, Write};

use branchyard_domain::ports::{Durability, MetadataError, Transaction as _, WriteKeys};
use branchyard_domain::values::{DatabaseId, Timestamp};
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::Text;
use serde::{Deserialize, Serialize};

use crate::connection::AnyConnection;
use crate::error::MigrationError;
use crate::key_ring::SealedKeyRing;
use crate::store::Store;
use crate::transaction::SqlTransaction;

/// The tables of a dump. Each comes after the tables it refers to.
///
/// A backup consists of a dump and the files of all databases, and may be restored elsewhere, beside the server that it is from. What
/// is not in it belongs to the one store, or has no content of its own:
///
/// | Table | Why not |
/// |---|---|
/// | `server` | Its only row comes with the table |
/// | `nodes` | The servers that run now. None of them serves a store that a dump is loaded into |
/// | `files`, `segments` | Which node leads a file, and which objects have its bytes. The backup has the bytes. Two servers that named the same objects would each delete those of the other |
/// | `doomed_objects` | Objects that are about to be deleted, which the backup does not have |
/// | `data_keys` | They open objects, which the backup does not have. A store that a dump is loaded into seals what it stores under keys of its own |
/// | `store_state` | The cluster that an object store belongs to. A store that a dump is loaded into has an object store of its own |
/// | `key_ring` | A backup has it as a file. A store that a dump is loaded into may have another master key ([`Store::load_with_key_ring`]) |
/// | `sign_in_attempts`, `request_counts` | What is counted for minutes, or an hour |
/// | `oauth_codes`, `oauth_devices` | What waits for minutes, and can begin again |
const TABLES: &[&str] = &[
    "installation",
    "accounts",
    "users",
    "emails",
    "organizations",
    "members",
    "tokens",
    "user_keys",
    "sessions",
    "invitations",
    "oauth_applications",
    "oauth_grants",
    "oauth_access_tokens",
    "databases",
    "former_names",
    "mirrors",
    "collaborators",
    "stars",
    "branches",
    "tags",
    "ref_log",
    "ref_log_start",
    "collections",
    "pulls",
    "comments",
    "releases",
    "operations",
    "uploads",
    "upload_parts",
    "answers",
    "events",
    "activities",
    "hooks",
    "deliveries",
    "attempts",
    "deployments",
    "deployment_collaborators",
    "instances",
    "intervals",
    "backups",
    "samples",
    "deployment_operations",
];

const FORMAT: u32 = 1;
/// Number of rows that one statement reads or writes.
const BATCH: usize = 500;

/// An error of a dump or a load.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// Reading or writing the file failed.
    #[error("cannot read or write the dump")]
    Io(#[from] io::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] MetadataError),
    /// The store failed while a table was read or written.
    #[error("table {table}: {source}")]
    Table {
        /// Name of the table.
        table: String,
        /// The cause.
        source: diesel::result::Error,
    },
    /// The migrations of the store could not be checked.
    #[error(transparent)]
    Migrations(#[from] MigrationError),
    /// The file is not a complete dump.
    #[error("line {line} of the dump: {why}")]
    Malformed {
        /// Line number, counted from 1.
        line: u64,
        /// Description of the problem.
        why: String,
    },
    /// A newer version of the program wrote the dump.
    #[error(
        "the dump has migration {0}, which this program does not know; load it with the program that wrote it, or a newer one"
    )]
    Newer(String),
    /// The store to load into is not empty.
    #[error("the metadata store is not empty; load the dump into a new one")]
    NotEmpty,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DumpHead {
    branchyard_dump: u32,
    migrations: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Begin {
    table: String,
    columns: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DumpEnd {
    rows: u64,
}

#[derive(QueryableByName)]
struct DumpLine {
    #[diesel(sql_type = Text)]
    line: String,
}

#[derive(QueryableByName)]
struct DumpColumn {
    #[diesel(sql_type = Text)]
    name: String,
    #[diesel(sql_type = Text)]
    kind: String,
}

impl Store {
    /// Writes the whole store as of one point in time. Returns the ids of the databases that are live at that time, in
    /// ascending order.
    ///
    /// # Errors
    /// [`DumpError`] if the store cannot be read or `out` cannot be written.
    pub fn dump(&self, out: &mut dyn Write) -> Result<Vec<DatabaseId>, DumpError> {
        let migrations = self.check()?.applied;
        let mut tx = self.transaction(None)?;
        write_line(out, &DumpHead { branchyard_dump: FORMAT, migrations })?;
        let mut rows = 0;
        for table in TABLES {
            let columns = columns(tx.connection(), table).map_err(in_table(table))?;
            write_line(
                out,
                &Begin {
                    table: (*table).to_owned(),
                    columns: columns.iter().map(|column| column.name.clone()).collect(),
                },
            )?;
            rows += dump_table(tx.connection(), table, &columns, out)?;
        }
        write_line(out, &DumpEnd { rows })?;
        out.flush()?;
        let live = diesel::sql_query("SELECT id AS line FROM databases WHERE deleted_at IS NULL ORDER BY id");
        let live: Vec<DumpLine> = live.load(tx.connection()).map_err(in_table("databases"))?;
        Ok(live.into_iter().filter_map(|id| DatabaseId::parse(&id.line).ok()).collect())
    }

    /// Loads a dump written by [`Store::dump`] into this store, which must be migrated and empty. The load is atomic.
    ///
    /// # Errors
    /// [`DumpError`] if the dump is malformed or newer, or if the store is not empty.
    pub fn load(&self, from: &mut dyn BufRead) -> Result<(), DumpError> {
        self.load_and(from, |_| Ok(()))
    }

    /// Loads a dump as [`Store::load`] does and, in the same transaction, replaces the sealed key ring. A ring does not make a store
    /// count as filled, because each server creates one when it first starts.
    ///
    /// # Errors
    /// As [`Store::load`].
    pub fn load_with_key_ring(
        &self,
        from: &mut dyn BufRead,
        key_ring: &SealedKeyRing,
        at: Timestamp,
    ) -> Result<(), DumpError> {
        self.load_and(from, |tx| tx.put_key_ring(key_ring, at))
    }

    fn load_and(
        &self,
        from: &mut dyn BufRead,
        last: impl FnOnce(&mut SqlTransaction) -> Result<(), MetadataError>,
    ) -> Result<(), DumpError> {
        let mut input = DumpInput { from, line: 0 };
        let head: DumpHead = input.parse("no head")?;
        if head.branchyard_dump != FORMAT {
            return Err(input.malformed(format!("format {} is not known here", head.branchyard_dump)));
        }
        let known = self.check()?.applied;
        if let Some(newer) = head.migrations.into_iter().find(|version| !known.contains(version)) {
            return Err(DumpError::Newer(newer));
        }
        let mut tx = Box::new(self.transaction(Some(&WriteKeys::server()))?);
        defer_constraints(tx.connection()).map_err(in_table("databases"))?;
        if holds_anything(tx.connection())? {
            return Err(DumpError::NotEmpty);
        }
        load_tables(tx.connection(), &mut input)?;
        last(&mut tx)?;
        Ok(tx.commit(Durability::Synced)?)
    }

    /// Returns the unique id of this store. The first call sets the id to `fresh`.
    ///
    /// # Errors
    /// [`MetadataError`] if the store fails.
    pub fn installation(&self, fresh: &str) -> Result<String, MetadataError> {
        let mut tx = Box::new(self.transaction(Some(&WriteKeys::server()))?);
        let id = tx.run("name the installation", |conn| {
            use crate::schema::installation::dsl;
            let found: Option<String> = dsl::installation.select(dsl::id).first(conn).optional()?;
            if found.is_none() {
                diesel::insert_into(dsl::installation).values(dsl::id.eq(fresh)).execute(conn)?;
            }
            Ok(found.unwrap_or_else(|| fresh.to_owned()))
        })?;
        tx.commit(Durability::Synced)?;
        Ok(id)
    }
}

fn in_table(table: &str) -> impl FnOnce(diesel::result::Error) -> DumpError {
    let table = table.to_owned();
    move |source| DumpError::Table { table, source }
}

fn write_line(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

fn columns(conn: &mut AnyConnection, table: &str) -> QueryResult<Vec<DumpColumn>> {
    let query = match conn {
        AnyConnection::Sqlite(_) => {
            format!("SELECT name, lower(type) AS kind FROM pragma_table_info('{table}') ORDER BY cid")
        }
        AnyConnection::Pg(_) => format!(
            "SELECT column_name::text AS name, data_type::text AS kind FROM information_schema.columns \
             WHERE table_schema = current_schema() AND table_name = '{table}' ORDER BY ordinal_position"
        ),
    };
    diesel::sql_query(query).load(conn)
}

fn dump_table(
    conn: &mut AnyConnection,
    table: &str,
    columns: &[DumpColumn],
    out: &mut dyn Write,
) -> Result<u64, DumpError> {
    let values: Vec<String> = columns
        .iter()
        .map(|DumpColumn { name, kind }| match kind.as_str() {
            // `hex` would turn NULL into an empty text.
            "blob" => format!("CASE WHEN {name} IS NOT NULL THEN lower(hex({name})) END"),
            "bytea" => format!("encode({name}, 'hex')"),
            "boolean" if matches!(conn, AnyConnection::Sqlite(_)) => {
                format!("json(CASE WHEN {name} THEN 'true' WHEN NOT {name} THEN 'false' ELSE 'null' END)")
            }
            _ => name.clone(),
        })
        .collect();
    let values = values.join(", ");
    let mut rows = 0;
    match conn {
        AnyConnection::Sqlite(conn) => {
            let query = diesel::sql_query(format!("SELECT json_array({values}) AS line FROM {table}"));
            for row in
                query.load_iter::<DumpLine, diesel::connection::DefaultLoadingMode>(conn).map_err(in_table(table))?
            {
                writeln!(out, "{}", row.map_err(in_table(table))?.line)?;
                rows += 1;
            }
        }
        // With a cursor, so that not all rows are in memory at once.
        AnyConnection::Pg(conn) => {
            conn.batch_execute(&format!(
                "DECLARE dump NO SCROLL CURSOR FOR SELECT json_build_array({values})::text AS line FROM {table}"
            ))
            .map_err(in_table(table))?;
            loop {
                let fetch = diesel::sql_query(format!("FETCH {BATCH} FROM dump"));
                let batch: Vec<DumpLine> = fetch.load(conn).map_err(in_table(table))?;
                if batch.is_empty() {
                    break;
                }
                for row in &batch {
                    writeln!(out, "{}", row.line)?;
                    rows += 1;
                }
            }
            conn.batch_execute("CLOSE dump").map_err(in_table(table))?;
        }
    }
    Ok(rows)
}

/// Defers the check of foreign keys, because databases refer to each other in any order.
fn defer_constraints(conn: &mut AnyConnection) -> QueryResult<()> {
    match conn {
        AnyConnection::Sqlite(conn) => conn.batch_execute("PRAGMA defer_foreign_keys = ON"),
        AnyConnection::Pg(conn) => conn.batch_execute("SET CONSTRAINTS ALL DEFERRED"),
    }
}

fn holds_anything(conn: &mut AnyConnection) -> Result<bool, DumpError> {
    for table in TABLES {
        let found: Vec<DumpLine> = diesel::sql_query(format!("SELECT 'x' AS line FROM {table} LIMIT 1"))
            .load(conn)
            .map_err(in_table(table))?;
        if !found.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

struct DumpInput<'a> {
    from: &'a mut dyn BufRead,
    line: u64,
}

impl DumpInput<'_> {
    fn next(&mut self) -> Result<String, DumpError> {
        let mut text = String::new();
        self.line += 1;
        self.from.read_line(&mut text)?;
        if !text.ends_with('\n') {
            return Err(self.malformed("the file ends here: it was cut short"));
        }
        text.pop();
        Ok(text)
    }

    fn parse<T: for<'de> Deserialize<'de>>(&mut self, what: &str) -> Result<T, DumpError> {
        let text = self.next()?;
        serde_json::from_str(&text).map_err(|error| self.malformed(format!("{what}: {error}")))
    }

    fn malformed(&self, why: impl Into<String>) -> DumpError {
        DumpError::Malformed { line: self.line, why: why.into() }
    }
}

fn load_tables(conn: &mut AnyConnection, input: &mut DumpInput<'_>) -> Result<(), DumpError> {
    let mut rows = 0;
    let mut into: Option<Load> = None;
    loop {
        let text = input.next()?;
        if text.starts_with('[') {
            let Some(load) = &mut into else { return Err(input.malformed("a row before any table")) };
            let values: Vec<serde::de::IgnoredAny> =
                serde_json::from_str(&text).map_err(|error| input.malformed(error.to_string()))?;
            if values.len() != load.width {
                return Err(input.malformed(format!("{} values for {} columns", values.len(), load.width)));
            }
            rows += 1;
            load.push(conn, &text)?;
            continue;
        }
        if let Some(load) = &mut into {
            load.finish(conn)?;
        }
        if let Ok(DumpEnd { rows: expected }) = serde_json::from_str(&text) {
            return if expected == rows {
                Ok(())
            } else {
                Err(input.malformed(format!("{expected} rows are promised, {rows} came")))
            };
        }
        let begin: Begin = serde_json::from_str(&text).map_err(|error| input.malformed(error.to_string()))?;
        into = Some(Load::begin(conn, &begin).map_err(|why| input.malformed(why))?);
    }
}

/// A load of rows into one table.
struct Load {
    table: String,
    insert: String,
    width: usize,
    batch: String,
    pending: usize,
}

impl Load {
    fn begin(conn: &mut AnyConnection, begin: &Begin) -> Result<Self, String> {
        let table = TABLES.iter().find(|table| **table == begin.table);
        let table = table.ok_or_else(|| format!("table '{}' is not known here", begin.table))?;
        let present = columns(conn, table).map_err(|error| error.to_string())?;
        let sqlite = matches!(conn, AnyConnection::Sqlite(_));
        let mut values = Vec::new();
        for (at, name) in begin.columns.iter().enumerate() {
            let column = present.iter().find(|column| column.name == *name);
            let column = column.ok_or_else(|| format!("table {table} has no column '{name}' here"))?;
            let text = format!("(r ->> {at})");
            values.push(match column.kind.as_str() {
                "blob" => format!("unhex{text}"),
                "bytea" => format!("decode({text}, 'hex')"),
                _ if sqlite => text,
                kind => format!("{text}::{kind}"),
            });
        }
        let (names, values) = (begin.columns.join(", "), values.join(", "));
        let insert = if sqlite {
            format!("INSERT INTO {table} ({names}) SELECT {values} FROM (SELECT value AS r FROM json_each(?))")
        } else {
            // The position of an event is an identity column, which accepts explicit values only with this clause.
            format!(
                "INSERT INTO {table} ({names}) OVERRIDING SYSTEM VALUE SELECT {values} FROM jsonb_array_elements($1::jsonb) AS e (r)"
            )
        };
        Ok(Self { table: (*table).to_owned(), insert, width: begin.columns.len(), batch: String::new(), pending: 0 })
    }

    fn push(&mut self, conn: &mut AnyConnection, row: &str) -> Result<(), DumpError> {
        self.batch.push(if self.pending == 0 { '[' } else { ',' });
        self.batch.push_str(row);
        self.pending += 1;
        if self.pending == BATCH { self.flush(conn) } else { Ok(()) }
    }

    fn flush(&mut self, conn: &mut AnyConnection) -> Result<(), DumpError> {
        if self.pending > 0 {
            self.batch.push(']');
            let rows = std::mem::take(&mut self.batch);
            self.pending = 0;
            diesel::sql_query(&self.insert).bind::<Text, _>(rows).execute(conn).map_err(in_table(&self.table))?;
        }
        Ok(())
    }

    fn finish(&mut self, conn: &mut AnyConnection) -> Result<(), DumpError> {
        self.flush(conn)?;
        if let (AnyConnection::Pg(conn), "events") = (conn, self.table.as_str()) {
            conn.batch_execute(
                "SELECT setval(pg_get_serial_sequence('events', 'position'), \
                 greatest((SELECT max(position) FROM events), 1), (SELECT max(position) FROM events) IS NOT NULL)",
            )
            .map_err(in_table("events"))?;
        }
        Ok(())
    }
}
