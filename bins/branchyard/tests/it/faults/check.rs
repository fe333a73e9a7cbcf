//! The oracle, which compares the actual state with the expected state. Each function returns the number of comparisons.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;

use super::expected_state::{Event, Times};
use super::harness::FaultsHarness;
use super::receivers::MANNERS;
use super::traffic::settled;

const D: &str = "/databases/ada/d";

/// Runs all checks. The server must be running and idle.
pub(super) fn everything(harness: &FaultsHarness) -> usize {
    operations(harness)
        + rows(harness)
        + names(harness)
        + tokens(harness)
        + pulls(harness)
        + events(harness)
        + deployment(harness)
        + doctor(harness)
        + leftovers(harness)
}

/// Runs the checks for a stopped server.
pub(super) fn at_rest(harness: &FaultsHarness) -> usize {
    let processes = harness.processes();
    assert!(processes.is_empty(), "processes stay: {processes:?}");
    doctor(harness) + leftovers(harness) + 1
}

/// Checks that settled operations keep their state.
fn operations(harness: &FaultsHarness) -> usize {
    let known = harness.book().settled.clone();
    // Checks only a sample, because checking all would take longer than the fault: the newest operations and every 17th.
    let some: Vec<_> = known.iter().rev().take(40).chain(known.iter().step_by(17)).collect();
    for (id, state) in &some {
        assert_eq!(settled(&harness.client, id)["status"].as_str(), Some(state.as_str()), "operation {id} was settled");
    }
    some.len()
}

fn rows(harness: &FaultsHarness) -> usize {
    let found = counted(harness.client.rows("select mark, count(*) from marks group by mark"));
    compare("marks", &harness.book().rows, &found)
}

fn counted(rows: Vec<Vec<String>>) -> BTreeMap<String, usize> {
    rows.into_iter().map(|row| (row[0].clone(), row[1].parse().unwrap())).collect()
}

fn compare(what: &str, promised: &BTreeMap<String, Times>, found: &BTreeMap<String, usize>) -> usize {
    for (mark, times) in promised {
        let there = found.get(mark).copied().unwrap_or(0);
        let kept = match times {
            Times::Exactly(wanted) => there == *wanted,
            Times::AtMostOnce => there <= 1,
        };
        assert!(kept, "{what}: {mark} is there {there} times, promised: {times:?}");
    }
    if let Some(mark) = found.keys().find(|mark| !promised.contains_key(*mark)) {
        panic!("{what}: nobody asked for {mark}");
    }
    promised.len()
}

/// Checks that tables, branches, tags, releases, hooks, and databases are exactly the expected ones.
fn names(harness: &FaultsHarness) -> usize {
    let book = harness.book();
    let list = |path: &str, name: &dyn Fn(&Value) -> String| {
        harness.client.all(path).iter().map(name).collect::<BTreeSet<_>>()
    };
    let field = |field: &'static str| move |item: &Value| item[field].as_str().unwrap().to_owned();
    let with = |name: &'static str, value: &'static str| {
        move |item: &Value| format!("{} at {}", item[name].as_str().unwrap(), item[value].as_str().unwrap())
    };
    let at = |map: &BTreeMap<String, String>| map.iter().map(|(name, commit)| format!("{name} at {commit}")).collect();

    let tables: BTreeSet<String> = harness.client.rows("show tables").into_iter().map(|row| row[0].clone()).collect();
    let mut wanted = book.tables.clone();
    wanted.insert("marks".to_owned());
    same("tables", &wanted, &tables);
    same("branches", &book.branches, &list(&format!("{D}/branches"), &field("name")));
    same("tags", &at(&book.tags), &list(&format!("{D}/tags"), &with("name", "commit_sha")));
    same("releases", &at(&book.releases), &list(&format!("{D}/releases"), &with("tag", "commit_sha")));
    same("hooks", &book.hooks, &list(&format!("{D}/hooks"), &field("id")));
    let owned = |item: &Value| format!("{}/{}", item["owner"].as_str().unwrap(), item["name"].as_str().unwrap());
    same("databases", &book.databases, &list("/databases", &owned));
    book.tables.len()
        + book.branches.len()
        + book.tags.len()
        + book.releases.len()
        + book.hooks.len()
        + book.databases.len()
}

fn same(what: &str, promised: &BTreeSet<String>, found: &BTreeSet<String>) {
    let lost: Vec<_> = promised.difference(found).collect();
    let extra: Vec<_> = found.difference(promised).collect();
    assert!(lost.is_empty() && extra.is_empty(), "{what}: lost {lost:?}, and nobody asked for {extra:?}");
}

/// Checks that live tokens are accepted, deleted ones are rejected, and none was created twice.
fn tokens(harness: &FaultsHarness) -> usize {
    let book = harness.book();
    let live: BTreeSet<String> = book.tokens.iter().filter(|(_, token)| token.live).map(|(id, _)| id.clone()).collect();
    let listed = harness.client.all("/user/tokens");
    let found =
        listed.iter().filter(|token| token["name"] != "t").map(|token| token["id"].as_str().unwrap().to_owned());
    same("tokens", &live, &found.collect());
    for token in book.tokens.values() {
        if let Some(secret) = &token.secret {
            let mut client = harness.client.clone();
            client.token.clone_from(secret);
            let status = client.get("/user").status;
            assert_eq!(
                status,
                if token.live { 200 } else { 401 },
                "a token that is {}",
                if token.live { "live" } else { "deleted" }
            );
        }
    }
    book.tokens.len()
}

