//! Databases as remotes of the unmodified client: this process has the engine that a user's shell has.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use branchyard_testkit::{Actor, RawConnection, Server};
use reqwest::Method;
use reqwest::blocking::Response;
use rusqlite::Connection;
use serde_json::{Value, json};

const TABLE: &str =
    "create table trees (id integer primary key, name text); insert into trees values (1, 'oak'), (2, 'ash')";

/// Runs a statement of the client.
fn run(client: &Connection, statement: &str) -> Result<(), String> {
    client.query_row(statement, [], |_| Ok(())).map_err(|error| error.to_string())
}

fn rows(client: &Connection, statement: &str) -> Vec<String> {
    let mut prepared = client.prepare(statement).unwrap();
    prepared.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

fn clone(server: &Server, database: &str, into: &Path) -> Result<Connection, String> {
    let client = Connection::open(into).unwrap();
    run(&client, &format!("select dolt_clone('{}/{database}')", server.address()))?;
    Ok(client)
}

fn send(actor: &Actor, method: Method, path: &str, body: Vec<u8>) -> Response {
    let request = actor.plain(method, path).header("content-type", "application/octet-stream").body(body);
    let request = match actor.token() {
        Some(token) => request.bearer_auth(token),
        None => request,
    };
    request.send().unwrap()
}

fn error_of(response: Response) -> (u16, String, i64, String) {
    let status = response.status().as_u16();
    let body: Value = serde_json::from_slice(&response.bytes().unwrap()).unwrap();
    let text = |key: &str| body[key].as_str().unwrap().to_owned();
    (status, text("code"), body["sqlite"].as_i64().unwrap(), text("message"))
}

/// Returns the bytes of a commit hash.
fn hash_of(commit: &str) -> Vec<u8> {
    (0..20).map(|at| u8::from_str_radix(&commit[2 * at..2 * at + 2], 16).unwrap()).collect()
}

fn head(actor: &Actor, database: &str, branch: &str) -> String {
    let branches = actor.get(&format!("/databases/{database}/branches")).expect(200).data();
    let found = branches.as_array().unwrap().iter().find(|found| found["name"] == branch);
    found.unwrap()["head_commit_sha"].as_str().unwrap().to_owned()
}

#[test]
fn a_public_database_is_cloned_and_fetched_with_its_branches_tags_and_history() {
    let server = Server::start();
    let ada = server.user("ada");
    ada.database("trees");
    ada.write("ada/trees", "main", TABLE);
    ada.post("/databases/ada/trees/branches", &json!({"name": "side", "from": {"branch": "main"}})).expect(201);
    ada.post("/databases/ada/trees/tags", &json!({"name": "v1", "from": {"branch": "main"}, "message": "first"}))
        .expect(201);
    ada.write("ada/trees", "side", "create index by_name on trees(name); insert into trees values (3, 'elm')");
    for n in 0..20 {
        ada.write("ada/trees", "main", &format!("insert into trees values ({}, 'tree {n}')", 10 + n));
    }

    let folder = tempfile::tempdir().unwrap();
    let client = clone(&server, "ada/trees", &folder.path().join("clone.db")).unwrap();
    assert_eq!(rows(&client, "select count(*) || '' from trees"), ["22"]);
    assert_eq!(rows(&client, "pragma integrity_check"), ["ok"]);
    let log = rows(&client, "select commit_hash from dolt_log");
    assert_eq!(log[0], head(&ada, "ada/trees", "main"));
    let own = ada.get("/databases/ada/trees/commits?page_size=100").expect(200).data();
    let own: Vec<_> = own.as_array().unwrap().iter().map(|commit| commit["sha"].as_str().unwrap().to_owned()).collect();
    assert_eq!(log, own);
    assert_eq!(rows(&client, "select name from dolt_branches"), ["main"]);
    assert_eq!(
        rows(&client, "select name from dolt_remote_branches order by name"),
        ["remotes/origin/main", "remotes/origin/side"]
    );
    assert_eq!(rows(&client, "select tag_name || ' ' || message from dolt_tags"), ["v1 first"]);
    let on_side = "select name from dolt_at_trees('origin/side') where id = 3";
    assert_eq!(rows(&client, on_side), ["elm"]);

    ada.write("ada/trees", "main", "insert into trees values (99, 'yew')");
    ada.write("ada/trees", "side", "update trees set name = 'wych elm' where id = 3");
    run(&client, "select dolt_pull('origin', 'main')").unwrap();
    assert_eq!(rows(&client, "select name from trees where id = 99"), ["yew"]);
    run(&client, "select dolt_fetch('origin', 'side')").unwrap();
    assert_eq!(rows(&client, "select name from dolt_at_trees('origin/side') where id = 3"), ["wych elm"]);
    assert_eq!(rows(&client, "pragma integrity_check"), ["ok"]);
}

#[test]
fn a_clone_goes_on_at_the_former_address_of_its_remote() {
    let server = Server::start();
    let ada = server.user("ada");
    ada.database("trees");
    ada.write("ada/trees", "main", TABLE);
    let folder = tempfile::tempdir().unwrap();
    let client = clone(&server, "ada/trees", &folder.path().join("before.db")).unwrap();
    ada.patch("/databases/ada/trees", &json!({"name": "woods"})).expect(200);
    ada.write("ada/woods", "main", "insert into trees values (99, 'yew')");
    run(&client, "select dolt_pull('origin', 'main')").unwrap();
    assert_eq!(rows(&client, "select name from trees where id = 99"), ["yew"]);
    for (database, file) in [("ada/trees", "old.db"), ("ada/woods", "new.db")] {
        let client = clone(&server, database, &folder.path().join(file)).unwrap();
        assert_eq!(rows(&client, "select count(*) || '' from trees"), ["3"]);
    }
    ada.patch("/databases/ada/woods", &json!({"visibility": "private"})).expect(200);
    assert!(clone(&server, "ada/trees", &folder.path().join("hidden.db")).is_err());
}

#[test]
fn a_lazy_clone_fetches_what_a_query_needs() {
    let server = Server::start();
    let ada = server.user("ada");
    ada.database("trees");
    ada.write("ada/trees", "main", TABLE);
    ada.post("/databases/ada/trees/branches", &json!({"name": "side", "from": {"branch": "main"}})).expect(201);
    ada.write("ada/trees", "side", "insert into trees values (3, 'elm')");
    let folder = tempfile::tempdir().unwrap();
    let clone = |name: &str, options: &str| {
        let path = folder.path().join(name);
        let client = Connection::open(&path).unwrap();
        run(&client, &format!("select dolt_clone({options} '{}/ada/trees')", server.address())).unwrap();
        path
    };
    let single = Connection::open(clone("single.db", "'--single-branch', '-b', 'side',")).unwrap();
    assert_eq!(rows(&single, "select name from trees order by id"), ["oak", "ash", "elm"]);
    let lazy = clone("lazy.db", "'--lazy',");
    let whole = std::fs::metadata(clone("whole.db", "")).unwrap().len();
    assert!(std::fs::metadata(&lazy).unwrap().len() < whole);
    let lazy = Connection::open(format!("file:{}?lazy_origin=1", lazy.display())).unwrap();
    assert_eq!(rows(&lazy, "select name from trees order by id"), ["oak", "ash"]);
}

/// The chunks of a step are longer than a piece, and in the second run also longer than the room in which pieces are kept.
#[test]
fn long_answers_are_made_in_pieces() {
    for room in [64 << 20, 4 << 20] {
        let server = Server::start_with(|config| config.http.max_bytes_in_flight = room);
        let ada = server.user("ada");
        ada.database("large");
        let large = "create table t (id integer primary key, v blob);
            with recursive n(x) as (select 1 union all select x + 1 from n where x < 12)
                insert into t select x, zeroblob(x * 80000) from n;
            with recursive n(x) as (select 20 union all select x + 1 from n where x < 4000)
                insert into t select x, hex(randomblob(500)) from n";
        ada.write("ada/large", "main", large);
        let folder = tempfile::tempdir().unwrap();
        let client = clone(&server, "ada/large", &folder.path().join("clone.db")).unwrap();
        let sums = "select count(*) || ' ' || sum(length(v)) from t";
        assert_eq!(json!([[rows(&client, sums)[0]]]), ada.read("ada/large", "main", sums));
        assert_eq!(rows(&client, "pragma integrity_check"), ["ok"]);
    }
}

#[test]
fn what_a_caller_may_not_see_is_absent() {
    let server = Server::start();
    let (ada, bob) = (server.user("ada"), server.user("bob"));
    let private = json!({"owner": "ada", "name": "secret", "visibility": "private"});
    ada.post("/databases", &private).expect(201);
    ada.write("ada/secret", "main", TABLE);
    ada.database("empty");
    let folder = tempfile::tempdir().unwrap();
    let refused = |database: &str| clone(&server, database, &folder.path().join("refused.db")).unwrap_err();
    let hidden = refused("ada/secret");
    assert_eq!(hidden, refused("ada/none"), "a private database answers like none");
    assert!(hidden.contains("no such repository"), "{hidden}");
    assert!(refused("ada/empty").contains("ada/empty is empty: push a branch to it"));

    let refs = |actor: &Actor, database: &str| send(actor, Method::GET, &format!("/{database}/refs"), Vec::new());
    let (code, number) = ("not_found".to_owned(), 12);
    let (_, _, _, message) = error_of(refs(&bob, "ada/secret"));
    assert_eq!(error_of(refs(&server.anonymous(), "ada/secret")), (404, code, number, message.clone()));
    assert_eq!(error_of(refs(&ada, "ada/empty")).0, 404);
    let invalid = Actor::new(server.address(), Some("hsat.v1.x".to_owned()), "invalid");
    let refused = error_of(refs(&invalid, "ada/secret"));
    assert_eq!((refused.0, &*refused.1, refused.2), (401, "unauthorized", 23));

    let seen = refs(&ada, "ada/secret");
    assert_eq!(seen.status(), 200);
    assert!(seen.headers().contains_key("content-length") && seen.headers()["cache-control"] == "no-store");
    let seen = seen.bytes().unwrap();
    assert_eq!(seen, refs(&ada, "ada/secret").bytes().unwrap(), "the same bytes again");
    assert_eq!(seen[0], 7);

    let commit = hash_of(&head(&ada, "ada/secret", "main"));
    let chunks = |actor: &Actor, hashes: Vec<u8>| send(actor, Method::POST, "/ada/secret/get-chunks", hashes);
    assert_eq!(error_of(chunks(&bob, commit.clone())), (404, "not_found".to_owned(), 12, message));
    let found = chunks(&ada, [&commit[..], &[7; 20], &commit[..]].concat()).bytes().unwrap();
    let length = u32::from_be_bytes(found[..4].try_into().unwrap()) as usize;
    assert_eq!(found[4], 2, "a commit");
    assert_eq!(found[4 + length..8 + length], [0xff; 4], "absent");
    assert_eq!(found.len(), 2 * (4 + length) + 4);
}

#[test]
fn a_commit_that_no_ref_reaches_is_absent() {
    let server = Server::start_with(|config| config.remotes.grace = branchyard::config::Span::seconds(0));
    let ada = server.user("ada");
    ada.database("trees");
    ada.write("ada/trees", "main", TABLE);
    ada.post("/databases/ada/trees/branches", &json!({"name": "side", "from": {"branch": "main"}})).expect(201);
    ada.write("ada/trees", "side", "insert into trees values (3, 'a secret')");
    let commit = head(&ada, "ada/trees", "side");
    let found = || {
        let found = send(&server.anonymous(), Method::POST, "/ada/trees/get-chunks", hash_of(&commit)).bytes().unwrap();
        found[..4] != [0xff; 4]
    };
    assert!(found());
    ada.delete("/databases/ada/trees/branches/side").expect(200);
    assert!(!found());
    // Nor is a commit of a fork, which has another file.
    let bob = server.user("bob");
    bob.finish(&bob.post("/databases/ada/trees/forks", &json!({"owner": "bob"})));
    bob.write("bob/trees", "main", "insert into trees values (4, 'yew')");
    let theirs = hash_of(&head(&bob, "bob/trees", "main"));
    let absent = send(&ada, Method::POST, "/ada/trees/get-chunks", theirs).bytes().unwrap();
    assert_eq!(absent[..], [0xff; 4]);
}

/// A clone that is under way ends, and nothing else can use what was deleted.
#[test]
fn a_deleted_branch_can_be_read_by_clients_for_a_while_and_not_after_a_purge() {
    let server = Server::start();
    let ada = server.user("ada");
    ada.database("trees");
    ada.write("ada/trees", "main", TABLE);
    ada.post("/databases/ada/trees/branches", &json!({"name": "side", "from": {"branch": "main"}})).expect(201);
    ada.write("ada/trees", "side", "insert into trees values (3, 'elm')");
    let commit = head(&ada, "ada/trees", "side");
    let found = || {
        let found = send(&server.anonymous(), Method::POST, "/ada/trees/get-chunks", hash_of(&commit)).bytes().unwrap();
        found[..4] != [0xff; 4]
    };
    ada.delete("/databases/ada/trees/branches/side").expect(200);
    assert!(found());
    ada.get(&format!("/databases/ada/trees/commits?ref={commit}")).expect(404);
    ada.post("/databases/ada/trees/sql", &json!({"ref": commit, "q": "select 1"})).expect(404);
    let has = send(&ada, Method::POST, "/ada/trees/has-chunks", hash_of(&commit)).bytes().unwrap();
    assert_eq!(has[..], [0], "a client that has the commit can push it again");
    ada.finish(&ada.post("/databases/ada/trees/purge", &json!({})));
    assert!(!found());
}

#[test]
fn malformed_requests_are_refused_in_words() {
    let server = Server::start();
    let ada = server.user("ada");
    ada.database("trees");
    ada.write("ada/trees", "main", TABLE);
    for length in [0, 1, 21, 4_096 * 20 + 1, 4_097 * 20, 200_000] {
        let refused = error_of(send(&ada, Method::POST, "/ada/trees/get-chunks", vec![7; length]));
        assert_eq!((refused.0, &*refused.1, refused.2), (400, "bad_request", 1), "{length}");
        assert!(refused.3.contains("4096 hashes"), "{refused:?}");
    }
    assert_eq!(send(&ada, Method::POST, "/ada/trees/get-chunks", vec![7; 4_096 * 20]).status(), 200);
    for (method, endpoint) in [(Method::POST, "refs"), (Method::GET, "root"), (Method::GET, "commit")] {
        let refused = send(&ada, method, &format!("/ada/trees/{endpoint}"), Vec::new());
        assert_eq!(refused.status(), 404, "{endpoint}");
    }
}

#[test]
fn the_limit_of_refs_and_the_switch_are_kept() {
    let server = Server::start_with(|config| config.remotes.max_refs = 3);
    let ada = server.user("ada");
    ada.database("trees");
    ada.write("ada/trees", "main", TABLE);
    let refs = || send(&ada, Method::GET, "/ada/trees/refs", Vec::new());
    let tag = |name: &str| {
        ada.post("/databases/ada/trees/tags", &json!({"name": name, "from": {"branch": "main"}})).expect(201);
    };
    tag("a");
    tag("b");
    assert_eq!(refs().status(), 200);
    tag("c");
    let refused = error_of(refs());
    assert_eq!((refused.0, &*refused.1, refused.2), (413, "toobig", 18));
    assert!(refused.3.contains("remotes.max_refs"), "{refused:?}");

    let off = Server::start_with(|config| config.remotes.enabled = false);
    let bob = off.user("bob");
    bob.database("trees");
    let refused = error_of(send(&bob, Method::GET, "/bob/trees/refs", Vec::new()));
    assert!(refused.0 == 404 && refused.3.contains("remotes.enabled"), "{refused:?}");
}

/// A refusal waits for the body, but not for one that comes too slowly.
#[test]
fn bodies_that_do_not_come_are_answered() {
    let server = Server::start();
    let ended = |path: &str| {
        let mut connection = RawConnection::open(server.socket());
        let before = Instant::now();
        connection.begin(&format!("POST {path}"), "content-length: 80000", &[7; 20]);
        let answer = connection.answer();
        assert!(before.elapsed() < Duration::from_secs(20), "{path} took {:?}", before.elapsed());
        answer.status
    };
    thread::scope(|scope| {
        let paths = ["/ada/none/get-chunks", "/ada/none/has-chunks"];
        let all = paths.map(|path| scope.spawn(move || ended(path)));
        assert_eq!(all.map(|answer| answer.join().unwrap()), [404, 401]);
    });
}

/// A clone has one request for each commit of a line, so its requests for chunks count against no quota.
#[test]
fn a_long_history_is_cloned_within_the_quota_of_anonymous_callers() {
    let server = Server::start_with(|config| {
        config.rate_limit.enabled = true;
        config.rate_limit.anonymous_per_minute = 5;
    });
    let ada = server.user("ada");
    ada.database("trees");
    ada.write("ada/trees", "main", TABLE);
    for n in 0..30 {
        ada.write("ada/trees", "main", &format!("insert into trees values ({}, 'tree {n}')", 10 + n));
    }
    let folder = tempfile::tempdir().unwrap();
    let client = clone(&server, "ada/trees", &folder.path().join("clone.db")).unwrap();
    assert_eq!(rows(&client, "select count(*) || '' from dolt_log"), ["32"]);
    let statuses: Vec<_> = (0..6)
        .map(|_| send(&server.anonymous(), Method::GET, "/ada/trees/refs", Vec::new()).status().as_u16())
        .collect();
    assert_eq!(statuses.last(), Some(&429), "refs are counted: {statuses:?}");
}

/// The database could be named as an endpoint, below a first segment that is no owner.
#[test]
fn pages_whose_paths_look_alike_stay() {
    let server = Server::start();
    let ada = server.user("ada");
    ada.database("refs");
    let page = server.anonymous().plain(Method::GET, "/repositories/ada/refs").send().unwrap();
    assert!(page.headers().get("content-type").is_none_or(|kind| kind != "application/json"), "{page:?}");
    assert!(page.url().path().ends_with("/ada/refs"), "{page:?}");
}

/// Clients compute between their requests. Other connections are closed as soon as ever.
#[test]
fn a_connection_of_a_client_stays_open_while_it_computes() {
    let server = Server::start();
    let ada = server.user("ada");
    ada.database("trees");
    ada.write("ada/trees", "main", TABLE);
    let lives_for = |path: &'static str, silence: Duration| {
        let mut connection = RawConnection::open(server.socket());
        connection.begin(&format!("GET {path}"), "", &[]);
        assert_eq!(connection.answer().status, 200, "{path}");
        thread::sleep(silence);
        connection.is_open()
    };
    thread::scope(|scope| {
        let [kept, short, page] = [
            ("/ada/trees/refs", Duration::from_secs(12)),
            ("/api/v2/databases/ada/trees", Duration::from_secs(3)),
            ("/api/v2/databases/ada/trees", Duration::from_secs(12)),
        ]
        .map(|(path, silence)| scope.spawn(move || lives_for(path, silence)));
        assert!(kept.join().unwrap(), "a connection of a client was closed");
        assert!(short.join().unwrap(), "a connection was closed too early");
        assert!(!page.join().unwrap(), "a connection was not closed");
    });
}

