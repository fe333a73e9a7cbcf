use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::harness::ApiHarness;
use actix_web::rt::time::{sleep, timeout};
use actix_web::test::TestRequest;
use futures_util::future::{Either, select};
use serde_json::{Value, json};

/// Half of the longest wait that a request can ask for. Only a request that waits in vain takes so long.
const FAR_TOO_LONG: Duration = Duration::from_secs(10);

async fn accepted() -> (ApiHarness, String, String, String) {
    let world = ApiHarness::new();
    let (ada, bob) = (world.user("ada"), world.user("bob"));
    world.database(&ada, "ada", "rivers", "private").await;
    let body = json!({"from_branch": "main", "to_branch": "main", "q": "CREATE TABLE t(a INTEGER)"});
    let answer = world.post(Some(&ada), "/databases/ada/rivers/sql-writes", body).await.expect(202);
    assert_eq!(answer.header("retry-after"), "1");
    let (id, href) =
        (answer.data()["id"].as_str().unwrap().to_owned(), answer.data()["href"].as_str().unwrap().to_owned());
    assert_eq!(answer.header("location"), href);
    assert_eq!(href, format!("https://yard.test/api/v2/operations/{}", id.replace('/', "%2F")));
    (world, ada, bob, id)
}

#[actix_web::test]
async fn an_operation_has_four_spellings() {
    let (world, ada, bob, id) = accepted().await;
    let uuid = id.rsplit('/').next().unwrap();
    let encoded = id.replace('/', "%2F");
    let verbatim = format!("https://yard.test/api/v2/operations/{encoded}");
    let once_more = verbatim.replace('%', "%25").replace('/', "%2F").replace(':', "%3A");
    let upper_case = id.replace("ada/rivers", "ADA/Rivers");
    for spelling in [&encoded, &id, uuid, &verbatim, &once_more, &upper_case] {
        let answer = world.get(Some(&ada), &format!("/operations/{spelling}")).await.expect(200);
        assert_eq!(answer.data()["id"], id.as_str());
        assert_eq!(answer.header("retry-after"), "1");
        world.get(None, &format!("/operations/{spelling}")).await.refused(401, "UNAUTHENTICATED");
        world.get(Some(&bob), &format!("/operations/{spelling}")).await.refused(404, "NOT_FOUND");
    }
    for spelling in [format!("databases/ada/lakes/operations/{uuid}"), format!("{uuid}x"), "x".to_owned()] {
        world.get(Some(&ada), &format!("/operations/{spelling}")).await.refused(404, "NOT_FOUND");
    }
}

#[actix_web::test]
async fn an_operation_succeeds() {
    let (world, ada, _, id) = accepted().await;
    world.work();
    let answer = world.get(Some(&ada), &format!("/operations/{id}")).await.expect(200);
    assert_eq!(answer.header("retry-after"), "");
    let operation = answer.data();
    assert_eq!((&operation["type"], &operation["status"]), (&json!("sql_write"), &json!("succeeded")));
    assert_eq!((&operation["cancelable"], &operation["created_by"]), (&json!(false), &json!("ada")));
    assert!(operation.get("error").is_none());
    let head = world.get(Some(&ada), "/databases/ada/rivers/branches/main").await.data()["head_commit_sha"].clone();
    assert_eq!(operation["result"], json!({"commit_sha": head}));
    let path = "/databases/ada/rivers/operations";
    assert_eq!(
        world.get(Some(&ada), &format!("{path}?status=succeeded&type=sql_write")).await.data(),
        json!([operation])
    );
    assert_eq!(world.get(Some(&ada), &format!("{path}?type=dolt_ci")).await.data(), json!([]));
    assert_eq!(world.get(Some(&ada), &format!("{path}?status=failed")).await.data(), json!([]));
    world.get(Some(&ada), &format!("{path}?status=x")).await.refused_at(400, "status");
    world.get(None, path).await.refused(404, "NOT_FOUND");
}

