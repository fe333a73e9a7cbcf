//! Grants of OAuth: codes, tokens, devices, and how they end.

use std::sync::Arc;

use branchyard_auth::{CodeChallenge, CodeVerifier, HashedToken, PlainSecret, RefreshToken};
use branchyard_domain::Hub;
use branchyard_domain::entities::{Application, LastUse, User};
use branchyard_domain::errors::{AdministrationError, ApplicationError, GrantError};
use branchyard_domain::usecases::{
    Applications, AuthorizationRequest, Client, DeleteUser, Devices, Grants, IssuedTokens, RevokedToken,
};
use branchyard_domain::values::{ApplicationId, RedirectUri, Scope};

use crate::harness::{DomainHarness, user, world};

/// The key of successors, which a server keeps.
pub(crate) const KEY: [u8; 32] = [9; 32];

pub(crate) fn dh() -> ApplicationId {
    ApplicationId::parse(Application::DH).unwrap()
}

fn verifier() -> CodeVerifier {
    CodeVerifier::parse(&"v".repeat(43)).unwrap()
}

const CALLBACK: &str = "http://localhost:53682/callback";

fn request(application: ApplicationId, redirect_uri: &str, scope: Scope) -> AuthorizationRequest {
    let redirect_uri = RedirectUri::parse(redirect_uri).unwrap();
    AuthorizationRequest { application, redirect_uri, scope, challenge: CodeChallenge::of(&verifier()) }
}

fn authorize(hub: &Hub, user: &User, scope: Scope) -> HashedToken {
    hub.grants().authorize(user, None, &request(dh(), CALLBACK, scope)).unwrap().hash()
}

fn redeem(hub: &Hub, code: &HashedToken) -> Result<IssuedTokens, GrantError> {
    hub.grants().redeem(&dh(), code, CALLBACK, &verifier())
}

pub(crate) fn issued(hub: &Hub, user: &User, scope: Scope) -> IssuedTokens {
    redeem(hub, &authorize(hub, user, scope)).unwrap()
}

fn refresh(hub: &Hub, token: &RefreshToken) -> Result<IssuedTokens, GrantError> {
    hub.grants().refresh(&dh(), token, token.successor(&KEY), None)
}

fn is_accepted(hub: &Hub, tokens: &IssuedTokens) -> bool {
    let hash = tokens.access.hash();
    let known = hub.grants().known(&hash).is_some();
    let accepted = hub.grants().check(&hash).unwrap().is_some();
    assert!(accepted || !known, "a cache may not know what is refused");
    accepted
}

fn replayed<T: std::fmt::Debug>(result: Result<T, GrantError>) {
    assert!(matches!(result, Err(GrantError::Replayed { .. })), "replayed, not {result:?}");
}

fn invalid<T: std::fmt::Debug>(result: Result<T, GrantError>) {
    assert!(matches!(result, Err(GrantError::Invalid)), "invalid, not {result:?}");
}

#[test]
fn a_code_yields_tokens_that_act_for_its_user() {
    let world = world();
    let tokens = issued(&world.hub, user(&world.ada), Scope::Read);
    let checked = world.hub.grants().check(&tokens.access.hash()).unwrap().unwrap();
    assert_eq!((checked.user.id, checked.access.scope), (user(&world.ada).id, Scope::Read));
    assert_eq!((tokens.scope, tokens.expires_in), (Scope::Read, 3_600));
    world.fakes.clock.advance_seconds(3_599);
    assert!(is_accepted(&world.hub, &tokens));
    world.fakes.clock.advance_seconds(1);
    assert!(!is_accepted(&world.hub, &tokens), "an hour has passed");
}

