//! Visits every page in both color schemes, in a wide window and on a phone. No page may overflow, and axe-core may find nothing serious.

use branchyard_domain::values::Scope;
use branchyard_testkit::{Actor, OAuthClient, Receiver, Server};
use serde_json::json;

use super::chromium::{Chromium, JavaScript, Theme};
use super::deployments;

const WIDE: u32 = 1280;
const PHONE: u32 = 390;

/// Returns the name of each screenshot, with the path of its page.
fn pages(server: &Server, chromium: &Chromium) -> Vec<(&'static str, String)> {
    let administration = server.hub().administration();
    administration.make_admin(&administration.operator(), "ada").unwrap();
    let ada = server.actor_of("ada");
    ada.database("rivers");
    ada.database("drafts");
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
    administration.suspend(&administration.operator(), "bob").unwrap();
    administration.quarantine(&administration.operator(), "cyn", "rivers").unwrap();
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
    let worked_on = work(&ada);
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
    let failed_write = operation(&failed).replace("/operations/", "/sql/writes/");
    let import_look = chromium.path();
    chromium.go("/settings/tokens");
    chromium.fill("#token-form [name=name]", "laptop");
    chromium.send("#token-form button");
    chromium.go("/settings/tokens");
    let token = chromium.property("#tokens a.danger", "href");
    let token = token.strip_prefix(&server.address()).unwrap().to_owned();
    let key = ada
        .post(
            "/user/keys",
            &json!({"name": "laptop", "public_key": "0eggffvjpo8bs7bgrkceeiu0j5ju9lhgjeigqnotri3684il66s0"}),
        )
        .expect(201)
        .data();
    let key = key["id"].as_str().unwrap();
    // It follows a server that is not there.
    let mirror_of = json!({"url": "https://yard.example.invalid/hydro/lakes"});
    let lakes = json!({"owner": "ada", "name": "lakes", "visibility": "public", "mirror_of": mirror_of});
    ada.post("/databases", &lakes).expect(201);
    ada.finish(&ada.post("/databases/ada/lakes/mirror/sync", &json!({})));
    let mut pages: Vec<(&'static str, String)> = [
        ("branches", "branches"),
        ("branch-delete", "branches/fix-names/delete"),
        ("branch-reset", "branches/main/reset?to=main~1"),
        ("tags", "tags"),
        ("releases", "releases"),
        ("release", "releases/tag/v1.0"),
        ("release-new", "releases/new"),
        ("forks", "forks"),
        ("operations", "operations"),
        ("imports", "imports"),
        ("open-in", "open?table=rivers"),
        ("open-all", "open"),
        ("tag-delete", "tags/v1.0/delete"),
        ("release-edit", "releases/tag/v1.0/edit"),
        ("release-delete", "releases/tag/v1.0/delete"),
        ("sql", "sql"),
        ("sql-rows", "sql?q=select+r.name,+km,+c.name+as+country+from+rivers+r+left+join+countries+c+on+c.code+=+r.country+order+by+km+desc"),
        ("sql-error", "sql?q=select+nmae+from+rivers"),
        ("sql-write", "sql/write?q=update+rivers+set+km+=+1230+where+id+=+1"),
        ("row", "tables/rivers/row?column=id&test=eq&value=1"),
        ("row-edit", "tables/rivers/edit?column=id&test=eq&value=1"),
        ("table-edit", "tables/rivers#edit"),
        ("row-blame", "tables/rivers/row?column=id&test=eq&value=1&blame=1"),
        ("row-history", "tables/rivers/history?key=%7B%22id%22%3A%221%22%7D"),
        ("table-history", "tables/rivers/history"),
        ("tables-at", "tables/rivers?at=2100-01-01T00:00:00Z"),
        ("values", "tables/rivers/values?of=country"),
        ("tables-filtered", "tables/rivers?column=km&test=gt&value=1000&sort=km&desc=1"),
        ("commits", "commits"),
        ("compare-choose", "compare"),
        ("compare", "compare/main...draft%2Flengths"),
        ("pulls", "pulls?state=all"),
        ("pull-new", "pulls/new"),
        ("pull-preview", "pulls/new?from=only-names&to=main"),
        ("pull-merged", "pulls/1"),
        ("pull", "pulls/2"),
        ("pull-commits", "pulls/2/commits"),
        ("pull-diff", "pulls/2/diff"),
        ("pull-conflicts", "pulls/2/conflicts"),
        ("pull-edit", "pulls/2/edit"),
        ("pull-withdraw", "pulls/2/withdraw"),
        ("settings-visibility", "settings/visibility"),
        ("missing-ref", "commits?ref=nowhere"),
        ("import-new", "imports/new"),
        ("settings", "settings"),
        ("settings-transfer", "settings/transfer"),
        ("settings-delete", "settings/delete"),
        ("settings-purge", "settings/purge"),
        ("collaborators", "settings/collaborators"),
        ("hooks", "settings/hooks"),
        ("hook-new", "settings/hooks/new"),
        ("tables", "tables/rivers"),
        ("schema", "schema"),
        ("stargazers", "stargazers"),
    ]
    .map(|(name, path)| (name, below(path)))
    .to_vec();
    pages.extend([
        ("home", "/".to_owned()),
        ("explore", "/explore".to_owned()),
        ("owner", "/ada".to_owned()),
        ("starred", "/ada?tab=starred".to_owned()),
        ("database", "/ada/rivers".to_owned()),
        ("missing", "/nobody/nothing".to_owned()),
        ("tokens", "/settings/tokens".to_owned()),
        ("keys", "/settings/keys".to_owned()),
        ("key-remove", format!("/settings/keys/{key}/remove")),
        ("mirror", "/ada/lakes".to_owned()),
        ("mirror-settings", "/ada/lakes/settings/mirror".to_owned()),
        ("mirror-stop", "/ada/lakes/settings/mirror/stop".to_owned()),
        ("token-delete", token),
        ("password", "/settings/password".to_owned()),
        ("confirm", "/settings/confirm?next=%2Fsettings%2Ftokens".to_owned()),
        ("sessions", "/settings/sessions".to_owned()),
        ("invitations", "/settings/invitations".to_owned()),
        ("admin-users", "/admin/users".to_owned()),
        ("admin-user", "/admin/users/bob".to_owned()),
        ("admin-databases", "/admin/databases".to_owned()),
        ("admin-nodes", "/admin/nodes".to_owned()),
        ("quarantined", "/cyn/rivers".to_owned()),
        ("database-new", "/new".to_owned()),
        ("database-empty", "/ada/drafts".to_owned()),
        ("organization", "/acme".to_owned()),
        ("commit", below(&format!("commits/{worked_on}"))),
        ("sql-written", failed_write),
        ("hook-edit", below(&format!("settings/hooks/{hook}/edit"))),
        ("hook-rotate", below(&format!("settings/hooks/{hook}/rotate"))),
        ("hook-delete", below(&format!("settings/hooks/{hook}/delete"))),
        ("profile", "/settings/profile".to_owned()),
        ("operation-failed", operation(&failed)),
        ("import-failed", operation(&import)),
        ("import-look", import_look),
        ("hook", below(&format!("settings/hooks/{hook}"))),
        ("deliveries", below(&format!("settings/hooks/{hook}/deliveries"))),
        ("delivery", delivery),
        ("organization-new", "/organizations/new".to_owned()),
        ("members", "/organizations/acme/members".to_owned()),
        ("organization-settings", "/organizations/acme/settings".to_owned()),
    ]);
    pages.extend(pages_of_applications(server));
    pages
}

