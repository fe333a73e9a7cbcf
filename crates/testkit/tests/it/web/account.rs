//! Sign-up, sign-in, and the settings of an account.

use std::sync::Arc;

use branchyard_domain::values::Timestamp;
use branchyard_domain_testing::fakes::FixedClock;
use branchyard_testkit::{Actor, Server};
use reqwest::Method;

use super::browser::Browser;
use super::{PASSWORD, database, open_server, sign_in, sign_up, user};

const KEY: &str = "0eggffvjpo8bs7bgrkceeiu0j5ju9lhgjeigqnotri3684il66s0";

#[test]
fn from_sign_up_to_the_first_api_call_and_the_end_of_the_token() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    let page = ada.get("/settings/tokens").expect(200).shows("You don't have any tokens yet");
    let made = ada.submit(&page, "/settings/tokens", &[("name", "laptop"), ("expires", "30d")]).expect(200);
    assert_eq!(made.headers["cache-control"], "no-store");
    let secret = made.value_of("token-secret");

    let program = Actor::new(server.address(), Some(secret.clone()), "ada");
    assert_eq!(program.get("/user").expect(200).data()["username"], "ada");
    let list = ada.get("/settings/tokens").expect(200).shows("laptop").shows("in 30 days");
    assert!(!list.text.contains(&secret), "it is shown once");

    let (_, rest) = list.text.split_once("/settings/tokens/").unwrap();
    let id = rest.split('/').next().unwrap();
    let delete = format!("/settings/tokens/{id}/delete");
    let ask = ada.get(&delete).expect(200).shows("Delete token “laptop”?");
    let fields = ask.hidden_fields("/settings/theme");
    let token = fields.iter().find(|(name, _)| name == "csrf").unwrap().clone();
    let done = ada.forge(&delete, &[token], &[]).expect(303);
    ada.follow(&done).expect(200).shows("Token “laptop” deleted.");
    program.get("/user").expect(401);
}

#[test]
fn a_key_is_added_after_the_password_and_removed() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    let page = ada.get("/settings/keys").expect(200).shows("You don't have any keys yet").shows("dolt_creds_new");
    page.shows("Clients send credentials over TLS only");
    let page = ada.get("/settings/keys").expect(200);
    let wrong = ada.submit(&page, "/settings/keys", &[("name", "laptop"), ("public_key", "x")]).expect(422);
    wrong.shows("a public key has 52 characters");
    let added = ada.submit(&page, "/settings/keys", &[("name", "laptop"), ("public_key", KEY)]).expect(303);
    let list = ada.follow(&added).expect(200).shows("Key “laptop” added.").shows(KEY).shows("Never");
    let again = ada.submit(&list, "/settings/keys", &[("name", "desk"), ("public_key", KEY)]).expect(422);
    again.shows("this key is registered already");
    let (_, rest) = list.text.split_once("/settings/keys/").unwrap();
    let remove = format!("/settings/keys/{}/remove", rest.split('/').next().unwrap());
    let ask = ada.get(&remove).expect(200).shows("Remove key “laptop”?");
    let fields = ask.hidden_fields("/settings/theme");
    let token = fields.iter().find(|(name, _)| name == "csrf").unwrap().clone();
    let done = ada.forge(&remove, &[token], &[]).expect(303);
    ada.follow(&done).expect(200).shows("Key “laptop” removed.").shows("You don't have any keys yet");
}

#[test]
fn what_is_wrong_stands_beside_its_field_and_nothing_is_made() {
    let server = open_server();
    let browser = Browser::at(&server);
    let page = browser.get("/sign-up").expect(200);
    let bad = [("name", "-x"), ("email", "nobody"), ("password", "short")];
    let again = browser.submit(&page, "/sign-up", &bad).expect(422);
    for text in ["an owner name is 3 to 32", "an email address is name@host", "a password must have 8"] {
        assert!(again.text.contains(text), "{text}: {}", again.text);
    }
    assert!(again.text.contains("value=\"nobody\"") && !again.text.contains("short"), "{}", again.text);
    for taken in ["admin", "explore", "Sign-In", "settings", "static"] {
        let fields = [("name", taken), ("email", "a@b.test"), ("password", PASSWORD)];
        browser.submit(&page, "/sign-up", &fields).expect(422).shows("is reserved");
    }
    sign_up(&server, "ada");
    let fields = [("name", "ADA"), ("email", "a@b.test"), ("password", PASSWORD)];
    browser.submit(&page, "/sign-up", &fields).expect(422).shows("is taken");
}

