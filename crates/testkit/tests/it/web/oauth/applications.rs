//! Applications that users register, and what users and administrators revoke.

use branchyard_testkit::{AMPLE, OAuthClient, OAuthTokens, Server, wait_for};

use super::super::administration::signed_in;
use super::super::browser::{Browser, Page};
use super::super::{open_server, sign_up};
use super::{APPLICATIONS, authorize, csrf, granted, leads_nowhere, registered, status};

/// The maximum number of applications of a user.
const APPLICATIONS_PER_USER: usize = 20;
/// The maximum number of redirect URIs of an application.
const REDIRECT_URIS: usize = 10;

fn register(browser: &Browser, name: &str, redirect_uris: &str) -> Page {
    let page = browser.get(APPLICATIONS).expect(200);
    browser.submit(&page, APPLICATIONS, &[("name", name), ("redirect_uris", redirect_uris)])
}

/// Returns the number of applications that a user registered.
fn own(server: &Server, user: &str) -> usize {
    let user = server.hub().people().user_named(user).unwrap();
    server.hub().applications().list(&user, None, 100).unwrap().len()
}

/// Returns the path of the form that revokes the first grant on a page.
fn first_revocation(page: &Page, below: &str) -> String {
    let (_, rest) = page.text.split_once(&format!("action=\"{below}/")).unwrap_or_else(|| panic!("{}", page.text));
    format!("{below}/{}", rest.split('"').next().unwrap())
}

#[test]
fn an_application_is_registered_used_and_deleted() {
    let server = open_server();
    let (ada, bob) = (sign_up(&server, "ada"), sign_up(&server, "bob"));
    ada.get(APPLICATIONS).expect(200).shows("You haven't registered any applications");
    let uris = "https://app.test/callback\r\n\r\n  http://localhost/callback  \r\n";
    let done = register(&ada, "River <gauges>", uris).expect(303);
    let page = ada.follow(&done).expect(200).shows("River &#60;gauges&#62;").shows("https://app.test/callback");
    let application = OAuthClient::new(server.address(), &page.value_of("client-id-1"));
    let attempts = ["https://app.test/callback", "http://localhost:7/callback"]
        .map(|uri| application.attempt_at(uri, "api_read_write"));
    let tokens = attempts.map(|attempt| authorize(&bob, &application, &attempt));
    let visitor = server.anonymous();
    for tokens in &tokens {
        assert_eq!(status(&visitor, tokens), 200);
    }
    let open = application.attempt_at("https://app.test/callback", "api_read");
    let device = application.begin_device("api_read").expect(200).json();

    let delete = format!("{APPLICATIONS}/{}/delete", application.id());
    // To other users it does not exist.
    bob.get(&delete).expect(404);
    bob.forge(&delete, &[csrf(&bob)], &[]).expect(404);
    assert_eq!((own(&server, "ada"), status(&visitor, &tokens[0])), (1, 200));
    let ask = ada.get(&delete).expect(200).shows("Delete application “River &#60;gauges&#62;”?");
    let done = ada.submit(&ask, &delete, &[]).expect(303);
    ada.follow(&done).expect(200).shows("Application deleted.").shows("You haven't registered any applications");
    for tokens in &tokens {
        assert_eq!(status(&visitor, tokens), 401);
        application.refresh(&tokens.refresh).expect(400);
    }
    leads_nowhere(bob.get(&open.path()), "a deleted application");
    application.poll(device["device_code"].as_str().unwrap()).expect(400);
    assert_eq!(application.begin_device("api_read").expect(400).json()["error"], "invalid_client");
    bob.get(APPLICATIONS).expect(200).shows("You haven't authorized any applications");
    assert_eq!(granted(&server), [0; 3]);
    ada.get(&delete).expect(404);
    ada.submit(&ask, &delete, &[]).expect(404);
}

