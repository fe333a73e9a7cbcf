//! The hub of this service, with its stores and threads.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use branchyard_auth::TokenExpiry;
use branchyard_domain::Hub;
use branchyard_domain::ports::{Clock as _, Engine};
use branchyard_domain::usecases::NewUser;
use branchyard_domain::values::OwnerName;
use branchyard_engine_doltlite::{DoltliteEngine, EngineOptions};
use branchyard_runtime::{BackgroundOptions, RunningHub, SystemClock};
use branchyard_storage::{Store, StoreOptions};

/// The user who owns every database of this service.
pub(crate) const OWNER: &str = "service";

/// Where SQL runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineChoice {
    /// In this process, for trusted SQL.
    InProcess,
    /// In worker processes, which run this program with the argument `sql-worker`.
    #[cfg(target_os = "linux")]
    Workers(std::path::PathBuf),
}

/// The running service.
pub struct Service {
    running: RunningHub,
}

impl Service {
    /// Opens the stores in a folder, which is created if it is missing, and starts the threads.
    ///
    /// # Errors
    /// An error that names what could not be opened.
    pub fn start(folder: &Path, choice: &EngineChoice) -> anyhow::Result<Self> {
        let databases = folder.join("databases");
        std::fs::create_dir_all(&databases).with_context(|| format!("cannot create {}", databases.display()))?;
        // The engine comes first: worker processes are started before anything is open that they should not have.
        let engine: Arc<dyn Engine> = match choice {
            EngineChoice::InProcess => Arc::new(DoltliteEngine::open(databases, EngineOptions::default())?),
            #[cfg(target_os = "linux")]
            EngineChoice::Workers(program) => {
                use branchyard_engine_process::{ProcessEngine, ProcessOptions, WorkerCommand};
                let command = WorkerCommand { program: program.clone(), arguments: vec!["sql-worker".into()] };
                Arc::new(ProcessEngine::open(databases, ProcessOptions::new(command))?)
            }
        };
        let url = format!("sqlite://{}", folder.join("metadata.sqlite").display());
        let store = Store::open(&url, &StoreOptions::default())?;
        store.migrate(SystemClock::default().now())?;
        let running = RunningHub::start(Hub::builder(Arc::new(store), engine), BackgroundOptions::default())?;
        Ok(Self { running })
    }

    /// Returns the hub.
    pub fn hub(&self) -> Hub {
        self.running.hub().clone()
    }

    /// Creates the owner at the first start, and returns a token. Returns `None` if there is an owner.
    ///
    /// # Errors
    /// An error of the metadata store.
    pub fn first_token(&self) -> anyhow::Result<Option<String>> {
        let hub = self.running.hub();
        let name = OwnerName::parse(OWNER)?;
        if hub.people().find_user(&name).is_ok() {
            return Ok(None);
        }
        let email = format!("{OWNER}@localhost");
        let new = NewUser { name, email, display_name: None, password: None, is_admin: false };
        let user = hub.people().create_user(new)?;
        let minted = hub.tokens().create(&user, "first", TokenExpiry::Days90, hub.tokens().mint(), None)?;
        Ok(Some(minted.secret.expose().to_owned()))
    }

    /// Stops the threads, after the work under way.
    pub fn stop(self) {
        self.running.stop();
    }
}
