//! Pushes, by a client that sends what a test wants.

pub(crate) mod client;
mod crash;
mod mutated;
#[path = "../../../../crates/engine-doltlite/tests/it/hostile/mutations.rs"]
pub(crate) mod mutations;

use std::thread;
use std::time::Duration;

use branchyard_remote_protocol::{Hash, Scope, hash_of, hex};
use branchyard_testkit::{Actor, Server};
use reqwest::Method;
use serde_json::{Value, json};

use self::client::{Remote, commit, with_branch};
use self::mutations::Chunks;

const TABLE: &str = "create table trees (id integer primary key, name text); create index by_name on trees(name);
    insert into trees values (1, 'oak'), (2, 'ash')";

/// Creates a database with a commit for each statement on `main`, beside others on `side`.
fn source(actor: &Actor, name: &str) -> (Hash, Chunks) {
    let database = format!("{}/{name}", actor.name());
    actor.database(name);
    actor.write(&database, "main", TABLE);
    actor.write(&database, "main", "insert into trees values (3, 'elm')");
    let remote = Remote::new(actor, &database);
    let head = remote.head("main");
    (head, remote.history(head))
}

fn branches(actor: &Actor, database: &str) -> Vec<(String, String)> {
    let found = actor.get(&format!("/databases/{database}/branches")).expect(200).data();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    found.as_array().unwrap().iter().map(|branch| (text(&branch["name"]), text(&branch["head_commit_sha"]))).collect()
}

fn names(actor: &Actor, database: &str) -> Value {
    actor.read(database, "main", "select name from trees order by id")
}

#[test]
fn the_first_push_fills_a_new_database_and_later_ones_move_its_branch() {
    let server = Server::start();
    let ada = server.user("ada");
    let (head, chunks) = source(&ada, "source");
    ada.database("copy");
    let copy = Remote::new(&ada, "ada/copy");
    copy.push("trunk", head, &chunks, false).unwrap();
    assert_eq!(branches(&ada, "ada/copy"), [("trunk".to_owned(), hex(&head))]);
    let shown = ada.get("/databases/ada/copy").expect(200).data();
    assert_eq!(shown["default_branch"], "trunk");
    assert_eq!(ada.read("ada/copy", "trunk", "select name from trees order by id"), json!([["oak"], ["ash"], ["elm"]]));
    assert_eq!(
        ada.read("ada/copy", "trunk", "select id from trees indexed by by_name where name = 'elm'"),
        json!([["3"]])
    );

    ada.write("ada/source", "main", "insert into trees values (4, 'yew')");
    let source = Remote::new(&ada, "ada/source");
    let next = source.head("main");
    copy.push("trunk", next, &source.history(next), false).unwrap();
    assert_eq!(copy.head("trunk"), next);
    // Again, which changes nothing.
    let before = ada.get("/databases/ada/copy/operations").expect(200).data();
    copy.set("trunk", next, false).unwrap();
    assert_eq!(ada.get("/databases/ada/copy/operations").expect(200).data(), before);
    assert_eq!(before[0]["type"], "push");
    assert_eq!(before[0]["status"], "succeeded");
    assert_eq!(before[0]["created_by"], "ada");
    assert!(copy.send(Method::POST, "commit", Vec::new()).unwrap().is_empty());
}

