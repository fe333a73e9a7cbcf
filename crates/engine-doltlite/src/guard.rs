//! The guard that confines untrusted SQL to its database: an allow-list, run-time limits and bounded replacements of
//! some functions.

mod authorizer;
mod float_format;
mod functions;
mod generate_series;
mod history;
mod json_patch;
mod limits;
mod lists;
mod patterns;
mod session;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use branchyard_domain::ports::SqlPower;
use parking_lot::Mutex;
use rusqlite::hooks::AuthContext;

pub(crate) use self::history::{no_such_commit, wrap};
pub use self::limits::MAX_LENGTH;
pub(crate) use self::limits::MAX_SQL;
use crate::reach::Scope;

/// The kind of statements that a connection currently runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GuardMode {
    /// Internal statements. Everything is allowed.
    Trusted,
    /// User statements that may read.
    Reader,
    /// User statements that may change rows and definitions.
    Writer,
    /// Statements of a deployment's client. `defines` is set if the statement creates, alters or drops definitions.
    Session { power: SqlPower, defines: bool },
}

/// The reason why the guard refused a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GuardRefusal {
    /// The statement changes something and may not.
    Write,
    /// The statement is never allowed.
    Never,
    /// The statement asks for data that only the API provides; the engine's answer would be wrong.
    Elsewhere(String),
    /// The statement needs a wrapper that is not installed yet.
    Unwrapped,
}

/// What the guard observed while a statement was prepared.
#[derive(Debug, Clone, Default)]
pub(crate) struct StatementEffects {
    /// The first refusal, if any.
    pub refusal: Option<GuardRefusal>,
    /// Whether the statement used a function whose result may differ from run to run.
    pub volatile: bool,
    /// Whether the statement used a version control command. Such a command changes something even in a `SELECT`.
    pub commands: bool,
    /// Whether the command may leave the session on another branch.
    pub leaves_branch: bool,
    /// Whether the command collects garbage.
    pub collects: bool,
    /// Whether the statement drops a table, an index, a view or a trigger.
    pub drops: bool,
    /// The views through which the statement reads tables that take their columns from a commit, in lower case.
    pub views: BTreeSet<String>,
    /// Whether the statement asks for the columns of a table or view, which may be any view.
    pub asks_columns: bool,
    /// Whether the statement changes the session itself: a setting or a temporary object.
    pub changes_session: bool,
    /// Whether the statement reads a setting, or changes a setting of the session. Neither changes the file.
    pub asks_pragma: bool,
    /// Whether the result contains names of files.
    pub lists_files: bool,
    /// Whether the statement inserts rows.
    pub inserts: bool,
    /// Whether the statement reads commits other than the one it runs at.
    pub history: bool,
}

struct GuardState {
    mode: GuardMode,
    seen: StatementEffects,
    /// The names that have wrappers. All other names that take commits need one before they are used. `None` if no
    /// wrappers are needed.
    wrapped: Option<HashSet<String>>,
    /// Names whose wrappers were requested.
    wanted: BTreeSet<String>,
}

/// The guard of one connection.
#[derive(Clone)]
pub(crate) struct Guard {
    state: Arc<Mutex<GuardState>>,
}

/// The settings of all guards of an engine.
#[derive(Debug)]
pub(crate) struct GuardSettings {
    /// Names of all virtual table modules of the engine, in lower case.
    pub(crate) modules: HashSet<String>,
    /// Maximum length of a `LIKE` or `GLOB` pattern of a user statement, in bytes.
    pub(crate) pattern_bytes: i32,
    /// Whether functions that cannot be interrupted are replaced by bounded ones.
    pub(crate) bounded_functions: bool,
}

impl Guard {
    /// Installs the limits, the replaced functions and the authorizer.
    pub(crate) fn install(connection: &rusqlite::Connection, settings: Arc<GuardSettings>) -> rusqlite::Result<Self> {
        limits::apply(connection, settings.pattern_bytes)?;
        Self::watch(connection, settings)
    }

    /// Works like [`Self::install`] for sessions of deployment clients, which have wider limits.
    pub(crate) fn install_for_session(
        connection: &rusqlite::Connection,
        settings: Arc<GuardSettings>,
    ) -> rusqlite::Result<Self> {
        limits::apply_for_session(connection)?;
        functions::refuse_config(connection)?;
        generate_series::add(connection)?;
        Self::watch(connection, settings)
    }

    fn watch(connection: &rusqlite::Connection, settings: Arc<GuardSettings>) -> rusqlite::Result<Self> {
        if settings.bounded_functions {
            functions::replace_unbounded(connection)?;
        }
        let state = Arc::new(Mutex::new(GuardState {
            mode: GuardMode::Trusted,
            seen: StatementEffects::default(),
            wrapped: None,
            wanted: BTreeSet::new(),
        }));
        let shared = Arc::clone(&state);
        connection.authorizer(Some(move |context: AuthContext<'_>| {
            let mut state = shared.lock();
            let GuardState { mode, seen, wrapped, wanted } = &mut *state;
            authorizer::decide(*mode, seen, wrapped.as_ref(), wanted, &settings.modules, &context)
        }))?;
        Ok(Self { state })
    }

    /// Switches to `mode` until the result is dropped, which switches back to [`GuardMode::Trusted`]. With a scope, the
    /// statements may name only the commits of that scope.
    #[must_use]
    pub(crate) fn enter(&self, mode: GuardMode, scope: Option<Arc<Scope>>) -> Entered<'_> {
        let mut state = self.state.lock();
        state.mode = mode;
        state.seen = StatementEffects::default();
        state.wanted.clear();
        if state.wrapped.as_ref().is_none_or(HashSet::is_empty) {
            state.wrapped = scope.is_some().then(HashSet::new);
        }
        drop(state);
        Entered { guard: self, _in_scope: history::enter(scope) }
    }

    /// Takes the names to wrap before the last statement is prepared again.
    pub(crate) fn take_wanted(&self) -> BTreeSet<String> {
        let mut state = self.state.lock();
        let wanted = std::mem::take(&mut state.wanted);
        if !wanted.is_empty() {
            state.seen = StatementEffects::default();
        }
        wanted
    }

    /// Allows a name, which now stands for a wrapper.
    pub(crate) fn wrapped(&self, name: String) {
        self.state.lock().wrapped.get_or_insert_default().insert(name);
    }

    /// Returns the views through which the last prepared statement reads tables of commits, in lower case. Returns
    /// `None` if it may read any view.
    pub(crate) fn views(&self) -> Option<BTreeSet<String>> {
        let state = self.state.lock();
        (!state.seen.asks_columns).then(|| state.seen.views.clone())
    }

    /// Runs an internal statement in the middle of a user statement.
    pub(crate) fn trusted<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = std::mem::replace(&mut self.state.lock().mode, GuardMode::Trusted);
        let result = work();
        self.state.lock().mode = before;
        result
    }

    /// Returns `true` if anything was wrapped.
    pub(crate) fn is_wrapped(&self) -> bool {
        self.state.lock().wrapped.as_ref().is_some_and(|names| !names.is_empty())
    }

    /// Takes the effects observed so far.
    pub(crate) fn take_seen(&self) -> StatementEffects {
        std::mem::take(&mut self.state.lock().seen)
    }
}

/// A guard in a mode, until dropped; see [`Guard::enter`].
pub(crate) struct Entered<'a> {
    guard: &'a Guard,
    _in_scope: history::InScope,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.guard.state.lock().mode = GuardMode::Trusted;
    }
}
