//! Mirrors: databases of a server that follow those of another one.

mod sources;

use std::time::{Duration, Instant};

use branchyard_testkit::{Actor, Server, TestAnswer};
use reqwest::Method;
use serde_json::{Value, json};

use self::sources::{Source, silent};
use crate::remote_clients::SecureServer;

const TABLE: &str =
    "create table trees (id integer primary key, name text); insert into trees values (1, 'oak'), (2, 'ash')";

/// A server whose mirrors may read from this machine.
fn follower() -> Server {
    Server::start_with(|config| config.remotes.allowed_cidrs = vec!["127.0.0.0/8".to_owned()])
}

fn create(actor: &Actor, name: &str, mirror_of: &Value) -> TestAnswer {
    let body = json!({"owner": actor.name(), "name": name, "visibility": "public", "mirror_of": mirror_of});
    actor.post("/databases", &body)
}

fn mirror(actor: &Actor, name: &str) -> Value {
    actor.get(&format!("/databases/{}/{name}/mirror", actor.name())).expect(200).data()
}

/// Has a mirror read its source, and returns the operation.
fn sync(actor: &Actor, name: &str) -> Value {
    actor.finish(&actor.post(&format!("/databases/{}/{name}/mirror/sync", actor.name()), &json!({})))
}

fn synced(actor: &Actor, name: &str) {
    let operation = sync(actor, name);
    assert_eq!((&operation["type"], &operation["status"]), (&json!("mirror_sync"), &json!("succeeded")), "{operation}");
}

fn refs(actor: &Actor, database: &str) -> Value {
    let heads = |kind: &str, commit: &str| {
        let found = actor.get(&format!("/databases/{database}/{kind}")).expect(200).data();
        let found = found.as_array().unwrap().clone();
        found.iter().map(|found| json!([found["name"], found[commit]])).collect::<Vec<_>>()
    };
    json!({"branches": heads("branches", "head_commit_sha"), "tags": heads("tags", "commit_sha")})
}

fn names(actor: &Actor, database: &str, at: &str) -> Value {
    actor.read(database, at, "select name from trees order by id")
}

#[test]
fn a_mirror_follows_branches_and_tags_of_its_source() {
    let source = Server::start_with(|config| config.metrics.listen = Some("127.0.0.1:0".to_owned()));
    let follower = follower();
    let (ada, bob) = (source.user("ada"), follower.user("bob"));
    ada.database("trees");
    ada.write("ada/trees", "main", TABLE);
    let branch = |name: &str| json!({"name": name, "from": {"branch": "main"}});
    ada.post("/databases/ada/trees/branches", &branch("side")).expect(201);
    ada.write("ada/trees", "side", "insert into trees values (3, 'elm')");
    let tag = json!({"name": "v1", "from": {"branch": "main"}, "message": "first"});
    ada.post("/databases/ada/trees/tags", &tag).expect(201);

    let url = format!("{}/ada/trees", source.address());
    create(&bob, "copy", &json!({"url": url})).expect(201);
    synced(&bob, "copy");
    let shown = mirror(&bob, "copy");
    assert_eq!((&shown["url"], &shown["interval_seconds"]), (&json!(url), &json!(3_600)));
    assert_eq!(shown["public_key"].as_str().unwrap().len(), 52);
    assert_eq!(shown["kid"].as_str().unwrap().len(), 45);
    assert!(shown["last_sync_at"].is_string() && shown.get("last_error").is_none(), "{shown}");
    assert_eq!(refs(&bob, "bob/copy"), refs(&ada, "ada/trees"));
    assert_eq!(names(&bob, "bob/copy", "side"), json!([["oak"], ["ash"], ["elm"]]));
    assert_eq!(names(&bob, "bob/copy", "v1"), json!([["oak"], ["ash"]]));

    // All kinds of changes, of which one gives the default branch another history.
    ada.write("ada/trees", "side", "update trees set name = 'wych elm' where id = 3");
    ada.patch("/databases/ada/trees", &json!({"default_branch": "side"})).expect(200);
    ada.delete("/databases/ada/trees/branches/main").expect(200);
    ada.post("/databases/ada/trees/branches", &json!({"name": "new", "from": {"branch": "side"}})).expect(201);
    ada.delete("/databases/ada/trees/tags/v1").expect(200);
    ada.post("/databases/ada/trees/tags", &json!({"name": "v2", "from": {"branch": "side"}})).expect(201);
    synced(&bob, "copy");
    assert_eq!(refs(&bob, "bob/copy"), refs(&ada, "ada/trees"));
    assert_eq!(bob.get("/databases/bob/copy").expect(200).data()["default_branch"], "side");
    assert_eq!(names(&bob, "bob/copy", "new"), json!([["oak"], ["ash"], ["wych elm"]]));

    // Nothing changed: the commit of the operation is the head, and no more is read.
    let before = source.metric("branchyard_remote_requests_total{endpoint=\"get-chunks\",outcome=\"ok\"}");
    synced(&bob, "copy");
    let after = source.metric("branchyard_remote_requests_total{endpoint=\"get-chunks\",outcome=\"ok\"}");
    assert_eq!(before.to_bits(), after.to_bits(), "{before} {after}");
}

