//! The life of deployments over the fakes: creation, supervision, metering, shutdown, restart and deletion.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use branchyard_deployments::access::{DeploymentAccess, Manage, Observe};
use branchyard_deployments::entities::{BackupKind, DeploymentProgress, DeploymentRole, Health, Metered, RunState};
use branchyard_deployments::errors::{DeploymentError, DeploymentField};
use branchyard_deployments::ports::{DatabaseSeed, Sample, Series};
use branchyard_deployments::values::{DeploymentId, DeploymentName, InstanceId, Setting, Usd};
use branchyard_deployments::{
    DeploymentView, HostingSettings, NewDeployment, NewInstance, Next, OwnerUsage, Recovered, WantedSize,
};
use branchyard_domain::access::Caller;
use branchyard_domain::entities::User;
use branchyard_domain::usecases::{Limits, NewUser};
use branchyard_domain::values::{OwnerName, Timestamp, TokenExpiry};
use branchyard_domain_testing::fakes::{FakeHub, hub, hub_hosting};

/// A hub with its user ada, and the steps of a deployment's life.
struct DeploymentsHarness {
    fake: FakeHub,
    ada: Arc<User>,
}

fn wanted(name: &str, kind: &str, gigabytes: u32) -> NewDeployment {
    NewDeployment {
        owner: "ada".to_owned(),
        name: DeploymentName::parse(name).unwrap(),
        cloud: "local".to_owned(),
        zone: "local".to_owned(),
        instance_type: format!("local.{kind}"),
        volume_type: "local.standard".to_owned(),
        volume_gb: gigabytes,
        other_cluster: None,
        replicas: 0,
        public_tls: false,
        remotesapi: false,
        mcp: false,
        stats: false,
        source: None,
        database: None,
    }
}

fn small(backup: Option<branchyard_deployments::values::BackupId>) -> NewInstance {
    NewInstance {
        instance_type: "local.small".to_owned(),
        volume_type: "local.standard".to_owned(),
        volume_gb: 10,
        backup,
    }
}

impl DeploymentsHarness {
    fn over(fake: FakeHub) -> Self {
        let ada = Self::person(&fake, "ada");
        Self { fake, ada }
    }

    fn new() -> Self {
        Self::over(hub())
    }

    fn person(fake: &FakeHub, name: &str) -> Arc<User> {
        let user = NewUser {
            name: OwnerName::parse(name).unwrap(),
            email: format!("{name}@example.test"),
            display_name: None,
            password: None,
            is_admin: false,
        };
        Arc::new(fake.hub.people().create_user(user).unwrap())
    }

    fn create(&self, wanted: NewDeployment) -> Result<DeploymentView, DeploymentError> {
        self.fake.deployments.create(&self.ada, wanted, None)
    }

    /// Creates a small deployment and brings it up.
    fn started(&self, name: &str) -> DeploymentId {
        let id = self.create(wanted(name, "small", 10)).unwrap().deployment.id;
        self.settle(id);
        assert_eq!(self.view(name).deployment.state, RunState::Started);
        id
    }

    fn access(&self, name: &str) -> DeploymentAccess<Manage> {
        self.fake.deployments.access(&Caller::User(Arc::clone(&self.ada)), "ada", name).unwrap()
    }

    fn view(&self, name: &str) -> DeploymentView {
        self.fake.deployments.get(&self.access(name)).unwrap()
    }

    fn instance(&self, name: &str) -> InstanceId {
        self.view(name).primary.id
    }

    /// Steps until nothing is due without advancing the clock.
    fn settle(&self, id: DeploymentId) {
        for _ in 0..50 {
            let operated = self.fake.deployments.supervisor().operate(id).unwrap();
            let before = self.fake.metadata_view(id);
            let next = self.fake.deployments.supervisor().step(id, Duration::ZERO).unwrap().next;
            let still = self.fake.metadata_view(id) == before;
            if !operated && (next != Next::Now || still) {
                return;
            }
        }
        panic!("the deployment does not settle");
    }

    fn pass(&self, millis: u64) {
        self.fake.clock.set(self.now().plus_millis(millis));
    }

    fn now(&self) -> Timestamp {
        self.fake.hub.now()
    }

    fn cost(&self, name: &str) -> BTreeMap<String, String> {
        let cost = self.fake.deployments.cost(&self.access(name), Timestamp::from_seconds(0), self.now()).unwrap();
        let mut shown: BTreeMap<String, String> = BTreeMap::new();
        let items = cost.items.iter();
        shown.extend(items.map(|item| (format!("{:?} {}", item.kind, item.instance_index), item.amount.to_string())));
        shown.insert("sum".to_owned(), cost.amount.to_string());
        shown
    }

    fn usage(&self, from: Timestamp, to: Timestamp) -> OwnerUsage {
        self.fake.deployments.usage(&self.ada, from, to).unwrap().owners.remove(0)
    }
}

/// A text form of everything that a step may change.
trait SeenSteps {
    fn metadata_view(&self, id: DeploymentId) -> String;
}

impl SeenSteps for FakeHub {
    fn metadata_view(&self, id: DeploymentId) -> String {
        use branchyard_deployments::ports::DeploymentStore as _;
        let mut tx = self.metadata.read_deployments().unwrap();
        format!("{:?} {:?}", tx.deployments().get(id).unwrap(), tx.instances().list(id).unwrap())
    }
}

fn shown(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, amount)| ((*name).to_owned(), (*amount).to_owned())).collect()
}

