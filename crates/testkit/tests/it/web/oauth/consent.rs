//! The consent page, and what it takes to grant something.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use branchyard_domain::values::Timestamp;
use branchyard_domain_testing::fakes::FixedClock;
use branchyard_testkit::{OAuthClient, OAuthTokens, Server, form_encoded};
use reqwest::Method;

use super::super::administration::signed_in;
use super::super::browser::{Browser, unescaped};
use super::super::{PASSWORD, open_server, sign_in, sign_up};
use super::{
    APPLICATIONS, AUTHORIZE, DEVICE, NOTHING, approve, authorize, csrf, decide, granted, leads_nowhere, registered,
    status,
};

/// The token of a forged form, and its headers.
type Case<'a> = (Option<&'a (String, String)>, &'a [(&'a str, &'a str)]);

#[test]
fn the_page_says_what_the_application_will_be_able_to_do() {
    let server = open_server();
    let (ada, bob) = (sign_up(&server, "ada"), sign_up(&server, "bob"));
    let dh = OAuthClient::dh(server.address());
    let attempt = dh.attempt("api_read_write");
    let page = ada.get(&attempt.path()).expect(200);
    for text in ["dh, the DoltHub command line", "Built into this server", "<dd>ada</dd>", "http://localhost:53682<"] {
        assert!(page.text.contains(text), "no '{text}' in {}", page.text);
    }
    assert!(page.text.contains("Do everything you can do with the API") && !page.text.contains("id=\"warning\""));
    let mut fields = page.hidden_fields(AUTHORIZE);
    fields.retain(|(name, _)| name != "csrf");
    assert_eq!(fields, attempt.parameters());
    let read = ada.get(&dh.attempt("api_read").path()).expect(200).shows("Read everything you can read");
    assert!(!read.text.contains("Do everything"), "{}", read.text);

    // An application of another user comes with a warning, and its name is text.
    let application = registered(&server, "bob", "https://app.test/callback");
    let attempt = application.attempt_at("https://app.test/callback", "api_read");
    let page = ada.get(&attempt.path()).expect(200).shows("id=\"warning\"").shows("River &#60;gauges&#62;");
    page.shows("<strong class=\"mono\" id=\"redirect-origin\">https://app.test</strong>").shows("href=\"/bob\"");
    assert!(!bob.get(&attempt.path()).expect(200).text.contains("id=\"warning\""));
}

#[test]
fn the_headers_keep_the_page_to_itself() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    registered(&server, "ada", "https://app.test/callback");
    let dh = OAuthClient::dh(server.address());
    let attempt = dh.attempt("api_read_write");
    let policy = |page: &super::Page| page.headers["content-security-policy"].to_str().unwrap().to_owned();
    let page = ada.get(&attempt.path()).expect(200);
    assert!(policy(&page).contains("; form-action 'self' http://localhost:53682; "), "{}", policy(&page));
    assert!(policy(&page).contains("frame-ancestors 'none'") && policy(&page).contains("base-uri 'none'"));
    for (name, value) in [
        ("cache-control", "no-store"),
        ("referrer-policy", "same-origin"),
        ("x-content-type-options", "nosniff"),
        ("cross-origin-opener-policy", "same-origin"),
    ] {
        assert_eq!(page.headers[name], value, "{name}");
    }
    // No other page has another target of its forms, not even one that names a redirect URI.
    let wrong = attempt.path().replace("localhost%3A53682", "evil.test");
    for path in ["/settings/applications", "/oauth/device", "/", wrong.as_str()] {
        let page = ada.get(path);
        assert!(policy(&page).contains("form-action 'self'; "), "{path}: {}", policy(&page));
    }
    let ipv6 = ada.get(&dh.attempt_at("http://[::1]:53682/callback", "api_read").path()).expect(200);
    assert!(policy(&ipv6).contains("; form-action 'self' http:; "), "{}", policy(&ipv6));

    for decision in ["approve", "deny"] {
        let sent = decide(&ada, &attempt, decision).expect(303);
        assert_eq!((&sent.headers["cache-control"], sent.text.as_str()), (&"no-store".parse().unwrap(), ""));
        assert_eq!(sent.headers["referrer-policy"], "same-origin");
        let location = sent.location.unwrap();
        let answer = attempt.answer(&location);
        assert!(answer.contains(&("iss".to_owned(), server.address())), "{location}");
        assert_eq!(answer.len(), if decision == "approve" { 3 } else { 4 }, "{location}");
    }
}

