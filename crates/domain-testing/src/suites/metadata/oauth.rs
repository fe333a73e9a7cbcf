//! Checks of applications, grants, codes and devices.

use branchyard_auth::{CodeChallenge, HashedToken, UserCode};

use super::{account_id, at, id, read, scene, taken, write};
use branchyard_domain::entities::{
    Application, AuthorizationCode, DeviceAuthorization, DeviceDecision, Grant, IssuedAccess, LastUse, RefreshFamily,
    RegisteredApplication, User,
};
use branchyard_domain::ports::{Metadata, Transaction};
use branchyard_domain::values::{ApplicationId, GrantId, RedirectUri, Scope};

fn hash(n: u8) -> HashedToken {
    HashedToken::from_bytes([n; 32])
}

fn uri(text: &str) -> RedirectUri {
    RedirectUri::parse(text).unwrap()
}

fn application_id(n: u128) -> ApplicationId {
    ApplicationId::parse(&id(n).hyphenated().to_string()).unwrap()
}

fn application(n: u128, owner: &User) -> Application {
    Application {
        id: application_id(n),
        owner: Some(owner.id),
        name: format!("app {n} ünï"),
        redirect_uris: vec![uri("https://app.test/callback"), uri("http://localhost/callback?a=b")],
        created_at: at(1),
    }
}

fn registered(n: u128, owner: &User) -> RegisteredApplication {
    RegisteredApplication {
        application: application(n, owner),
        owner_name: Some(owner.name.to_string()),
        is_suspended: false,
    }
}

fn grant(n: u8, of: &User, application: u128) -> Grant {
    Grant {
        id: GrantId::from_uuid(id(n.into())),
        user_id: of.id,
        application: application_id(application),
        scope: Scope::Read,
        created_at: at(2),
        expires_at: at(100 + i64::from(n)),
        code: n.is_multiple_of(2).then(|| hash(n)),
        refresh: RefreshFamily { family: hash(n + 50), current: hash(n + 100), previous: None, rotated_at: at(2) },
        last_use: None,
    }
}

fn access(n: u8, grant: &Grant, end: i64) -> IssuedAccess {
    IssuedAccess { hash: hash(n), grant_id: grant.id, scope: Scope::ReadWrite, expires_at: at(end) }
}

fn code(n: u8, of: &User, end: i64) -> AuthorizationCode {
    AuthorizationCode {
        hash: hash(n),
        application: application_id(20),
        user_id: of.id,
        scope: Scope::ReadWrite,
        redirect_uri: uri("https://app.test/callback"),
        challenge: CodeChallenge::from_bytes([n; 32]),
        expires_at: at(end),
    }
}

fn device(n: u8, user_code: &str) -> DeviceAuthorization {
    DeviceAuthorization {
        hash: hash(n),
        user_code: UserCode::parse(user_code).unwrap(),
        application: application_id(20),
        scope: Scope::Read,
        created_at: at(0),
        expires_at: at(10 * i64::from(n)),
        interval_seconds: 5,
        polled_at: None,
        decision: DeviceDecision::Pending,
    }
}

/// Runs a change that ends rights, which caches have to notice.
fn ending<T>(store: &dyn Metadata, work: impl FnOnce(&mut dyn Transaction) -> T) -> T {
    let before = store.rights_version();
    let value = write(store, work);
    assert!(before.is_none() || store.rights_version() != before, "the version of the rights is the same");
    value
}