#[test]
fn the_first_user_administers_and_invites_others() {
    let server = Server::start();
    let stranger = Browser::at(&server);
    stranger.get("/sign-up").expect(403).shows("This server is invitation-only");
    let minted = server.hub().invitations().administrator().unwrap().unwrap();
    let link = format!("/sign-up?invitation={}", minted.secret.expose());
    let root = Browser::at(&server);
    let page = root.get(&link).expect(200).shows("It will administer the server");
    let fields = [("name", "root1"), ("email", "root@example.test"), ("password", PASSWORD)];
    root.submit(&page, "/sign-up", &fields).expect(303);
    stranger.get(&link).expect(403).shows("no longer valid");
    assert!(server.hub().invitations().administrator().unwrap().is_none(), "there is a user now");

    let page = root.get("/settings/invitations").expect(200).shows("No pending invitations");
    let made = root.submit(&page, "/settings/invitations", &[]).expect(200);
    let link = made.value_of("invitation-link");
    let path = link.strip_prefix(&server.address()).unwrap();
    let page = stranger.get(path).expect(200);
    let fields = [("name", "bob"), ("email", "bob@example.test"), ("password", PASSWORD)];
    stranger.submit(&page, "/sign-up", &fields).expect(303);
    stranger.get("/settings/invitations").expect(403);
    let other = Browser::at(&server);
    other.get(path).expect(403);
}

#[test]
fn sign_in_says_nothing_about_who_exists_and_ends_with_too_many_attempts() {
    let server = Server::start_with(|config| config.web.sign_ins_per_account = 4);
    user(&server, "ada", false);
    let browser = Browser::at(&server);
    let wrong = sign_in(&browser, "ada", "wrong horse").expect(422);
    let unknown = sign_in(&browser, "adb", "wrong horse").expect(422);
    let short = sign_in(&browser, "ada", "x").expect(422);
    let alert = |text: &str| text.split_once("id=\"form-error\">").unwrap().1.split('<').next().unwrap().to_owned();
    assert_eq!(alert(&wrong.text), alert(&unknown.text));
    assert_eq!(alert(&wrong.text), alert(&short.text));
    let done = sign_in(&browser, "ADA", PASSWORD).expect(303);
    assert_eq!(done.location.as_deref(), Some("/"));
    let other = Browser::at(&server);
    sign_in(&other, "ada", "wrong horse").expect(422);
    sign_in(&other, "ada", PASSWORD).expect(429).shows("Too many attempts");
    browser.get("/settings/profile").expect(200).shows("ada@example.test");
}

