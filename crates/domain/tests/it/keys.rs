//! Users' keys: limits, look-ups with their cache, and what ends them.

use branchyard_auth::{PasswordHash, PlainPassword};
use branchyard_domain::entities::UserKey;
use branchyard_domain::errors::KeyError;
use branchyard_domain::usecases::{DeleteUser, Limits};
use branchyard_domain::values::PublicKey;

use crate::harness::{DB, DomainHarness, user, world, world_with};

fn key(n: u8) -> PublicKey {
    PublicKey::from_bytes([n; 32])
}

fn added(world: &DomainHarness, n: u8) -> UserKey {
    world.hub.keys().add(user(&world.ada), "laptop", key(n), None).unwrap()
}

fn is_accepted(world: &DomainHarness, n: u8) -> bool {
    world.hub.keys().find(&key(n).id()).unwrap().is_some()
}

#[test]
fn a_key_is_accepted_until_it_is_removed() {
    let world = world();
    let keys = world.hub.keys();
    assert!(!is_accepted(&world, 1));
    let added = added(&world, 1);
    assert_eq!((&added.kid, added.name.as_str(), added.last_used_at), (&key(1).id(), "laptop", None));
    let (found, of) = keys.find(&added.kid).unwrap().unwrap();
    assert_eq!((&found, of.id), (&added, user(&world.ada).id));
    keys.touch(added.id, world.hub.now()).unwrap();
    let used = keys.find(&added.kid).unwrap().unwrap().0;
    assert_eq!(used.last_used_at, Some(world.hub.now()));
    assert!(matches!(keys.remove(user(&world.ben), added.id), Err(KeyError::NoSuchKey)));
    assert!(is_accepted(&world, 1));
    assert_eq!(keys.remove(user(&world.ada), added.id).unwrap(), used);
    assert!(!is_accepted(&world, 1));
    assert!(matches!(keys.remove(user(&world.ada), added.id), Err(KeyError::NoSuchKey)));
}

#[test]
fn a_key_belongs_to_one_user_and_a_user_has_so_many() {
    let world = world_with(Limits { keys_per_user: 2, ..Limits::default() });
    let keys = world.hub.keys();
    let (one, two) = (added(&world, 1), added(&world, 2));
    assert_eq!(keys.list(user(&world.ada), None, 9).unwrap(), [two.clone(), one.clone()]);
    assert_eq!(keys.list(user(&world.ada), Some(two.id), 9).unwrap(), std::slice::from_ref(&one));
    assert!(matches!(keys.add(user(&world.ben), "laptop", key(1), None), Err(KeyError::Taken)));
    assert!(matches!(keys.add(user(&world.ada), "laptop", key(3), None), Err(KeyError::TooMany(2))));
    assert!(!is_accepted(&world, 3), "what was refused is not stored");
    keys.remove(user(&world.ada), one.id).unwrap();
    keys.add(user(&world.ben), "laptop", key(1), None).unwrap();
    added(&world, 3);
    assert!(keys.list(user(&world.ben), None, 9).unwrap().len() == 1 && is_accepted(&world, 3));
}

#[test]
fn keys_end_with_their_user() {
    let world = world();
    let administration = world.hub.administration();
    let operator = administration.operator();
    added(&world, 1);
    assert!(is_accepted(&world, 1));
    administration.suspend(&operator, "ada").unwrap();
    assert!(!is_accepted(&world, 1));
    administration.resume(&operator, "ada").unwrap();
    assert!(is_accepted(&world, 1));
    let data = world.hub.people().personal_data(user(&world.ada).id).unwrap();
    assert_eq!(data.keys.iter().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["laptop"]);

    assert_eq!(administration.revoke_tokens(&operator, "ada").unwrap(), 1);
    assert!(!is_accepted(&world, 1));
    added(&world, 1);
    let password = PlainPassword::new("correct horse".to_owned()).unwrap();
    let password: PasswordHash = password.hash_from(&mut |buffer| buffer.fill(7)).unwrap();
    let sessions = world.hub.sessions();
    assert_eq!(sessions.reset_password(user(&world.ada), &password, false).unwrap(), 0);
    assert!(is_accepted(&world, 1));
    assert_eq!(sessions.reset_password(user(&world.ada), &password, true).unwrap(), 1);
    assert!(!is_accepted(&world, 1));

    added(&world, 1);
    assert!(is_accepted(&world, 1));
    let wanted = DeleteUser { with_databases: true, erase: true };
    let deleted = world.hub.people().delete_user(&user(&world.ada).name, wanted).unwrap();
    assert_eq!(deleted.databases[0].to_string(), format!("{}/{}", DB.0, DB.1));
    assert!(!is_accepted(&world, 1));
    world.hub.keys().add(user(&world.ben), "laptop", key(1), None).unwrap();
}