#[actix_web::test]
async fn who_prefers_to_wait_is_answered_when_the_operation_has_ended() {
    let (world, ada, bob, id) = accepted().await;
    let path = format!("/operations/{id}");
    let waiting = |who| ApiHarness::request(Some(who), "GET", &path).insert_header(("Prefer", "wait=20"));
    let work = async {
        sleep(Duration::from_millis(100)).await;
        world.work();
    };
    let answered = timeout(FAR_TOO_LONG, futures_util::future::join(world.send(waiting(&ada)), work)).await;
    let (answer, ()) = answered.expect("an answer as soon as the operation ended");
    assert_eq!(answer.expect(200).data()["status"], "succeeded");
    // The operation has ended, so the request does not wait. Neither does a request of a caller that may not see the operation.
    let answer = timeout(FAR_TOO_LONG, world.send(waiting(&ada))).await;
    answer.expect("the operation has ended").expect(200);
    let answer = timeout(FAR_TOO_LONG, world.send(waiting(&bob))).await;
    answer.expect("the caller may not wait").refused(404, "NOT_FOUND");
}

#[actix_web::test]
async fn who_waits_in_vain_is_told_how_it_stands() {
    let (world, ada, _, id) = accepted().await;
    let request =
        ApiHarness::request(Some(&ada), "GET", &format!("/operations/{id}")).insert_header(("Prefer", "wait=1"));
    let (half, waiting) = (pin!(sleep(Duration::from_millis(500))), pin!(world.send(request)));
    let Either::Left(((), waiting)) = select(half, waiting).await else {
        panic!("the request did not wait");
    };
    let answer = waiting.await.expect(200);
    assert_eq!((answer.data()["status"].as_str(), answer.header("retry-after")), (Some("queued"), "1"));
}

/// Returns a write to `main` by SQL that prefers to wait.
fn waiting_write(token: &str, preference: &'static str, statements: &str) -> TestRequest {
    let body = json!({"from_branch": "main", "to_branch": "main", "q": statements});
    let request = ApiHarness::request(Some(token), "POST", "/databases/ada/rivers/sql-writes");
    request.insert_header(("Prefer", preference)).set_json(body)
}

#[actix_web::test]
async fn a_write_that_waits_is_answered_with_its_operation() {
    let (world, ada, _, _) = accepted().await;
    world.work();
    for (statements, preference, applied, status) in [
        ("INSERT INTO t VALUES (1)", "wait=20", "wait=20", "succeeded"),
        ("INSERT INTO t VALUES (2)", "respond-async, wait=99", "wait=20", "succeeded"),
        ("INSERT INTO nope VALUES (1)", "wait=15", "wait=15", "failed"),
    ] {
        let answer = timeout(FAR_TOO_LONG, world.send_and_work(waiting_write(&ada, preference, statements))).await;
        let answer = answer.expect("an answer as soon as the operation ended").expect(200);
        let operation = answer.data();
        assert_eq!((&operation["status"], answer.header("preference-applied")), (&json!(status), applied));
        assert_eq!((answer.header("location"), answer.header("retry-after")), ("", ""));
        let read = world.get(Some(&ada), &format!("/operations/{}", operation["id"].as_str().unwrap())).await;
        assert_eq!((read.data(), read.header("etag")), (operation, answer.header("etag")));
    }
}

#[actix_web::test]
async fn preferences_in_several_lines_are_one_list() {
    let (world, ada, _, _) = accepted().await;
    world.work();
    let request = waiting_write(&ada, "respond-async", "INSERT INTO t VALUES (1)").append_header(("Prefer", "wait=20"));
    let answer = timeout(FAR_TOO_LONG, world.send_and_work(request)).await.expect("an answer").expect(200);
    assert_eq!(answer.header("preference-applied"), "wait=20");
}

#[actix_web::test]
async fn a_write_that_waits_in_vain_is_answered_202() {
    let (world, ada, _, _) = accepted().await;
    let (half, waiting) = (
        pin!(sleep(Duration::from_millis(500))),
        pin!(world.send(waiting_write(&ada, "wait=1", "CREATE TABLE u(a INTEGER)"))),
    );
    let Either::Left(((), waiting)) = select(half, waiting).await else {
        panic!("the request did not wait");
    };
    let late = waiting.await.expect(202);
    let at_once = timeout(FAR_TOO_LONG, world.send(waiting_write(&ada, "wait=0", "CREATE TABLE v(a INTEGER)"))).await;
    let ignored = timeout(FAR_TOO_LONG, world.send(waiting_write(&ada, "wait=1.5", "CREATE TABLE w(a INTEGER)"))).await;
    for answer in [late, at_once.expect("no wait").expect(202), ignored.expect("no wait").expect(202)] {
        assert_eq!((answer.header("retry-after"), answer.header("preference-applied")), ("1", ""));
        assert_eq!(answer.header("location"), answer.data()["href"]);
    }
}

