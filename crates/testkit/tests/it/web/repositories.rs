//! The addresses that DoltHub's command-line client prints and opens.

use branchyard_testkit::Server;
use serde_json::json;

use super::browser::{Browser, Page};
use super::{database, open_server, sign_up};

#[test]
fn the_addresses_of_dolthub_lead_to_the_pages() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    let actor = database(&server, &ada, "ada");
    for branch in ["feature/x", "50%"] {
        let body = json!({"name": branch, "from": {"branch": "main"}});
        actor.post("/databases/ada/rivers/branches", &body).expect(201);
    }
    actor.write("ada/rivers", "feature/x", "insert into r values (1, 'Rhine')");
    let branch = |name: &str| json!({"database": {"owner": "ada", "name": "rivers"}, "branch_name": name});
    let pull = json!({"title": "The Rhine", "from_branch": branch("feature/x"), "to_branch": branch("main")});
    let pull = actor.post("/databases/ada/rivers/pulls", &pull);
    assert_eq!(pull.status, 201, "{}", pull.text);
    for (path, target, text) in [
        ("/repositories/ada/rivers", "/ada/rivers", "ada"),
        ("/repositories/ADA/Rivers?ref=main", "/ADA/Rivers?ref=main", "ada"),
        ("/repositories/ada/rivers/pulls", "/ada/rivers/pulls", "The Rhine"),
        ("/repositories/ada/rivers/pulls?state=closed", "/ada/rivers/pulls?state=closed", "Pull requests"),
        ("/repositories/ada/rivers/pulls/1", "/ada/rivers/pulls/1", "The Rhine"),
        ("/repositories/ada/rivers/data/main", "/ada/rivers?ref=main", ">r<"),
        ("/repositories/ada/rivers/data/feature%2Fx", "/ada/rivers?ref=feature%2Fx", "feature/x"),
        ("/repositories/ada/rivers/data/50%25", "/ada/rivers?ref=50%25", "50%"),
        ("/repositories/ada/rivers/releases", "/ada/rivers/releases", "Releases"),
    ] {
        let forward = Browser::at(&server).get(path).expect(303);
        assert_eq!(forward.location.as_deref(), Some(target), "{path}");
        Browser::at(&server).follow(&forward).expect(200).shows(text);
    }
    for unknown in [
        "/repositories",
        "/repositories/ada",
        "/repositories/ada/rivers/data",
        "/repositories/ada/rivers/data/feature/x",
        "/repositories/ada/rivers/settings",
        "/repositories/ada/rivers/pulls/1/merge",
    ] {
        Browser::at(&server).get(unknown).expect(404);
    }
    // The names stay names, wherever their characters would lead.
    for (path, target) in [
        ("/repositories/%2Fevil.test/x", "/%2Fevil.test/x"),
        ("/repositories/%5Cevil.test/x%3Fy", "/%5Cevil.test/x%3Fy"),
        ("/repositories/a/b/pulls/%2E%2E%2F1", "/a/b/pulls/..%2F1"),
    ] {
        assert_eq!(Browser::at(&server).get(path).expect(303).location.as_deref(), Some(target), "{path}");
    }
}

#[test]
fn the_addresses_of_dolthub_reveal_no_hidden_database() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    let page = ada.get("/new").expect(200);
    ada.submit(&page, "/new", &[("owner", "ada"), ("name", "secret"), ("visibility", "private")]).expect(303);
    let bob = sign_up(&server, "bob");
    let names = |page: &Page| page.headers.keys().map(ToString::to_string).collect::<std::collections::BTreeSet<_>>();
    for browser in [&bob, &Browser::at(&server)] {
        browser.get("/").expect(200);
        for below in ["", "/pulls", "/pulls/1", "/data/main", "/data/nope", "/releases"] {
            let hidden = browser.get(&format!("/repositories/ada/secret{below}")).expect(303);
            let missing = browser.get(&format!("/repositories/ada/mirage{below}")).expect(303);
            let target = hidden.location.clone().map(|target| target.replace("secret", "mirage"));
            assert_eq!((target, &hidden.text), (missing.location.clone(), &missing.text));
            assert_eq!(names(&hidden), names(&missing));
            let (hidden, missing) = (browser.follow(&hidden).expect(404), browser.follow(&missing).expect(404));
            assert_eq!(hidden.text.replace("secret", "mirage"), missing.text);
        }
        let forward = ada.get("/repositories/ada/secret").expect(303);
        ada.follow(&forward).expect(200).shows("Private");
    }
}

#[test]
fn unknown_paths_below_api_are_problems_for_programs_and_pages_for_browsers() {
    let server = Server::start();
    let client = reqwest::blocking::Client::builder().no_proxy().build().unwrap();
    let ask = |path: &str, accept: Option<&str>| {
        let request = client.get(format!("{}{path}", server.address()));
        let answer =
            accept.map_or(request.try_clone().unwrap(), |accept| request.header("Accept", accept)).send().unwrap();
        let media_type = answer.headers()["content-type"].to_str().unwrap().to_owned();
        (answer.status().as_u16(), media_type, answer.text().unwrap())
    };
    for path in ["/api", "/api/", "/api/v3/databases", "/api/v2x", "/api/docs", "/api/v2/nothing"] {
        for accept in [None, Some("*/*"), Some("application/json")] {
            let (status, media_type, text) = ask(path, accept);
            assert_eq!((status, media_type.as_str()), (404, "application/problem+json"), "{path} {accept:?}: {text}");
            let problem: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!((&problem["code"], &problem["instance"]), (&json!("NOT_FOUND"), &json!(path)));
        }
    }
    let accepted = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    let (status, media_type, text) = ask("/api/v3/databases", Some(accepted));
    assert_eq!((status, media_type.as_str()), (404, "text/html; charset=utf-8"));
    assert!(text.contains("Page not found"), "{text}");
    assert_eq!(ask("/apis", None).1, "text/html; charset=utf-8");
}
