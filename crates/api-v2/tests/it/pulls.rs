use crate::harness::ApiHarness;
use serde_json::{Value, json};

const P: &str = "/databases/ada/rivers/pulls";

async fn rivers() -> (ApiHarness, String, String) {
    let world = ApiHarness::new();
    let (ada, bob) = (world.user("ada"), world.user("bob"));
    world.database(&ada, "ada", "rivers", "public").await;
    world
        .write(
            &ada,
            "ada/rivers",
            "main",
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT); INSERT INTO t VALUES (1,'one')",
        )
        .await;
    world.branch(&ada, "ada/rivers", "work", "main").await;
    world.write(&ada, "ada/rivers", "work", "INSERT INTO t VALUES (2,'two')").await;
    (world, ada, bob)
}

fn body(title: &str, from: &str, to: &str) -> Value {
    let branch =
        |name: &str| json!({"database": {"owner": "ADA", "name": "Rivers", "x": 1}, "branch_name": name, "y": 2});
    json!({"title": title, "from_branch": branch(from), "to_branch": branch(to), "z": 3})
}

#[actix_web::test]
async fn a_pull_is_opened_edited_and_merged() {
    let (world, ada, bob) = rivers().await;
    let opened = world.post(Some(&bob), P, body("Fix", "work", "main")).await.expect(201);
    assert_eq!(opened.header("location"), "https://yard.test/api/v2/databases/ada/rivers/pulls/1");
    let pull = opened.data();
    assert_eq!(pull["from_branch"], json!({"database": {"owner": "ada", "name": "rivers"}, "branch_name": "work"}));
    assert_eq!((&pull["state"], &pull["creator"]), (&json!("open"), &json!("bob")));
    world.post(Some(&ada), P, body("Fix", "work", "main")).await.refused(409, "CONFLICT");
    let listed = world.get(None, &format!("{P}?state=open")).await.expect(200).data();
    assert!(listed[0].get("from_branch").is_none());
    assert_eq!(listed[0]["title"], "Fix");

    let diff = world.get(None, &format!("{P}/1/diff")).await.expect(200).data();
    let row = json!({"id": "2", "a": "two"});
    assert_eq!(diff, json!([{"table": "t", "change": "added", "primary_key": {"id": "2"}, "from": null, "to": row}]));
    let tables = world.get(None, &format!("{P}/1/diff/tables")).await.expect(200).data();
    assert_eq!(tables[0]["rows_added"], 1);
    assert_eq!(world.get(None, &format!("{P}/1/conflicts")).await.expect(200).data(), json!([]));
    for list in ["diff", "conflicts"] {
        world.get(None, &format!("{P}/1/{list}?table=nope")).await.refused(404, "NOT_FOUND");
    }

    let etag = opened.header("etag").to_owned();
    let edit = json!({"title": "Better", "description": "More", "state": "closed"});
    let patch = ApiHarness::request(Some(&bob), "PATCH", &format!("{P}/1"))
        .insert_header(("If-Match", etag.clone()))
        .set_json(&edit);
    let closed = world.send(patch).await.expect(200).data();
    assert_eq!((&closed["state"], &closed["title"]), (&json!("closed"), &json!("Better")));
    assert!(closed["closed_at"].is_string());
    let stale = ApiHarness::request(Some(&bob), "PATCH", &format!("{P}/1"))
        .insert_header(("If-Match", etag))
        .set_json(json!({"title": "x"}));
    world.send(stale).await.refused(412, "PRECONDITION_FAILED");
    world.post(Some(&ada), &format!("{P}/1/merge"), json!({})).await.refused(422, "UNPROCESSABLE");
    let cleared = world
        .patch(Some(&ada), &format!("{P}/1"), json!({"state": "open", "description": null}))
        .await
        .expect(200)
        .data();
    assert!(cleared.get("description").is_none());

    world.post(Some(&bob), &format!("{P}/1/merge"), json!({})).await.refused(403, "PERMISSION_DENIED");
    let accepted = world.send(ApiHarness::request(Some(&ada), "POST", &format!("{P}/1/merge"))).await.expect(202);
    world.post(Some(&ada), &format!("{P}/1/merge"), json!({})).await.refused(409, "CONFLICT");
    world.patch(Some(&ada), &format!("{P}/1"), json!({"state": "closed"})).await.refused(409, "CONFLICT");
    let operation = world.finish(&ada, &accepted).await;
    assert_eq!((&operation["status"], &operation["result"]["pull_id"]), (&json!("succeeded"), &json!(1)));
    let merged = world.get(None, &format!("{P}/1")).await.expect(200).data();
    assert_eq!((&merged["state"], &merged["merged_by"]), (&json!("merged"), &json!("ada")));
    assert_eq!(merged["merge_commit_sha"], operation["result"]["commit_sha"]);
    assert_eq!(world.get(None, &format!("{P}/1/diff")).await.expect(200).data(), diff);
    let answer = world.patch(Some(&ada), &format!("{P}/1"), json!({"state": "open"})).await;
    answer.refused_at(400, "/state");
    assert_eq!(answer.json()["detail"], "pull 1 is merged; its state is final");
}