#[test]
fn changed_rows_of_every_kind_of_table_are_accepted() {
    let server = Server::start();
    let ada = server.user("ada");
    for (n, table) in [
        "create table t (k integer primary key, v)",
        "create table t (k text primary key, v)",
        "create table t (k text not null primary key, v unique)",
        "create table t (k text, l integer default 1, v, primary key (k, l)); create index i on t(v)",
        "create table t (k text primary key, v) without rowid; create index i on t(v)",
        "create table t (k, v); create unique index i on t(k)",
        "create table t (k text primary key desc, v)",
        "create table u (k integer primary key); insert into u values (1), (2), (6), (11), (16);
            create table t (k integer primary key, v integer references u(k))",
        "create virtual table t using fts5(k, v)",
    ]
    .into_iter()
    .enumerate()
    {
        let (source, copy) = (format!("source{n}"), format!("copy{n}"));
        ada.database(&source);
        ada.database(&copy);
        let (of_source, of_copy) = (format!("ada/{source}"), format!("ada/{copy}"));
        ada.write(&of_source, "main", &format!("{table}; insert into t (k, v) values (7, 1), (8, 2)"));
        let (from, to) = (Remote::new(&ada, &of_source), Remote::new(&ada, &of_copy));
        for _ in 0..3 {
            let head = from.head("main");
            to.push("main", head, &from.history(head), false).unwrap_or_else(|refused| panic!("{table}: {refused:?}"));
            ada.write(&of_source, "main", "update t set v = v + 5 where k = 7");
        }
        assert_eq!(ada.read(&of_copy, "main", "select v + 0 from t where k = 7"), json!([["11"]]), "{table}");
    }
}

#[test]
fn branches_are_created_moved_by_force_and_deleted() {
    let server = Server::start();
    let ada = server.user("ada");
    let (head, chunks) = source(&ada, "source");
    let remote = Remote::new(&ada, "ada/source");
    let parent = branchyard_remote_protocol::layout::commit(&chunks[&head]).unwrap().parents[0];
    // A branch at a commit that is there, with nothing to upload.
    remote.set("side", parent, false).unwrap();
    let catalog = branchyard_remote_protocol::layout::commit(&chunks[&parent]).unwrap().catalog;
    let other = commit(&[parent], catalog, "another way");
    let tip = hash_of(&other);
    let pushed = Chunks::from([(tip, other)]);
    let refused = remote.push("main", tip, &pushed, false).unwrap_err();
    assert!(refused.is(400, "non_ff", 19) && refused.message.contains("--force"), "{refused:?}");
    assert_eq!(remote.head("main"), head);
    remote.push("side", tip, &pushed, false).unwrap();
    remote.push("main", tip, &pushed, true).unwrap();
    assert_eq!(remote.head("main"), tip);
    assert_eq!(names(&ada, "ada/source"), json!([["oak"], ["ash"]]));
    let log = ada.get("/databases/ada/source/commits").expect(200).data();
    assert_eq!(log[0]["message"], "another way");

    let refused = remote.delete(Scope::DeletedBranch("main")).unwrap_err();
    assert!(refused.is(400, "non_ff", 19) && refused.message.contains("default branch"), "{refused:?}");
    remote.delete(Scope::DeletedBranch("side")).unwrap();
    assert_eq!(branches(&ada, "ada/source"), [("main".to_owned(), hex(&tip))]);
    let refused = remote.delete(Scope::DeletedBranch("side")).unwrap_err();
    assert!(refused.is(400, "bad_request", 1), "{refused:?}");
}

#[test]
fn tags_are_set_replaced_and_deleted_unless_a_release_uses_them() {
    let server = Server::start();
    let ada = server.user("ada");
    let (head, chunks) = source(&ada, "source");
    let remote = Remote::new(&ada, "ada/source");
    remote.tag("v1", head, "first").unwrap();
    let seen = remote.refs();
    let tag = seen.tag("v1").unwrap();
    let texts = (tag.tagger.as_str(), tag.email.as_str(), tag.message.as_str(), tag.seconds);
    assert_eq!(texts, ("Ana", "ana@x.org", "first", 1_767_323_045));
    let parent = branchyard_remote_protocol::layout::commit(&chunks[&head]).unwrap().parents[0];
    remote.tag("v1", parent, "again").unwrap();
    assert_eq!(remote.refs().tag("v1").unwrap().commit, parent);
    // A tag of a commit that no branch has.
    let loose = commit(&[head], branchyard_remote_protocol::layout::commit(&chunks[&head]).unwrap().catalog, "loose");
    remote.bring(&Chunks::from([(hash_of(&loose), loose.clone())])).unwrap();
    remote.tag("v2", hash_of(&loose), "").unwrap();
    assert_eq!(ada.read("ada/source", "v2", "select count(*) from trees"), json!([["3"]]));
    ada.post(
        "/databases/ada/source/releases",
        &json!({"tag": "v2", "title": "Two", "commit_sha": hex(&hash_of(&loose))}),
    )
    .expect(201);
    for refused in [remote.tag("v2", head, "moved"), remote.delete(Scope::DeletedTag("v2"))] {
        let refused = refused.unwrap_err();
        assert!(refused.is(409, "working_set", 6) && refused.message.contains("release"), "{refused:?}");
    }
    remote.delete(Scope::DeletedTag("v1")).unwrap();
    assert_eq!(remote.refs().tags.len(), 1);
}