#[test]
fn a_code_is_bound_to_its_application_redirect_uri_verifier_and_time() {
    let world = world();
    let (hub, ada) = (&world.hub, user(&world.ada));
    let other = hub.applications().register(ada, "other", &[CALLBACK.to_owned()]).unwrap().id;
    let code = authorize(hub, ada, Scope::Read);
    let wrong = CodeVerifier::parse(&"w".repeat(43)).unwrap();
    invalid(hub.grants().redeem(&other, &code, CALLBACK, &verifier()));
    invalid(hub.grants().redeem(&dh(), &code, "http://localhost:53683/callback", &verifier()));
    invalid(hub.grants().redeem(&dh(), &code, "http://localhost:53682/callback/", &verifier()));
    invalid(hub.grants().redeem(&dh(), &code, CALLBACK, &wrong));
    redeem(hub, &code).unwrap();
    let code = authorize(hub, ada, Scope::Read);
    world.fakes.clock.advance_seconds(Grants::CODE_SECONDS);
    invalid(redeem(hub, &code));
    let request = request(dh(), "https://evil.test/callback", Scope::Read);
    assert!(matches!(hub.grants().authorize(ada, None, &request), Err(GrantError::UnknownRedirectUri)));
}

#[test]
fn a_code_that_is_sent_twice_ends_what_it_was_redeemed_for() {
    let world = world();
    let code = authorize(&world.hub, user(&world.ada), Scope::ReadWrite);
    let tokens = redeem(&world.hub, &code).unwrap();
    let other = world.hub.applications().register(user(&world.ada), "other", &[CALLBACK.to_owned()]).unwrap().id;
    invalid(world.hub.grants().redeem(&other, &code, CALLBACK, &verifier()));
    assert!(is_accepted(&world.hub, &tokens), "another application ends nothing");
    replayed(redeem(&world.hub, &code));
    assert!(!is_accepted(&world.hub, &tokens));
    invalid(redeem(&world.hub, &code));
    invalid(refresh(&world.hub, &tokens.refresh));
}

#[test]
fn a_refresh_token_is_replaced_and_good_for_another_minute() {
    let world = world();
    let (hub, clock) = (&world.hub, &world.fakes.clock);
    let first = issued(hub, user(&world.ada), Scope::ReadWrite);
    let second = refresh(hub, &first.refresh).unwrap();
    assert_ne!(second.refresh.hash(), first.refresh.hash());
    clock.advance_seconds(59);
    let again = refresh(hub, &first.refresh).unwrap();
    assert_eq!(again.refresh.hash(), second.refresh.hash());
    assert!([&first, &second, &again].iter().all(|tokens| is_accepted(hub, tokens)));
    clock.advance_seconds(1);
    replayed(refresh(hub, &first.refresh));
    assert!([&first, &second, &again].iter().all(|tokens| !is_accepted(hub, tokens)), "the family has ended");
    invalid(refresh(hub, &second.refresh));
}

#[test]
fn a_family_ends_if_any_older_token_comes_back() {
    let world = world();
    let first = issued(&world.hub, user(&world.ada), Scope::ReadWrite);
    let second = refresh(&world.hub, &first.refresh).unwrap();
    let third = refresh(&world.hub, &second.refresh).unwrap();
    replayed(refresh(&world.hub, &first.refresh));
    assert!(!is_accepted(&world.hub, &third));
}

#[test]
fn a_grant_lasts_90_days_after_its_last_refresh() {
    let world = world();
    let (hub, clock) = (&world.hub, &world.fakes.clock);
    let first = issued(hub, user(&world.ada), Scope::ReadWrite);
    clock.advance_seconds(Grants::REFRESH_SECONDS - 1);
    let second = refresh(hub, &first.refresh).unwrap();
    clock.advance_seconds(Grants::REFRESH_SECONDS);
    assert!(hub.grants().list(user(&world.ada), None, 9).unwrap().is_empty());
    invalid(refresh(hub, &second.refresh));
}