/// Registers applications, lets one act for ada, and has another one on a device wait for a user.
fn pages_of_applications(server: &Server) -> Vec<(&'static str, String)> {
    let (people, applications, devices) = (server.hub().people(), server.hub().applications(), server.hub().devices());
    let (ada, cyn) = (people.user_named("ada").unwrap(), people.user_named("cyn").unwrap());
    let uris = ["https://gauges.rivers-of-the-world.example/oauth/callback?from=yard", "http://localhost/callback"];
    let uris = uris.map(str::to_owned);
    let gauges = applications.register(&ada, "River gauges of the world, for the desktop", &uris).unwrap();
    let foreign = applications.register(&cyn, "Delta watch", &uris[..1]).unwrap();
    let granted = devices.begin(&gauges.id, Scope::ReadWrite).unwrap();
    devices.decide(&ada, None, granted.user_code, true).unwrap();
    devices.poll(&gauges.id, &granted.device_code.hash()).unwrap();
    let waiting = devices.begin(&foreign.id, Scope::Read).unwrap();
    let consent = |id: &str, uri: &str| OAuthClient::new(server.address(), id).attempt_at(uri, "api_read_write").path();
    vec![
        ("applications", "/settings/applications".to_owned()),
        ("application-delete", format!("/settings/applications/{}/delete", gauges.id)),
        ("admin-applications", "/admin/applications".to_owned()),
        ("admin-user-grants", "/admin/users/ada".to_owned()),
        ("oauth-consent", consent("dh", OAuthClient::REDIRECT_URI)),
        ("oauth-consent-foreign", consent(foreign.id.as_str(), &uris[0])),
        ("oauth-invalid", consent("dh", "https://evil.example/callback")),
        ("oauth-device", "/oauth/device".to_owned()),
        ("oauth-device-consent", format!("/oauth/device?user_code={}", waiting.user_code)),
    ]
}

