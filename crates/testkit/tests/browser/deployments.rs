//! Deployments for the gallery: one that runs, with a day of measurements, one that is stopped, and one that fails to start.

use std::f64::consts::TAU;
use std::sync::Arc;
use std::time::{Duration, Instant};

use branchyard_deployments::access::Manage;
use branchyard_deployments::entities::RunState;
use branchyard_deployments::ports::{Sample, Series};
use branchyard_deployments::values::{DeploymentName, InstanceId};
use branchyard_deployments::{DeploymentSource, DeploymentView, NewDeployment};
use branchyard_domain::access::Caller;
use branchyard_domain::entities::User;
use branchyard_domain::values::Timestamp;
use branchyard_domain_testing::fakes::MemoryProvisioner;
use branchyard_testkit::{AMPLE, Server, wait_for};

use super::chromium::{Chromium, JavaScript};

/// The number of minutes with measurements.
const MINUTES: i32 = 24 * 60;

fn create(server: &Server, user: &Arc<User>, name: &str, from: Option<&str>) {
    let wanted = NewDeployment {
        owner: user.name.to_string(),
        name: DeploymentName::parse(name).unwrap(),
        cloud: "local".to_owned(),
        zone: "local".to_owned(),
        instance_type: "local.small".to_owned(),
        volume_type: "local.standard".to_owned(),
        volume_gb: 10,
        other_cluster: None,
        replicas: 0,
        public_tls: false,
        remotesapi: false,
        mcp: false,
        stats: false,
        source: from.map(|name| DeploymentSource {
            owner: user.name.to_string(),
            name: name.to_owned(),
            reference: Some("main".to_owned()),
        }),
        database: None,
    };
    server.deployments().create(user, wanted, None).unwrap();
}

/// Waits until a deployment meets the condition.
fn until(server: &Server, user: &Arc<User>, name: &str, is_so: impl Fn(&DeploymentView) -> bool) -> DeploymentView {
    wait_for(name, AMPLE, || {
        let deployments = server.deployments();
        let access = deployments.access::<Manage>(&Caller::User(Arc::clone(user)), user.name.as_str(), name).unwrap();
        let view = deployments.get(&access).unwrap();
        if is_so(&view) { Ok(view) } else { Err(format!("it stays {:?}", view.deployment.state)) }
    })
}

/// Stores a plausible day of samples: a morning, a busy afternoon, and a gap without samples.
fn measure(server: &Server, instance: InstanceId) {
    let now = server.hub().now().as_seconds().div_euclid(60) * 60;
    let samples = (0..MINUTES).filter(|minute| !(300..390).contains(minute)).map(|minute| {
        let of_day = f64::from(MINUTES - minute) / f64::from(MINUTES);
        let wave = (of_day * TAU).sin() + (of_day * TAU * 9.0).sin() / 4.0 + 1.3;
        let mut sample = Sample::default();
        let values = [
            (Series::Streams, 12.0 * wave),
            (Series::Sockets, 15.0 * wave),
            (Series::Reads, 640.0 * wave),
            (Series::Writes, 85.0 * wave),
            (Series::Errors, if minute % 97 == 0 { 3.0 } else { 0.0 }),
            (Series::P50, 0.4 + wave / 9.0),
            (Series::P95, 2.0 + wave),
            (Series::P99, 6.0 + 4.0 * wave),
            (Series::CpuUsed, 30.0 * wave),
            (Series::Resident, 180_000_000.0 + 90_000_000.0 * wave),
            (Series::MemoryLimit, 1_073_741_824.0),
            (Series::DiskUsed, 2_100_000_000.0 + 300_000_000.0 * of_day),
            (Series::DiskLimit, 10_737_418_240.0),
            (Series::DiskRead, 900_000.0 * wave),
            (Series::DiskWritten, 250_000.0 * wave),
        ];
        for (series, value) in values {
            sample.set(series, value);
        }
        (Timestamp::from_seconds(now - i64::from(minute) * 60), sample)
    });
    server.measured(instance, &samples.collect::<Vec<_>>());
}