#[test]
fn nothing_is_granted_by_looking() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    let dh = OAuthClient::dh(server.address());
    let attempt = dh.attempt("api_read_write");
    let approving = format!("{}&decision=approve&csrf={}", attempt.path(), csrf(&ada).1);
    for path in [&attempt.path(), &approving] {
        for _ in 0..2 {
            ada.get(path).expect(200).shows("id=\"approve\"");
        }
        // As browsers do that look ahead.
        let client = reqwest::blocking::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
        let client = client.build().unwrap();
        let cookies: Vec<String> = ada.cookies.borrow().iter().map(|(name, value)| format!("{name}={value}")).collect();
        for method in [Method::HEAD, Method::GET] {
            let request = client.request(method, format!("{}{path}", server.address()));
            let answer = request.header("cookie", cookies.join("; ")).header("purpose", "prefetch").send().unwrap();
            assert_eq!((answer.status().as_u16(), answer.headers().get("location")), (200, None));
        }
    }
    assert_eq!(granted(&server), NOTHING);
    ada.get(APPLICATIONS).expect(200).shows("You haven't authorized any applications");
    // A form without a decision decides nothing either.
    let page = ada.get(&attempt.path()).expect(200);
    for decision in ["", "Approve", "yes"] {
        leads_nowhere(ada.submit(&page, AUTHORIZE, &[("decision", decision)]), decision);
    }
    leads_nowhere(ada.submit(&page, AUTHORIZE, &[]), "no decision");
    assert_eq!(granted(&server), NOTHING);

    let tokens = authorize(&ada, &dh, &attempt);
    assert_eq!((granted(&server), status(&server.anonymous(), &tokens)), ([0, 1, 1], 200));
}

#[test]
fn a_visitor_signs_in_first_and_comes_back() {
    let server = open_server();
    sign_up(&server, "ada");
    let browser = Browser::at(&server);
    let mut attempt = OAuthClient::dh(server.address()).attempt("api_read_write");
    "a b+c%26d=e&f#g\"<\u{e9}>".clone_into(&mut attempt.state);
    let sent = browser.get(&attempt.path()).expect(303);
    assert!(sent.location.as_deref().unwrap().starts_with("/sign-in?next=%2Foauth%2Fauthorize%3F"));
    let page = browser.follow(&sent).expect(200);
    let wrong = browser.submit(&page, "/sign-in", &[("name", "ada"), ("password", "wrong horse")]).expect(422);
    let done = browser.submit(&wrong, "/sign-in", &[("name", "ada"), ("password", PASSWORD)]).expect(303);
    assert_eq!(done.location, Some(attempt.path()));
    let page = browser.follow(&done).expect(200);
    let mut fields = page.hidden_fields(AUTHORIZE);
    fields.retain(|(name, _)| name != "csrf");
    assert_eq!(fields, attempt.parameters());
    let location = browser.submit(&page, AUTHORIZE, &[("decision", "approve")]).expect(303).location.unwrap();
    attempt.code(&location);

    // A form of a visitor leads to the sign-in page, and grants nothing.
    let before = granted(&server);
    let visitor = Browser::at(&server);
    let mut fields = attempt.parameters();
    fields.extend([csrf(&visitor), ("decision".to_owned(), "approve".to_owned())]);
    let sent = visitor.forge(AUTHORIZE, &fields, &[]).expect(303);
    assert!(sent.location.unwrap().starts_with("/sign-in?next="));
    assert_eq!(granted(&server), before);
    // An API token is no session.
    let program = server.actor_of("ada");
    let request = program.plain(Method::GET, &attempt.path()).bearer_auth(program.token().unwrap());
    assert!(!program.send(request).text.contains("id=\"approve\""));
}

#[test]
fn a_refusal_is_sent_to_the_application() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    let attempt = OAuthClient::dh(server.address()).attempt("api_read_write");
    let location = decide(&ada, &attempt, "deny").expect(303).location.unwrap();
    assert_eq!(attempt.error(&location), "access_denied");
    let answer = attempt.answer(&location);
    let names: Vec<&str> = answer.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["error", "error_description", "state", "iss"]);
    assert_eq!(granted(&server), NOTHING);
}