#[actix_web::test]
async fn a_server_that_shuts_down_waits_for_no_operation() {
    let (world, ada, _, _) = accepted().await;
    world.state.draining.store(true, Ordering::Relaxed);
    let answer = timeout(FAR_TOO_LONG, world.send(waiting_write(&ada, "wait=20", "CREATE TABLE u(a INTEGER)"))).await;
    answer.expect("no wait").expect(202);
}

#[actix_web::test]
async fn a_repeated_write_that_waits_is_answered_with_the_operation_as_it_is() {
    let (world, ada, _, _) = accepted().await;
    let write = |preference| {
        waiting_write(&ada, preference, "CREATE TABLE u(a INTEGER)").insert_header(("Idempotency-Key", "k"))
    };
    let first = world.send(write("wait=0")).await.expect(202);
    assert_eq!(first.header("idempotent-replayed"), "");
    let again = world.send(write("wait=0")).await.expect(202);
    assert_eq!((&again.text, again.header("idempotent-replayed")), (&first.text, "true"));
    assert_eq!((again.header("location"), again.header("retry-after")), (first.header("location"), "1"));

    // The key is free while a request under it waits.
    let (pause, waiting) = (pin!(sleep(Duration::from_millis(500))), pin!(world.send(write("wait=20"))));
    let Either::Left(((), waiting)) = select(pause, waiting).await else {
        panic!("the request did not wait");
    };
    world.send(write("wait=0")).await.expect(202);
    world.work();
    let ended = waiting.await.expect(200);
    let applied = (ended.header("idempotent-replayed"), ended.header("preference-applied"));
    assert_eq!((&ended.data()["id"], applied), (&first.data()["id"], ("true", "wait=20")));
    assert_eq!(ended.data()["status"], "succeeded");
    let ended = world.send(write("wait=0")).await.expect(200);
    assert_eq!((&ended.data()["status"], ended.header("preference-applied")), (&json!("succeeded"), "wait=0"));
    let saved = world.send(write("handling=lenient")).await.expect(202);
    assert_eq!((&saved.text, saved.header("preference-applied")), (&first.text, ""));

    let other = waiting_write(&ada, "wait=20", "CREATE TABLE other(a INTEGER)");
    world.send(other.insert_header(("Idempotency-Key", "k"))).await.refused(422, "IDEMPOTENCY_KEY_REUSED");
}

#[actix_web::test]
async fn a_write_that_waits_runs_at_once_and_is_recorded_with_its_end() {
    let (world, ada, _, _) = accepted().await;
    world.work();
    // No worker runs from here on.
    let write = |statements| waiting_write(&ada, "wait=20", statements).insert_header(("Idempotency-Key", statements));
    let create = "CREATE TABLE u(a INTEGER PRIMARY KEY)";
    let first = timeout(FAR_TOO_LONG, world.send(write(create))).await.expect("no worker is needed").expect(200);
    assert_eq!((first.data()["status"].as_str(), first.header("preference-applied")), (Some("succeeded"), "wait=20"));
    let again = world.send(write(create)).await.expect(200);
    assert_eq!((&again.text, again.header("idempotent-replayed")), (&first.text, "true"));
    let failed = world.send(write(create).insert_header(("Idempotency-Key", "other"))).await.expect(200);
    assert_eq!(failed.data()["status"], "failed");

    let inserts: Vec<String> = (0..8).map(|id| format!("INSERT INTO u VALUES ({id})")).collect();
    let all =
        futures_util::future::join_all(inserts.iter().map(|insert| world.send(waiting_write(&ada, "wait=20", insert))));
    let mut commits = BTreeSet::new();
    for answer in timeout(FAR_TOO_LONG, all).await.expect("no worker is needed") {
        let operation = answer.expect(200).data().clone();
        assert_eq!(operation["status"], "succeeded");
        assert!(
            commits.insert(operation["result"]["commit_sha"].to_string()),
            "each is a commit of its own: {operation}"
        );
    }
    let listed = world.get(Some(&ada), "/databases/ada/rivers/operations?page_size=20").await.expect(200);
    let listed = listed.data();
    let is_settled = |operation: &Value| operation["status"] == "succeeded" || operation["status"] == "failed";
    assert!(listed.as_array().unwrap().iter().all(is_settled), "{listed}");
}

