//! Deleting and exporting users by command, beside a running server.

use branchyard_testkit::Actor;
use reqwest::Method;
use serde_json::{Value, json};

use crate::process::program;

fn read(path: &std::path::Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[cfg(unix)]
#[test]
fn a_user_is_exported_and_deleted_beside_a_running_server() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let server = program().start(dir);
    let actor = |name: &str| {
        program().succeed(dir, &["user", "create", name, "--email", &format!("{name}@example.test")]);
        let token = program().succeed(dir, &["token", "create", "--user", name, "--name", "ci", "--expires", "90d"]);
        Actor::new(server.origin.clone(), Some(token), name)
    };
    let (ada, ben) = (actor("ada"), actor("ben"));
    ada.database("rivers");
    ben.database("lakes");
    let text = "CREATE TABLE secret_of_ada(a INTEGER)";
    let body = json!({"from_branch": "main", "to_branch": "main", "q": text});
    let queued = ada.post("/databases/ada/rivers/sql-writes", &body).expect(202);
    let role = json!({"role": "write"});
    ada.send(ada.request(Method::PUT, "/databases/ada/rivers/collaborators/ben").json(&role)).expect(201);
    let merged = json!({"from_branch": "main", "to_branch": "main", "q": "CREATE TABLE b(a INTEGER)"});
    ben.post("/databases/ada/rivers/sql-writes", &merged).expect(202);
    let id = queued.data()["id"].as_str().unwrap().to_owned();

    let folder = dir.join("export");
    let to = folder.to_str().unwrap();
    let said = program().succeed(dir, &["user", "export", "ADA", "--to", to]);
    assert!(said.contains("wrote the data of ada"), "{said}");
    for entry in std::fs::read_dir(&folder).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", entry.path().display());
        let content = std::fs::read_to_string(entry.path()).unwrap();
        assert!(!content.contains("hsat.v1") && !content.contains("hash"), "{}: {content}", entry.path().display());
    }
    assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    let profile = read(&folder.join("profile.json"));
    assert_eq!((&profile["username"], &profile["emails"][0]["address"]), (&json!("ada"), &json!("ada@example.test")));
    let operations = read(&folder.join("operations.json"));
    assert_eq!(
        (operations.as_array().unwrap().len(), &operations[0]["input"]["statements"]),
        (1, &json!(text)),
        "{id}"
    );
    assert_eq!(read(&folder.join("databases.json"))[0]["name"], "ada/rivers");
    assert_eq!(read(&folder.join("tokens.json"))[0]["name"], "ci");
    assert_eq!(read(&folder.join("keys.json")), json!([]));
    let again = program().run(dir, &["user", "export", "ada", "--to", to]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("does not exist"), "{again:?}");

    let refused = program().run(dir, &["user", "delete", "ada"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("ada/rivers") && said.contains("--with-databases"), "{said}");
    ada.get("/user").expect(200);

    let said = program().succeed(dir, &["user", "delete", "ada", "--with-databases", "--erase", "--json"]);
    let deleted: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (&deleted["username"], &deleted["databases"], &deleted["erased"]),
        (&json!("ada"), &json!(["ada/rivers"]), &json!(true))
    );
    ada.get("/user").expect(401);
    ben.get("/databases/ada/rivers").expect(404);
    ben.get("/databases/ben/lakes").expect(200);
    ben.post("/organizations", &json!({"name": "Ada"})).expect(409);
    let missing = program().run(dir, &["user", "delete", "ada"]);
    assert!(String::from_utf8_lossy(&missing.stderr).contains("no user 'ada'"), "{missing:?}");
    // The operator may use the name again.
    program().succeed(dir, &["user", "create", "ada", "--email", "other@example.test"]);
    ada.get("/user").expect(401);
}

#[test]
fn the_last_administrator_is_not_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    program().succeed(dir, &["user", "create", "root", "--email", "root@example.test", "--admin"]);
    let refused = program().run(dir, &["user", "delete", "root"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("only administrator"), "{refused:?}");
    program().succeed(dir, &["user", "create", "next", "--email", "next@example.test", "--admin"]);
    assert_eq!(program().succeed(dir, &["user", "delete", "root"]), "deleted user root");
}