#[test]
fn a_deployment_starts_serves_and_is_metered_to_the_digit() {
    let yard = DeploymentsHarness::new();
    let view = yard.create(wanted("gauges", "small", 10)).unwrap();
    assert_eq!((view.deployment.state, view.health()), (RunState::Starting, Health::Starting));
    assert_eq!(view.primary.port, 17_400);
    assert_eq!(view.hourly_cost.to_string(), "0.008219183");
    yard.settle(view.deployment.id);
    let view = yard.view("gauges");
    assert_eq!((view.deployment.state, view.health()), (RunState::Started, Health::Ok));
    assert_eq!(view.deployment.database_version.as_deref(), Some("1.0.0"));
    yard.pass(5_400_000);
    let expected = [("Compute 0", "0.010273980"), ("Storage 0", "0.002054794"), ("sum", "0.012328774")];
    assert_eq!(yard.cost("gauges"), shown(&expected));
    assert_eq!(yard.usage(Timestamp::from_seconds(0), yard.now()).committed_monthly.to_string(), "6.000003590");
}

#[test]
fn sixty_one_seconds_of_compute() {
    let yard = DeploymentsHarness::new();
    let id = yard.started("gauges");
    yard.pass(61_000);
    yard.fake.deployments.disable(&yard.access("gauges"), None).unwrap();
    yard.settle(id);
    yard.pass(5_000_000);
    assert_eq!(yard.cost("gauges")["Compute 0"], "0.000116058");
    let view = yard.view("gauges");
    assert_eq!((view.deployment.state, view.hourly_cost), (RunState::Stopped, Usd::ZERO));
}

#[test]
fn a_crash_ends_compute_when_it_is_noticed_and_the_process_comes_back() {
    let yard = DeploymentsHarness::new();
    let id = yard.started("gauges");
    yard.pass(10_000);
    yard.fake.provisioner.crash(yard.instance("gauges"));
    yard.settle(id);
    let view = yard.view("gauges");
    assert_eq!((view.deployment.state, view.primary.restarts), (RunState::Starting, 1));
    assert_eq!(view.deployment.last_error.as_deref(), Some("signal 9: crashed"));
    yard.pass(199);
    yard.settle(id);
    assert_eq!(yard.view("gauges").deployment.state, RunState::Starting, "not before 0.2 s");
    yard.pass(1);
    yard.settle(id);
    assert_eq!(yard.view("gauges").deployment.state, RunState::Started);
    yard.pass(10_000);
    // 20 s of compute and 20.2 s of storage.
    let expected = [("Compute 0", "0.000038052"), ("Storage 0", "0.000007686"), ("sum", "0.000045738")];
    assert_eq!(yard.cost("gauges"), shown(&expected));
}

#[test]
fn an_adopted_process_is_metered_without_a_break_and_a_lost_one_up_to_its_last_proof() {
    let yard = DeploymentsHarness::new();
    let id = yard.started("gauges");
    yard.pass(20_000);
    yard.settle(id);
    yard.pass(7_000);
    let recovered = yard.fake.deployments.supervisor().recover().unwrap();
    assert_eq!((recovered.adopted, recovered.gone), (1, 0));
    yard.settle(id);
    assert_eq!(yard.view("gauges").primary.restarts, 0);
    yard.pass(3_000);
    yard.settle(id);
    // The process was last proven alive after 30 s. The server is away for a minute, during which the process ends.
    yard.fake.provisioner.vanish(yard.instance("gauges"));
    yard.pass(60_000);
    let recovered = yard.fake.deployments.supervisor().recover().unwrap();
    assert_eq!((recovered.adopted, recovered.gone), (0, 1));
    assert_eq!(yard.cost("gauges")["Compute 0"], "0.000057078", "30 s");
    yard.settle(id);
    yard.pass(30_000);
    assert_eq!(yard.cost("gauges")["Compute 0"], "0.000114156", "60 s");
    assert_eq!(yard.view("gauges").primary.restarts, 1);
}

#[test]
fn months_add_up_and_keep_what_was_deleted() {
    let yard = DeploymentsHarness::new();
    let start = Timestamp::from_micros(1_793_491_200_000_000 - 3_600_000_000);
    yard.fake.clock.set(start);
    let id = yard.started("gauges");
    yard.pass(7_200_000);
    let access = yard.access("gauges");
    yard.fake.deployments.disable(&access, None).unwrap();
    yard.settle(id);
    let operation = yard.fake.deployments.delete(&access, None).unwrap();
    let gone = yard.fake.deployments.get(&access).unwrap_err();
    assert!(matches!(gone, DeploymentError::NoSuchDeployment(_)), "{gone:?}");
    assert!(matches!(yard.create(wanted("gauges", "small", 10)), Err(DeploymentError::NameTaken(_))));
    yard.settle(id);
    let operation = yard.fake.deployments.operation(&yard.ada, &operation.id.to_string()).unwrap();
    assert_eq!(operation.progress, DeploymentProgress::Succeeded(None));
    let boundary = start.plus_seconds(3_600);
    let (october, november) = (yard.usage(start, boundary), yard.usage(boundary, yard.now()));
    assert_eq!((october.amount.to_string(), november.amount.to_string()), ("0.008219183".into(), "0.008219183".into()));
    assert_eq!(yard.usage(start, yard.now()).amount, october.amount + november.amount);
    assert_eq!(november.deployments.len(), 1, "the deleted one is listed");
    assert!(yard.create(wanted("gauges", "small", 10)).is_ok(), "its name is free");
}