#[test]
fn names_and_redirect_uris_have_rules() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    let good = "https://app.test/callback";
    let lines = |count: usize| (0..count).map(|number| format!("{good}/{number}\n")).collect::<String>();
    let (long_name, long_uri) = ("n".repeat(101), format!("https://app.test/{}", "a".repeat(484)));
    let (too_many, one_of_two) = (lines(REDIRECT_URIS + 1), format!("{good}\nhttp://app.test/callback"));
    for (name, uris, why) in [
        ("", good, "must not be blank"),
        (" ", good, "must not be blank"),
        (long_name.as_str(), good, "longer than 100 characters"),
        ("x", "", "1 to 10 redirect URIs"),
        ("x", " \n\n", "1 to 10 redirect URIs"),
        ("x", too_many.as_str(), "1 to 10 redirect URIs"),
        ("x", long_uri.as_str(), "at most 500 bytes"),
        ("x", "http://app.test/callback", "begins with https://"),
        ("x", "app.test/callback", "begins with https://"),
        ("x", "javascript:alert(1)", "begins with https://"),
        ("x", "app://callback", "begins with https://"),
        ("x", "https://app.test/#fragment", "no fragment"),
        ("x", "https://ada@app.test/", "no user name"),
        ("x", "https://app.test:0/", "valid port"),
        ("x", "https://app.test/a b", "no spaces"),
        ("x", "https://app.test\\@evil.test/", "no spaces"),
        ("x", "https://app.test/\u{e9}", "no spaces"),
        ("x", one_of_two.as_str(), "begins with https://"),
    ] {
        let page = register(&ada, name, uris).expect(422);
        assert!(page.text.contains(why), "{name:.20} {uris:.60} {why}: {}", page.text);
        assert_eq!(own(&server, "ada"), 0, "{name:.20} {uris:.60}");
    }
    // What was typed is still there, as text.
    register(&ada, "<b>x</b>", "http://app.test/<i>")
        .expect(422)
        .shows("&#60;b&#62;x&#60;/b&#62;")
        .shows("http://app.test/&#60;i&#62;");
    register(&ada, &"n".repeat(100), &lines(REDIRECT_URIS)).expect(303);
    assert_eq!(own(&server, "ada"), 1);
}

#[test]
fn a_user_has_few_applications() {
    let server = open_server();
    let (ada, bob) = (sign_up(&server, "ada"), sign_up(&server, "bob"));
    for _ in 1..APPLICATIONS_PER_USER {
        registered(&server, "ada", "https://app.test/callback");
    }
    register(&ada, "the last one", "https://app.test/").expect(303);
    let refused = register(&ada, "one more", "https://app.test/").expect(422);
    assert!(refused.text.contains("20 applications, which is the limit"), "{}", refused.text);
    assert_eq!(own(&server, "ada"), APPLICATIONS_PER_USER);
    register(&bob, "mine", "https://app.test/").expect(303);
    // All are listed, and one makes room for another.
    let page = ada.get(APPLICATIONS).expect(200);
    assert_eq!(page.text.matches("Delete application ").count(), APPLICATIONS_PER_USER);
    let delete = format!("{APPLICATIONS}/{}/delete", page.value_of("client-id-1"));
    let ask = ada.get(&delete).expect(200);
    ada.submit(&ask, &delete, &[]).expect(303);
    register(&ada, "one more", "https://app.test/").expect(303);
}

