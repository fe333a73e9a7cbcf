//! Pages deep in long lists beside their first page, and a small diff of a large table beside the same of a small one.
//!
//! `cargo bench -p branchyard --bench lists [-- --items 100000 --commits 10000 --rows 1000000]`
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a bench prints, and stops where it fails"
)]

use std::time::{Duration, Instant};

use branchyard::compose::{Pending, Stores, World};
use branchyard::config::Config;
use branchyard::serve::Running;
use branchyard_auth::{PlainToken, TokenExpiry};
use branchyard_domain::access::Caller;
use branchyard_domain::entities::{Branch, Pull, PullState, User, Visibility};
use branchyard_domain::ports::{Engine as _, MergeOutcome, Metadata as _, WriteJob};
use branchyard_domain::usecases::{NewDatabase, NewUser};
use branchyard_domain::values::{CommitHash, DatabaseId, DatabaseName, OwnerName, RefName, Timestamp};
use branchyard_testkit::Actor;

fn main() {
    let (items, commits, rows) = (flag("--items", 100_000), flag("--commits", 10_000), flag("--rows", 1_000_000));
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config { data_dir: dir.path().to_owned(), listen: "127.0.0.1:0".to_owned(), ..Config::default() };
    config.rate_limit.enabled = false;
    let token = generate(&config, items, commits, rows);
    let running = Running::start(&config, &World::default(), Pending::Refuse).unwrap();
    let ada = Actor::new(running.address(), Some(token), "ada");

    println!("{items} branches and pulls, {commits} commits: milliseconds of a page of 100, median of 30");
    for (list, depth) in [("branches", items * 9 / 10), ("pulls", items * 9 / 10), ("commits", commits * 9 / 10)] {
        let path = format!("/databases/ada/long/{list}?page_size=100");
        let deep = format!("{path}&page_token={}", token_at(&ada, &path, depth));
        let (first, last) = (median(&ada, &path), median(&ada, &deep));
        println!(
            "  {list:<9} first {:>7.2}   at {depth:>6} {:>7.2}   ratio {:>5.2}  (aim: at most 1.5, under 50 ms)",
            millis(first),
            millis(last),
            millis(last) / millis(first)
        );
    }
    let diff = |table: &str| format!("/databases/ada/{table}/diff?from=before&to=main&table=t");
    let (small, large) = (median(&ada, &diff("small")), median(&ada, &diff("large")));
    println!("diff of 10 changed rows, milliseconds, median of 30");
    println!(
        "  of 1000 rows {:>7.2}   of {rows} rows {:>7.2}   ratio {:>5.2}  (aim: at most 3)",
        millis(small),
        millis(large),
        millis(large) / millis(small)
    );
    running.stop().unwrap();
}

