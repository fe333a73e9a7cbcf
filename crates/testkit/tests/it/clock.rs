//! A clock that is set back while the server is down.

use std::sync::Arc;

use branchyard_domain::ports::Clock as _;
use branchyard_domain::values::Timestamp;
use branchyard_domain_testing::fakes::FixedClock;
use branchyard_testkit::Server;
use serde_json::json;

#[test]
fn time_goes_on_from_the_newest_record_unless_that_is_more_than_a_day_ahead() {
    let clock = Arc::new(FixedClock::default());
    let mut server = Server::with_clock(Arc::clone(&clock));
    let ada = server.user("ada");
    ada.database("rivers");
    ada.write("ada/rivers", "main", "CREATE TABLE t(a)");
    let written = clock.now();

    clock.advance_seconds(-3_600);
    server.restart();
    assert_eq!(clock.now(), written, "an hour is made up for");
    let ada = server.again(&ada);
    ada.write("ada/rivers", "main", "INSERT INTO t VALUES (1)");
    let order = ada.get("/databases/ada/rivers/operations").expect(200).data();
    assert_eq!(order[0]["created_at"], order[1]["created_at"], "as if no time had passed: {order}");

    let wrong: Timestamp = written.plus_seconds(-86_401);
    clock.set(wrong);
    server.restart();
    assert_eq!(clock.now(), wrong, "what is further ahead was wrong");
    let body = json!({"name": "other", "from": {"branch": "main"}});
    server.again(&ada).post("/databases/ada/rivers/branches", &body).expect(201);
}
