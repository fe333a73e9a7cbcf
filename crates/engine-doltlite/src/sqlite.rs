//! Reads one table of an untrusted SQLite file.
//!
//! SQLite needs a path, so the file is spooled into the engine's temporary folder. The spooled file is removed with the
//! last value that uses it. It is opened read-only without looking for a journal, under the guard for reads: nothing in
//! its schema is trusted, views and triggers are not run, and computed columns may use bounded functions only.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use branchyard_domain::entities::{Cell, RowProblem};
use branchyard_domain::ports::{FormatError, SQLITE_TABLES_LISTED, SqliteFileRows, SqliteFileTable, SqliteFiles};
use branchyard_sqlite_lexer::{quote_name, quote_names};

use crate::cells;
use crate::connection::Connection;
use crate::engine::DoltliteEngine;
use crate::files::Temporary;
use crate::guard::{GuardMode, GuardSettings};
use crate::memory::MemoryBudget;
use crate::schema;
use crate::sql::errors;
use crate::watchdog::Watchdog;

/// The first bytes of every SQLite 3 file.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Maximum rows and bytes of a batch that the reader passes on.
const BATCH_ROWS: usize = 256;
const BATCH_BYTES: usize = 1 << 20;

/// Opens the spooled file for each of the two passes of an import.
#[derive(Debug)]
struct SqliteOpener {
    path: PathBuf,
    /// The spooled file, unless another process spooled it and removes it.
    _file: Option<Temporary>,
    guard: Arc<GuardSettings>,
    watchdog: Arc<Watchdog>,
    deadline: Instant,
}

/// A table of a spooled SQLite file.
#[derive(Debug)]
pub struct SqliteTable {
    opening: Arc<SqliteOpener>,
    name: String,
    columns: Vec<String>,
    primary_key: Vec<String>,
}

impl DoltliteEngine {
    /// Spools a SQLite 3 file, checks its integrity, and finds the table with the name `table`, or the only table of
    /// the file. All work with the result ends after `timeout`.
    ///
    /// # Errors
    /// [`FormatError::File`] if the file is not a SQLite 3 file or is damaged; [`FormatError::Io`] if it cannot be read
    /// or spooled.
    pub fn open_sqlite(&self, file: &mut dyn Read, table: &str, timeout: Duration) -> Result<SqliteTable, FormatError> {
        let temporary = self.files.temporary();
        spool(file, temporary.path())?;
        self.open_spooled(temporary.path().to_owned(), Some(temporary), table, timeout)
    }

    /// Spools a SQLite 3 file, and returns the names of its tables.
    ///
    /// # Errors
    /// As [`Self::open_sqlite`].
    pub fn sqlite_tables(&self, file: &mut dyn Read, timeout: Duration) -> Result<Vec<String>, FormatError> {
        let temporary = self.files.temporary();
        spool(file, temporary.path())?;
        self.tables_of_spooled(temporary.path().to_owned(), timeout)
    }

    /// Returns the names of the tables in a SQLite 3 file that was spooled to `path`.
    pub(crate) fn tables_of_spooled(&self, path: PathBuf, timeout: Duration) -> Result<Vec<String>, FormatError> {
        let opening = self.opener(path, None, timeout);
        let connection = opening.open()?;
        let found = opening.within(&connection, |memory| {
            memory.spend(|| tables(&connection, &format!("ORDER BY name LIMIT {SQLITE_TABLES_LISTED}")))
        });
        found.map_err(|error| opening.told(&error))
    }

    fn opener(&self, path: PathBuf, file: Option<Temporary>, timeout: Duration) -> SqliteOpener {
        SqliteOpener {
            path,
            _file: file,
            guard: Arc::clone(self.guard()),
            watchdog: Arc::clone(&self.watchdog),
            deadline: Instant::now() + timeout,
        }
    }

    /// Opens a SQLite 3 file that was spooled to `path`.
    pub(crate) fn open_spooled(
        &self,
        path: PathBuf,
        file: Option<Temporary>,
        table: &str,
        timeout: Duration,
    ) -> Result<SqliteTable, FormatError> {
        let opening = Arc::new(self.opener(path, file, timeout));
        let connection = opening.open()?;
        let found = opening.within(&connection, |memory| memory.spend(|| look(&connection, table)));
        let (name, columns) = found.map_err(|error| opening.told(&error))?.map_err(FormatError::File)?;
        let primary_key = schema::key_names(&columns);
        let columns = columns.into_iter().map(|(column, _)| column.name).collect();
        Ok(SqliteTable { opening, name, columns, primary_key })
    }
}

impl SqliteFiles for DoltliteEngine {
    fn sqlite_tables(&self, file: &mut dyn Read, timeout: Duration) -> Result<Vec<String>, FormatError> {
        self.sqlite_tables(file, timeout)
    }

