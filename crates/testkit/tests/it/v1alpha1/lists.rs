use serde_json::{Value, json};

use super::{create, open_pull, text, trees};

#[test]
fn branches_have_one_key_and_pull_ids_are_strings() {
    let (_server, _, client) = trees();
    let pull = open_pull(&client, "fix-7");
    let branches = client.get("/ana/trees/branches").expect(200).json();
    assert_eq!(branches["branches"], json!([{"branch_name": "fix-7"}, {"branch_name": "main"}]));
    let body = json!({"title": "Again", "fromBranchName": "main", "toBranchName": "fix-7"});
    let created = client.post("/ana/trees/pulls", &body).expect(200).json();
    assert_eq!((&created["_id"], &created["pull_id"]), (&json!("2"), &json!("2")));
    assert_eq!(client.get("/ana/trees/pulls").expect(200).json()["pulls"][0]["pull_id"], "2");
    assert_eq!(client.get(&format!("/ana/trees/pulls/{pull}")).expect(200).json()["pull_id"], json!(pull));
    let duplicate = client.post("/ana/trees/pulls", &body).expect(400).json();
    assert!(text(&duplicate["message"]).contains("already exists"), "{duplicate}");
}

#[test]
fn states_are_capitalised_and_read_in_any_case() {
    let (_server, _, client) = trees();
    let path = format!("/ana/trees/pulls/{}", open_pull(&client, "fix-7"));
    assert_eq!(client.get(&path).expect(200).json()["state"], "Open");
    for state in ["closed", "Open", "Closed", "OPEN"] {
        let json = client.patch(&path, &json!({"state": state})).expect(200).json();
        assert!(text(&json["state"]).eq_ignore_ascii_case(state) && text(&json["state"]).starts_with(['O', 'C']));
    }
    let started = client.post(&format!("{path}/merge"), &json!({})).expect(200).json();
    client.poll(&format!("{path}/merge"), text(&started["operation_name"])).expect(200);
    assert_eq!(client.get(&path).expect(200).json()["state"], "Merged");
    assert_eq!(client.get("/ana/trees/pulls?filterByState=merged").expect(200).json()["pulls"][0]["state"], "Merged");
    let refused = client.patch(&path, &json!({"state": "open"})).expect(400).json();
    assert!(text(&refused["message"]).starts_with("Invalid request body: state: "), "{refused}");
    let again = client.post(&format!("{path}/merge"), &json!({})).expect(400).json();
    assert_eq!(again["message"], "pull request is already merged");
}

#[test]
fn every_item_is_whole_and_walking_ends() {
    let (_server, ana, client) = trees();
    for n in 0..101 {
        let name = format!("b{n}");
        ana.post("/databases/ana/trees/branches", &json!({"name": name, "from": {"branch": "main"}})).expect(201);
        let body = json!({"title": format!("Pull {n}"), "fromBranchName": name, "toBranchName": "main"});
        client.post("/ana/trees/pulls", &body).expect(200);
    }
    let (mut seen, mut token) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("/ana/trees/pulls?pageToken={token}")).expect(200).json();
        for item in page["pulls"].as_array().unwrap() {
            assert!(item["state"].is_string() && item["pull_id"].is_string(), "{item}");
            seen.push(text(&item["pull_id"]).parse::<u32>().unwrap());
        }
        token = text(&page["next_page_token"]).to_owned();
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, (1..=101).rev().collect::<Vec<_>>());
    let found = client.get("/ana/trees/pulls?query=PULL%20100&filterByState=Open&state=nonsense").expect(200).json();
    assert_eq!(found["pulls"].as_array().unwrap().len(), 1);
    assert_eq!(client.get("/ana/trees/pulls?filterByReviewStatus=approved").expect(200).json()["pulls"], json!([]));
    for (path, key) in [("/ana/trees/tags", "tags"), ("/ana/trees/releases", "releases")] {
        let empty = client.get(path).expect(200).json();
        assert_eq!((&empty["next_page_token"], &empty[key]), (&json!(""), &json!([])));
        let body =
            json!({"tagName": "v2", "tagMessage": "spring count", "revisionType": "Branch", "revisionName": "main"});
        client.post(path, &body).expect(200);
        let again = client.post(path, &body).expect(400).json();
        let what = key.trim_end_matches('s');
        assert_eq!(again["message"], format!("{what} v2 already exists"));
        let item = client.get(path).expect(200).json()[key][0].clone();
        assert_eq!((&item["tag_name"], &item["tag_description"]), (&json!("v2"), &json!("spring count")));
    }
}

#[test]
fn a_pull_needs_no_target_database() {
    let (_server, _, client) = trees();
    client.wrote("ana/trees", "main", "fix-7", "DELETE FROM tree WHERE id = 7");
    let body = json!({"title": "t", "fromBranchName": "fix-7", "toBranchName": "main", "extra": {"old": "client"}});
    let created = client.post("/ana/trees/pulls", &body).expect(200).json();
    let to = (&created["to_owner_name"], &created["to_repository_name"], &created["from_owner_name"]);
    assert_eq!(to, (&json!("ana"), &json!("trees"), &json!("ana")));
    create(&client, "other", "public");
    let elsewhere =
        json!({"title": "t", "fromBranchName": "fix-7", "toBranchName": "main", "toBranchRepoName": "other"});
    let refused = client.post("/ana/trees/pulls", &elsewhere).expect(400).json();
    assert!(text(&refused["message"]).starts_with("Invalid request body: toBranchRepoName: "), "{refused}");
}

#[test]
fn one_pull_has_both_names_of_its_branches() {
    let (_server, _, client) = trees();
    let pull = client.get(&format!("/ana/trees/pulls/{}", open_pull(&client, "fix-7"))).expect(200).json();
    let named = |name: &str| text(&pull[name]).to_owned();
    assert_eq!([named("from_branch"), named("from_branch_name")], ["fix-7", "fix-7"]);
    assert_eq!([named("from_branch_owner"), named("author")], ["ana", "ana"]);
}

#[test]
fn comments_name_the_database_in_their_own_way() {
    let (_server, _, client) = trees();
    let path = format!("/ana/trees/pulls/{}/comments", open_pull(&client, "fix-7"));
    let made = client.post(&path, &json!({"comment": "Row 7 was an oak."})).expect(200).json();
    let expected: Value = json!({"status": "Success", "repository_owner": "ana", "repository_name": "trees", "pull_id": "1",
        "comment": "Row 7 was an oak."});
    assert_eq!(made, expected);
    let blank = client.post(&path, &json!({"comment": " "})).expect(400).json();
    assert_eq!(blank["message"], "Invalid request body: comment: must not be blank");
}
