//! The attacks. To add an attack, write a function and add a line to [`ATTACKS`].

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use data_encoding::HEXLOWER;
use md5::{Digest as _, Md5};
use serde_json::{Value, json};

use super::caller::Caller;
use super::harness::OWN;
use super::statements;

pub(super) struct Attack {
    pub(super) name: &'static str,
    pub(super) by: By,
    run: fn(&mut Caller),
}

/// The callers that can run an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Anyone,
    /// The attack needs an account.
    Account,
    /// The attack needs the account that owns the deployment.
    Owner,
}

impl By {
    pub(super) fn includes(self, account: Option<usize>) -> bool {
        match self {
            Self::Anyone => true,
            Self::Account => account.is_some(),
            Self::Owner => account == Some(0),
        }
    }
}

const fn attack(name: &'static str, by: By, run: fn(&mut Caller)) -> Attack {
    Attack { name, by, run }
}

pub(super) const ATTACKS: &[Attack] = &[
    attack("functions with long arguments", By::Anyone, functions),
    attack("reads without an end", By::Anyone, endless),
    attack("reads that fill the memory", By::Anyone, memory),
    attack("nested and long statements", By::Anyone, prepares),
    attack("paths into a large document", By::Anyone, paths),
    attack("answers that are not taken", By::Anyone, untaken),
    attack("differences, history and exports", By::Anyone, history),
    attack("pages of large things", By::Anyone, pages),
    attack("half-sent forms", By::Anyone, half_forms),
    attack("half-sent JSON", By::Anyone, half_json),
    attack("half-sent heads", By::Anyone, half_heads),
    attack("connections that say nothing", By::Anyone, silent_connections),
    attack("connections that come and go", By::Anyone, rubbish),
    attack("conflicts of pulls", By::Anyone, conflicts),
    attack("half-sent parts of uploads", By::Account, half_parts),
    attack("pulls from a fork that is being written", By::Account, pulls),
    attack("long writes on several databases", By::Account, writes),
    attack("imports", By::Account, imports),
    attack("silent webhooks", By::Account, webhooks),
    attack("SQL of a deployment", By::Owner, deployment),
    attack("half-sent bodies to a deployment", By::Owner, half_pipelines),
    attack("guesses at a deployment", By::Anyone, guesses),
];

impl Attack {
    pub(super) fn run(&self, caller: &mut Caller) {
        caller.attack = self.name;
        (self.run)(caller);
    }
}

/// The public database.
const OPEN: &str = "/api/v2/databases/vera/open";

/// Sends more reads than a caller may have at once, so that some wait and some are rejected.
fn read_all(caller: &mut Caller, statements: &[String], headers: &[&str]) {
    let requests: Vec<Vec<u8>> = statements
        .iter()
        .map(|q| {
            let body = json!({"q": q, "timeout_ms": 60_000, "limit": 10_000}).to_string();
            let headers = [&["content-type: application/json"], headers].concat();
            caller.bytes("POST", &format!("{OPEN}/sql"), &headers, body.as_bytes())
        })
        .collect();
    caller.crowd(&requests);
}

fn drawn(caller: &mut Caller, templates: &[&str], count: usize) -> Vec<String> {
    (0..count)
        .map(|_| {
            let template = caller.one_of(templates);
            let n = 1_usize << (14 + caller.number(12));
            statements::filled(template, n)
        })
        .collect()
}

fn functions(caller: &mut Caller) {
    let statements = drawn(caller, statements::FUNCTIONS, 12);
    read_all(caller, &statements, &[]);
}

fn endless(caller: &mut Caller) {
    let statements = drawn(caller, statements::ENDLESS, 12);
    read_all(caller, &statements, &[]);
}

fn memory(caller: &mut Caller) {
    let statements = drawn(caller, statements::MEMORY, 12);
    read_all(caller, &statements, &[]);
}

fn prepares(caller: &mut Caller) {
    let statements: Vec<String> = (0..12)
        .map(|_| {
            let nest = caller.one_of(statements::NESTS);
            nest(1 << (4 + caller.number(11)))
        })
        .collect();
    read_all(caller, &statements, &[]);
}

fn paths(caller: &mut Caller) {
    let statements: Vec<String> = (0..12)
        .map(|_| {
            let bytes = 1 << (20 + caller.number(6));
            statements::paths(caller.one_of(statements::PATHS), bytes)
        })
        .collect();
    read_all(caller, &statements, &[]);
}