/// Returns the name of each screenshot, with the path of its page. Expects Ada's database `rivers`.
pub(super) fn pages(server: &Server, books: &MemoryProvisioner) -> Vec<(&'static str, String)> {
    let user = Arc::new(server.hub().people().user_named("ada").unwrap());
    let deployments = server.deployments();
    let access =
        |name: &str| deployments.access::<Manage>(&Caller::User(Arc::clone(&user)), user.name.as_str(), name).unwrap();
    create(server, &user, "gauges", Some("rivers"));
    create(server, &user, "archive", None);
    for name in ["gauges", "archive"] {
        until(server, &user, name, |view| view.deployment.state == RunState::Started);
    }
    deployments.disable(&access("archive"), None).unwrap();
    until(server, &user, "archive", |view| view.deployment.state == RunState::Stopped);
    books.refuse_start(Some("the port 17402 is taken by another program"));
    create(server, &user, "broken", None);
    until(server, &user, "broken", |view| view.deployment.last_error.is_some());
    let view = until(server, &user, "gauges", |_| true);
    measure(server, view.primary.id);
    for number in 0..40 {
        books.log(view.primary.id, &format!("INFO query reads={} ms={}", number * 3 % 17, number % 5));
    }
    books.log(view.primary.id, "WARN slow query ms=1843 sql=\"select * from rivers where name like ?\"");
    books.log(view.primary.id, "ERROR the volume is almost full: 9.6 GB of 10 GB");
    deployments.back_up(&access("gauges"), None).unwrap();
    until(server, &user, "gauges", |view| view.last_backup.is_some());
    let changes = vec![
        ("query_timeout_millis".to_owned(), Some("5000".to_owned())),
        ("query_threads".to_owned(), Some("2".to_owned())),
    ];
    deployments.set(&access("gauges"), changes, None).unwrap();

    let of = |name: &str, below: &str| format!("/deployments/ada/{name}{below}");
    vec![
        ("deployments", "/deployments/ada".to_owned()),
        ("deployment-new", "/deployments/new?from=ada%2Frivers&ref=main".to_owned()),
        ("deployment", of("gauges", "")),
        ("deployment-stopped", of("archive", "")),
        ("deployment-broken", of("broken", "")),
        ("deployment-databases", of("gauges", "/databases")),
        ("deployment-metrics", of("gauges", "/metrics?window=day")),
        ("deployment-metric", of("gauges", "/metrics/query_latency")),
        ("deployment-logs", of("gauges", "/logs")),
        ("deployment-backups", of("gauges", "/backups")),
        ("deployment-operations", of("gauges", "/operations")),
        ("deployment-cost", of("gauges", "/cost")),
        ("deployment-settings", of("gauges", "/settings")),
        ("deployment-config", of("gauges", "/settings/config")),
        ("deployment-collaborators", of("gauges", "/settings/collaborators")),
        ("deployment-shutdown", of("gauges", "/shutdown")),
        ("deployment-discard", of("gauges", "/discard")),
        ("deployment-start", of("archive", "/start")),
        ("deployment-delete", of("archive", "/delete")),
        ("usage", "/settings/usage".to_owned()),
    ]
}

#[test]
fn a_deployment_is_right_within_three_seconds_of_a_change() {
    let (server, _) = Server::with_books(|config| config.web.sign_up = "open".to_owned());
    let Some(chromium) = Chromium::open(&server, JavaScript::On) else { return };
    chromium.sign_up("ada");
    let user = Arc::new(server.hub().people().user_named("ada").unwrap());
    create(&server, &user, "gauges", None);
    until(&server, &user, "gauges", |view| view.deployment.state == RunState::Started);
    chromium.go("/deployments/ada/gauges");
    chromium.shows("#deployment-state", "Started");
    chromium.shows("#connect-live", "gauges");
    chromium.shows("#instances", "Primary");
    chromium.run("window.wasHere = true");
    let deployments = server.deployments();
    let access = deployments.access::<Manage>(&Caller::User(Arc::clone(&user)), "ada", "gauges").unwrap();
    deployments.disable(&access, None).unwrap();
    until(&server, &user, "gauges", |view| view.deployment.state == RunState::Stopped);
    let changed = Instant::now();
    chromium.shows("#deployment-state", "Stopped");
    chromium.wait("no address and no instance", |this| {
        this.text("#connect-live").is_empty() && this.text("#instances-live").is_empty()
    });
    chromium.shows("#facts-live", "$0 an hour");
    assert!(changed.elapsed() < Duration::from_secs(3), "{:?}", changed.elapsed());
    assert_eq!(chromium.run("return window.wasHere"), true, "the page was not loaded again");
    assert!(!chromium.text("main").contains("Reload the page"), "the page is live");
}

#[test]
fn a_running_deployment_and_its_backups_fit_on_a_phone() {
    let (server, _) = Server::with_books(|config| config.web.sign_up = "open".to_owned());
    let Some(chromium) = Chromium::open(&server, JavaScript::On) else { return };
    chromium.sign_up("ada");
    let user = Arc::new(server.hub().people().user_named("ada").unwrap());
    let name = "gauges-of-all-rivers-of-europe-1";
    create(&server, &user, name, None);
    until(&server, &user, name, |view| view.deployment.state == RunState::Started);
    let deployments = server.deployments();
    let access = deployments.access::<Manage>(&Caller::User(Arc::clone(&user)), "ada", name).unwrap();
    deployments.back_up(&access, None).unwrap();
    until(&server, &user, name, |view| view.last_backup.is_some());
    chromium.size(390, 844);
    for path in ["", "/backups", "/databases", "/operations"] {
        chromium.go(&format!("/deployments/ada/{name}{path}"));
        assert!(!chromium.overflows(), "{path}");
    }
}