/// The server does not wait for clients that are silent.
#[test]
fn a_server_that_stops_closes_connections_of_silent_clients() {
    let server = Server::start();
    let ada = server.user("ada");
    ada.database("trees");
    ada.write("ada/trees", "main", TABLE);
    let mut connection = RawConnection::open(server.socket());
    connection.begin("GET /ada/trees/refs", "", &[]);
    assert_eq!(connection.answer().status, 200);
    let before = Instant::now();
    drop(server);
    assert!(before.elapsed() < Duration::from_secs(10), "it took {:?}", before.elapsed());
}

#[test]
fn pages_of_other_origins_may_ask_what_they_may_send() {
    let server = Server::start_with(|config| config.cors.allowed_origins = vec!["*".to_owned()]);
    let anonymous = server.anonymous();
    for (endpoint, method) in [("refs", "GET"), ("get-chunks", "POST"), ("refs-if", "PUT")] {
        let asked = anonymous
            .plain(Method::OPTIONS, &format!("/ada/trees/{endpoint}"))
            .header("origin", "https://app.example")
            .header("access-control-request-method", method)
            .header("access-control-request-headers", "authorization,content-type")
            .send()
            .unwrap();
        assert_eq!(asked.status(), 204, "{endpoint}");
        assert_eq!(asked.headers()["access-control-allow-origin"], "*", "{endpoint}");
        assert!(asked.headers()["access-control-allow-methods"].to_str().unwrap().contains(method), "{endpoint}");
    }
}
