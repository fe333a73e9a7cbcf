//! The gateway: what it refuses by itself, and how.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::yard::Yard;

#[test]
fn guessing_is_limited_by_address_and_those_who_were_let_in_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let yard = Yard::start(dir.path());
    let started = yard.create(&json!({}));
    let url = format!("{}v2/pipeline", started["url"].as_str().unwrap());
    let good = |id: &str| {
        let request = yard.http.post(&url).bearer_auth(&yard.token).header("X-Request-Id", id);
        request.json(&json!({"requests": []})).send().unwrap().status().as_u16()
    };
    assert_eq!(good("a"), 200);
    let bad = |token: &str| {
        yard.http.post(&url).header("Authorization", token).json(&json!({"requests": []})).send().unwrap()
    };
    let unknown = format!("Bearer hsat.v1.{}3mhf8X", "A".repeat(43));
    let (mut rejected, mut limited) = (0, 0);
    let began = Instant::now();
    while limited == 0 {
        assert!(began.elapsed() < Duration::from_secs(20), "nothing is limited");
        let answer = bad(if rejected % 2 == 0 { &unknown } else { "Bearer x" });
        let challenge = answer.headers().get("www-authenticate").map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(answer.headers()["content-type"], "application/json");
        assert!(answer.headers().contains_key("x-request-id"));
        match answer.status().as_u16() {
            401 => {
                assert!(challenge.unwrap().ends_with("error=\"invalid_token\""));
                rejected += 1;
            }
            429 => {
                assert_eq!(answer.headers()["retry-after"], "1");
                assert_eq!(answer.json::<Value>().unwrap()["code"], "RATE_LIMITED");
                limited += 1;
            }
            other => panic!("{other}"),
        }
    }
    assert!(rejected >= 10, "{rejected}");
    // Whoever was let in is not locked out by others behind the same address, and no credential is no guess.
    assert_eq!(good("b"), 200);
    let none = yard.http.post(&url).json(&json!({"requests": []})).send().unwrap();
    assert_eq!(none.status().as_u16(), 401);
    assert_eq!(none.headers()["www-authenticate"], "Bearer realm=\"branchyard\"");
    thread::sleep(Duration::from_millis(1_100));
    assert_eq!(bad(&unknown).status().as_u16(), 401, "a second later one may try again");
    yard.server.terminate();
}

#[test]
fn pages_of_allowed_origins_get_through_and_others_cannot_read() {
    let dir = tempfile::tempdir().unwrap();
    let yard = Yard::start(dir.path());
    let started = yard.create(&json!({}));
    let url = format!("{}v2/pipeline", started["url"].as_str().unwrap());
    let header = |answer: &reqwest::blocking::Response, name: &str| {
        answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
    };
    let preflight = |url: &str| {
        let request = yard.http.request(reqwest::Method::OPTIONS, url).header("Origin", "https://app.example");
        request.header("Access-Control-Request-Method", "POST").send().unwrap()
    };
    for url in [&url, &url.replace("/gauges/", "/nowhere/")] {
        let asked = preflight(url);
        assert_eq!(asked.status().as_u16(), 204, "{url}");
        assert_eq!(header(&asked, "access-control-allow-origin").unwrap(), "https://app.example");
        assert!(header(&asked, "access-control-allow-headers").unwrap().contains("Authorization"));
    }
    let ask = || {
        let request = yard.http.post(&url).bearer_auth(&yard.token).header("Origin", "https://app.example");
        let answer = request.json(&json!({"requests": []})).send().unwrap();
        assert_eq!(answer.status().as_u16(), 200);
        header(&answer, "access-control-allow-origin")
    };
    assert_eq!(ask(), None);
    let allowed = json!({"overrides": {"listener_allowed_origins": "https://app.example"}});
    assert_eq!(yard.api("PATCH", "/deployments/ada/gauges/config", Some(&allowed)).0, 200);
    assert_eq!(ask().unwrap(), "https://app.example");
}