/// A session that someone else got hold of, or a device that was left open, must not be enough for what lasts.
#[test]
fn the_password_is_asked_for_again_before_what_is_hard_to_undo() {
    let clock = Arc::new(FixedClock::at(Timestamp::from_micros(1_790_000_000_000_000)));
    let server = Server::with_clock(Arc::clone(&clock));
    user(&server, "ada", true);
    let ada = Browser::at(&server);
    sign_in(&ada, "ada", PASSWORD).expect(303);
    database(&server, &ada, "ada");
    let page = ada.get("/organizations/new").expect(200);
    ada.submit(&page, "/organizations/new", &[("name", "acme"), ("base_role", "read")]).expect(303);

    let forms = [
        ("/settings/tokens", vec![("name", "laptop"), ("expires", "30d")], 200),
        ("/settings/keys", vec![("name", "laptop"), ("public_key", KEY)], 303),
        ("/settings/invitations", vec![], 200),
        ("/ada/rivers/settings/visibility", vec![("visibility", "private")], 303),
        ("/ada/rivers/settings/purge", vec![], 303),
        ("/ada/rivers/settings/transfer", vec![("owner", "acme"), ("name", "ada/rivers")], 303),
        ("/acme/rivers/settings/delete", vec![("name", "acme/rivers")], 303),
    ];
    let minutes = |count: i64| clock.advance_seconds(count * 60);
    for (path, fields, status) in forms {
        minutes(15);
        let page = ada.get(path).expect(200);
        let sent = ada.submit(&page, path, &fields).expect(303);
        let ask = ada.follow(&sent).expect(200).shows("Confirm your password");
        assert_eq!(
            ada.get("/settings/tokens").expect(200).text.contains("laptop"),
            path != "/settings/tokens",
            "{path}"
        );
        ada.submit(&ask, "/settings/confirm", &[("password", "wrong horse")]).expect(422).shows("Incorrect password");
        let right = ada.submit(&ask, "/settings/confirm", &[("password", PASSWORD)]).expect(303);
        assert_eq!(right.location.as_deref(), Some(path));
        let page = ada.follow(&right).expect(200).shows("Password confirmed");
        ada.submit(&page, path, &fields).expect(status);
    }
    minutes(15);
    let page = ada.get("/organizations/acme/settings").expect(200);
    let sent = ada.submit(&page, "/organizations/acme/settings/delete", &[("name", "acme")]).expect(303);
    let ask = ada.follow(&sent).expect(200).shows("Confirm your password");
    let elsewhere = [("next", "https://evil.test/"), ("password", PASSWORD)];
    let right = ada.submit(&ask, "/settings/confirm", &elsewhere).expect(303);
    assert_eq!(right.location.as_deref(), Some("/"), "it leads to pages of this server only");
    ada.submit(&page, "/organizations/acme/settings/delete", &[("name", "acme")]).expect(303);
    ada.get("/organizations/acme/settings").expect(404);
    Browser::at(&server).get("/settings/confirm").expect(303);
}

#[test]
fn sessions_end_one_by_one_all_at_once_and_with_a_new_password() {
    let server = open_server();
    let one = sign_up(&server, "ada");
    let two = Browser::at(&server);
    sign_in(&two, "ada", PASSWORD).expect(303);
    let page = one.get("/settings/sessions").expect(200).shows("This device");
    one.submit(&page, "/settings/sessions/end", &[]).expect(303);
    let sent = two.get("/settings/sessions").expect(303);
    assert_eq!(sent.location.as_deref(), Some("/sign-in?next=%2Fsettings%2Fsessions"));

    sign_in(&two, "ada", PASSWORD).expect(303);
    let page = one.get("/settings/password").expect(200);
    let token = page.hidden_fields("/settings/theme").into_iter().find(|(name, _)| name == "csrf").unwrap();
    let change = |old: &str, new: &str| {
        let fields = [("old_password", old), ("new_password", new)];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let all: Vec<_> = fields.into_iter().chain([token.clone()]).collect();
        one.forge("/settings/password", &all, &[])
    };
    change("wrong horse", "battery staple").expect(422).shows("Incorrect password");
    change(PASSWORD, "short").expect(422);
    change(PASSWORD, "battery staple").expect(303);
    one.get("/settings/profile").expect(200);
    two.get("/settings/profile").expect(303);
    sign_in(&two, "ada", PASSWORD).expect(422);
    sign_in(&two, "ada", "battery staple").expect(303);

    let page = one.get("/settings/sessions").expect(200);
    one.submit(&page, "/settings/sessions/end-all", &[]).expect(303);
    two.get("/settings/profile").expect(303);
    sign_in(&two, "ada", "battery staple").expect(303);
    one.submit(&page, "/settings/sessions/end-all", &[("here", "on")]).expect(303);
    one.get("/settings/profile").expect(303);
    two.get("/settings/profile").expect(303);
}

