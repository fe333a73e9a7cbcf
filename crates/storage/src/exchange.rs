//! Notifications between the servers on one Postgres, and the difference between its clock and the clock of this machine.
//!
//! Both have a connection and a thread of their own. No transaction notifies: `NOTIFY` in a transaction takes a lock on the whole server
//! when it commits, so that all commits of all databases would wait for each other.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection as _;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};
use parking_lot::{Condvar, Mutex};

use crate::connection::{AnyConnection, StoreTarget};
use crate::error::OpenError;
use crate::postgres::{PostgresConnector, PostgresError};
use crate::store::Store;

/// The shortest time between two notifications of a server.
const BATCH: Duration = Duration::from_millis(5);
/// How often received notifications are looked for.
const LOOK: Duration = Duration::from_millis(10);
/// How often the clocks are compared. Also shows that the connection works.
const COMPARE: Duration = Duration::from_secs(10);
/// The pause before a new connection after one was lost.
const RECONNECT: Duration = Duration::from_secs(1);
/// Maximum length of the text of a notification in bytes. Postgres accepts 7,999.
const LONGEST: usize = 7_900;
/// Maximum number of messages that wait. Beyond it, they are replaced by [`ExchangeEvent::Missed`] for all others.
const MOST_WAITING: usize = 1_000;
const CHANNEL: &str = "branchyard";
/// What others receive instead of messages that were too many.
const TOO_MANY: &str = "*";

/// What an [`Exchange`] reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExchangeEvent {
    /// Another server sent this.
    Received(String),
    /// Messages may have been lost: a connection was opened, also the first one, or there were too many.
    Missed,
    /// The clock of Postgres was read.
    Clock {
        /// The time of Postgres in microseconds since the Unix epoch.
        micros: i64,
        /// When it was so, as exactly as half the round trip allows.
        at: Instant,
    },
}

struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    messages: BTreeSet<String>,
    too_many: bool,
    stopped: bool,
}

/// A connection to Postgres that carries notifications. Dropping it closes the connection.
pub struct Exchange {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Exchange {
    /// Starts an exchange, unless the store is on SQLite, which no other server uses. Without `notifies`, it only compares the clocks.
    /// `report` is called on the thread of the exchange.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(
        store: &Store,
        notifies: bool,
        report: impl FnMut(ExchangeEvent) + Send + 'static,
    ) -> std::io::Result<Option<Self>> {
        let StoreTarget::Postgres(connector) = &store.target else { return Ok(None) };
        let shared = Arc::new(Shared { waiting: Mutex::default(), changed: Condvar::new() });
        let line = Line { connector: connector.clone(), notifies, shared: Arc::clone(&shared), own: 0 };
        let thread = std::thread::Builder::new().name("metadata-exchange".to_owned()).spawn(|| line.run(report))?;
        Ok(Some(Self { shared, thread: Some(thread) }))
    }