#[actix_web::test]
async fn checks_come_in_order() {
    let (world, ada, bob) = rivers().await;
    world.post(Some(&ada), P, body("Fix", "work", "main")).await.expect(201);
    for bad in ["0", "x", "01", "-1", "1.0"] {
        world.get(None, &format!("{P}/{bad}")).await.refused_at(400, "pull_number");
        world.get(None, &format!("/databases/ada/nothing/pulls/{bad}")).await.refused(404, "NOT_FOUND");
    }
    for path in ["/99", "/99/comments", "/99/diff", "/99/conflicts", "/99999999999999999999"] {
        let answer = world.get(None, &format!("{P}{path}")).await;
        answer.refused(404, "NOT_FOUND");
        assert_eq!(answer.json()["detail"], "no such pull");
    }
    world.patch(Some(&bob), &format!("{P}/99"), json!({"x": 1})).await.refused(404, "NOT_FOUND");
    world.patch(Some(&bob), &format!("{P}/1"), json!({"x": 1})).await.refused(403, "PERMISSION_DENIED");
    world.patch(Some(&ada), &format!("{P}/1"), json!({})).await.refused(400, "VALIDATION_FAILED");
    for (edit, place) in [
        (json!({"title": ""}), "/title"),
        (json!({"title": null}), "/title"),
        (json!({"state": "merged"}), "/state"),
        (json!({"x": 1}), "/x"),
    ] {
        world.patch(Some(&ada), &format!("{P}/1"), edit).await.refused_at(400, place);
    }
    world.post(Some(&bob), &format!("{P}/99/merge"), json!({})).await.refused(404, "NOT_FOUND");
    world.post(None, &format!("{P}/99/merge"), json!({})).await.refused(401, "UNAUTHENTICATED");
    world.post(Some(&ada), &format!("{P}/1/merge"), json!({"resolve": {"t": "x"}})).await.refused_at(400, "/resolve/t");
    world.post(Some(&ada), P, body("Fix", "main", "main")).await.refused(400, "VALIDATION_FAILED");
    world.post(Some(&ada), P, body("Fix", "nope", "main")).await.refused(404, "NOT_FOUND");
    world.post(Some(&ada), P, body(" ", "work", "main")).await.refused_at(400, "/title");
}

