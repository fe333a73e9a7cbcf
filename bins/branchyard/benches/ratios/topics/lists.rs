//! Pages deep in long lists, compared with the first page; and a small diff of a large table, compared with the same diff of a
//! small table.

use std::time::Duration;

use branchyard::compose::{Environment, Stores};
use branchyard_domain::access::Caller as Who;
use branchyard_domain::entities::{Branch, Pull, PullContent, PullState, User, Visibility};
use branchyard_domain::ports::{Durability, MergeOutcome, Metadata as _, WriteJob, WriteKeys};
use branchyard_domain::usecases::NewDatabase;
use branchyard_domain::values::{CommitHash, DatabaseId, DatabaseName, RefName, Timestamp};
use reqwest::Method;

use crate::flags::Flags;
use crate::harness::{BenchHarness, Caller};
use crate::report::{Aim, Row};
use crate::slices::{alternate, millis};
use crate::table::Table;

const SMALL: u64 = 1_000;
/// Requests per slice. A single request is too short to time.
const REQUESTS: u32 = 10;

pub(crate) fn run(flags: &Flags) -> Vec<Row> {
    let (items, commits, rows) = (flags.count("--items"), flags.count("--commits"), flags.count("--rows"));
    let (slices, changes) = (flags.count("--slices"), flags.count("--changes"));
    let harness = BenchHarness::new();
    generate(&harness, flags);
    let server = harness.start();
    let mut table = Vec::new();
    for (name, list, depth) in [
        ("branches, deep", "branches", items * 9 / 10),
        ("pulls, deep", "pulls", items * 9 / 10),
        ("commits, deep", "commits", commits * 9 / 10),
    ] {
        let mut caller = Caller::new(server.address, &harness.token);
        let path = format!("/api/v2/databases/bench/long/{list}?page_size=100");
        let deep = format!("{path}&page_token={}", token_at(&mut caller, &path, depth));
        let time = |path: &str| time(&mut Caller::new(server.address, &harness.token), path);
        let done = alternate(slices, || time(&deep), || time(&path));
        let what = format!("page of 100 {list} at {depth}");
        table.push(done.row(name, what, "the first page", "ms", Aim::AtMost(1.5)));
    }
    let diff = |name: &str| {
        let path = format!("/api/v2/databases/bench/{name}/diff?from=before&to=main&table=t");
        time(&mut Caller::new(server.address, &harness.token), &path)
    };
    let done = alternate(slices, || diff("large"), || diff("small"));
    let what = format!("diff of {changes} changed rows of {rows}");
    table.push(done.row("diff", what, &format!("of {SMALL}"), "ms", Aim::AtMost(1.1)));
    table
}

fn time(caller: &mut Caller, path: &str) -> f64 {
    let whole = millis(|| {
        for _ in 0..REQUESTS {
            caller.ask(Method::GET, path, "");
        }
    });
    whole / f64::from(REQUESTS)
}

/// Returns the token of the page that begins after `depth` items.
fn token_at(caller: &mut Caller, path: &str, depth: u64) -> String {
    let mut token = String::new();
    for _ in 0..depth / 100 {
        let answer = caller.ask(Method::GET, &format!("{path}&page_token={token}"), "");
        token = answer["meta"]["next_page_token"].as_str().unwrap().to_owned();
    }
    token
}

