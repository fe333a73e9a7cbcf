//! The form for a new deployment: the choices, the price and the agreement to it.

use super::super::database;
use super::{DeploymentPagesHarness, GAUGES, NEW, create, fields, press};

#[test]
fn the_price_follows_what_is_chosen_and_nothing_is_made_before_it_is_agreed_to() {
    let harness = DeploymentPagesHarness::open();
    let ada = &harness.ada;
    ada.get("/deployments/ada").expect(200).shows("No deployments yet");
    // local.small and 10 GB: 730 hours of 0.006849320 and 0.001369863 dollars.
    let page = ada.get(NEW).expect(200).shows("id=\"price\"").shows(">$6.00<").shows("$0.00822 an hour");
    let page = page.shows("with this deployment $6.00 of $100.00");
    let medium = [("name", "gauges"), ("instance_type_id", "local.medium"), ("volume_size_gb", "20")];
    let all: Vec<_> = fields(&medium).into_iter().chain([("step", "price")]).collect();
    let again = ada.submit(&page, NEW, &all).expect(200).shows(">$52.00<");
    // The form keeps what was chosen and typed.
    assert_eq!(again.value_of("name"), "gauges");
    let agree = press(ada, "review", &medium)
        .expect(200)
        .shows("Create this deployment for $52.00 a month?")
        .shows("ada/gauges");
    ada.get(GAUGES).expect(404);
    let changed = ada.submit(&agree, NEW, &[("step", "price")]).expect(200).shows(">$52.00<");
    assert_eq!(changed.value_of("name"), "gauges");
    // If the agreed price differs from the current one, the price is shown again.
    let other = [("step", "create"), ("agreed", "0.000000001")];
    ada.submit(&agree, NEW, &other).expect(200).shows("The price has changed.");
    ada.get(GAUGES).expect(404);
    let made = ada.submit(&agree, NEW, &[("step", "create")]).expect(303);
    ada.follow(&made).expect(200).shows("Starting ada/gauges…");
    ada.settled(GAUGES).shows(">Started<").shows("$52.00");
    let list = ada.settled("/deployments/ada").shows(">gauges<").shows(">Started<").shows("medium, 20 GB");
    list.shows("$0.07123");
    ada.get("/deployments/ada?state=stopped").expect(200).shows("No deployments in this state.");
    let mine = ada.get("/deployments").expect(303);
    assert_eq!(mine.location.as_deref(), Some("/deployments/ada"));
    for page in ["/", "/ada"] {
        ada.get(page).expect(200).shows("href=\"/deployments/ada\"");
    }
}

#[test]
fn a_database_is_deployed_from_its_page_at_the_ref_that_is_shown() {
    let harness = DeploymentPagesHarness::open();
    let ada = &harness.ada;
    let actor = database(&harness.server, ada, "ada");
    actor.post("/databases/ada/rivers/branches", &serde_json::json!({"name": "draft", "from": {"branch": "main"}}));
    ada.get("/ada/rivers?ref=draft").expect(200).shows("href=\"/deployments/new?from=ada%2Frivers&#38;ref=draft\"");
    let page = ada.get("/deployments/new?from=ada%2Frivers&ref=draft").expect(200);
    assert_eq!((page.value_of("from"), page.value_of("ref")), ("ada/rivers".to_owned(), "draft".to_owned()));
    assert_eq!(page.value_of("name"), "rivers");
    let cloned = [("name", "rivers"), ("from", "ada/rivers"), ("ref", "draft")];
    press(ada, "review", &cloned).expect(200).shows("Clone of ada/rivers at draft");
    create(ada, &cloned);
    let shown = ada.settled("/deployments/ada/rivers").shows(">Started<").shows(">rivers</a>");
    shown.shows("at draft").shows("ada/rivers");
}

#[test]
fn what_cannot_be_is_said_beside_its_field_and_what_was_typed_stays() {
    let harness = DeploymentPagesHarness::open();
    let ada = &harness.ada;
    let refused = |more: &[(&str, &str)]| press(ada, "review", more).expect(422);
    refused(&[("name", "x")]).shows("id=\"name-error\"");
    for size in ["", "0", "-1", "ten", "4096", "99999999999"] {
        refused(&[("name", "gauges"), ("volume_size_gb", size)]).shows("id=\"volume_size_gb-error\"");
    }
    refused(&[("name", "gauges"), ("instance_type_id", "local.huge")]).shows("has no instance type");
    refused(&[("name", "gauges"), ("place", "mars/crater")]).shows("id=\"place-error\"");
    refused(&[("name", "gauges"), ("from", "rivers")]).shows("Enter owner/database");
    refused(&[("name", "gauges"), ("ref", "main")]).shows("Enter the database");
    let page = refused(&[("name", "\"><script>alert(1)</script>"), ("from", "<b>x</b>"), ("database", "a b<i>")]);
    assert!(!page.text.contains("<script>alert") && !page.text.contains("<b>x") && !page.text.contains("<i>"));

    // Errors that only the server can find come after the agreement, and the form shows them.
    let at_last = |more: &[(&str, &str)]| {
        let agree = press(ada, "review", more).expect(200);
        ada.submit(&agree, NEW, &[("step", "create")])
    };
    let page = at_last(&[("name", "gauges"), ("from", "bob/hidden")]).expect(422).shows("that you can read");
    assert_eq!(page.value_of("from"), "bob/hidden");
    let dear = [("name", "gauges"), ("instance_type_id", "local.large"), ("volume_size_gb", "100")];
    press(ada, "review", &dear).expect(200).shows("This exceeds the limit").shows("$210.00");
    at_last(&dear).expect(422).shows("monthly limit of the owner is 100.000000000 USD");
    create(ada, &[("name", "gauges")]);
    at_last(&[("name", "gauges")]).expect(422).shows("already exists");
    // For another owner, the response does not depend on whether that account exists.
    for owner in ["bob", "nobody-at-all"] {
        at_last(&[("name", "gauges"), ("owner", owner)]).expect(403);
    }
}

#[test]
fn a_server_that_starts_none_says_so() {
    let (server, _books) = branchyard_testkit::Server::with_books(|config| {
        config.web.sign_up = "open".to_owned();
        config.hosted.enabled = false;
    });
    let ada = super::sign_up(&server, "ada");
    ada.get(NEW).expect(200).shows("Deployments can't be started on this server");
    let agree = press(&ada, "review", &[("name", "gauges")]).expect(200);
    ada.submit(&agree, NEW, &[("step", "create")]).expect(422).shows("Deployments can't be started on this server");
}