#[actix_web::test]
async fn comments() {
    let (world, ada, bob) = rivers().await;
    world.post(Some(&ada), P, body("Fix", "work", "main")).await.expect(201);
    let path = format!("{P}/1/comments");
    let made = world.post(Some(&bob), &path, json!({"body": "Looks right."})).await.expect(201);
    assert_eq!((made.header("location"), made.header("etag")), ("", ""));
    world.post(Some(&ada), &path, json!({"body": "Thanks"})).await.expect(201);
    world.post(Some(&ada), &path, json!({"body": " "})).await.refused_at(400, "/body");
    let listed = world.get(None, &path).await.expect(200).data();
    assert_eq!(listed[0], made.data());
    assert_eq!(listed.as_array().unwrap().len(), 2);
    let first = world.get(None, &format!("{path}?page_size=1")).await.expect(200).json();
    let token = first["meta"]["next_page_token"].as_str().unwrap();
    let second = world.get(None, &format!("{path}?page_size=1&page_token={token}")).await.expect(200).json();
    assert_eq!(second["data"][0], listed[1]);
    assert_eq!(second["meta"], json!({}));
}

#[actix_web::test]
async fn a_state_is_refused_for_the_right_reason() {
    let (world, ada, bob) = rivers().await;
    let edit = |number: u32, etag: Option<&str>, edit: Value| {
        let request = ApiHarness::request(Some(&ada), "PATCH", &format!("{P}/{number}"));
        let request = match etag {
            Some(etag) => request.insert_header(("If-Match", etag.to_owned())),
            None => request,
        };
        world.send(request.set_json(edit))
    };
    let (open, close) = (json!({"state": "open"}), json!({"state": "closed"}));
    world.post(Some(&bob), P, body("Fix", "work", "main")).await.expect(201);
    let closed = edit(1, None, close.clone()).await.expect(200);
    world.fakes.clock.advance_seconds(60);
    let same = edit(1, None, close.clone()).await.expect(200);
    assert_eq!((same.data(), same.header("etag")), (closed.data(), closed.header("etag")), "nothing changed");
    world.post(Some(&bob), P, body("Again", "work", "main")).await.expect(201);
    // A competing pull request (409) precedes a missing branch (422), and both precede `If-Match` (412).
    edit(1, Some("\"x\""), open.clone()).await.refused(409, "CONFLICT");
    world.delete(Some(&ada), "/databases/ada/rivers/branches/work").await.expect(200);
    edit(1, Some("\"x\""), open.clone()).await.refused(409, "CONFLICT");
    edit(2, None, close).await.expect(200);
    edit(1, Some("\"x\""), open.clone()).await.refused(422, "UNPROCESSABLE");
    world.branch(&ada, "ada/rivers", "work", "main").await;
    edit(1, Some("\"x\""), open.clone()).await.refused(412, "PRECONDITION_FAILED");
    edit(1, Some(same.header("etag")), open).await.expect(200);
    // During a merge, the title may change. The state may not, not even to its current value.
    world.post(Some(&ada), &format!("{P}/1/merge"), json!({})).await.expect(202);
    edit(1, None, json!({"state": "open"})).await.refused(409, "CONFLICT");
    edit(1, None, json!({"title": "Best"})).await.expect(200);
}