#[test]
fn signing_in_leads_back_and_nowhere_else_and_out_ends_the_session() {
    let server = open_server();
    sign_up(&server, "ada");
    let browser = Browser::at(&server);
    let sent = browser.get("/new?owner=ada").expect(303);
    let page = browser.follow(&sent).expect(200);
    let done = browser.submit(&page, "/sign-in", &[("name", "ada"), ("password", PASSWORD)]).expect(303);
    assert_eq!(done.location.as_deref(), Some("/new?owner=ada"));
    let old = browser.cookies.borrow().clone();
    let page = browser.get("/").expect(200);
    browser.submit(&page, "/sign-out", &[]).expect(303);
    *browser.cookies.borrow_mut() = old;
    browser.get("/settings/profile").expect(303);

    let page = browser.get("/sign-in?next=//evil.test").expect(200);
    let fields = [("name", "ada"), ("password", PASSWORD), ("next", "https://evil.test/")];
    let done = browser.submit(&page, "/sign-in", &fields).expect(303);
    assert_eq!(done.location.as_deref(), Some("/"));
}

#[test]
fn a_profile_is_saved_and_shown_escaped() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    let page = ada.get("/settings/profile").expect(200);
    let token = page.hidden_fields("/settings/theme").into_iter().find(|(name, _)| name == "csrf").unwrap();
    let send = |website: &str| {
        let fields = [("display_name", "<b>Ada</b>"), ("bio", "x\r\ny"), ("location", ""), ("website", website)];
        let mut all: Vec<_> = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        all.push(token.clone());
        ada.forge("/settings/profile", &all, &[])
    };
    send("javascript:alert(1)".replace(':', "&#58;").as_str()).expect(422).shows("a web address begins with https://");
    let done = send("https://ada.test").expect(303);
    ada.follow(&done).expect(200).shows("Profile saved.").shows("&#60;b&#62;Ada&#60;/b&#62;");
    let shown = Browser::at(&server).get("/ada").expect(200);
    assert!(!shown.text.contains("<b>Ada") && shown.text.contains("href=\"https://ada.test\""), "{}", shown.text);
}

#[test]
fn over_https_cookies_are_guarded() {
    let server = Server::start_with(|config| config.public_url = Some("https://yard.test".to_owned()));
    let client = reqwest::blocking::Client::builder().no_proxy().build().unwrap();
    let answer = client.request(Method::GET, format!("{}/sign-in", server.address())).send().unwrap();
    let cookie = answer.headers()["set-cookie"].to_str().unwrap();
    assert!(cookie.starts_with("__Host-branchyard_visitor=") && cookie.ends_with("; Secure"), "{cookie}");
    assert!(cookie.contains("; Path=/;") && !cookie.contains("Domain"), "{cookie}");
}

#[test]
fn addresses_come_go_and_one_is_in_commits() {
    let server = open_server();
    let (ada, bob) = (sign_up(&server, "ada"), sign_up(&server, "bob"));
    let here = "/settings/profile/emails";
    let (remove, choose) = (format!("{here}/remove"), format!("{here}/primary"));
    let add = |browser: &Browser, text: &str| {
        let page = browser.get("/settings/profile").expect(200);
        browser.submit(&page, here, &[("email", text)])
    };
    add(&ada, "<b>@x").expect(422).shows("an email address is name@host").shows("value=\"&#60;b&#62;@x\"");
    add(&ada, "ADA@example.test").expect(422).shows("You already have this address");
    let done = add(&ada, "work@example.test").expect(303);
    let page = ada.follow(&done).expect(200).shows("Email address added.").shows("work@example.test");
    ada.forge(here, &[("email".to_owned(), "x@y.test".to_owned())], &[]).expect(403);

    ada.submit(&page, &remove, &[("email", "ada@example.test")]).expect(409).shows("commits carry this address");
    ada.submit(&page, &choose, &[("email", "bob@example.test")]).expect(404);
    ada.submit(&page, &choose, &[("email", "work@example.test")]).expect(303);
    let page = ada.get("/settings/profile").expect(200);
    ada.submit(&page, &remove, &[("email", "ada@example.test")]).expect(303);
    let page = ada.get("/settings/profile").expect(200).shows("work@example.test <span class=\"tag\">Commit email");
    assert!(!page.text.contains("ada@example.test"));
    let user = server.hub().people().user_named("ada").unwrap();
    assert_eq!(user.signature(server.hub().now()).email, "work@example.test");

    for number in 1..10 {
        add(&bob, &format!("b{number}@example.test")).expect(303);
    }
    add(&bob, "b10@example.test").expect(422).shows("A user can have at most 10 addresses; remove one first");
}
