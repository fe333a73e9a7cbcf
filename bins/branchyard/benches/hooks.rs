//! Delivery beside a plain loop that posts the same bodies to the same receiver in the same run, and the memory that a long queue takes.
//!
//! `cargo bench -p branchyard --bench hooks [-- --hooks 1000 --events 1000 --pending 100000]`
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a bench prints, and stops where it fails"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use branchyard::compose::{Pending, Stores, World};
use branchyard::config::Config;
use branchyard::serve::Running;
use branchyard_domain::Hub;
use branchyard_domain::access::{Admin, Caller, Write};
use branchyard_domain::entities::{Delivery, DeliveryStatus, EventName, HookEvent, User, Visibility};
use branchyard_domain::ports::Metadata as _;
use branchyard_domain::usecases::{NewBranch, NewDatabase, NewHook, NewUser};
use branchyard_domain::values::{DatabaseName, DeliveryId, EventId, HookId, OwnerName, RefName, Revision};
use branchyard_testkit::{Received, Receiver};

/// As many as the server makes at once by default.
const AT_ONCE: usize = 64;

fn main() {
    let (hooks, events, pending) = (flag("--hooks", 1_000), flag("--events", 1_000), flag("--pending", 100_000));
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config { data_dir: dir.path().to_owned(), listen: "127.0.0.1:0".to_owned(), ..Config::default() };
    config.hooks.allowed_cidrs = vec!["127.0.0.0/8".to_owned()];
    config.hooks.max_per_database = 100_000;
    let ada = Arc::new(person(&config));
    one_event_to_many(&config, &ada, hooks);
    many_events_to_one(&config, &ada, events);
    long_queue(&config, &ada, pending);
}

fn flag(name: &str, default: usize) -> usize {
    let mut args = std::env::args().skip_while(|arg| arg != name);
    args.nth(1).map_or(default, |value| value.parse().expect("a number"))
}

fn stores(config: &Config) -> Stores {
    Stores::open(config, &World::default(), Pending::Migrate).unwrap()
}

fn person(config: &Config) -> User {
    let wanted = NewUser {
        name: OwnerName::parse("ada").unwrap(),
        email: "ada@example.test".to_owned(),
        display_name: None,
        password: None,
        is_admin: false,
    };
    stores(config).hub.people().create_user(wanted).unwrap()
}

fn database(hub: &Hub, ada: &User, name: &str) {
    let wanted = NewDatabase {
        owner: "ada".to_owned(),
        name: DatabaseName::parse(name).unwrap(),
        visibility: Visibility::Public,
        description: None,
        default_branch: None,
    };
    hub.databases().create(ada, wanted, None).unwrap();
}

fn hook(hub: &Hub, ada: &Arc<User>, name: &str, url: String) -> HookId {
    let access = hub.databases().access::<Admin>(&Caller::User(Arc::clone(ada)), "ada", name).unwrap();
    let wanted = NewHook { url, events: [HookEvent::Branch].into(), active: true };
    hub.hooks().create(&access, wanted, None).unwrap().view.hook.id
}

fn branch(hub: &Hub, ada: &Arc<User>, name: &str, number: usize) {
    let access = hub.databases().access::<Write>(&Caller::User(Arc::clone(ada)), "ada", name).unwrap();
    let branch = RefName::parse(&format!("b{number:06}")).unwrap();
    let wanted = NewBranch { name: branch, from: Revision::Branch("main".to_owned()) };
    hub.branches().create(&access, wanted, None).unwrap();
}

fn start(config: &Config) -> Running {
    Running::start(config, &World::default(), Pending::Refuse).unwrap()
}

/// Posts bodies to a receiver, so many at a time, each over a new connection as hooks are; gives how long it took.
fn plain(bodies: &[Received], url: &str, at_once: usize) -> Duration {
    let client = reqwest::blocking::Client::builder().no_proxy().pool_max_idle_per_host(0).build().unwrap();
    let next = AtomicUsize::new(0);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(received) = bodies.get(next.fetch_add(1, Ordering::SeqCst)) {
                    client.post(url).body(received.body.clone()).send().unwrap();
                }
            });
        }
    });
    began.elapsed()
}

fn one_event_to_many(config: &Config, ada: &Arc<User>, hooks: usize) {
    let receiver = Receiver::start();
    let running = start(config);
    database(&running.hub, ada, "wide");
    for _ in 0..hooks {
        hook(&running.hub, ada, "wide", receiver.url());
    }
    branch(&running.hub, ada, "wide", 0);
    let committed = Instant::now();
    let received = receiver.wait_for(hooks);
    let (first, last) = (received[0].at - committed, received[hooks - 1].at - committed);
    running.stop().unwrap();
    let loop_time = plain(&received, &receiver.url(), AT_ONCE);
    println!(
        "{hooks} hooks, one event: first attempt after {first:.0?}, last after {last:.0?}; the loop {loop_time:.0?}; ratio {:.2}",
        last.as_secs_f64() / loop_time.as_secs_f64()
    );
}

fn many_events_to_one(config: &Config, ada: &Arc<User>, events: usize) {
    let receiver = Receiver::start();
    let opened = stores(config);
    database(&opened.hub, ada, "busy");
    hook(&opened.hub, ada, "busy", receiver.url());
    (0..events).for_each(|number| branch(&opened.hub, ada, "busy", number));
    drop(opened);
    let running = start(config);
    let received = receiver.wait_for(events);
    let time = received[events - 1].at - received[0].at;
    running.stop().unwrap();
    let loop_time = plain(&received, &receiver.url(), 1);
    let rate = |time: Duration| events as f64 / time.as_secs_f64();
    println!(
        "one hook, {events} events: {:.0} a second; the loop {:.0}; ratio {:.2}",
        rate(time),
        rate(loop_time),
        time.as_secs_f64() / loop_time.as_secs_f64()
    );
}

/// Deliveries that are all due, to a port where nobody listens.
fn long_queue(config: &Config, ada: &Arc<User>, pending: usize) {
    let opened = stores(config);
    database(&opened.hub, ada, "long");
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let hook_id = hook(&opened.hub, ada, "long", format!("http://{nobody}/"));
    branch(&opened.hub, ada, "long", 0);
    while !opened.hub.dispatch().fan_out().unwrap().is_empty() {}
    let now = opened.hub.now();
    let event_id: EventId = opened.metadata.read().unwrap().delivery_list(hook_id, None, None, 1).unwrap()[0].event_id;
    for batch in 0..pending.div_ceil(1_000) {
        let mut unit = opened.metadata.write().unwrap();
        for _ in 0..1_000.min(pending - batch * 1_000) {
            let delivery = Delivery {
                id: DeliveryId::from_uuid(opened.hub.fresh_id()),
                hook_id,
                event_id,
                event: EventName::Branch,
                status: DeliveryStatus::Pending { next_attempt_at: now },
                created_at: now,
                attempt_count: 0,
                run_attempts: 0,
            };
            unit.delivery_add(&[delivery]).unwrap();
        }
        unit.save().unwrap();
    }
    drop(opened);
    let running = start(config);
    std::thread::sleep(Duration::from_millis(500));
    let before = resident_kib();
    std::thread::sleep(Duration::from_secs(10));
    println!(
        "{pending} pending deliveries: {before} KiB at the start, {} KiB ten seconds of attempts later",
        resident_kib()
    );
    running.stop().unwrap();
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