#[test]
fn a_user_revokes_what_an_application_may_do() {
    let server = open_server();
    let (ada, bob) = (sign_up(&server, "ada"), sign_up(&server, "bob"));
    let dh = OAuthClient::dh(server.address());
    let [first, second, of_bob] =
        [&ada, &ada, &bob].map(|browser| authorize(browser, &dh, &dh.attempt("api_read_write")));
    let visitor = server.anonymous();
    let page = ada.get(APPLICATIONS).expect(200).shows("dh, the DoltHub command line").shows("Read and write");
    assert_eq!(page.text.matches("Never used").count(), 2);
    assert_eq!((status(&visitor, &first), status(&visitor, &second), status(&visitor, &of_bob)), (200, 200, 200));
    let page = wait_for("the last uses", AMPLE, || {
        let page = ada.get(APPLICATIONS).expect(200);
        if page.text.contains("Never used") { Err(page.text) } else { Ok(page) }
    });
    let page = page.shows("127.0.0.1");

    let of_ada = first_revocation(&page, "/settings/applications/grants");
    // Other users cannot revoke it, and do not learn that it exists.
    bob.forge(&of_ada, &[csrf(&bob)], &[]).expect(404);
    bob.forge("/settings/applications/grants/00000000-0000-7000-8000-000000000000/revoke", &[csrf(&bob)], &[])
        .expect(404);
    bob.forge("/settings/applications/grants/x/revoke", &[csrf(&bob)], &[]).expect(404);
    assert_eq!((status(&visitor, &first), status(&visitor, &second)), (200, 200));

    // The newest one is listed first.
    let done = ada.submit(&page, &of_ada, &[]).expect(303);
    let page = ada.follow(&done).expect(200).shows("Access revoked.");
    assert_eq!((status(&visitor, &first), status(&visitor, &second)), (200, 401));
    assert_eq!(dh.refresh(&second.refresh).expect(400).json()["error"], "invalid_grant");
    let first = OAuthTokens::of(&dh.refresh(&first.refresh));
    ada.forge(&of_ada, &[csrf(&ada)], &[]).expect(404);
    let of_ada = first_revocation(&page, "/settings/applications/grants");
    let done = ada.submit(&page, &of_ada, &[]).expect(303);
    ada.follow(&done).expect(200).shows("You haven't authorized any applications");
    assert_eq!((status(&visitor, &first), status(&visitor, &of_bob)), (401, 200));
    Browser::at(&server).get(APPLICATIONS).expect(303);
}

#[test]
fn administrators_see_and_end_what_users_granted() {
    let server = Server::start();
    let (root, ada) = (signed_in(&server, "root", true), signed_in(&server, "ada", false));
    let application = registered(&server, "ada", "https://app.test/callback");
    let dh = OAuthClient::dh(server.address());
    let visitor = server.anonymous();
    root.get("/admin/users/ada").expect(200).shows("No applications.");
    let attempt = application.attempt_at("https://app.test/callback", "api_read");
    let of_application = authorize(&ada, &application, &attempt);
    let [first, second] = [(); 2].map(|()| authorize(&ada, &dh, &dh.attempt("api_read_write")));

    // To other users none of it exists.
    let page =
        root.get("/admin/users/ada").expect(200).shows("dh, the DoltHub command line").shows("River &#60;gauges&#62;");
    let revoke = first_revocation(&page, "/admin/users/ada/grants");
    let delete = format!("/admin/applications/{}/delete", application.id());
    ada.get("/admin/applications").expect(404);
    Browser::at(&server).get("/admin/applications").expect(404);
    for path in [&revoke, &delete] {
        ada.forge(path, &[csrf(&ada)], &[]).expect(404);
    }
    for tokens in [&of_application, &first, &second] {
        assert_eq!(status(&visitor, tokens), 200);
    }

    let done = root.submit(&page, &revoke, &[]).expect(303);
    assert_eq!(done.location.as_deref(), Some("/admin/users/ada"));
    root.follow(&done).expect(200).shows("Access revoked.");
    assert_eq!((status(&visitor, &first), status(&visitor, &second)), (200, 401));
    assert_eq!(dh.refresh(&second.refresh).expect(400).json()["error"], "invalid_grant");
    root.submit(&page, &revoke, &[]).expect(404);

    let page = root.get("/admin/applications").expect(200).shows("River &#60;gauges&#62;").shows(application.id());
    let page = page.shows("https://app.test/callback").shows("href=\"/ada\"");
    let done = root.submit(&page, &delete, &[]).expect(303);
    root.follow(&done).expect(200).shows("deleted.").shows("No registered applications.");
    assert_eq!((status(&visitor, &of_application), status(&visitor, &first)), (401, 200));
    application.refresh(&of_application.refresh).expect(400);
    leads_nowhere(ada.get(&attempt.path()), "a deleted application");
    root.submit(&page, &delete, &[]).expect(404);
    // The built-in application cannot be deleted.
    root.forge("/admin/applications/dh/delete", &[csrf(&root)], &[]).expect(404);

    let page = root.get("/admin/users/ada").expect(200);
    root.submit(&page, "/admin/users/ada/tokens/revoke", &[]).expect(303);
    assert_eq!(status(&visitor, &first), 401);
    assert_eq!(granted(&server), [0; 3]);
}
