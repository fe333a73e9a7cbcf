//! The consent page, as the user of an application on the same machine sees it.

use branchyard_testkit::{Actor, AuthorizationAttempt, CallbackListener, OAuthClient, OAuthTokens, Server};

use super::chromium::{Chromium, JavaScript};
use super::flows::start;

/// Opens the consent page of `dh` for a user who has to sign in first.
fn asked(server: &Server, chromium: &Chromium, attempt: &AuthorizationAttempt) {
    chromium.go(&attempt.path());
    chromium.fill("#name", "ada");
    chromium.fill("#password", "correct horse");
    chromium.send("#sign-in-form button");
    assert_eq!(chromium.path(), attempt.path());
    chromium.shows("h1", "Authorize dh, the DoltHub command line?");
    chromium.shows("#redirect-origin", attempt.redirect_uri.strip_suffix("/callback").unwrap());
    assert!(server.hub().grants().list(&server.hub().people().user_named("ada").unwrap(), None, 1).unwrap().is_empty());
}

/// Signs up a user, who is signed out afterwards.
fn signed_out(chromium: &Chromium) {
    chromium.sign_up("ada");
    chromium.click("#account-menu summary");
    chromium.send("#sign-out");
}

fn from_the_command_line_to_the_consent_and_back(javascript: JavaScript) {
    let server = start();
    let Some(chromium) = Chromium::open(&server, javascript) else { return };
    signed_out(&chromium);
    let dh = OAuthClient::dh(server.address());
    let listener = CallbackListener::start();
    let attempt = dh.attempt_at(&listener.redirect_uri(), "api_read_write");
    asked(&server, &chromium, &attempt);
    assert!(listener.callbacks().is_empty());
    chromium.click("#approve");
    chromium.shows("#arrived", "You can close this window");
    let code = attempt.code(&listener.only_callback());
    let tokens = OAuthTokens::of(&dh.redeem(&attempt, &code));
    let program = Actor::new(server.address(), Some(tokens.access), "ada");
    assert_eq!(program.get("/user").expect(200).data()["username"], "ada");

    // The user refuses another request, signed in as before.
    let listener = CallbackListener::start();
    let attempt = dh.attempt_at(&listener.redirect_uri(), "api_read_write");
    chromium.go(&attempt.path());
    chromium.click("#deny");
    chromium.shows("#arrived", "You can close this window");
    assert_eq!(attempt.error(&listener.only_callback()), "access_denied");

    // The user revokes the access.
    chromium.go("/settings/applications");
    chromium.shows("#grants", "dh, the DoltHub command line");
    chromium.send("#grants button.danger");
    chromium.shows("#notice", "Access revoked.");
    program.get("/user").expect(401);
}

#[test]
fn a_user_approves_and_refuses_what_dh_asks_for() {
    from_the_command_line_to_the_consent_and_back(JavaScript::On);
}

#[test]
fn a_user_approves_and_refuses_what_dh_asks_for_without_javascript() {
    from_the_command_line_to_the_consent_and_back(JavaScript::Off);
}

#[test]
fn a_user_approves_a_device() {
    let server = start();
    let Some(chromium) = Chromium::open(&server, JavaScript::On) else { return };
    chromium.sign_up("ada");
    let dh = OAuthClient::dh(server.address());
    let device = dh.begin_device("api_read").expect(200).json();
    let (device_code, user_code) = (device["device_code"].as_str().unwrap(), device["user_code"].as_str().unwrap());
    chromium.go("/oauth/device");
    chromium.fill("#user-code", &user_code.to_lowercase());
    chromium.send("#continue");
    chromium.shows("#shown-code", user_code);
    chromium.send("#approve");
    chromium.shows("#notice", "Approved");
    assert_eq!(OAuthTokens::of(&dh.poll(device_code)).scope, "api_read");
}

/// The pages are of the same site, so that the browser sends the cookie of the session with the frame, and of two origins.
#[test]
fn a_page_of_another_origin_shows_no_consent_page_in_a_frame() {
    let server = start();
    let Some(chromium) = Chromium::open(&server, JavaScript::On) else { return };
    chromium.sign_up("ada");
    let attempt = OAuthClient::dh(server.address()).attempt("api_read_write");
    let consent = format!("{}{}", server.address(), attempt.path());
    let framed = consent.replace('&', "&amp;");
    let listener = CallbackListener::serving(move |path| match path {
        "/" => format!(
            "<!doctype html><title>Trap</title>\
             <iframe id=\"consent\" src=\"{framed}\" onload=\"this.dataset.loaded = 1\"></iframe>\
             <iframe id=\"own\" src=\"/own\" onload=\"this.dataset.loaded = 1\"></iframe>"
        ),
        _ => "<!doctype html><p id=\"approve\">A page that may be framed</p>".to_owned(),
    });
    chromium.visit(&format!("http://{}/", listener.address()));
    for frame in ["#consent", "#own"] {
        chromium.wait("the frame", |this| this.has(&format!("{frame}[data-loaded]")));
    }
    assert!(chromium.frame_has("#own", "#approve"), "the test sees what is in a frame");
    assert!(!chromium.frame_has("#consent", "#approve"));
    assert!(!chromium.frame_has("#consent", "form"));
    // In a window, the same browser shows the page.
    chromium.visit(&consent);
    assert!(chromium.has("#approve"));
}
