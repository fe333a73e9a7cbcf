//! Deployments: made at a price that was agreed to, looked at, changed, shut down, and hidden from strangers.

mod create;
mod guards;
mod life;
mod looking;
mod settings;

use std::sync::Arc;

use branchyard_deployments::values::InstanceId;
use branchyard_domain_testing::fakes::MemoryProvisioner;
use branchyard_testkit::Server;

use super::browser::{Browser, Page};
use super::sign_up;

const NEW: &str = "/deployments/new";
const GAUGES: &str = "/deployments/ada/gauges";

/// What the form has when nothing was changed in it, but for the name.
const SMALL: &[(&str, &str)] = &[
    ("owner", "ada"),
    ("place", "local/local"),
    ("instance_type_id", "local.small"),
    ("volume_type_id", "local.standard"),
    ("volume_size_gb", "10"),
];

/// A server, the books of its instances, and ada, who is signed in.
struct DeploymentPagesHarness {
    server: Server,
    books: Arc<MemoryProvisioner>,
    ada: Browser,
}

impl DeploymentPagesHarness {
    fn open() -> Self {
        let (server, books) = Server::with_books(|config| config.web.sign_up = "open".to_owned());
        let ada = sign_up(&server, "ada");
        Self { server, books, ada }
    }

    /// The same with the deployment `gauges`, which is started.
    fn with_gauges() -> Self {
        let yard = Self::open();
        create(&yard.ada, &[("name", "gauges")]);
        yard.ada.settled(GAUGES).shows(">Started<");
        yard
    }

    /// The one instance that runs.
    fn instance(&self) -> InstanceId {
        self.books.running().first().expect("an instance runs").0
    }
}

/// Fields over those of a small deployment.
fn fields<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let given = SMALL.iter().filter(|(name, _)| more.iter().all(|(other, _)| other != name));
    given.copied().chain(more.iter().copied()).collect()
}

/// Presses a button of the form of new deployments.
fn press(ada: &Browser, step: &str, more: &[(&str, &str)]) -> Page {
    let page = ada.get(NEW).expect(200);
    let mut all = fields(more);
    all.push(("step", step));
    ada.submit(&page, NEW, &all)
}

/// Makes a deployment, agreeing to its price.
fn create(ada: &Browser, more: &[(&str, &str)]) -> Page {
    let agree = press(ada, "review", more).expect(200);
    ada.submit(&agree, NEW, &[("step", "create")]).expect(303)
}
