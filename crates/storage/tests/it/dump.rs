//! Dumps of one engine loaded into either engine.

use std::io::BufReader;

use branchyard_domain::entities::{Pull, PullContent, PullHeads, PullHidden, UploadPart};
use branchyard_domain::ports::{Durability, Metadata as _, PullFilter, WriteKeys};
use branchyard_domain::values::{CommitHash, UploadId};
use branchyard_domain_testing::suites::{deployments, metadata};
use branchyard_storage::{DumpError, Store};

use crate::home::Home;

fn dumped(store: &Store) -> Vec<u8> {
    let mut bytes = Vec::new();
    store.dump(&mut bytes).unwrap();
    bytes
}

/// Parses and sorts the lines of a dump, because rows may come in any order.
fn lines(dump: &[u8]) -> Vec<serde_json::Value> {
    let mut lines: Vec<serde_json::Value> = dump
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    lines.sort_by_key(ToString::to_string);
    lines
}

/// Adds parts to all uploads, because the suite removes all parts in the end.
fn add_parts(home: &Home, store: &Store) {
    let mut tx = store.write(&WriteKeys::any()).unwrap();
    for id in home.lines("SELECT id AS line FROM uploads") {
        let part = UploadPart { number: 1, size: 3, md5: [0xab; 16] };
        tx.uploads().put_part(UploadId::parse(&id).unwrap(), &part).unwrap();
    }
    tx.commit(Durability::Synced).unwrap();
}

type Check = Box<dyn Fn(&Store)>;

/// Returns the checks of both suites, except those that change the store continuously.
fn checks() -> impl Iterator<Item = (&'static str, Check)> {
    let of_hub = metadata::ALL.iter().filter(|(name, _)| *name != "concurrency");
    let of_hub = of_hub.map(|&(name, check)| (name, Box::new(move |store: &Store| check(store)) as Check));
    let of_deployments = deployments::ALL.iter();
    of_hub.chain(of_deployments.map(|&(name, check)| (name, Box::new(move |store: &Store| check(store)) as Check)))
}

/// The rows that each check of the suites leaves behind survive a dump and a load.
#[test]
fn a_dump_loads_into_the_other_engine_unchanged() {
    let mut tables = std::collections::BTreeSet::new();
    for (name, check) in checks() {
        for from in Home::each() {
            let source = from.ready();
            check(&source);
            source.installation("0199c3a7-1111-7222-8333-444455556666").unwrap();
            add_parts(&from, &source);
            let dump = dumped(&source);
            let mut table = String::new();
            for line in String::from_utf8(dump.clone()).unwrap().lines() {
                match line.strip_prefix(r#"{"table":""#) {
                    Some(rest) => table = rest.split('"').next().unwrap().to_owned(),
                    None if line.starts_with('[') => {
                        tables.insert(table.clone());
                    }
                    None => {}
                }
            }
            // The other engine, if available.
            let to =
                Home::each().into_iter().find(|to| to.is_sqlite() != from.is_sqlite()).unwrap_or_else(Home::sqlite);
            let target = to.ready();
            target.load(&mut BufReader::new(dump.as_slice())).unwrap();
            assert_eq!(lines(&dumped(&target)), lines(&dump), "{name}");
            let again = target.load(&mut BufReader::new(dump.as_slice()));
            assert!(matches!(again, Err(DumpError::NotEmpty)), "{name}: {again:?}");
            let ids = |store: &Store| store.read().unwrap().databases().ids(None, 1_000).unwrap();
            assert_eq!(ids(&target), ids(&source));
        }
    }
    assert_eq!(tables.len(), 42, "some table stays empty, so nothing is known of it: {tables:?}");
}

/// Heads, consent, withdrawal and hiding decide which users see which commits. A restore must not open what was closed.
#[test]
fn what_pulls_show_comes_through_a_dump() {
    for from in Home::each() {
        let source = from.ready();
        metadata::pull_content(&source);
        let pulls = |store: &Store| -> Vec<Pull> {
            let mut tx = store.read().unwrap();
            let ids = tx.databases().ids(None, 1_000).unwrap();
            let of = |id| tx.pulls().list(id, &PullFilter::default(), None, 1_000).unwrap();
            ids.into_iter().flat_map(of).collect()
        };
        let mut unmerged = pulls(&source).into_iter().filter(|pull| pull.content.hidden.is_none() && !pull.is_within());
        let (mut withdrawn, mut agreed) = (unmerged.next().unwrap(), unmerged.next().unwrap());
        withdrawn.hide(PullHidden::Withdrawn, withdrawn.created_at).unwrap();
        let hash = |digit: &str| CommitHash::parse(&digit.repeat(40)).unwrap();
        agreed.content.is_published = true;
        agreed.show(PullHeads { from: hash("a"), to: hash("b") }, agreed.created_at);
        let mut tx = source.write(&WriteKeys::any()).unwrap();
        assert!(tx.pulls().update(&withdrawn).unwrap() && tx.pulls().update(&agreed).unwrap());
        tx.commit(Durability::Synced).unwrap();
        let before = pulls(&source);
        for needed in [
            |content: &PullContent| content.hidden == Some(PullHidden::Withdrawn) && content.heads.is_none(),
            |content: &PullContent| content.hidden == Some(PullHidden::WithSource),
            |content: &PullContent| content.is_published && content.heads.is_some(),
            |content: &PullContent| content.fetch_due_at.is_some(),
        ] {
            assert!(before.iter().any(|pull| needed(&pull.content)), "{before:?}");
        }
        let to = Home::each().into_iter().find(|to| to.is_sqlite() != from.is_sqlite()).unwrap_or_else(Home::sqlite);
        let target = to.ready();
        target.load(&mut BufReader::new(dumped(&source).as_slice())).unwrap();
        assert_eq!(pulls(&target), before);
    }
}