#[test]
fn a_clock_set_back_makes_no_overlap() {
    use branchyard_deployments::ports::DeploymentStore as _;
    let yard = DeploymentsHarness::new();
    let id = yard.started("gauges");
    yard.pass(60_000);
    yard.fake.provisioner.crash(yard.instance("gauges"));
    yard.settle(id);
    yard.pass(200);
    yard.settle(id);
    let set_back = yard.now().plus_seconds(-30);
    yard.fake.clock.set(set_back);
    yard.fake.provisioner.crash(yard.instance("gauges"));
    yard.settle(id);
    yard.pass(200);
    yard.settle(id);
    yard.pass(90_000);
    let all = (Timestamp::from_seconds(0), yard.now().plus_seconds(1_000_000));
    let mut tx = yard.fake.metadata.read_deployments().unwrap();
    let mut intervals = tx.ledger().list(id, all.0, all.1).unwrap();
    intervals.retain(|interval| interval.kind == Metered::Compute);
    assert_eq!(intervals.len(), 3);
    assert_eq!(intervals[1].closed_at, Some(intervals[1].opened_at), "closed at its own start");
    for pair in intervals.windows(2) {
        assert!(pair[0].closed_at.unwrap() <= pair[1].opened_at, "{pair:?}");
    }
}

#[test]
fn spending_is_limited_to_the_digit_and_ten_creates_at_the_edge_never_pass() {
    let yard = DeploymentsHarness::new();
    let refused = yard.create(wanted("big", "large", 100)).unwrap_err();
    let DeploymentError::Spending { limit, committed, requested } = refused else { panic!("{refused:?}") };
    assert_eq!(
        (limit.to_string(), committed.to_string(), requested.to_string()),
        ("100.000000000".to_owned(), "0.000000000".to_owned(), "209.999997900".to_owned())
    );
    let barrier = std::sync::Barrier::new(10);
    let made = std::thread::scope(|scope| {
        let tries = (0..10).map(|number| {
            let (yard, barrier) = (&yard, &barrier);
            scope.spawn(move || {
                barrier.wait();
                yard.create(wanted(&format!("edge{number}"), "small", 110)).is_ok()
            })
        });
        let tries: Vec<_> = tries.collect();
        tries.into_iter().map(|handle| handle.join().unwrap()).filter(|made| *made).count()
    });
    assert_eq!(made, 6, "16 dollars a month each");
}

#[test]
fn twenty_creates_of_one_name_make_one() {
    let yard = DeploymentsHarness::new();
    let made = std::thread::scope(|scope| {
        let tries: Vec<_> = (0..20)
            .map(|_| scope.spawn(|| yard.create(wanted("gauges", "small", 1)).map(|view| view.primary.port)))
            .collect();
        let results = tries.into_iter().map(|handle| handle.join().unwrap());
        results.filter(|result| !matches!(result, Err(DeploymentError::NameTaken(_)))).collect::<Vec<_>>()
    });
    assert_eq!(made.len(), 1);
    assert_eq!(made[0].as_ref().unwrap(), &17_400);
}

#[test]
fn what_cannot_start_is_tried_again_and_given_up_at_the_deadline() {
    let yard = DeploymentsHarness::new();
    yard.fake.provisioner.never_ready(true);
    let id = yard.create(wanted("gauges", "small", 10)).unwrap().deployment.id;
    let mut starts = 0;
    while yard.view("gauges").deployment.state == RunState::Starting {
        yard.settle(id);
        starts = starts.max(yard.view("gauges").primary.restarts);
        if starts == 3 {
            assert_eq!(yard.view("gauges").health(), Health::CrashLoop);
        }
        yard.pass(1_000);
    }
    yard.settle(id);
    let view = yard.view("gauges");
    assert_eq!(view.deployment.state, RunState::Stopped);
    let error = view.deployment.last_error.unwrap();
    assert_eq!(error, "it did not become ready within 600 s: exit status 1: cannot start");
    assert!((13..=19).contains(&starts), "1+2+4+8+16+32 s, then a minute each: {starts}");
    assert!(!yard.cost("gauges").contains_key("Compute 0"), "only storage was metered");
    assert!(yard.fake.deployments.backups(&yard.access("gauges")).unwrap().is_empty());
}

#[test]
fn disable_keeps_a_verified_backup_and_restart_begins_from_it_or_empty() {
    let yard = DeploymentsHarness::new();
    let id = yard.started("gauges");
    let first = yard.instance("gauges");
    yard.fake.provisioner.refuse_snapshot(Some("the copy is damaged"));
    yard.fake.deployments.disable(&yard.access("gauges"), None).unwrap();
    yard.settle(id);
    let view = yard.view("gauges");
    assert_eq!(view.deployment.state, RunState::Stopping);
    assert_eq!(view.deployment.last_error.as_deref(), Some("the final backup failed: the copy is damaged"));
    assert!(yard.fake.provisioner.data(first).is_some(), "the data stays");
    let refused = yard.fake.deployments.start(&yard.access("gauges"), &small(None), None).unwrap_err();
    assert!(matches!(refused, DeploymentError::Conflict(_)), "{refused:?}");
    yard.fake.provisioner.refuse_snapshot(None);
    yard.pass(600_000);
    yard.settle(id);
    assert_eq!(yard.view("gauges").deployment.state, RunState::Stopped);
    assert!(yard.fake.provisioner.data(first).is_none());
    let backups = yard.fake.deployments.backups(&yard.access("gauges")).unwrap();
    assert_eq!(backups.iter().map(|backup| backup.kind).collect::<Vec<_>>(), [BackupKind::Final]);
    let refused = yard.fake.deployments.remove_backup(&yard.access("gauges"), &backups[0].id.to_string());
    assert!(matches!(refused, Err(DeploymentError::Conflict(_))), "the only one stays");

    let restored = yard.fake.deployments.start(&yard.access("gauges"), &small(Some(backups[0].id)), None).unwrap();
    yard.settle(id);
    let view = yard.view("gauges");
    assert_eq!((view.deployment.state, view.deployment.disabled), (RunState::Started, None));
    assert_ne!(restored.id, first);
    let data = yard.fake.provisioner.data(restored.id).unwrap();
    assert!(matches!(&data[0].1, DatabaseSeed::Backup { content, .. } if *content == backups[0].databases[0]));

    yard.pass(1_000);
    yard.fake.deployments.disable(&yard.access("gauges"), None).unwrap();
    yard.settle(id);
    let empty = yard.fake.deployments.start(&yard.access("gauges"), &small(None), None).unwrap();
    yard.settle(id);
    assert!(matches!(yard.fake.provisioner.data(empty.id).unwrap()[0].1, DatabaseSeed::Empty { .. }));
}

