//! Sends `kill -9` while applications refresh their tokens. Afterwards no application is signed out, no family has two refresh tokens
//! that go on, and what was revoked stays revoked.

use std::time::Duration;

use branchyard_testkit::{AMPLE, Actor, OAuthClient, OAuthTokens, PageSession, run_with_input, wait_until};
use parking_lot::Mutex;

use crate::process::program;

const KILLS: usize = 3;
/// Applications that refresh at the same time.
const FAMILIES: usize = 4;
/// Acknowledged refreshes of each application before a kill.
const REFRESHES: usize = 3;
const PASSWORD: &str = "correct horse";

/// The tokens of one grant that the server acknowledged, oldest first.
struct Family(Mutex<Vec<OAuthTokens>>);

impl Family {
    fn of(first: OAuthTokens) -> Self {
        Self(Mutex::new(vec![first]))
    }

    fn count(&self) -> usize {
        self.0.lock().len()
    }

    fn newest(&self) -> OAuthTokens {
        self.0.lock().last().unwrap().clone()
    }

    /// Refreshes until the server is gone.
    fn refresh_until_killed(&self, application: &OAuthClient) {
        while let Ok(answer) = application.try_refresh(&self.newest().refresh) {
            let next = OAuthTokens::of(&answer);
            assert_ne!(next.refresh, self.newest().refresh);
            self.0.lock().push(next);
        }
    }

    /// Checks that the newest acknowledged tokens are good, and that the refresh token has one successor.
    fn goes_on(&self, user: &Actor, application: &OAuthClient) {
        let newest = self.newest();
        assert_eq!(status(user, &newest), 200);
        // The server may have replaced the token without an answer. Then this one is the token before, which is good for a minute.
        let next = OAuthTokens::of(&application.refresh(&newest.refresh));
        let again = OAuthTokens::of(&application.refresh(&newest.refresh));
        assert_eq!(next.refresh, again.refresh);
        assert_ne!(next.refresh, newest.refresh);
        let after = OAuthTokens::of(&application.refresh(&next.refresh));
        for tokens in [&newest, &next, &again, &after] {
            assert_eq!(status(user, tokens), 200);
        }
        self.0.lock().extend([next, after]);
    }
}

/// Returns the status that the API answers with to an access token.
fn status(user: &Actor, tokens: &OAuthTokens) -> u16 {
    user.send(user.plain(reqwest::Method::GET, "/api/v2/user").bearer_auth(&tokens.access)).status
}

/// Checks that a refresh token is refused, and that its grant has ended then.
fn has_ended(user: &Actor, application: &OAuthClient, tokens: &OAuthTokens) {
    let refused = application.refresh(&tokens.refresh).expect(400);
    assert_eq!(refused.json()["error"], "invalid_grant", "{}", refused.text);
    assert_eq!(status(user, tokens), 401);
}

#[test]
fn families_outlive_kills_and_revoked_grants_do_not_come_back() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path();
    let args = ["user", "create", "ada", "--email", "ada@example.test", "--password-stdin"];
    let created = run_with_input(&mut program().on(dir, &args), PASSWORD);
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
    let server = program().start(dir);
    let ada = PageSession::sign_in(server.origin.clone(), "ada", PASSWORD);
    let dh = OAuthClient::dh(server.origin.clone());
    let authorized = |_| ada.authorize(&dh, "api_read_write");
    let families: Vec<Family> = (0..FAMILIES).map(authorized).map(Family::of).collect();
    let to_revoke: Vec<OAuthTokens> = (0..KILLS).map(authorized).collect();
    server.kill();

    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for number in 0..KILLS {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let server = program().start(dir);
        let dh = OAuthClient::dh(server.origin.clone());
        std::thread::scope(|scope| {
            let before: Vec<usize> = families.iter().map(Family::count).collect();
            for family in &families {
                let dh = &dh;
                scope.spawn(move || family.refresh_until_killed(dh));
            }
            dh.revoke(&to_revoke[number].refresh).expect(200);
            wait_until("refreshes of every application", AMPLE, || {
                families.iter().zip(&before).all(|(family, before)| family.count() >= before + REFRESHES)
            });
            std::thread::sleep(Duration::from_millis(seed % 20));
            server.kill();
        });

        let server = program().start(dir);
        let user = Actor::new(server.origin.clone(), None, "ada");
        let dh = OAuthClient::dh(server.origin.clone());
        for family in &families {
            family.goes_on(&user, &dh);
        }
        for (index, tokens) in to_revoke.iter().enumerate() {
            if index <= number {
                has_ended(&user, &dh, tokens);
            } else {
                assert_eq!(status(&user, tokens), 200);
            }
        }
        server.kill();
    }

    let server = program().start(dir);
    let user = Actor::new(server.origin.clone(), None, "ada");
    let dh = OAuthClient::dh(server.origin.clone());
    let page = PageSession::sign_in(server.origin.clone(), "ada", PASSWORD).get("/settings/applications").expect(200);
    assert_eq!(page.text.matches("aria-label=\"Revoke the access of ").count(), FAMILIES);
    // A token of each family from before the first kill ends that family, and no other one.
    for (ended, family) in families.iter().enumerate() {
        let oldest = family.0.lock()[0].clone();
        has_ended(&user, &dh, &oldest);
        for (index, other) in families.iter().enumerate() {
            assert_eq!(status(&user, &other.newest()), if index <= ended { 401 } else { 200 });
        }
        has_ended(&user, &dh, &family.newest());
    }
    server.terminate();
    assert_eq!(program().succeed(dir, &["doctor"]), "everything is in order");
}