#[test]
fn a_form_without_its_token_or_from_elsewhere_grants_nothing() {
    let server = open_server();
    let (ada, bob) = (sign_up(&server, "ada"), sign_up(&server, "bob"));
    let dh = OAuthClient::dh(server.address());
    let tokens = authorize(&ada, &dh, &dh.attempt("api_read"));
    let application = registered(&server, "ada", "https://app.test/callback");
    let device = dh.begin_device("api_read_write").expect(200).json();
    let (device_code, user_code) = (device["device_code"].as_str().unwrap(), device["user_code"].as_str().unwrap());
    let user = server.hub().people().user_named("ada").unwrap();
    let grant = server.hub().grants().list(&user, None, 1).unwrap().remove(0).grant.id;

    let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut consent = dh.attempt("api_read_write").parameters();
    consent.push(field("decision", "approve"));
    let forms = [
        (AUTHORIZE.to_owned(), consent),
        (DEVICE.to_owned(), vec![field("user_code", user_code), field("decision", "approve")]),
        (APPLICATIONS.to_owned(), vec![field("name", "x"), field("redirect_uris", "https://a.test/")]),
        (format!("{APPLICATIONS}/grants/{grant}/revoke"), vec![]),
        (format!("{APPLICATIONS}/{}/delete", application.id()), vec![]),
        (format!("/admin/users/ada/grants/{grant}/revoke"), Vec::new()),
        (format!("/admin/applications/{}/delete", application.id()), vec![]),
    ];
    let (good, foreign) = (csrf(&ada), csrf(&bob));
    let before = granted(&server);
    for (form, fields) in &forms {
        let with = |token: Option<&(String, String)>| fields.iter().chain(token).cloned().collect::<Vec<_>>();
        let cases: [Case<'_>; 6] = [
            (None, &[]),
            (Some(&field("csrf", "")), &[]),
            (Some(&foreign), &[]),
            (Some(&good), &[("Origin", "https://evil.test")]),
            (Some(&good), &[("Origin", "null")]),
            (Some(&good), &[("Sec-Fetch-Site", "cross-site")]),
        ];
        for (token, headers) in cases {
            ada.forge(form, &with(token), headers).expect(403).shows("Your session changed");
        }
        // The token alone is not enough: that of ada is good in the browser of ada.
        bob.forge(form, &with(Some(&good)), &[]).expect(403);
        Browser::at(&server).forge(form, &with(Some(&good)), &[]).expect(403);
    }
    assert_eq!((granted(&server), status(&server.anonymous(), &tokens)), (before, 200));
    assert_eq!(dh.poll(device_code).json()["error"], "authorization_pending");
    let own = server.hub().applications().list(&user, None, 10).unwrap();
    assert_eq!(own.len(), 1);
}

/// A session that another person got hold of must not be enough for what lasts.
#[test]
fn the_password_is_asked_for_again() {
    let clock = Arc::new(FixedClock::at(Timestamp::from_micros(1_790_000_000_000_000)));
    let server = Server::with_clock(Arc::clone(&clock));
    let ada = signed_in(&server, "ada", false);
    let dh = OAuthClient::dh(server.address());
    let attempt = dh.attempt("api_read_write");
    clock.advance_seconds(15 * 60);
    let sent = decide(&ada, &attempt, "approve").expect(303);
    assert!(sent.location.as_deref().unwrap().starts_with("/settings/confirm?next="));
    assert_eq!(granted(&server), NOTHING);
    let ask = ada.follow(&sent).expect(200).shows("Confirm your password");
    let right = ada.submit(&ask, "/settings/confirm", &[("password", PASSWORD)]).expect(303);
    let page = ada.follow(&right).expect(200).shows("id=\"approve\"");
    let location = ada.submit(&page, AUTHORIZE, &[("decision", "approve")]).expect(303).location.unwrap();
    OAuthTokens::of(&dh.redeem(&attempt, &attempt.code(&location)));

    clock.advance_seconds(15 * 60);
    // To refuse takes no password.
    let refused = decide(&ada, &attempt, "deny").expect(303).location.unwrap();
    assert_eq!(attempt.error(&refused), "access_denied");
    let device = dh.begin_device("api_read").expect(200).json();
    let path = format!("{DEVICE}?user_code={}", device["user_code"].as_str().unwrap());
    let page = ada.get(&path).expect(200);
    let sent = ada.submit(&page, DEVICE, &[("decision", "approve")]).expect(303);
    assert!(sent.location.as_deref().unwrap().starts_with("/settings/confirm?next="));
    assert_eq!(dh.poll(device["device_code"].as_str().unwrap()).json()["error"], "authorization_pending");
}

#[test]
fn an_application_whose_owner_is_suspended_gets_nothing() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    sign_up(&server, "bob");
    let application = registered(&server, "bob", "https://app.test/callback");
    let attempt = application.attempt_at("https://app.test/callback", "api_read");
    let tokens = authorize(&ada, &application, &attempt);
    let visitor = server.anonymous();
    assert_eq!(status(&visitor, &tokens), 200);
    let open = ada.get(&attempt.path()).expect(200);
    let administration = server.hub().administration();
    let operator = administration.operator();
    administration.suspend(&operator, "bob").unwrap();
    leads_nowhere(ada.get(&attempt.path()), "the page");
    leads_nowhere(ada.submit(&open, AUTHORIZE, &[("decision", "approve")]), "the form");
    leads_nowhere(ada.submit(&open, AUTHORIZE, &[("decision", "deny")]), "the refusal");
    leads_nowhere(Browser::at(&server).get(&attempt.path()), "the page of a visitor");
    assert_eq!(status(&visitor, &tokens), 401);
    assert_eq!(application.refresh(&tokens.refresh).expect(400).json()["error"], "invalid_client");
    ada.get(APPLICATIONS).expect(200).shows("Owner suspended");

    administration.resume(&operator, "bob").unwrap();
    ada.get(&attempt.path()).expect(200);
    assert_eq!(status(&visitor, &tokens), 200);
    OAuthTokens::of(&application.refresh(&tokens.refresh));
}