    fn open_sqlite(
        &self,
        file: &mut dyn Read,
        table: &str,
        timeout: Duration,
    ) -> Result<Box<dyn SqliteFileTable>, FormatError> {
        Ok(Box::new(self.open_sqlite(file, table, timeout)?))
    }
}

impl SqliteFileTable for SqliteTable {
    fn columns(&self) -> &[String] {
        self.columns()
    }

    fn primary_key(&self) -> &[String] {
        self.primary_key()
    }

    fn rows(&self) -> Result<Box<dyn SqliteFileRows>, FormatError> {
        Ok(Box::new(self.rows()?))
    }
}

impl SqliteFileRows for SqliteRows {
    fn next_row(&mut self) -> Result<Option<Vec<Cell>>, FormatError> {
        self.next_row()
    }
}

/// Copies the bytes of a SQLite 3 file to a new file.
///
/// # Errors
/// [`FormatError::File`] if it is not such a file; [`FormatError::Io`] if it cannot be read or written.
pub fn spool(file: &mut dyn Read, path: &Path) -> Result<(), FormatError> {
    let mut magic = Vec::new();
    file.take(MAGIC.len() as u64).read_to_end(&mut magic).map_err(FormatError::Io)?;
    if magic != MAGIC {
        return Err(FormatError::File("not a SQLite 3 database file".to_owned()));
    }
    let mut keep = || -> io::Result<()> {
        let mut kept = OpenOptions::new().write(true).create_new(true).open(path)?;
        kept.write_all(&magic)?;
        io::copy(file, &mut kept)?;
        kept.flush()
    };
    keep().map_err(FormatError::Io)
}

/// The table and its columns, or a description of what is wrong with the file.
type Inspected = Result<(String, Vec<(branchyard_domain::entities::TableColumn, u32)>), String>;

/// Returns the names of the tables of a file. `order` follows the statement.
fn tables(connection: &Connection, order: &str) -> rusqlite::Result<Vec<String>> {
    let sql = format!(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' {order}"
    );
    connection.raw().prepare(&sql)?.query_map([], |row| row.get(0))?.collect()
}

fn look(connection: &Connection, wanted: &str) -> rusqlite::Result<Inspected> {
    let tables = tables(connection, "")?;
    let named = tables.iter().find(|name| name.eq_ignore_ascii_case(wanted));
    let Some(table) = named.or(if tables.len() == 1 { tables.first() } else { None }) else {
        let count = tables.len();
        return Ok(Err(format!("the file has no table '{wanted}', and {count} other tables instead of one")));
    };
    // A check of the whole file would run the modules of virtual tables on untrusted content.
    let virtual_tables: bool = connection.raw().query_row(
        "SELECT count(*) > 0 FROM sqlite_schema WHERE sql LIKE 'CREATE VIRTUAL%'",
        [],
        |row| row.get(0),
    )?;
    let what = if virtual_tables { quote_name(table) } else { "1".to_owned() };
    let found: String = connection.raw().query_row(&format!("PRAGMA integrity_check({what})"), [], |row| row.get(0))?;
    if found != "ok" {
        return Ok(Err(format!("the SQLite file is damaged: {found}")));
    }
    Ok(Ok((table.clone(), schema::columns(connection, table)?)))
}

impl SqliteOpener {
    fn open(&self) -> Result<Connection, FormatError> {
        Connection::open_sqlite(&self.path, &self.guard).map_err(|error| self.told(&error))
    }

    /// Runs `work` under the deadline, with the memory budget of a statement.
    fn within<T>(
        &self,
        connection: &Connection,
        work: impl FnOnce(&MemoryBudget) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let timed = connection.limit_time(&self.watchdog, left)?;
        work(timed.memory())
    }

    /// Reads all rows in batches.
    fn read(
        &self,
        connection: &Connection,
        sql: &str,
        width: usize,
        sink: &mut BatchSink<'_>,
    ) -> Result<(), FormatError> {
        let mut number = 0;
        let sent = self.within(connection, |memory| send(connection, sql, width, memory, sink, &mut number));
        sent.map_err(|error| match self.told(&error) {
            FormatError::File(detail) => FormatError::Rows(vec![RowProblem { line: number + 1, column: None, detail }]),
            other => other,
        })
    }

    fn told(&self, error: &rusqlite::Error) -> FormatError {
        if Instant::now() >= self.deadline {
            return FormatError::Io(io::ErrorKind::TimedOut.into());
        }
        FormatError::File(format!("the SQLite file cannot be read: {}", errors::parts(error).1))
    }
}

impl SqliteTable {
    /// Returns the column names, in the order of the table.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Returns the names of the key columns, in key order.
    pub fn primary_key(&self) -> &[String] {
        &self.primary_key
    }

