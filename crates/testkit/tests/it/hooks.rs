//! Webhooks over real sockets: what a receiver gets for a write, a branch and a pull request, and that a bad receiver affects no other.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use branchyard::config::{Config, Span};
use branchyard_testkit::{AMPLE, Actor, Received, Receiver, Server, wait_for, wait_until};
use serde_json::{Value, json};

const H: &str = "/databases/ada/rivers/hooks";

fn near(config: &mut Config) {
    config.hooks.allowed_cidrs = vec!["127.0.0.0/8".to_owned()];
}

fn start(change: impl FnOnce(&mut Config)) -> (Server, Actor) {
    let server = Server::start_with(|config| {
        near(config);
        change(config);
    });
    let ada = server.user("ada");
    ada.database("rivers");
    (server, ada)
}

fn register(ada: &Actor, url: &str, events: &[&str]) -> Value {
    ada.post(H, &json!({"url": url, "events": events})).expect(201).data()
}

fn branch(ada: &Actor, name: &str) {
    let body = json!({"name": name, "from": {"branch": "main"}});
    ada.post("/databases/ada/rivers/branches", &body).expect(201);
}

fn verified(received: &Received, secret: &Value) -> bool {
    let mut headers = http::HeaderMap::new();
    for (name, value) in &received.headers {
        headers.insert(
            http::HeaderName::from_bytes(name.as_bytes()).unwrap(),
            http::HeaderValue::from_str(value).unwrap(),
        );
    }
    let webhook = standardwebhooks::Webhook::new(secret.as_str().unwrap()).unwrap();
    webhook.verify(received.body.as_bytes(), &headers).is_ok()
}

/// Waits until the newest delivery of a hook is over, and returns it.
fn settled(ada: &Actor, hook: &Value) -> Value {
    let path = format!("{H}/{}/deliveries", hook["id"].as_str().unwrap());
    let newest = wait_for("the end of the delivery", AMPLE, || {
        let newest = ada.get(&path).expect(200).data()[0].clone();
        if newest["status"] == "delivered" || newest["status"] == "failed" { Ok(newest) } else { Err(newest) }
    });
    ada.get(&format!("{path}/{}", newest["id"].as_str().unwrap())).expect(200).data()
}

#[test]
fn a_write_on_a_new_branch_is_delivered_and_signed() {
    let (_server, ada) = start(|_| {});
    let receiver = Receiver::start();
    let hook = register(&ada, &receiver.url(), &["on_push", "on_branch", "on_pull_request"]);
    let head = ada.write("ada/rivers", "main", "create table t (x)");
    receiver.wait_for(1);
    let body = json!({"from_branch": "main", "to_branch": "work", "q": "insert into t values (1)"});
    let written = ada.finish(&ada.post("/databases/ada/rivers/sql-writes", &body));
    let received = receiver.wait_for(3);
    assert_eq!(
        received[1].body,
        r#"{"event_name":"branch","repository":{"name":"rivers","owner":"ada"},"branch":"work","ref":"refs/heads/work","action":"Created branch"}"#
    );
    let push = received[2].json();
    assert_eq!(push["ref"], "refs/heads/work");
    assert_eq!((&push["prev"], &push["head"]), (&json!(head), &written["result"]["commit_sha"]));
    assert!(received.iter().all(|received| verified(received, &hook["secret"])));
    let ids: Vec<&str> = received.iter().map(|received| received.header("webhook-id")).collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    let log = settled(&ada, &hook);
    assert_eq!((&log["status"], &log["id"]), (&json!("delivered"), &json!(ids[2])));
    assert_eq!(log["request"]["body"], received[2].body.as_str());
    assert_eq!(log["attempts"][0]["id"], received[2].header("x-branchyard-delivery"));
    assert!(!log.to_string().contains("whsec_"));

    let rotated = ada.post(&format!("{H}/{}/rotate-secret", hook["id"].as_str().unwrap()), &json!({}));
    let rotated = rotated.expect(200).data();
    branch(&ada, "other");
    let told = receiver.wait_for(4).pop().unwrap();
    assert!(verified(&told, &hook["secret"]) && verified(&told, &rotated["secret"]), "both for a day");
}

