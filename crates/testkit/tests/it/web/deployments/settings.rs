//! Configuration, the engine, collaborators and their roles.

use super::super::sign_up;
use super::{DeploymentPagesHarness, GAUGES};

#[test]
fn settings_are_changed_all_or_none_and_taken_back() {
    let harness = DeploymentPagesHarness::with_gauges();
    let ada = &harness.ada;
    let path = format!("{GAUGES}/settings/config");
    let page = ada.get(&path).expect(200).shows("query_timeout_millis").shows("100 to 300000. Default: 30000");
    ada.submit(&page, &path, &[("query_timeout_millis", "5000"), ("behavior_read_only", "true")]).expect(303);
    let changed = ada.get(&path).expect(200).shows(">Custom<").shows("Reset to default");
    assert_eq!(changed.value_of("query_timeout_millis"), "5000");
    let running = harness.books.running();
    assert!(
        running[0].1.overrides().any(|(setting, value)| setting.key() == "query_timeout_millis" && value == "5000")
    );
    // One wrong value prevents the whole save. The form shows it as it was typed.
    let wrong = [("query_timeout_millis", "6000"), ("listener_allowed_origins", "\"><script>alert(1)</script>")];
    let refused = ada.submit(&changed, &path, &wrong).expect(422).shows("Nothing was saved");
    let refused = refused.shows("id=\"listener_allowed_origins-error\"");
    assert!(!refused.text.contains("<script>alert"), "{}", refused.text);
    assert_eq!(refused.value_of("query_timeout_millis"), "6000");
    assert_eq!(ada.get(&path).expect(200).value_of("query_timeout_millis"), "5000");
    // A form that was read before the last change is refused.
    ada.submit(&page, &path, &[("log_level", "debug")]).expect(422).shows("changed since it was read");
    ada.submit(&changed, &path, &[("reset-query_timeout_millis", "1"), ("query_threads", "2")]).expect(303);
    let page = ada.get(&path).expect(200).shows("Pending restart");
    assert_eq!(page.value_of("query_timeout_millis"), "30000");
}

#[test]
fn the_engine_can_be_left_as_it_is() {
    let harness = DeploymentPagesHarness::with_gauges();
    let path = format!("{GAUGES}/settings");
    let page = harness.ada.get(&path).expect(200).shows("1.0.0").shows("name=\"keep\" value=\"1\"> Don't upgrade");
    harness.ada.submit(&page, &path, &[("keep", "1")]).expect(303);
    let page = harness.ada.get(&path).expect(200).shows("name=\"keep\" value=\"1\" checked> Don't upgrade");
    harness.ada.submit(&page, &path, &[]).expect(303);
    harness.ada.get(&path).expect(200).shows("name=\"keep\" value=\"1\"> Don't upgrade");
}

#[test]
fn roles_decide_what_is_shown_and_what_is_done() {
    let harness = DeploymentPagesHarness::with_gauges();
    let ada = &harness.ada;
    let bob = sign_up(&harness.server, "bob");
    bob.get(GAUGES).expect(404);
    let path = format!("{GAUGES}/settings/collaborators");
    let page = ada.get(&path).expect(200).shows("No collaborators yet");
    ada.submit(&page, &path, &[("username", "nobody-at-all"), ("role", "reader")]).expect(422);
    ada.submit(&page, &path, &[("username", "ada"), ("role", "reader")]).expect(422).shows("already has full access");
    ada.submit(&page, &path, &[("username", "bob"), ("role", "king")]).expect(422).shows("id=\"role-error\"");
    ada.submit(&page, &path, &[("username", "bob"), ("role", "reader")]).expect(303);

    let seen = bob.get(GAUGES).expect(200).shows("<dd>reader</dd>").shows("id=\"connect\"");
    assert!(!seen.text.contains("/reboot"), "{}", seen.text);
    for below in
        ["/databases", "/metrics", "/logs", "/backups", "/operations", "/cost", "/settings", "/settings/config"]
    {
        let page = bob.get(&format!("{GAUGES}{below}")).expect(200);
        assert!(!page.text.contains("class=\"danger\"") || below == "/settings", "{below}: {}", page.text);
    }
    for below in ["/shutdown", "/start", "/delete", "/settings/collaborators", "/databases/gauges/delete"] {
        bob.get(&format!("{GAUGES}{below}")).expect(403).shows("You don&#39;t have permission");
    }
    // Hand-made forms are refused too.
    let csrf = bob.get("/settings/usage").expect(200).hidden_fields("/settings/theme");
    let csrf: Vec<_> = csrf.into_iter().filter(|(name, _)| name == "csrf").collect();
    for below in super::guards::FORMS.iter().filter(|below| !matches!(**below, "/tokens" | "/settings/leave")) {
        bob.forge(&format!("{GAUGES}{below}"), &csrf, &[]).expect(403).shows("You don&#39;t have permission");
    }
    bob.get("/deployments/ada").expect(200).shows(">gauges<");
    bob.get("/ada").expect(200).shows("href=\"/deployments/ada\"");

    ada.submit(&page, &path, &[("username", "bob"), ("role", "admin")]).expect(303);
    bob.get(&format!("{GAUGES}/shutdown")).expect(200);
    ada.submit(&page, &path, &[("username", "bob"), ("role", "writer")]).expect(303);
    let page = bob.get(&format!("{GAUGES}/settings")).expect(200);
    bob.submit(&page, &format!("{GAUGES}/settings/leave"), &[]).expect(303);
    bob.get(GAUGES).expect(404);
    bob.get("/deployments/ada").expect(404);

    let page = ada.get(&path).expect(200);
    ada.submit(&page, &path, &[("username", "bob"), ("role", "admin")]).expect(303);
    let bobs = bob.get(&path).expect(200);
    bob.submit(&bobs, &format!("{path}/remove"), &[("username", "bob")]).expect(303);
    bob.get(GAUGES).expect(404);
}
