//! The server under test.

use branchyard_domain::ports::{Durability, WriteKeys};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use branchyard::compose::{Environment, Names, Pending};
use branchyard::config::{Config, Isolation};
use branchyard::data_dir::DataDir;
use branchyard::serve::Running;
use branchyard_auth::TokenExpiry;
use branchyard_deployments::Deployments;
use branchyard_deployments::ports::DeploymentStore as _;
use branchyard_deployments::ports::{Provisioner, Resolution, Sample};
use branchyard_deployments::values::InstanceId;
use branchyard_domain::Hub;
use branchyard_domain::usecases::{Client, NewUser};
use branchyard_domain::values::{OwnerName, Timestamp};
use branchyard_domain_testing::fakes::{FixedClock, MemoryProvisioner, SeededIds};
use tempfile::TempDir;

use crate::process::socket;
use crate::{Actor, PageSession};

/// A running server with its own folder, stopped when dropped.
pub struct Server {
    running: Option<Running>,
    config: Config,
    environment: Environment,
    deterministic: bool,
    /// The server's temporary folder. The data folder is `data` in it, unless the configuration names another one.
    pub dir: TempDir,
}

impl Server {
    /// Starts a server on a free port of the loopback interface.
    pub fn start() -> Self {
        Self::start_with(|_| {})
    }