#[test]
fn failures_are_tried_again_and_the_log_says_why() {
    let (_server, ada) = start(|config| config.hooks.retry_delays_ms = vec![0, 50, 50]);
    let flaky = Receiver::with(|n| Some([500, 302, 204][n.min(2)]));
    let hook = register(&ada, &flaky.url(), &["on_branch"]);
    branch(&ada, "a");
    let received = flaky.wait_for(3);
    let log = settled(&ada, &hook);
    assert_eq!((&log["status"], &log["attempt_count"]), (&json!("delivered"), &json!(3)));
    let attempts = log["attempts"].as_array().unwrap();
    assert_eq!((&attempts[0]["response_status"], attempts[0].get("error")), (&json!(500), None));
    assert_eq!((&attempts[1]["response_status"], &attempts[1]["error"]), (&json!(302), &json!("redirect")));
    let ids: BTreeSet<&str> = received.iter().map(|received| received.header("webhook-id")).collect();
    let attempts: BTreeSet<&str> = received.iter().map(|received| received.header("x-branchyard-delivery")).collect();
    let bodies: BTreeSet<&str> = received.iter().map(|received| received.body.as_str()).collect();
    assert_eq!((ids.len(), attempts.len(), bodies.len()), (1, 3, 1));

    let broken = Receiver::with(|_| Some(503));
    let hook = register(&ada, &broken.url(), &["on_branch"]);
    branch(&ada, "b");
    broken.wait_for(3);
    assert_eq!(settled(&ada, &hook)["status"], "failed");
    let gone = Receiver::with(|_| Some(410));
    let hook = register(&ada, &gone.url(), &["on_branch"]);
    branch(&ada, "c");
    gone.wait_for(1);
    assert_eq!(settled(&ada, &hook)["attempt_count"], 1);
    let hook = ada.get(&format!("{H}/{}", hook["id"].as_str().unwrap())).expect(200).data();
    assert_eq!((&hook["active"], &hook["disabled_reason"]), (&json!(false), &json!("gone")));
}

/// There are no more permits than silent hooks. Hooks that have failed may hold only half of the permits.
#[test]
fn a_receiver_that_never_answers_delays_no_other() {
    let (server, ada) = start(|config| {
        config.hooks.concurrency = 4;
        config.hooks.timeout_ms = 120_000;
        config.hooks.retry_delays_ms = vec![0; 20];
    });
    let silent: Vec<Receiver> = (0..4).map(|_| Receiver::with(|n| (n == 0).then_some(500))).collect();
    let logs: Vec<String> = silent
        .iter()
        .map(|receiver| {
            format!("{H}/{}/deliveries", register(&ada, &receiver.url(), &["on_branch"])["id"].as_str().unwrap())
        })
        .collect();
    branch(&ada, "a");
    silent.iter().for_each(|receiver| drop(receiver.wait_for(1)));
    let in_flight = || silent.iter().filter(|receiver| receiver.received().len() == 2).count();
    wait_until("two attempts without an answer", AMPLE, || in_flight() == 2);
    let quick = Receiver::start();
    let hook = register(&ada, &quick.url(), &["on_branch"]);
    for n in 0..5 {
        branch(&ada, &format!("b{n}"));
        quick.wait_for(n + 1);
    }
    assert_eq!(settled(&ada, &hook)["status"], "delivered");
    for log in &logs {
        // The log is newest first, and the deliveries of the other branches come before this one.
        let first = &ada.get(log).expect(200).data()[5];
        assert_eq!(
            (&first["status"], &first["attempt_count"]),
            (&json!("pending"), &json!(1)),
            "still in flight or due"
        );
    }
    assert_eq!(in_flight(), 2);
    // Attempts in progress would last until they time out.
    server.hub().dispatch().abort();
}

/// Each hook would have 20 more attempts, without a pause between them.
#[test]
fn stopping_waits_for_attempts_in_progress_and_not_for_due_ones() {
    let (server, ada) = start(|config| {
        config.hooks.concurrency = 4;
        config.hooks.timeout_ms = 1_000;
        config.hooks.retry_delays_ms = vec![0; 20];
    });
    let silent = Receiver::with(|_| None);
    for _ in 0..4 {
        register(&ada, &silent.url(), &["on_branch"]);
    }
    branch(&ada, "a");
    let before = silent.wait_for(2).len();
    drop(server);
    let after = silent.received().len();
    assert!(after <= before + 4, "{after} attempts, {before} before the stop");
}

/// The attempt could last two minutes, and its lease longer.
#[test]
fn an_attempt_that_is_cut_off_by_a_stop_is_made_again_at_the_next_start() {
    let (mut server, ada) = start(|config| {
        config.hooks.timeout_ms = 120_000;
        config.hooks.shutdown_grace = Span::seconds(1);
        config.server.shutdown_grace = Span::seconds(60);
    });
    let silent = Receiver::with(|n| (n > 0).then_some(204));
    let hook = register(&ada, &silent.url(), &["on_branch"]);
    branch(&ada, "a");
    silent.wait_for(1);
    let begun = Instant::now();
    server.restart();
    let took = begun.elapsed();
    assert!((Duration::from_secs(1)..Duration::from_secs(30)).contains(&took), "{took:?}");
    let ada = server.again(&ada);
    let received = silent.wait_for(2);
    assert_eq!(received[0].header("webhook-id"), received[1].header("webhook-id"));
    let log = settled(&ada, &hook);
    assert_eq!(
        (&log["status"], &log["attempt_count"]),
        (&json!("delivered"), &json!(1)),
        "what was cut off does not count"
    );
}

