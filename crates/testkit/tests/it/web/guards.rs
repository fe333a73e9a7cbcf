//! What pages refuse, hide and escape.

use branchyard_testkit::Server;
use serde_json::json;

use super::browser::Browser;
use super::rivers::rivers;
use super::{open_server, sign_up};

/// A form field: its name and its value.
type Field = (String, String);

#[test]
fn a_form_without_its_token_or_from_elsewhere_changes_nothing() {
    let server = open_server();
    let (ada, bob) = (sign_up(&server, "ada"), sign_up(&server, "bob"));
    let page = ada.get("/new").expect(200);
    let named = |name: &str| {
        [("owner", "ada"), ("name", name), ("visibility", "public")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
    };
    let csrf =
        |of: &Browser| of.get("/new").hidden_fields("/new").into_iter().find(|(name, _)| name == "csrf").unwrap();
    let (good, foreign) = (csrf(&ada), csrf(&bob));
    assert_ne!(good, foreign);
    let with = |token: Option<(String, String)>| named("rivers").into_iter().chain(token).collect::<Vec<_>>();
    let ours = server.address();
    type Case<'a> = (Option<Field>, &'a [(&'a str, &'a str)]);
    let cases: [Case<'_>; 7] = [
        (None, &[]),
        (Some(("csrf".to_owned(), String::new())), &[]),
        (Some(foreign), &[]),
        (Some(good.clone()), &[("Origin", "https://evil.test")]),
        (Some(good.clone()), &[("Origin", "null")]),
        (Some(good.clone()), &[("Sec-Fetch-Site", "cross-site")]),
        (Some(good.clone()), &[("Sec-Fetch-Site", "same-site"), ("Origin", &ours)]),
    ];
    for (token, headers) in cases {
        ada.forge("/new", &with(token), headers).expect(403).shows("Your session changed");
        ada.get("/ada/rivers").expect(404);
    }
    let header = good.1.clone();
    ada.forge("/new", &named("by-header"), &[("X-CSRF-Token", &header)]).expect(303);
    ada.submit(&page, "/new", &[("owner", "ada"), ("name", "rivers"), ("visibility", "public")]).expect(303);
    ada.get("/ada/rivers").expect(200);
}

#[test]
fn every_form_wants_the_token() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    let forms = [
        "/sign-in",
        "/sign-up",
        "/sign-out",
        "/settings/theme",
        "/new",
        "/new/uploads",
        "/settings/profile",
        "/settings/password",
        "/settings/sessions/end",
        "/settings/sessions/end-all",
        "/settings/tokens",
        "/settings/tokens/00000000-0000-7000-8000-000000000000/delete",
        "/settings/keys",
        "/settings/keys/00000000-0000-7000-8000-000000000000/remove",
        "/settings/invitations",
        "/settings/invitations/revoke",
        "/ada/rivers/sync",
        "/ada/rivers/branches/main/reset",
        "/admin/users/ada/suspend",
        "/admin/users/ada/resume",
        "/admin/users/ada/make-admin",
        "/admin/users/ada/tokens/revoke",
        "/admin/users/ada/sessions/end",
        "/admin/databases/quarantine",
        "/admin/databases/release",
        "/admin/nodes/drain",
        "/admin/nodes/end-drain",
        "/admin/nodes/remove",
    ];
    for form in forms {
        ada.forge(form, &[], &[]).expect(403).shows("Your session changed");
        Browser::at(&server).forge(form, &[], &[]).expect(403);
    }
    ada.get("/settings/profile").expect(200);
    // An API token is no credential for the pages.
    let program = server.user("cyn");
    let client =
        reqwest::blocking::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let page = client.get(format!("{}/settings/profile", server.address())).bearer_auth(program.token().unwrap());
    assert_eq!(page.send().unwrap().status(), 303);
}

#[test]
fn a_hidden_database_looks_exactly_like_a_missing_one() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    let page = ada.get("/new").expect(200);
    ada.submit(&page, "/new", &[("owner", "ada"), ("name", "secret"), ("visibility", "private")]).expect(303);
    ada.get("/ada/secret").expect(200).shows("Private");
    let bob = sign_up(&server, "bob");
    for browser in [&bob, &Browser::at(&server)] {
        for below in ["", "/schema", "/tables/t", "/tables/t/row", "/tables/t/csv", "?ref=main", "?ref=nope"] {
            browser.get("/").expect(200);
            let hidden = browser.get(&format!("/ada/secret{below}")).expect(404);
            let missing = browser.get(&format!("/ada/mirage{below}")).expect(404);
            assert_eq!(hidden.text.replace("secret", "mirage"), missing.text);
            let names = |page: &super::Page| {
                page.headers.keys().map(ToString::to_string).collect::<std::collections::BTreeSet<_>>()
            };
            assert_eq!(names(&hidden), names(&missing));
        }
        assert!(!browser.get("/explore?q=secret").expect(200).text.contains("ada/secret"));
        assert!(!browser.get("/ada").expect(200).text.contains("secret"));
    }
}