#[test]
fn a_reboot_drains_and_starts_again_and_fails_when_it_takes_too_long() {
    let yard = DeploymentsHarness::new();
    let id = yard.started("gauges");
    let instance = yard.instance("gauges").to_string();
    let outcome = |id: &str| yard.fake.deployments.operation(&yard.ada, id).unwrap().progress;
    let operation = yard.fake.deployments.reboot(&yard.access("gauges"), &instance, None).unwrap();
    yard.settle(id);
    assert_eq!(outcome(&operation.id.to_string()), DeploymentProgress::Succeeded(None));
    assert_eq!(yard.view("gauges").primary.restarts, 1);
    yard.fake.provisioner.never_ready(true);
    let operation = yard.fake.deployments.reboot(&yard.access("gauges"), &instance, None).unwrap();
    yard.settle(id);
    assert_eq!(outcome(&operation.id.to_string()), DeploymentProgress::Running);
    yard.pass(60_000);
    yard.settle(id);
    let DeploymentProgress::Failed(failure) = outcome(&operation.id.to_string()) else { panic!("it failed") };
    assert_eq!(
        (failure.reason.as_str(), failure.detail.as_str()),
        ("NOT_READY", "the instance did not become ready within 60 s")
    );
}

#[test]
fn operations_that_cannot_begin_expire_or_fail_with_the_deployment() {
    let yard = DeploymentsHarness::new();
    let id = yard.started("gauges");
    let operation = yard.fake.deployments.back_up(&yard.access("gauges"), None).unwrap();
    let waiting = yard.fake.deployments.back_up(&yard.access("gauges"), None).unwrap();
    yard.fake.deployments.disable(&yard.access("gauges"), None).unwrap();
    yard.settle(id);
    for operation in [operation, waiting] {
        let seen = yard.fake.deployments.operation(&yard.ada, &operation.id.to_string()).unwrap();
        let DeploymentProgress::Failed(failure) = seen.progress else { panic!("it failed") };
        assert_eq!(failure.reason, "DISABLED");
    }
}

#[test]
fn nightly_backups_come_once_a_night_and_go_after_their_time() {
    let yard = DeploymentsHarness::new();
    let id = yard.started("gauges");
    let days = 20;
    for _ in 0..days * 24 {
        yard.pass(3_600_000);
        yard.settle(id);
    }
    let backups = yard.fake.deployments.backups(&yard.access("gauges")).unwrap();
    assert!(backups.iter().all(|backup| backup.kind == BackupKind::Nightly));
    assert!((14..=15).contains(&backups.len()), "one for each of the last 14 days: {}", backups.len());
}

#[test]
fn samples_become_coarser_and_gaps_stay_gaps() {
    let yard = DeploymentsHarness::new();
    let id = yard.started("gauges");
    let from = yard.now();
    let mut sample = Sample::default();
    sample.set(Series::Reads, 2.0);
    yard.fake.provisioner.measure(yard.instance("gauges"), sample);
    for _ in 0..60 {
        yard.pass(15_000);
        yard.settle(id);
    }
    let access = yard.access("gauges");
    let data = yard.fake.deployments.metric(&access, "queries", None, from, yard.now()).unwrap();
    assert_eq!(data.period_seconds, 15);
    assert!(data.series[0].1.iter().skip(1).all(|value| *value == Some(2.0)), "{data:?}");
    assert!(data.series[1].1.iter().all(Option::is_none), "not measured is not zero");
    let old = yard.now().plus_seconds(-3 * 86_400);
    let data = yard.fake.deployments.metric(&access, "queries", None, old, yard.now()).unwrap();
    assert_eq!(data.period_seconds, 300);
    assert!(data.series[0].1.contains(&Some(40.0)), "twenty samples of two reads: {data:?}");
    let none = yard.fake.deployments.metric(&access, "cpu", None, from, yard.now()).unwrap();
    assert!(none.times.is_empty());
    assert!(matches!(
        yard.fake.deployments.metric(&access, "nothing", None, from, yard.now()),
        Err(DeploymentError::Absent { what: "metric", .. })
    ));
}

#[test]
fn a_taken_port_is_exchanged() {
    let yard = DeploymentsHarness::new();
    let view = yard.create(wanted("gauges", "small", 10)).unwrap();
    yard.fake.provisioner.occupy(17_400);
    yard.settle(view.deployment.id);
    let view = yard.view("gauges");
    assert_eq!((view.deployment.state, view.primary.port), (RunState::Started, 17_401));
}