#[test]
fn what_was_seen_has_to_be_what_is_there_and_complete() {
    let server = Server::start();
    let ada = server.user("ada");
    let (head, chunks) = source(&ada, "source");
    ada.database("copy");
    let copy = Remote::new(&ada, "ada/copy");
    let refused = copy.change_seen([7; 20], Scope::Branch("main"), false, with_branch("main", head)).unwrap_err();
    assert!(refused.is(409, "refs_changed", 517), "{refused:?}");
    // Without one of the chunks at a time.
    for missing in chunks.keys() {
        ada.delete("/databases/ada/copy").expect(200);
        ada.database("copy");
        if copy.has(&[*missing]).unwrap() == [true] {
            continue;
        }
        let mut rest = chunks.clone();
        rest.remove(missing);
        let refused = copy.push("main", head, &rest, false).unwrap_err();
        assert!(refused.is(409, "missing_chunks", 517), "{refused:?}");
        assert_eq!(branches(&ada, "ada/copy").len(), 1);
    }
    copy.push("main", head, &chunks, false).unwrap();
    assert_eq!(copy.head("main"), head);
}

#[test]
fn malformed_requests_are_refused_and_nothing_of_them_is_kept() {
    let server = Server::start_with(|config| config.remotes.max_chunk_bytes = 1 << 20);
    let ada = server.user("ada");
    let (head, chunks) = source(&ada, "source");
    ada.database("copy");
    let copy = Remote::new(&ada, "ada/copy");
    let record = |hash: Hash, length: u32, content: &[u8]| [&hash[..], &length.to_le_bytes(), content].concat();
    let good = record(hash_of(b"good"), 4, b"good");
    for (body, status, code, sqlite) in [
        ([&good[..], &record(hash_of(b"x"), 3, b"bad")].concat(), 400, "bad_request", 1),
        ([&good[..], &record([1; 20], 4, b"cut")].concat(), 400, "bad_request", 1),
        ([&good[..], &[1; 23]].concat(), 400, "bad_request", 1),
        ([&good[..], &record([1; 20], u32::MAX, b"")].concat(), 413, "toobig", 18),
        (record([1; 20], (1 << 20) + 1, &vec![0; (1 << 20) + 1]), 413, "toobig", 18),
    ] {
        let refused = copy.send(Method::POST, "chunks", body).unwrap_err();
        assert!(refused.is(status, code, sqlite), "{refused:?}");
        assert_eq!(copy.has(&[hash_of(b"good")]).unwrap(), [false]);
    }
    let largest = vec![0; 1 << 20];
    copy.upload([&largest]).unwrap();
    assert_eq!(copy.has(&[hash_of(&largest), hash_of(b"good")]).unwrap(), [true, false]);
    copy.send(Method::POST, "chunks", Vec::new()).unwrap();
    for length in [0, 19, 21, 4_097 * 20] {
        let refused = copy.send(Method::POST, "has-chunks", vec![7; length]).unwrap_err();
        assert!(refused.is(400, "bad_request", 1), "{refused:?}");
    }
    copy.bring(&chunks).unwrap();
    let update = |scope, is_forced| {
        let refs = with_branch("main", head);
        branchyard_remote_protocol::RefUpdate { scope, is_forced, expected: [0; 20], refs }.encode()
    };
    let mut marked = update(Scope::Branch("main"), false);
    marked[6] = 2;
    for body in [
        Vec::new(),
        vec![1; 40],
        marked,
        [&update(Scope::Branch("main"), false)[..], b"x"].concat(),
        update(Scope::Branch("other"), false),
        update(Scope::Branch("a..b"), false),
        update(Scope::Tag("v1"), true),
        update(Scope::DeletedTag("-"), true),
    ] {
        let refused = copy.send(Method::PUT, "refs-if", body).unwrap_err();
        assert!(refused.is(400, "bad_request", 1), "{refused:?}");
    }
    copy.send(Method::PUT, "refs-if", update(Scope::Branch("main"), false)).unwrap();
    assert_eq!(copy.head("main"), head);
}