#[actix_web::test]
async fn a_pull_stays_in_its_network() {
    let (world, ada, bob) = rivers().await;
    let cleo = world.user("cleo");
    world.database(&bob, "bob", "lakes", "public").await;
    world.database(&bob, "bob", "secret", "private").await;
    let fork = world.post(Some(&bob), "/databases/ada/rivers/forks", json!({"owner": "bob"})).await;
    world.finish(&bob, &fork).await;
    world.patch(Some(&bob), "/databases/bob/rivers", json!({"visibility": "private"})).await.expect(200);
    let from = |database: &str, branch: &str, to: &str| {
        let (owner, name) = database.split_once('/').unwrap();
        let mut body = body("Fix", branch, to);
        body["from_branch"]["database"] = json!({"owner": owner, "name": name});
        body
    };
    world.post(Some(&ada), P, from("bob/lakes", "main", "main")).await.refused_at(400, "/from_branch/database");
    // A hidden database is reported as absent, even if it belongs to another fork network.
    for hidden in ["bob/secret", "bob/rivers", "bob/nothing", "nobody/x", "!/!"] {
        let answer = world.post(Some(&cleo), P, from(hidden, "work", "main")).await;
        answer.refused(404, "NOT_FOUND");
        assert_eq!(answer.json()["detail"], "no such repository", "{hidden}");
    }
    world.post(Some(&bob), P, from("bob/rivers", "nope", "main")).await.refused(404, "NOT_FOUND");
    world.post(Some(&bob), P, from("ada/rivers", "nope", "nope")).await.refused_at(400, "/from_branch");
    let mut elsewhere = from("bob/nothing", "work", "main");
    elsewhere["to_branch"]["database"]["name"] = json!("other");
    world.post(Some(&bob), P, elsewhere).await.refused_at(400, "/to_branch/database");
    // Opening a pull request publishes its source branch to all readers of the base, and nothing else of the source database.
    let mut publishing = from("bob/rivers", "work", "main");
    publishing["publish"] = true.into();
    let mut opened = world.post(Some(&bob), P, publishing).await.expect(201).data();
    assert!(opened.get("brings").is_none(), "nothing is fetched yet: {opened}");
    opened["brings"] = json!([]);
    world.work();
    assert_eq!(world.get(None, &format!("{P}/1")).await.expect(200).data(), opened);
    assert_eq!(world.get(None, &format!("{P}/1/diff")).await.expect(200).data().as_array().unwrap().len(), 1);
    world.get(Some(&cleo), "/databases/bob/rivers").await.refused(404, "NOT_FOUND");
}

const TRIGGER: &str = "CREATE TRIGGER raise AFTER INSERT ON pay BEGIN UPDATE pay SET amount = 1000 WHERE id = 1; END";

#[actix_web::test]
async fn a_trigger_beside_a_harmless_row_is_in_the_diff_the_schema_and_the_pull() {
    let (world, ada, bob) = rivers().await;
    let create = "CREATE TABLE pay(id INTEGER PRIMARY KEY, amount INTEGER); INSERT INTO pay VALUES (1, 10)";
    world.write(&ada, "ada/rivers", "main", create).await;
    world.branch(&ada, "ada/rivers", "evil", "main").await;
    world.write(&ada, "ada/rivers", "evil", &format!("INSERT INTO t VALUES (3,'three'); {TRIGGER}")).await;

    let opened = world.post(Some(&bob), P, body("One row more", "evil", "main")).await.expect(201);
    assert_eq!(opened.data()["brings"], json!(["trigger"]));
    let got = world.get(None, &format!("{P}/1")).await.expect(200);
    assert_eq!(got.data()["brings"], json!(["trigger"]));
    assert_eq!(got.header("etag"), opened.header("etag"));
    let listed = world.get(None, P).await.expect(200).data();
    assert!(listed[0].get("brings").is_none(), "{listed}");

    let object = json!({"kind": "trigger", "name": "raise", "change": "added", "to": TRIGGER});
    let expected = json!({"table": "pay", "change": "modified", "schema_changed": true, "rows_added": 0, "rows_removed": 0,
        "rows_modified": 0, "objects": [object]});
    for path in [format!("{P}/1/diff/tables"), "/databases/ada/rivers/diff/tables?from=main&to=evil".to_owned()] {
        let tables = world.get(None, &path).await.expect(200).data();
        assert_eq!(tables[0], expected, "{path}");
        assert!(tables[1]["table"] == "t" && tables[1].get("objects").is_none(), "{tables}");
    }
    let back =
        world.get(None, "/databases/ada/rivers/diff/tables?from=evil&to=main&table=pay").await.expect(200).data();
    let object = json!({"kind": "trigger", "name": "raise", "change": "removed", "from": TRIGGER});
    assert_eq!(back[0]["objects"], json!([object]));
    let rows = world.get(None, "/databases/ada/rivers/diff?from=main&to=evil&table=pay").await.expect(200).data();
    assert_eq!(rows, json!([]));
    let schema = world.get(None, "/databases/ada/rivers/schema?ref=evil").await.expect(200).data();
    assert_eq!(schema[0]["triggers"], json!([{"name": "raise", "create_statement": TRIGGER}]));
    assert_eq!(schema[1]["triggers"], json!([]));

    // `If-Match` is compared with the representation that was returned.
    let patch = |etag: &str| {
        ApiHarness::request(Some(&bob), "PATCH", &format!("{P}/1"))
            .insert_header(("If-Match", etag.to_owned()))
            .set_json(json!({"state": "closed"}))
    };
    let closed = world.send(patch(got.header("etag"))).await.expect(200).data();
    assert_eq!((&closed["state"], &closed["brings"]), (&json!("closed"), &json!(["trigger"])));
    world.send(patch(got.header("etag"))).await.expect(412);
    let harmless = world.post(Some(&bob), P, body("Harmless", "work", "main")).await.expect(201).data();
    assert_eq!(harmless["brings"], json!([]));
}