#[test]
fn a_refresh_narrows_the_scope_of_one_access_token_and_widens_none() {
    let world = world();
    let hub = &world.hub;
    let first = issued(hub, user(&world.ada), Scope::ReadWrite);
    let with = |token: &RefreshToken, scope| hub.grants().refresh(&dh(), token, token.successor(&KEY), Some(scope));
    let narrow = with(&first.refresh, Scope::Read).unwrap();
    assert_eq!(hub.grants().check(&narrow.access.hash()).unwrap().unwrap().access.scope, Scope::Read);
    assert_eq!(refresh(hub, &narrow.refresh).unwrap().scope, Scope::ReadWrite);
    let read = issued(hub, user(&world.ada), Scope::Read);
    assert!(matches!(with(&read.refresh, Scope::ReadWrite), Err(GrantError::WiderScope)));
    refresh(hub, &read.refresh).expect("a refused refresh uses nothing up");
}

#[test]
fn a_suspended_user_gets_and_uses_no_tokens() {
    let world = world();
    let hub = &world.hub;
    let proof = hub.administration().operator();
    let code = authorize(hub, user(&world.ben), Scope::Read);
    let tokens = issued(hub, user(&world.ben), Scope::Read);
    hub.administration().suspend(&proof, "ben").unwrap();
    invalid(redeem(hub, &code));
    invalid(refresh(hub, &tokens.refresh));
    assert!(!is_accepted(hub, &tokens));
    hub.administration().resume(&proof, "ben").unwrap();
    assert!(is_accepted(hub, &tokens));
    refresh(hub, &tokens.refresh).unwrap();
    assert_eq!(hub.administration().revoke_tokens(&proof, "ben").unwrap(), 1);
    assert!(!is_accepted(hub, &tokens));
    invalid(redeem(hub, &code));
}

#[test]
fn an_application_of_a_suspended_user_gets_nothing_and_a_deleted_one_ends_its_grants() {
    let world = world();
    let (hub, ada, ben) = (&world.hub, user(&world.ada), user(&world.ben));
    let proof = hub.administration().operator();
    let app = hub.applications().register(ben, "app", &["https://app.test/callback".to_owned()]).unwrap().id;
    let wanted = request(app.clone(), "https://app.test/callback", Scope::Read);
    let take = || -> Result<IssuedTokens, GrantError> {
        let code = hub.grants().authorize(ada, None, &wanted)?.hash();
        hub.grants().redeem(&app, &code, "https://app.test/callback", &verifier())
    };
    let tokens = take().unwrap();
    hub.administration().suspend(&proof, "ben").unwrap();
    assert!(!is_accepted(hub, &tokens));
    assert!(matches!(take(), Err(GrantError::UnknownApplication)));
    assert!(matches!(hub.devices().begin(&app, Scope::Read), Err(GrantError::UnknownApplication)));
    assert!(matches!(hub.applications().find(&app), Err(ApplicationError::NoSuchApplication)));
    hub.administration().resume(&proof, "ben").unwrap();
    assert!(is_accepted(hub, &tokens));
    assert!(matches!(hub.applications().remove(ada, &app), Err(ApplicationError::NoSuchApplication)), "not ada's");
    hub.applications().remove(ben, &app).unwrap();
    assert!(!is_accepted(hub, &tokens));
    assert!(hub.grants().list(ada, None, 9).unwrap().is_empty());
}

#[test]
fn applications_have_valid_names_and_redirect_uris_and_a_limit() {
    let world = world();
    let (applications, ada) = (world.hub.applications(), user(&world.ada));
    let uri = || vec!["https://app.test/callback".to_owned()];
    assert!(matches!(applications.register(ada, " ", &uri()), Err(ApplicationError::Name(_))));
    for name in ["DH, the DoltHub command line ", "a\u{202e}b", "a\u{200b}", "a\nb"] {
        assert!(matches!(applications.register(ada, name, &uri()), Err(ApplicationError::Name(_))), "{name:?}");
    }
    assert!(matches!(applications.register(ada, "a", &[]), Err(ApplicationError::RedirectUriCount(10))));
    let eleven = vec![uri()[0].clone(); 11];
    assert!(matches!(applications.register(ada, "a", &eleven), Err(ApplicationError::RedirectUriCount(10))));
    let bad = ["http://app.test/".to_owned()];
    assert!(matches!(applications.register(ada, "a", &bad), Err(ApplicationError::RedirectUri(_))));
    for _ in 0..Applications::PER_USER {
        applications.register(ada, "a", &eleven[..10]).unwrap();
    }
    assert!(matches!(applications.register(ada, "a", &uri()), Err(ApplicationError::TooMany(20))));
    applications.register(user(&world.ben), "a", &uri()).unwrap();
}