#[test]
fn stored_and_reflected_html_is_text() {
    let server = open_server();
    let owner = server.user("eve");
    owner.database("xss");
    let edit = json!({"description": "<script>alert('d')</script>"});
    owner.patch("/databases/eve/xss", &edit).expect(200);
    let create = "create table \"<script>alert('t')</script>\" (\"<b onclick=x>\" text primary key, \"a\" text); \
                  insert into \"<script>alert('t')</script>\" values ('<script>alert(1)</script>', '\" onmouseover=\"x')";
    owner.write("eve/xss", "main", create);
    let browser = Browser::at(&server);
    let table = "%3Cscript%3Ealert('t')%3C%2Fscript%3E";
    let pages = [
        "/eve/xss".to_owned(),
        "/eve/xss/schema".to_owned(),
        format!("/eve/xss/tables/{table}"),
        format!("/eve/xss/tables/{table}/row"),
        format!("/eve/xss/tables/{table}?column=a&test=eq&value=%3Cscript%3E%22"),
        "/explore?q=%3Cscript%3E%22%3E".to_owned(),
        "/eve/xss?ref=%3Cscript%3E".to_owned(),
        "/%3Cscript%3E".to_owned(),
        "/sign-in?next=/%22%3E%3Cscript%3E".to_owned(),
    ];
    for path in pages {
        let page = browser.get(&path);
        assert!(matches!(page.status, 200 | 404), "{path}: {}", page.status);
        for raw in ["<script>", "<b onclick", "\" onmouseover"] {
            assert!(!page.text.contains(raw), "{path}: {}", page.text);
        }
    }
    browser.get("/eve/xss").shows("&#60;script&#62;alert(&#39;d&#39;)");
}

#[test]
fn pages_are_for_reading_and_forms_for_sending() {
    let server = Server::start();
    let browser = Browser::at(&server);
    assert!(matches!(browser.forge("/explore", &[], &[]).status, 404 | 405));
    let slash = browser.get("/explore/").expect(303);
    assert_eq!(slash.location.as_deref(), Some("/explore"));
    browser.get("//evil.test/").expect(404);
    browser.get("/nobody").expect(404).shows("Page not found");
    browser.get("/explore?q=nothing-has-this").expect(200).shows("No databases found");
}

#[test]
fn assets_are_kept_for_good_and_colors_chosen() {
    let server = Server::start();
    let browser = Browser::at(&server);
    let page = browser.get("/").expect(200);
    let (_, rest) = page.text.split_once("<link rel=\"stylesheet\" href=\"").unwrap();
    let style = rest.split('"').next().unwrap();
    let sheet = browser.get(style).expect(200);
    assert_eq!(sheet.headers["cache-control"], "public, max-age=31536000, immutable");
    assert!(!sheet.text.contains("url(") && !sheet.text.contains("@import"));
    browser.get("/static/style.0000000000000000.css").expect(404);
    let done = browser.submit(&page, "/settings/theme", &[("theme", "dark"), ("next", "/explore")]).expect(303);
    browser.follow(&done).expect(200).shows("data-theme=\"dark\"");
    let done = browser.submit(&page, "/settings/theme", &[("theme", "")]).expect(303);
    assert!(!browser.follow(&done).expect(200).text.contains("data-theme"));
}

#[test]
fn head_answers_as_get_does_without_a_body() {
    let (server, _, _) = rivers();
    let client = reqwest::blocking::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let paths = [
        "/",
        "/explore",
        "/explore/",
        "/ada/rivers",
        "/ada/rivers/tables/rivers/csv",
        "/ada/rivers/tables/none",
        "/settings",
    ];
    for path in paths {
        let url = format!("{}{path}", server.address());
        let (whole, head) = (client.get(&url).send().unwrap(), client.head(&url).send().unwrap());
        assert_eq!(head.status(), whole.status(), "{path}");
        for name in ["content-type", "etag", "location", "content-disposition"] {
            assert_eq!(head.headers().get(name), whole.headers().get(name), "{name} of {path}");
        }
        assert_eq!(head.bytes().unwrap().len(), 0, "{path}");
    }
}
