//! Pushes whose chunks were changed at random, with hashes that fit all the way up to the commit.

use std::time::{Duration, Instant};

use branchyard_testkit::{Actor, Server};
use reqwest::Method;
use serde_json::json;

use super::client::{Refused, Remote};
use super::mutations::{BASE, CHANGED, COUNTS, Chunks, Hash, Numbers, mutated, replaced};

/// No push of some kilobytes takes that long, even where tests share the machine.
const LONGEST: Duration = Duration::from_secs(40);

/// Number of pushes, unless `MUTATED_PUSHES` says otherwise.
const PUSHES: u64 = 150;

/// Reads all that a commit has. Errors are fine, as long as there is an answer.
fn read(actor: &Actor, branch: &str) {
    for path in [
        format!("/databases/ada/victim/commits?ref={branch}"),
        format!("/databases/ada/victim/tables?ref={branch}"),
        format!("/databases/ada/victim/compare?from=main&to={branch}"),
    ] {
        let answer = actor.send(actor.request(Method::GET, &path));
        assert!(answer.status != 503, "{path}: {answer:?}");
    }
    for statement in ["select * from wide", "select * from words where words match 'w1*'", "select * from v order by 1"]
    {
        let answer = actor.post("/databases/ada/victim/sql", &json!({"ref": branch, "q": statement}));
        assert!(answer.status != 503, "{statement}: {answer:?}");
    }
}

#[test]
fn no_mutated_push_ends_the_server_or_moves_another_ref() {
    let count = std::env::var("MUTATED_PUSHES").map_or(PUSHES, |count| count.parse().unwrap());
    let seed: u64 = std::env::var("MUTATED_SEED").map_or(1, |seed| seed.parse().unwrap());
    let skipped: u64 = std::env::var("MUTATED_SKIPPED").map_or(0, |skipped| skipped.parse().unwrap());
    let server = Server::start();
    let ada = server.user("ada");
    ada.database("victim");
    ada.write("ada/victim", "main", BASE);
    let remote = Remote::new(&ada, "ada/victim");
    let main = remote.head("main");
    ada.post("/databases/ada/victim/branches", &json!({"name": "side", "from": {"branch": "main"}})).expect(201);
    ada.write("ada/victim", "side", CHANGED);
    let tip = remote.head("side");
    let known = remote.history(main);
    let all = remote.history(tip);
    let own: Chunks = all.iter().filter(|(hash, _)| !known.contains_key(*hash)).map(|(h, c)| (*h, c.clone())).collect();
    ada.delete("/databases/ada/victim/branches/side").expect(200);
    let hashes: Vec<Hash> = own.keys().copied().collect();
    let contents: Vec<&Vec<u8>> = all.values().collect();
    let (mut numbers, mut accepted) = (Numbers(seed), 0);
    let mut refusals = std::collections::BTreeMap::<String, u64>::new();
    for number in 0..count {
        let old = hashes[numbers.below(hashes.len())];
        let (new_tip, chunks) = replaced(&own, tip, old, mutated(&mut numbers, &own[&old], &contents));
        if number < skipped {
            continue;
        }
        let began = Instant::now();
        let push = || remote.push("pushed", new_tip, &chunks, true);
        // Clients repeat what is busy.
        let is_busy = |answer: &Result<(), Refused>| answer.as_ref().is_err_and(|refused| refused.code == "busy");
        let answer = (0..20).map(|_| push()).find(|answer| !is_busy(answer)).unwrap_or_else(push);
        assert!(began.elapsed() < LONGEST, "push {number} took {:?}: {answer:?}", began.elapsed());
        match answer {
            Ok(()) => {
                accepted += 1;
                read(&ada, "pushed");
                ada.delete("/databases/ada/victim/branches/pushed").expect(200);
            }
            Err(Refused { status, code, message, .. }) => {
                assert!(
                    matches!(&*code, "rejected" | "missing_chunks" | "bad_request"),
                    "push {number}: {status} {code} {message}"
                );
                *refusals.entry(format!("{code}: {}", &message[..message.len().min(70)])).or_default() += 1;
            }
        }
    }
    println!("{accepted} accepted, {refusals:#?}");
    assert_eq!(remote.head("main"), main);
    assert_eq!(remote.refs().branches.len(), 1);
    assert!(refusals.values().sum::<u64>() > (count - skipped) / 2, "{accepted} accepted, {refusals:#?}");
    assert_eq!(ada.read("ada/victim", "main", COUNTS), json!([["900", "300", "2"]]));
    remote.push("whole", tip, &own, false).unwrap();
    assert_eq!(ada.read("ada/victim", "whole", COUNTS), json!([["900", "301", "3"]]));
}