const FORK: &str = "/databases/bob/rivers";

/// Creates Bob's private fork of the public `ada/rivers`. Returns the body of a pull request from the fork.
async fn private_fork(world: &ApiHarness, bob: &str) -> Value {
    let accepted = world.post(Some(bob), "/databases/ada/rivers/forks", json!({"owner": "bob"})).await.expect(202);
    world.finish(bob, &accepted).await;
    world.write(bob, "bob/rivers", "main", "INSERT INTO t VALUES (5,'secret')").await;
    world.patch(Some(bob), FORK, json!({"visibility": "private"})).await.expect(200);
    let branch = |owner: &str| json!({"database": {"owner": owner, "name": "rivers"}, "branch_name": "main"});
    json!({"title": "Ours", "from_branch": branch("bob"), "to_branch": branch("ada")})
}

#[actix_web::test]
async fn a_private_fork_is_published_by_consent_and_taken_back() {
    let (world, ada, bob) = rivers().await;
    let cleo = world.user("cleo");
    let mut wanted = private_fork(&world, &bob).await;
    world.post(Some(&cleo), P, wanted.clone()).await.refused(404, "NOT_FOUND");
    world.put(Some(&bob), &format!("{FORK}/collaborators/cleo"), json!({"role": "read"})).await.expect(201);
    wanted["publish"] = true.into();
    world.post(Some(&cleo), P, wanted.clone()).await.refused(403, "PERMISSION_DENIED");
    world.put(Some(&bob), &format!("{FORK}/collaborators/cleo"), json!({"role": "write"})).await.expect(200);
    wanted["publish"] = false.into();
    world.post(Some(&cleo), P, wanted.clone()).await.refused_at(422, "/publish");
    wanted["publish"] = true.into();
    let opened = world.post(Some(&cleo), P, wanted).await.expect(201).data();
    let head = opened["from_commit_sha"].as_str().unwrap().to_owned();
    assert!(opened["to_commit_sha"].is_string());
    for list in ["diff", "diff/tables", "conflicts"] {
        let answer = world.get(None, &format!("{P}/1/{list}")).await;
        answer.refused(503, "SERVICE_UNAVAILABLE");
        assert_eq!(answer.header("retry-after"), "1");
    }
    world.work();
    assert_eq!(world.get(None, &format!("{P}/1/diff")).await.expect(200).data()[0]["to"]["a"], "secret");
    let by_hash = format!("/databases/ada/rivers/sql?q=select%201&ref={head}");
    world.get(None, &by_hash).await.expect(200);

    world.post(None, &format!("{P}/1/withdraw"), json!({})).await.refused(401, "UNAUTHENTICATED");
    for other in [&ada, &cleo] {
        world.post(Some(other), &format!("{P}/1/withdraw"), json!({})).await.refused(403, "PERMISSION_DENIED");
    }
    world.post(Some(&bob), &format!("{P}/x/withdraw"), json!({})).await.refused_at(400, "pull_number");
    world.post(Some(&bob), &format!("{P}/9/withdraw"), json!({})).await.refused(404, "NOT_FOUND");
    world.post(Some(&bob), "/databases/ada/nothing/pulls/x/withdraw", json!({})).await.refused(404, "NOT_FOUND");
    world.post(Some(&bob), &format!("{P}/1/withdraw"), json!({"x": 1})).await.refused_at(400, "/x");
    let withdrawn = world.post(Some(&bob), &format!("{P}/1/withdraw"), json!({})).await.expect(200).data();
    assert_eq!((&withdrawn["state"], &withdrawn["title"]), (&json!("closed"), &json!("Ours")));
    assert!(withdrawn.get("from_commit_sha").is_none());
    for list in ["diff", "diff/tables", "conflicts"] {
        world.get(None, &format!("{P}/1/{list}")).await.refused(422, "UNPROCESSABLE");
    }
    world.get(None, &by_hash).await.refused(404, "NOT_FOUND");
    let reopen = json!({"state": "open", "publish": true});
    world.patch(Some(&cleo), &format!("{P}/1"), reopen).await.refused(422, "UNPROCESSABLE");
    for alone in [json!({"publish": true}), json!({"publish": true, "state": "closed"})] {
        world.patch(Some(&cleo), &format!("{P}/1"), alone).await.refused_at(400, "/publish");
    }
}

