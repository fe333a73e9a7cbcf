//! Keeps SQL of strangers inside its database: an allow-list, run-time limits and bounded replacements of some functions.

mod authorizer;
mod float_format;
mod functions;
mod history;
mod json_patch;
mod limits;
mod lists;
mod patterns;
mod session;

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use branchyard_domain::ports::SqlPower;
use rusqlite::hooks::AuthContext;

pub(crate) use self::history::{no_such_commit, wrap};
pub(crate) use self::limits::{MAX_LENGTH, MAX_SQL};
use crate::reach::Scope;

/// Whose statements a connection runs at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GuardMode {
    /// Ours: everything goes.
    Trusted,
    /// A stranger's, who may read.
    Reader,
    /// A stranger's, who may change rows and definitions.
    Writer,
    /// A client's of a deployment. `defines`: the statement is one about definitions.
    Session { power: SqlPower, defines: bool },
}

/// Why a statement was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GuardRefusal {
    /// It changes something and may not.
    Write,
    /// It is never allowed.
    Never,
    /// It asks for what the API answers and the engine would answer wrongly.
    Elsewhere(String),
    /// Only through a wrapper of ours that is not there yet.
    Unwrapped,
}

/// What the guard saw while a statement was prepared.
#[derive(Debug, Clone, Default)]
pub(crate) struct StatementEffects {
    /// The first refusal.
    pub refusal: Option<GuardRefusal>,
    /// Whether something was used whose result changes from run to run.
    pub volatile: bool,
    /// Whether a version control command was used: it changes something, also in a `SELECT`.
    pub commands: bool,
    /// Whether that may leave the session on another branch.
    pub leaves_branch: bool,
    /// Whether it collects garbage.
    pub collects: bool,
    /// Whether it drops a table, an index, a view or a trigger.
    pub drops: bool,
    /// The views through which it reads tables whose columns are those of a commit, in lower case.
    pub views: BTreeSet<String>,
    /// Whether it asks for the columns of what may be any view.
    pub asks_columns: bool,
    /// Whether something of the session itself changes: a setting, a temporary object.
    pub changes_session: bool,
    /// Whether a setting was asked for, or one of the session set: the file stays as it is.
    pub asks_pragma: bool,
    /// Whether the result names files.
    pub lists_files: bool,
    /// Whether rows are inserted.
    pub inserts: bool,
    /// Whether other commits than the one it runs at are looked at.
    pub history: bool,
}

struct GuardState {
    mode: GuardMode,
    seen: StatementEffects,
    /// Names that may be used only through wrappers, of which these are there; `None` if none is needed.
    wrapped: Option<HashSet<String>>,
    /// Wrappers that were asked for.
    wanted: BTreeSet<String>,
}

/// The guard of one connection.
#[derive(Clone)]
pub(crate) struct Guard {
    state: Arc<Mutex<GuardState>>,
}

impl Guard {
    /// Sets limits, functions and the authorizer. `modules` are the names of all virtual table modules of the engine.
    pub(crate) fn install(connection: &rusqlite::Connection, modules: Arc<HashSet<String>>) -> rusqlite::Result<Self> {
        limits::apply(connection)?;
        Self::watch(connection, modules)
    }

    /// The same for sessions of a deployment's clients, which have wider limits.
    pub(crate) fn install_for_session(
        connection: &rusqlite::Connection,
        modules: Arc<HashSet<String>>,
    ) -> rusqlite::Result<Self> {
        limits::apply_for_session(connection)?;
        functions::refuse_config(connection)?;
        Self::watch(connection, modules)
    }

    fn watch(connection: &rusqlite::Connection, modules: Arc<HashSet<String>>) -> rusqlite::Result<Self> {
        functions::replace_unbounded(connection)?;
        let state = Arc::new(Mutex::new(GuardState {
            mode: GuardMode::Trusted,
            seen: StatementEffects::default(),
            wrapped: None,
            wanted: BTreeSet::new(),
        }));
        let shared = Arc::clone(&state);
        connection.authorizer(Some(move |context: AuthContext<'_>| {
            let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
            let GuardState { mode, seen, wrapped, wanted } = &mut *state;
            authorizer::decide(*mode, seen, wrapped.as_ref(), wanted, &modules, &context)
        }))?;
        Ok(Self { state })
    }

    /// Switches to `mode` until the result is dropped, when the statements are ours again. With a scope, they name no commits but those of it.
    #[must_use]
    pub(crate) fn enter(&self, mode: GuardMode, scope: Option<Arc<Scope>>) -> Entered<'_> {
        let mut state = self.lock();
        state.mode = mode;
        state.seen = StatementEffects::default();
        state.wanted.clear();
        if state.wrapped.as_ref().is_none_or(HashSet::is_empty) {
            state.wrapped = scope.is_some().then(HashSet::new);
        }
        drop(state);
        Entered { guard: self, _in_scope: history::enter(scope) }
    }

    /// The names to be wrapped before what was prepared last is prepared again; they are asked for once.
    pub(crate) fn take_wanted(&self) -> BTreeSet<String> {
        let mut state = self.lock();
        let wanted = std::mem::take(&mut state.wanted);
        if !wanted.is_empty() {
            state.seen = StatementEffects::default();
        }
        wanted
    }

    /// Allows a name: it stands for a wrapper now.
    pub(crate) fn wrapped(&self, name: String) {
        self.lock().wrapped.get_or_insert_default().insert(name);
    }

    /// The views through which what was prepared last reads tables of commits, in lower case; `None` if they may be any.
    pub(crate) fn views(&self) -> Option<BTreeSet<String>> {
        let state = self.lock();
        (!state.seen.asks_columns).then(|| state.seen.views.clone())
    }

    /// Runs a statement of ours amid a user's.
    pub(crate) fn trusted<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = std::mem::replace(&mut self.lock().mode, GuardMode::Trusted);
        let result = work();
        self.lock().mode = before;
        result
    }

    /// Whether anything was wrapped.
    pub(crate) fn is_wrapped(&self) -> bool {
        self.lock().wrapped.as_ref().is_some_and(|names| !names.is_empty())
    }

    /// Forgets what was seen, and gives it.
    pub(crate) fn take_seen(&self) -> StatementEffects {
        std::mem::take(&mut self.lock().seen)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, GuardState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See [`Guard::enter`].
pub(crate) struct Entered<'a> {
    guard: &'a Guard,
    _in_scope: history::InScope,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.guard.lock().mode = GuardMode::Trusted;
    }
}