fn flag(name: &str, default: u64) -> u64 {
    let mut args = std::env::args().skip_while(|arg| arg != name);
    args.nth(1).map_or(default, |value| value.parse().expect("a number"))
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn median(ada: &Actor, path: &str) -> Duration {
    let mut times: Vec<Duration> = (0..30)
        .map(|_| {
            let began = Instant::now();
            ada.get(path).expect(200);
            began.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

/// The token of the page that begins after `depth` items.
fn token_at(ada: &Actor, path: &str, depth: u64) -> String {
    let mut token = String::new();
    for _ in 0..depth / 100 {
        let answer = ada.get(&format!("{path}&page_token={token}")).expect(200);
        token = answer.json()["meta"]["next_page_token"].as_str().unwrap().to_owned();
    }
    token
}

/// Makes the databases past the API, which would take an hour; gives a token.
fn generate(config: &Config, items: u64, commits: u64, rows: u64) -> String {
    let stores = Stores::open(config, &World::default(), Pending::Migrate).unwrap();
    stores.bind(&World::default()).unwrap();
    let wanted = NewUser {
        name: OwnerName::parse("ada").unwrap(),
        email: "ada@example.test".to_owned(),
        display_name: None,
        password: None,
        is_admin: false,
    };
    let ada = stores.hub.people().create_user(wanted).unwrap();
    let secret = PlainToken::mint(&mut rand::rng());
    let token = stores.hub.tokens().create(&ada, "bench", TokenExpiry::Days30, secret, None).unwrap();

    let (long, first) = database(&stores, &ada, "long");
    let mut head = write(&stores, &ada, long, &first, "create table t (id integer primary key, v integer)");
    for n in 2..commits {
        head = write(&stores, &ada, long, &head, &format!("insert into t values ({n}, {n})"));
    }
    advance(&stores, long, &first, &head);
    name_things(&stores, &ada, long, &first, items);

    for (name, rows) in [("small", 1_000), ("large", rows)] {
        let (id, first) = database(&stores, &ada, name);
        let fill = format!(
            "create table t (id integer primary key, name text, v integer); insert into t with recursive n(i) as (select 1 union all \
             select i + 1 from n where i < {rows}) select i, 'row number ' || i, i % 100 from n"
        );
        let before = write(&stores, &ada, id, &first, &fill);
        let after = write(&stores, &ada, id, &before, &format!("update t set v = -1 where id % {} = 1", rows / 10));
        advance(&stores, id, &first, &after);
        let mut unit = stores.metadata.write().unwrap();
        unit.branch_add(id, &branch("before", &before)).unwrap();
        unit.save().unwrap();
    }
    token.secret.expose().to_owned()
}

fn database(stores: &Stores, ada: &User, name: &str) -> (DatabaseId, CommitHash) {
    let wanted = NewDatabase {
        owner: "ada".to_owned(),
        name: DatabaseName::parse(name).unwrap(),
        visibility: Visibility::Public,
        description: None,
        default_branch: None,
    };
    let id = stores.hub.databases().create(ada, wanted, None).unwrap().database.id;
    let access =
        stores.hub.databases().access_by_id::<branchyard_domain::access::Read>(&Caller::Anonymous, id).unwrap();
    (id, stores.hub.history().resolve(&access, None).unwrap())
}

fn write(stores: &Stores, ada: &User, id: DatabaseId, base: &CommitHash, statements: &str) -> CommitHash {
    let author = ada.signature(Timestamp::from_seconds(1_790_000_000));
    let timeout = Duration::from_secs(600);
    let job = WriteJob { base, statements, message: "Generate", then_merge: None, author: &author, timeout };
    match stores.engine.write(id, &job).unwrap().outcome {
        MergeOutcome::Head(head) => head,
        MergeOutcome::Conflicts(_) => unreachable!("nothing is merged"),
    }
}

fn advance(stores: &Stores, id: DatabaseId, from: &CommitHash, to: &CommitHash) {
    let mut unit = stores.metadata.write().unwrap();
    let main = RefName::parse("main").unwrap();
    assert!(unit.branch_move(id, &main, from, to, Timestamp::from_seconds(1_790_000_000)).unwrap());
    unit.save().unwrap();
}

fn branch(name: &str, head: &CommitHash) -> Branch {
    let updated_at = Timestamp::from_seconds(1_790_000_000);
    Branch { name: RefName::parse(name).unwrap(), head: head.clone(), updated_at }
}

/// Branches, and a pull from each.
fn name_things(stores: &Stores, ada: &User, id: DatabaseId, head: &CommitHash, items: u64) {
    let locator = stores.metadata.read().unwrap().database_get(id).unwrap().unwrap().locator;
    for batch in (0..items).collect::<Vec<_>>().chunks(5_000) {
        let mut unit = stores.metadata.write().unwrap();
        for n in batch {
            let branch = branch(&format!("topic/{n:07}"), head);
            unit.branch_add(id, &branch).unwrap();
            let number = unit.pull_next_number(id).unwrap();
            unit.pull_add(&Pull {
                database_id: id,
                number,
                title: format!("Topic {n}"),
                description: None,
                state: PullState::Open,
                creator_id: ada.id,
                creator: ada.name.clone(),
                from_database_id: id,
                from_locator: locator.clone(),
                from_branch: branch.name.clone(),
                to_branch: RefName::parse("main").unwrap(),
                created_at: branch.updated_at,
                updated_at: branch.updated_at,
                version: 1,
            })
            .unwrap();
        }
        unit.save().unwrap();
    }
}
