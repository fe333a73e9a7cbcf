//! Limits of attempts with wrong codes and tokens.

use std::net::{IpAddr, Ipv4Addr};

use branchyard_testkit::{OAuthClient, OAuthTokens, TestAnswer};

use super::{NO_CODE, OAuthHarness, has_form_of_error, refused};

/// Failed attempts of one address in a minute.
const FAILURES: usize = 20;
/// Devices of one address that begin to wait in ten minutes.
const DEVICES: usize = 30;

/// Checks that a client is refused because it is too fast.
#[track_caller]
fn too_fast(answer: &TestAnswer, longest: i64) {
    assert_eq!((answer.status, answer.json()["error"].as_str()), (429, Some("slow_down")), "{}", answer.text);
    has_form_of_error(answer);
    let seconds: i64 = answer.header("retry-after").parse().unwrap();
    assert!((1..=longest).contains(&seconds), "{seconds}");
}

/// Returns `dh` on another machine.
fn elsewhere(harness: &OAuthHarness) -> OAuthClient {
    let address = IpAddr::from(Ipv4Addr::new(127, 0, 0, 2));
    let client = reqwest::blocking::Client::builder().no_proxy().local_address(address).build().unwrap();
    harness.dh.clone().with_client(client)
}

#[test]
fn guesses_are_slowed_down_and_valid_codes_and_tokens_pass() {
    let harness = OAuthHarness::new();
    let (attempt, code) = harness.approved();
    let tokens = harness.authorized("api_read");
    for number in 0..FAILURES {
        // All kinds count together.
        let answer = match number % 4 {
            0 => harness.dh.redeem(&attempt, NO_CODE),
            1 => harness.dh.redeem(&attempt, "not a code"),
            2 => harness.dh.refresh("not a token"),
            _ => harness.dh.poll(NO_CODE),
        };
        refused(&answer, "invalid_grant");
    }
    too_fast(&harness.dh.redeem(&attempt, NO_CODE), 60);
    too_fast(&harness.dh.refresh("not a token"), 60);
    too_fast(&harness.dh.poll(NO_CODE), 60);
    // The client identifier is public, so another one makes no difference.
    too_fast(&OAuthClient::new(harness.server.address(), "other").redeem(&attempt, NO_CODE), 60);

    // The users of the same address are not locked out.
    OAuthTokens::of(&harness.dh.redeem(&attempt, &code));
    OAuthTokens::of(&harness.dh.refresh(&tokens.refresh));
    harness.dh.begin_device("api_read").expect(200);
    // A malformed request is no guess.
    refused(&harness.dh.post(OAuthClient::TOKEN, &[]), "invalid_request");
    if cfg!(target_os = "linux") {
        refused(&elsewhere(&harness).redeem(&attempt, NO_CODE), "invalid_grant");
    }
    harness.clock.advance_seconds(60);
    refused(&harness.dh.redeem(&attempt, NO_CODE), "invalid_grant");
}

#[test]
fn an_address_has_few_devices_that_wait() {
    let harness = OAuthHarness::new();
    for _ in 0..DEVICES {
        harness.dh.begin_device("api_read").expect(200);
    }
    too_fast(&harness.dh.begin_device("api_read"), 600);
    if cfg!(target_os = "linux") {
        elsewhere(&harness).begin_device("api_read").expect(200);
    }
    // Tokens are issued all the same.
    harness.authorized("api_read");
    harness.clock.advance_seconds(600);
    harness.dh.begin_device("api_read").expect(200);
}