#[test]
fn a_user_has_a_limited_number_of_grants_codes_and_access_tokens() {
    let world = world();
    let (hub, ada) = (&world.hub, user(&world.ada));
    let oldest = authorize(hub, ada, Scope::Read);
    let codes: Vec<HashedToken> = (0..Grants::CODES_PER_USER)
        .map(|_| {
            world.fakes.clock.advance_seconds(1);
            authorize(hub, ada, Scope::Read)
        })
        .collect();
    invalid(redeem(hub, &oldest));
    redeem(hub, &codes[0]).unwrap();
    let first = issued(hub, ada, Scope::Read);
    let mut newest = refresh(hub, &first.refresh).unwrap();
    for _ in 0..Grants::ACCESS_PER_GRANT {
        world.fakes.clock.advance_seconds(1);
        newest = refresh(hub, &newest.refresh).unwrap();
    }
    assert!(!is_accepted(hub, &first) && is_accepted(hub, &newest));
    let kept = issued(hub, ada, Scope::Read);
    for _ in 0..Grants::PER_USER {
        world.fakes.clock.advance_seconds(1);
        let last_use = LastUse { at: hub.now(), address: String::new(), user_agent: String::new() };
        hub.grants().touch(hub.grants().check(&kept.access.hash()).unwrap().unwrap().grant.id, &last_use).unwrap();
        issued(hub, ada, Scope::Read);
    }
    assert!(!is_accepted(hub, &newest), "it was not used for the longest time");
    assert!(is_accepted(hub, &kept));
    assert_eq!(hub.grants().list(ada, None, 1_000).unwrap().len(), Grants::PER_USER);
}

#[test]
fn an_application_revokes_its_own_tokens_alone() {
    let world = world();
    let (hub, ada) = (&world.hub, user(&world.ada));
    let other = hub.applications().register(ada, "other", &[CALLBACK.to_owned()]).unwrap().id;
    let first = issued(hub, ada, Scope::Read);
    let second = refresh(hub, &first.refresh).unwrap();
    let end = |of: &ApplicationId, token| hub.grants().revoke(of, &token);
    let access = |tokens: &IssuedTokens| {
        RevokedToken::Access(branchyard_auth::AccessToken::parse(tokens.access.expose()).unwrap())
    };
    let of_family =
        |tokens: &IssuedTokens| RevokedToken::Refresh(RefreshToken::parse(tokens.refresh.expose()).unwrap());
    invalid(end(&other, access(&first)));
    invalid(end(&other, of_family(&first)));
    assert!(is_accepted(hub, &first));
    end(&dh(), access(&first)).unwrap();
    end(&dh(), access(&first)).expect("it has ended already");
    assert!(!is_accepted(hub, &first) && is_accepted(hub, &second));
    end(&dh(), of_family(&first)).expect("any token of a family ends it");
    assert!(!is_accepted(hub, &second));
    invalid(refresh(hub, &second.refresh));
}

#[test]
fn users_and_administrators_end_grants() {
    let world = world();
    let (hub, ada, ben) = (&world.hub, user(&world.ada), user(&world.ben));
    let proof = hub.administration().operator();
    let [one, two] = [issued(hub, ada, Scope::Read), issued(hub, ada, Scope::Read)];
    let listed = hub.grants().list(ada, None, 9).unwrap();
    assert_eq!(listed, hub.administration().grants(&proof, "ada", None, 9).unwrap());
    assert_eq!(listed[0].application.application.name, "dh, the DoltHub command line");
    assert!(matches!(hub.grants().end(ben, listed[1].grant.id), Err(GrantError::NoSuchGrant)));
    hub.grants().end(ada, listed[1].grant.id).unwrap();
    assert!(!is_accepted(hub, &one) && is_accepted(hub, &two));
    let end = |user: &str, id: &str| hub.administration().end_grant(&proof, user, id);
    let id = listed[0].grant.id.to_string();
    assert!(matches!(end("ben", &id), Err(AdministrationError::NoSuchGrant(_))));
    assert!(matches!(end("ada", "none"), Err(AdministrationError::NoSuchGrant(_))));
    end("Ada", &id).unwrap();
    assert!(!is_accepted(hub, &two));
}

