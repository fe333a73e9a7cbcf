//! Deployments: created at an agreed price, viewed, changed, shut down, and hidden from callers without a role.

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

/// The fields of an unchanged form, except the name.
const SMALL: &[(&str, &str)] = &[
    ("owner", "ada"),
    ("place", "local/local"),
    ("instance_type_id", "local.small"),
    ("volume_type_id", "local.standard"),
    ("volume_size_gb", "10"),
];

/// A server, the provisioner that records its instances, and Ada, who is signed in.
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

    /// Starts a server with the running deployment `gauges`.
    fn with_gauges() -> Self {
        let harness = Self::open();
        create(&harness.ada, &[("name", "gauges")]);
        harness.ada.settled(GAUGES).shows(">Started<");
        harness
    }

    /// Returns the id of the one running instance.
    fn instance(&self) -> InstanceId {
        self.books.running().first().expect("an instance runs").0
    }
}

/// Returns the fields of a small deployment, overridden by `more`.
fn fields<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let given = SMALL.iter().filter(|(name, _)| more.iter().all(|(other, _)| other != name));
    given.copied().chain(more.iter().copied()).collect()
}

/// Presses a button of the form for a new deployment.
fn press(ada: &Browser, step: &str, more: &[(&str, &str)]) -> Page {
    let page = ada.get(NEW).expect(200);
    let mut all = fields(more);
    all.push(("step", step));
    ada.submit(&page, NEW, &all)
}

/// Creates a deployment and agrees to its price.
fn create(ada: &Browser, more: &[(&str, &str)]) -> Page {
    let agree = press(ada, "review", more).expect(200);
    ada.submit(&agree, NEW, &[("step", "create")]).expect(303)
}