#[actix_web::test]
async fn requests_that_wait_hold_no_thread_and_no_body() {
    let world = ApiHarness::with(|config| (config.pools.reads, config.pools.writes) = (1, 1));
    let ada = world.user("ada");
    world.database(&ada, "ada", "rivers", "private").await;
    let long = format!("CREATE TABLE u(a INTEGER) -- {}", "x".repeat(1 << 16));
    // Writes behind a queued operation are queued too.
    world.send(waiting_write(&ada, "wait=0", "CREATE TABLE v(a INTEGER)")).await.expect(202);
    let waiting =
        pin!(futures_util::future::join_all((0..8).map(|_| world.send(waiting_write(&ada, "wait=20", &long)))));
    let queued = pin!(async {
        let queued = || world.get(Some(&ada), "/databases/ada/rivers/operations?status=queued");
        while queued().await.expect(200).data().as_array().unwrap().len() < 9 {}
        world.post(Some(&ada), "/user/tokens", json!({"name": "ci", "expires_in": "30d"})).await.expect(201);
    });
    let Ok(Either::Left(((), waiting))) = timeout(FAR_TOO_LONG, select(queued, waiting)).await else {
        panic!("other requests wait for those that wait");
    };
    assert_eq!(world.state.bodies.used(), 0);
    world.work();
    for answer in waiting.await {
        answer.expect(200);
    }
}

#[actix_web::test]
async fn a_failure_names_its_code() {
    let (world, ada, _, _) = accepted().await;
    let body = json!({"from_branch": "main", "to_branch": "main", "q": "INSERT INTO nope VALUES (1)"});
    let answer = world.post(Some(&ada), "/databases/ada/rivers/sql-writes", body).await;
    let operation = world.finish(&ada, &answer).await;
    assert_eq!(operation["status"], "failed");
    let error = &operation["error"];
    assert_eq!(
        (&error["status"], &error["code"], &error["title"]),
        (&json!(422), &json!("OPERATION_FAILED"), &json!("Operation failed"))
    );
    assert_eq!(error["detail"], "query error: table not found: nope");
}

#[actix_web::test]
async fn a_queued_operation_can_be_canceled() {
    let (world, ada, bob, id) = accepted().await;
    let path = format!("/operations/{}/cancel", id.replace('/', "%2F"));
    world.send(ApiHarness::request(None, "POST", &path)).await.refused(401, "UNAUTHENTICATED");
    world.send(ApiHarness::request(Some(&bob), "POST", &path)).await.refused(404, "NOT_FOUND");
    world.post(Some(&ada), &path, json!({"x": 1})).await.refused_at(400, "/x");
    let canceled = world.send(ApiHarness::request(Some(&ada), "POST", &path)).await.expect(200).data();
    assert_eq!((&canceled["status"], &canceled["error"]["code"]), (&json!("failed"), &json!("CANCELED")));
    assert_eq!(canceled["error"]["detail"], "canceled by ada");
    world
        .send(ApiHarness::request(Some(&ada), "POST", &format!("/operations/{id}/cancel")))
        .await
        .refused(409, "CONFLICT");
}