#[test]
fn only_writers_push_and_others_learn_it_before_they_upload() {
    let server = Server::start();
    let (ada, bob, eve) = (server.user("ada"), server.user("bob"), server.user("eve"));
    let (head, _) = source(&ada, "open");
    ada.post("/databases", &json!({"owner": "ada", "name": "closed", "visibility": "private"})).expect(201);
    ada.write("ada/closed", "main", TABLE);
    let collaborate = |role: &str, status| {
        let request = ada.request(Method::PUT, "/databases/ada/closed/collaborators/bob");
        ada.send(request.json(&json!({"role": role}))).expect(status);
    };
    collaborate("read", 201);
    let anonymous = server.anonymous();
    let expected = |database: &str, actor: &Actor| match (database, actor.name()) {
        (_, "anonymous") => (401, "unauthorized", 23),
        ("ada/open", _) | ("ada/closed", "bob") => (403, "forbidden", 23),
        _ => (404, "not_found", 12),
    };
    for database in ["ada/open", "ada/closed", "ada/none"] {
        for actor in [&anonymous, &bob, &eve] {
            let remote = Remote::new(actor, database);
            let (status, code, sqlite) = expected(database, actor);
            let body = branchyard_remote_protocol::RefUpdate {
                scope: Scope::Branch("main"),
                is_forced: true,
                expected: [0; 20],
                refs: with_branch("main", head),
            };
            for (method, endpoint, body) in [
                (Method::POST, "has-chunks", vec![7; 20]),
                (Method::POST, "chunks", vec![7; 100_000]),
                (Method::PUT, "refs-if", body.encode()),
                (Method::POST, "commit", Vec::new()),
            ] {
                let refused = remote.send(method, endpoint, body).unwrap_err();
                assert!(refused.is(status, code, sqlite), "{database} {endpoint} {}: {refused:?}", actor.name());
            }
        }
    }
    collaborate("write", 200);
    assert_eq!(Remote::new(&bob, "ada/closed").has(&[[7; 20]]).unwrap(), [false]);
}

/// The hash of a commit is not enough to read or to adopt it.
#[test]
fn a_commit_that_the_database_does_not_show_has_to_be_uploaded() {
    let server = Server::start();
    let ada = server.user("ada");
    let (head, chunks) = source(&ada, "source");
    let remote = Remote::new(&ada, "ada/source");
    ada.post("/databases/ada/source/branches", &json!({"name": "side", "from": {"branch": "main"}})).expect(201);
    ada.write("ada/source", "side", "insert into trees values (9, 'a secret')");
    let hidden = remote.head("side");
    let all = remote.history(hidden);
    ada.delete("/databases/ada/source/branches/side").expect(200);
    assert_eq!(remote.has(&[hidden, head]).unwrap(), [false, true]);
    let refused = remote.set("stolen", hidden, false).unwrap_err();
    assert!(refused.is(409, "missing_chunks", 517), "{refused:?}");
    let catalog = branchyard_remote_protocol::layout::commit(&chunks[&head]).unwrap().catalog;
    let child = commit(&[hidden], catalog, "with a hidden parent");
    let refused = remote.push("stolen", hash_of(&child), &Chunks::from([(hash_of(&child), child.clone())]), false);
    assert!(refused.unwrap_err().is(409, "missing_chunks", 517));
    remote.push("regained", hidden, &all, false).unwrap();
    assert_eq!(remote.head("regained"), hidden);
}

