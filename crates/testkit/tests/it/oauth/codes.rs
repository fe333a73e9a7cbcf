//! Authorization codes.

use branchyard_testkit::{AuthorizationAttempt, OAuthClient, OAuthTokens};

use super::{OAuthHarness, at_once, refused};

#[test]
fn a_code_is_good_once_and_a_second_time_ends_what_it_was_good_for() {
    let harness = OAuthHarness::new();
    let unrelated = harness.authorized("api_read");
    let (attempt, code) = harness.approved();
    let tokens = OAuthTokens::of(&harness.dh.redeem(&attempt, &code));
    let refreshed = OAuthTokens::of(&harness.dh.refresh(&tokens.refresh));
    assert_eq!((harness.status(&tokens.access), harness.status(&refreshed.access)), (200, 200));
    assert_eq!(harness.grants(), 2);

    refused(&harness.dh.redeem(&attempt, &code), "invalid_grant");
    assert_eq!((harness.status(&tokens.access), harness.status(&refreshed.access)), (401, 401));
    refused(&harness.dh.refresh(&tokens.refresh), "invalid_grant");
    refused(&harness.dh.refresh(&refreshed.refresh), "invalid_grant");
    assert_eq!(harness.grants(), 1);
    assert_eq!(harness.status(&unrelated.access), 200);
    OAuthTokens::of(&harness.dh.refresh(&unrelated.refresh));
}

#[test]
fn a_code_is_good_only_with_what_was_sent_for_it() {
    let harness = OAuthHarness::new();
    let other = harness.other_application();
    let (attempt, code) = harness.approved();
    let redeemed = |change: &dyn Fn(&mut AuthorizationAttempt)| {
        let mut changed = attempt.clone();
        change(&mut changed);
        harness.dh.redeem(&changed, &code)
    };
    refused(&other.redeem(&attempt, &code), "invalid_grant");
    for uri in [
        "http://localhost:53683/callback",
        "http://localhost/callback",
        "http://127.0.0.1:53682/callback",
        "http://localhost:53682/callback/",
        "http://localhost:53682/callback?a=b",
        "HTTP://localhost:53682/callback",
        "https://evil.test/callback",
    ] {
        refused(&redeemed(&|changed| uri.clone_into(&mut changed.redirect_uri)), "invalid_grant");
    }
    let verifiers = [
        "w".repeat(43),
        // The verifier is not the challenge, which everyone may have seen.
        attempt.challenge(),
        attempt.verifier[..42].to_owned(),
        format!("{}a", attempt.verifier),
        "w".repeat(129),
        format!("{}+", &attempt.verifier[..42]),
    ];
    for verifier in verifiers {
        refused(&redeemed(&|changed| changed.verifier.clone_from(&verifier)), "invalid_grant");
    }
    let without_verifier = [
        ("grant_type", "authorization_code"),
        ("client_id", "dh"),
        ("code", code.as_str()),
        ("redirect_uri", attempt.redirect_uri.as_str()),
    ];
    refused(&harness.dh.post(OAuthClient::TOKEN, &without_verifier), "invalid_request");
    assert_eq!(harness.grants(), 0);

    // All of these failed for their own reason: the code itself is good.
    let tokens = OAuthTokens::of(&harness.dh.redeem(&attempt, &code));
    assert_eq!(harness.status(&tokens.access), 200);
}

#[test]
fn a_code_is_good_for_a_minute() {
    let harness = OAuthHarness::new();
    let (attempt, code) = harness.approved();
    let (late_attempt, late_code) = harness.approved();
    harness.clock.advance_seconds(59);
    OAuthTokens::of(&harness.dh.redeem(&attempt, &code));
    harness.clock.advance_seconds(1);
    refused(&harness.dh.redeem(&late_attempt, &late_code), "invalid_grant");
    assert_eq!(harness.grants(), 1);
}

#[test]
fn codes_of_two_requests_are_not_exchanged() {
    let harness = OAuthHarness::new();
    let ((one, code_of_one), (two, code_of_two)) = (harness.approved(), harness.approved());
    assert_ne!(code_of_one, code_of_two);
    refused(&harness.dh.redeem(&one, &code_of_two), "invalid_grant");
    refused(&harness.dh.redeem(&two, &code_of_one), "invalid_grant");
    OAuthTokens::of(&harness.dh.redeem(&one, &code_of_one));
    OAuthTokens::of(&harness.dh.redeem(&two, &code_of_two));
}

#[test]
fn a_user_who_was_suspended_in_between_grants_nothing() {
    let harness = OAuthHarness::new();
    let (attempt, code) = harness.approved();
    harness.suspend("ada");
    refused(&harness.dh.redeem(&attempt, &code), "invalid_grant");
    assert_eq!(harness.grants(), 0);
}

#[test]
fn an_application_whose_owner_was_suspended_in_between_gets_nothing() {
    let harness = OAuthHarness::new();
    let other = harness.other_application();
    let attempt = other.attempt("api_read");
    let code = harness.ada.approve(&attempt);
    harness.suspend("bob");
    refused(&other.redeem(&attempt, &code), "invalid_client");
    assert_eq!(harness.grants(), 0);
}

#[test]
fn two_redemptions_at_once_leave_no_valid_token() {
    let harness = OAuthHarness::new();
    for _ in 0..3 {
        let (attempt, code) = harness.approved();
        let answers = at_once(|| harness.dh.redeem(&attempt, &code));
        let (succeeded, failed): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
        assert_eq!((succeeded.len(), failed.len()), (1, 1), "{answers:?}");
        refused(failed[0], "invalid_grant");
        // The second one may be that of a thief, and it may be the one that succeeded.
        let tokens = OAuthTokens::of(succeeded[0]);
        assert_eq!(harness.status(&tokens.access), 401);
        refused(&harness.dh.refresh(&tokens.refresh), "invalid_grant");
        assert_eq!(harness.grants(), 0);
    }
}
