//! Reads by pages count like reads by the API.

use std::time::Duration;

use branchyard_testkit::{AMPLE, Actor, RawConnection, Server, wait_until};
use reqwest::Method;
use serde_json::json;

use super::browser::Browser;
use super::{database, sign_up};

const ENDLESS: &str = "with recursive n(x) as (select 1 union all select x + 1 from n) select sum(x) from n";

fn read(who: &Actor) -> u16 {
    who.post("/databases/ada/rivers/sql", &json!({"q": "select 1"})).status
}

/// A user has a browser and a token. The share of each user is one read.
#[test]
fn pages_and_the_api_share_one_rule() {
    let server = Server::start_with(|config| {
        config.web.sign_up = "open".to_owned();
        config.sql.max_concurrent_reads = 1;
        config.sql.read_queue_wait_ms = 200;
    });
    let (browser, other) = (sign_up(&server, "ada"), sign_up(&server, "ben"));
    let (ada, ben) = (database(&server, &browser, "ada"), server.actor_of("ben"));
    let body = json!({"q": ENDLESS, "timeout_ms": 60_000}).to_string();
    let headers = format!(
        "authorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: {}",
        ada.token().unwrap(),
        body.len()
    );
    let mut held = RawConnection::open(server.socket());
    held.begin("POST /api/v2/databases/ada/rivers/sql", &headers, body.as_bytes());
    wait_until("the share of the user is in use", AMPLE, || read(&ada) == 429);
    let shows = |browser: &Browser, status: u16| {
        for page in ["/ada/rivers/tables/r", "/ada/rivers", "/ada/rivers/sql?q=select%201"] {
            browser.get(page).expect(status);
        }
    };
    shows(&browser, 429);
    shows(&other, 200);
    // The older API has the same rule.
    let legacy = |who: &Actor| {
        let request = who.plain(Method::GET, "/api/v1alpha1/ada/rivers?q=select%201");
        request.bearer_auth(who.token().unwrap()).timeout(Duration::from_secs(60)).send().unwrap().status().as_u16()
    };
    assert_eq!((legacy(&ada), legacy(&ben)), (429, 200));
    drop(held);
    wait_until("the end of the endless read", AMPLE, || read(&ada) == 200);
    shows(&browser, 200);
}
