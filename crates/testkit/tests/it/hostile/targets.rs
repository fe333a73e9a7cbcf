//! The fuzz targets: what is tried, and which outcomes must not happen.

use std::time::Duration;

use branchyard_domain::values::RefName;
use branchyard_imports::{FileLimits, Format, Input, RowErrors, TextOptions, rows, scan};
use branchyard_sqlite_lexer::{first_word, redact, terminated_statement_length, tokenize};
use branchyard_testkit::{Actor, Server, TestAnswer};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use reqwest::Method;
use reqwest::header::HeaderValue;
use serde_json::{Value, json};

use super::{files, remotes, requests};

/// An entry point that takes untrusted bytes.
pub(super) struct Target {
    pub(super) name: &'static str,
    /// The longest time that one attempt may take, as processor time.
    pub(super) limit: Duration,
    /// The number of attempts in a default run.
    pub(super) rounds: usize,
    /// Good inputs, and inputs known to be hard.
    pub(super) seeds: fn(&HostileHarness) -> Vec<Vec<u8>>,
    /// Tries an input. Returns a summary of the outcome, or an error if the outcome must not happen.
    pub(super) attempt: fn(&HostileHarness, &[u8]) -> Result<String, String>,
}

const SECOND: Duration = Duration::from_secs(1);