#[actix_web::test]
async fn a_fork_appears_with_its_operation() {
    let world = ApiHarness::new();
    let (ada, bob) = (world.user("ada"), world.user("bob"));
    world.database(&ada, "ada", "rivers", "public").await;
    let path = "/databases/ada/rivers/forks";
    world.post(None, path, json!({"owner": "bob"})).await.refused(401, "UNAUTHENTICATED");
    world.post(Some(&bob), path, json!({"owner": "ada"})).await.refused(403, "PERMISSION_DENIED");
    world.post(Some(&ada), path, json!({"owner": "ada"})).await.refused(422, "UNPROCESSABLE");
    let answer = world.post(Some(&bob), path, json!({"owner": "bob"})).await;
    world.post(Some(&bob), path, json!({"owner": "bob"})).await.refused(422, "UNPROCESSABLE");
    let operation = world.finish(&bob, &answer).await;
    assert_eq!(operation["result"], json!({"database": {"owner": "bob", "name": "rivers"}}));
    assert_eq!(world.get(None, path).await.expect(200).data(), json!([{"owner": "bob", "name": "rivers"}]));
    let fork = world.get(None, "/databases/bob/rivers").await.expect(200).data();
    assert_eq!((&fork["parent"]["owner"], &fork["fork_network_count"]), (&json!("ada"), &json!(1)));
}

#[actix_web::test]
async fn who_reads_and_cancels_an_operation() {
    let (world, ada, bob, id) = accepted().await;
    let [cleo, dora] = ["cleo", "dora"].map(|name| world.user(name));
    for (name, role) in [("bob", "read"), ("cleo", "write")] {
        let path = format!("/databases/ada/rivers/collaborators/{name}");
        world.put(Some(&ada), &path, json!({"role": role})).await.expect(201);
    }
    let uuid = id.rsplit('/').next().unwrap();
    let cancel =
        |who: Option<&str>, id: &str| world.send(ApiHarness::request(who, "POST", &format!("/operations/{id}/cancel")));
    // A path that names another database is not found. That is checked before the role.
    cancel(Some(&bob), &format!("databases/ada/lakes/operations/{uuid}")).await.refused(404, "NOT_FOUND");
    cancel(Some(&dora), uuid).await.refused(404, "NOT_FOUND");
    cancel(Some(&bob), uuid).await.refused(403, "PERMISSION_DENIED");
    world.get(Some(&bob), &format!("/operations/{uuid}")).await.expect(200);
    assert_eq!(cancel(Some(&cleo), uuid).await.expect(200).data()["error"]["detail"], "canceled by cleo");
    cancel(Some(&bob), uuid).await.refused(403, "PERMISSION_DENIED");
    // The creator can read the operation even without a role, and even after the database is deleted.
    let body = json!({"from_branch": "main", "to_branch": "main", "q": "CREATE TABLE u(a INTEGER)"});
    let hers = world.post(Some(&cleo), "/databases/ada/rivers/sql-writes", body).await.expect(202).data();
    let hers = format!("/operations/{}", hers["id"].as_str().unwrap());
    world.delete(Some(&ada), "/databases/ada/rivers/collaborators/cleo").await.expect(200);
    world.get(Some(&cleo), &hers).await.expect(200);
    world.get(Some(&cleo), "/databases/ada/rivers/operations").await.refused(404, "NOT_FOUND");
    world.delete(Some(&ada), "/databases/ada/rivers").await.expect(200);
    let ended = world.get(Some(&cleo), &hers).await.expect(200).data();
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("failed"), &json!("CANCELED")));
    world.get(Some(&ada), &hers).await.refused(404, "NOT_FOUND");
}

#[actix_web::test]
async fn a_repeated_cancel_is_answered_the_same() {
    let (world, ada, _, id) = accepted().await;
    let path = format!("/operations/{}/cancel", id.rsplit('/').next().unwrap());
    let cancel = || ApiHarness::request(Some(&ada), "POST", &path).insert_header(("Idempotency-Key", "k"));
    let first = world.send(cancel()).await.expect(200);
    let again = world.send(cancel()).await.expect(200);
    assert_eq!((again.text.as_str(), again.header("idempotent-replayed")), (first.text.as_str(), "true"));
    world.send(ApiHarness::request(Some(&ada), "POST", &path)).await.refused(409, "CONFLICT");
}