/// Tables that [`Store::dump`] omits. `dump.rs` says why.
const OMITTED: &[&str] = &[
    "data_keys",
    "doomed_objects",
    "files",
    "key_ring",
    "nodes",
    "oauth_codes",
    "oauth_devices",
    "request_counts",
    "segments",
    "server",
    "sign_in_attempts",
    "store_state",
];

/// Any other table that [`Store::dump`] omits would be lost.
#[test]
fn every_table_is_dumped() {
    for home in Home::each() {
        let dump = String::from_utf8(dumped(&home.ready())).unwrap();
        let name = |line: &str| Some(line.strip_prefix(r#"{"table":""#)?.split('"').next()?.to_owned());
        let mut found: Vec<String> =
            dump.lines().filter_map(name).chain(OMITTED.iter().map(|&table| table.into())).collect();
        found.sort_unstable();
        let tables = match &home {
            Home::Sqlite(_) => {
                "SELECT name AS line FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '%migrations' AND name NOT LIKE 'sqlite_%'"
            }
            Home::Postgres { .. } => {
                "SELECT table_name::text AS line FROM information_schema.tables WHERE table_schema = 'public' AND table_name NOT LIKE '%migrations%'"
            }
        };
        let mut expected = home.lines(tables);
        expected.sort_unstable();
        assert_eq!(found, expected);
    }
}

/// The engine continues to count events where the dump ended.
#[test]
fn events_go_on_after_a_load() {
    for to in Home::each() {
        let source = Home::sqlite();
        let from = source.ready();
        metadata::events(&from);
        let target = to.ready();
        target.load(&mut BufReader::new(dumped(&from).as_slice())).unwrap();
        to.execute("INSERT INTO events (id, database_id, at, event, body) SELECT 'new', database_id, at, event, body FROM events ORDER BY position LIMIT 1");
        let last = to.lines("SELECT id AS line FROM events ORDER BY position DESC LIMIT 1");
        assert_eq!(last, ["new"]);
    }
}

#[test]
fn dumps_that_are_not_whole_are_refused_and_nothing_stays() {
    let home = Home::sqlite();
    let store = home.ready();
    metadata::pulls(&store);
    let dump = String::from_utf8(dumped(&store)).unwrap();
    let lines: Vec<&str> = dump.lines().collect();
    let without = |at: usize| [&lines[..at], &lines[at + 1..]].concat().join("\n") + "\n";
    let row = lines.iter().rposition(|line| line.starts_with('[')).unwrap();
    let cases = [
        (String::new(), "cut short"),
        (dump[..dump.len() - 5].to_owned(), "cut short"),
        (dump[..dump.len() / 2].to_owned(), ""),
        (without(0), "no head"),
        (without(row), "promised"),
        (dump.replace(r#""table":"pulls""#, r#""table":"nope""#), "'nope' is not known"),
        (dump.replace(r#""name_key""#, r#""nope""#), "no column 'nope'"),
        (dump.replacen("\n[\"", "\n[1, \"", 1), "values for"),
        (dump.replacen("\n[\"", "\n[,\"", 1), "line"),
        (dump.replace(r#""branchyard_dump":1"#, r#""branchyard_dump":2"#), "format 2"),
    ];
    for to in Home::each() {
        let target = to.ready();
        for (text, expected) in &cases {
            let error = target.load(&mut BufReader::new(text.as_bytes())).unwrap_err();
            assert!(error.to_string().contains(expected), "{expected}: {error}");
        }
        let newer = dump.replacen(r#""migrations":["#, r#""migrations":["29991231000000","#, 1);
        let error = target.load(&mut BufReader::new(newer.as_bytes())).unwrap_err();
        assert!(matches!(error, DumpError::Newer(_)), "{error}");
        target.load(&mut BufReader::new(dump.as_bytes())).unwrap();
    }
}

#[test]
fn an_installation_is_named_once() {
    for home in Home::each() {
        let store = home.ready();
        assert_eq!(store.installation("first").unwrap(), "first");
        assert_eq!(store.installation("second").unwrap(), "first");
    }
}
