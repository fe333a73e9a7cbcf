//! What is known about a commit: the values that every read at it must return.

use std::fmt::{self, Display};
use std::time::Duration;

use branchyard_domain::entities::Signature;
use branchyard_domain::ports::{Engine, EngineError};
use branchyard_domain::values::{CommitHash, DatabaseId, Timestamp};
use branchyard_engine_doltlite::DoltliteEngine;

/// Time limit that no statement of these tests reaches.
pub(crate) const LONG: Duration = Duration::from_secs(600);

/// The table that is checked row by row, and a table of large values.
pub(crate) const TABLES: &str =
    "CREATE TABLE small (id INTEGER PRIMARY KEY, value INTEGER); CREATE TABLE large (id INTEGER PRIMARY KEY, pad BLOB)";

/// A commit and the values at it.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) hash: CommitHash,
    /// First parent first.
    pub(crate) parents: Vec<CommitHash>,
    /// Whether the commit is on the main line: every such commit descends from all earlier ones.
    pub(crate) main: bool,
    /// Number of rows in `small`, and the sum of their values.
    pub(crate) count: i64,
    pub(crate) sum: i64,
    /// A row of `small`.
    pub(crate) row: (i64, i64),
    /// The smallest id in `large`.
    pub(crate) large: i64,
    /// The table that differs from the first parent.
    pub(crate) changed: String,
}

impl Known {
    /// Reads a commit from the text that [`Display`] writes.
    pub(crate) fn parse(line: &str) -> Self {
        let fields: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| fields[at].parse::<i64>().unwrap();
        let hash = |text: &str| CommitHash::parse(text).unwrap();
        Self {
            hash: hash(fields[0]),
            parents: fields[1].split(',').map(hash).collect(),
            main: fields[2] == "main",
            count: number(3),
            sum: number(4),
            row: (number(5), number(6)),
            large: number(7),
            changed: fields[8].to_owned(),
        }
    }
}

impl Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parents: Vec<&str> = self.parents.iter().map(CommitHash::as_str).collect();
        let line = if self.main { "main" } else { "side" };
        let (row, value) = self.row;
        write!(
            f,
            "{} {} {line} {} {} {row} {value} {} {}",
            self.hash.as_str(),
            parents.join(","),
            self.count,
            self.sum,
            self.large,
            self.changed
        )
    }
}

pub(crate) fn id(n: u8) -> DatabaseId {
    DatabaseId::parse(&format!("0199c3a7-1111-7222-8333-4444555566{n:02x}")).unwrap()
}

pub(crate) fn ada() -> Signature {
    Signature { name: "Ada".into(), email: "ada@example.test".into(), at: Timestamp::from_seconds(1_788_523_200) }
}

/// Creates database 1 with the tables, and returns its commit.
pub(crate) fn create(engine: &DoltliteEngine) -> Result<Known, EngineError> {
    let root = engine.create(id(1), &ada(), "Create database")?;
    let sql = format!("{TABLES}; INSERT INTO small VALUES (0, 7)");
    let hash = crate::writer::write(engine, &root, &sql)?;
    Ok(Known {
        hash,
        parents: vec![root],
        main: true,
        count: 1,
        sum: 7,
        row: (0, 7),
        large: -1,
        changed: "small".into(),
    })
}
