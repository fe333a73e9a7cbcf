//! Checks of deleted users and of what is stored about a user.

use super::{account_id, at, database, id, operation, operation_id, owner, pull, read, scene, user, write};
use branchyard_auth::HashedToken;
use branchyard_domain::entities::{
    Activity, ActivityKind, FailureKind, Invitation, LastUse, MemberRole, OperationFailure, OperationStatus,
    PullComment, RetiredName, Role, Session, Token, User,
};
use branchyard_domain::ports::{Durability, Metadata, OperationFilter, WriteKeys};
use branchyard_domain::values::{ActivityId, CommentId, InvitationId, OwnerName, SessionId, TokenId};

use super::organization;

fn token(of: &User) -> Token {
    Token {
        id: TokenId::from_uuid(id(1)),
        user_id: of.id,
        name: "ci".to_owned(),
        hash: HashedToken::from_bytes([1; 32]),
        created_at: at(0),
        expires_at: at(1_000),
        last_use: None,
    }
}

fn session(of: &User) -> Session {
    Session {
        id: SessionId::from_uuid(id(2)),
        user_id: of.id,
        hash: HashedToken::from_bytes([2; 32]),
        created_at: at(0),
        expires_at: at(1_000),
        confirmed_at: at(0),
        last_use: LastUse { at: at(0), address: "192.0.2.1".to_owned(), user_agent: "browser".to_owned() },
    }
}