#[test]
fn the_server_rests_its_instances_and_starts_them_again() {
    let yard = DeploymentsHarness::new();
    let id = yard.started("gauges");
    yard.pass(5_000);
    yard.fake.deployments.supervisor().rest(id, false).unwrap();
    assert!(yard.fake.provisioner.running().is_empty());
    yard.pass(100_000);
    assert_eq!(yard.cost("gauges")["Compute 0"], "0.000009513", "5 s");
    yard.settle(id);
    assert_eq!(yard.view("gauges").deployment.state, RunState::Started);
}

#[test]
fn settings_reach_the_process_all_or_none() {
    let yard = DeploymentsHarness::new();
    let _ = yard.started("gauges");
    let access = yard.access("gauges");
    let set = |pairs: &[(&str, Option<&str>)]| {
        let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), value.map(str::to_owned))).collect();
        yard.fake.deployments.set(&access, pairs, None)
    };
    let wrong =
        set(&[("query_threads", Some("65")), ("behavior_read_only", Some("true")), ("nope", None)]).unwrap_err();
    let DeploymentError::Settings(wrong) = wrong else { panic!("{wrong:?}") };
    assert_eq!(wrong.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["query_threads", "nope"]);
    assert!(!yard.fake.provisioner.running()[0].1.flag(Setting::BehaviorReadOnly));
    let views = set(&[("query_threads", Some("4")), ("behavior_read_only", Some("true"))]).unwrap();
    assert!(yard.fake.provisioner.running()[0].1.flag(Setting::BehaviorReadOnly), "live settings act at once");
    let pending: Vec<_> = views.iter().filter(|view| view.pending_restart).map(|view| view.setting).collect();
    assert_eq!(pending, [Setting::QueryThreads]);
}

#[test]
fn who_has_no_role_sees_nothing_and_a_reader_changes_nothing() {
    let yard = DeploymentsHarness::new();
    let _ = yard.started("gauges");
    let bob = DeploymentsHarness::person(&yard.fake, "bob");
    let caller = Caller::User(Arc::clone(&bob));
    let deployments = || &yard.fake.deployments;
    let hidden = deployments().access::<Observe>(&caller, "ada", "gauges").unwrap_err();
    let absent = deployments().access::<Observe>(&caller, "ada", "absent").unwrap_err();
    assert_eq!(hidden.to_string().replace("gauges", "absent"), absent.to_string());
    assert!(matches!(deployments().list(&bob, "ada", None, None, 10), Err(DeploymentError::NoSuchOwner(_))));
    deployments().put_collaborator(&yard.access("gauges"), &bob, DeploymentRole::Reader).unwrap();
    let seen = deployments().access::<Observe>(&caller, "ADA", "GAUGES").unwrap();
    assert_eq!(seen.role(), DeploymentRole::Reader);
    assert_eq!(deployments().list(&bob, "ada", None, None, 10).unwrap().len(), 1);
    let denied = deployments().access::<Manage>(&caller, "ada", "gauges").unwrap_err();
    assert!(matches!(denied, DeploymentError::Denied("admin")), "{denied:?}");
    deployments().leave(&seen).unwrap();
    assert!(deployments().access::<Observe>(&caller, "ada", "gauges").is_err());
}

#[test]
fn an_organization_with_deployments_stays() {
    use branchyard_domain::access::Own;
    use branchyard_domain::errors::OrganizationError;
    use branchyard_domain::usecases::NewOrganization;
    let yard = DeploymentsHarness::new();
    let organizations = || yard.fake.hub.organizations();
    let name = OwnerName::parse("hydro").unwrap();
    organizations().create(&yard.ada, NewOrganization::named(name), None).unwrap();
    yard.create(NewDeployment { owner: "hydro".to_owned(), ..wanted("gauges", "small", 10) }).unwrap();
    let own = organizations().access::<Own>(&Caller::User(Arc::clone(&yard.ada)), "hydro").unwrap();
    let refused = organizations().delete(&own, None).unwrap_err();
    assert!(matches!(refused, OrganizationError::OwnsOthers("deployments")), "{refused:?}");
}

#[test]
fn a_server_that_starts_none_says_so() {
    let hosted = HostingSettings { enabled: false, ..HostingSettings::default() };
    let yard = DeploymentsHarness::over(hub_hosting(Limits::default(), hosted));
    assert!(matches!(yard.create(wanted("gauges", "small", 10)), Err(DeploymentError::Unsupported(_))));
}

#[test]
fn each_server_runs_the_deployments_it_accepted() {
    let yard = DeploymentsHarness::new();
    let id = yard.started("gauges");
    let there =
        yard.fake.deployments_beside(HostingSettings { node: "there".to_owned(), ..HostingSettings::default() });
    assert_eq!(yard.fake.deployments.supervisor().busy().unwrap(), [id]);
    assert!(there.supervisor().busy().unwrap().is_empty());
    // Another server neither adopts the processes of this one nor declares them gone.
    yard.fake.provisioner.vanish(yard.instance("gauges"));
    assert_eq!(there.supervisor().recover().unwrap(), Recovered::default());
    assert_eq!(yard.view("gauges").deployment.state, RunState::Started);
    there.supervisor().cut_short().unwrap();
    // Calls that need the process fail on another server; calls that need only the store succeed.
    let caller = Caller::User(Arc::clone(&yard.ada));
    let access = there.access::<Observe>(&caller, "ada", "gauges").unwrap();
    there.get(&access).unwrap();
    assert!(matches!(there.address(&access), Err(DeploymentError::Port(_))));
    assert!(matches!(there.databases(&access), Err(DeploymentError::Port(_))));
    assert_eq!(yard.fake.deployments.supervisor().recover().unwrap(), Recovered { adopted: 0, gone: 1 });
}

