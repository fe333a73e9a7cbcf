//! Checks of sessions, invitations and user profiles.

use branchyard_auth::HashedToken;

use super::{account_id, at, id, read, scene, user, write};
use branchyard_domain::entities::{Email, Invitation, LastUse, Session, User};
use branchyard_domain::ports::{Metadata, WriteKeys};
use branchyard_domain::values::{InvitationId, SessionId, Timestamp};

pub(super) fn session(n: u8, of: &User, expires_at: Timestamp) -> Session {
    Session {
        id: SessionId::from_uuid(id(n.into())),
        user_id: of.id,
        hash: HashedToken::from_bytes([n; 32]),
        created_at: at(0),
        expires_at,
        confirmed_at: at(0),
        last_use: LastUse { at: at(1), address: "192.0.2.1".to_owned(), user_agent: "ünï".to_owned() },
    }
}

/// Checks sessions: look-up by hash, last use, removal, purging.
pub fn sessions(store: &dyn Metadata) {
    let (ann, bob, _) = scene(store);
    write(store, |tx| {
        for n in 1..=3 {
            tx.sessions().add(&session(n, &ann, at(i64::from(n) * 10))).unwrap();
        }
        tx.sessions().add(&session(4, &bob, at(100))).unwrap();
    });
    let hash = |n: u8| HashedToken::from_bytes([n; 32]);
    read(store, |tx| {
        let (found, whose) = tx.sessions().by_hash(&hash(2)).unwrap().unwrap();
        assert_eq!((found, whose), (session(2, &ann, at(20)), ann.clone()));
        assert!(tx.sessions().by_hash(&hash(9)).unwrap().is_none());
        let list = tx.sessions().list(ann.id).unwrap();
        assert_eq!(list, [3, 2, 1].map(|n| session(n, &ann, at(i64::from(n) * 10))));
    });
    let later = LastUse { at: at(7), address: "2001:db8::1".to_owned(), user_agent: String::new() };
    write(store, |tx| {
        tx.sessions().touch(SessionId::from_uuid(id(3)), &later, at(500)).unwrap();
        tx.sessions().touch(SessionId::from_uuid(id(99)), &later, at(500)).unwrap();
        tx.sessions().confirm(SessionId::from_uuid(id(3)), at(6)).unwrap();
        tx.sessions().confirm(SessionId::from_uuid(id(99)), at(6)).unwrap();
        assert!(!tx.sessions().remove(bob.id, SessionId::from_uuid(id(2))).unwrap(), "not bob's");
        assert!(tx.sessions().remove(ann.id, SessionId::from_uuid(id(2))).unwrap());
        assert!(!tx.sessions().remove(ann.id, SessionId::from_uuid(id(2))).unwrap());
    });
    read(store, |tx| {
        let expected = Session { last_use: later.clone(), confirmed_at: at(6), ..session(3, &ann, at(500)) };
        assert_eq!(tx.sessions().by_hash(&hash(3)).unwrap().unwrap().0, expected);
        assert!(tx.sessions().by_hash(&hash(2)).unwrap().is_none());
    });
    write(store, |tx| assert_eq!(tx.sessions().purge(at(100)).unwrap(), 2, "at its end a session has ended"));
    read(store, |tx| {
        assert_eq!(tx.sessions().list(ann.id).unwrap().len(), 1);
        assert_eq!(tx.sessions().list(bob.id).unwrap(), []);
    });
}

