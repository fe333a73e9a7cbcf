//! Pushes whose chunks were changed at random, with hashes that fit all the way up to the commit.

use std::time::{Duration, Instant};

use branchyard_remote_protocol::{Hash, hash_of};
use branchyard_testkit::{Actor, Server};
use reqwest::Method;
use serde_json::json;

use super::client::{Chunks, Refused, Remote, replaced};

/// No push of some kilobytes takes that long, even where tests share the machine.
const LONGEST: Duration = Duration::from_secs(40);

/// Number of pushes, unless `MUTATED_PUSHES` says otherwise.
const PUSHES: u64 = 150;

/// A generator of numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % end.max(1) as u64).unwrap()
    }
}

/// Changes a chunk in one of the ways in which a hostile client would.
fn mutated(numbers: &mut Numbers, chunk: &[u8], chunks: &[&Vec<u8>]) -> Vec<u8> {
    let mut new = chunk.to_vec();
    match numbers.below(8) {
        0 => new.truncate(numbers.below(chunk.len())),
        1 => new.extend(vec![0; 1 + numbers.below(40)]),
        2 => return chunks[numbers.below(chunks.len())].clone(),
        3 => {
            // A hash in the place of another one.
            let hash = hash_of(chunks[numbers.below(chunks.len())]);
            let at = numbers.below(chunk.len().saturating_sub(20));
            if let Some(place) = new.get_mut(at..at + 20) {
                place.copy_from_slice(&hash);
            }
        }
        _ => {
            for _ in 0..1 + numbers.below(4) {
                let at = numbers.below(chunk.len());
                if let Some(byte) = new.get_mut(at) {
                    *byte = match numbers.below(4) {
                        0 => 0,
                        1 => 0xff,
                        2 => *byte ^ (1 << numbers.below(8)),
                        _ => u8::try_from(numbers.below(256)).unwrap(),
                    };
                }
            }
        }
    }
    new
}

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
    let base = "create table wide (id integer primary key, name text unique, v real, b blob);
        create table keyed (k text primary key, v) without rowid;
        create virtual table words using fts5(w);
        create view v as select name, v from wide where id % 7 = 1;
        create trigger t after insert on keyed begin update wide set v = v + 1 where id = 1; end;
        with recursive n(x) as (select 1 union all select x + 1 from n where x < 900)
            insert into wide select x, 'name ' || x, x * 1.5, zeroblob(x % 50) from n;
        with recursive n(x) as (select 1 union all select x + 1 from n where x < 300)
            insert into keyed select 'k' || x, x from n;
        insert into words values ('w1 w2'), ('w3')";
    ada.write("ada/victim", "main", base);
    let remote = Remote::new(&ada, "ada/victim");
    let main = remote.head("main");
    let changed = "update wide set v = v + 1 where id % 100 = 0; insert into keyed values ('new', 1);
        insert into words values ('w12 w13'); create index by_v on wide(v); alter table keyed add column more";
    ada.post("/databases/ada/victim/branches", &json!({"name": "side", "from": {"branch": "main"}})).expect(201);
    ada.write("ada/victim", "side", changed);
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
    let counts = "select (select count(*) from wide), (select count(*) from keyed), (select count(*) from words)";
    assert_eq!(ada.read("ada/victim", "main", counts), json!([["900", "300", "2"]]));
    remote.push("whole", tip, &own, false).unwrap();
    assert_eq!(ada.read("ada/victim", "whole", counts), json!([["900", "301", "3"]]));
}