    /// Reads the table from its first row, on the thread of the caller. `sink` returns `false` if it needs no more
    /// rows.
    ///
    /// # Errors
    /// [`FormatError`] if the file cannot be opened again or read.
    pub fn read_batches(&self, sink: &mut BatchSink<'_>) -> Result<(), FormatError> {
        let connection = self.opening.open()?;
        self.opening.read(&connection, &self.statement(), self.columns.len(), sink)
    }

    fn statement(&self) -> String {
        let columns = quote_names(self.columns.iter().map(String::as_str));
        format!("SELECT {columns} FROM {}", quote_name(&self.name))
    }

    /// Reads the table from its first row.
    ///
    /// # Errors
    /// [`FormatError`] if the file cannot be opened again.
    pub fn rows(&self) -> Result<SqliteRows, FormatError> {
        let connection = self.opening.open()?;
        let sql = self.statement();
        let (opening, width) = (Arc::clone(&self.opening), self.columns.len());
        // Rows borrow their statement, and the statement its connection. On the stack of a thread of their own, they
        // need no self-referential struct.
        SqliteRows::read_ahead(move |sink| opening.read(&connection, &sql, width, sink))
    }
}

/// Rows of a table.
pub type CellBatch = Vec<Vec<Cell>>;

/// Receives batches of rows. Returns `false` if it needs no more.
pub type BatchSink<'a> = dyn FnMut(CellBatch) -> bool + 'a;

fn send(
    connection: &Connection,
    sql: &str,
    width: usize,
    memory: &MemoryBudget,
    sink: &mut BatchSink<'_>,
    number: &mut u64,
) -> rusqlite::Result<()> {
    let _entered = connection.enter(GuardMode::Reader);
    let mut statement = memory.spend(|| connection.raw().prepare(sql))?;
    let mut rows = statement.raw_query();
    let (mut batch, mut bytes) = (CellBatch::new(), 0);
    while let Some(row) = memory.spend(|| rows.next())? {
        let mut cells = Vec::with_capacity(width);
        for at in 0..width {
            let cell = cells::cell(row.get_ref(at)?);
            bytes += if let Cell::Text(value) | Cell::Blob(value) = &cell { value.len() } else { 0 };
            cells.push(cell);
        }
        *number += 1;
        batch.push(cells);
        if batch.len() >= BATCH_ROWS || bytes >= BATCH_BYTES {
            bytes = 0;
            if !sink(std::mem::take(&mut batch)) {
                return Ok(());
            }
        }
    }
    sink(batch);
    Ok(())
}

/// The rows of a table, read ahead by a thread that ends when this value is dropped.
#[derive(Debug)]
pub struct SqliteRows {
    receiver: Option<Receiver<Result<CellBatch, FormatError>>>,
    batch: std::vec::IntoIter<Vec<Cell>>,
    reader: Option<JoinHandle<()>>,
}

impl SqliteRows {
    /// Runs `read`, which passes batches of rows to its argument, on a thread of its own.
    ///
    /// # Errors
    /// [`FormatError::Io`] if no thread can be started.
    pub fn read_ahead(
        read: impl FnOnce(&mut BatchSink<'_>) -> Result<(), FormatError> + Send + 'static,
    ) -> Result<Self, FormatError> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let reader = std::thread::Builder::new().name("sqlite-import".into()).stack_size(2 << 20).spawn(move || {
            if let Err(error) = read(&mut |batch| sender.send(Ok(batch)).is_ok()) {
                // Sending fails if the receiver was dropped before the last row; the error is not needed then.
                let _ = sender.send(Err(error));
            }
        });
        let reader = reader.map_err(FormatError::Io)?;
        Ok(Self { receiver: Some(receiver), batch: Vec::new().into_iter(), reader: Some(reader) })
    }

    /// Returns the next row, in the order of the columns, or `None` after the last.
    ///
    /// # Errors
    /// [`FormatError`]; no row follows an error.
    pub fn next_row(&mut self) -> Result<Option<Vec<Cell>>, FormatError> {
        loop {
            if let Some(row) = self.batch.next() {
                return Ok(Some(row));
            }
            let Some(receiver) = &self.receiver else { return Ok(None) };
            match receiver.recv() {
                Ok(Ok(batch)) => self.batch = batch.into_iter(),
                Ok(Err(error)) => {
                    self.receiver = None;
                    return Err(error);
                }
                Err(mpsc::RecvError) => {
                    self.receiver = None;
                    let reader = self.reader.take().map(JoinHandle::join);
                    if let Some(Err(_)) = reader {
                        return Err(FormatError::Io(io::Error::other("the reader of a SQLite file panicked")));
                    }
                }
            }
        }
    }
}

impl Drop for SqliteRows {
    fn drop(&mut self) {
        // Dropping the receiver ends the reader.
        self.receiver = None;
        if let Some(reader) = self.reader.take() {
            // A panic of the thread was reported when it happened.
            drop(reader.join());
        }
    }
}
