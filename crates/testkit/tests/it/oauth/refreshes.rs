//! Refresh tokens: how they replace each other, and how they end.

use branchyard_testkit::{OAuthClient, OAuthTokens};
use reqwest::Method;

use super::{OAuthHarness, at_once, refused};

#[test]
fn a_refresh_token_is_replaced_and_good_for_another_minute() {
    let harness = OAuthHarness::new();
    let first = harness.authorized("api_read_write");
    let second = OAuthTokens::of(&harness.dh.refresh(&first.refresh));
    assert!(second.refresh != first.refresh && second.access != first.access);
    harness.clock.advance_seconds(59);
    let again = OAuthTokens::of(&harness.dh.refresh(&first.refresh));
    assert_eq!(again.refresh, second.refresh);
    assert_ne!(again.access, second.access);
    for tokens in [&first, &second, &again] {
        assert_eq!(harness.status(&tokens.access), 200);
    }

    // Later, two clients must have it.
    harness.clock.advance_seconds(1);
    refused(&harness.dh.refresh(&first.refresh), "invalid_grant");
    refused(&harness.dh.refresh(&second.refresh), "invalid_grant");
    for tokens in [&first, &second, &again] {
        assert_eq!(harness.status(&tokens.access), 401);
    }
    assert_eq!(harness.grants(), 0);
}

#[test]
fn an_older_token_ends_its_family_at_once_and_no_other_one() {
    let harness = OAuthHarness::new();
    let unrelated = harness.authorized("api_read");
    let first = harness.authorized("api_read_write");
    let second = OAuthTokens::of(&harness.dh.refresh(&first.refresh));
    let third = OAuthTokens::of(&harness.dh.refresh(&second.refresh));
    refused(&harness.dh.refresh(&first.refresh), "invalid_grant");
    for tokens in [&first, &second, &third] {
        refused(&harness.dh.refresh(&tokens.refresh), "invalid_grant");
        assert_eq!(harness.status(&tokens.access), 401);
    }
    assert_eq!((harness.grants(), harness.status(&unrelated.access)), (1, 200));
    OAuthTokens::of(&harness.dh.refresh(&unrelated.refresh));
}

#[test]
fn tokens_and_grants_end_with_time() {
    let harness = OAuthHarness::new();
    let first = harness.authorized("api_read");
    harness.clock.advance_seconds(3_599);
    assert_eq!(harness.status(&first.access), 200);
    harness.clock.advance_seconds(1);
    let late = harness.send(Method::GET, "/api/v2/user", &first.access).expect(401);
    assert!(late.header("www-authenticate").contains("error=\"invalid_token\""));
    let second = OAuthTokens::of(&harness.dh.refresh(&first.refresh));
    assert_eq!(harness.status(&second.access), 200);
    harness.clock.advance_seconds(90 * 86_400 - 1);
    let third = OAuthTokens::of(&harness.dh.refresh(&second.refresh));
    harness.clock.advance_seconds(90 * 86_400);
    refused(&harness.dh.refresh(&third.refresh), "invalid_grant");
}

#[test]
fn a_refresh_narrows_the_scope_and_never_widens_it() {
    let harness = OAuthHarness::new();
    let first = harness.authorized("api_read_write");
    let narrow = OAuthTokens::of(&harness.dh.refresh_with(&first.refresh, "api_read"));
    assert_eq!(narrow.scope, "api_read");
    assert_eq!(harness.status(&narrow.access), 200);
    assert_eq!(harness.send(Method::POST, "/api/v2/databases", &narrow.access).status, 403);
    // The grant is as wide as before.
    let wide = OAuthTokens::of(&harness.dh.refresh(&narrow.refresh));
    assert_eq!(wide.scope, "api_read_write");
    assert_ne!(harness.send(Method::POST, "/api/v2/databases", &wide.access).status, 403);

    let read = harness.authorized("api_read");
    for (scope, error) in [
        ("api_read_write", "invalid_scope"),
        ("api_read api_read_write", "invalid_scope"),
        ("admin", "invalid_scope"),
        ("api_read  api_read", "invalid_scope"),
    ] {
        refused(&harness.dh.refresh_with(&read.refresh, scope), error);
    }
    // None of these used the token up.
    let next = OAuthTokens::of(&harness.dh.refresh(&read.refresh));
    assert_eq!(next.scope, "api_read");
    OAuthTokens::of(&harness.dh.refresh(&next.refresh));
}

#[test]
fn a_suspended_user_gets_and_uses_no_tokens() {
    let harness = OAuthHarness::new();
    let first = harness.authorized("api_read_write");
    assert_eq!(harness.status(&first.access), 200);
    harness.suspend("ada");
    assert_eq!(harness.status(&first.access), 401);
    refused(&harness.dh.refresh(&first.refresh), "invalid_grant");
    harness.resume("ada");
    assert_eq!(harness.status(&first.access), 200);
    let second = OAuthTokens::of(&harness.dh.refresh(&first.refresh));
    assert_eq!(harness.status(&second.access), 200);
}

#[test]
fn the_refresh_token_of_another_application_is_none() {
    let harness = OAuthHarness::new();
    let other = harness.other_application();
    let tokens = harness.authorized("api_read_write");
    refused(&other.refresh(&tokens.refresh), "invalid_grant");
    // An access token, an API token and half a refresh token are none either.
    let api = harness.server.actor_of("ada").token().unwrap().to_owned();
    for text in [&tokens.access, &api, &tokens.refresh[..40].to_owned()] {
        refused(&harness.dh.refresh(text), "invalid_grant");
    }
    OAuthTokens::of(&harness.dh.refresh(&tokens.refresh));
}

#[test]
fn two_refreshes_at_once_get_the_same_refresh_token() {
    let harness = OAuthHarness::new();
    let mut newest = harness.authorized("api_read_write");
    for _ in 0..5 {
        let [one, two] = at_once(|| OAuthTokens::of(&harness.dh.refresh(&newest.refresh)));
        assert_eq!(one.refresh, two.refresh);
        assert_ne!(one.access, two.access);
        assert_eq!((harness.status(&one.access), harness.status(&two.access)), (200, 200));
        newest = one;
    }
    assert_eq!(harness.grants(), 1);
}

#[test]
fn refresh_tokens_outlive_a_restart() {
    let mut harness = OAuthHarness::new();
    let first = harness.authorized("api_read_write");
    let second = OAuthTokens::of(&harness.dh.refresh(&first.refresh));
    harness.server.restart();
    harness.visitor = harness.server.anonymous();
    harness.dh = OAuthClient::dh(harness.server.address());
    assert_eq!(harness.status(&second.access), 200);
    // The answer of the first refresh may not have arrived.
    let again = OAuthTokens::of(&harness.dh.refresh(&first.refresh));
    assert_eq!(again.refresh, second.refresh);
    OAuthTokens::of(&harness.dh.refresh(&second.refresh));
}
