//! Webhook delivery, compared with a plain loop that posts the same bodies to the same receiver; and the memory that a long queue
//! takes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use branchyard::compose::Stores;
use branchyard_domain::access::{Caller, Write};
use branchyard_domain::entities::{Delivery, DeliveryStatus, EventName};
use branchyard_domain::ports::{Durability, Metadata as _, WriteKeys};
use branchyard_domain::usecases::NewBranch;
use branchyard_domain::values::{DeliveryId, HookId, RefName, Revision};
use branchyard_testkit::{Actor, Received, Receiver};
use serde_json::json;

use crate::flags::Flags;
use crate::harness::{BenchHarness, Server};
use crate::report::{Aim, Row};
use crate::slices::alternate;

/// The server's default number of concurrent attempts.
const AT_ONCE: usize = 64;

pub(crate) fn run(flags: &Flags) -> Vec<Row> {
    vec![one_event_to_many(flags), many_events_to_one(flags), long_queue(flags)]
}

fn start(harness: &BenchHarness) -> Server {
    let (networks, room) = (("HOOKS__ALLOWED_CIDRS", "127.0.0.0/8"), ("HOOKS__MAX_PER_DATABASE", "100000"));
    harness.start_with(&[networks, room, ("RATE_LIMIT__ENABLED", "false")])
}

fn hook(bench: &Actor, database: &str, url: &str) -> HookId {
    let body = json!({"url": url, "events": ["on_branch"]});
    let hook = bench.post(&format!("/databases/bench/{database}/hooks"), &body).expect(201).data();
    hook["id"].as_str().and_then(|id| id.parse().ok()).map(HookId::from_uuid).unwrap()
}

#[expect(clippy::cast_precision_loss, reason = "a count of requests is far below 2^53")]
fn per_second(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

/// Posts bodies to a receiver with `at_once` concurrent requests, each on a new connection as in webhook delivery. Returns the
/// number of requests per second.
fn plain(bodies: &[Received], url: &str, at_once: usize) -> f64 {
    let client = reqwest::blocking::Client::builder().no_proxy().pool_max_idle_per_host(0).build().unwrap();
    let next = AtomicUsize::new(0);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(received) = bodies.get(next.fetch_add(1, Ordering::SeqCst)) {
                    client.post(url).body(received.body.clone()).send().unwrap().error_for_status().unwrap();
                }
            });
        }
    });
    per_second(bodies.len(), began.elapsed())
}

fn one_event_to_many(flags: &Flags) -> Row {
    let hooks = usize::try_from(flags.count("--hooks")).unwrap();
    let (harness, receiver, elsewhere) = (BenchHarness::new(), Receiver::start(), Receiver::start());
    let server = start(&harness);
    let bench = server.actor("bench", &harness.token);
    bench.database("wide");
    for _ in 0..hooks {
        hook(&bench, "wide", &receiver.url());
    }
    let mut events = 0;
    let product = || {
        events += 1;
        let branch = json!({"name": format!("b{events}"), "from": {"branch": "main"}});
        bench.post("/databases/bench/wide/branches", &branch).expect(201);
        let committed = Instant::now();
        let received = receiver.wait_for(hooks * events);
        per_second(hooks, received[hooks * events - 1].at - committed)
    };
    let mut bodies = Vec::new();
    let baseline = || {
        if bodies.is_empty() {
            bodies = receiver.received();
            bodies.truncate(hooks);
        }
        plain(&bodies, &elsewhere.url(), AT_ONCE)
    };
    let done = alternate(flags.count("--repeats"), product, baseline);
    let what = format!("first attempts of {hooks} hooks, one event");
    done.row("hooks, one event", what, "plain loop, 64 at once", "/s", Aim::AtLeast(0.85))
}

fn many_events_to_one(flags: &Flags) -> Row {
    let events = usize::try_from(flags.count("--hooks")).unwrap();
    let (harness, receiver, elsewhere) = (BenchHarness::new(), Receiver::start(), Receiver::start());
    let server = start(&harness);
    let bench = server.actor("bench", &harness.token);
    bench.database("busy");
    hook(&bench, "busy", &receiver.url());
    drop(server);
    let mut number = 0;
    let product = || {
        // The events exist before the server starts, so that creating them is not measured.
        let stores = harness.stores();
        (0..events).for_each(|event| branch(&stores, "busy", number * events + event));
        drop(stores);
        number += 1;
        let server = start(&harness);
        let received = receiver.wait_for(events * number);
        // Attempts that are not recorded yet would be made again by the next server.
        std::thread::sleep(Duration::from_millis(300));
        drop(server);
        per_second(events - 1, received[events * number - 1].at - received[events * (number - 1)].at)
    };
    let mut bodies = Vec::new();
    let baseline = || {
        if bodies.is_empty() {
            bodies = receiver.received();
            bodies.truncate(events);
        }
        plain(&bodies, &elsewhere.url(), 1)
    };
    let done = alternate(flags.count("--repeats").min(3), product, baseline);
    let what = format!("{events} events of one hook, in order");
    done.row("hooks, one hook", what, "plain loop, one at a time", "/s", Aim::AtLeast(0.8))
}

/// Measures the peak memory while many deliveries are due to a port that no process listens on.
fn long_queue(flags: &Flags) -> Row {
    let pending = flags.count("--pending");
    let harness = BenchHarness::new();
    let server = start(&harness);
    let bench = server.actor("bench", &harness.token);
    bench.database("long");
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let hook_id = hook(&bench, "long", &format!("http://{nobody}/"));
    drop(server);
    let stores = harness.stores();
    branch(&stores, "long", 0);
    while !stores.hub.dispatch().fan_out().unwrap().is_empty() {}
    let now = stores.hub.now();
    let event_id = stores.metadata.read().unwrap().deliveries().list(hook_id, None, None, 1).unwrap()[0].event_id;
    for batch in 0..pending.div_ceil(1_000) {
        let mut tx = stores.metadata.write(&WriteKeys::any()).unwrap();
        for _ in 0..1_000.min(pending - batch * 1_000) {
            let delivery = Delivery {
                id: DeliveryId::from_uuid(stores.hub.fresh_id()),
                hook_id,
                event_id,
                event: EventName::Branch,
                status: DeliveryStatus::Pending { next_attempt_at: now },
                created_at: now,
                attempt_count: 0,
                run_attempts: 0,
            };
            tx.deliveries().add(&[delivery]).unwrap();
        }
        tx.commit(Durability::Synced).unwrap();
    }
    drop(stores);
    let server = start(&harness);
    std::thread::sleep(Duration::from_millis(500));
    let before = server.memory();
    server.forget_peak();
    std::thread::sleep(Duration::from_secs_f64(flags.number("--overload-seconds") / 2.0));
    let what = format!("{pending} deliveries that are due: peak memory above the start's");
    Row::alone("hooks, long queue", what, server.peak() - before, "MiB", Aim::AtMost(64.0))
}

fn branch(stores: &Stores, database: &str, number: usize) {
    let bench = Caller::User(stores.hub.people().user_named("bench").unwrap().into());
    let access = stores.hub.databases().access::<Write>(&bench, "bench", database).unwrap();
    let name = RefName::parse(&format!("b{number:06}")).unwrap();
    stores.hub.branches().create(&access, NewBranch { name, from: Revision::Branch("main".to_owned()) }, None).unwrap();
}
