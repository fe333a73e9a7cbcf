//! The page on which users connect devices.

use branchyard_testkit::{OAuthClient, OAuthTokens, Server};

use super::super::browser::Browser;
use super::super::{open_server, sign_in, sign_up, user};
use super::{DEVICE, NOTHING, csrf, granted, registered};
use crate::web::PASSWORD;

/// A device that waits: its device code, and the code that it shows.
fn waiting(application: &OAuthClient, scope: &str) -> (String, String) {
    let json = application.begin_device(scope).expect(200).json();
    let text = |name: &str| json[name].as_str().unwrap().to_owned();
    (text("device_code"), text("user_code"))
}

#[test]
fn a_user_types_a_code_and_approves() {
    let server = open_server();
    let (ada, dh) = (sign_up(&server, "ada"), OAuthClient::dh(server.address()));
    let (device_code, user_code) = waiting(&dh, "api_read_write");
    let page = ada.get(DEVICE).expect(200).shows("Enter the code");
    assert_eq!(page.headers["cache-control"], "no-store");
    ada.submit(&page, DEVICE, &[("user_code", "")]).expect(422).shows("Enter the code that your device shows");
    ada.submit(&page, DEVICE, &[("user_code", "<b>")]).expect(422).shows("No device waits with this code");
    let typed = format!(" {} ", user_code.to_lowercase().replace('-', " "));
    let asked = ada.submit(&page, DEVICE, &[("user_code", &typed)]).expect(200);
    assert_eq!(asked.headers["cache-control"], "no-store");
    let asked = asked.shows(&format!("id=\"shown-code\">{user_code}<")).shows("dh, the DoltHub command line");
    let asked = asked.shows("Approve only what you started yourself").shows("Do everything you can do with the API");
    // Nothing is decided yet.
    assert_eq!(dh.poll(&device_code).json()["error"], "authorization_pending");
    let done = ada.submit(&asked, DEVICE, &[("decision", "approve")]).expect(303);
    assert_eq!(done.location.as_deref(), Some(DEVICE));
    ada.follow(&done).expect(200).shows("Approved. Go back to your device.");
    OAuthTokens::of(&dh.poll(&device_code));
    // The form again.
    ada.submit(&asked, DEVICE, &[("decision", "deny")]).expect(422);
    assert_eq!(granted(&server), [0, 1, 1]);
}

#[test]
fn a_link_with_the_code_decides_nothing() {
    let server = open_server();
    let (ada, dh) = (sign_up(&server, "ada"), OAuthClient::dh(server.address()));
    let (device_code, user_code) = waiting(&dh, "api_read");
    let link = format!("{DEVICE}?user_code={user_code}");
    // A visitor signs in first, and comes back to the code.
    let visitor = Browser::at(&server);
    let sent = visitor.get(&link).expect(303);
    let page = visitor.follow(&sent).expect(200);
    let done = visitor.submit(&page, "/sign-in", &[("name", "ada"), ("password", PASSWORD)]).expect(303);
    assert_eq!(done.location.as_deref(), Some(link.as_str()));
    ada.get(&format!("{link}&decision=approve&csrf={}", csrf(&ada).1)).expect(200).shows("id=\"approve\"");
    assert_eq!(dh.poll(&device_code).json()["error"], "authorization_pending");
    assert_eq!(granted(&server), NOTHING);
    let page = ada.get(&link).expect(200);
    let done = ada.submit(&page, DEVICE, &[("decision", "deny")]).expect(303);
    ada.follow(&done).expect(200).shows("Refused.");
    assert_eq!(dh.poll(&device_code).json()["error"], "access_denied");
    assert_eq!(granted(&server), NOTHING);
}

#[test]
fn attempts_with_codes_are_limited() {
    let server = Server::start_with(|config| config.web.sign_ins_per_account = 4);
    for name in ["ada", "bob"] {
        user(&server, name, false);
    }
    let dh = OAuthClient::dh(server.address());
    let (device_code, user_code) = waiting(&dh, "api_read");
    let (ada, bob) = (Browser::at(&server), Browser::at(&server));
    for (browser, name) in [(&ada, "ada"), (&bob, "bob")] {
        sign_in(browser, name, PASSWORD).expect(303);
    }
    let page = ada.get(DEVICE).expect(200);
    for number in 0..4 {
        // A text that is no code is no guess.
        ada.submit(&page, DEVICE, &[("user_code", "nonsense"), ("decision", "approve")]).expect(422);
        // With and without a decision.
        match number % 3 {
            0 => ada.get(&format!("{DEVICE}?user_code=BCDF-GHJK")),
            1 => ada.submit(&page, DEVICE, &[("user_code", "BCDF-GHJL")]),
            _ => ada.submit(&page, DEVICE, &[("user_code", "BCDF-GHJN"), ("decision", "approve")]),
        }
        .expect(422);
    }
    let limited = ada.submit(&page, DEVICE, &[("user_code", "BCDF-GHJM")]).expect(429).shows("Too many attempts");
    let seconds: i64 = limited.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!(seconds > 0);
    // Nor does a right guess help.
    let right = [("user_code", user_code.as_str()), ("decision", "approve")];
    ada.submit(&page, DEVICE, &right).expect(429);
    assert!(!ada.get(&format!("{DEVICE}?user_code={user_code}")).expect(429).text.contains("id=\"approve\""));
    assert_eq!(dh.poll(&device_code).json()["error"], "authorization_pending");
    // Other users are not limited, and passwords are counted apart.
    let asked = bob.get(&format!("{DEVICE}?user_code={user_code}")).expect(200).shows(&user_code);
    bob.submit(&asked, DEVICE, &[("decision", "approve")]).expect(303);
    OAuthTokens::of(&dh.poll(&device_code));
    sign_in(&Browser::at(&server), "ada", PASSWORD).expect(303);
}

#[test]
fn a_device_of_an_application_whose_owner_is_suspended_waits_in_vain() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    sign_up(&server, "bob");
    let application = registered(&server, "bob", "https://app.test/callback");
    let (device_code, user_code) = waiting(&application, "api_read");
    let link = format!("{DEVICE}?user_code={user_code}");
    let page = ada.get(&link).expect(200).shows("River &#60;gauges&#62;").shows("href=\"/bob\"");
    let administration = server.hub().administration();
    administration.suspend(&administration.operator(), "bob").unwrap();
    ada.get(&link).expect(422);
    ada.submit(&page, DEVICE, &[("decision", "approve")]).expect(422);
    assert_eq!(application.begin_device("api_read").expect(400).json()["error"], "invalid_client");
    assert_eq!(application.poll(&device_code).expect(400).json()["error"], "invalid_client");
    assert_eq!(granted(&server), NOTHING);
}