/// Checks applications: look-up, lists, counts, and that an application takes along what refers to it.
pub fn applications(store: &dyn Metadata) {
    let (ann, bob, _) = scene(store);
    write(store, |tx| {
        for (n, owner) in [(20, &ann), (21, &ann), (22, &bob)] {
            tx.applications().add(&application(n, owner)).unwrap();
        }
        for (n, of) in [(1, 20), (2, 22)] {
            tx.grants().add(&grant(n, &bob, of)).unwrap();
            tx.grants().add_access(bob.id, &access(n, &grant(n, &bob, of), 50), 5, at(0)).unwrap();
        }
        tx.authorization_codes().add(&code(1, &bob, 50), 5).unwrap();
        tx.device_authorizations().add(&device(1, "BCDF-GHJK")).unwrap();
    });
    read(store, |tx| {
        assert_eq!(tx.applications().get(&application_id(20)).unwrap(), Some(registered(20, &ann)));
        assert_eq!(tx.applications().get(&application_id(99)).unwrap(), None);
        let of_ann = [registered(21, &ann), registered(20, &ann)];
        assert_eq!(tx.applications().list(Some(ann.id), None, 9).unwrap(), of_ann);
        assert_eq!(tx.applications().list(None, Some(&application_id(22)), 1).unwrap(), of_ann[..1]);
        assert_eq!(tx.applications().list(None, None, 9).unwrap().len(), 3);
        assert_eq!((tx.applications().count(ann.id).unwrap(), tx.applications().count(bob.id).unwrap()), (2, 1));
    });
    write(store, |tx| {
        let suspended = User { suspended_at: Some(at(3)), ..ann.clone() };
        tx.users().update(&suspended).unwrap();
        let found = tx.applications().get(&application_id(20)).unwrap();
        assert_eq!(found, Some(RegisteredApplication { is_suspended: true, ..registered(20, &ann) }));
        assert!(!tx.applications().remove(bob.id, &application_id(20)).unwrap(), "not bob's");
    });
    ending(store, |tx| assert!(tx.applications().remove(ann.id, &application_id(20)).unwrap()));
    write(store, |tx| {
        assert!(!tx.applications().remove(ann.id, &application_id(20)).unwrap());
    });
    read(store, |tx| {
        assert!(tx.grants().by_access(&hash(1)).unwrap().is_none());
        assert!(tx.grants().by_access(&hash(2)).unwrap().is_some());
        assert_eq!(tx.grants().list(bob.id, at(0), None, 9).unwrap(), [grant(2, &bob, 22)]);
        assert!(tx.authorization_codes().get(&hash(1)).unwrap().is_none());
        assert!(tx.device_authorizations().get(&hash(1)).unwrap().is_none());
    });
    write(store, |tx| tx.users().remove(bob.id, at(4)).unwrap());
    read(store, |tx| {
        assert_eq!(tx.applications().get(&application_id(22)).unwrap(), None);
        assert_eq!(tx.grants().get(GrantId::from_uuid(id(2))).unwrap(), None);
        assert!(tx.grants().by_access(&hash(2)).unwrap().is_none());
    });
}

/// Checks grants: look-ups, lists, rotation, last use, removal, purging.
pub fn grants(store: &dyn Metadata) {
    let (ann, bob, _) = scene(store);
    let grant = |n: u8| grant(n, if n < 4 { &ann } else { &bob }, 20);
    write(store, |tx| (1..=4).for_each(|n| tx.grants().add(&grant(n)).unwrap()));
    read(store, |tx| {
        assert_eq!(tx.grants().get(grant(1).id).unwrap(), Some(grant(1)));
        assert_eq!(tx.grants().by_family(&hash(53)).unwrap(), Some(grant(3)));
        assert_eq!(tx.grants().by_family(&hash(3)).unwrap(), None);
        assert_eq!(tx.grants().by_code(&hash(2)).unwrap(), Some(grant(2)));
        assert_eq!(tx.grants().by_code(&hash(3)).unwrap(), None);
        assert_eq!(tx.grants().list(ann.id, at(0), None, 9).unwrap(), [3, 2, 1].map(grant));
        assert_eq!(tx.grants().list(ann.id, at(0), Some(grant(3).id), 1).unwrap(), [grant(2)]);
        assert_eq!(tx.grants().list(ann.id, at(102), None, 9).unwrap(), [grant(3)], "the others have expired");
    });
    let last_use = LastUse { at: at(7), address: "2001:db8::1".to_owned(), user_agent: "ünï".to_owned() };
    let refresh =
        RefreshFamily { current: hash(200), previous: Some(hash(101)), rotated_at: at(8), ..grant(1).refresh };
    let rotated = Grant { refresh: refresh.clone(), expires_at: at(500), last_use: Some(last_use.clone()), ..grant(1) };
    write(store, |tx| {
        tx.grants().touch(grant(1).id, &last_use).unwrap();
        tx.grants().touch(GrantId::from_uuid(id(99)), &last_use).unwrap();
        assert!(tx.grants().rotate(&grant(1), &refresh, at(500)).unwrap());
        assert!(!tx.grants().rotate(&Grant { id: GrantId::from_uuid(id(99)), ..grant(1) }, &refresh, at(500)).unwrap());
        assert!(!tx.grants().remove(bob.id, grant(2).id).unwrap(), "not bob's");
    });
    ending(store, |tx| assert!(tx.grants().remove(ann.id, grant(2).id).unwrap()));
    write(store, |tx| {
        assert!(!tx.grants().remove(ann.id, grant(2).id).unwrap());
    });
    write(store, |tx| {
        assert_eq!(tx.grants().get(grant(1).id).unwrap(), Some(rotated.clone()));
        assert_eq!(tx.users().last_seen(ann.id).unwrap(), Some(at(7)));
        tx.grants().purge(at(103)).unwrap();
        assert_eq!(tx.grants().list(ann.id, at(0), None, 9).unwrap(), [rotated], "at its end a grant has ended");
        tx.authorization_codes().add(&code(1, &bob, 50), 5).unwrap();
    });
    ending(store, |tx| assert_eq!(tx.grants().remove_all(bob.id).unwrap(), 1));
    write(store, |tx| {
        assert!(tx.authorization_codes().get(&hash(1)).unwrap().is_none());
        assert_eq!(tx.grants().remove_all(bob.id).unwrap(), 0);
    });
}