/// Repeats a request as long as the server is busy with it. Returns how often it was.
fn while_busy(mut request: impl FnMut() -> Result<(), client::Refused>) -> (usize, Result<(), client::Refused>) {
    for count in 0.. {
        match request() {
            Err(refused) if refused.is(503, "busy", 5) => thread::sleep(Duration::from_millis(20)),
            ended => return (count, ended),
        }
    }
    unreachable!("the server stays busy")
}

#[test]
fn a_repeated_request_joins_the_push_that_goes_on() {
    let server = Server::start_with(|config| config.remotes.hold_ms = 0);
    let ada = server.user("ada");
    let (head, chunks) = source(&ada, "source");
    ada.database("copy");
    let copy = Remote::new(&ada, "ada/copy");
    copy.bring(&chunks).unwrap();
    // As the client does: with what it saw before the first try.
    let push = || copy.change_seen([0; 20], Scope::Branch("main"), false, with_branch("main", head));
    let (busy, pushed) = while_busy(push);
    assert!(busy > 0, "an answer without a wait");
    pushed.unwrap();
    push().expect("a late repeat has the same answer");
    let first = copy.refs();
    copy.set("side", head, false).map_or_else(|_| while_busy(|| copy.set("side", head, false)).1, Ok).unwrap();
    copy.delete(Scope::DeletedBranch("side")).unwrap();
    assert_eq!(copy.refs(), first);
    while_busy(|| copy.set("side", head, false)).1.unwrap();
    assert_eq!(copy.head("side"), head, "a repeat after the deletion is a push of its own");
    let operations = ada.get("/databases/ada/copy/operations").expect(200).data();
    assert_eq!(operations.as_array().unwrap().len(), 3, "{operations}");

    let catalog = branchyard_remote_protocol::layout::commit(&chunks[&head]).unwrap().catalog;
    let other = commit(&[], catalog, "another history");
    copy.bring(&Chunks::from([(hash_of(&other), other.clone())])).unwrap();
    let seen = copy.refs().hash();
    let (busy, refused) =
        while_busy(|| copy.change_seen(seen, Scope::Branch("main"), false, with_branch("main", hash_of(&other))));
    assert!(busy > 0 && refused.unwrap_err().is(400, "non_ff", 19));
    // What was missing is missed once, and not again when it was uploaded.
    let lost = commit(&[head], catalog, "not uploaded");
    let tip = hash_of(&lost);
    let set = || while_busy(|| copy.set("side", tip, false)).1;
    assert!(set().unwrap_err().is(409, "missing_chunks", 517));
    copy.bring(&Chunks::from([(tip, lost)])).unwrap();
    set().unwrap();
}

#[test]
fn the_chunks_of_the_next_push_are_kept_when_one_ends() {
    let server = Server::start();
    let ada = server.user("ada");
    let (mut head, chunks) = source(&ada, "source");
    let catalog = branchyard_remote_protocol::layout::commit(&chunks[&head]).unwrap().catalog;
    let remote = Remote::new(&ada, "ada/source");
    for n in 0..200 {
        let next = commit(&[head], catalog, &format!("push {n}"));
        head = hash_of(&next);
        remote.upload([&next]).unwrap();
        remote.set("main", head, false).unwrap_or_else(|refused| panic!("push {n}: {refused:?}"));
    }
}