#[test]
fn a_suspended_user_consents_to_nothing() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    let attempt = OAuthClient::dh(server.address()).attempt("api_read");
    let open = ada.get(&attempt.path()).expect(200);
    let administration = server.hub().administration();
    administration.suspend(&administration.operator(), "ada").unwrap();
    ada.submit(&open, AUTHORIZE, &[("decision", "approve")]).expect(403);
    ada.get(&attempt.path()).expect(303);
    assert_eq!(granted(&server), NOTHING);
    sign_in(&Browser::at(&server), "ada", PASSWORD).expect(403);
}

#[test]
fn each_consent_has_a_code_of_its_own() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    let attempt = OAuthClient::dh(server.address()).attempt("api_read");
    assert_ne!(approve(&ada, &attempt), approve(&ada, &attempt));
    assert_eq!(granted(&server), [2, 0, 0]);
    // No user is named as the path of these pages begins.
    let page = Browser::at(&server);
    let form = page.get("/sign-up").expect(200);
    let fields = [("name", "oauth"), ("email", "a@b.test"), ("password", PASSWORD)];
    page.submit(&form, "/sign-up", &fields).expect(422).shows("is reserved");
}

/// A form may take long to arrive. Its session is looked up before, and again after it.
#[test]
fn a_session_that_ends_while_its_form_arrives_grants_nothing() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    let attempt = OAuthClient::dh(server.address()).attempt("api_read_write");
    let page = ada.get(&attempt.path()).expect(200);
    let user = server.hub().people().user_named("ada").unwrap();
    let mut fields = page.hidden_fields(AUTHORIZE);
    fields.push(("decision".to_owned(), "approve".to_owned()));
    let body = form_encoded(&fields);
    let cookies: Vec<String> = ada.cookies.borrow().iter().map(|(name, value)| format!("{name}={value}")).collect();
    let send = |before_the_end: &dyn Fn()| {
        let host = server.address().replace("http://", "");
        let mut stream = TcpStream::connect(&host).unwrap();
        let head = format!(
            "POST {AUTHORIZE} HTTP/1.1\r\nHost: {host}\r\nCookie: {}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            cookies.join("; "),
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        let (start, last) = body.split_at(body.len() - 1);
        stream.write_all(start.as_bytes()).unwrap();
        // Until the server has looked up the session, which it does once it has the head.
        std::thread::sleep(std::time::Duration::from_millis(300));
        before_the_end();
        stream.write_all(last.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let ended = send(&|| server.hub().sessions().end_all(&user, None).unwrap());
    assert!(ended.starts_with("HTTP/1.1 403 ") && ended.contains("Your session changed"), "{ended}");
    assert_eq!(granted(&server), NOTHING);
    let browser = Browser::at(&server);
    sign_in(&browser, "ada", PASSWORD).expect(303);
    approve(&browser, &attempt);
}

/// Any user can register an application whose requests are not valid. Others are shown its mistake, and not sent to its site.
#[test]
fn a_mistake_of_an_application_leads_others_nowhere_by_itself() {
    let server = open_server();
    let (ada, bob) = (sign_up(&server, "ada"), sign_up(&server, "bob"));
    let application = registered(&server, "bob", "https://evil.test/callback");
    let path = application.attempt_at("https://evil.test/callback", "api_read").path().replace("api_read", "admin");
    let page = ada.get(&path);
    assert_eq!((page.status, page.location.as_deref()), (400, None), "{}", page.text);
    let page = page.shows("The application made a mistake").shows("Return to the application");
    assert!(unescaped(&page.text).contains("href=\"https://evil.test/callback?error=invalid_scope&"), "{}", page.text);
    let own = bob.get(&path).expect(303).location.unwrap();
    assert!(own.starts_with("https://evil.test/callback?error=invalid_scope&"), "{own}");
    let loopback = OAuthClient::dh(server.address()).attempt("admin");
    assert_eq!(loopback.error(&ada.get(&loopback.path()).expect(303).location.unwrap()), "invalid_scope");
    assert_eq!(granted(&server), NOTHING);
}