#[test]
fn rights_that_are_taken_away_are_forgotten_by_processes() {
    let yard = DeploymentsHarness::new();
    yard.started("gauges");
    let instance = yard.instance("gauges");
    let forgotten = || yard.fake.provisioner.forgotten(instance);
    let (hub, access) = (&yard.fake.hub, yard.access("gauges"));
    let bob = DeploymentsHarness::person(&yard.fake, "bob");
    yard.fake.deployments.put_collaborator(&access, &bob, DeploymentRole::Reader).unwrap();
    assert_eq!(forgotten(), 1);
    yard.fake.deployments.remove_collaborator(&access, "bob").unwrap();
    assert_eq!(forgotten(), 2);
    let token = hub.tokens().create(&bob, "t", TokenExpiry::Days30, hub.tokens().mint(), None).unwrap();
    hub.tokens().delete(&bob, token.token.id).unwrap();
    assert_eq!(forgotten(), 3);
}

#[test]
fn after_a_restore_what_ran_is_stopped_and_paid_for_up_to_its_last_proof() {
    let yard = DeploymentsHarness::new();
    let id = yard.started("gauges");
    yard.create(wanted("pumps", "small", 10)).unwrap();
    yard.pass(60_000);
    yard.settle(id);
    let paid = yard.cost("gauges")["sum"].clone();
    yard.fake.deployments.back_up(&yard.access("gauges"), None).unwrap();
    // The backup is restored much later, without the process and the volume.
    yard.pass(3_600_000);
    assert_eq!(yard.fake.deployments.supervisor().restored().unwrap(), 2);
    for name in ["gauges", "pumps"] {
        let view = yard.view(name);
        assert_eq!((view.deployment.state, view.hourly_cost), (RunState::Stopped, Usd::from_nanos(0)));
        assert!(view.deployment.last_error.unwrap().contains("restored"), "{name}");
    }
    assert_eq!(yard.cost("gauges")["sum"], paid);
    assert_eq!(yard.cost("pumps")["sum"], "0.000000000");
    yard.settle(id);
    let operations = yard.fake.deployments.operations(&yard.access("gauges"), Default::default(), None, 10).unwrap();
    assert!(matches!(operations[0].progress, DeploymentProgress::Failed(_)), "{operations:?}");
    assert_eq!(yard.fake.deployments.supervisor().restored().unwrap(), 0);
    // The deployment can be started again, and deleted.
    yard.fake.deployments.start(&yard.access("gauges"), &small(None), None).unwrap();
    yard.settle(id);
    assert_eq!(yard.view("gauges").deployment.state, RunState::Started);
}

#[test]
fn a_price_is_told_before_anything_is_made_and_is_the_one_that_is_metered() {
    let yard = DeploymentsHarness::new();
    let deployments = &yard.fake.deployments;
    let mut size = WantedSize {
        cloud: "local",
        zone: "local",
        instance_type: "local.small",
        volume_type: "local.standard",
        volume_gb: 10,
    };
    let told = deployments.price(&size).unwrap();
    let made = yard.create(wanted("gauges", "small", 10)).unwrap();
    assert_eq!(told, made.primary.size);
    assert_eq!(told.rate(), made.hourly_cost);
    size.volume_gb = 1_025;
    let refused = deployments.price(&size).unwrap_err();
    assert!(matches!(&refused, DeploymentError::Field { field: DeploymentField::VolumeSize, .. }), "{refused}");
    assert!(deployments.may_start());
    assert_eq!(deployments.catalogue().instance_types.len(), 3);
}

#[test]
fn callers_wait_while_the_cloned_database_is_quarantined_and_suspended_users_are_refused() {
    use branchyard_deployments::ports::Authorized;
    use branchyard_domain::entities::Visibility;
    use branchyard_domain::usecases::NewDatabase;
    use branchyard_domain::values::{DatabaseName, TokenExpiry};

    let world = DeploymentsHarness::new();
    let hub = &world.fake.hub;
    let database = NewDatabase {
        owner: "ada".to_owned(),
        name: DatabaseName::parse("rivers").unwrap(),
        visibility: Visibility::Public,
        description: None,
        default_branch: None,
    };
    hub.databases().create(&world.ada, database, None).unwrap();
    let source = branchyard_deployments::DeploymentSource {
        owner: "ada".to_owned(),
        name: "rivers".to_owned(),
        reference: None,
    };
    let cloned = world.create(NewDeployment { source: Some(source), ..wanted("cloned", "small", 10) }).unwrap();
    world.settle(cloned.deployment.id);
    world.started("empty");
    world.fake.deployments.serve_instances();
    let authorizer = world.fake.provisioner.authorizer().unwrap();
    let tokens = hub.tokens();
    let token = tokens.create(&world.ada, "ci", TokenExpiry::parse("30d").unwrap(), tokens.mint(), None).unwrap();
    let asked = |name| authorizer.authorize(&token.secret.hash(), world.instance(name), None).unwrap();
    assert!(matches!(asked("cloned"), Authorized::Caller(_)));
    let administration = hub.administration();
    let operator = administration.operator();
    administration.quarantine(&operator, "ada", "rivers").unwrap();
    assert_eq!(asked("cloned"), Authorized::Withheld);
    assert!(matches!(asked("empty"), Authorized::Caller(_)));
    administration.release(&operator, "ada", "rivers").unwrap();
    assert!(matches!(asked("cloned"), Authorized::Caller(_)));
    administration.suspend(&operator, "ada").unwrap();
    assert_eq!(asked("cloned"), Authorized::BadToken);
    administration.resume(&operator, "ada").unwrap();
    assert!(matches!(asked("cloned"), Authorized::Caller(_)));
}