/// Checks the deletion of a user: what ends with it, what stays and shows the name, and erasure.
pub fn deleted_users(store: &dyn Metadata) {
    let (ann, bob, menu) = scene(store);
    let acme = organization(30, "Acme");
    let gone = database(31, &bob, "gone");
    let mut admin = user(32, "root");
    admin.is_admin = true;
    let comment = PullComment {
        id: CommentId::from_uuid(id(40)),
        author: bob.name.clone(),
        body: "Fine".to_owned(),
        created_at: at(5),
        updated_at: at(5),
    };
    let pulled = pull(1, &menu, &menu, "work", &bob);
    write(store, |tx| {
        assert_eq!(tx.users().count_active_admins().unwrap(), 1, "Ann");
        tx.users().add(&admin).unwrap();
        assert_eq!(tx.users().count_active_admins().unwrap(), 2);
        tx.organizations().add(&acme).unwrap();
        tx.members().put(acme.id, bob.id, MemberRole::Member, at(1)).unwrap();
        tx.tokens().add(&token(&bob)).unwrap();
        tx.sessions().add(&session(&bob)).unwrap();
        let invitation = Invitation {
            id: InvitationId::from_uuid(id(3)),
            hash: HashedToken::from_bytes([3; 32]),
            is_admin: false,
            created_by: Some(bob.id),
            created_at: at(0),
            expires_at: at(1_000),
        };
        tx.invitations().add(&invitation).unwrap();
        tx.collaborators().put(menu.id, bob.id, Role::Write, at(2)).unwrap();
        tx.stars().add(menu.id, bob.id, at(3)).unwrap();
        tx.stars().add(menu.id, ann.id, at(3)).unwrap();
        tx.databases().add(&gone).unwrap();
        tx.pulls().add(&pulled).unwrap();
        tx.pull_comments().add(menu.id, pulled.number, bob.id, &comment).unwrap();
        let activity = Activity {
            id: ActivityId::from_uuid(id(50)),
            database_id: menu.id,
            at: at(6),
            by: bob.id,
            by_name: bob.name.clone(),
            kind: ActivityKind::BranchCreated { branch: super::reference("work") },
        };
        tx.activities().add(&activity).unwrap();
        for n in [60, 61] {
            tx.operations().add(&operation(n, &menu, &bob)).unwrap();
        }
        let mut settled = operation(60, &menu, &bob);
        settled.status = OperationStatus::Failed(OperationFailure::new(FailureKind::Canceled, "x"));
        settled.finished_at = Some(at(7));
        assert!(tx.operations().settle(&settled, None).unwrap());
    });
    read(store, |tx| {
        let roles = tx.personal_data().list_collaborations(bob.id).unwrap();
        assert_eq!(roles, [(menu.locator.clone(), Role::Write, at(2))]);
        assert_eq!(tx.personal_data().list_stars(bob.id).unwrap(), [(menu.locator.clone(), at(3))]);
        let pulls = tx.personal_data().list_pulls(bob.id).unwrap();
        assert_eq!(pulls.len(), 1);
        assert_eq!(
            (&pulls[0].database, pulls[0].number, &pulls[0].title),
            (&menu.locator, pulled.number, &pulled.title)
        );
        let comments = tx.personal_data().list_comments(bob.id).unwrap();
        assert_eq!(comments, [(menu.locator.clone(), pulled.number, comment.clone())]);
        let activities = tx.personal_data().list_activities(bob.id).unwrap();
        assert_eq!(activities.len(), 1);
        assert_eq!((&activities[0].0, activities[0].1.by), (&menu.locator, bob.id));
        let empty = account_id(99);
        assert!(tx.personal_data().list_collaborations(empty).unwrap().is_empty());
        assert!(tx.personal_data().list_comments(ann.id).unwrap().is_empty());
    });
    write(store, |tx| {
        let mut deleted = gone.clone();
        deleted.deleted_at = Some(at(8));
        assert!(tx.databases().update(&deleted).unwrap());
        tx.users().remove(bob.id, at(9)).unwrap();
    });
    write(store, |tx| {
        assert_eq!(tx.users().get(bob.id).unwrap(), None);
        assert_eq!(tx.accounts().by_name(&bob.name).unwrap(), None);
        assert_eq!(
            tx.accounts().retired(&owner("BOB")).unwrap(),
            Some(RetiredName { id: bob.id, at: at(9), by: None })
        );
        assert!(tx.tokens().by_hash(&HashedToken::from_bytes([1; 32])).unwrap().is_none());
        assert!(tx.sessions().by_hash(&HashedToken::from_bytes([2; 32])).unwrap().is_none());
        assert!(tx.invitations().list().unwrap().is_empty());
        assert_eq!(tx.members().get(acme.id, bob.id).unwrap(), None);
        assert_eq!(tx.collaborators().get(menu.id, bob.id).unwrap(), None);
        assert_eq!(tx.stars().get(menu.id, bob.id).unwrap(), None);
        assert_eq!(tx.databases().get(menu.id).unwrap().unwrap().star_count, 1, "only that star");
        let comments = tx.pull_comments().list(menu.id, pulled.number, None, 10).unwrap();
        assert_eq!(comments, std::slice::from_ref(&comment), "what was written stays, with the name");
        // A request that was authenticated before the deletion must not open a way back.
        tx.tokens().add(&token(&bob)).unwrap();
        tx.sessions().add(&session(&bob)).unwrap();
        assert!(tx.tokens().by_hash(&HashedToken::from_bytes([1; 32])).unwrap().is_none());
        assert!(tx.sessions().by_hash(&HashedToken::from_bytes([2; 32])).unwrap().is_none());
        tx.users().remove(admin.id, at(9)).unwrap();
        assert_eq!(tx.users().count_active_admins().unwrap(), 1);
    });
    write(store, |tx| tx.users().erase(bob.id).unwrap());
    let erased = OwnerName::deleted_user();
    write(store, |tx| {
        let comments = tx.pull_comments().list(menu.id, pulled.number, None, 10).unwrap();
        assert_eq!((&comments[0].author, comments[0].body.as_str()), (&erased, "Fine"));
        assert_eq!(tx.pulls().get(menu.id, pulled.number).unwrap().unwrap().creator, erased);
        assert_eq!(tx.activities().list(menu.id, 9).unwrap()[0].by_name, erased);
        let left = tx.operations().list_by(bob.id, OperationFilter::default(), None, 9).unwrap();
        let left: Vec<_> = left.iter().map(|operation| (operation.id, &operation.created_by_name)).collect();
        assert_eq!(left, [(operation_id(61), &erased)], "settled ones are gone with their texts");
        assert_eq!(tx.databases().get(gone.id).unwrap().unwrap().locator.owner, erased);
        assert_eq!(tx.databases().get(menu.id).unwrap().unwrap().locator.owner, ann.name);
        assert_eq!(tx.accounts().retired(&bob.name).unwrap(), Some(RetiredName { id: bob.id, at: at(9), by: None }));
        assert_eq!(tx.accounts().forget_names(at(9)).unwrap(), 0, "deleted then, not before");
        assert_eq!(tx.accounts().forget_names(at(10)).unwrap(), 1);
        assert_eq!(tx.accounts().forget_names(at(10)).unwrap(), 0);
        assert_eq!(tx.accounts().retired(&bob.name).unwrap(), None);
        assert!(tx.accounts().retired(&admin.name).unwrap().is_some(), "not erased, so not forgotten");
    });
    // Only a deleted user can be erased.
    let mut tx = store.write(&WriteKeys::any()).unwrap();
    assert!(tx.users().erase(ann.id).is_err());
    drop(tx);
    let mut tx = store.write(&WriteKeys::any()).unwrap();
    tx.users().add(&user(70, "bob")).unwrap();
    tx.commit(Durability::Synced).unwrap();
    assert_eq!(read(store, |tx| tx.accounts().by_name(&bob.name).unwrap().unwrap().id), account_id(70));
}