/// Creates a merged pull request, one with conflicts and a branch for a new one, and returns a commit.
fn work(ada: &Actor) -> String {
    let branch = |name: &str| {
        ada.post("/databases/ada/rivers/branches", &json!({"name": name, "from": {"branch": "main"}})).expect(201);
    };
    let place = |branch: &str| json!({"database": {"owner": "ada", "name": "rivers"}, "branch_name": branch});
    let pull = |from: &str, title: &str, description: &str| {
        let (from, to) = (place(from), place("main"));
        let body = json!({"title": title, "description": description, "from_branch": from, "to_branch": to});
        ada.post("/databases/ada/rivers/pulls", &body).expect(201);
    };
    branch("only-names");
    branch("more-rivers");
    ada.write(
        "ada/rivers",
        "more-rivers",
        "insert into rivers values (5, 'Elbe', 1094, 'DE'), (6, 'Rhône', 813, 'FR')",
    );
    ada.write("ada/rivers", "more-rivers", "alter table rivers add column source text");
    ada.write("ada/rivers", "main", "insert into rivers values (7, 'Weser', 452, 'DE')");
    pull("more-rivers", "Rivers of central Europe", "Two more, and a column for where they begin.");
    ada.finish(&ada.post("/databases/ada/rivers/pulls/1/merge", &json!({})));
    ada.write("ada/rivers", "draft/lengths", "update rivers set km = 1230 where id = 1; update rivers set km = 1012 where id = 2; delete from rivers where id = 3");
    pull(
        "draft/lengths",
        "Lengths as measured in 2024",
        "The new gauge says:\n\n- Rhine **1230** km\n- Loire **1012** km",
    );
    let comment = json!({"body": "Is the delta counted in?"});
    ada.post("/databases/ada/rivers/pulls/2/comments", &comment).expect(201);
    let changed = ada.write(
        "ada/rivers",
        "main",
        "update rivers set km = 1232.7 where id = 1; update countries set name = 'Germany (DE)' where code = 'DE'",
    );
    ada.write("ada/rivers", "only-names", "update rivers set name = 'Rhein' where id = 1");
    changed
}

/// Routes that are not pages: files, data, streams and redirects.
const NO_PAGES: &[&str] = &[
    "/static/{file}",
    "/settings",
    "/admin",
    "/{owner}/{database}/export",
    "/{owner}/{database}/live",
    "/{owner}/{database}/versions",
    "/{owner}/{database}/tables/{table}/csv",
    "/{owner}/{database}/tables/{table}/cell",
    "/{owner}/{database}/tables/{table}/sheet",
    "/{owner}/{database}/tables/{table}/choices",
    "/{owner}/{database}/sql.csv",
    "/{owner}/{database}/zip",
];