#[actix_web::test]
async fn a_hidden_fork_shows_nowhere() {
    let world = ApiHarness::new();
    let (ada, bob) = (world.user("ada"), world.user("bob"));
    world.database(&ada, "ada", "rivers", "public").await;
    let accepted = world.post(Some(&bob), "/databases/ada/rivers/forks", json!({"owner": "bob"})).await;
    let operation = world.finish(&bob, &accepted).await;
    let id = operation["id"].as_str().unwrap();
    world.patch(Some(&bob), "/databases/bob/rivers", json!({"visibility": "private"})).await.expect(200);

    let read = world.get(Some(&ada), &format!("/operations/{id}")).await.expect(200);
    assert_eq!((&read.data()["status"], read.data().get("result")), (&json!("succeeded"), None));
    for path in
        ["/databases/ada/rivers/operations", "/databases/ada/rivers/forks", "/databases/ada/rivers", "/databases"]
    {
        for who in [None, Some(ada.as_str())] {
            let answer = world.get(who, path).await.expect(200);
            assert!(!answer.text.contains("\"bob\",\"name\""), "{path}: {}", answer.text);
        }
    }
    let count = |data: serde_json::Value| data["fork_network_count"].clone();
    assert_eq!(count(world.get(Some(&ada), "/databases/ada/rivers").await.data()), 0);
    assert_eq!(count(world.get(Some(&bob), "/databases/ada/rivers").await.data()), 1);
    assert_eq!(world.get(Some(&bob), &format!("/operations/{id}")).await.data()["result"]["database"]["owner"], "bob");

    // Conversely, a fork does not name a parent that its reader cannot see.
    world.patch(Some(&bob), "/databases/bob/rivers", json!({"visibility": "public"})).await.expect(200);
    world.patch(Some(&ada), "/databases/ada/rivers", json!({"visibility": "private"})).await.expect(200);
    let fork = world.get(None, "/databases/bob/rivers").await.expect(200).data();
    assert_eq!((fork.get("parent"), fork.get("network_root")), (None, None));
    assert_eq!(count(fork), 1);
    assert_eq!(world.get(Some(&ada), "/databases/bob/rivers").await.data()["parent"]["owner"], "ada");
}

#[actix_web::test]
async fn what_a_failed_fork_says_names_no_owner() {
    let world = ApiHarness::new();
    let (ada, bob) = (world.user("ada"), world.user("bob"));
    world.database(&ada, "ada", "rivers", "public").await;
    let accepted = world.post(Some(&bob), "/databases/ada/rivers/forks", json!({"owner": "bob"})).await.expect(202);
    world.database(&bob, "bob", "rivers", "private").await;
    world.finish(&bob, &accepted).await;
    let listed = world.get(None, "/databases/ada/rivers/operations").await.expect(200).data();
    let error = &listed[0]["error"];
    assert_eq!((&error["status"], &error["code"]), (&json!(422), &json!("UNPROCESSABLE")));
    assert!(!error["detail"].as_str().unwrap().contains("bob"), "{error}");
}

#[actix_web::test]
async fn a_purge_names_the_forks_that_the_caller_sees() {
    let world = ApiHarness::new();
    let (ada, bob) = (world.user("ada"), world.user("bob"));
    world.database(&ada, "ada", "rivers", "public").await;
    let create = json!({"from_branch": "main", "to_branch": "gone", "q": "CREATE TABLE gone(a INTEGER)"});
    let written = world.post(Some(&ada), "/databases/ada/rivers/sql-writes", create).await;
    world.finish(&ada, &written).await;
    let accepted = world.post(Some(&bob), "/databases/ada/rivers/forks", json!({"owner": "bob"})).await;
    world.finish(&bob, &accepted).await;
    world.delete(Some(&ada), "/databases/ada/rivers/branches/gone").await.expect(200);

    let accepted = world.post(Some(&ada), "/databases/ada/rivers/purge", json!({})).await.expect(202);
    let operation = world.finish(&ada, &accepted).await;
    assert_eq!(operation["type"], "purge");
    assert!(operation["result"]["freed_bytes"].as_u64().unwrap() > 0, "{operation}");
    assert_eq!(operation["result"]["kept_by_forks"], json!([{"owner": "bob", "name": "rivers"}]));
    assert_eq!(operation["result"]["kept_by_other_forks"], false);

    world.patch(Some(&bob), "/databases/bob/rivers", json!({"visibility": "private"})).await.expect(200);
    let id = operation["id"].as_str().unwrap();
    let result = world.get(Some(&ada), &format!("/operations/{id}")).await.expect(200).data()["result"].clone();
    assert_eq!((&result["kept_by_forks"], &result["kept_by_other_forks"]), (&json!([]), &json!(true)));
}
