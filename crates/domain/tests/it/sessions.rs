//! Sign-up and sign-in.

use branchyard_auth::{PasswordHash, PlainPassword, PlainSecret};
use branchyard_domain::entities::User;
use branchyard_domain::errors::{PeopleError, SignInError, SignUpError};
use branchyard_domain::usecases::{Applicant, Client, Limits, NewUser, Sessions, SignInLimits, SignUp};
use branchyard_domain::values::{EmailAddress, OwnerName};
use branchyard_domain_testing::fakes::{self, FakeHub};

const PASSWORD: &str = "correct horse";

fn hashed(text: &str) -> PasswordHash {
    PlainPassword::new(text.to_owned()).unwrap().hash_from(&mut |buffer| buffer.fill(7)).unwrap()
}

fn from(address: &str) -> Client {
    Client { address: address.to_owned(), user_agent: "test".to_owned() }
}

fn applicant(name: &str) -> Applicant {
    Applicant {
        name: OwnerName::parse(name).unwrap(),
        email: EmailAddress::parse("a@example.test").unwrap(),
        password: hashed(PASSWORD),
    }
}

fn hub(sign_up: SignUp) -> FakeHub {
    fakes::hub_with(Limits { sign_up, ..Limits::default() })
}

fn user(world: &FakeHub, name: &str, is_admin: bool) -> User {
    let wanted = NewUser {
        name: OwnerName::parse(name).unwrap(),
        email: "a@example.test".to_owned(),
        display_name: None,
        password: Some(hashed(PASSWORD)),
        is_admin,
    };
    world.hub.people().create_user(wanted).unwrap()
}

#[test]
fn a_session_ends_some_time_after_its_last_use() {
    let world = fakes::hub();
    let ada = user(&world, "ada", false);
    let sessions = world.hub.sessions();
    let opened = sessions.sign_in("Ada", PASSWORD, from("192.0.2.1")).unwrap();
    let hash = opened.secret.hash();
    assert_eq!(sessions.check(&hash).unwrap().unwrap().1, ada);
    let ttl = world.hub.limits().session_seconds;

    world.clock.advance_seconds(ttl - 1);
    let (session, _) = sessions.check(&hash).unwrap().unwrap();
    sessions.touch(&session, from("192.0.2.2")).unwrap();
    world.clock.advance_seconds(ttl - 1);
    let (session, _) = sessions.check(&hash).unwrap().unwrap();
    assert_eq!(session.last_use.address, "192.0.2.2");
    world.clock.advance_seconds(1);
    assert!(sessions.check(&hash).unwrap().is_none());
    assert_eq!(sessions.list(&ada).unwrap(), []);
}

#[test]
fn a_session_that_is_used_all_the_time_ends_too() {
    let world = fakes::hub();
    user(&world, "ada", false);
    let sessions = world.hub.sessions();
    let opened = sessions.sign_in("ada", PASSWORD, from("192.0.2.1")).unwrap();
    let hash = opened.secret.hash();
    let (ttl, most) = (world.hub.limits().session_seconds, world.hub.limits().session_max_seconds);
    for _ in 0..most / (ttl - 1) {
        world.clock.advance_seconds(ttl - 1);
        let (session, _) = sessions.check(&hash).unwrap().unwrap();
        sessions.touch(&session, from("192.0.2.1")).unwrap();
    }
    world.clock.advance_seconds(most % (ttl - 1) - 1);
    let (session, _) = sessions.check(&hash).unwrap().unwrap();
    assert_eq!(session.expires_at, session.created_at.plus_seconds(most));
    world.clock.advance_seconds(1);
    assert!(sessions.check(&hash).unwrap().is_none());
}

#[test]
fn the_password_confirms_a_session_for_some_time() {
    let world = fakes::hub();
    let ada = user(&world, "ada", false);
    let sessions = world.hub.sessions();
    let hash = sessions.sign_in("ada", PASSWORD, from("192.0.2.1")).unwrap().secret.hash();
    let is_confirmed = || sessions.is_confirmed(&sessions.check(&hash).unwrap().unwrap().0, &ada);
    world.clock.advance_seconds(world.hub.limits().confirm_seconds - 1);
    assert!(is_confirmed());
    world.clock.advance_seconds(1);
    assert!(!is_confirmed());
    let (session, user) = sessions.check(&hash).unwrap().unwrap();
    for wrong in ["another password", "short"] {
        assert!(matches!(sessions.confirm(&session, &user, wrong), Err(SignInError::Wrong)), "{wrong}");
        assert!(!is_confirmed());
    }
    sessions.confirm(&session, &user, PASSWORD).unwrap();
    assert!(is_confirmed());
}

#[test]
fn what_is_wrong_with_a_sign_in_is_not_said() {
    let world = fakes::hub();
    user(&world, "ada", false);
    let without = NewUser {
        name: OwnerName::parse("bob").unwrap(),
        email: "b@example.test".to_owned(),
        display_name: None,
        password: None,
        is_admin: false,
    };
    world.hub.people().create_user(without).unwrap();
    let long = "x".repeat(2_000);
    for (name, password) in
        [("ada", "wrong horse"), ("ada", ""), ("ada", &long), ("bob", PASSWORD), ("nobody", PASSWORD), ("-", PASSWORD)]
    {
        let refused = world.hub.sessions().sign_in(name, password, from("192.0.2.1"));
        assert!(matches!(refused, Err(SignInError::Wrong)), "{name} {password}");
    }
}