#[test]
fn what_a_sync_brings_shows_as_pushes_of_the_mirrors_creator() {
    let (source, follower) = (Server::start(), follower());
    let (ada, bob) = (source.user("ada"), follower.user("bob"));
    ada.database("trees");
    ada.write("ada/trees", "main", TABLE);
    create(&bob, "copy", &json!({"url": format!("{}/ada/trees", source.address())})).expect(201);
    synced(&bob, "copy");
    let head = ada.write("ada/trees", "main", "insert into trees values (3, 'elm')");
    synced(&bob, "copy");
    let page = bob.plain(Method::GET, "/bob/copy/activity").send().unwrap();
    let page = if page.status().is_success() { page.text().unwrap() } else { String::new() };
    let commits = bob.get("/databases/bob/copy/commits").expect(200).data();
    assert_eq!(commits[0]["sha"], json!(head), "{page}");
    let operations = bob.get("/databases/bob/copy/operations?type=mirror_sync").expect(200).data();
    let creators: Vec<&Value> = operations.as_array().unwrap().iter().map(|found| &found["created_by"]).collect();
    assert!(creators.len() >= 2 && creators.iter().all(|creator| *creator == "bob"), "{operations}");
}

#[test]
fn only_the_source_writes_to_a_mirror_until_it_is_none() {
    let (source, follower) = (Server::start(), follower());
    let (ada, bob) = (source.user("ada"), follower.user("bob"));
    ada.database("trees");
    ada.write("ada/trees", "main", TABLE);
    create(&bob, "copy", &json!({"url": format!("{}/ada/trees", source.address()), "interval_seconds": 60}))
        .expect(201);
    synced(&bob, "copy");
    let write = json!({"from_branch": "main", "to_branch": "main", "q": "insert into trees values (9, 'yew')"});
    let refused = |answer: TestAnswer| {
        let answer = answer.expect(422);
        assert!(answer.text.contains("this database is a mirror: only its source changes it"), "{}", answer.text);
    };
    refused(bob.post("/databases/bob/copy/sql-writes", &write));
    refused(bob.post("/databases/bob/copy/branches", &json!({"name": "b", "from": {"branch": "main"}})));
    refused(bob.post("/databases/bob/copy/tags", &json!({"name": "t", "from": {"branch": "main"}})));
    refused(bob.post("/databases/bob/copy/releases", &json!({"tag": "t", "title": "t", "from": {"branch": "main"}})));
    refused(bob.delete("/databases/bob/copy/branches/main"));
    refused(bob.patch("/databases/bob/copy", &json!({"default_branch": "side"})));
    bob.patch("/databases/bob/copy", &json!({"default_branch": "main"})).expect(200);
    bob.patch("/databases/bob/copy", &json!({"description": "A copy"})).expect(200);
    let push = bob.plain(Method::POST, "/bob/copy/has-chunks").bearer_auth(bob.token().unwrap());
    let push = push.header("content-type", "application/octet-stream").body(vec![7; 20]).send().unwrap();
    let (status, text) = (push.status().as_u16(), push.text().unwrap());
    assert!(status == 400 && text.contains("rejected") && text.contains("is a mirror"), "{status} {text}");

    let cleo = follower.user("cleo");
    let fork = cleo.finish(&cleo.post("/databases/bob/copy/forks", &json!({"owner": "cleo"})));
    assert_eq!(fork["status"], "succeeded", "{fork}");
    cleo.write("cleo/copy", "main", "insert into trees values (9, 'yew')");
    cleo.get("/databases/cleo/copy/mirror").expect(404);

    bob.delete("/databases/bob/copy/mirror").expect(200);
    bob.get("/databases/bob/copy/mirror").expect(404);
    bob.post("/databases/bob/copy/mirror/sync", &json!({})).expect(404);
    bob.write("bob/copy", "main", "insert into trees values (9, 'yew')");
}