/// Requests long answers and reads nothing of them.
fn untaken(caller: &mut Caller) {
    let accepts = ["accept: application/x-ndjson", "accept: text/csv", "accept: application/json"];
    let requests: Vec<Vec<u8>> = (0..12)
        .map(|_| {
            let q = caller.one_of(statements::LONG);
            let accept = caller.one_of(&accepts);
            let body = json!({"q": q, "timeout_ms": 60_000, "limit": 1_000_000}).to_string();
            caller.bytes("POST", &format!("{OPEN}/sql"), &["content-type: application/json", accept], body.as_bytes())
        })
        .collect();
    let held = caller.begin(&requests);
    caller.wait(caller.until());
    caller.end(held, Instant::now());
}

fn history(caller: &mut Caller) {
    let fork = format!("/api/v2/databases/mallory{}/open", caller.number(super::harness::ACCOUNTS));
    let mut requests = Vec::new();
    for _ in 0..4 {
        for path in [
            format!("{OPEN}/diff/tables?from=main~1&to=main"),
            format!("{OPEN}/diff?from=main~1&to=main&page_size=100"),
            format!("{fork}/diff?from=main&to=work&table=t&page_size=100"),
            "/csv/vera/open/main/t".to_owned(),
            "/csv/vera/open/main/docs".to_owned(),
            "/vera/open/zip".to_owned(),
            format!("{OPEN}/commits?page_size=100"),
            format!("{OPEN}/schema"),
        ] {
            requests.push(caller.get(&path));
        }
    }
    caller.crowd(&requests);
    let statements: Vec<String> = statements::HISTORY.iter().map(|q| (*q).to_owned()).collect();
    read_all(caller, &statements, &[]);
}

fn pages(caller: &mut Caller) {
    let slow = "with+recursive+n(x)+as+(select+1+union+all+select+x%2B1+from+n)+select+sum(x)+from+n";
    let mut requests = Vec::new();
    for pull in 1..=super::harness::ACCOUNTS {
        for path in [
            format!("/vera/open/pulls/{pull}"),
            format!("/vera/open/pulls/{pull}/diff"),
            format!("/vera/open/pulls/{pull}/conflicts"),
            "/vera/open/compare/main~1...main".to_owned(),
            "/vera/open/tables/docs".to_owned(),
            "/vera/open/tables/t?page=7".to_owned(),
            format!("/vera/open/sql?q={slow}"),
            format!("/vera/open/sql.csv?q={slow}"),
            "/explore?q=a".to_owned(),
        ] {
            requests.push(caller.get(&path));
        }
    }
    caller.crowd(&requests);
}

/// Sends the beginnings of requests, and nothing more until the caller's patience ends.
fn half(caller: &mut Caller, beginnings: &[Vec<u8>]) {
    let held = caller.begin(beginnings);
    caller.wait(caller.until());
    caller.end(held, Instant::now());
}

/// Returns the beginning of a request: a head with a declared length or chunked encoding, and `sent` bytes of the body.
fn beginning(caller: &Caller, method: &str, path: &str, kind: &str, declared: Option<usize>, sent: usize) -> Vec<u8> {
    let filling = vec![b'a'; sent];
    match declared {
        Some(length) => {
            let length = format!("content-length: {length}");
            [caller.head(method, path, &[kind, &length]), filling].concat()
        }
        None => {
            let head = caller.head(method, path, &[kind, "transfer-encoding: chunked"]);
            [head, format!("{sent:x}\r\n").into_bytes(), filling, b"\r\n".to_vec()].concat()
        }
    }
}

const FORM: &str = "content-type: application/x-www-form-urlencoded";
const JSON: &str = "content-type: application/json";

fn half_forms(caller: &mut Caller) {
    let forms: Vec<Vec<u8>> = (0..caller.harness.size.connections)
        .map(|number| {
            let path = caller.one_of(&["/sign-in", "/sign-up", "/vera/open/sql", "/vera/open/pulls/new"]);
            let (declared, sent) = match number % 3 {
                0 => (None, 2 << 20),
                1 => (Some(4 << 20), 2 << 20),
                _ => (Some(60 << 10), 50 << 10),
            };
            beginning(caller, "POST", path, FORM, declared, sent)
        })
        .collect();
    half(caller, &forms);
}

fn half_json(caller: &mut Caller) {
    let bodies: Vec<Vec<u8>> = (0..caller.harness.size.connections)
        .map(|number| {
            let path = caller.one_of(&[
                "/api/v2/databases/vera/open/sql",
                "/api/v2/databases",
                "/api/v2/databases/vera/open/pulls",
                "/api/v1alpha1/database",
                "/api/v1/deployments",
            ]);
            let (declared, sent) = match number % 3 {
                0 => (None, 1 << 20),
                1 => (Some(2 << 20), (2 << 20) - 1),
                _ => (Some(60 << 10), 50 << 10),
            };
            beginning(caller, "POST", path, JSON, declared, sent)
        })
        .collect();
    half(caller, &bodies);
}

