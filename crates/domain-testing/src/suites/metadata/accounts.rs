//! Checks of accounts and tokens.

use super::{account_id, at, id, organization, owner, read, scene, taken, user, write};
use branchyard_auth::{HashedToken, PublicKey};
use branchyard_domain::entities::{AccountKind, LastUse, Token, User, UserKey};
use branchyard_domain::ports::{Metadata, MetadataError};
use branchyard_domain::values::{TokenId, UserKeyId};

/// Checks users and organizations, whose names are unique case-insensitively.
pub fn accounts(store: &dyn Metadata) {
    let (ann, bob) = (user(1, "Ann"), user(2, "bob"));
    let acme = organization(3, "Acme");
    write(store, |tx| {
        tx.users().add(&ann).unwrap();
        tx.users().add(&bob).unwrap();
        tx.organizations().add(&acme).unwrap();
        taken(tx.users().add(&user(4, "ANN")));
        taken(tx.organizations().add(&organization(5, "BOB")));
        // The transaction remains usable after a rejected row, and nothing of the row is stored.
        assert_eq!(tx.users().get(account_id(4)).unwrap(), None);
    });
    read(store, |tx| {
        assert_eq!(tx.users().get(ann.id).unwrap().unwrap(), ann);
        assert_eq!(tx.users().get(acme.id).unwrap(), None);
        assert_eq!(tx.organizations().get(acme.id).unwrap().unwrap(), acme);
        assert_eq!(tx.organizations().get(ann.id).unwrap(), None);
        let found = tx.accounts().by_name(&owner("aNN")).unwrap().unwrap();
        assert_eq!((found.id, found.name.as_str(), found.kind), (ann.id, "Ann", AccountKind::User));
        let found = tx.accounts().by_name(&owner("acme")).unwrap().unwrap();
        assert_eq!((found.id, found.kind), (acme.id, AccountKind::Organization));
        assert_eq!(tx.accounts().by_name(&owner("absent")).unwrap(), None);
    });
}

/// Checks look-ups of tokens by hash and by user, and the record of their last use.
pub fn tokens(store: &dyn Metadata) {
    let (ann, bob, _) = scene(store);
    let token = |n: u8, of: &User, expires_at| Token {
        id: TokenId::from_uuid(id(n.into())),
        user_id: of.id,
        name: format!("token {n}"),
        hash: HashedToken::from_bytes([n; 32]),
        created_at: at(0),
        expires_at,
        last_use: None,
    };
    write(store, |tx| {
        for n in 1..=3 {
            tx.tokens().add(&token(n, &ann, at(i64::from(n) * 10))).unwrap();
        }
        tx.tokens().add(&token(4, &bob, at(100))).unwrap();
    });
    let ids = |tokens: Vec<Token>| tokens.into_iter().map(|token| token.id.as_uuid().as_u128()).collect::<Vec<_>>();
    read(store, |tx| {
        let (found, whose) = tx.tokens().by_hash(&HashedToken::from_bytes([2; 32])).unwrap().unwrap();
        assert_eq!((found.id, found.name.as_str(), found.expires_at), (token(2, &ann, at(0)).id, "token 2", at(20)));
        assert_eq!(found.hash, HashedToken::from_bytes([2; 32]));
        assert_eq!(found.last_use, None);
        assert_eq!(whose, ann);
        assert!(tx.tokens().by_hash(&HashedToken::from_bytes([9; 32])).unwrap().is_none());
        let first = tx.tokens().list(ann.id, None, 2).unwrap();
        assert_eq!(ids(first.clone()), [3, 2]);
        assert_eq!(ids(tx.tokens().list(ann.id, Some(first[1].id), 2).unwrap()), [1]);
        assert_eq!(tx.tokens().count_live(ann.id, at(10)).unwrap(), 2, "at its end a token is expired");
    });
    let last_use = LastUse { at: at(5), address: "192.0.2.1".to_owned(), user_agent: "curl".to_owned() };
    write(store, |tx| {
        tx.tokens().touch(TokenId::from_uuid(id(2)), &last_use).unwrap();
        tx.tokens().touch(TokenId::from_uuid(id(99)), &last_use).unwrap();
        assert!(tx.tokens().remove(bob.id, TokenId::from_uuid(id(2))).unwrap().is_none(), "not bob's");
        let removed = tx.tokens().remove(ann.id, TokenId::from_uuid(id(2))).unwrap().unwrap();
        assert_eq!(removed.last_use, Some(last_use));
        assert!(tx.tokens().remove(ann.id, TokenId::from_uuid(id(2))).unwrap().is_none());
    });
    read(store, |tx| {
        assert!(tx.tokens().by_hash(&HashedToken::from_bytes([2; 32])).unwrap().is_none());
    });
}

/// Checks look-ups of keys by the id that clients name and by user, and the record of their last use.
pub fn user_keys(store: &dyn Metadata) {
    let (ann, bob, _) = scene(store);
    let key = |n: u8, of: &User| {
        let public_key = PublicKey::from_bytes([n; 32]);
        UserKey {
            id: UserKeyId::from_uuid(id(n.into())),
            user_id: of.id,
            name: format!("key {n}"),
            public_key,
            kid: public_key.id(),
            created_at: at(1),
            last_used_at: None,
        }
    };
    write(store, |tx| {
        for n in 1..=3 {
            tx.user_keys().add(&key(n, &ann)).unwrap();
        }
        tx.user_keys().add(&key(4, &bob)).unwrap();
    });
    write(store, |tx| {
        let same = UserKey { id: UserKeyId::from_uuid(id(9)), user_id: bob.id, ..key(2, &ann) };
        assert!(matches!(tx.user_keys().add(&same), Err(MetadataError::Taken)), "a key belongs to one user");
    });
    read(store, |tx| {
        let found = tx.user_keys().by_kid(&key(2, &ann).kid).unwrap().unwrap();
        assert_eq!(found, (key(2, &ann), ann.clone()));
        assert!(tx.user_keys().by_kid(&key(7, &ann).kid).unwrap().is_none());
        let first = tx.user_keys().list(ann.id, None, 2).unwrap();
        assert_eq!(first, [key(3, &ann), key(2, &ann)]);
        assert_eq!(tx.user_keys().list(ann.id, Some(first[1].id), 2).unwrap(), [key(1, &ann)]);
        assert_eq!((tx.user_keys().count(ann.id).unwrap(), tx.user_keys().count(bob.id).unwrap()), (3, 1));
    });
    write(store, |tx| {
        tx.user_keys().touch(key(2, &ann).id, at(7)).unwrap();
        tx.user_keys().touch(UserKeyId::from_uuid(id(99)), at(7)).unwrap();
        assert_eq!(tx.users().last_seen(ann.id).unwrap(), Some(at(7)));
        assert!(tx.user_keys().remove(bob.id, key(2, &ann).id).unwrap().is_none(), "not bob's");
        let removed = tx.user_keys().remove(ann.id, key(2, &ann).id).unwrap();
        assert_eq!(removed, Some(UserKey { last_used_at: Some(at(7)), ..key(2, &ann) }));
        tx.users().remove(ann.id, at(8)).unwrap();
    });
    read(store, |tx| {
        for n in 1..=3 {
            assert!(tx.user_keys().by_kid(&key(n, &ann).kid).unwrap().is_none(), "{n}");
        }
    });
}