#[test]
fn two_pushes_at_once_succeed_on_two_branches_and_one_of_them_on_the_same() {
    let server = Server::start();
    let ada = server.user("ada");
    let (head, chunks) = source(&ada, "source");
    let remote = Remote::new(&ada, "ada/source");
    let catalog = branchyard_remote_protocol::layout::commit(&chunks[&head]).unwrap().catalog;
    let of = |name: &str| {
        let chunk = commit(&[head], catalog, name);
        (hash_of(&chunk), Chunks::from([(hash_of(&chunk), chunk)]))
    };
    let push = |branch: &str, name: &str| {
        let (tip, chunks) = of(name);
        // The client reads the refs and uploads what is missing again while its own ref is as it was.
        loop {
            remote.bring(&chunks).unwrap();
            match remote.set(branch, tip, false) {
                Err(refused) if refused.sqlite == 517 && !is_moved(&remote, branch, head) => {}
                ended => return ended,
            }
        }
    };
    let both = |left: (&str, &str), right: (&str, &str)| {
        thread::scope(|scope| {
            let [left, right] = [left, right].map(|(branch, name)| scope.spawn(move || push(branch, name)));
            [left.join().unwrap(), right.join().unwrap()]
        })
    };
    for result in both(("one", "1"), ("two", "2")) {
        result.unwrap();
    }
    let results = both(("main", "3"), ("main", "4"));
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
    let refused = results.into_iter().find_map(Result::err).unwrap();
    assert!(
        refused.is(409, "refs_changed", 517) || refused.is(400, "non_ff", 19) || refused.is(503, "busy", 5),
        "{refused:?}"
    );
}

fn is_moved(remote: &Remote<'_>, branch: &str, from: Hash) -> bool {
    remote.refs().branch(branch).is_some_and(|branch| branch.head != from)
}

/// What a fork is made of is whole, whatever is pushed meanwhile.
#[test]
fn every_ref_of_forks_beside_pushes_can_be_read() {
    let server = Server::start();
    let ada = server.user("ada");
    source(&ada, "source");
    let others: Vec<Actor> = (0..4).map(|number| server.user(&format!("fork{number}"))).collect();
    let remote = Remote::new(&ada, "ada/source");
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut tip = remote.head("main");
            for number in 0..40 {
                let all = remote.history(tip);
                let catalog = branchyard_remote_protocol::layout::commit(&all[&tip]).unwrap().catalog;
                let chunk = commit(&[tip], catalog, &format!("push {number}"));
                tip = hash_of(&chunk);
                remote.push("main", tip, &Chunks::from([(tip, chunk)]), false).unwrap();
            }
        });
        for other in &others {
            scope.spawn(|| {
                other.finish(&other.post("/databases/ada/source/forks", &json!({"owner": other.name()})));
            });
        }
    });
    for other in &others {
        let database = format!("{}/source", other.name());
        for (branch, head) in branches(other, &database) {
            assert_eq!(other.read(&database, &branch, "select count(*) from trees"), json!([["3"]]), "{head}");
            let log =
                other.get(&format!("/databases/{database}/commits?ref={branch}&page_size=100")).expect(200).data();
            assert_eq!(log[0]["sha"], head);
        }
    }
}

#[test]
fn a_push_is_news_of_the_pusher() {
    let server = Server::start();
    let ada = server.user("ada");
    let (head, chunks) = source(&ada, "source");
    ada.database("copy");
    let copy = Remote::new(&ada, "ada/copy");
    copy.push("trunk", head, &chunks, false).unwrap();
    let catalog = branchyard_remote_protocol::layout::commit(&chunks[&head]).unwrap().catalog;
    let next = commit(&[head], catalog, "next");
    let tip = hash_of(&next);
    copy.push("trunk", tip, &Chunks::from([(tip, next)]), false).unwrap();
    copy.set("side", tip, false).unwrap();
    copy.delete(Scope::DeletedBranch("side")).unwrap();
    copy.tag("v1", tip, "").unwrap();
    let hub = server.hub();
    let user = hub.people().user_named("ada").unwrap();
    let news = hub.activities().news(&user, 20).unwrap();
    let of_copy = news.iter().rev().filter(|one| one.database.name.as_str() == "copy");
    let kinds: Vec<String> = of_copy.map(|one| format!("{:?}", one.activity.kind)).collect();
    let shown: Vec<&str> = kinds.iter().map(|kind| kind.split([' ', '{']).next().unwrap()).collect();
    assert_eq!(shown, ["BranchCreated", "BranchDeleted", "Pushed", "BranchCreated", "BranchDeleted"], "{kinds:?}");
    assert!(news.iter().all(|one| one.activity.by_name.as_str() == "ada"));
}