pub(super) const TARGETS: &[Target] = &[
    Target {
        name: "cursor",
        limit: SECOND.saturating_mul(5),
        rounds: 200,
        seeds: |harness| vec![harness.cursor.clone().into()],
        attempt: cursor,
    },
    Target {
        name: "token",
        limit: SECOND.saturating_mul(5),
        rounds: 200,
        seeds: |harness| vec![format!("Bearer {}", harness.secret()).into()],
        attempt: token,
    },
    Target { name: "ref", limit: SECOND.saturating_mul(5), rounds: 80, seeds: |_| texts(REFS), attempt: ref_name },
    Target {
        name: "operation",
        limit: SECOND.saturating_mul(5),
        rounds: 200,
        seeds: |harness| vec![harness.operation.clone().into()],
        attempt: operation,
    },
    Target {
        name: "completion",
        limit: SECOND.saturating_mul(5),
        rounds: 150,
        seeds: |harness| vec![harness.completion.to_string().into()],
        attempt: completion,
    },
    Target {
        name: "csv",
        limit: SECOND.saturating_mul(5),
        rounds: 600,
        seeds: |_| texts(CSV),
        attempt: |_, bytes| parse(Format::Csv, bytes),
    },
    Target {
        name: "psv",
        limit: SECOND.saturating_mul(5),
        rounds: 200,
        seeds: |_| texts(CSV),
        attempt: |_, bytes| parse(Format::Psv, bytes),
    },
    Target {
        name: "json",
        limit: SECOND.saturating_mul(5),
        rounds: 600,
        seeds: |_| json_files(),
        attempt: |_, bytes| parse(Format::Json, bytes),
    },
    Target {
        name: "yaml",
        limit: SECOND.saturating_mul(5),
        rounds: 200,
        seeds: |_| texts(YAML),
        attempt: |_, bytes| parse(Format::Yaml, bytes),
    },
    Target {
        name: "import-csv",
        limit: SECOND.saturating_mul(30),
        rounds: 10,
        seeds: |_| texts(CSV),
        attempt: |harness, bytes| import(harness, "csv", bytes),
    },
    Target {
        name: "import-json",
        limit: SECOND.saturating_mul(30),
        rounds: 10,
        seeds: |_| json_files(),
        attempt: |harness, bytes| import(harness, "json", bytes),
    },
    Target {
        name: "xlsx",
        limit: SECOND.saturating_mul(5),
        rounds: 100,
        seeds: |_| vec![crate::files::xlsx()],
        attempt: |_, bytes| parse(Format::Xlsx, bytes),
    },
    Target {
        name: "xlsx-sheet",
        limit: SECOND.saturating_mul(5),
        rounds: 200,
        seeds: |_| files::sheets(),
        attempt: |_, bytes| parse(Format::Xlsx, &files::workbook(bytes)),
    },
    Target {
        name: "parquet",
        limit: SECOND.saturating_mul(5),
        rounds: 200,
        seeds: |_| vec![crate::files::parquet()],
        attempt: |_, bytes| parse(Format::Parquet, bytes),
    },
    Target {
        name: "import-sql",
        limit: SECOND.saturating_mul(30),
        rounds: 10,
        seeds: |_| texts(&[crate::files::SCRIPT, "create table a(b);\n-- x\ninsert into a values ('1;2');"]),
        attempt: |harness, bytes| import(harness, "sql", bytes),
    },
    Target {
        name: "import-sqlite",
        limit: SECOND.saturating_mul(30),
        rounds: 10,
        seeds: |_| vec![crate::files::sqlite(crate::files::SCRIPT)],
        attempt: |harness, bytes| import(harness, "sqlite", bytes),
    },
    Target {
        name: "upload-part",
        limit: SECOND.saturating_mul(5),
        rounds: 30,
        seeds: |_| requests::parts(),
        attempt: requests::part,
    },
    Target {
        name: "multipart",
        limit: SECOND.saturating_mul(5),
        rounds: 60,
        seeds: |_| requests::forms(),
        attempt: requests::form,
    },
    Target {
        name: "header",
        limit: SECOND.saturating_mul(5),
        rounds: 200,
        seeds: |_| requests::headers(),
        attempt: requests::header,
    },
    Target {
        name: "key",
        limit: SECOND.saturating_mul(5),
        rounds: 60,
        seeds: |_| texts(&["k", "\"quoted\"", "a b", "\"\""]),
        attempt: requests::key,
    },
    Target {
        name: "hook-url",
        limit: SECOND.saturating_mul(5),
        rounds: 100,
        seeds: |_| texts(requests::URLS),
        attempt: requests::hook_url,
    },
    Target {
        name: "markdown",
        limit: SECOND.saturating_mul(10),
        rounds: 40,
        seeds: |_| texts(requests::PROSE),
        attempt: requests::markdown,
    },
    Target {
        name: "config",
        limit: SECOND.saturating_mul(5),
        rounds: 100,
        seeds: |_| requests::configurations(),
        attempt: |_, bytes| requests::configuration(bytes),
    },
    Target {
        name: "remote-hashes",
        limit: SECOND.saturating_mul(5),
        rounds: 60,
        seeds: |_| remotes::lists(),
        attempt: remotes::hashes,
    },
    Target {
        name: "remote-chunks",
        limit: SECOND.saturating_mul(5),
        rounds: 60,
        seeds: |_| remotes::records(),
        attempt: remotes::chunks,
    },
    Target {
        name: "remote-update",
        limit: SECOND.saturating_mul(5),
        rounds: 60,
        seeds: |_| remotes::updates(),
        attempt: remotes::update,
    },
    Target {
        name: "sql-lexer",
        limit: SECOND,
        rounds: 200,
        seeds: |_| [statements(), texts(WRITES), texts(&[crate::files::SCRIPT])].concat(),
        attempt: |_, bytes| lex(bytes),
    },
    Target { name: "sql", limit: SECOND.saturating_mul(9), rounds: 120, seeds: |_| statements(), attempt: sql },
    Target {
        name: "sql-write",
        limit: SECOND.saturating_mul(90),
        rounds: 25,
        seeds: |_| texts(WRITES),
        attempt: sql_write,
    },
];

const REFS: &[&str] =
    &["main", "feature/x", "HEAD", "HEAD~2", "refs/heads/main", "v1.0", "a..b", "@{-1}", "x.lock", "é/ü"];
const CSV: &[&str] = &[
    "id,name\n1,Alice\n2,\"Bob, \"\"the\"\" builder\"\r\n",
    "\u{feff}a|b\n1|2\n",
    "a,a\n\n1\n",
    "n,r\n9223372036854775808,1e999\n-0,007\n",
    "\"a",
];
const YAML: &[&str] = &["- {a: 1, b: [x, y]}\n- a: ~\n", "rows:\n  - a: !!str 1\n", "- &a {x: *a}\n"];
const WRITES: &[&str] = &[
    "INSERT INTO t VALUES (1, 'x')",
    "UPDATE t SET v = NULL; DELETE FROM t WHERE id IN (SELECT id FROM t)",
    "CREATE TABLE u(a, b, PRIMARY KEY (a, b)); DROP TABLE u",
    "CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM t; END",
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c LIMIT 1000) INSERT INTO t SELECT x, x FROM c",
];