fn log(yard: &DeploymentsHarness, name: &str) -> Vec<String> {
    let window =
        branchyard_deployments::LogWindow { instance: None, since: None, until: None, from: None, limit: 1_000 };
    let found = yard.fake.deployments.logs(&yard.access(name), &window).unwrap();
    found.lines.into_iter().map(|line| line.text).collect()
}

#[test]
fn settings_that_were_read_before_a_change_do_not_undo_it() {
    let yard = DeploymentsHarness::new();
    let id = yard.started("gauges");
    let access = yard.access("gauges");
    // The setting changes after the periodic push has read the old ones, and before it reaches the process.
    let deployments = yard.fake.deployments.clone();
    yard.fake.provisioner.before_apply(move || {
        let read_only = vec![("behavior_read_only".to_owned(), Some("true".to_owned()))];
        deployments.set(&access, read_only, None).unwrap();
    });
    yard.pass(10_000);
    yard.fake.deployments.supervisor().step(id, Duration::ZERO).unwrap();
    assert!(yard.fake.provisioner.running()[0].1.flag(Setting::BehaviorReadOnly));
    yard.pass(10_000);
    yard.settle(id);
    let applied = yard.fake.provisioner.applied(yard.instance("gauges"));
    let read_only: Vec<bool> = applied.iter().map(|settings| settings.flag(Setting::BehaviorReadOnly)).collect();
    assert_eq!(read_only, [false, true, true], "when it became ready, the change, and the next push");
}

#[test]
fn data_that_is_missing_at_a_start_is_waited_for_and_nothing_is_removed() {
    let yard = DeploymentsHarness::new();
    let id = yard.started("gauges");
    let instance = yard.instance("gauges");
    yard.fake.deployments.supervisor().rest(id, false).unwrap();
    yard.fake.provisioner.unmount(true);
    for _ in 0..3 {
        yard.settle(id);
        let view = yard.view("gauges");
        assert_eq!((view.deployment.state, view.health()), (RunState::Starting, Health::Starting));
        let error = view.deployment.last_error.unwrap();
        assert!(error.contains("data of the instance is missing"), "{error}");
        assert_eq!((view.primary.restarts, view.primary.attempts.failed), (0, 0), "no attempt failed");
        assert!(yard.fake.provisioner.data(instance).is_some(), "nothing was removed");
        yard.pass(3_600_000);
    }
    assert!(yard.fake.deployments.backups(&yard.access("gauges")).unwrap().is_empty());
    let stepped = yard.fake.deployments.supervisor().step(id, Duration::ZERO).unwrap();
    assert!(matches!(stepped.next, Next::In(wait) if wait <= Duration::from_secs(10)), "{stepped:?}");
    assert_eq!(stepped.warning, None, "the operator was told once");
    yard.fake.provisioner.unmount(false);
    yard.settle(id);
    let view = yard.view("gauges");
    assert_eq!((view.deployment.state, view.deployment.last_error), (RunState::Started, None));
    assert_eq!(view.primary.id, instance);
}

#[test]
fn a_shutdown_without_its_data_waits_for_it_too() {
    let yard = DeploymentsHarness::new();
    let id = yard.started("gauges");
    yard.fake.provisioner.unmount(true);
    yard.fake.deployments.disable(&yard.access("gauges"), None).unwrap();
    yard.settle(id);
    let view = yard.view("gauges");
    assert_eq!(view.deployment.state, RunState::Stopping);
    assert!(view.deployment.last_error.unwrap().starts_with("the final backup failed: the data"));
    yard.fake.provisioner.unmount(false);
    yard.pass(5_000);
    yard.settle(id);
    assert_eq!(yard.view("gauges").deployment.state, RunState::Stopped);
    assert_eq!(yard.fake.deployments.backups(&yard.access("gauges")).unwrap().len(), 1);
}