    /// Returns what sends a message to the other servers. Messages that are equal may be sent as one.
    pub fn sender(&self) -> ExchangeSender {
        ExchangeSender(Arc::clone(&self.shared))
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.shared.waiting.lock().stopped = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sends messages to the other servers.
#[derive(Clone)]
pub struct ExchangeSender(Arc<Shared>);

impl ExchangeSender {
    /// Sends a message soon. It must not have spaces. Never blocks.
    pub fn send(&self, message: String) {
        let mut waiting = self.0.waiting.lock();
        if waiting.messages.len() < MOST_WAITING {
            waiting.messages.insert(message);
        } else {
            waiting.too_many = true;
        }
        drop(waiting);
        self.0.changed.notify_all();
    }
}

struct Line {
    connector: Arc<PostgresConnector>,
    notifies: bool,
    shared: Arc<Shared>,
    /// The process on the server that serves the connection, by which this server knows its own notifications.
    own: i32,
}

impl Line {
    fn run(mut self, mut report: impl FnMut(ExchangeEvent)) {
        let mut is_lost = false;
        while !self.shared.waiting.lock().stopped {
            let lost = self.serve(&mut report, &mut is_lost);
            if let Err(error) = lost {
                if !std::mem::replace(&mut is_lost, true) {
                    tracing::warn!(%error, "lost the connection for notifications of the metadata store; trying again each second");
                }
                let mut waiting = self.shared.waiting.lock();
                if !waiting.stopped {
                    self.shared.changed.wait_for(&mut waiting, RECONNECT);
                }
            }
        }
    }

    fn serve(&mut self, report: &mut impl FnMut(ExchangeEvent), is_lost: &mut bool) -> Result<(), ExchangeError> {
        let mut conn = self.connector.connect()?;
        conn.batch_execute("SET application_name = 'branchyard exchange'; SET statement_timeout = 5000")?;
        if self.notifies {
            conn.batch_execute(&format!("LISTEN {CHANNEL}"))?;
        }
        self.own = diesel::sql_query("SELECT pg_backend_pid() AS pid").get_result::<Pid>(&mut conn)?.pid;
        if std::mem::take(is_lost) {
            tracing::info!("the connection for notifications of the metadata store works again");
        }
        let mut compared: Option<Instant> = None;
        if self.notifies {
            report(ExchangeEvent::Missed);
        }
        loop {
            if compared.is_none_or(|at| at.elapsed() >= COMPARE) {
                report(compare(&mut conn)?);
                compared = Some(Instant::now());
            }
            let (messages, too_many) = {
                let mut waiting = self.shared.waiting.lock();
                if waiting.messages.is_empty() && !waiting.too_many && !waiting.stopped {
                    let at_most = if self.notifies { LOOK } else { RECONNECT };
                    self.shared.changed.wait_for(&mut waiting, at_most);
                }
                if waiting.stopped {
                    return Ok(());
                }
                (std::mem::take(&mut waiting.messages), std::mem::take(&mut waiting.too_many))
            };
            if !self.notifies {
                continue;
            }
            let sent = !messages.is_empty() || too_many;
            for text in texts(messages, too_many) {
                diesel::sql_query("SELECT pg_notify($1, $2)")
                    .bind::<Text, _>(CHANNEL)
                    .bind::<Text, _>(text)
                    .execute(&mut conn)?;
            }
            for notification in conn.notifications_iter() {
                let notification = notification?;
                if notification.process_id == self.own {
                    continue;
                }
                for word in notification.payload.split(' ') {
                    report(if word == TOO_MANY {
                        ExchangeEvent::Missed
                    } else {
                        ExchangeEvent::Received(word.to_owned())
                    });
                }
            }
            if sent {
                std::thread::sleep(BATCH);
            }
        }
    }
}

/// Returns the texts of the notifications for messages.
fn texts(messages: BTreeSet<String>, too_many: bool) -> Vec<String> {
    if too_many {
        return vec![TOO_MANY.to_owned()];
    }
    let mut texts: Vec<String> = Vec::new();
    for message in messages {
        match texts.last_mut().filter(|text| text.len() + message.len() < LONGEST) {
            Some(text) => {
                text.push(' ');
                text.push_str(&message);
            }
            None => texts.push(message),
        }
    }
    texts
}

#[derive(QueryableByName)]
struct Pid {
    #[diesel(sql_type = diesel::sql_types::Integer)]
    pid: i32,
}

#[derive(QueryableByName)]
struct ServerTime {
    #[diesel(sql_type = BigInt)]
    micros: i64,
}

impl Store {
    /// Returns the time of Postgres in microseconds since the Unix epoch, and the instant at which it was so. `None` on SQLite.
    ///
    /// # Errors
    /// [`OpenError::Connect`].
    pub fn server_clock(&self) -> Result<Option<(i64, Instant)>, OpenError> {
        let failed = |error: &dyn std::fmt::Display| OpenError::Connect { reason: error.to_string() };
        let mut reader = self.readers.get().map_err(|error| failed(&error))?;
        let AnyConnection::Pg(pg) = &mut reader.any else { return Ok(None) };
        read_clock(pg).map(Some).map_err(|error| failed(&error))
    }
}

fn read_clock(conn: &mut PgConnection) -> QueryResult<(i64, Instant)> {
    let before = Instant::now();
    let query = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT) AS micros";
    let ServerTime { micros } = diesel::sql_query(query).get_result(conn)?;
    Ok((micros, before + before.elapsed() / 2))
}

fn compare(conn: &mut PgConnection) -> Result<ExchangeEvent, ExchangeError> {
    let (micros, at) = read_clock(conn)?;
    Ok(ExchangeEvent::Clock { micros, at })
}

#[derive(Debug, thiserror::Error)]
enum ExchangeError {
    #[error(transparent)]
    Connect(#[from] PostgresError),
    #[error(transparent)]
    Query(#[from] diesel::result::Error),
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, TOO_MANY, texts};

    #[test]
    fn messages_are_packed_into_texts_that_fit() {
        let messages = (0..1_000).map(|n| format!("message-{n:04}")).collect();
        let texts_of = texts(messages, false);
        assert!(texts_of.len() > 1 && texts_of.iter().all(|text| text.len() <= LONGEST));
        assert_eq!(texts_of.iter().flat_map(|text| text.split(' ')).count(), 1_000);
        assert_eq!(texts(["a".to_owned()].into(), true), [TOO_MANY]);
        assert!(texts(std::collections::BTreeSet::new(), false).is_empty());
    }
}