    /// Starts a server with a changed configuration. Rate limits are off unless the change turns them on.
    pub fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        Self::start_in(Environment::default(), false, change)
    }

    /// Starts a server that answers the same in every run: the clock stands at 2026-09-04T12:00:00Z, ids and secrets come from a fixed
    /// seed, URLs begin with `https://yard.test` on any port, and every request has the id `testkit`. Only page tokens still have to be
    /// redacted, because the order of requests and the timing of workers may change them.
    pub fn deterministic() -> Self {
        let noon = Timestamp::from_micros(1_788_523_200_000_000);
        let environment = Environment {
            clock: Arc::new(FixedClock::at(noon)),
            ids: Arc::new(SeededIds::new(1)),
            ..Environment::default()
        };
        Self::start_in(environment, true, |config| config.public_url = Some("https://yard.test".to_owned()))
    }

    /// Starts a server that resolves the host names of webhooks with `names`.
    pub fn with_names(names: Arc<dyn Names>, change: impl FnOnce(&mut Config)) -> Self {
        Self::start_in(Environment { names, ..Environment::default() }, false, change)
    }

    /// Starts a server with a clock that the test controls.
    pub fn with_clock(clock: Arc<FixedClock>) -> Self {
        Self::start_in(Environment { clock, ..Environment::default() }, false, |_| {})
    }

    /// Starts a server whose deployments run no processes. The returned provisioner records what would run, and tests use it to make an
    /// instance log a line or crash.
    pub fn with_books(change: impl FnOnce(&mut Config)) -> (Self, Arc<MemoryProvisioner>) {
        let books: Arc<OnceLock<Arc<MemoryProvisioner>>> = Arc::default();
        let kept = Arc::clone(&books);
        let make = move |blobs| -> Arc<dyn Provisioner> {
            let made = books.get_or_init(|| Arc::new(MemoryProvisioner::new(blobs)));
            made.waits(true);
            made.clone()
        };
        let environment = Environment { provisioner: Some(Arc::new(make)), ..Environment::default() };
        let server = Self::start_in(environment, false, change);
        let books = kept.get().expect("the server has a provisioner");
        (server, Arc::clone(books))
    }

    /// Starts a server on the data folder that another server left, with a stopped clock. URLs begin with `public_url`, deployments run
    /// no processes, and webhooks may reach this machine.
    pub fn over(data: &Path, public_url: &str, now: Timestamp) -> Self {
        let make = |blobs| -> Arc<dyn Provisioner> { Arc::new(MemoryProvisioner::new(blobs)) };
        let clock = Arc::new(FixedClock::at(now));
        let environment = Environment { clock, provisioner: Some(Arc::new(make)), ..Environment::default() };
        Self::start_in(environment, false, |config| {
            config.data_dir = data.to_owned();
            config.public_url = Some(public_url.to_owned());
            config.hooks.allowed_cidrs = vec!["127.0.0.0/8".to_owned()];
        })
    }

    /// Stores samples of an instance, each as measured at its time.
    pub fn measured(&self, instance: InstanceId, samples: &[(Timestamp, Sample)]) {
        let dir = DataDir::open(&self.config.data_dir).unwrap();
        let store = branchyard::compose::open_metadata(&self.config, &dir).unwrap();
        let mut tx = store.write_deployments(&WriteKeys::any()).unwrap();
        for (at, sample) in samples {
            for resolution in [Resolution::Fine, Resolution::Coarse] {
                tx.samples().put(instance, resolution, *at, sample).unwrap();
            }
        }
        tx.commit(Durability::Synced).unwrap();
    }

    fn start_in(environment: Environment, deterministic: bool, change: impl FnOnce(&mut Config)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config =
            Config { data_dir: dir.path().join("data"), listen: "127.0.0.1:0".to_owned(), ..Config::default() };
        config.rate_limit.enabled = false;
        config.web.sign_ins_per_address = 0;
        change(&mut config);
        let environment = Environment { program: program(&mut config), ..environment };
        let running = Running::start(&config, &environment, Pending::Migrate).expect("the server starts");
        Self { running: Some(running), config, environment, deterministic, dir }
    }

    /// Restarts the server on the same folder, at another port. Actors continue with [`Server::again`].
    pub fn restart(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop().expect("the server stops cleanly");
        }
        let running = Running::start(&self.config, &self.environment, Pending::Migrate);
        self.running = Some(running.expect("the server starts"));
    }

    /// Returns an actor from before a restart for the server's present port.
    pub fn again(&self, actor: &Actor) -> Actor {
        self.actor(actor.token().map(str::to_owned), actor.name())
    }

    fn actor(&self, token: Option<String>, name: &str) -> Actor {
        let actor = Actor::new(self.address(), token, name);
        if self.deterministic { actor.with_request_id("testkit") } else { actor }
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("the server runs")
    }

    /// Returns the server's origin.
    pub fn address(&self) -> String {
        self.running().origin().to_owned()
    }

    /// Returns the address that the server listens on.
    pub fn socket(&self) -> SocketAddr {
        socket(self.running().origin())
    }

    /// Returns the URL of the metrics, if the server serves them.
    pub fn metrics_address(&self) -> Option<String> {
        self.running().metrics_address()
    }

    /// Scrapes the metrics. `metrics.listen` must be set.
    pub fn metrics(&self) -> String {
        let address = self.metrics_address().expect("metrics.listen is set");
        let client = reqwest::blocking::Client::builder().no_proxy().build().unwrap();
        client.get(address).send().unwrap().error_for_status().unwrap().text().unwrap()
    }

    /// Scrapes one series, by its name with labels. `metrics.listen` must be set.
    pub fn metric(&self, series: &str) -> f64 {
        let metrics = self.metrics();
        let value = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {series} in {metrics}")).parse().unwrap()
    }

    /// Returns the deployments of the server.
    pub fn deployments(&self) -> &Deployments {
        &self.running().deployments
    }

    /// Returns the domain of the server.
    pub fn hub(&self) -> &Hub {
        &self.running().hub
    }

    /// Returns an actor without a token.
    pub fn anonymous(&self) -> Actor {
        self.actor(None, "anonymous")
    }

    /// Creates a user, and returns an actor with a token of the user.
    pub fn user(&self, name: &str) -> Actor {
        let wanted = NewUser {
            name: OwnerName::parse(name).unwrap(),
            email: format!("{name}@example.test"),
            display_name: None,
            password: None,
            is_admin: false,
        };
        self.hub().people().create_user(wanted).unwrap();
        self.actor_of(name)
    }

    /// Returns an actor with a new token of an existing user.
    pub fn actor_of(&self, name: &str) -> Actor {
        let user = self.hub().people().user_named(name).unwrap();
        let tokens = self.hub().tokens();
        let minted = tokens.create(&user, "test", TokenExpiry::Days30, tokens.mint(), None).unwrap();
        self.actor(Some(minted.secret.expose().to_owned()), name)
    }

    /// Opens a session of an existing user on the pages.
    pub fn page_session(&self, name: &str) -> PageSession {
        let user = self.hub().people().user_named(name).unwrap();
        let client = Client { address: String::new(), user_agent: String::new() };
        let session = self.hub().sessions().open(user, client).unwrap();
        PageSession::new(self.address(), format!("branchyard_session={}", session.secret.expose()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            let stopped = running.stop();
            if !std::thread::panicking() {
                stopped.expect("the server stops cleanly");
            }
        }
    }
}

/// Returns the program that runs workers of servers inside a test. It lies beside the folder of the test programs, and is built
/// with them: that of the package `branchyard` for its own tests, and that of this package otherwise. Without one, users' SQL runs
/// in threads, which is printed.
#[expect(clippy::print_stdout, reason = "a test says what it does not test")]
fn program(config: &mut Config) -> PathBuf {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let name = if package == "branchyard" { "branchyard" } else { "branchyard-testkit-program" };
    let tests = std::env::current_exe().unwrap_or_default();
    let folder = tests.ancestors().find(|folder| folder.join(name).is_file());
    match folder {
        Some(folder) => folder.join(name),
        None => {
            println!("there is no program {name} to run workers: sql.isolation = \"thread\"");
            config.sql.isolation = Isolation::Thread;
            tests
        }
    }
}