#[actix_web::test]
async fn a_pull_is_withdrawn_from_a_base_that_is_hidden() {
    let (world, ada, bob) = rivers().await;
    let cleo = world.user("cleo");
    let mut wanted = private_fork(&world, &bob).await;
    wanted["publish"] = true.into();
    world.post(Some(&bob), P, wanted).await.expect(201);
    world.patch(Some(&ada), "/databases/ada/rivers", json!({"visibility": "private"})).await.expect(200);
    for number in ["1", "9", "x"] {
        world.post(Some(&cleo), &format!("{P}/{number}/withdraw"), json!({})).await.refused(404, "NOT_FOUND");
    }
    let withdrawn = world.post(Some(&bob), &format!("{P}/1/withdraw"), json!({})).await.expect(200);
    assert_eq!(withdrawn.data(), json!({"pull_number": 1, "state": "closed"}));
}

#[actix_web::test]
async fn pages_of_a_difference_end_when_it_is_hidden() {
    let (world, _, bob) = rivers().await;
    let mut wanted = private_fork(&world, &bob).await;
    world.write(&bob, "bob/rivers", "main", "INSERT INTO t VALUES (6,'more')").await;
    wanted["publish"] = true.into();
    world.post(Some(&bob), P, wanted).await.expect(201);
    world.work();
    let first = world.get(None, &format!("{P}/1/diff?page_size=1")).await.expect(200).json();
    let token = first["meta"]["next_page_token"].as_str().unwrap();
    let next = format!("{P}/1/diff?page_size=1&page_token={token}");
    world.get(None, &next).await.expect(200);
    world.delete(Some(&bob), FORK).await.expect(200);
    world.get(None, &next).await.refused(422, "UNPROCESSABLE");
    assert_eq!(world.get(None, &format!("{P}/1")).await.expect(200).data()["state"], "closed");
}

