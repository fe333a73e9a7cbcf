//! Hidden deployments and refused forms.

use super::super::browser::Browser;
use super::super::sign_up;
use super::{DeploymentPagesHarness, GAUGES, NEW};

/// Where forms are sent, relative to a deployment.
pub(super) const FORMS: &[&str] = &[
    "/tokens",
    "/databases",
    "/databases/gauges/delete",
    "/backups",
    "/backups/20200101T000000.000/delete",
    "/instances/00000000-0000-7000-8000-000000000000/reboot",
    "/start",
    "/shutdown",
    "/discard",
    "/delete",
    "/settings",
    "/settings/leave",
    "/settings/config",
    "/settings/collaborators",
    "/settings/collaborators/remove",
];

/// The pages of a deployment, relative to it.
const PAGES: &[&str] = &[
    "",
    "/databases",
    "/databases/gauges/delete",
    "/metrics",
    "/metrics/cpu",
    "/logs",
    "/backups",
    "/backups/20200101T000000.000/gauges",
    "/operations",
    "/cost",
    "/start",
    "/shutdown",
    "/discard",
    "/delete",
    "/settings",
    "/settings/config",
    "/settings/collaborators",
];

#[test]
fn a_deployment_one_may_not_see_looks_exactly_like_a_missing_one() {
    let harness = DeploymentPagesHarness::with_gauges();
    let bob = sign_up(&harness.server, "bob");
    bob.get("/").expect(200);
    let plain = |text: String| text.replace("gauges", "NAME").replace("nothing", "NAME");
    for below in PAGES {
        let hidden = bob.get(&format!("{GAUGES}{below}")).expect(404);
        let missing = bob.get(&format!("/deployments/ada/nothing{below}")).expect(404);
        assert_eq!(plain(hidden.text), plain(missing.text), "{below}");
    }
    let csrf = bob.get("/settings/usage").expect(200).hidden_fields("/settings/theme");
    let csrf: Vec<_> = csrf.into_iter().filter(|(name, _)| name == "csrf").collect();
    for below in FORMS {
        let hidden = bob.forge(&format!("{GAUGES}{below}"), &csrf, &[]).expect(404);
        let missing = bob.forge(&format!("/deployments/ada/nothing{below}"), &csrf, &[]).expect(404);
        assert_eq!(plain(hidden.text), plain(missing.text), "{below}");
    }
    let owner = |text: String| text.replace("/deployments/ada", "WHO").replace("/deployments/nobody", "WHO");
    let (hidden, missing) = (bob.get("/deployments/ada").expect(404), bob.get("/deployments/nobody").expect(404));
    let escaped = |text: String| text.replace("%2Fada", "WHO").replace("%2Fnobody", "WHO");
    assert_eq!(escaped(owner(hidden.text)), escaped(owner(missing.text)));
    assert!(!bob.get("/ada").expect(200).text.contains("/deployments/ada"));
    // A signed-out visitor is asked to sign in, for any name.
    let anonymous = Browser::at(&harness.server);
    for path in [GAUGES, "/deployments/ada/nothing", "/deployments/ada", "/deployments", NEW, "/settings/usage"] {
        let page = anonymous.get(path).expect(303);
        assert!(page.location.unwrap().starts_with("/sign-in?next="), "{path}");
    }
}

#[test]
fn every_form_wants_the_token() {
    let harness = DeploymentPagesHarness::with_gauges();
    let forms = FORMS.iter().map(|below| format!("{GAUGES}{below}")).chain([NEW.to_owned()]);
    for form in forms {
        harness.ada.forge(&form, &[], &[]).expect(403).shows("Your session changed");
        Browser::at(&harness.server).forge(&form, &[], &[]).expect(403);
    }
    harness.ada.settled(GAUGES).shows(">Started<");
}

#[test]
fn the_name_of_the_pages_is_no_owner() {
    let harness = DeploymentPagesHarness::open();
    let guest = Browser::at(&harness.server);
    let page = guest.get("/sign-up").expect(200);
    let fields = [("name", "deployments"), ("email", "d@example.test"), ("password", super::super::PASSWORD)];
    guest.submit(&page, "/sign-up", &fields).expect(422);
}
