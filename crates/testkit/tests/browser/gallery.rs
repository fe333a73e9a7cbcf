//! Every page once, light and dark, wide and on a phone: nothing is out of place, and axe-core finds nothing serious.

use branchyard_testkit::{Receiver, Server};
use serde_json::json;

use super::chromium::{Chromium, JavaScript, Theme};
use super::deployments;

const WIDE: u32 = 1280;
const PHONE: u32 = 390;

/// Names of pictures, and paths.
fn pages(server: &Server, chromium: &Chromium) -> Vec<(&'static str, String)> {
    let ada = server.actor_of("ada");
    ada.database("rivers");
    ada.patch(
        "/databases/ada/rivers",
        &json!({"description": "Rivers of the world, their lengths, and where they end."}),
    );
    ada.write(
        "ada/rivers",
        "main",
        "create table countries (code text primary key, name text not null); \
         create table rivers (id integer primary key, name text not null, km real, country text references countries); \
         insert into countries values ('FR', 'France'), ('DE', 'Germany'); \
         insert into rivers values (1, 'Rhine', 1233, 'DE'), (2, 'Loire', 1006, 'FR'), (3, 'Seine', 775, NULL)",
    );
    for name in ["draft/lengths", "fix-names"] {
        ada.post("/databases/ada/rivers/branches", &json!({"name": name, "from": {"branch": "main"}})).expect(201);
    }
    let head = ada.get("/databases/ada/rivers/branches/main").expect(200).data()["head_commit_sha"].clone();
    let notes =
        "## What is new\n\n- lengths in kilometres\n- **three** rivers\n\n| river | km |\n|---|---|\n| Rhine | 1233 |";
    let release = json!({"tag": "v1.0", "title": "First rivers", "commit_sha": head, "description": notes, "create_tag_if_not_exists": true});
    ada.post("/databases/ada/rivers/releases", &release).expect(201);
    for name in ["bob", "cyn"] {
        let other = server.user(name);
        other.finish(&other.post("/databases/ada/rivers/forks", &json!({"owner": name})));
    }
    let bad =
        json!({"from_branch": "main", "to_branch": "main", "q": "insert into rivers values (1, 'Rhine', 1, NULL)"});
    let failed = ada.finish(&ada.post("/databases/ada/rivers/sql-writes", &bad));
    let import = ada.import("ada/rivers", "csv", b"id,name\n1,Po\n2\n3,x,y\n", 1, &json!({"table_name": "more"}));
    let operation = |operation: &serde_json::Value| {
        let id = operation["id"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        format!("/ada/rivers/operations/{id}")
    };
    let role =
        ada.request(reqwest::Method::PUT, "/databases/ada/rivers/collaborators/bob").json(&json!({"role": "write"}));
    assert!(role.send().unwrap().status().is_success());
    let receiver = Receiver::start();
    let hook = json!({"url": receiver.url(), "events": ["on_push", "on_branch"]});
    let hook = ada.post("/databases/ada/rivers/hooks", &hook).expect(201).data()["id"].as_str().unwrap().to_owned();
    let ping = ada.post(&format!("/databases/ada/rivers/hooks/{hook}/ping"), &json!({})).expect(201).data();
    let delivery = format!("/ada/rivers/settings/hooks/{hook}/deliveries/{}", ping["id"].as_str().unwrap());
    receiver.wait_for(1);
    ada.post("/organizations", &json!({"name": "acme"})).expect(201);
    let file = server.dir.path().join("World rivers.csv");
    std::fs::write(&file, "id,name,km,delta\n1,Nile,6650.5,yes\n2,Amazon,6400,\n3,Yangtze,6300,yes\n").unwrap();
    chromium.go("/ada/rivers/imports/new");
    chromium.choose("#file", &file);
    chromium.click("#send-file");
    chromium.shows("#preview-table", "Nile");

    let below = |path: &str| format!("/ada/rivers/{path}");
    let mut pages: Vec<(&'static str, String)> = [
        ("branches", "branches"),
        ("branch-delete", "branches/fix-names/delete"),
        ("tags", "tags"),
        ("releases", "releases"),
        ("release", "releases/tag/v1.0"),
        ("release-new", "releases/new"),
        ("forks", "forks"),
        ("operations", "operations"),
        ("imports", "imports"),
        ("import-new", "imports/new"),
        ("settings", "settings"),
        ("settings-delete", "settings/delete"),
        ("collaborators", "settings/collaborators"),
        ("hooks", "settings/hooks"),
        ("hook-new", "settings/hooks/new"),
        ("tables", "tables/rivers"),
        ("schema", "schema"),
    ]
    .map(|(name, path)| (name, below(path)))
    .to_vec();
    pages.extend([
        ("home", "/".to_owned()),
        ("explore", "/explore".to_owned()),
        ("owner", "/ada".to_owned()),
        ("database", "/ada/rivers".to_owned()),
        ("missing", "/nobody/nothing".to_owned()),
        ("tokens", "/settings/tokens".to_owned()),
        ("profile", "/settings/profile".to_owned()),
        ("operation-failed", operation(&failed)),
        ("import-failed", operation(&import)),
        ("import-look", chromium.path()),
        ("hook", below(&format!("settings/hooks/{hook}"))),
        ("deliveries", below(&format!("settings/hooks/{hook}/deliveries"))),
        ("delivery", delivery),
        ("organization-new", "/organizations/new".to_owned()),
        ("members", "/organizations/acme/members".to_owned()),
        ("organization-settings", "/organizations/acme/settings".to_owned()),
    ]);
    pages
}

#[test]
fn every_page_fits_and_is_accessible() {
    let (server, books) = Server::with_books(|config| {
        config.web.sign_up = "open".to_owned();
        config.hooks.allowed_cidrs = vec!["127.0.0.0/8".to_owned()];
    });
    let Some(chromium) = Chromium::open(&server, JavaScript::On) else { return };
    for path in ["/sign-in", "/sign-up", "/"] {
        chromium.go(path);
        assert_eq!(chromium.serious_faults(), Vec::<String>::new());
    }
    chromium.sign_up("ada");
    let mut pages = pages(&server, &chromium);
    pages.extend(deployments::pages(&server, &books));
    let mut faults = Vec::new();
    for width in [WIDE, PHONE] {
        chromium.width(width);
        for theme in [Theme::Light, Theme::Dark] {
            chromium.theme(theme);
            for (name, path) in &pages {
                chromium.go(path);
                chromium.screenshot(name, theme, width);
                if chromium.overflows() {
                    faults.push(format!("{path} is wider than {width} pixels"));
                }
                faults.extend(chromium.serious_faults());
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
