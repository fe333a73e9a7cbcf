//! Tokens that applications give back.

use branchyard_testkit::{OAuthClient, OAuthTokens};

use super::{OAuthHarness, refused};

#[test]
fn a_refresh_token_ends_its_grant() {
    let harness = OAuthHarness::new();
    let (first, other) = (harness.authorized("api_read_write"), harness.authorized("api_read_write"));
    let second = OAuthTokens::of(&harness.dh.refresh(&first.refresh));
    assert_eq!((harness.status(&first.access), harness.status(&second.access)), (200, 200));
    let revoked = harness.dh.revoke(&second.refresh).expect(200);
    assert_eq!(revoked.header("cache-control"), "no-store");
    assert_eq!((harness.status(&first.access), harness.status(&second.access)), (401, 401));
    refused(&harness.dh.refresh(&first.refresh), "invalid_grant");
    refused(&harness.dh.refresh(&second.refresh), "invalid_grant");
    harness.dh.revoke(&second.refresh).expect(200);
    assert_eq!((harness.grants(), harness.status(&other.access)), (1, 200));
}

#[test]
fn an_access_token_ends_alone() {
    let harness = OAuthHarness::new();
    let first = harness.authorized("api_read_write");
    let second = OAuthTokens::of(&harness.dh.refresh(&first.refresh));
    assert_eq!(harness.status(&first.access), 200);
    harness.dh.revoke(&first.access).expect(200);
    assert_eq!((harness.status(&first.access), harness.status(&second.access)), (401, 200));
    harness.dh.revoke(&first.access).expect(200);
    assert_eq!(harness.grants(), 1);
    OAuthTokens::of(&harness.dh.refresh(&second.refresh));
}

#[test]
fn a_token_of_another_application_is_left_alone() {
    let harness = OAuthHarness::new();
    let other = harness.other_application();
    let tokens = harness.authorized("api_read_write");
    refused(&other.revoke(&tokens.access), "invalid_grant");
    refused(&other.revoke(&tokens.refresh), "invalid_grant");
    assert_eq!((harness.grants(), harness.status(&tokens.access)), (1, 200));
    OAuthTokens::of(&harness.dh.refresh(&tokens.refresh));
}

#[test]
fn an_api_token_is_no_token_of_an_application_and_other_texts_are_none() {
    let harness = OAuthHarness::new();
    let ada = harness.server.actor_of("ada");
    refused(&harness.dh.revoke(ada.token().unwrap()), "unsupported_token_type");
    ada.get("/user").expect(200);

    let tokens = harness.authorized("api_read");
    let mut damaged = tokens.access.clone();
    damaged.replace_range(20..21, if &damaged[20..21] == "a" { "b" } else { "a" });
    for rubbish in ["rubbish", "hsoa.v1.", "hsat.v1.rubbish", &tokens.access[..50], &damaged, "\u{e9}"] {
        let answer = harness.dh.revoke(rubbish).expect(200);
        assert_eq!((answer.text.as_str(), answer.header("cache-control")), ("", "no-store"), "{rubbish}");
    }
    assert_eq!(harness.status(&tokens.access), 200);
    // The hint may be wrong (RFC 7009 §2.1).
    let fields = [("client_id", "dh"), ("token", tokens.access.as_str()), ("token_type_hint", "refresh_token")];
    harness.dh.post(OAuthClient::REVOCATION, &fields).expect(200);
    assert_eq!((harness.status(&tokens.access), harness.grants()), (401, 1));
}
