//! Deployments and their databases, cloned from a hub database at a branch, a tag, or a commit.

use branchyard_testkit::Actor;
use serde_json::json;

use super::harness::GatewayHarness;
use crate::process::program;

#[test]
fn clones_begin_at_a_branch_a_tag_or_a_commit_and_hidden_sources_do_not_exist() {
    let dir = tempfile::tempdir().unwrap();
    let harness = GatewayHarness::start(dir.path());
    let ada = Actor::new(harness.server.origin.clone(), Some(harness.token.clone()), "ada");
    ada.database("rivers");
    ada.write("ada/rivers", "main", "create table t(a); insert into t values (1)");
    let head = |branch: &str| {
        let seen = ada.get(&format!("/databases/ada/rivers/branches/{branch}")).expect(200).json();
        seen["data"]["head_commit_sha"].as_str().unwrap_or_else(|| panic!("{seen}")).to_owned()
    };
    let first = head("main");
    ada.post("/databases/ada/rivers/tags", &json!({"name": "v1", "from": {"commit": first}, "message": "one"}))
        .expect(201);
    ada.write("ada/rivers", "main", "insert into t values (2)");
    let second = head("main");

    let source = |reference: &str| json!({"owner": "ada", "name": "rivers", "ref": reference});
    let made = harness.create(&json!({"from_database": source("v1")}));
    assert_eq!((made["origin"]["commit_sha"].as_str(), made["databases"][0].as_str()), (Some(&*first), Some("rivers")));
    let url = made["direct_url"].as_str().unwrap();
    assert_eq!(harness.sql(url, "select dolt_hashof('HEAD')"), first.as_str());
    assert_eq!(harness.sql(url, "select active_branch()"), "main");
    for (name, reference, expected) in [("by_branch", "main", &second), ("by_commit", first.as_str(), &first)] {
        let body = json!({"name": name, "from_database": source(reference)});
        let (status, added) = harness.api("POST", "/deployments/ada/gauges/databases", Some(&body));
        assert_eq!(status, 201, "{added}");
        assert!(added["data"]["size_bytes"].as_u64().unwrap() > 0, "{added}");
        assert_eq!(harness.sql(&format!("{url}db/{name}/"), "select dolt_hashof('HEAD')"), expected.as_str(), "{name}");
    }
    let (_, listed) = harness.api("GET", "/deployments/ada/gauges/databases", None);
    let names: Vec<&str> = listed["data"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["rivers", "by_branch", "by_commit"]);
    let (status, _) = harness.api("DELETE", "/deployments/ada/gauges/databases/by_branch", None);
    assert_eq!(status, 200);
    let (status, kept) = harness.api("DELETE", "/deployments/ada/gauges/databases/rivers", None);
    assert_eq!((status, kept["code"].as_str()), (422, Some("UNPROCESSABLE")), "the default one");

    // A private database of another user is indistinguishable from a missing one.
    ada.patch("/databases/ada/rivers", &json!({"visibility": "private"})).expect(200);
    let token = program().user(dir.path(), "bob");
    let asked = |name: &str| {
        let mut wanted = super::harness::size();
        let more = json!({"owner": "bob", "name": "copy", "cloud": "local", "zone": "local", "from_database": {"owner": "ada", "name": name}});
        wanted.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let url = format!("{}/api/v1/deployments", harness.server.origin);
        let answer = harness.http.post(url).bearer_auth(&token).json(&wanted).send().unwrap();
        (answer.status().as_u16(), answer.json::<serde_json::Value>().unwrap())
    };
    let ((hidden, told), (absent, as_well)) = (asked("rivers"), asked("absent"));
    assert_eq!((hidden, absent), (404, 404), "{told}");
    assert_eq!(told["detail"].as_str().unwrap().replace("rivers", "absent"), as_well["detail"].as_str().unwrap());
    harness.server.terminate();
}