#[test]
fn data_whose_final_backup_fails_goes_at_its_owners_word_only() {
    let yard = DeploymentsHarness::new();
    let id = yard.started("gauges");
    let bob = DeploymentsHarness::person(&yard.fake, "bob");
    yard.fake.deployments.put_collaborator(&yard.access("gauges"), &bob, DeploymentRole::Admin).unwrap();
    let of_bob: DeploymentAccess<Manage> =
        yard.fake.deployments.access(&Caller::User(Arc::clone(&bob)), "ada", "gauges").unwrap();
    yard.fake.provisioner.refuse_snapshot(Some("the copy is damaged"));
    yard.fake.deployments.disable(&of_bob, None).unwrap();
    yard.settle(id);
    let first = yard.instance("gauges");
    let discard = |access: &DeploymentAccess<Manage>, confirm: &str| {
        yard.fake.deployments.discard(access, confirm, None).map(|deployment| deployment.state)
    };
    assert!(matches!(discard(&of_bob, "gauges"), Err(DeploymentError::OwnerOnly)));
    assert!(!yard.fake.deployments.may_discard(&of_bob).unwrap());
    let access = yard.access("gauges");
    for wrong in ["", "Gauges", "ada/gauges"] {
        assert!(matches!(discard(&access, wrong), Err(DeploymentError::Unconfirmed(_))), "{wrong}");
    }
    assert!(yard.fake.provisioner.data(first).is_some(), "the data stays");
    assert_eq!(discard(&access, "gauges").unwrap(), RunState::Stopping);
    yard.settle(id);
    let view = yard.view("gauges");
    assert_eq!((view.deployment.state, view.hourly_cost), (RunState::Stopped, Usd::ZERO));
    assert_eq!(view.deployment.disabled.unwrap().1.as_str(), "bob", "the shutdown was another user's");
    assert!(yard.fake.provisioner.data(first).is_none());
    assert!(yard.fake.deployments.backups(&access).unwrap().is_empty());
    assert!(log(&yard, "gauges").contains(&"WARN discarded event=data_discarded by=ada".to_owned()));
    assert!(matches!(discard(&access, "gauges"), Err(DeploymentError::Unprocessable(_))));
    // It starts again, empty.
    yard.fake.provisioner.refuse_snapshot(None);
    yard.fake.deployments.start(&access, &small(None), None).unwrap();
    yard.settle(id);
    assert_eq!(yard.view("gauges").deployment.state, RunState::Started);
}

#[test]
fn a_running_deployment_is_shut_down_without_a_backup_by_an_owner_of_its_organization() {
    use branchyard_domain::access::Own;
    use branchyard_domain::entities::MemberRole;
    use branchyard_domain::usecases::NewOrganization;
    let yard = DeploymentsHarness::new();
    let name = OwnerName::parse("hydro").unwrap();
    yard.fake.hub.organizations().create(&yard.ada, NewOrganization::named(name), None).unwrap();
    let own = yard.fake.hub.organizations().access::<Own>(&Caller::User(Arc::clone(&yard.ada)), "hydro").unwrap();
    let bob = DeploymentsHarness::person(&yard.fake, "bob");
    yard.fake.hub.members().put(&own, &bob, MemberRole::Member).unwrap();
    let wanted = NewDeployment { owner: "hydro".to_owned(), ..wanted("gauges", "small", 10) };
    let id = yard.create(wanted).unwrap().deployment.id;
    yard.settle(id);
    let access = |user: &Arc<User>| {
        yard.fake.deployments.access::<Manage>(&Caller::User(Arc::clone(user)), "hydro", "gauges").unwrap()
    };
    yard.fake.deployments.put_collaborator(&access(&yard.ada), &bob, DeploymentRole::Admin).unwrap();
    let refused = yard.fake.deployments.discard(&access(&bob), "gauges", None);
    assert!(matches!(refused, Err(DeploymentError::OwnerOnly)), "{refused:?}");
    let operation = yard.fake.deployments.back_up(&access(&yard.ada), None).unwrap();
    yard.fake.deployments.discard(&access(&yard.ada), "gauges", None).unwrap();
    yard.settle(id);
    let view = yard.fake.deployments.get(&access(&yard.ada)).unwrap();
    assert_eq!(view.deployment.state, RunState::Stopped);
    assert_eq!(view.deployment.disabled.unwrap().1.as_str(), "ada");
    assert!(yard.fake.deployments.backups(&access(&yard.ada)).unwrap().is_empty());
    let operation = yard.fake.deployments.operation(&yard.ada, &operation.id.to_string()).unwrap();
    assert!(matches!(operation.progress, DeploymentProgress::Failed(_)), "{operation:?}");
}

#[test]
fn a_backup_that_fails_after_the_data_was_discarded_does_not_bring_the_wait_back() {
    let yard = DeploymentsHarness::new();
    let id = yard.started("gauges");
    let (deployments, access) = (yard.fake.deployments.clone(), yard.access("gauges"));
    yard.fake.provisioner.refuse_snapshot(Some("the copy is damaged"));
    yard.fake.provisioner.before_snapshot(move || {
        deployments.discard(&access, "gauges", None).unwrap();
    });
    yard.fake.deployments.disable(&yard.access("gauges"), None).unwrap();
    yard.settle(id);
    assert_eq!(yard.view("gauges").deployment.state, RunState::Stopped);
}

#[test]
fn a_crash_loop_is_a_line_of_the_log_once() {
    let yard = DeploymentsHarness::new();
    yard.fake.provisioner.never_ready(true);
    let id = yard.create(wanted("gauges", "small", 10)).unwrap().deployment.id;
    for _ in 0..60 {
        yard.settle(id);
        yard.pass(1_000);
    }
    let looping: Vec<String> =
        log(&yard, "gauges").into_iter().filter(|line| line.contains("event=crash_loop")).collect();
    assert_eq!(looping, ["ERROR crash loop event=crash_loop error=exit status 1: cannot start"]);
}

#[test]
fn a_new_process_has_not_the_full_volume_of_the_one_before() {
    use branchyard_deployments::ports::InstanceEvent;
    let yard = DeploymentsHarness::new();
    let id = yard.started("gauges");
    yard.fake.provisioner.tell(yard.instance("gauges"), InstanceEvent::VolumeFull(true));
    yard.settle(id);
    assert_eq!(yard.view("gauges").health(), Health::DiskFull);
    yard.fake.provisioner.crash(yard.instance("gauges"));
    yard.settle(id);
    yard.pass(200);
    yard.settle(id);
    assert_eq!(yard.view("gauges").health(), Health::Ok);
}