#[actix_web::test]
async fn conflicts_are_resolved_row_by_row() {
    let (world, ada, _) = rivers().await;
    world.write(&ada, "ada/rivers", "main", "CREATE TABLE g(id INTEGER PRIMARY KEY, a TEXT, b INTEGER); INSERT INTO g VALUES (1,'x',1),(2,'y',2),(3,'z',3)").await;
    world.branch(&ada, "ada/rivers", "theirs", "main").await;
    let change = |to: &str| -> String {
        let updates: Vec<String> = (1..4).map(|id| format!("UPDATE g SET a = '{to}' WHERE id = {id}")).collect();
        updates.join("; ")
    };
    world.write(&ada, "ada/rivers", "main", &change("ours")).await;
    world.write(&ada, "ada/rivers", "theirs", &change("theirs")).await;
    world.post(Some(&ada), P, body("Rows", "theirs", "main")).await.expect(201);
    let merge = format!("{P}/1/merge");
    let key = |id: Value| json!({"id": id});

    // All faults are found at once.
    let faulty = json!({"fast_forward": "no", "resolve_rows": [
        {"table": "g", "primary_key": key(json!("1"))},
        {"table": "g", "primary_key": key(json!("1")), "take": "ours", "row": {"a": "q"}},
        {"table": "g", "primary_key": {"id": true}, "take": "both"},
        {"primary_key": {"id": "1", "ID": "2"}, "row": [], "more": 1},
    ]});
    let refused = world.post(Some(&ada), &merge, faulty).await.expect(400).json();
    let places: Vec<&str> =
        refused["errors"].as_array().unwrap().iter().map(|error| error["pointer"].as_str().unwrap()).collect();
    for place in [
        "/fast_forward",
        "/resolve_rows/0",
        "/resolve_rows/1",
        "/resolve_rows/2/primary_key/id",
        "/resolve_rows/2/take",
        "/resolve_rows/3/table",
        "/resolve_rows/3/primary_key/id",
        "/resolve_rows/3/row",
        "/resolve_rows/3/more",
    ] {
        assert!(places.contains(&place), "{place}: {refused}");
    }
    let many = |count: usize| -> Vec<Value> {
        (0..count).map(|id| json!({"table": "g", "primary_key": key(json!(id)), "take": "ours"})).collect()
    };
    world.post(Some(&ada), &merge, json!({"resolve_rows": many(1_001)})).await.refused_at(400, "/resolve_rows");
    let most = world.post(Some(&ada), &merge, json!({"resolve_rows": many(1_000)})).await;
    let failed = world.finish(&ada, &most).await;
    assert_eq!(failed["status"], "failed", "a row is not in conflict: {failed}");

    let some = json!({"resolve_rows": [{"table": "G", "primary_key": key(json!(1)), "take": "theirs"}]});
    let some = world.post(Some(&ada), &merge, some).await;
    assert_eq!(world.finish(&ada, &some).await["error"]["code"], "MERGE_CONFLICT");
    let all = json!({"resolve": {"g": "ours"}, "resolve_rows": [
        {"table": "g", "primary_key": key(json!("1")), "take": "theirs"},
        {"table": "g", "primary_key": key(json!("2")), "row": {"a": null, "b": 7}},
    ]});
    let done = world.post(Some(&ada), &merge, all).await;
    assert_eq!(world.finish(&ada, &done).await["status"], "succeeded");
    let rows =
        world.get(None, "/databases/ada/rivers/sql?q=select%20a,b%20from%20g%20order%20by%20id").await.expect(200);
    assert_eq!(rows.data()["rows"], json!([["theirs", "1"], [null, "7"], ["ours", "3"]]));
}

#[actix_web::test]
async fn a_merge_can_have_a_commit_in_any_case() {
    let (world, ada, _) = rivers().await;
    world.branch(&ada, "ada/rivers", "ahead", "main").await;
    world.write(&ada, "ada/rivers", "ahead", "CREATE TABLE h(id INTEGER PRIMARY KEY)").await;
    world.post(Some(&ada), P, body("Ahead", "ahead", "main")).await.expect(201);
    let wanted = json!({"message": "Join them", "fast_forward": false});
    let merge = world.post(Some(&ada), &format!("{P}/1/merge"), wanted).await;
    world.finish(&ada, &merge).await;
    let commits = world.get(None, "/databases/ada/rivers/commits?page_size=1").await.expect(200).data();
    assert_eq!(commits[0]["message"], "Join them");
    assert_eq!(commits[0]["parents"].as_array().unwrap().len(), 2);
}