#[test]
fn a_device_waits_for_a_decision_and_gets_tokens_once() {
    let world = world();
    let (hub, ada, clock) = (&world.hub, user(&world.ada), &world.fakes.clock);
    let poll = |code: &PlainSecret| hub.devices().poll(&dh(), &code.hash());
    let device = hub.devices().begin(&dh(), Scope::ReadWrite).unwrap();
    assert!(matches!(poll(&device.device_code), Err(GrantError::Pending)));
    assert!(matches!(poll(&device.device_code), Err(GrantError::SlowDown(10))));
    clock.advance_seconds(9);
    assert!(matches!(poll(&device.device_code), Err(GrantError::SlowDown(15))));
    clock.advance_seconds(15);
    assert!(matches!(poll(&device.device_code), Err(GrantError::Pending)));
    let other = hub.applications().register(ada, "other", &[CALLBACK.to_owned()]).unwrap().id;
    invalid(hub.devices().poll(&other, &device.device_code.hash()));
    let (found, _) = hub.devices().find(device.user_code).unwrap();
    assert_eq!((found.application, found.scope), (dh(), Scope::ReadWrite));
    hub.devices().decide(ada, None, device.user_code, true).unwrap();
    invalid(hub.devices().decide(user(&world.ben), None, device.user_code, true));
    let tokens = poll(&device.device_code).unwrap();
    assert_eq!(hub.grants().check(&tokens.access.hash()).unwrap().unwrap().user.id, ada.id);
    invalid(poll(&device.device_code));
    assert!(is_accepted(hub, &tokens));

    let refused = hub.devices().begin(&dh(), Scope::Read).unwrap();
    hub.devices().decide(ada, None, refused.user_code, false).unwrap();
    assert!(matches!(poll(&refused.device_code), Err(GrantError::Denied)));
    invalid(poll(&refused.device_code));
    let late = hub.devices().begin(&dh(), Scope::Read).unwrap();
    clock.advance_seconds(Devices::SECONDS);
    invalid(hub.devices().decide(ada, None, late.user_code, true));
    assert!(matches!(poll(&late.device_code), Err(GrantError::Expired)));
}

#[test]
fn a_device_that_polls_all_the_time_writes_nothing_more() {
    let world = world();
    let hub = &world.hub;
    let device = hub.devices().begin(&dh(), Scope::Read).unwrap();
    let poll = || hub.devices().poll(&dh(), &device.device_code.hash());
    for _ in 0..20 {
        assert!(poll().is_err());
    }
    world.fakes.metadata.fail_after(0, 100, branchyard_domain_testing::fakes::SaveFault::Lost);
    assert!(matches!(poll(), Err(GrantError::SlowDown(60))), "nothing was saved");
    assert!(world.fakes.metadata.no_more_faults());
}