/// Checks invitations: look-up by hash, lists, removal, purging.
pub fn invitations(store: &dyn Metadata) {
    let (ann, _, _) = scene(store);
    let invitation = |n: u8, is_admin: bool| Invitation {
        id: InvitationId::from_uuid(id(n.into())),
        hash: HashedToken::from_bytes([n; 32]),
        is_admin,
        created_by: (!is_admin).then_some(ann.id),
        created_at: at(0),
        expires_at: at(i64::from(n) * 10),
    };
    write(store, |tx| {
        tx.invitations().add(&invitation(1, true)).unwrap();
        tx.invitations().add(&invitation(2, false)).unwrap();
        tx.invitations().add(&invitation(3, false)).unwrap();
    });
    let hash = |n: u8| HashedToken::from_bytes([n; 32]);
    read(store, |tx| {
        assert_eq!(tx.invitations().by_hash(&hash(1)).unwrap(), Some(invitation(1, true)));
        assert_eq!(tx.invitations().by_hash(&hash(9)).unwrap(), None);
        let all = [invitation(3, false), invitation(2, false), invitation(1, true)];
        assert_eq!(tx.invitations().list().unwrap(), all);
    });
    write(store, |tx| {
        assert!(tx.invitations().remove(invitation(3, false).id).unwrap());
        assert!(!tx.invitations().remove(invitation(3, false).id).unwrap());
        assert_eq!(tx.invitations().purge(at(10)).unwrap(), 1);
        assert_eq!(tx.invitations().list().unwrap(), [invitation(2, false)]);
    });
}

/// Checks updates of users. Name, email addresses and creation time do not change.
pub fn profiles(store: &dyn Metadata) {
    read(store, |tx| assert!(!tx.users().any().unwrap()));
    let before = user(1, "ann");
    write(store, |tx| {
        tx.users().add(&before).unwrap();
        assert!(tx.users().any().unwrap());
    });
    let after = User {
        display_name: None,
        bio: None,
        location: Some("here".to_owned()),
        website_url: None,
        profile_pic_url: Some("https://example.org/a.png".to_owned()),
        password_hash: None,
        is_admin: false,
        ..before
    };
    write(store, |tx| {
        let other = User { emails: Vec::new(), created_at: at(9), ..after.clone() };
        assert!(tx.users().update(&other).unwrap());
        assert!(!tx.users().update(&User { id: account_id(99), ..after.clone() }).unwrap());
    });
    read(store, |tx| assert_eq!(tx.users().get(after.id).unwrap(), Some(after.clone())));
    let address = |text: &str, is_primary| Email { address: text.to_owned(), is_primary, is_verified: !is_primary };
    let emails = vec![address("new@example.org", true), address("old@example.org", false)];
    write(store, |tx| tx.users().set_emails(after.id, &emails).unwrap());
    assert!(
        store.write(&WriteKeys::any()).unwrap().users().set_emails(account_id(99), &emails).is_err(),
        "no user has that id"
    );
    read(store, |tx| assert_eq!(tx.users().get(after.id).unwrap().unwrap().emails, emails));
}

/// Checks the counting of attempts to sign in: windows of subjects, and their end.
pub fn attempts_to_sign_in(store: &dyn Metadata) {
    let count = |subject: &str, now: i64| {
        write(store, |tx| {
            let window = tx.sessions().count_attempt(subject, at(now - 60), at(now)).unwrap();
            (window.began_at, window.attempts)
        })
    };
    assert_eq!(count("ann", 100), (at(100), 1));
    assert_eq!(count("ann", 159), (at(100), 2));
    assert_eq!(count("bob", 159), (at(159), 1));
    assert_eq!(count("ann", 160), (at(160), 1), "the next window");
    write(store, |tx| tx.sessions().purge_attempts(at(159)).unwrap());
    assert_eq!(count("ann", 161), (at(160), 2));
    assert_eq!(count("bob", 161), (at(161), 1), "it was removed");
}

/// Checks the counting of requests: windows of users, and their end.
pub fn request_counts(store: &dyn Metadata) {
    let add = |user: u128, requests: u32, now: i64| {
        write(store, |tx| {
            let window = tx.request_counts().add(account_id(user), requests, at(now - 60), at(now)).unwrap();
            (window.began_at, window.requests)
        })
    };
    assert_eq!(add(1, 5, 100), (at(100), 5));
    assert_eq!(add(1, 2, 159), (at(100), 7));
    assert_eq!(add(2, 1, 159), (at(159), 1));
    assert_eq!(add(1, 3, 160), (at(160), 3), "the next window");
    write(store, |tx| tx.request_counts().purge(at(159)).unwrap());
    assert_eq!(add(1, 1, 161), (at(160), 4));
    assert_eq!(add(2, 1, 161), (at(161), 1), "it was removed");
}
