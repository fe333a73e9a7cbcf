use branchyard_auth::{PlainToken, TokenExpiry};
use branchyard_testkit::Server;
use serde_json::json;

use super::{Client, create, trees};

#[test]
fn four_forms_of_a_credential_are_the_same() {
    let (_server, ana, client) = trees();
    create(&client, "secret", "private");
    let token = ana.token().unwrap();
    let forms = [format!("token {token}"), format!("Token {token}"), format!("Bearer {token}"), token.to_owned()];
    let mut seen = Vec::new();
    for form in forms {
        let client = Client::saying(&ana, &form);
        let user = client.get("/user").expect(200).text;
        let read = client.get("/ana/secret/main?q=SHOW%20TABLES").expect(200).text;
        let written = client.wrote("ana/secret", "main", "main", "CREATE TABLE IF NOT EXISTS t (a)")["done"].clone();
        seen.push((user, read.contains("Success"), written));
    }
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{seen:?}");
}

#[test]
fn a_nonsense_token_is_refused_on_a_public_read() {
    let (_server, ana, _) = trees();
    let answer = Client::saying(&ana, &format!("token {}", "x".repeat(60))).query("ana/trees/main", "SELECT 1");
    let json = answer.expect(400).json();
    assert_eq!(json["query_execution_status"], "Error");
    assert_eq!(json["query_execution_message"], "invalid authorization header");
}

#[test]
fn a_deleted_or_unknown_token_never_falls_back_to_anonymous() {
    let (server, ana, _) = trees();
    let hub = server.hub();
    let user = hub.people().user_named("ana").unwrap();
    let secret = PlainToken::mint(&mut rand::rng());
    let minted = hub.tokens().create(&user, "short", TokenExpiry::Days30, secret, None).unwrap();
    hub.tokens().delete(&user, minted.token.id).unwrap();
    let unknown = PlainToken::mint(&mut rand::rng());
    for token in [minted.secret.expose(), unknown.expose()] {
        let json = Client::saying(&ana, token).query("ana/trees/main", "SELECT 1").expect(400).json();
        assert_eq!(json["query_execution_message"], "no token found for given API token");
    }
}

#[test]
fn the_user_without_a_token_is_401() {
    let server = Server::start();
    let answer = Client::of(&server.anonymous()).get("/user").expect(401);
    assert_eq!(answer.json(), json!({"status": "Error", "message": "Not authenticated"}));
    assert_eq!(answer.header("www-authenticate"), "Bearer realm=\"branchyard\"");
    let bad = Client::saying(&server.anonymous(), "token undefined").get("/user").expect(401);
    assert!(bad.header("www-authenticate").contains("error=\"invalid_token\""));
}

#[test]
fn reads_without_a_ref_work_with_a_token_and_without() {
    let (server, _, client) = trees();
    for reader in [&client, &Client::of(&server.anonymous())] {
        assert_eq!(reader.read("ana/trees", "SELECT id FROM tree")["rows"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn hidden_and_absent_databases_are_the_same_bytes() {
    let (server, _, client) = trees();
    create(&client, "hidden", "private");
    let strangers = [Client::of(&server.anonymous()), Client::of(&server.user("eve"))];
    for stranger in &strangers {
        for path in ["", "/main?q=SELECT%201", "/branches", "/pulls/1", "/jobs", "/forks", "/write?operationName=x"] {
            let ask = |name: &str| {
                let answer = stranger.get(&format!("/ana/{name}{path}"));
                (answer.status, answer.text.replace(name, "…"))
            };
            let (hidden, absent) = (ask("hidden"), ask("absent"));
            assert_eq!(hidden, absent, "{path}");
            assert!(hidden.0 == 400 && hidden.1.contains("\"no such repository\""), "{hidden:?}");
        }
    }
    let json = client.get("/ana/trees/pulls/99").expect(400).json();
    assert_eq!(json["message"], "no such pull");
    assert_eq!(client.get("/ana/trees/pulls/x").expect(400).json()["message"], "no such pull");
}