fn half_heads(caller: &mut Caller) {
    let heads: Vec<Vec<u8>> = (0..caller.harness.size.connections)
        .map(|number| {
            let filling = "a".repeat(if number % 2 == 0 { 10 } else { 100 << 10 });
            format!("GET {OPEN} HTTP/1.1\r\nhost: x\r\nx-long: {filling}").into_bytes()
        })
        .collect();
    half(caller, &heads);
}

fn silent_connections(caller: &mut Caller) {
    let silence = vec![Vec::new(); caller.harness.size.connections];
    half(caller, &silence);
}

fn rubbish(caller: &mut Caller) {
    let until = caller.until();
    while Instant::now() < until {
        let rubbish =
            caller.one_of(&["rubbish\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "\0\u{1}\u{2}", "POST / HTTP/9\r\n\r\n"]);
        caller.crowd(&vec![rubbish.as_bytes().to_vec(); 4]);
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn conflicts(caller: &mut Caller) {
    let requests: Vec<Vec<u8>> = (0..40)
        .map(|number| {
            let pull = number % super::harness::ACCOUNTS + 1;
            let what = caller.one_of(&["conflicts", "conflicts?table=t", "diff", "diff/tables"]);
            caller.get(&format!("{OPEN}/pulls/{pull}/{what}"))
        })
        .collect();
    caller.crowd(&requests);
}

/// Opens an upload. Returns path and query of the URL of its only part, and the session to repeat in the import.
fn announce(caller: &mut Caller, database: &str, kind: &str, length: usize) -> Option<(String, Value)> {
    let body = json!({"content_length": length, "num_parts": 1, "file_type": kind});
    let request = caller.json("POST", &format!("/api/v2/databases/{database}/imports/uploads"), &body);
    let mut session = caller.ask(&request).filter(|answer| answer.status == 201)?.json()["data"].take();
    let url = session["parts"][0]["url"].as_str()?;
    let path = format!("/{}", url.splitn(4, '/').nth(3)?);
    session.as_object_mut()?.remove("parts");
    Some((path, session))
}

fn half_parts(caller: &mut Caller) {
    let database = format!("{}/a", caller.name());
    let Some((path, _)) = announce(caller, &database, "csv", 64 << 20) else { return };
    let parts: Vec<Vec<u8>> = (0..caller.harness.size.connections)
        .map(|_| beginning(caller, "PUT", &path, "content-type: text/csv", Some(64 << 20), 1 << 20))
        .collect();
    half(caller, &parts);
}

/// A write that computes until its timeout.
const ENDLESS_WRITE: &str = "create table if not exists endless (x); insert into endless \
    with recursive n(x) as (select 1 union all select x + 1 from n) select x from n where x < 0";

fn write(q: &str, branch: &str) -> Value {
    json!({"from_branch": branch, "to_branch": branch, "q": q})
}

fn pulls(caller: &mut Caller) {
    let fork = format!("/api/v2/databases/{}/open", caller.name());
    let mut requests = vec![caller.json("POST", &format!("{fork}/sql-writes"), &write(ENDLESS_WRITE, "work"))];
    let branch = format!("b{}", caller.number(usize::MAX));
    let made = json!({"name": branch, "from": {"branch": "work"}});
    let request = caller.json("POST", &format!("{fork}/branches"), &made);
    caller.ask(&request);
    let from = |branch: &str, owner: &str| json!({"database": {"owner": owner, "name": "open"}, "branch_name": branch});
    let pull = json!({"title": "x", "from_branch": from(&branch, &caller.name()), "to_branch": from("main", "vera")});
    let request = caller.json("POST", &format!("{OPEN}/pulls"), &pull);
    let Some(opened) = caller.ask(&request) else { return };
    let number = opened.json()["data"]["pull_number"].as_u64().unwrap_or(1);
    for _ in 0..10 {
        for what in ["", "/diff", "/diff/tables", "/conflicts"] {
            requests.push(caller.get(&format!("{OPEN}/pulls/{number}{what}")));
        }
        requests.push(caller.get(&format!("/vera/open/pulls/{number}")));
    }
    // Moves the branch, and with it the pull request.
    let moved = write("update t set v = v || '!' where id % 2", &branch);
    requests.push(caller.json("POST", &format!("{fork}/sql-writes"), &moved));
    caller.crowd(&requests);
    let request = caller.json("PATCH", &format!("{OPEN}/pulls/{number}"), &json!({"state": "closed"}));
    caller.ask(&request);
}

fn writes(caller: &mut Caller) {
    let requests: Vec<Vec<u8>> = (0..20)
        .map(|number| {
            let q = caller.one_of(statements::WRITES);
            let path = format!("/api/v2/databases/{}/{}/sql-writes", caller.name(), OWN[number % OWN.len()]);
            caller.json("POST", &path, &write(q, "main"))
        })
        .collect();
    caller.crowd(&requests);
}

fn imports(caller: &mut Caller) {
    let name = caller.name();
    let database = format!("{name}/{}", caller.one_of(&OWN));
    let kind = caller.one_of(&["csv", "json", "yaml", "sql"]);
    let size = caller.harness.size.file;
    let line = match kind {
        "csv" => "1,two,3.5\n",
        "json" => "{\"a\":[[[[[[1]]]]]],\"b\":\"two\"}\n",
        "yaml" => "- {a: [[[[1]]]], b: two}\n",
        _ => "insert into t values (1, 'two', 3.5);\n",
    };
    let start = match kind {
        "csv" => "a,b,c\n".to_owned(),
        "sql" => format!("create table if not exists t (a, b, c); {ENDLESS_WRITE};\n"),
        _ => String::new(),
    };
    let file = start + &line.repeat(size / line.len());
    let Some((path, session)) = announce(caller, &database, kind, file.len()) else { return };
    let part = caller.bytes("PUT", &path, &[], file.as_bytes());
    if caller.ask(&part).is_none_or(|answer| answer.status != 200) {
        return;
    }
    let md5 = Md5::digest(file.as_bytes());
    let body = json!({
        "branch_name": "main", "table_name": "t", "file_name": format!("t.{kind}"), "file_size": file.len(),
        "file_type": kind, "import_operation": "overwrite", "token": session["token"],
        "contents_key": session["contents_key"], "completed_parts": [{"part_number": 1, "etag": HEXLOWER.encode(&md5)}],
        "file_parts_md5": STANDARD.encode(Md5::digest(STANDARD.encode(md5))), "primary_keys": [],
    });
    let request = caller.json("POST", &format!("/api/v2/databases/{database}/imports"), &body);
    caller.ask(&request);
}

/// Host names with a silent name server are not tested here, because they need a resolver controlled by the test
/// (`crates/testkit/tests/it/fair.rs`).
fn webhooks(caller: &mut Caller) {
    let database = format!("/api/v2/databases/{}/a", caller.name());
    let silent = caller.harness.silent.local_addr().unwrap();
    let mut hooks = Vec::new();
    for number in 0..8 {
        let hook = json!({"url": format!("http://{silent}/{number}"), "events": ["on_branch"]});
        let request = caller.json("POST", &format!("{database}/hooks"), &hook);
        let made = caller.ask(&request).map(|answer| answer.json());
        hooks.extend(made.and_then(|made| Some(made["data"]["id"].as_str()?.to_owned())));
    }
    for number in 0..8 {
        let branch = json!({"name": format!("h{number}"), "from": {"branch": "main"}});
        let request = caller.json("POST", &format!("{database}/branches"), &branch);
        caller.ask(&request);
        let request = caller.head("DELETE", &format!("{database}/branches/h{number}"), &[]);
        caller.ask(&request);
    }
    caller.wait(caller.until());
    for hook in hooks {
        let request = caller.head("DELETE", &format!("{database}/hooks/{hook}"), &[]);
        caller.ask(&request);
    }
}

/// Runs statements on the deployment, which has its own process.
fn deployment(caller: &mut Caller) {
    let path = caller.harness.deployment.clone();
    let requests: Vec<Vec<u8>> = (0..12)
        .map(|_| {
            let templates = caller.one_of(&[statements::ENDLESS, statements::FUNCTIONS, statements::MEMORY]);
            let sql = drawn(caller, templates, 1).remove(0);
            let body = json!({"requests": [{"type": "execute", "stmt": {"sql": sql}}, {"type": "close"}]});
            caller.json("POST", &path, &body)
        })
        .collect();
    caller.crowd(&requests);
}

fn half_pipelines(caller: &mut Caller) {
    let path = caller.harness.deployment.clone();
    let bodies: Vec<Vec<u8>> = (0..caller.harness.size.connections)
        .map(|_| beginning(caller, "POST", &path, JSON, Some(8 << 20), 1 << 20))
        .collect();
    half(caller, &bodies);
}

/// Sends invalid credentials, and credentials of accounts without a role.
fn guesses(caller: &mut Caller) {
    let path = caller.harness.deployment.clone();
    let requests: Vec<Vec<u8>> = (0..24)
        .map(|number| match number % 2 {
            0 => caller.json("POST", &path, &json!({"requests": []})),
            _ => format!("POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {number}\r\n\r\n").into_bytes(),
        })
        .collect();
    caller.crowd(&requests);
}
