//! A server whose Postgres goes away for a while. Skipped unless `BRANCHYARD_TEST_POSTGRES_URL` is set.

use std::thread;
use std::time::{Duration, Instant};

use branchyard_testkit::{Server, TcpProxy};
use reqwest::Method;
use serde_json::json;

use crate::shared_store::Shared;

#[test]
fn requests_are_answered_503_while_postgres_is_away_and_nothing_is_lost() {
    let Some(shared) = Shared::new("failover") else { return };
    let url = shared.url();
    let (before, rest) = url.rsplit_once('@').unwrap();
    let (postgres, name) = rest.split_once('/').unwrap();
    let proxy = TcpProxy::start(postgres.to_owned());
    let server = Server::start_with(|config| {
        config.metadata_url = Some(format!("{before}@{}/{name}", proxy.address));
        config.metadata.wait_ms = 500;
    });
    let ada = server.user("ada");
    ada.database("rivers");
    let write = |statement: &str| {
        let body = json!({"from_branch": "main", "to_branch": "main", "q": statement});
        let request = ada.request(Method::POST, "/databases/ada/rivers/sql-writes").header("prefer", "wait=10");
        ada.send(request.json(&body))
    };
    write("CREATE TABLE t (a INTEGER PRIMARY KEY)").expect(200);
    let mut acknowledged = Vec::new();
    for round in 0..3_i64 {
        for value in 0..5 {
            write(&format!("INSERT INTO t VALUES ({})", round * 100 + value)).expect(200);
            acknowledged.push(round * 100 + value);
        }
        proxy.cut();
        for _ in 0..3 {
            let read = ada.get("/databases/ada/rivers");
            assert_eq!(read.status, 503, "{}", read.text);
            assert_eq!(read.header("retry-after"), "1");
            let began = Instant::now();
            let refused = write(&format!("INSERT INTO t VALUES ({})", round * 100 + 50));
            assert_eq!(refused.status, 503, "{}", refused.text);
            assert!(began.elapsed() < Duration::from_secs(10));
        }
        proxy.mend();
        let back = Instant::now();
        while ada.get("/databases/ada/rivers").status != 200 {
            assert!(back.elapsed() < Duration::from_secs(10));
            thread::sleep(Duration::from_millis(50));
        }
    }
    let rows = ada.read("ada/rivers", "main", "SELECT a FROM t WHERE a % 100 < 50 ORDER BY a");
    let expected: Vec<_> = acknowledged.iter().map(|value| json!([value.to_string()])).collect();
    assert_eq!(rows, json!(expected), "what was acknowledged, once");
}
