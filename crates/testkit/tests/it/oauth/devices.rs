//! The device grant (RFC 8628).

use branchyard_testkit::{OAuthClient, OAuthTokens};
use reqwest::Method;

use super::{OAuthHarness, at_once, refused};

/// The codes of a device that waits for its user.
struct WaitingDevice {
    device_code: String,
    user_code: String,
}

impl OAuthHarness {
    fn waiting_device(&self, scope: &str) -> WaitingDevice {
        let json = self.dh.begin_device(scope).expect(200).json();
        let text = |name: &str| json[name].as_str().unwrap().to_owned();
        WaitingDevice { device_code: text("device_code"), user_code: text("user_code") }
    }
}

#[test]
fn a_device_waits_until_its_user_approves() {
    let harness = OAuthHarness::new();
    let answer = harness.dh.begin_device("api_read_write").expect(200);
    assert_eq!((answer.header("content-type"), answer.header("cache-control")), ("application/json", "no-store"));
    let json = answer.json();
    let page = format!("{}/oauth/device", harness.server.address());
    let text = |name: &str| json[name].as_str().unwrap();
    let (device_code, user_code) = (text("device_code"), text("user_code"));
    assert_eq!(json["expires_in"], 600);
    assert_eq!(json["interval"], 5);
    assert_eq!(json["verification_uri"], page.as_str());
    assert_eq!(json["verification_uri_complete"], format!("{page}?user_code={user_code}"));
    assert!(user_code.len() == 9 && user_code.as_bytes()[4] == b'-', "{user_code}");

    refused(&harness.dh.poll(device_code), "authorization_pending");
    refused(&harness.dh.poll(device_code), "slow_down");
    // The user types the code in another form.
    let typed = user_code.replace('-', "").to_lowercase();
    harness.ada.decide_device(&typed, "approve").expect(303);
    let tokens = OAuthTokens::of(&harness.dh.poll(device_code));
    assert_eq!(tokens.scope, "api_read_write");
    let user = harness.send(Method::GET, "/api/v2/user", &tokens.access).expect(200).data();
    assert_eq!(user["username"], "ada");
    refused(&harness.dh.poll(device_code), "invalid_grant");
    // What the device received stays valid.
    let next = OAuthTokens::of(&harness.dh.refresh(&tokens.refresh));
    assert_eq!((harness.status(&tokens.access), harness.status(&next.access)), (200, 200));
    harness.ada.get(&format!("/oauth/device?user_code={user_code}")).expect(422);
}

#[test]
fn a_device_that_polls_too_often_has_to_wait_longer() {
    let harness = OAuthHarness::new();
    let device = harness.waiting_device("api_read");
    let poll_after = |seconds: i64, error: &str| {
        harness.clock.advance_seconds(seconds);
        refused(&harness.dh.poll(&device.device_code), error);
    };
    poll_after(0, "authorization_pending");
    poll_after(5, "authorization_pending");
    poll_after(4, "slow_down");
    // 10 s from now on, and 15 s after another one that comes too early.
    poll_after(9, "slow_down");
    poll_after(15, "authorization_pending");
    poll_after(14, "slow_down");
    // An answer of the user is not held back.
    harness.ada.decide_device(&device.user_code, "approve").expect(303);
    assert_eq!(OAuthTokens::of(&harness.dh.poll(&device.device_code)).scope, "api_read");
}

#[test]
fn a_user_refuses_a_device() {
    let harness = OAuthHarness::new();
    let device = harness.waiting_device("api_read_write");
    harness.ada.decide_device(&device.user_code, "deny").expect(303);
    harness.ada.get(&format!("/oauth/device?user_code={}", device.user_code)).expect(422);
    refused(&harness.dh.poll(&device.device_code), "access_denied");
    refused(&harness.dh.poll(&device.device_code), "invalid_grant");
    assert_eq!(harness.grants(), 0);
}

#[test]
fn a_device_waits_for_ten_minutes() {
    let harness = OAuthHarness::new();
    let (approved, pending) = (harness.waiting_device("api_read"), harness.waiting_device("api_read"));
    harness.clock.advance_seconds(599);
    harness.ada.decide_device(&approved.user_code, "approve").expect(303);
    refused(&harness.dh.poll(&pending.device_code), "authorization_pending");
    harness.clock.advance_seconds(1);
    // Devices that begin to wait make room, and leave those that have to learn of it.
    harness.waiting_device("api_read");
    refused(&harness.dh.poll(&approved.device_code), "expired_token");
    refused(&harness.dh.poll(&pending.device_code), "expired_token");
    harness.ada.get(&format!("/oauth/device?user_code={}", pending.user_code)).expect(422);
    harness.clock.advance_seconds(600);
    harness.waiting_device("api_read");
    refused(&harness.dh.poll(&pending.device_code), "invalid_grant");
    assert_eq!(harness.grants(), 0);
}

#[test]
fn a_device_belongs_to_its_application() {
    let harness = OAuthHarness::new();
    let other = harness.other_application();
    let device = harness.waiting_device("api_read");
    refused(&other.poll(&device.device_code), "invalid_grant");
    harness.ada.decide_device(&device.user_code, "approve").expect(303);
    refused(&other.poll(&device.device_code), "invalid_grant");
    refused(&harness.dh.poll(&device.user_code), "invalid_grant");
    OAuthTokens::of(&harness.dh.poll(&device.device_code));
}

#[test]
fn a_suspended_user_approves_nothing() {
    let harness = OAuthHarness::new();
    let device = harness.waiting_device("api_read");
    harness.ada.decide_device(&device.user_code, "approve").expect(303);
    harness.suspend("ada");
    refused(&harness.dh.poll(&device.device_code), "invalid_grant");
    assert_eq!(harness.grants(), 0);
}

#[test]
fn a_device_gets_its_tokens_once() {
    let harness = OAuthHarness::new();
    for _ in 0..3 {
        let device = harness.waiting_device("api_read");
        harness.ada.decide_device(&device.user_code, "approve").expect(303);
        let answers = at_once(|| harness.dh.poll(&device.device_code));
        let (succeeded, failed): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
        assert_eq!((succeeded.len(), failed.len()), (1, 1), "{answers:?}");
        refused(failed[0], "invalid_grant");
        assert_eq!(harness.status(&OAuthTokens::of(succeeded[0]).access), 200);
    }
    assert_eq!(harness.grants(), 3);
}

#[test]
fn without_a_scope_a_device_may_read() {
    let harness = OAuthHarness::new();
    let json = harness.dh.post(OAuthClient::DEVICES, &[("client_id", "dh")]).expect(200).json();
    let (device_code, user_code) = (json["device_code"].as_str().unwrap(), json["user_code"].as_str().unwrap());
    harness.ada.decide_device(user_code, "approve").expect(303);
    assert_eq!(OAuthTokens::of(&harness.dh.poll(device_code)).scope, "api_read");
    refused(&harness.dh.begin_device("admin"), "invalid_scope");
    refused(&harness.dh.begin_device("api_read,api_read_write"), "invalid_scope");
}
