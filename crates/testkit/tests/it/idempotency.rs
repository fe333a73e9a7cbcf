//! Idempotency keys across threads and restarts.

use std::sync::Arc;

use branchyard_domain::values::Timestamp;
use branchyard_domain_testing::fakes::FixedClock;
use branchyard_testkit::{Actor, Server, TestAnswer};
use reqwest::Method;
use serde_json::json;

/// How long an answer is kept, by default.
const HOURS: i64 = 24;

fn create(who: &Actor, name: &str, key: &str) -> TestAnswer {
    let body = json!({"owner": "ada", "name": name, "visibility": "public"});
    who.send(who.request(Method::POST, "/databases").header("Idempotency-Key", key).json(&body))
}

#[test]
fn a_saved_answer_survives_a_restart() {
    let mut server = Server::start();
    let ada = server.user("ada");
    let first = create(&ada, "rivers", "k").expect(201);
    server.restart();
    let ada = server.again(&ada);
    let second = create(&ada, "rivers", "k").expect(201);
    assert_eq!(second.header("idempotent-replayed"), "true");
    assert_eq!((second.data(), second.header("etag")), (first.data(), first.header("etag")));
    assert_eq!(create(&ada, "lakes", "k").status, 422);
}

#[test]
fn a_saved_answer_is_forgotten_after_its_time() {
    let clock = Arc::new(FixedClock::at(Timestamp::from_seconds(1_788_523_200)));
    let server = Server::with_clock(Arc::clone(&clock));
    let ada = server.user("ada");
    create(&ada, "rivers", "k").expect(201);
    clock.advance_seconds(HOURS * 3_600 - 1);
    assert_eq!(create(&ada, "rivers", "k").expect(201).header("idempotent-replayed"), "true");
    clock.advance_seconds(2);
    create(&ada, "rivers", "k").expect(409);
    create(&ada, "lakes", "k").expect(201);
}

#[test]
fn of_many_at_once_one_has_the_effect() {
    let server = Server::start();
    let ada = server.user("ada");
    let answers: Vec<TestAnswer> = std::thread::scope(|scope| {
        let sent: Vec<_> = (0..8).map(|_| scope.spawn(|| create(&ada, "rivers", "k"))).collect();
        sent.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let fresh = answers.iter().filter(|answer| answer.status == 201 && answer.header("idempotent-replayed").is_empty());
    assert_eq!(fresh.count(), 1);
    for answer in &answers {
        match answer.status {
            201 => {}
            409 => assert_eq!((answer.code().as_str(), answer.header("retry-after")), ("CONFLICT", "1")),
            other => panic!("{other}: {}", answer.text),
        }
    }
}
