//! Cached lookups are correct: every change of the store invalidates them.

use branchyard_domain::access::{Caller, Participate, Read};
use branchyard_domain::entities::{Role, Visibility};
use branchyard_domain::values::TokenExpiry;

use crate::harness::{create, user, world};

#[test]
fn a_token_is_known_after_it_was_checked_and_unknown_once_deleted() {
    let world = world();
    let tokens = world.hub.tokens();
    let expiry = TokenExpiry::ALL[0];
    let minted = tokens.create(user(&world.ada), "laptop", expiry, tokens.mint(), None).unwrap();
    let hash = minted.token.hash;
    assert!(tokens.known(&hash).is_none(), "nobody has asked so far");
    assert_eq!(tokens.check(&hash).unwrap().unwrap().1.id, user(&world.ada).id);
    assert_eq!(tokens.known(&hash).unwrap().0.id, minted.token.id);
    tokens.delete(user(&world.ada), minted.token.id).unwrap();
    assert!(tokens.known(&hash).is_none());
    assert!(tokens.check(&hash).unwrap().is_none());
}

#[test]
fn a_token_that_expires_is_not_known_any_more() {
    let world = world();
    let tokens = world.hub.tokens();
    let expiry = TokenExpiry::ALL[0];
    let minted = tokens.create(user(&world.ada), "laptop", expiry, tokens.mint(), None).unwrap();
    let hash = minted.token.hash;
    tokens.check(&hash).unwrap().unwrap();
    world.fakes.clock.advance_seconds(i64::from(expiry.days()) * 86_400);
    assert!(tokens.known(&hash).is_none());
    assert!(tokens.check(&hash).unwrap().is_none());
}

#[test]
fn a_role_is_known_until_it_changes_and_a_refusal_never() {
    let world = world();
    let databases = world.hub.databases();
    create(&world.hub, &world.ada, ("ada", "secret"), Visibility::Private);
    let known = |caller: &Caller| databases.known_access::<Participate>(caller, "ada", "secret").is_some();
    assert!(databases.access::<Participate>(&world.ben, "ada", "secret").is_err());
    assert!(!known(&world.ben));
    databases.access::<Read>(&world.ada, "ada", "secret").unwrap();
    assert!(known(&world.ada), "of any level, once the role is known");
    assert!(!known(&world.ben), "for that caller only");
    world.invite(&world.ben, Role::Read);
    assert!(!known(&world.ada), "any change counts");
}

#[test]
fn a_branch_is_known_until_it_moves() {
    let world = world();
    let access = world.access::<Read>(&world.ada);
    let sql = world.hub.sql();
    for name in [None, Some("main"), Some("main~0")] {
        assert_eq!(sql.known(&access, name), None);
        let commit = sql.resolve(&access, name).unwrap();
        assert_eq!(sql.known(&access, name), Some(commit));
    }
    assert!(sql.resolve(&access, Some("nowhere")).is_err());
    assert_eq!(sql.known(&access, Some("nowhere")), None);
    let moved = world.wrote("main", "INSERT INTO t VALUES (2,'two')");
    assert_eq!(sql.known(&access, Some("main")), None);
    assert_eq!(sql.resolve(&access, Some("main")).unwrap(), moved);
}