/// Returns the routes that answer GET, in the order in which the `web` crate declares them.
fn routes() -> Vec<String> {
    let source = include_str!("../../../web/src/pages.rs");
    let (mut routes, mut prefix) = (Vec::new(), String::new());
    let pieces: Vec<&str> = source.split('"').collect();
    for at in (1..pieces.len()).step_by(2) {
        let (before, literal, after) = (pieces[at - 1], pieces[at], pieces.get(at + 1).copied().unwrap_or_default());
        if let Some((start, _)) = literal.split_once("{below}") {
            prefix = start.replace("{{", "{").replace("}}", "}");
            continue;
        }
        let route = if before.ends_with(" at(") || before.ends_with("(at(") {
            format!("{prefix}{literal}")
        } else {
            literal.to_owned()
        };
        // Addresses of another service, which lead to pages of this one.
        let is_forward = route.starts_with("/repositories/");
        let is_page = route.starts_with('/') && !is_forward && after.contains("get()");
        if is_page && !NO_PAGES.contains(&route.as_str()) {
            routes.push(route);
        }
    }
    assert!(routes.len() > 50, "{routes:?}");
    routes
}

/// Returns `true` if a path matches a route.
fn is_of(route: &str, path: &str) -> bool {
    let path = path.split('?').next().unwrap();
    let (mut route, mut path) = (route.split('/'), path.split('/'));
    loop {
        match (route.next(), path.next()) {
            (None, None) => return true,
            (Some(part), Some(_)) if part.contains(":.+") => return true,
            (Some(part), Some(given)) if part == given || (part.starts_with('{') && !given.is_empty()) => {}
            _ => return false,
        }
    }
}

#[test]
fn every_page_fits_and_is_accessible() {
    let (server, books) = Server::with_books(|config| {
        config.web.sign_up = "open".to_owned();
        config.hooks.allowed_cidrs = vec!["127.0.0.0/8".to_owned()];
    });
    let Some(chromium) = Chromium::open(&server, JavaScript::On) else { return };
    let outside = [
        ("sign-in", "/sign-in"),
        ("sign-up", "/sign-up"),
        ("welcome", "/"),
        ("docs-api", "/docs/api/hosted-v1"),
        ("docs-errors", "/docs/errors"),
        ("docs-error", "/docs/errors/validation-failed"),
    ];
    let outside = outside.map(|(name, path)| (name, path.to_owned()));
    let mut faults = look_at(&chromium, &outside);
    chromium.width(WIDE);
    chromium.theme(Theme::Light);
    chromium.sign_up("ada");
    faults.extend(look_at(&chromium, &[("home-empty", "/".to_owned())]));
    chromium.width(WIDE);
    chromium.theme(Theme::Light);
    let mut pages = pages(&server, &chromium);
    pages.extend(deployments::pages(&server, &books));
    let (routes, mut seen) = (routes(), std::collections::BTreeSet::new());
    for (_, path) in outside.iter().chain(&pages) {
        // A path belongs to the most specific route that matches.
        let words = |route: &&String| route.split('/').filter(|part| !part.starts_with('{')).count();
        seen.extend(routes.iter().filter(|route| is_of(route, path)).max_by_key(words));
    }
    let unseen: Vec<_> = routes.iter().filter(|route| !seen.contains(route)).collect();
    assert!(unseen.is_empty(), "pages that nobody looks at: {unseen:?}");
    faults.extend(look_at(&chromium, &pages));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Returns what is wrong with pages, in both color schemes and both widths.
fn look_at(chromium: &Chromium, pages: &[(&'static str, String)]) -> Vec<String> {
    let part = std::env::var("BRANCHYARD_TEST_PAGES").unwrap_or_default();
    let pages: Vec<_> = pages.iter().filter(|(name, _)| name.contains(&part)).collect();
    let mut faults = Vec::new();
    for width in [WIDE, PHONE] {
        chromium.width(width);
        for theme in [Theme::Light, Theme::Dark] {
            chromium.theme(theme);
            for (name, path) in &pages {
                chromium.go(path);
                if path.ends_with("#edit") {
                    chromium.shows("#edit-status", "Nothing is changed yet");
                }
                chromium.screenshot(name, theme, width);
                if chromium.overflows() {
                    faults.push(format!("{path} is wider than {width} pixels"));
                }
                // axe-core takes the most time. Both color schemes and both widths are checked once each, in two of the four combinations.
                if (theme == Theme::Dark) == (width == PHONE) {
                    faults.extend(chromium.serious_faults());
                }
            }
        }
    }
    faults
}
