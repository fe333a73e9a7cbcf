//! The engine on files that the server stages: it creates the databases of an instance, and checks copies of them.
//!
//! A file may come from a compromised instance, or hold what attacks the engine's C code. So a process of its own opens it,
//! which is confined to the file and ends afterwards: [`ProcessStaging`] is the server's side, and [`stage_files`] is what the
//! process runs. [`InProcessStaging`] does the same work in the server.

mod messages;
mod process;
mod stage_files;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use branchyard_deployments::ports::ProvisionError;
use branchyard_domain::entities::Signature;
use branchyard_domain::ports::{EngineError, SessionEngine};
use branchyard_domain::values::{CommitHash, DatabaseId, RefName};

pub use process::ProcessStaging;
pub use stage_files::stage_files;

use crate::local::unavailable;

/// A database to create.
#[derive(Debug)]
pub struct StagingTask<'a> {
    /// Folder of the engine in which the database is created. It exists, and only the server uses it.
    pub folder: &'a Path,
    /// The database.
    pub database: DatabaseId,
    /// Its content.
    pub content: StagedContent<'a>,
}

/// The content of a database to create.
#[derive(Debug)]
pub enum StagedContent<'a> {
    /// One branch `main` with one empty commit.
    Empty {
        /// Author and time of that commit.
        author: &'a Signature,
    },
    /// A commit of a hub database.
    Hub {
        /// A copy of the file of that database.
        file: &'a Path,
        /// Name of the only branch.
        branch: &'a RefName,
        /// Head of the branch.
        commit: &'a CommitHash,
    },
    /// A copy of a database, which is checked.
    Copy {
        /// The file.
        file: &'a Path,
    },
}

impl StagedContent<'_> {
    /// Returns the file that the database is created from.
    fn file(&self) -> Option<&Path> {
        match self {
            Self::Empty { .. } => None,
            Self::Hub { file, .. } | Self::Copy { file } => Some(file),
        }
    }
}

/// The branches of a database with their heads, by name.
pub type Heads = Vec<(RefName, CommitHash)>;

/// Creates databases in folders of the server.
pub trait StagingEngine: Send + Sync {
    /// Creates a database and returns its heads. When the function returns, nothing has the file open.
    ///
    /// # Errors
    /// [`ProvisionError::Refused`] if the file is damaged or lacks the commit; other [`ProvisionError`]s.
    fn create(&self, task: &StagingTask<'_>) -> Result<Heads, ProvisionError>;
}

/// Opens an engine on a folder.
pub type OpenEngine = dyn Fn(PathBuf) -> Result<Arc<dyn SessionEngine>, EngineError> + Send + Sync;

/// Creates databases in this process.
pub struct InProcessStaging {
    open_engine: Box<OpenEngine>,
}

impl std::fmt::Debug for InProcessStaging {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InProcessStaging").finish_non_exhaustive()
    }
}

impl InProcessStaging {
    /// Creates the staging engine. `open_engine` opens the engine on a folder of databases.
    #[must_use]
    pub fn new(open_engine: Box<OpenEngine>) -> Self {
        Self { open_engine }
    }
}

impl StagingEngine for InProcessStaging {
    fn create(&self, task: &StagingTask<'_>) -> Result<Heads, ProvisionError> {
        let engine = (self.open_engine)(task.folder.to_owned()).map_err(engine_error("open the engine"))?;
        create(&*engine, task)
    }
}

pub(crate) fn engine_error(context: &str) -> impl Fn(EngineError) -> ProvisionError {
    move |error| match error {
        EngineError::NoSuchCommit(_) | EngineError::Damaged(_) | EngineError::DamagedCommit { .. } => {
            ProvisionError::Refused(error.to_string())
        }
        error => unavailable(context, error),
    }
}

fn create(engine: &dyn SessionEngine, task: &StagingTask<'_>) -> Result<Heads, ProvisionError> {
    let fault = engine_error("create a database");
    let database = task.database;
    match &task.content {
        StagedContent::Empty { author } => engine.create_served(database, author, "Create database").map_err(&fault)?,
        StagedContent::Hub { file, branch, commit } => {
            engine.seed(database, file, branch.as_str(), commit).map_err(&fault)?;
        }
        StagedContent::Copy { file } => {
            engine.put_back(database, file).map_err(&fault)?;
            let problems = engine.check(database).map_err(engine_error("check a database"))?;
            if let Some(problem) = problems.first() {
                return Err(ProvisionError::Refused(format!("the copy is damaged: {problem}")));
            }
        }
    }
    let mut heads = Vec::new();
    for head in engine.heads(database).map_err(engine_error("list the branches"))? {
        // The engine's rules for branch names are stricter than ours.
        let name = RefName::parse(&head.branch).map_err(|error| ProvisionError::Refused(error.to_string()))?;
        heads.push((name, head.commit));
    }
    heads.sort();
    Ok(heads)
}
