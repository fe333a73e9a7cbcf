//! Webhooks: registered, pinged, and their deliveries viewed and sent again.

use branchyard_testkit::{AMPLE, Receiver, Server, wait_until};
use serde_json::json;

use super::browser::{Browser, Page};
use super::{database, sign_up};

const HOOKS: &str = "/ada/rivers/settings/hooks";
const NEW: &str = "/ada/rivers/settings/hooks/new";

fn start() -> (Server, Browser) {
    let server = Server::start_with(|config| {
        config.web.sign_up = "open".to_owned();
        config.hooks.allowed_cidrs = vec!["127.0.0.0/8".to_owned()];
    });
    let ada = sign_up(&server, "ada");
    database(&server, &ada, "ada");
    (server, ada)
}

/// Registers a hook. Returns the page with its secret, and the path of the hook.
fn register(ada: &Browser, url: &str) -> (Page, String) {
    let page = ada.get(NEW).expect(200);
    let made = ada.submit(&page, NEW, &[("url", url), ("push", "1"), ("active", "1")]).expect(200);
    let (_, rest) = made.text.split_once("<a class=\"button primary\" href=\"").unwrap();
    let hook = rest.split('"').next().unwrap().to_owned();
    (made, hook)
}

fn secret(page: &Page) -> String {
    page.text.split_once("id=\"secret\">").unwrap().1.split('<').next().unwrap().to_owned()
}

#[test]
fn the_secret_is_shown_once_and_another_one_after_a_question() {
    let (_server, ada) = start();
    let receiver = Receiver::start();
    let (made, hook) = register(&ada, &receiver.url());
    let first = secret(&made);
    assert!(first.starts_with("whsec_"), "{first}");
    assert_eq!(made.headers["cache-control"], "no-store");
    for path in [HOOKS, &hook, &format!("{hook}/edit")] {
        assert!(!ada.get(path).expect(200).text.contains(&first), "{path}");
    }
    let rotate = format!("{hook}/rotate");
    let question = ada.get(&rotate).expect(200).shows("Rotate the secret?");
    let second = secret(&ada.submit(&question, &rotate, &[]).expect(200));
    assert_ne!(first, second);
    ada.get(&hook).expect(200).shows("also signs until");
}

#[test]
fn a_ping_is_delivered_and_delivered_again() {
    let (_server, ada) = start();
    let receiver = Receiver::start();
    let (_, hook) = register(&ada, &receiver.url());
    let page = ada.get(&hook).expect(200).shows("No deliveries yet").shows(">Active<");
    let done = ada.submit(&page, &format!("{hook}/ping"), &[]).expect(303);
    let delivery = done.location.unwrap();
    receiver.wait_for(1);
    let shown = ada.settled(&delivery).shows(">Delivered<").shows("HTTP 204").shows("webhook-id: ");
    let shown = shown.shows("webhook-signature: ").shows(&format!("POST {}", receiver.url()));
    let again = format!("{delivery}/redeliver");
    ada.submit(&shown, &again, &[]).expect(303);
    let received = receiver.wait_for(2);
    assert_eq!(received[0].header("webhook-id"), received[1].header("webhook-id"));
    ada.settled(&delivery).shows("2 attempts");
    let list = format!("{hook}/deliveries");
    ada.get(&format!("{list}?status=delivered")).expect(200).shows("<strong>ping</strong>");
    ada.get(&format!("{list}?status=failed")).expect(200).shows("<p>No deliveries to show.</p>");
    ada.get(HOOKS).expect(200).shows("last delivery");
}

#[test]
fn a_hook_is_edited_switched_off_and_deleted() {
    let (server, ada) = start();
    let receiver = Receiver::start();
    let (_, hook) = register(&ada, &receiver.url());
    let edit = format!("{hook}/edit");
    let page = ada.get(&edit).expect(200);
    ada.submit(&page, &edit, &[("url", &receiver.url())]).expect(422).shows("Choose at least one");
    let off = [("url", receiver.url()), ("branch", "1".to_owned())];
    let off: Vec<(&str, &str)> = off.iter().map(|(name, value)| (*name, value.as_str())).collect();
    ada.submit(&page, &edit, &off).expect(303);
    ada.get(&hook).expect(200).shows(">Inactive<").shows("No events are sent or kept").shows("Branches");
    ada.submit(&page, &edit, &off).expect(422).shows("The hook changed since it was read");
    let delete = format!("{hook}/delete");
    let question = ada.get(&delete).expect(200);
    ada.submit(&question, &delete, &[]).expect(303);
    ada.get(&hook).expect(404);
    ada.get(&format!("{HOOKS}/1")).expect(404);
    drop(server);
}

#[test]
fn addresses_that_hooks_may_not_have_are_said_beside_the_field() {
    let (_server, ada) = start();
    let page = ada.get(NEW).expect(200);
    for bad in ["", "nonsense", "ftp://example.test/", "https://10.0.0.1/<script>"] {
        let refused = ada.submit(&page, NEW, &[("url", bad), ("push", "1")]).expect(422).shows("id=\"url-error\"");
        assert!(!refused.text.contains("<script>"), "{}", refused.text);
    }
}

#[test]
fn a_receiver_that_is_gone_for_good_switches_the_hook_off_in_words() {
    let (server, ada) = start();
    let receiver = Receiver::with(|_| Some(410));
    let (_, hook) = register(&ada, &receiver.url());
    let actor = server.actor_of("ada");
    actor.write("ada/rivers", "main", "insert into r values (1, 'Rhine')");
    receiver.wait_for(1);
    wait_until("the hook is disabled", AMPLE, || ada.get(&hook).expect(200).text.contains("Disabled"));
    ada.get(&hook).expect(200).shows("responded with 410 Gone").shows(">Failed<");
    ada.get(HOOKS).expect(200).shows("Disabled");
    // What a receiver answered is text.
    let hooks = actor.get("/databases/ada/rivers/hooks").expect(200).data();
    assert_eq!(hooks[0]["active"], json!(false));
}