#[test]
fn an_attempt_that_ends_within_the_grace_counts() {
    let (mut server, ada) = start(|config| {
        config.hooks.timeout_ms = 120_000;
        config.hooks.shutdown_grace = Span::seconds(60);
    });
    let slow = Receiver::with(|_| {
        std::thread::sleep(Duration::from_secs(1));
        Some(204)
    });
    let hook = register(&ada, &slow.url(), &["on_branch"]);
    branch(&ada, "a");
    slow.wait_for(1);
    server.restart();
    let log = settled(&server.again(&ada), &hook);
    assert_eq!((&log["status"], &log["attempt_count"]), (&json!("delivered"), &json!(1)));
    assert_eq!(slow.received().len(), 1);
}

#[test]
fn what_is_due_survives_a_restart() {
    let (mut server, ada) = start(|config| config.hooks.retry_delays_ms = vec![0, 1_500]);
    let receiver = Receiver::with(|n| Some(if n == 0 { 500 } else { 204 }));
    let hook = register(&ada, &receiver.url(), &["on_branch"]);
    branch(&ada, "a");
    receiver.wait_for(1);
    server.restart();
    let ada = server.again(&ada);
    assert_eq!(receiver.wait_for(2)[1].header("webhook-id"), receiver.received()[0].header("webhook-id"));
    assert_eq!(settled(&ada, &hook)["status"], "delivered");
}

/// Two processes share one metadata store, and each has its own data folder.
#[test]
fn two_servers_make_no_attempt_twice() {
    const BRANCHES: usize = 60;
    let store = tempfile::tempdir().unwrap();
    let url = store.path().join("metadata.sqlite").to_str().unwrap().to_owned();
    let (first, ada) = start(|config| config.metadata_url = Some(url.clone()));
    let key = std::fs::read(first.dir.path().join("data/server.key")).unwrap();
    let second = Server::start_with(|config| {
        near(config);
        config.metadata_url = Some(url.clone());
        std::fs::create_dir_all(&config.data_dir).unwrap();
        std::fs::write(config.data_dir.join("server.key"), &key).unwrap();
    });
    let receivers = [Receiver::start(), Receiver::start(), Receiver::start()];
    for receiver in &receivers {
        register(&ada, &receiver.url(), &["on_branch"]);
    }
    for n in 0..BRANCHES {
        branch(&ada, &format!("b{n}"));
    }
    for receiver in &receivers {
        receiver.wait_for(BRANCHES);
    }
    std::thread::sleep(Duration::from_millis(500));
    for receiver in &receivers {
        let received = receiver.received();
        let ids: Vec<&str> = received.iter().map(|received| received.header("webhook-id")).collect();
        assert_eq!(ids.len(), BRANCHES);
        assert!(ids.is_sorted_by(|a, b| a < b), "in order, each once");
    }
    drop((first, second));
}

#[test]
fn a_name_that_does_not_resolve_is_refused_without_encryption_only() {
    let (_server, ada) = start(|_| {});
    let refused = ada.post(H, &json!({"url": "http://nothing.invalid/"})).expect(400).text;
    assert!(refused.contains("nothing.invalid does not resolve"), "{refused}");
    register(&ada, "https://nothing.invalid/", &["on_push"]);
    let hook = register(&ada, "https://a!b.invalid/a|b?%zz", &["on_push"]);
    assert_eq!(hook["url"], "https://a!b.invalid/a|b?%zz");
}

#[test]
fn addresses_near_the_server_are_refused_unless_opened() {
    let server = Server::start();
    let ada = server.user("ada");
    ada.database("rivers");
    for (url, status) in [
        ("http://127.0.0.1/", 400),
        ("https://127.0.0.1/", 422),
        ("https://0x7f.1/", 422),
        ("https://[::ffff:127.0.0.1]/", 422),
        ("https://user@ci.test/", 400),
        ("http://nothing.invalid/", 400),
        ("https://nothing.invalid/", 201),
    ] {
        assert_eq!(ada.post(H, &json!({"url": url})).status, status, "{url}");
    }
    let refused = ada.post(H, &json!({"url": "https://224.0.0.1/"})).expect(422).text;
    assert!(refused.contains("multicast addresses (224.0.0.0/4) are never allowed"), "{refused}");
    // A host name is not resolved at registration, but before each attempt.
    let receiver = Receiver::start();
    let port = receiver.url().rsplit(':').next().unwrap().to_owned();
    let hook = register(&ada, &format!("https://localhost:{port}"), &["on_branch"]);
    let ping = ada.post(&format!("{H}/{}/ping", hook["id"].as_str().unwrap()), &json!({}));
    ping.expect(201);
    assert_eq!(settled(&ada, &hook)["attempts"][0]["error"], "blocked_address");
    assert!(receiver.received().is_empty());
}
