//! Checks of the activity log.

use super::{at, database, hash, id, organization, read, reference, scene, user, write};
use branchyard_domain::entities::{Activity, ActivityKind, Database, FileState, MemberRole, PullAction, Role, User};
use branchyard_domain::ports::Metadata;
use branchyard_domain::values::{ActivityId, OwnerName, PullNumber};

fn activity(n: u128, of: &Database, by: &User, kind: ActivityKind) -> Activity {
    let seconds = i64::try_from(n).unwrap();
    let by_name = by.name.clone();
    Activity { id: ActivityId::from_uuid(id(n)), database_id: of.id, at: at(seconds), by: by.id, by_name, kind }
}

/// Checks the activity log: order, lists by database and by pull request, purging except for pull requests; and the
/// list of a user's databases.
pub fn activities(store: &dyn Metadata) {
    let (ann, bob, menu) = scene(store);
    let zoe = user(3, "zoe");
    let acme = organization(4, "acme");
    let of_acme = User { id: acme.id, name: acme.name.clone(), ..user(4, "acme") };
    let (others, ours) = (database(11, &bob, "others"), database(12, &of_acme, "ours"));
    let one = PullNumber::new(1).unwrap();
    let kinds = [
        ActivityKind::Pushed { branch: reference("main"), head: hash(7) },
        ActivityKind::BranchCreated { branch: reference("draft") },
        ActivityKind::Pull { number: one, action: PullAction::Opened },
        ActivityKind::Pull { number: one, action: PullAction::Closed },
        ActivityKind::Pull { number: one, action: PullAction::Reopened },
        ActivityKind::Pull { number: PullNumber::new(2).unwrap(), action: PullAction::Merged },
        ActivityKind::BranchDeleted { branch: reference("draft") },
        ActivityKind::Released { tag: reference("v1") },
    ];
    let all: Vec<Activity> =
        (1_u128..).zip(kinds).map(|(n, kind)| activity(n, &menu, if n < 4 { &ann } else { &bob }, kind)).collect();
    write(store, |tx| {
        tx.users().add(&zoe).unwrap();
        tx.organizations().add(&acme).unwrap();
        tx.members().put(acme.id, ann.id, MemberRole::Member, at(0)).unwrap();
        tx.databases().add(&others).unwrap();
        tx.databases().add(&ours).unwrap();
        tx.collaborators().put(others.id, zoe.id, Role::Read, at(0)).unwrap();
        for one in &all {
            // The store ignores `by_name` and returns the name of the account.
            tx.activities().add(&Activity { by_name: OwnerName::parse("absent").unwrap(), ..one.clone() }).unwrap();
        }
        tx.activities().add(&activity(20, &others, &bob, all[0].kind.clone())).unwrap();
        tx.databases().record_write(ours.id, at(50), FileState { size_bytes: 1, engine_format: 12 }).unwrap();
    });
    let newest: Vec<Activity> = all.iter().rev().cloned().collect();
    read(store, |tx| {
        assert_eq!(tx.activities().list(menu.id, 100).unwrap(), newest);
        assert_eq!(tx.activities().list(menu.id, 2).unwrap(), newest[..2]);
        assert_eq!(tx.activities().list_of_pull(menu.id, one, 100).unwrap(), newest[3..6]);
        assert_eq!(tx.activities().list_of_pull(menu.id, one, 1).unwrap(), newest[3..4]);
        let names = |found: Vec<Database>| found.iter().map(|d| d.locator.name.to_string()).collect::<Vec<_>>();
        assert_eq!(names(tx.databases().list_of_user(ann.id, 10).unwrap()), ["ours", menu.locator.name.as_str()]);
        assert_eq!(names(tx.databases().list_of_user(ann.id, 1).unwrap()), ["ours"]);
        assert_eq!(names(tx.databases().list_of_user(bob.id, 10).unwrap()), ["others"]);
        assert_eq!(names(tx.databases().list_of_user(zoe.id, 10).unwrap()), ["others"]);
    });
    write(store, |tx| {
        assert_eq!(tx.activities().purge(at(1)).unwrap(), 0);
        assert_eq!(tx.activities().purge(at(8)).unwrap(), 3, "what happened to pulls stays");
    });
    read(store, |tx| assert_eq!(tx.activities().list(menu.id, 100).unwrap().len(), 5));
    write(store, |tx| tx.activities().clear(menu.id).unwrap());
    read(store, |tx| {
        assert!(tx.activities().list(menu.id, 100).unwrap().is_empty());
        assert_eq!(tx.activities().list(others.id, 100).unwrap().len(), 1);
    });
}
