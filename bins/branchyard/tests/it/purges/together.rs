//! Purges in a loop beside branches, pull requests whose source is fetched, and forks.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use branchyard_testkit::{AMPLE, Actor, wait_until};
use serde_json::json;

use super::{heads, purge, tokens};
use crate::process::program;

const PURGES: usize = 12;
/// Minimum number of each of the other actions.
const EACH: usize = 6;

#[test]
fn every_ref_can_be_read_after_purges_beside_branches_pulls_and_forks() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path();
    let tokens = tokens(dir, &["ada", "bob"]);
    let organizations: Vec<String> = (0..EACH * 3).map(|number| format!("org-{number}")).collect();
    for name in &organizations {
        program().succeed(dir, &["org", "create", name, "--owner", "ada"]);
    }
    let server = program().start(dir);
    let actor = |number: usize, name| Actor::new(server.origin.clone(), Some(tokens[number].clone()), name);
    let (ada, bob) = (actor(0, "ada"), actor(1, "bob"));
    ada.database("d");
    ada.write("ada/d", "main", "create table t (id integer primary key, v text); insert into t values (0, 'first')");
    bob.finish(&bob.post("/databases/ada/d/forks", &json!({"owner": "bob"})));

    let stop = AtomicBool::new(false);
    let (branches, pulls, forks) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut kept = 0;
            for number in 1.. {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let name = format!("b{number}");
                let q = format!("insert into t values ({number}, hex(randomblob(5000)))");
                let written = json!({"from_branch": "main", "to_branch": name, "q": q});
                let written = ada.finish(&ada.post("/databases/ada/d/sql-writes", &written));
                let commit = written["result"]["commit_sha"].as_str().unwrap();
                // A branch from a hash, which a purge may remove between the look-up and the transaction.
                if number % 3 == 0 {
                    ada.delete(&format!("/databases/ada/d/branches/{name}")).expect(200);
                }
                let from = json!({"name": format!("c{number}"), "from": {"commit": commit}});
                let made = ada.post("/databases/ada/d/branches", &from);
                assert!(made.status == 201 || (made.status == 404 && number % 3 == 0), "{}", made.text);
                kept += usize::from(made.status == 201);
                branches.store(kept, Ordering::SeqCst);
            }
        });
        scope.spawn(|| {
            for number in 1.. {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let q = format!("insert into t values ({}, hex(randomblob(5000)))", 100_000 + number);
                let branch = format!("p{number}");
                let body = json!({"from_branch": "main", "to_branch": branch, "q": q});
                let written = bob.finish(&bob.post("/databases/bob/d/sql-writes", &body));
                assert_eq!(written["status"], "succeeded", "{written}");
                let end =
                    |owner: &str, branch: &str| json!({"database": {"owner": owner, "name": "d"}, "branch_name": branch});
                let wanted = json!({"title": "One", "from_branch": end("bob", &branch), "to_branch": end("ada", "main")});
                let pull = bob.post("/databases/ada/d/pulls", &wanted).expect(201).data()["pull_number"].clone();
                let path = format!("/databases/ada/d/pulls/{pull}");
                wait_until("the source to be fetched", AMPLE, || {
                    let seen = ada.get(&format!("{path}/diff/tables"));
                    assert!(seen.status == 200 || seen.status == 503, "{}", seen.text);
                    seen.status == 200
                });
                if number % 2 == 0 {
                    let merged = ada.finish(&ada.post(&format!("{path}/merge"), &json!({})));
                    assert_eq!(merged["status"], "succeeded", "{merged}");
                }
                pulls.store(number, Ordering::SeqCst);
            }
        });
        scope.spawn(|| {
            for (number, owner) in organizations.iter().enumerate() {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let forked = ada.finish(&ada.post("/databases/ada/d/forks", &json!({"owner": owner})));
                assert_eq!(forked["status"], "succeeded", "{forked}");
                forks.store(number + 1, Ordering::SeqCst);
            }
        });
        let enough = || [&branches, &pulls, &forks].iter().all(|count| count.load(Ordering::SeqCst) >= EACH);
        let mut purges = 0;
        while purges < PURGES || !enough() {
            purge(&ada, "ada/d");
            purges += 1;
            if purges >= PURGES {
                // A fetch starts again when a collection replaced the file meanwhile, so purges without a pause delay it.
                std::thread::sleep(Duration::from_millis(500));
            }
            assert!(purges < 100 * PURGES, "{branches:?} branches, {pulls:?} pulls, {forks:?} forks");
        }
        stop.store(true, Ordering::SeqCst);
    });

    let made = forks.load(Ordering::SeqCst);
    let forks = organizations.iter().take(made).map(|owner| format!("{owner}/d"));
    for database in forks.chain(["ada/d".to_owned(), "bob/d".to_owned()]) {
        let heads = heads(&ada, &database);
        assert!(!heads.is_empty());
        for head in heads {
            ada.read(&database, &head, "select count(*), max(length(v)) from t");
        }
    }
    for number in 1..=pulls.load(Ordering::SeqCst) {
        let tables = ada.get(&format!("/databases/ada/d/pulls/{number}/diff/tables")).expect(200).data();
        assert_eq!(tables.as_array().unwrap().len(), 1, "pull {number}: {tables}");
        ada.get(&format!("/databases/ada/d/pulls/{number}/diff?table=t")).expect(200);
    }
    server.terminate();
    assert_eq!(program().succeed(dir, &["doctor"]), "everything is in order");
}