/// Checks access tokens: look-up with grant and user, the limit of each grant, and that a grant takes along its tokens.
pub fn access_tokens(store: &dyn Metadata) {
    let (ann, bob, _) = scene(store);
    let (one, two, of_bob) = (grant(1, &ann, 20), grant(2, &ann, 20), grant(3, &bob, 20));
    write(store, |tx| {
        tx.grants().add(&one).unwrap();
        tx.grants().add(&two).unwrap();
        tx.grants().add(&of_bob).unwrap();
        tx.grants().add_access(bob.id, &access(30, &of_bob, 20), 3, at(0)).unwrap();
        for (n, end) in [(10, 20), (11, 30), (12, 40)] {
            tx.grants().add_access(ann.id, &access(n, &one, end), 3, at(0)).unwrap();
        }
        tx.grants().add_access(ann.id, &access(20, &two, 20), 3, at(0)).unwrap();
    });
    let live = |store: &dyn Metadata, n: u8| read(store, |tx| tx.grants().by_access(&hash(n)).unwrap());
    assert_eq!(live(store, 10), Some((access(10, &one, 20), one.clone(), ann.clone())));
    assert_eq!(live(store, 99), None);
    ending(store, |tx| tx.grants().add_access(ann.id, &access(13, &one, 50), 3, at(0)).unwrap());
    assert_eq!([10, 11, 12, 13].map(|n| live(store, n).is_some()), [false, true, true, true], "beyond the limit");
    write(store, |tx| tx.grants().add_access(ann.id, &access(14, &one, 60), 3, at(40)).unwrap());
    assert_eq!([11, 12, 13, 14].map(|n| live(store, n).is_some()), [false, false, true, true], "expired");
    assert!(live(store, 20).is_some(), "of another grant");
    ending(store, |tx| assert!(tx.grants().remove_access(ann.id, &hash(13)).unwrap()));
    write(store, |tx| {
        assert!(!tx.grants().remove_access(ann.id, &hash(13)).unwrap());
        assert!(tx.grants().remove(ann.id, two.id).unwrap());
    });
    assert_eq!([13, 14, 20].map(|n| live(store, n).is_some()), [false, true, false]);
    write(store, |tx| tx.users().remove(ann.id, at(1)).unwrap());
    assert_eq!((live(store, 14), live(store, 30).is_some()), (None, true));
}