#[test]
fn an_interval_of_zero_is_one_sync() {
    let (source, follower) = (Server::start(), follower());
    let (ada, bob) = (source.user("ada"), follower.user("bob"));
    ada.database("trees");
    ada.write("ada/trees", "main", TABLE);
    create(&bob, "copy", &json!({"url": format!("{}/ada/trees", source.address()), "interval_seconds": 0})).expect(201);
    let listed = bob.get("/databases/bob/copy/operations").expect(200).data();
    let href = listed[0]["id"].as_str().unwrap().trim_start_matches("operations/").to_owned();
    let began = Instant::now();
    while bob.get(&format!("/operations/{href}")).expect(200).data()["status"] != "succeeded" {
        assert!(began.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(20));
    }
    bob.get("/databases/bob/copy/mirror").expect(404);
    bob.write("bob/copy", "main", "insert into trees values (3, 'elm')");
    assert_eq!(names(&bob, "bob/copy", "main"), json!([["oak"], ["ash"], ["elm"]]));
}

#[test]
fn a_private_source_is_read_with_the_key_of_the_mirror() {
    let secure = SecureServer::start();
    let ada = secure.user("ada");
    ada.post("/databases", &json!({"owner": "ada", "name": "trees", "visibility": "private"})).expect(201);
    ada.write("ada/trees", "main", TABLE);
    let authority = secure.authority().to_owned();
    let follower = Server::start_with(|config| {
        config.remotes.allowed_cidrs = vec!["127.0.0.0/8".to_owned()];
        config.remotes.extra_ca_file = Some(authority);
    });
    let bob = follower.user("bob");
    create(&bob, "copy", &json!({"url": secure.address("ada/trees")})).expect(201);
    let refused = sync(&bob, "copy");
    assert_eq!(refused["status"], "failed", "{refused}");
    let shown = mirror(&bob, "copy");
    assert!(shown["last_error"].as_str().unwrap().contains("answered 401"), "{shown}");

    ada.post("/user/keys", &json!({"name": "mirror", "public_key": shown["public_key"]})).expect(201);
    synced(&bob, "copy");
    assert!(mirror(&bob, "copy").get("last_error").is_none());
    assert_eq!(names(&bob, "bob/copy", "main"), json!([["oak"], ["ash"]]));

    // The key is not for all mirrors.
    create(&bob, "other", &json!({"url": secure.address("ada/trees")})).expect(201);
    assert_ne!(mirror(&bob, "other")["public_key"], shown["public_key"]);
    assert_eq!(sync(&bob, "other")["status"], "failed");
}

#[test]
fn a_request_for_a_mirror_is_checked() {
    let closed = Server::start();
    let bob = closed.user("bob");
    for (mirror_of, status, part) in [
        (json!({"url": "https://127.0.0.1:9/ada/trees"}), 422, "in a network that mirrors may not reach"),
        (json!({"url": "http://yard.example/ada/trees"}), 400, "must begin with https://"),
        (json!({"url": "https://169.254.169.254/ada/trees"}), 422, "in a network that mirrors may not reach"),
        (json!({"url": "https://ada:secret@yard.example/ada/trees"}), 400, "register a key instead"),
        (json!({"url": "https://yard.example/"}), 400, "must name a database"),
        (json!({"url": "file:///etc/passwd"}), 400, "must be an absolute URL"),
        (json!({"url": format!("https://yard.example/{}", "a".repeat(2_100))}), 400, "2048"),
        (json!({"url": "https://yard.example/ada/trees", "interval_seconds": 59}), 400, "0 or 60 to 2592000"),
        (json!({"url": "https://yard.example/ada/trees", "interval_seconds": 2_592_001}), 400, "0 to 2592000"),
        (json!({"url": "https://yard.example/ada/trees", "every": 60}), 400, "/mirror_of/every"),
        (json!({}), 400, "/mirror_of/url"),
        (json!("https://yard.example/ada/trees"), 400, "must be an object"),
    ] {
        let answer = create(&bob, "copy", &mirror_of).expect(status);
        assert!(answer.text.contains(part), "{mirror_of}: {}", answer.text);
    }
    assert_eq!(bob.get("/databases").expect(200).data(), json!([]));
    bob.database("plain");
    bob.get("/databases/bob/plain/mirror").expect(404);
    bob.patch("/databases/bob/plain/mirror", &json!({"interval_seconds": 60})).expect(404);
}

