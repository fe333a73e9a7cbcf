//! The server.

use branchyard::compose::{Pending, World};
use branchyard::config::Config;
use branchyard::serve::Running;
use branchyard_auth::{PlainToken, TokenExpiry};
use branchyard_domain::Hub;
use branchyard_domain::usecases::NewUser;
use branchyard_domain::values::OwnerName;
use tempfile::TempDir;

use crate::Actor;

/// A server with a folder of its own, stopped when dropped.
pub struct Server {
    running: Option<Running>,
    config: Config,
    /// Its data folder.
    pub dir: TempDir,
}

impl Server {
    /// Starts a server on a free port of the loopback interface.
    pub fn start() -> Self {
        Self::start_with(|_| {})
    }

    /// Starts a server with a changed configuration. Rate limits are off unless the change puts them on.
    pub fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config =
            Config { data_dir: dir.path().join("data"), listen: "127.0.0.1:0".to_owned(), ..Config::default() };
        config.rate_limit.enabled = false;
        change(&mut config);
        let running = Running::start(&config, &World::default(), Pending::Migrate).expect("the server starts");
        Self { running: Some(running), config, dir }
    }

    /// Stops the server and starts it again on the same folder, at another port. Actors go on with [`Server::again`].
    pub fn restart(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop().expect("the server stops cleanly");
        }
        let running = Running::start(&self.config, &World::default(), Pending::Migrate);
        self.running = Some(running.expect("the server starts"));
    }

    /// An actor from before a restart.
    pub fn again(&self, actor: &Actor) -> Actor {
        Actor::new(self.address(), actor.token().map(str::to_owned), actor.name())
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("the server runs")
    }

    /// Its origin.
    pub fn address(&self) -> String {
        self.running().address()
    }

    /// The domain under it.
    pub fn hub(&self) -> &Hub {
        &self.running().hub
    }

    /// Nobody in particular.
    pub fn anonymous(&self) -> Actor {
        Actor::new(self.address(), None, "anonymous")
    }

    /// Makes a user with a token.
    pub fn user(&self, name: &str) -> Actor {
        let wanted = NewUser {
            name: OwnerName::parse(name).unwrap(),
            email: format!("{name}@example.test"),
            display_name: None,
            password: None,
            is_admin: false,
        };
        let user = self.hub().people().create_user(wanted).unwrap();
        let secret = PlainToken::mint(&mut rand::rng());
        let minted = self.hub().tokens().create(&user, "test", TokenExpiry::Days30, secret, None).unwrap();
        Actor::new(self.address(), Some(minted.secret.expose().to_owned()), name)
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