fn pulls(harness: &FaultsHarness) -> usize {
    let book = harness.book();
    let listed = harness.client.all(&format!("{D}/pulls"));
    let found =
        listed.iter().map(|pull| (pull["pull_number"].as_i64().unwrap(), pull["state"].as_str().unwrap().to_owned()));
    let found: BTreeMap<i64, String> = found.collect();
    let wanted: BTreeMap<i64, String> =
        book.pulls.iter().map(|(number, (state, _))| (*number, state.clone())).collect();
    assert_eq!(wanted, found, "pulls");
    for (number, (_, comments)) in book.pulls.iter().filter(|(_, (_, comments))| *comments > 0) {
        assert_eq!(
            harness.client.all(&format!("{D}/pulls/{number}/comments")).len(),
            *comments,
            "comments of pull {number}"
        );
    }
    book.pulls.len()
}

/// Checks that every receiver got each expected event under one id, and no other event.
fn events(harness: &FaultsHarness) -> usize {
    let faults = harness.receivers.faults();
    assert!(faults.is_empty(), "{faults:?}");
    let book = harness.book();
    let there: Vec<String> =
        harness.client.rows("select mark from marks").into_iter().map(|mut row| row.remove(0)).collect();
    let unsure = there.iter().filter(|mark| book.rows.get(*mark) == Some(&Times::AtMostOnce)).count();
    let mut pushes = book.pushes.clone();
    pushes.retain(|_, times| *times > 0);
    *pushes.entry("main".to_owned()).or_default() += unsure;
    pushes.retain(|_, times| *times > 0);
    let head = harness.client.get(&format!("{D}/branches/main")).text("head_commit_sha");

    let mut checks = 0;
    for manner in MANNERS {
        let taken = harness.receivers.taken(manner);
        let (mut events, mut chains) =
            (BTreeMap::<Event, usize>::new(), BTreeMap::<String, Vec<(String, String)>>::new());
        for (body, _) in taken.values() {
            let body: Value = serde_json::from_str(body).unwrap();
            let text = |field: &str| body[field].as_str().unwrap().to_owned();
            let event = match body["event_name"].as_str().unwrap() {
                "push" => {
                    let branch = text("ref").trim_start_matches("refs/heads/").to_owned();
                    chains.entry(branch).or_default().push((text("prev"), text("head")));
                    continue;
                }
                "branch" => Event::Branch { name: text("branch"), action: text("action") },
                _ => Event::Pull { number: text("pullID").parse().unwrap(), action: text("action") },
            };
            *events.entry(event).or_default() += 1;
        }
        let pulls_only = !["good", "failing", "dropping"].contains(manner);
        let mut wanted = book.events.clone();
        wanted.retain(|event, _| !pulls_only || matches!(event, Event::Pull { .. }));
        let differs = |a: &BTreeMap<Event, usize>, b: &BTreeMap<Event, usize>| {
            a.iter()
                .filter(|(event, times)| b.get(event) != Some(times))
                .map(|(event, times)| format!("{event:?} {times}"))
                .collect::<Vec<_>>()
        };
        assert!(
            wanted == events,
            "events told to the {manner} one: promised {:?}, found {:?}",
            differs(&wanted, &events),
            differs(&events, &wanted)
        );
        if !pulls_only {
            let told: BTreeMap<String, usize> =
                chains.iter().map(|(branch, chain)| (branch.clone(), chain.len())).collect();
            assert_eq!(pushes, told, "pushes told to the {manner} one");
            // Delivery ids sort by event time. Each push must begin where the previous one ended.
            for (branch, chain) in &chains {
                assert!(chain.windows(2).all(|pair| pair[0].1 == pair[1].0), "pushes to {branch}: {chain:?}");
            }
            let last = chains.get("main").and_then(|chain| chain.last()).map(|(_, head)| head.clone());
            assert!(last.is_none_or(|last| last == head), "the last push to main is not its head");
        }
        checks += taken.len();
    }
    checks
}

fn deployment(harness: &FaultsHarness) -> usize {
    if !harness.deployment {
        return 0;
    }
    let found = counted(harness.deployed("select mark, count(*) from t group by mark"));
    compare("rows of the deployment", &harness.book().deployed, &found)
}

fn doctor(harness: &FaultsHarness) -> usize {
    let output = harness.command(&["doctor"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.trim(), "everything is in order", "doctor: {}", String::from_utf8_lossy(&output.stderr));
    1
}

/// Checks that there are no partial files, no leases without work, and no panics in the log.
fn leftovers(harness: &FaultsHarness) -> usize {
    let names = |folder: &str| -> BTreeSet<String> {
        let entries = fs::read_dir(harness.data().join(folder)).into_iter().flatten().filter_map(Result::ok);
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    assert_eq!(names("databases/tmp"), BTreeSet::new(), "half-made files");
    let known = [
        "backups",
        "databases",
        "deployments",
        "installation",
        "metadata.sqlite",
        "metadata.sqlite-shm",
        "metadata.sqlite-wal",
        "node",
        "pushed-chunks",
        "server.key",
        "server.lock",
        "uploads",
    ];
    let extra: Vec<String> = names("").into_iter().filter(|name| !known.contains(&name.as_str())).collect();
    assert!(extra.is_empty(), "files that nobody knows: {extra:?}");
    assert_eq!(harness.count("operations", "lease_holder IS NOT NULL"), 0, "leases of operations stay");
    assert_eq!(harness.count("hooks", "lease_holder IS NOT NULL"), 0, "leases of hooks stay");
    let log = fs::read_to_string(harness.log()).unwrap();
    let panicked = log.lines().find(|line| line.contains("panicked"));
    assert!(panicked.is_none(), "in the log: {panicked:?}");
    5
}
