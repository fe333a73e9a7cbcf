//! The pages for administrators of the server.

use std::sync::Arc;

use branchyard_domain::values::Timestamp;
use branchyard_domain_testing::fakes::FixedClock;
use branchyard_testkit::{AMPLE, Server, wait_for};

use super::browser::Browser;
use super::{PASSWORD, database, sign_in, user};
use crate::nodes::Cluster;

pub(super) fn signed_in(server: &Server, name: &str, is_admin: bool) -> Browser {
    user(server, name, is_admin);
    let browser = Browser::at(server);
    sign_in(&browser, name, PASSWORD).expect(303);
    browser
}

#[test]
fn the_pages_of_administrators_do_not_exist_for_others() {
    let server = Server::start();
    let (root, ada) = (signed_in(&server, "root", true), signed_in(&server, "ada", false));
    database(&server, &ada, "ada");
    for path in ["/admin", "/admin/users", "/admin/users/ada", "/admin/databases", "/admin/nodes"] {
        let status = if path == "/admin" { 303 } else { 200 };
        root.get(path).expect(status);
        ada.get(path).expect(404).shows("Page not found");
        Browser::at(&server).get(path).expect(404);
    }
    let token = ada.get("/settings/profile").hidden_fields("/settings/theme");
    let token: Vec<_> = token.into_iter().filter(|(name, _)| name == "csrf").collect();
    for path in ["/admin/users/root/suspend", "/admin/users/ada/make-admin", "/admin/users/root/sessions/end"] {
        ada.forge(path, &token, &[]).expect(404);
    }
    let fields = [("owner", "ada"), ("name", "rivers")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let fields: Vec<_> = token.into_iter().chain(fields).collect();
    ada.forge("/admin/databases/quarantine", &fields, &[]).expect(404);
    for action in ["drain", "end-drain", "remove"] {
        ada.forge(&format!("/admin/nodes/{action}"), &fields, &[]).expect(404);
    }
    ada.get("/ada/rivers").expect(200);
    root.get("/admin/users").expect(200);
    assert!(root.get("/").text.contains("/admin\"") && !ada.get("/").text.contains("/admin\""));
}

#[test]
fn an_administrator_suspends_and_resumes_a_user() {
    let server = Server::start();
    let (root, ada) = (signed_in(&server, "root", true), signed_in(&server, "ada", false));
    let program = database(&server, &ada, "ada");
    let listed = root.get("/admin/users?q=AD").expect(200).shows("/admin/users/ada");
    assert!(!listed.text.contains("/admin/users/root"));
    let page = root.get("/admin/users/ada").expect(200).shows("test");
    let sent = root.submit(&page, "/admin/users/ada/suspend", &[]).expect(303);
    let page = root.follow(&sent).expect(200).shows("ada is suspended.");
    ada.get("/settings/profile").expect(303);
    program.get("/user").expect(401);
    sign_in(&Browser::at(&server), "ada", PASSWORD).expect(403).shows("This account is suspended");
    sign_in(&Browser::at(&server), "ada", "wrong horse").expect(422);
    Browser::at(&server).get("/ada/rivers").expect(200);
    root.get("/admin/users?show=suspended").expect(200).shows("/admin/users/ada");
    assert!(!root.get("/admin/users?show=administrators").text.contains("/admin/users/ada"));
    let sent = root.submit(&page, "/admin/users/ada/resume", &[]).expect(303);
    let page = root.follow(&sent).expect(200).shows("no longer suspended");
    program.get("/user").expect(200);
    root.submit(&page, "/admin/users/ada/tokens/revoke", &[]).expect(303);
    program.get("/user").expect(401);

    let own = root.get("/admin/users/root").expect(200);
    root.submit(&own, "/admin/users/root/suspend", &[]).expect(422).shows("last administrator");
    root.submit(&page, "/admin/users/ada/make-admin", &[]).expect(303);
    root.get("/admin/users/ada").expect(200).shows("Administrator");
    root.get("/admin/users/nobody").expect(404);
}

#[test]
fn an_administrator_quarantines_and_releases_a_database() {
    let server = Server::start();
    let (root, ada) = (signed_in(&server, "root", true), signed_in(&server, "ada", false));
    let program = database(&server, &ada, "ada");
    let page = root.get("/admin/databases?q=riv").expect(200).shows("ada/rivers");
    let fields = [("owner", "ada"), ("name", "rivers")];
    let sent = root.submit(&page, "/admin/databases/quarantine", &fields).expect(303);
    root.follow(&sent).expect(200).shows("ada/rivers is quarantined.");
    for below in ["", "/schema", "/sql", "/pulls", "/tables/r/csv", "/zip"] {
        ada.get(&format!("/ada/rivers{below}")).expect(404);
        Browser::at(&server).get(&format!("/ada/rivers{below}")).expect(404);
    }
    program.get("/databases/ada/rivers").expect(404);
    for path in ["/explore", "/ada", "/"] {
        assert!(!ada.get(path).text.contains("/ada/rivers"), "{path}");
    }
    root.get("/ada/rivers").expect(200).shows("Only administrators of this server can see this database");
    let page = root.get("/admin/databases?show=quarantined").expect(200).shows("ada/rivers");
    root.submit(&page, "/admin/databases/release", &fields).expect(303);
    assert!(!ada.get("/ada/rivers").expect(200).text.contains("Only administrators"));
    program.get("/databases/ada/rivers").expect(200);
}

#[test]
fn without_a_cluster_the_page_of_nodes_says_what_makes_one() {
    let server = Server::start();
    let root = signed_in(&server, "root", true);
    let page = root.get("/admin/nodes").expect(200).shows("This server is no node of a cluster").shows("store_url");
    let token: Vec<_> = page.hidden_fields("/sign-out").into_iter().filter(|(name, _)| name == "csrf").collect();
    let fields: Vec<_> = token.into_iter().chain([("id".to_owned(), "one".to_owned())]).collect();
    for action in ["drain", "end-drain", "remove"] {
        root.forge(&format!("/admin/nodes/{action}"), &fields, &[]).expect(422).shows("no node of a cluster");
    }
}

/// Two nodes over one Postgres and one store.
#[test]
fn an_administrator_drains_and_removes_a_node() {
    let Some(cluster) = Cluster::new("web_nodes") else { return };
    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("server_key");
    std::fs::write(&key, [7; 32]).unwrap();
    let node = |id| {
        cluster.node_with(id, |config| {
            config.cluster.cache_bytes = if id == "one" { 3 << 30 } else { 0 };
            config.server_key_file = Some(key.clone());
        })
    };
    let (one, two) = (node("one"), node("two"));
    let (root, ada) = (signed_in(&one, "root", true), signed_in(&one, "ada", false));
    database(&one, &ada, "ada");
    let page = root.get("/admin/nodes").expect(200).shows("This node").shows(&one.address()).shows(&two.address());
    page.shows("Store of databases").shows("Last collection");
    let page = wait_for("the copies of both nodes", AMPLE, || {
        let page = root.get("/admin/nodes").expect(200);
        let is_measured = page.text.contains(" KiB of 3.0 GiB") && page.text.matches("<td>0 bytes</td>").count() == 1;
        if is_measured { Ok(page) } else { Err(page.text) }
    });

    let sent = root.submit(&page, "/admin/nodes/drain", &[("id", "one")]).expect(303);
    let page = root.follow(&sent).expect(200).shows("one is drained.").shows("End drain");
    root.submit(&page, "/admin/nodes/drain", &[("id", "two")]).expect(422).shows("is live and not drained");
    let sent = root.submit(&page, "/admin/nodes/end-drain", &[("id", "one")]).expect(303);
    let page = root.follow(&sent).expect(200).shows("one is no longer drained.");
    assert!(!page.text.contains("End drain"));
    let fields: Vec<_> = page.hidden_fields("/admin/nodes/drain");
    let of_two: Vec<_> = fields.into_iter().filter(|(name, _)| name == "csrf").collect();
    let of_two: Vec<_> = of_two.into_iter().chain([("id".to_owned(), "two".to_owned())]).collect();
    root.forge("/admin/nodes/remove", &of_two, &[]).expect(422).shows("stop its server first");

    drop(two);
    let page = root.get("/admin/nodes").expect(200).shows("Ended");
    let sent = root.submit(&page, "/admin/nodes/remove", &[]).expect(303);
    let page = root.follow(&sent).expect(200).shows("two is removed.");
    assert!(!page.text.contains("<th scope=\"row\">two"));
    root.forge("/admin/nodes/remove", &of_two, &[]).expect(404);
}

#[test]
fn administrators_enter_the_password_again() {
    let clock = Arc::new(FixedClock::at(Timestamp::from_micros(1_790_000_000_000_000)));
    let server = Server::with_clock(Arc::clone(&clock));
    let (root, ada) = (signed_in(&server, "root", true), signed_in(&server, "ada", false));
    database(&server, &ada, "ada");
    clock.advance_seconds(15 * 60);
    let page = root.get("/admin/users/ada").expect(200);
    for action in ["suspend", "make-admin", "tokens/revoke", "sessions/end"] {
        let sent = root.submit(&page, &format!("/admin/users/ada/{action}"), &[]).expect(303);
        assert!(sent.location.as_deref().is_some_and(|to| to.starts_with("/settings/confirm")), "{action}");
    }
    ada.get("/settings/profile").expect(200);
    let page = root.get("/admin/databases").expect(200);
    let sent = root.submit(&page, "/admin/databases/quarantine", &[("owner", "ada"), ("name", "rivers")]).expect(303);
    root.follow(&sent).expect(200).shows("Confirm your password");
    ada.get("/ada/rivers").expect(200);
    let page = root.get("/admin/nodes").expect(200);
    let token: Vec<_> = page.hidden_fields("/sign-out").into_iter().filter(|(name, _)| name == "csrf").collect();
    let sent = root.forge("/admin/nodes/remove", &token, &[]).expect(303);
    assert!(sent.location.as_deref().is_some_and(|to| to.starts_with("/settings/confirm")));
}