#[test]
fn a_new_password_ends_the_other_sessions() {
    let world = fakes::hub();
    let ada = user(&world, "ada", false);
    let sessions = world.hub.sessions();
    let open = || sessions.sign_in("ada", PASSWORD, from("192.0.2.1")).unwrap();
    let (kept, ended) = (open(), open());
    let new = hashed("battery staple");
    let wrong = sessions.change_password(&ada, "wrong horse", &new, Some(kept.session.id));
    assert!(matches!(wrong, Err(SignInError::Wrong)));
    assert!(sessions.check(&ended.secret.hash()).unwrap().is_some());
    sessions.change_password(&ada, PASSWORD, &new, Some(kept.session.id)).unwrap();
    assert!(sessions.check(&kept.secret.hash()).unwrap().is_some());
    assert!(sessions.check(&ended.secret.hash()).unwrap().is_none());
    assert!(sessions.sign_in("ada", PASSWORD, from("192.0.2.1")).is_err());
    sessions.sign_in("ada", "battery staple", from("192.0.2.1")).unwrap();
}

#[test]
fn one_session_too_many_ends_the_oldest() {
    let world = fakes::hub();
    let ada = user(&world, "ada", false);
    let sessions = world.hub.sessions();
    let first = sessions.open(ada.clone(), from("192.0.2.1")).unwrap();
    for _ in 1..Sessions::PER_USER {
        sessions.open(ada.clone(), from("192.0.2.1")).unwrap();
    }
    assert!(sessions.check(&first.secret.hash()).unwrap().is_some());
    sessions.open(ada.clone(), from("192.0.2.1")).unwrap();
    assert!(sessions.check(&first.secret.hash()).unwrap().is_none());
    assert_eq!(sessions.list(&ada).unwrap().len(), Sessions::PER_USER);
}

#[test]
fn the_administrators_link_is_there_until_it_is_used() {
    for mode in [SignUp::Open, SignUp::Invitation, SignUp::Closed] {
        let world = hub(mode);
        let invitations = world.hub.invitations();
        let old = invitations.administrator().unwrap().unwrap();
        let link = invitations.administrator().unwrap().unwrap();
        let with = |secret: &PlainSecret, name: &str| invitations.sign_up(applicant(name), Some(secret.expose()));
        assert!(matches!(with(&old.secret, "ada"), Err(SignUpError::NoSuchInvitation)));
        assert!(matches!(with(&link.secret, "api"), Err(SignUpError::People(PeopleError::NameReserved(_)))));
        let ada = with(&link.secret, "ada").unwrap();
        assert!(ada.is_admin);
        assert!(matches!(with(&link.secret, "bob"), Err(SignUpError::NoSuchInvitation)));
        assert!(invitations.administrator().unwrap().is_none());
    }
}

#[test]
fn the_mode_says_who_may_sign_up() {
    let without = |mode: SignUp| hub(mode).hub.invitations().sign_up(applicant("bob"), None);
    assert!(!without(SignUp::Open).unwrap().is_admin);
    assert!(matches!(without(SignUp::Invitation), Err(SignUpError::InvitationNeeded)));
    assert!(matches!(without(SignUp::Closed), Err(SignUpError::Closed)));

    let world = hub(SignUp::Invitation);
    let (root, bob) = (user(&world, "root", true), user(&world, "bob", false));
    let invitations = world.hub.invitations();
    assert!(matches!(invitations.create(&bob), Err(SignUpError::NotYours)));
    assert!(matches!(invitations.list(&bob), Err(SignUpError::NotYours)));
    let (used, revoked, expired) =
        (invitations.create(&root).unwrap(), invitations.create(&root).unwrap(), invitations.create(&root).unwrap());
    assert!(invitations.revoke(&root, revoked.invitation.id).unwrap());
    assert!(matches!(
        invitations.sign_up(applicant("bob"), Some(used.secret.expose())),
        Err(SignUpError::People(PeopleError::NameTaken(_)))
    ));
    assert!(!invitations.sign_up(applicant("cyn"), Some(used.secret.expose())).unwrap().is_admin);
    let refused = |secret: &str| invitations.sign_up(applicant("dan"), Some(secret)).is_err();
    assert!(refused(used.secret.expose()) && refused(revoked.secret.expose()) && refused("no secret"));
    world.clock.advance_seconds(world.hub.limits().invitation_seconds);
    assert!(refused(expired.secret.expose()));
    assert_eq!(invitations.list(&root).unwrap(), []);

    let closed = hub(SignUp::Closed);
    let root = user(&closed, "root", true);
    assert!(matches!(closed.hub.invitations().create(&root), Err(SignUpError::Closed)));
}

#[test]
fn attempts_are_counted_by_account_and_by_network() {
    let sign_ins = SignInLimits { per_account: 2, per_address: 3, window_seconds: 60 };
    let world = fakes::hub_with(Limits { sign_ins, ..Limits::default() });
    let count = |account: &str, network: u128| world.hub.sessions().count_attempt(account, network).unwrap();
    assert_eq!(count("ann", 1), None);
    world.clock.advance_seconds(10);
    assert_eq!(count("ANN", 2), None);
    world.clock.advance_seconds(10);
    assert_eq!(count("ann", 3), Some(40), "the account, from wherever");
    assert_eq!(count("bob", 1), None);
    assert_eq!(count("cyn", 1), None);
    assert_eq!(count("dan", 1), Some(40), "the network, whatever the account");
    assert_eq!(count("dan", 4), None);
    assert_eq!(count("dan", 4), None, "the attempt over the limit of the network did not count");
    world.clock.advance_seconds(40);
    assert_eq!(count("ann", 1), None, "a new window");
}

#[test]
fn zero_is_no_limit_of_attempts() {
    let sign_ins = SignInLimits { per_account: 0, per_address: 0, window_seconds: 60 };
    let world = fakes::hub_with(Limits { sign_ins, ..Limits::default() });
    assert!((0..100).all(|_| world.hub.sessions().count_attempt("ann", 1).unwrap().is_none()));
}