fn texts(all: &[&str]) -> Vec<Vec<u8>> {
    all.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn json_files() -> Vec<Vec<u8>> {
    let mut all = texts(&[
        r#"[{"a":1,"b":"x"},{"a":null,"b":{"c":[1,2]}}]"#,
        "{\"a\":1}\n{\"b\":2.5e3}\n",
        r#"{"rows":[{"a":"\ud83d\ude00"}]}"#,
    ]);
    for open in ["[", "{\"a\":", "[{\"a\":[", "{\"rows\":["] {
        all.push(open.repeat(100_000).into_bytes());
    }
    all
}

fn statements() -> Vec<Vec<u8>> {
    let mib = |text: &str| text.repeat((1 << 20) / text.len() - 16).into_bytes();
    let mut all = texts(&[
        "select * from t",
        "select count(*), v from t group by v order by 1 desc",
        "with recursive c(x) as (select 1 union all select x+1 from c) select sum(x) from c",
        "select 1\0; drop table t",
        "show create table t",
        "describe `t`",
        "explain select * from t a, t b, t c, t d",
        "select replace(hex(zeroblob(100000)), '00', 'abc')",
        "pragma table_info(t)",
    ]);
    for start in ["", "select "] {
        for part in [
            "(",
            "select (",
            "1+",
            "not ",
            "x",
            "'",
            "-",
            "case when 1 then ",
            "select 1 union all ",
            "--\n",
            "/*",
            "\u{1F600}",
            ";",
            "[",
            "json('[",
        ] {
            all.push([start.as_bytes(), &mib(part)].concat());
        }
        all.push([start.as_bytes(), "(".repeat(900).as_bytes(), b"1", ")".repeat(900).as_bytes()].concat());
    }
    all
}

/// A server with a database that the attempts run against.
pub(super) struct HostileHarness {
    pub(super) ada: Actor,
    pub(super) anonymous: Actor,
    pub(super) cursor: String,
    pub(super) operation: String,
    pub(super) completion: Value,
    /// The URL of a part of an upload.
    pub(super) part: String,
    /// The number of scripts on the page [`PULL`].
    pub(super) scripts: usize,
}

impl HostileHarness {
    pub(super) fn new(server: &Server) -> Self {
        let ada = server.user("ada");
        ada.database("rivers");
        ada.write("ada/rivers", "main", "CREATE TABLE t(id INTEGER, v TEXT); INSERT INTO t VALUES (1, 'a'), (2, NULL)");
        ada.post("/databases/ada/rivers/branches", &json!({"name": "other", "from": {"branch": "main"}})).expect(201);
        let page = ada.get(&format!("{BRANCHES}?page_size=1")).expect(200).json();
        let cursor = page["meta"]["next_page_token"].as_str().unwrap().to_owned();
        let operations = ada.get("/databases/ada/rivers/operations").expect(200).data();
        let operation = operations[0]["id"].as_str().unwrap().to_owned();
        let completion = ada.upload("ada/rivers", "csv", b"id,name\n1,Alice\n", 2, &json!({}));
        let announced = json!({"content_length": 1_000, "num_parts": 1, "file_type": "csv"});
        let session = ada.post("/databases/ada/rivers/imports/uploads", &announced).expect(201).data();
        let part = session["parts"][0]["url"].as_str().unwrap().to_owned();
        let anonymous = server.anonymous();
        ada.write("ada/rivers", "other", "INSERT INTO t VALUES (3, 'b')");
        let place = |branch| json!({"database": {"owner": "ada", "name": "rivers"}, "branch_name": branch});
        let pull = json!({"title": "Prose", "from_branch": place("other"), "to_branch": place("main")});
        ada.post("/databases/ada/rivers/pulls", &pull).expect(201);
        let page = anonymous.send(anonymous.plain(Method::GET, PULL)).expect(200);
        let scripts = page.text.matches("<script").count();
        Self { anonymous, ada, cursor, operation, completion, part, scripts }
    }

    pub(super) fn secret(&self) -> &str {
        self.ada.token().unwrap()
    }
}

/// A page that shows prose.
pub(super) const PULL: &str = "/ada/rivers/pulls/1";

pub(super) const BRANCHES: &str = "/databases/ada/rivers/branches";

/// The length at which input for a URL or header is cut. Longer URLs do not reach the API.
pub(super) const ADDRESS: usize = 8 << 10;

/// Percent-encodes bytes as a part of a URL.
fn encoded(bytes: &[u8]) -> String {
    percent_encode(&bytes[..bytes.len().min(ADDRESS)], NON_ALPHANUMERIC).to_string()
}

/// Returns a summary of the response, or an error if its status is 500 or above.
pub(super) fn judged(answer: &TestAnswer) -> Result<String, String> {
    // Not every response is JSON.
    let problem: Value = serde_json::from_str(&answer.text).unwrap_or_default();
    let brief = format!("{} {}", answer.status, problem["code"].as_str().unwrap_or_default());
    if answer.status >= 500 { Err(format!("{brief}: {}", answer.text)) } else { Ok(brief) }
}

pub(super) fn one_of(answer: &TestAnswer, statuses: &[u16]) -> Result<String, String> {
    let brief = judged(answer)?;
    if statuses.contains(&answer.status) {
        Ok(brief)
    } else {
        Err(format!("{brief}, not one of {statuses:?}: {}", answer.text))
    }
}

fn cursor(harness: &HostileHarness, bytes: &[u8]) -> Result<String, String> {
    let answer = harness.ada.get(&format!("{BRANCHES}?page_size=1&page_token={}", encoded(bytes)));
    let genuine = bytes.is_empty() || bytes == harness.cursor.as_bytes();
    one_of(&answer, if genuine { &[200] } else { &[400] })
}

fn token(harness: &HostileHarness, bytes: &[u8]) -> Result<String, String> {
    let Ok(value) = HeaderValue::from_bytes(&bytes[..bytes.len().min(ADDRESS)]) else {
        return Ok("cannot be sent".into());
    };
    let request = harness.anonymous.request(Method::GET, "/databases").header("Authorization", value.clone());
    let answer = harness.anonymous.send(request);
    let text = value.to_str().unwrap_or_default().trim();
    let genuine = text
        .split_once(' ')
        .is_some_and(|(scheme, token)| scheme.eq_ignore_ascii_case("bearer") && token.trim() == harness.secret());
    one_of(&answer, if genuine { &[200] } else { &[401] })
}

fn ref_name(harness: &HostileHarness, bytes: &[u8]) -> Result<String, String> {
    let name = String::from_utf8_lossy(&bytes[..bytes.len().min(ADDRESS)]);
    let created = harness.ada.post(BRANCHES, &json!({"name": name, "from": {"branch": "main"}}));
    let allowed = RefName::parse(&name).is_ok();
    let brief = one_of(&created, if allowed { &[201, 409] } else { &[400] })?;
    let name = encoded(name.as_bytes());
    judged(&harness.ada.get(&format!("{BRANCHES}/{name}")))?;
    judged(&harness.ada.get(&format!("/databases/ada/rivers/sql?q=select%201&ref={name}")))?;
    judged(&harness.ada.get(&format!("/databases/ada/rivers/commits?ref={name}")))?;
    if created.status == 201 {
        one_of(&harness.ada.delete(&format!("{BRANCHES}/{name}")), &[200])?;
    }
    Ok(brief)
}

/// Tries an operation id in every spelling: slashes encoded, raw, encoded twice, and as a whole URL.
fn operation(harness: &HostileHarness, bytes: &[u8]) -> Result<String, String> {
    const RAW_SLASHES: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/');
    let once = encoded(bytes);
    let raw = percent_encode(&bytes[..bytes.len().min(ADDRESS)], RAW_SLASHES).to_string();
    let address = encoded(format!("{}/api/v2/operations/{once}", harness.ada.origin()).as_bytes());
    let mut brief = String::new();
    for spelling in [once.clone(), raw, encoded(once.as_bytes()), address] {
        brief += &judged(&harness.ada.get(&format!("/operations/{spelling}")))?;
    }
    Ok(brief)
}

fn completion(harness: &HostileHarness, bytes: &[u8]) -> Result<String, String> {
    let request = harness.ada.request(Method::POST, "/databases/ada/rivers/imports");
    let answer = harness.ada.send(request.header("Content-Type", "application/json").body(bytes.to_vec()));
    if answer.status == 202 {
        settled(&harness.ada.finish(&answer))?;
    }
    judged(&answer)
}

/// Runs both passes over a file.
fn parse(format: Format, bytes: &[u8]) -> Result<String, String> {
    let bytes = bytes.to_vec();
    let open = move || Ok(Box::new(std::io::Cursor::new(bytes.clone())) as Box<_>);
    let limits = FileLimits { value_bytes: 64 << 10, ..FileLimits::default() };
    let input = Input { format, table: "t", limits, text: TextOptions::default(), open: &open };
    let found = match scan(&input) {
        Ok(found) => found,
        Err(error) => return Ok(error.to_string().chars().filter(|c| c.is_ascii_alphabetic()).take(24).collect()),
    };
    let mut errors = RowErrors::default();
    let mut rows =
        rows(&input, &found, |column| found.affinity(column)).map_err(|error| format!("second pass: {error}"))?;
    let mut count = 0;
    while let Some(row) = rows.next_row(&mut errors).map_err(|error| format!("second pass: {error}"))? {
        if row.values.len() != found.columns.len() {
            return Err(format!("{} values for {} columns", row.values.len(), found.columns.len()));
        }
        count += 1;
    }
    Ok(format!("{} columns {}", found.columns.len().min(4), if count == 0 { "empty" } else { "rows" }))
}

/// Checks that tokens and the gaps between them make up the text, and that its statements do too.
fn lex(bytes: &[u8]) -> Result<String, String> {
    let sql = String::from_utf8_lossy(bytes);
    let mut end = 0;
    for token in tokenize(&sql) {
        if token.start < end || sql.get(token.start..token.end()) != Some(token.text) {
            return Err(format!("{token:?} after byte {end}"));
        }
        end = token.end();
    }
    let (mut rest, mut statements) = (&*sql, 0);
    while let Some(length) = terminated_statement_length(rest) {
        rest = rest.get(length..).ok_or("a statement ends within a character")?;
        statements += 1;
    }
    if redact(&sql, 5).chars().count() > 5 {
        return Err("redacted to more than was asked for".into());
    }
    Ok(format!("{} statements, {}", statements.min(4), first_word(&sql).len().min(4)))
}

fn import(harness: &HostileHarness, file_type: &str, bytes: &[u8]) -> Result<String, String> {
    if bytes.is_empty() {
        return Ok("cannot be announced".into());
    }
    // A script has to create the table that the import names.
    let table = if file_type == "sql" { "people" } else { "imported" };
    let fields = json!({"import_operation": "overwrite", "table_name": table});
    settled(&harness.ada.import("ada/rivers", file_type, bytes, 1, &fields))
}

/// Returns how an operation ended, or an error if it failed by a fault of the server.
fn settled(operation: &Value) -> Result<String, String> {
    match operation["error"]["code"].as_str() {
        Some("INTERNAL" | "SERVICE_UNAVAILABLE") => Err(operation.to_string()),
        code => Ok(code.unwrap_or("succeeded").to_owned()),
    }
}

/// How many milliseconds a hostile read may run.
const TIMEOUT: u64 = 400;

fn sql(harness: &HostileHarness, bytes: &[u8]) -> Result<String, String> {
    let text = String::from_utf8_lossy(bytes);
    let answer =
        harness.ada.post("/databases/ada/rivers/sql", &json!({"q": text, "timeout_ms": TIMEOUT, "limit": 100}));
    let refused = text.is_empty() || text.contains('\0');
    let brief = one_of(&answer, if refused { &[400] } else { &[200, 413] })?;
    let status = answer.json()["data"]["status"].as_str().unwrap_or_default().to_owned();
    if text.len() < ADDRESS {
        judged(
            &harness.ada.get(&format!("/databases/ada/rivers/sql?timeout_ms={TIMEOUT}&q={}", encoded(text.as_bytes()))),
        )?;
    }
    Ok(format!("{brief} {status}"))
}

fn sql_write(harness: &HostileHarness, bytes: &[u8]) -> Result<String, String> {
    let text = String::from_utf8_lossy(bytes);
    let body = json!({"from_branch": "other", "to_branch": "other", "q": text});
    let answer = harness.ada.post("/databases/ada/rivers/sql-writes", &body);
    if answer.status == 202 { settled(&harness.ada.finish(&answer)) } else { judged(&answer) }
}