/// Creates the databases through the stores, because creating them through the API would take an hour.
fn generate(harness: &BenchHarness, flags: &Flags) {
    let stores = harness.stores();
    stores.bind(&Environment::default()).unwrap();
    let bench = stores.hub.people().user_named("bench").unwrap();

    let (long, first) = database(&stores, &bench, "long");
    let mut head = write(&stores, &bench, long, &first, "create table t (id integer primary key, v integer)");
    for n in 2..flags.count("--commits") {
        head = write(&stores, &bench, long, &head, &format!("insert into t values ({n}, {n})"));
    }
    advance(&stores, long, &first, &head);
    name_things(&stores, &bench, long, &first, flags.count("--items"));

    for (name, rows) in [("small", SMALL), ("large", flags.count("--rows"))] {
        let (id, first) = database(&stores, &bench, name);
        let script = Table::new(rows, flags.count("--columns")).script();
        let before =
            script.iter().fold(first.clone(), |head, statements| write(&stores, &bench, id, &head, statements));
        let step = (rows / flags.count("--changes")).max(2);
        let after = write(&stores, &bench, id, &before, &format!("update t set value = -1 where id % {step} = 1"));
        advance(&stores, id, &first, &after);
        let mut tx = stores.metadata.write(&WriteKeys::any()).unwrap();
        tx.branches().add(id, &branch("before", &before), None).unwrap();
        tx.commit(Durability::Synced).unwrap();
    }
}

fn database(stores: &Stores, bench: &User, name: &str) -> (DatabaseId, CommitHash) {
    let wanted = NewDatabase {
        owner: "bench".to_owned(),
        name: DatabaseName::parse(name).unwrap(),
        visibility: Visibility::Public,
        description: None,
        default_branch: None,
    };
    let id = stores.hub.databases().create(bench, wanted, None).unwrap().database.id;
    let access = stores.hub.databases().access_by_id::<branchyard_domain::access::Read>(&Who::Anonymous, id).unwrap();
    (id, stores.hub.history().resolve(&access, None).unwrap())
}

fn write(stores: &Stores, bench: &User, id: DatabaseId, base: &CommitHash, statements: &str) -> CommitHash {
    let author = bench.signature(Timestamp::from_seconds(1_790_000_000));
    let timeout = Duration::from_secs(600);
    let job = WriteJob { base, statements, message: "Generate", then_merge: None, author: &author, timeout };
    match stores.engine.port().write(id, &job).unwrap().outcome {
        MergeOutcome::Head(head) => head,
        MergeOutcome::Conflicts(_) => unreachable!("nothing is merged"),
    }
}

fn advance(stores: &Stores, id: DatabaseId, from: &CommitHash, to: &CommitHash) {
    let mut tx = stores.metadata.write(&WriteKeys::any()).unwrap();
    let main = RefName::parse("main").unwrap();
    assert!(tx.branches().move_head(id, &main, from, to, Timestamp::from_seconds(1_790_000_000), None).unwrap());
    tx.commit(Durability::Synced).unwrap();
}

fn branch(name: &str, head: &CommitHash) -> Branch {
    let updated_at = Timestamp::from_seconds(1_790_000_000);
    Branch { name: RefName::parse(name).unwrap(), head: head.clone(), updated_at }
}

/// Creates `items` branches and a pull request from each.
fn name_things(stores: &Stores, bench: &User, id: DatabaseId, head: &CommitHash, items: u64) {
    let locator = stores.metadata.read().unwrap().databases().get(id).unwrap().unwrap().locator;
    for batch in (0..items).collect::<Vec<_>>().chunks(5_000) {
        let mut tx = stores.metadata.write(&WriteKeys::any()).unwrap();
        for n in batch {
            let branch = branch(&format!("topic/{n:07}"), head);
            tx.branches().add(id, &branch, None).unwrap();
            let number = tx.pulls().next_number(id).unwrap();
            tx.pulls()
                .add(&Pull {
                    database_id: id,
                    number,
                    title: format!("Topic {n}"),
                    description: None,
                    state: PullState::Open,
                    creator_id: bench.id,
                    creator: bench.name.clone(),
                    from_database_id: id,
                    from_locator: locator.clone(),
                    from_branch: branch.name.clone(),
                    to_branch: RefName::parse("main").unwrap(),
                    content: PullContent::default(),
                    created_at: branch.updated_at,
                    updated_at: branch.updated_at,
                    version: 1,
                })
                .unwrap();
        }
        tx.commit(Durability::Synced).unwrap();
    }
}
