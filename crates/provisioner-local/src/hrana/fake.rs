//! In-memory sessions with a language of their own: each statement is one word that determines its outcome.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use branchyard_domain::entities::Signature;
use branchyard_domain::ports::{
    Arguments, BranchHead, Column, EngineError, RowSink, SessionEngine, SessionError, SessionRequest, SqlSession,
    StatementBounds, StatementDescription, StatementReport, ValueRef,
};
use branchyard_domain::values::{CommitHash, DatabaseId};
use branchyard_sqlite_lexer::skip_to_statement;

/// The statements are: `one` returns a row, `big` a long row, `write` writes, `shrink` frees space, `fail` fails,
/// `begin`, `commit` and `rollback` have their usual meaning, and `temp` changes the session state.
#[derive(Default)]
pub(crate) struct FakeEngine {
    /// Number of committed rows.
    pub(crate) written: Arc<AtomicU64>,
}

struct FakeSession {
    written: Arc<AtomicU64>,
    /// Number of rows of the open transaction.
    open: Option<u64>,
    is_clean: bool,
}

impl SqlSession for FakeSession {
    fn run(
        &mut self,
        sql: &str,
        _: &Arguments,
        bounds: &StatementBounds,
        sink: &mut dyn RowSink,
    ) -> Result<StatementReport, SessionError> {
        let column = |name: &str| Column {
            name: name.into(),
            declared_type: None,
            is_primary_key: false,
            source_table: String::new(),
        };
        let long = "x".repeat(1000);
        let word = skip_to_statement(sql).trim_end_matches(';').to_ascii_lowercase();
        match word.as_str() {
            word @ ("one" | "big") => {
                if sink.columns(&[column(word)]).is_continue() {
                    _ = sink.row(&[ValueRef::Text(if word == "one" { b"1" } else { long.as_bytes() })]);
                }
            }
            "write" | "shrink" if !bounds.has_turn => {
                return Err(SessionError::NeedsTurn { frees_space: word == "shrink" });
            }
            "shrink" => return Ok(StatementReport { wrote: true, ..StatementReport::default() }),
            "write" => {
                match &mut self.open {
                    Some(rows) => *rows += 1,
                    None => {
                        self.written.fetch_add(1, Ordering::Relaxed);
                    }
                }
                return Ok(StatementReport { rows_affected: 1, wrote: true, ..StatementReport::default() });
            }
            "begin" => self.open = Some(0),
            "commit" => {
                self.written.fetch_add(self.open.take().unwrap_or(0), Ordering::Relaxed);
            }
            "rollback" => self.open = None,
            "temp" => self.is_clean = false,
            other => {
                return Err(SessionError::Statement { code: "ERROR", message: format!("no such word: {other}") });
            }
        }
        Ok(StatementReport::default())
    }

    fn step(&mut self, sql: &str, bounds: &StatementBounds) -> Result<(usize, StatementReport), SessionError> {
        struct DiscardAnswer;
        impl RowSink for DiscardAnswer {
            fn columns(&mut self, _: &[Column]) -> ControlFlow<()> {
                ControlFlow::Continue(())
            }
            fn row(&mut self, _: &[ValueRef<'_>]) -> ControlFlow<()> {
                ControlFlow::Continue(())
            }
        }
        let length = sql.find(';').map_or(sql.len(), |at| at + 1);
        self.run(&sql[..length], &Arguments::None, bounds, &mut DiscardAnswer).map(|report| (length, report))
    }

    fn describe(&mut self, sql: &str) -> Result<StatementDescription, SessionError> {
        let is_readonly = sql != "write";
        Ok(StatementDescription { parameters: Vec::new(), columns: Vec::new(), is_explain: false, is_readonly })
    }

    fn is_autocommit(&self) -> bool {
        self.open.is_none()
    }

    fn is_clean(&self) -> bool {
        self.open.is_none() && self.is_clean
    }

    fn roll_back(&mut self) -> Result<(), SessionError> {
        self.open = None;
        Ok(())
    }
}

fn not_offered() -> EngineError {
    EngineError::Unavailable("the fake has sessions only".into())
}

impl SessionEngine for FakeEngine {
    fn create_served(&self, _: DatabaseId, _: &Signature, _: &str) -> Result<(), EngineError> {
        Err(not_offered())
    }

    fn seed(&self, _: DatabaseId, _: &Path, _: &str, _: &CommitHash) -> Result<(), EngineError> {
        Err(not_offered())
    }

    fn put_back(&self, _: DatabaseId, _: &Path) -> Result<(), EngineError> {
        Err(not_offered())
    }

    fn copy_out(&self, _: DatabaseId, _: &Path) -> Result<u64, EngineError> {
        Err(not_offered())
    }

    fn session(&self, request: &SessionRequest) -> Result<Box<dyn SqlSession>, SessionError> {
        match request.branch.as_deref() {
            None | Some("main") => {
                Ok(Box::new(FakeSession { written: Arc::clone(&self.written), open: None, is_clean: true }))
            }
            Some(other) => Err(SessionError::NoSuchBranch(other.to_owned())),
        }
    }

    fn heads(&self, _: DatabaseId) -> Result<Vec<BranchHead>, EngineError> {
        Err(not_offered())
    }

    fn check(&self, _: DatabaseId) -> Result<Vec<String>, EngineError> {
        Err(not_offered())
    }

    fn served_size_bytes(&self, _: DatabaseId) -> Result<u64, EngineError> {
        Err(not_offered())
    }

    fn drop_served(&self, _: DatabaseId) -> Result<(), EngineError> {
        Err(not_offered())
    }

    fn collect_garbage(&self, _: DatabaseId) -> Result<(), EngineError> {
        Err(not_offered())
    }

    fn version(&self) -> String {
        "0.0.0".into()
    }
}