/// Every name is an address of this machine.
struct Inside;

impl branchyard::compose::Names for Inside {
    fn resolve(&self, _name: &str) -> std::io::Result<Vec<std::net::IpAddr>> {
        Ok(vec![[127, 0, 0, 1].into()])
    }
}

#[test]
fn a_name_that_leads_into_the_network_of_the_server_is_not_connected_to() {
    let server = Server::with_names(std::sync::Arc::new(Inside), |_| {});
    let bob = server.user("bob");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("https://yard.example:{}/ada/trees", listener.local_addr().unwrap().port());
    create(&bob, "copy", &json!({"url": url})).expect(201);
    assert_eq!(sync(&bob, "copy")["status"], "failed");
    let error = mirror(&bob, "copy")["last_error"].as_str().unwrap().to_owned();
    assert!(error.contains("may not reach"), "{error}");
    assert!(listener.accept().is_err(), "a connection came");
}

#[test]
fn a_hostile_source_changes_nothing_and_the_mirror_says_why() {
    let follower = follower();
    let bob = follower.user("bob");
    let real = Server::start();
    let ada = real.user("ada");
    ada.database("trees");
    ada.write("ada/trees", "main", TABLE);
    let refs = reqwest::blocking::get(format!("{}/ada/trees/refs", real.address())).unwrap().bytes().unwrap().to_vec();
    let cases: Vec<(&str, Source, &str)> = vec![
        ("no_refs", Source::answering(|_, _| (200, b"hello".to_vec())), "what is not accepted"),
        ("endless_refs", Source::answering(|_, _| (200, vec![7; 17 << 20])), "more than 16777216 bytes"),
        ("redirect", Source::answering(|_, _| (302, Vec::new())), "it redirects"),
        (
            "missing",
            Source::answering(|_, _| (404, br#"{"message":"nothing\u001b[31m here"}"#.to_vec())),
            "nothing[31m here",
        ),
        (
            "other_chunks",
            Source::answering({
                let refs = refs.clone();
                move |path, body| match path.ends_with("/refs") {
                    true => (200, refs.clone()),
                    false => (200, [5_u32.to_be_bytes().as_slice(), b"hello"].concat().repeat(body.len() / 20)),
                }
            }),
            "has another content",
        ),
        (
            "absent_chunks",
            Source::answering({
                let refs = refs.clone();
                move |path, body| match path.ends_with("/refs") {
                    true => (200, refs.clone()),
                    false => (200, [0xff; 4].repeat(body.len() / 20)),
                }
            }),
            "does not have",
        ),
        (
            "huge_chunk",
            Source::answering(move |path, _| match path.ends_with("/refs") {
                true => (200, refs.clone()),
                false => (200, u32::MAX.wrapping_sub(9).to_be_bytes().to_vec()),
            }),
            "bytes",
        ),
    ];
    for (name, source, reason) in &cases {
        create(&bob, name, &json!({"url": source.url("ada/trees")})).expect(201);
        let operation = sync(&bob, name);
        assert_eq!(operation["status"], "failed", "{name}: {operation}");
        let error = mirror(&bob, name)["last_error"].as_str().unwrap().to_owned();
        assert!(error.contains(reason), "{name}: {error}");
        assert!(operation["error"]["detail"].as_str().unwrap().contains(reason), "{operation}");
        let branches = bob.get(&format!("/databases/bob/{name}/branches")).expect(200).data();
        assert_eq!(branches.as_array().unwrap().len(), 1, "{name}");
    }
}

#[test]
fn a_source_that_hangs_holds_up_no_other_and_no_stop() {
    let follower = follower();
    let (mallory, bob) = (follower.user("mallory"), follower.user("bob"));
    let hanging = silent();
    for n in 0..8 {
        create(&mallory, &format!("m{n}"), &json!({"url": format!("http://{hanging}/ada/trees")})).expect(201);
    }
    bob.database("trees");
    let began = Instant::now();
    bob.write("bob/trees", "main", TABLE);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let began = Instant::now();
    drop(follower);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}