#[test]
fn the_number_of_waiting_devices_is_limited() {
    let world = world();
    let hub = &world.hub;
    let metadata = &world.fakes.metadata;
    let first = hub.devices().begin(&dh(), Scope::Read).unwrap();
    {
        use branchyard_domain::ports::{Durability, Metadata as _, WriteKeys};
        let mut tx = metadata.write(&WriteKeys::none()).unwrap();
        let (found, _) = hub.devices().find(first.user_code).unwrap();
        for n in 1..Devices::MAX_WAITING {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&n.to_be_bytes());
            let mut rest = n;
            let code = branchyard_auth::UserCode::mint_from(&mut |buffer| {
                for byte in buffer.iter_mut() {
                    *byte = u8::try_from(rest % 20).unwrap();
                    rest /= 20;
                }
            });
            let mut device = found.clone();
            (device.hash, device.user_code) = (HashedToken::from_bytes(bytes), code);
            tx.device_authorizations().add(&device).ok();
        }
        tx.commit(Durability::Synced).unwrap();
    }
    let live = world.transaction().device_authorizations().count_live(hub.now()).unwrap();
    for _ in live..Devices::MAX_WAITING {
        hub.devices().begin(&dh(), Scope::Read).unwrap();
    }
    assert!(matches!(hub.devices().begin(&dh(), Scope::Read), Err(GrantError::TooManyDevices)));
    world.fakes.clock.advance_seconds(Devices::SECONDS);
    hub.devices().begin(&dh(), Scope::Read).expect("the others have expired");
}

/// One of two callers at once wins, and the other one learns of it.
fn at_once<T: Send>(world: &DomainHarness, act: impl Fn(&Hub) -> T + Sync) -> [T; 2] {
    let hub = Arc::new(world.hub.clone());
    std::thread::scope(|scope| {
        let tasks = [0, 1].map(|_| scope.spawn(|| act(&hub)));
        tasks.map(|task| task.join().unwrap())
    })
}

#[test]
fn two_redemptions_at_once_leave_no_token() {
    for _ in 0..20 {
        let world = world();
        let code = authorize(&world.hub, user(&world.ada), Scope::Read);
        let results = at_once(&world, |hub| redeem(hub, &code));
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
        for tokens in results.iter().flatten() {
            assert!(!is_accepted(&world.hub, tokens), "the code was sent twice");
        }
    }
}

#[test]
fn two_refreshes_at_once_get_the_same_refresh_token() {
    for _ in 0..20 {
        let world = world();
        let first = issued(&world.hub, user(&world.ada), Scope::Read);
        let [one, two] = at_once(&world, |hub| refresh(hub, &first.refresh).unwrap());
        assert_eq!(one.refresh.hash(), two.refresh.hash());
        assert!(is_accepted(&world.hub, &one) && is_accepted(&world.hub, &two));
        refresh(&world.hub, &one.refresh).unwrap();
    }
}

#[test]
fn a_session_that_has_ended_consents_to_nothing() {
    let world = world();
    let (hub, ada) = (&world.hub, user(&world.ada));
    let client = || Client { address: String::new(), user_agent: String::new() };
    let opened = hub.sessions().open(ada.clone(), client()).unwrap().session.id;
    let wanted = request(dh(), CALLBACK, Scope::ReadWrite);
    let device = hub.devices().begin(&dh(), Scope::ReadWrite).unwrap();
    let of_another = hub.sessions().open(user(&world.ben).clone(), client()).unwrap().session.id;
    let ended = |session| {
        let code = hub.grants().authorize(ada, Some(session), &wanted);
        assert!(matches!(code, Err(GrantError::SessionEnded)));
        let decided = hub.devices().decide(ada, Some(session), device.user_code, true);
        assert!(matches!(decided, Err(GrantError::SessionEnded)));
    };
    ended(of_another);
    hub.grants().authorize(ada, Some(opened), &wanted).unwrap();
    hub.sessions().end_all(ada, None).unwrap();
    ended(opened);
}

#[test]
fn an_owner_whose_account_is_gone_registers_nothing() {
    let world = world();
    let (hub, ben) = (&world.hub, user(&world.ben));
    let uri = ["https://app.test/callback".to_owned()];
    let app = hub.applications().register(ben, "app", &uri).unwrap().id;
    hub.people().delete_user(&ben.name, DeleteUser::default()).unwrap();
    assert!(matches!(hub.applications().find(&app), Err(ApplicationError::NoSuchApplication)));
    assert!(matches!(hub.applications().register(ben, "app", &uri), Err(ApplicationError::NoSuchOwner)));
}
