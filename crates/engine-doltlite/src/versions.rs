//! The versions of the engine that this process contains.

/// Versions of the engine and of the SQLite it is based on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineVersions {
    /// The version of DoltLite, without a `v`.
    pub doltlite: String,
    /// The version of SQLite.
    pub sqlite: &'static str,
}

impl EngineVersions {
    /// Asks the engine that is linked into this process.
    #[must_use]
    pub fn linked() -> Self {
        Self { doltlite: doltlite(), sqlite: rusqlite::version() }
    }
}

pub(crate) fn doltlite() -> String {
    let ask = || -> rusqlite::Result<String> {
        rusqlite::Connection::open_in_memory()?.query_row("SELECT dolt_version()", [], |row| row.get(0))
    };
    // The query fails only if the process has no engine.
    ask().unwrap_or_default().trim_start_matches('v').to_owned()
}