/// Checks authorization codes: look-up, the limit of each user, removal, purging.
pub fn authorization_codes(store: &dyn Metadata) {
    let (ann, bob, _) = scene(store);
    write(store, |tx| {
        for n in 1..=3 {
            tx.authorization_codes().add(&code(n, &ann, 10 * i64::from(n)), 2).unwrap();
        }
        tx.authorization_codes().add(&code(4, &bob, 10), 2).unwrap();
        let is_live = [1, 2, 3, 4].map(|n| tx.authorization_codes().get(&hash(n)).unwrap().is_some());
        assert_eq!(is_live, [false, true, true, true]);
    });
    read(store, |tx| {
        let (found, expected) = (tx.authorization_codes().get(&hash(2)).unwrap().unwrap(), code(2, &ann, 20));
        assert_eq!(format!("{found:?}"), format!("{expected:?}"));
        assert_eq!((found.hash, found.challenge.as_bytes()), (hash(2), &[2; 32]));
    });
    write(store, |tx| {
        assert!(!tx.authorization_codes().remove(bob.id, &hash(2)).unwrap(), "not bob's");
        assert!(tx.authorization_codes().remove(ann.id, &hash(2)).unwrap());
        assert!(!tx.authorization_codes().remove(ann.id, &hash(2)).unwrap());
        tx.authorization_codes().purge(at(10)).unwrap();
        let is_live = [3, 4].map(|n| tx.authorization_codes().get(&hash(n)).unwrap().is_some());
        assert_eq!(is_live, [true, false], "at its end a code has ended");
    });
}

/// Checks devices: look-ups, unique user codes, polls, one decision, removal, purging.
pub fn device_authorizations(store: &dyn Metadata) {
    let (ann, bob, _) = scene(store);
    write(store, |tx| {
        tx.device_authorizations().add(&device(1, "BCDF-GHJK")).unwrap();
        tx.device_authorizations().add(&device(2, "BCDF-GHJL")).unwrap();
        taken(tx.device_authorizations().add(&device(3, "BCDF-GHJK")));
        tx.device_authorizations().add(&device(3, "BCDF-GHJM")).unwrap();
    });
    read(store, |tx| {
        assert_eq!(tx.device_authorizations().get(&hash(1)).unwrap(), Some(device(1, "BCDF-GHJK")));
        let found = tx.device_authorizations().by_user_code(UserCode::parse("bcdfghjl").unwrap()).unwrap();
        assert_eq!(found, Some(device(2, "BCDF-GHJL")));
        let missing = tx.device_authorizations().by_user_code(UserCode::parse("ZZZZ-ZZZZ").unwrap()).unwrap();
        assert_eq!(missing, None);
        assert_eq!(tx.device_authorizations().count_live(at(10)).unwrap(), 2);
    });
    write(store, |tx| {
        tx.device_authorizations().record_poll(&hash(1), at(4), 10).unwrap();
        assert!(!tx.device_authorizations().decide(&hash(1), ann.id, true, at(10)).unwrap(), "it has expired");
        assert!(tx.device_authorizations().decide(&hash(1), ann.id, true, at(9)).unwrap());
        assert!(!tx.device_authorizations().decide(&hash(1), bob.id, false, at(9)).unwrap(), "it is decided");
        assert!(tx.device_authorizations().decide(&hash(2), bob.id, false, at(9)).unwrap());
        assert!(!tx.device_authorizations().decide(&hash(9), bob.id, false, at(9)).unwrap());
    });
    read(store, |tx| {
        let decision = DeviceDecision::Approved(account_id(1));
        let polled =
            DeviceAuthorization { polled_at: Some(at(4)), interval_seconds: 10, decision, ..device(1, "BCDF-GHJK") };
        assert_eq!(tx.device_authorizations().get(&hash(1)).unwrap(), Some(polled));
        let refused = tx.device_authorizations().get(&hash(2)).unwrap().unwrap();
        assert_eq!(refused.decision, DeviceDecision::Denied);
    });
    write(store, |tx| {
        assert!(tx.device_authorizations().remove(&hash(1)).unwrap());
        assert!(!tx.device_authorizations().remove(&hash(1)).unwrap());
        tx.device_authorizations().purge(at(20)).unwrap();
        let is_live = [2, 3].map(|n| tx.device_authorizations().get(&hash(n)).unwrap().is_some());
        assert_eq!(is_live, [false, true]);
    });
}
