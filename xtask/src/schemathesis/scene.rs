//! The users and databases that the requests are about.

use super::server::ServerProcess;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::thread;
use std::time::Duration;

/// Creates the scene. Returns the environment variables that `schemathesis.toml` refers to.
pub(super) fn prepare(server: &ServerProcess) -> Result<Vec<(&'static str, String)>> {
    for user in ["ada", "bob"] {
        server.command(&["user", "create", user, "--email", &format!("{user}@example.test")])?;
    }
    let token = server.command(&["token", "create", "--user", "ada", "--name", "schemathesis", "--expires", "30d"])?;
    let ask = |method: &str, path: &str, body: Value| {
        let body = (!body.is_null()).then_some(&body);
        server.ask(&token, method, path, body)
    };
    for organization in ["hydro", "doomed"] {
        ask("POST", "/organizations", json!({"name": organization}))?;
    }
    ask("PUT", "/organizations/hydro/members/bob", json!({"role": "member"}))?;
    for database in ["rivers", "doomed"] {
        ask("POST", "/databases", json!({"owner": "ada", "name": database, "visibility": "public"}))?;
    }
    let below = |method: &str, rest: &str, body: Value| ask(method, &format!("/databases/ada/rivers{rest}"), body);
    let write = |branch: &str, statements: &str| -> Result<String> {
        let body = json!({"from_branch": "main", "to_branch": branch, "q": statements});
        let operation = text(&below("POST", "/sql-writes", body)?, "id")?;
        let path = format!("/operations/{operation}");
        for _ in 0..200 {
            let now = ask("GET", &path, Value::Null)?;
            match now["status"].as_str() {
                Some("succeeded") => return Ok(operation),
                Some("failed") => bail!("a write failed: {now}"),
                _ => thread::sleep(Duration::from_millis(50)),
            }
        }
        bail!("a write did not end")
    };
    let tables = "CREATE TABLE gauges(id INTEGER PRIMARY KEY, level REAL); CREATE TABLE sites(name TEXT);
        INSERT INTO gauges VALUES (1, 2.5), (2, NULL)";
    write("main", tables)?;
    let operation = write("work", "UPDATE gauges SET level = 3.5 WHERE id = 1; INSERT INTO sites VALUES ('Ford')")?;
    for branch in ["spare", "feature/x"] {
        below("POST", "/branches", json!({"name": branch, "from": {"branch": "main"}}))?;
    }
    for tag in ["v1", "v2", "v3"] {
        below("POST", "/tags", json!({"name": tag, "from": {"branch": "main"}}))?;
    }
    let head = text(&below("GET", "/branches/main", Value::Null)?, "head_commit_sha")?;
    below("POST", "/releases", json!({"tag": "v2", "title": "Two", "commit_sha": head}))?;
    below("PUT", "/collaborators/bob", json!({"role": "write"}))?;
    let side = |branch: &str| json!({"database": {"owner": "ada", "name": "rivers"}, "branch_name": branch});
    let pull = json!({"title": "A change", "from_branch": side("work"), "to_branch": side("main")});
    below("POST", "/pulls", pull)?;
    let merged = json!({"title": "Nothing", "from_branch": side("spare"), "to_branch": side("feature/x")});
    below("POST", "/pulls", merged)?;
    let own_token = text(&ask("GET", "/user/tokens", Value::Null)?[0], "id")?;
    let upload =
        below("POST", "/imports/uploads", json!({"content_length": 1_000, "num_parts": 1, "file_type": "csv"}))?;
    let url = upload["parts"][0]["url"].as_str().context("a part has a URL")?;
    let after =
        |mark: &str| url.split(mark).nth(1).and_then(|rest| rest.split(['/', '&', '?']).next()).unwrap_or_default();
    Ok(vec![
        ("SCENE_UPLOAD", after("/uploads/").to_owned()),
        ("SCENE_EXPIRES", after("expires=").to_owned()),
        ("SCENE_SIGNATURE", after("signature=").to_owned()),
        ("SCENE_TOKEN_ID", own_token),
        ("SCENE_OPERATION", operation),
        ("SCENE_TOKEN", token),
    ])
}

fn text(data: &Value, field: &str) -> Result<String> {
    data[field].as_str().map(str::to_owned).with_context(|| format!("no {field} in {data}"))
}
